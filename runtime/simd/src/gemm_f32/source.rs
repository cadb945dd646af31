//! The sources of a tile's rows of `A`: rows at a fixed stride, or rows that a table gathers from pixels.

use super::Tile;

/// The source of a tile's rows, tap by tap.
pub(super) trait Source {
    /// Returns the number of taps of the tile.
    fn taps(tile: &Tile) -> usize;

    /// Returns the rows at a tap, or `None` if all of them are zeros.
    ///
    /// # Safety
    ///
    /// The tile must use this source, with `R` rows and more than `tap` taps.
    unsafe fn rows<const R: usize>(tile: &Tile, tap: usize) -> Option<[*const f32; R]>;
}

/// Rows at a fixed stride, with one tap.
pub(super) struct Strided;

/// Rows from a list of pointers.
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
        let mut has_pixel = false;
        for (i, row) in rows.iter_mut().enumerate() {
            let pixel = tile.pixels.wrapping_add(i * tile.ld_pixels + tap);
            // SAFETY: the list at `tile.pixels` has `R` rows, `ld_pixels` apart, of more than `tap` pointers.
            let pixel = unsafe { *pixel };
            has_pixel |= pixel != tile.zeros;
            *row = pixel.wrapping_add(tile.channel);
        }
        has_pixel.then_some(rows)
    }
}

/// The pixels that table entries refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pixels {
    /// The first pixel.
    pub(super) a: *const f32,
    /// Elements between pixels.
    pub(super) lda: usize,
    /// Number of pixels.
    pub(super) count: u32,
    /// The row for entries out of range.
    pub(super) zeros: *const f32,
}

impl Pixels {
    /// Writes the address of each entry's pixel. The loop has no branches, so that it is vectorized for the caller's
    /// instruction set.
    #[expect(clippy::inline_always, reason = "it must take on the caller's instruction set")]
    #[inline(always)]
    pub(super) fn resolve(&self, entries: &[u32], pointers: &mut [*const f32]) {
        for (pointer, &entry) in pointers.iter_mut().zip(entries) {
            let pixel = self.a.wrapping_add((entry as usize).wrapping_mul(self.lda));
            *pointer = if entry < self.count { pixel } else { self.zeros };
        }
    }
}
