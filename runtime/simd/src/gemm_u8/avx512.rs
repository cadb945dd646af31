//! AVX-512 VNNI micro-kernels of quantized products: an instruction adds four products per lane. Sums modulo 2^32 stay
//! in registers until they are written.
//!
//! Products and requantization share the processor's two vector ports. A vector of 16 sums takes one instruction per
//! group of 4 along the depth, and 4.25 to 4.75 instructions for requantization: a third of the time at a depth of 32.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the intrinsics have names of their own")
)]

use std::arch::x86_64::*;

use super::{
    Activation, Columns, LANES, MAX_I32, MAX_NR, MR, MicroKernels, Out, PADDING, Tile, no_op,
    pack::LINE, requant,
};

pub(super) static KERNELS: MicroKernels =
    MicroKernels { tiles, sum, reach, configure: no_op, release: no_op, mr: MR, fallback: None };

type Run = unsafe fn(&Tile, &Columns, Out, usize);

/// The kernels by width in vectors and height in rows, each minus 1.
#[rustfmt::skip]
static RUNS: [&[Run]; 4] = [
    &[run::<1, 1>, run::<2, 1>, run::<3, 1>, run::<4, 1>,
      run::<5, 1>, run::<6, 1>, run::<7, 1>, run::<8, 1>],
    &[run::<1, 2>, run::<2, 2>, run::<3, 2>, run::<4, 2>,
      run::<5, 2>, run::<6, 2>, run::<7, 2>, run::<8, 2>],
    &[run::<1, 3>, run::<2, 3>, run::<3, 3>, run::<4, 3>,
      run::<5, 3>, run::<6, 3>, run::<7, 3>, run::<8, 3>],
    &[run::<1, 4>, run::<2, 4>, run::<3, 4>, run::<4, 4>, run::<5, 4>, run::<6, 4>],
];

/// Prefetch distance for weights into the first-level cache, in groups.
const NEAR: usize = 8;
/// Panels of up to this many bytes stay in that cache anyway, so prefetching them would only cost time.
const NEAR_PANEL: usize = 16 << 10;

