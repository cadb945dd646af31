//! Plain Rust.

use super::{Forms, LANES, Row, Sums, Tile, pack::GROUP_BYTES, requant};

pub(super) const FORMS: Forms = Forms {
    multiply,
    finish_i32: requant::finish_i32,
    finish_f32: requant::finish_f32,
    finish_u8: requant::finish_u8,
};

fn multiply(tile: &Tile, start: &Row, sums: &mut Sums) {
    for (row, sums) in sums.0[..tile.rows].iter_mut().enumerate() {
        sums.copy_from_slice(start);
        for (vector, sums) in sums.chunks_exact_mut(LANES).take(tile.vectors).enumerate() {
            for group in 0..tile.groups + usize::from(tile.tail > 0) {
                let count = if group < tile.groups { 4 } else { tile.tail };
                let mut a = [0u8; 4];
                // SAFETY: the row has so many codes there, as `Tile` says.
                let from = unsafe { tile.a.add(row * tile.stride + group * 4) };
                for (i, a) in a[..count].iter_mut().enumerate() {
                    // SAFETY: as above.
                    *a = unsafe { from.add(i).read() };
                }
                let a = a.map(i32::from);
                // SAFETY: the group's 64 bytes are readable, as `Tile` says.
                let b =
                    unsafe { &*tile.b[vector].add(group * GROUP_BYTES).cast::<[[i8; 4]; LANES]>() };
                for (sum, b) in sums.iter_mut().zip(b) {
                    let products = std::array::from_fn::<i32, 4, _>(|i| a[i] * i32::from(b[i]));
                    *sum = sum.wrapping_add(products.iter().sum());
                }
            }
        }
    }
}
