//! How a tile finds its rows of `A`.

use super::Tile;

/// Where the rows of a tile start, tap by tap.
pub(super) trait Source {
    /// Taps of the tile.
    fn taps(tile: &Tile) -> usize;

    /// The rows at a tap, or none if all of them are zeros.
    ///
    /// # Safety
    ///
    /// The tile must be one of this source, with `R` rows and more than `tap` taps.
    unsafe fn rows<const R: usize>(tile: &Tile, tap: usize) -> Option<[*const f32; R]>;
}

/// Rows so many elements apart, with one tap.
pub(super) struct Strided;

/// Rows that a list of pointers names.
pub(super) struct Indirect;

impl Source for Strided {
    fn taps(_: &Tile) -> usize {
        1
    }

    #[expect(clippy::inline_always, reason = "the rows must stay in registers")]
    #[inline(always)]
    unsafe fn rows<const R: usize>(tile: &Tile, _: usize) -> Option<[*const f32; R]> {
        Some(std::array::from_fn(|i| tile.a.wrapping_add(i.wrapping_mul(tile.lda))))
    }
}

impl Source for Indirect {
    fn taps(tile: &Tile) -> usize {
        tile.taps
    }

    #[expect(clippy::inline_always, reason = "the rows must stay in registers")]
    #[inline(always)]
    unsafe fn rows<const R: usize>(tile: &Tile, tap: usize) -> Option<[*const f32; R]> {
        let mut rows = [tile.zeros; R];
        let mut inside = false;
        for (i, row) in rows.iter_mut().enumerate() {
            let pixel = tile.pixels.wrapping_add(i * tile.ld_pixels + tap);
            // SAFETY: the list at `tile.pixels` has `R` rows, `ld_pixels` apart, of more than `tap` pointers.
            let pixel = unsafe { *pixel };
            inside |= pixel != tile.zeros;
            *row = pixel.wrapping_add(tile.channel);
        }
        inside.then_some(rows)
    }
}

/// What turns entries of a table into pointers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pixels {
    /// The first pixel.
    pub(super) a: *const f32,
    /// Elements from a pixel to the next.
    pub(super) lda: usize,
    /// Pixels that there are.
    pub(super) count: u32,
    /// The row that all other entries stand for.
    pub(super) zeros: *const f32,
}

impl Pixels {
    /// Where the pixel of each entry starts. Without branches, so that it becomes vector code of the
    /// instruction set of whoever calls.
    #[expect(clippy::inline_always, reason = "it must take on the caller's instruction set")]
    #[inline(always)]
    pub(super) fn resolve(&self, entries: &[u32], pointers: &mut [*const f32]) {
        for (pointer, &entry) in pointers.iter_mut().zip(entries) {
            let inside = self.a.wrapping_add((entry as usize).wrapping_mul(self.lda));
            *pointer = if entry < self.count { inside } else { self.zeros };
        }
    }
}