/// Computes the sums of tiles and writes them to `out`.
///
/// # Safety
///
/// The machine supports [`super::Isa::Avx512`], the pointers of `tile` are valid as [`Tile`] requires, and
/// `out` points to its `count * rows` rows of `columns.count` elements, `stride` apart.
unsafe fn tiles(tile: &Tile, columns: &Columns, out: Out, stride: usize) {
    let run = RUNS[tile.vectors - 1][tile.rows - 1];
    // SAFETY: the rows and weights of the tile are readable, and `out` is valid for its rows of the
    // columns.
    unsafe { run(tile, columns, out, stride) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn sum(values: &[u8]) -> i32 {
    requant::sum(values)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn reach(table: &[u32]) -> (u32, bool) {
    requant::reach(table)
}

/// Computes tiles of `ROWS` rows and `VECTORS` vectors.
///
/// # Safety
///
/// As for [`tiles`]; the tiles have this height and width.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn run<const ROWS: usize, const VECTORS: usize>(
    tile: &Tile,
    columns: &Columns,
    out: Out,
    stride: usize,
) {
    let Tile { stride: row_stride, mut prefetch, .. } = *tile;
    let steps = tile.taps * (tile.groups + usize::from(tile.tail > 0)) * LINE;
    let exceeds_l1 = steps * VECTORS > NEAR_PANEL;
    let (mut first, mut table, mut row_sums, mut out) = (tile.a, tile.table, tile.row_sums, out);
    for _ in 0..tile.count {
        let mut totals = [[_mm512_setzero_si512(); VECTORS]; ROWS];
        for v in 0..VECTORS {
            // SAFETY: columns have 4 vectors of everything.
            let start = unsafe { _mm512_load_si512(columns.start.as_ptr().add(v * LANES).cast()) };
            for row in &mut totals {
                row[v] = start;
            }
        }
        if columns.has_zero_points {
            for (i, row) in totals.iter_mut().enumerate() {
                // SAFETY: if zero points are given, there is a sum per row.
                let row_sum = _mm512_set1_epi32(unsafe { *row_sums.add(i) });
                for (v, total) in row.iter_mut().enumerate() {
                    let zero = columns.zero_points.as_ptr().wrapping_add(v * LANES);
                    // SAFETY: `zero_points` has `LANES` numbers for each vector, at lines.
                    let zero = unsafe { _mm512_load_si512(zero.cast()) };
                    *total = _mm512_sub_epi32(*total, _mm512_mullo_epi32(zero, row_sum));
                }
            }
        }
        let is_strided = table.is_null();
        let next_rows = first.wrapping_add(if is_strided { ROWS * row_stride } else { 0 });
        let mut b = tile.b;
        // Past the end of the next panel, the address does not matter.
        let mut prefetch_b = if prefetch < tile.prefetch_end { prefetch } else { b };
        prefetch = prefetch.wrapping_add(steps);
        for tap in 0..tile.taps {
            let mut a = [first; ROWS];
            for (i, a) in a.iter_mut().enumerate() {
                *a = if is_strided {
                    first.wrapping_add(i * row_stride)
                } else {
                    // SAFETY: the table has an entry for each tap of each row.
                    let entry = unsafe { *table.add(i * tile.taps + tap) };
                    let pixel = first.wrapping_add((entry as usize).wrapping_mul(row_stride));
                    if entry == PADDING { tile.padding } else { pixel }
                };
            }
            // SAFETY: `Tile` guarantees that the rows have that many values, and the panel that
            // many groups.
            unsafe {
                if exceeds_l1 {
                    products::<ROWS, VECTORS, true>(&a, b, tile.groups, prefetch_b, &mut totals);
                } else {
                    products::<ROWS, VECTORS, false>(&a, b, tile.groups, prefetch_b, &mut totals);
                }
            }
            b = b.wrapping_add(tile.groups * VECTORS * LINE);
            prefetch_b = prefetch_b.wrapping_add(tile.groups * LINE);
            if tile.tail > 0 {
                for (i, row) in totals.iter_mut().enumerate() {
                    let tail_values = a[i].wrapping_add(tile.groups * 4);
                    let mask = (1 << tile.tail) - 1;
                    // SAFETY: `Tile` guarantees that the row has `tail` more values, and no others
                    // are read.
                    let group = unsafe { _mm_maskz_loadu_epi8(mask, tail_values.cast()) };
                    let group = _mm512_broadcastd_epi32(group);
                    for (v, total) in row.iter_mut().enumerate() {
                        // SAFETY: `Tile` guarantees that the tail's group is readable.
                        let weights = unsafe { _mm512_loadu_si512(b.add(v * LINE).cast()) };
                        *total = _mm512_dpbusd_epi32(*total, group, weights);
                    }
                }
                b = b.wrapping_add(VECTORS * LINE);
            }
        }
        // SAFETY: `out` is valid for `ROWS` rows of the columns, `stride` apart; the columns fit
        // `VECTORS`.
        unsafe { write(totals, columns, out, stride) };
        first = next_rows;
        if !is_strided {
            table = table.wrapping_add(ROWS * tile.taps);
        }
        row_sums = row_sums.wrapping_add(ROWS);
        out = out.skip(ROWS * stride);
    }
}

// The following functions are inlined into `run`, so that its sums stay in registers.

/// Adds the products of `groups` groups; with `FETCH`, prefetches weights.
///
/// # Safety
///
/// The caller has the features of [`run`]; the rows have this many groups of values, and `b` this many groups of
/// vectors.
#[inline(always)]
unsafe fn products<const ROWS: usize, const VECTORS: usize, const FETCH: bool>(
    a: &[*const u8; ROWS],
    mut b: *const i8,
    groups: usize,
    mut prefetch_b: *const i8,
    totals: &mut [[__m512i; VECTORS]; ROWS],
) {
    for group in 0..groups {
        // SAFETY: `group` is below `groups`: the rows at `a` have its 4 values, and `b` its
        // `VECTORS` lines; prefetched addresses are not read.
        unsafe {
            let mut weights = [_mm512_setzero_si512(); VECTORS];
            for (v, weights) in weights.iter_mut().enumerate() {
                *weights = _mm512_loadu_si512(b.add(v * LINE).cast());
                if FETCH {
                    _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add((NEAR * VECTORS + v) * LINE));
                }
            }
            if FETCH {
                _mm_prefetch::<_MM_HINT_T1>(prefetch_b);
            }
            b = b.wrapping_add(VECTORS * LINE);
            prefetch_b = prefetch_b.wrapping_add(LINE);
            for (a, row) in a.iter().zip(totals.iter_mut()) {
                let group_values =
                    _mm512_set1_epi32(a.add(group * 4).cast::<i32>().read_unaligned());
                for (total, &weights) in row.iter_mut().zip(&weights) {
                    *total = _mm512_dpbusd_epi32(*total, group_values, weights);
                }
            }
        }
    }
}

/// Converts the sums of a tile to the output's type, and writes them.
///
/// # Safety
///
/// The caller has the features of [`run`]; `out` is valid for the rows of the columns, which fit the vectors.
#[inline(always)]
pub(super) unsafe fn write<const ROWS: usize, const VECTORS: usize>(
    totals: [[__m512i; VECTORS]; ROWS],
    columns: &Columns,
    out: Out,
    stride: usize,
) {
    // SAFETY: `out` is valid for `ROWS` rows of the columns, `stride` apart; the masks keep to the
    // columns.
    unsafe {
        match out {
            Out::I32(to) => {
                for (i, row) in totals.iter().enumerate() {
                    for (v, &total) in row.iter().enumerate() {
                        let to = to.wrapping_add(i * stride + v * LANES);
                        _mm512_mask_storeu_epi32(to, mask(columns.count, v), total);
                    }
                }
            }
            Out::F32(to, activation) => dequantized(totals, columns, to, activation, stride),
            Out::U8(to, zero_point, flip) => {
                let (zero_point, flip) = (zero_point - 128, flip ^ 128);
                if columns.scales_below_1 {
                    quantized::<ROWS, VECTORS, true>(totals, columns, to, zero_point, flip, stride);
                } else {
                    quantized::<ROWS, VECTORS, false>(
                        totals, columns, to, zero_point, flip, stride,
                    );
                }
            }
        }
    }
}

/// Returns the mask of the 16 lanes from `16 * vector` on that are below `count`.
fn mask(count: usize, vector: usize) -> __mmask16 {
    let left = count.saturating_sub(vector * LANES).min(LANES);
    ((1u32 << left) - 1) as __mmask16
}

/// Dequantizes sums to `f32`, applies the activation, and writes them.
///
/// # Safety
///
/// As for [`write()`].
#[inline(always)]
unsafe fn dequantized<const ROWS: usize, const VECTORS: usize>(
    totals: [[__m512i; VECTORS]; ROWS],
    columns: &Columns,
    to: *mut f32,
    activation: Activation,
    stride: usize,
) {
    // SAFETY: `out` is valid for `ROWS` rows of the columns; columns have 4 vectors of everything,
    // and the masks keep to them.
    unsafe {
        let minimum = _mm512_set1_ps(match activation {
            Activation::None => f32::NEG_INFINITY,
            Activation::Relu => 0.0,
        });
        for v in 0..VECTORS {
            let scale = _mm512_load_ps(columns.scales.as_ptr().add(v * LANES));
            let bias = _mm512_load_ps(columns.bias.as_ptr().add(v * LANES));
            for (i, row) in totals.iter().enumerate() {
                let value = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(row[v]), scale), bias);
                // `max` returns its second operand for NaN and for -0.
                let value = _mm512_max_ps(minimum, value);
                let to = to.wrapping_add(i * stride + v * LANES);
                _mm512_mask_storeu_ps(to, mask(columns.count, v), value);
            }
        }
    }
}

