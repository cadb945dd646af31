//! The loops over blocks, written once for all instruction sets: the product, which dequantizes values in registers,
//! and the dequantization of columns.

use std::ops::Range;

use super::{Blocks, Width};
use crate::isa::{Simd, SimdOp, Vector};

/// The loop of [`multiply`](super::multiply).
pub(super) struct Multiply<'a> {
    pub(super) b: &'a Blocks<'a>,
    pub(super) columns: Range<usize>,
    pub(super) a: &'a [f32],
    pub(super) y: &'a mut [f32],
    pub(super) ldc: usize,
}

impl SimdOp for Multiply<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { b, columns, a, y, ldc } = self;
        let depth = b.depth().max(1);
        let mut rows = a.chunks(4 * depth).zip(y.chunks_mut((4 * ldc).max(1)));
        for (a, y) in rows.by_ref() {
            match a.len() / depth {
                4 => all_columns::<S, 4, 2>(simd, b, columns.clone(), a, y, ldc),
                3 => all_columns::<S, 3, 2>(simd, b, columns.clone(), a, y, ldc),
                2 => all_columns::<S, 2, 4>(simd, b, columns.clone(), a, y, ldc),
                _ => all_columns::<S, 1, 4>(simd, b, columns.clone(), a, y, ldc),
            }
        }
    }
}

/// Computes `R` rows, `C` columns at a time.
#[inline(always)]
fn all_columns<S: Vector, const R: usize, const C: usize>(
    simd: S,
    b: &Blocks<'_>,
    columns: Range<usize>,
    a: &[f32],
    y: &mut [f32],
    ldc: usize,
) {
    let Range { start: mut column, end } = columns;
    let mut output_column = 0;
    while column + C <= end {
        store::<R, C>(columns_at::<S, R, C>(simd, b, column, a), y, output_column, ldc);
        (column, output_column) = (column + C, output_column + C);
    }
    while column < end {
        store::<R, 1>(columns_at::<S, R, 1>(simd, b, column, a), y, output_column, ldc);
        (column, output_column) = (column + 1, output_column + 1);
    }
}

/// Stores `R` rows of `C` columns from an output column on.
#[inline(always)]
fn store<const R: usize, const C: usize>(
    sums: [[f32; C]; R],
    y: &mut [f32],
    output_column: usize,
    ldc: usize,
) {
    for (row, sums) in sums.into_iter().enumerate() {
        y[row * ldc + output_column..][..C].copy_from_slice(&sums);
    }
}

/// Computes `R` rows of `C` columns from `column` on.
#[inline(always)]
fn columns_at<S: Vector, const R: usize, const C: usize>(
    simd: S,
    b: &Blocks<'_>,
    column: usize,
    a: &[f32],
) -> [[f32; C]; R] {
    assert!(a.len() >= R * b.depth() && column + C <= b.columns, "rows and columns in range");
    let is_whole = b.width.bytes(b.block).is_multiple_of(S::LANES);
    let sums = match b.width {
        _ if !is_whole => any_blocks::<S, R, C>(simd, b, column, a),
        // SAFETY: blocks are whole vectors, and there are `R` rows and `C` columns.
        Width::Four => unsafe { vector_blocks::<S, R, C, true>(simd, b, column, a) },
        // SAFETY: as above.
        Width::Eight => unsafe { vector_blocks::<S, R, C, false>(simd, b, column, a) },
    };
    let mut results = [[0.0; C]; R];
    let mut r = 0;
    while r < R {
        let mut c = 0;
        while c < C {
            let [low, high] = sums[r][c];
            results[r][c] = simd.sum(simd.add(low, high));
            c += 1;
        }
        r += 1;
    }
    results
}

/// Two accumulators for each of `R` rows and `C` columns.
type Sums<S, const R: usize, const C: usize> = [[[<S as Simd>::F; 2]; C]; R];

/// Adds the products of blocks that are whole vectors of bytes, with two values per byte if `FOUR`.
///
/// # Safety
///
/// The bytes of a block are a multiple of `S::LANES`; `a` has `R` rows, and there are `C` columns from `column` on.
#[inline(always)]
unsafe fn vector_blocks<S: Vector, const R: usize, const C: usize, const FOUR: bool>(
    simd: S,
    b: &Blocks<'_>,
    column: usize,
    a: &[f32],
) -> Sums<S, R, C> {
    let (depth, len) = (b.depth(), b.width.bytes(b.block));
    let mut sums = [[[simd.splat(0.0); 2]; C]; R];
    for block in 0..b.count {
        let mut parameters = [[simd.splat(0.0); 2]; C];
        let mut c = 0;
        while c < C {
            let [scale, zero] = b.scale_and_offset(column + c, block);
            parameters[c] = [simd.splat(scale), simd.splat(zero)];
            c += 1;
        }
        let mut byte = 0;
        while byte < len {
            let mut c = 0;
            while c < C {
                let offset = ((column + c) * b.count + block) * len + byte;
                // SAFETY: `Blocks::new` found the bytes of all blocks, and a vector from `byte` on is
                // inside this one.
                let values = unsafe { simd.load_u8(b.values.as_ptr().add(offset)) };
                let [scale, zero] = parameters[c];
                let [low, high] = if FOUR {
                    let high = simd.shr::<4>(values);
                    [
                        simd.dequantize_4bit(values, scale, zero),
                        simd.dequantize_4bit(high, scale, zero),
                    ]
                } else {
                    [simd.fma(simd.int_to_float(values), scale, zero); 2]
                };
                let mut r = 0;
                while r < R {
                    let offset = r * depth + block * b.block + byte;
                    // SAFETY: row `r` has as many numbers of this block as that has bytes, or twice as many.
                    let x = unsafe { simd.load(a.as_ptr().add(offset)) };
                    sums[r][c][0] = simd.fma(low, x, sums[r][c][0]);
                    if FOUR {
                        // SAFETY: the second half of those numbers.
                        let x = unsafe { simd.load(a.as_ptr().add(offset + len)) };
                        sums[r][c][1] = simd.fma(high, x, sums[r][c][1]);
                    }
                    r += 1;
                }
                c += 1;
            }
            byte += S::LANES;
        }
    }
    sums
}

