//! Micro-kernels of quantized products in plain Rust.

use super::{
    Accumulators, Columns, LANES, MR, MicroKernels, Out, Tile, no_op, pack::LINE, requant,
};

pub(super) static KERNELS: MicroKernels = MicroKernels {
    tiles,
    sum: requant::sum,
    reach: requant::reach,
    configure: no_op,
    release: no_op,
    mr: MR,
    fallback: None,
};

/// Computes the sums of tiles and writes them to `out`.
///
/// # Safety
///
/// The pointers of `tile` are valid as [`Tile`] requires, and `out` points to its `count * rows` rows of
/// `columns.count` elements, `stride` apart.
unsafe fn tiles(tile: &Tile, columns: &Columns, out: Out, stride: usize) {
    let mut sums = Accumulators::new();
    tile.each(out, stride, |tile, out| {
        // SAFETY: the rows and weights of the tile are readable, and `out` is valid for its rows of
        // the columns.
        unsafe {
            columns.begin(tile, &mut sums);
            multiply(tile, &mut sums);
            requant::finish(&sums.0[..tile.rows], columns, out, stride);
        }
    });
}

/// Adds the products of a tile to its sums.
///
/// # Safety
///
/// The pointers of `tile` are valid as [`Tile`] requires.
unsafe fn multiply(tile: &Tile, sums: &mut Accumulators) {
    let groups = tile.groups + usize::from(tile.tail > 0);
    for (row, sums) in sums.0[..tile.rows].iter_mut().enumerate() {
        for tap in 0..tile.taps {
            // SAFETY: the row and the tap are of the tile.
            let a = unsafe { tile.tap_ptr(row, tap) };
            for group in 0..groups {
                let group_start = a.wrapping_add(group * 4);
                let a = if group < tile.groups {
                    // SAFETY: `Tile` guarantees that the row has these four values.
                    unsafe { group_start.cast::<[u8; 4]>().read() }
                } else {
                    // SAFETY: `Tile` guarantees that the row has `tail` more values.
                    unsafe { tile.tail(group_start) }
                };
                let a = a.map(i32::from);
                let b = tile.b.wrapping_add((tap * groups + group) * tile.vectors * LINE);
                for (vector, sums) in sums.chunks_exact_mut(LANES).take(tile.vectors).enumerate() {
                    // SAFETY: the group's line is readable, as `Tile` guarantees.
                    let b = unsafe { &*b.add(vector * LINE).cast::<[[i8; 4]; LANES]>() };
                    for (sum, b) in sums.iter_mut().zip(b) {
                        let products = std::array::from_fn::<i32, 4, _>(|i| a[i] * i32::from(b[i]));
                        *sum = sum.wrapping_add(products.iter().sum());
                    }
                }
            }
        }
    }
}