/// Requantizes to i8 with a zero point, and inverts the bits in `flip`.
///
/// # Safety
///
/// As for [`write()`]; with `SHRINK`, all scales are below 1.
#[inline(always)]
unsafe fn quantized<const ROWS: usize, const VECTORS: usize, const SHRINK: bool>(
    totals: [[__m512i; VECTORS]; ROWS],
    columns: &Columns,
    to: *mut u8,
    zero_point: i16,
    flip: u8,
    stride: usize,
) {
    // SAFETY: `out` is valid for `ROWS` rows of the columns; columns have 4 vectors of everything,
    // and the mask keeps to them.
    unsafe {
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let has_zero_point = zero_point != 0;
        let zero_point = _mm512_set1_epi16(zero_point);
        let flip = _mm512_set1_epi8(flip.cast_signed());
        let max_i32 = _mm512_set1_ps(MAX_I32);
        let mask = if columns.count == MAX_NR { u64::MAX } else { (1 << columns.count) - 1 };
        for (i, row) in totals.iter().enumerate() {
            let mut values = [_mm512_setzero_si512(); 4];
            for (v, &total) in row.iter().enumerate() {
                let scale = _mm512_load_ps(columns.scales.as_ptr().add(v * LANES));
                let value = _mm512_mul_ps(_mm512_cvtepi32_ps(total), scale);
                // NaN passes through and becomes i32::MIN, like values that are too low.
                let value = if SHRINK { value } else { _mm512_min_ps(max_i32, value) };
                values[v] = _mm512_cvtps_epi32(value);
            }
            // Saturating to i16 before adding the zero point changes nothing that fits 8 bits.
            let mut low = _mm512_packs_epi32(values[0], values[1]);
            let mut high = _mm512_packs_epi32(values[2], values[3]);
            if has_zero_point {
                low = _mm512_adds_epi16(low, zero_point);
                high = _mm512_adds_epi16(high, zero_point);
            }
            let values = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
            let to = to.wrapping_add(i * stride);
            _mm512_mask_storeu_epi8(to.cast(), mask, _mm512_xor_si512(values, flip));
        }
    }
}