/// Like [`vector_blocks`], for blocks of any length.
#[inline(always)]
fn any_blocks<S: Vector, const R: usize, const C: usize>(
    simd: S,
    b: &Blocks<'_>,
    column: usize,
    a: &[f32],
) -> Sums<S, R, C> {
    let depth = b.depth();
    let mut sums = [[[simd.splat(0.0); 2]; C]; R];
    for block in 0..b.count {
        let mut c = 0;
        while c < C {
            let [scale, zero] = b.scale_and_offset(column + c, block);
            let parameters = [simd.splat(scale), simd.splat(zero)];
            let bytes = b.bytes(column + c, block);
            for (byte, bytes_of_vector) in bytes.chunks(S::LANES).enumerate() {
                let byte = byte * S::LANES;
                let [low, high] = dequantize(simd, b.width, parameters, bytes_of_vector);
                let mut r = 0;
                while r < R {
                    let a = &a[r * depth + block * b.block..][..b.block];
                    sums[r][c][0] = simd.fma(
                        low,
                        row(simd, &a[byte..][..bytes_of_vector.len()]),
                        sums[r][c][0],
                    );
                    if b.width == Width::Four {
                        let a = row(simd, &a[bytes.len() + byte..][..bytes_of_vector.len()]);
                        sums[r][c][1] = simd.fma(high, a, sums[r][c][1]);
                    }
                    r += 1;
                }
            }
            c += 1;
        }
    }
    sums
}

/// Loads up to a vector of values, followed by zeros.
#[inline(always)]
fn row<S: Vector>(simd: S, x: &[f32]) -> S::F {
    if x.len() == S::LANES {
        // SAFETY: `x` has a vector's numbers.
        return unsafe { simd.load(x.as_ptr()) };
    }
    // SAFETY: `x` has `x.len()` numbers, fewer than a vector.
    unsafe { simd.load_tail(x.as_ptr(), x.len(), simd.splat(0.0)) }
}

/// Stores up to a vector of values.
#[inline(always)]
fn store_row<S: Vector>(simd: S, y: &mut [f32], x: S::F) {
    if y.len() == S::LANES {
        // SAFETY: `y` has a vector's numbers.
        return unsafe { simd.store(y.as_mut_ptr(), x) };
    }
    // SAFETY: `y` has `y.len()` numbers, fewer than a vector.
    unsafe { simd.store_tail(y.as_mut_ptr(), y.len(), x) }
}

/// Dequantizes up to a vector of bytes: their low and their high 4 bits, or the bytes themselves, twice.
#[inline(always)]
fn dequantize<S: Vector>(
    simd: S,
    width: Width,
    [scale, zero]: [S::F; 2],
    bytes: &[u8],
) -> [S::F; 2] {
    let bytes_as_i32 = if bytes.len() == S::LANES {
        // SAFETY: `bytes` has a vector's bytes.
        unsafe { simd.load_u8(bytes.as_ptr()) }
    } else {
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: a vector has 16 lanes at most.
        unsafe { simd.load_u8(padded.as_ptr()) }
    };
    match width {
        Width::Eight => {
            let values = simd.fma(simd.int_to_float(bytes_as_i32), scale, zero);
            [values, values]
        }
        Width::Four => [
            simd.dequantize_4bit(bytes_as_i32, scale, zero),
            simd.dequantize_4bit(simd.shr::<4>(bytes_as_i32), scale, zero),
        ],
    }
}

/// The loop of [`dequantize_columns`](super::dequantize_columns).
pub(super) struct DequantizeColumns<'a> {
    pub(super) b: &'a Blocks<'a>,
    pub(super) columns: Range<usize>,
    pub(super) y: &'a mut [f32],
}

impl SimdOp for DequantizeColumns<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { b, columns, y } = self;
        for (column, y) in columns.zip(y.chunks_exact_mut(b.depth().max(1))) {
            for (block, y) in y.chunks_exact_mut(b.block).enumerate() {
                let [scale, zero] = b.scale_and_offset(column, block);
                let parameters = [simd.splat(scale), simd.splat(zero)];
                let bytes = b.bytes(column, block);
                let (first, second) = y.split_at_mut(bytes.len());
                for (vector, bytes_of_vector) in bytes.chunks(S::LANES).enumerate() {
                    let [low, high] = dequantize(simd, b.width, parameters, bytes_of_vector);
                    store_row(simd, &mut first[vector * S::LANES..][..bytes_of_vector.len()], low);
                    if b.width == Width::Four {
                        store_row(
                            simd,
                            &mut second[vector * S::LANES..][..bytes_of_vector.len()],
                            high,
                        );
                    }
                }
            }
        }
    }
}
