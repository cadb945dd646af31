//! The traits `Simd` and `Vector` for AVX-512, with 16 lanes. The methods are mostly single instructions.

use std::arch::x86_64::*;

use super::avx2::{columns4, quad};
use super::elementary::{by_formula, sigmoid, trig};
use super::simd::{Simd, sealed::Sealed};
use super::tables;
use super::token::Avx512;
use super::vector::Vector;

/// Defines safe methods that use intrinsics without memory access.
macro_rules! ops {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $type),*) -> $out {
            // SAFETY: the token shows that the machine has the instruction, which accesses no
            // memory.
            unsafe { $body }
        }
    )*};
}

/// Combines the 16 lanes of each of four vectors into one value: neighbours, then pairs, then the 128-bit parts. The
/// arguments are the combining instructions for 512, 256 and 128 bits.
macro_rules! combine4 {
    ($x:ident, $whole:ident, $sums_of_8:ident, $quarter:ident) => {{
        let [a, b, c, d] = $x;
        let ab = $whole(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let cd = $whole(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
        let low = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
        let sums_of_4 = $whole(low, _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
        let sums_of_8 =
            $sums_of_8(_mm512_castps512_ps256(sums_of_4), _mm512_extractf32x8_ps::<1>(sums_of_4));
        let results =
            $quarter(_mm256_castps256_ps128(sums_of_8), _mm256_extractf128_ps::<1>(sums_of_8));
        let mut array = [0.0; 4];
        _mm_storeu_ps(array.as_mut_ptr(), results);
        array
    }};
}

/// Returns the mask of the first `len` lanes.
#[inline(always)]
fn tail_mask(len: usize) -> __mmask16 {
    ((1u32 << len) - 1) as __mmask16
}

impl Sealed for Avx512 {}

impl Simd for Avx512 {
    type F = __m512;
    type I = __m512i;
    type M = __mmask16;

    const LANES: usize = 16;
    const FUSED: bool = true;

    ops! {
        splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        splat_i(x: i32) -> __m512i = _mm512_set1_epi32(x);
        add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fnma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps(a, b, c);
        sqrt(x: __m512) -> __m512 = _mm512_sqrt_ps(x);
        min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        lt(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
        le(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b);
        round(x: __m512) -> __m512 = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(x);
        floor(x: __m512) -> __m512 = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF }>(x);
        ceil(x: __m512) -> __m512 = _mm512_roundscale_ps::<{ _MM_FROUND_TO_POS_INF }>(x);
        trunc(x: __m512) -> __m512 = _mm512_roundscale_ps::<{ _MM_FROUND_TO_ZERO }>(x);
        eq(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
        select(mask: __mmask16, yes: __m512, no: __m512) -> __m512 = _mm512_mask_blend_ps(mask, no, yes);
        bits(x: __m512) -> __m512i = _mm512_castps_si512(x);
        float(x: __m512i) -> __m512 = _mm512_castsi512_ps(x);
        int_to_float(x: __m512i) -> __m512 = _mm512_cvtepi32_ps(x);
        add_i(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        sub_i(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        lt_i(a: __m512i, b: __m512i) -> __mmask16 = _mm512_cmplt_epi32_mask(a, b);
        sum(x: __m512) -> f32 = _mm512_reduce_add_ps(x);
        max_lane(x: __m512) -> f32 = _mm512_reduce_max_ps(x);
        scale(x: __m512, n: __m512) -> __m512 = _mm512_scalef_ps(x, n);
    }

    #[inline(always)]
    fn any(self, mask: __mmask16) -> bool {
        mask != 0
    }
    #[inline(always)]
    fn shl<const BY: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: the token shows that the machine has the instruction.
        unsafe { _mm512_slli_epi32::<BY>(x) }
    }
    #[inline(always)]
    fn shr<const BY: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: the token shows that the machine has the instruction.
        unsafe { _mm512_srli_epi32::<BY>(x) }
    }
    #[inline(always)]
    fn sar<const BY: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: the token shows that the machine has the instruction.
        unsafe { _mm512_srai_epi32::<BY>(x) }
    }
    #[inline(always)]
    fn of_array(self, lanes: [f32; 16]) -> Self::F {
        // SAFETY: `lanes` has 16 readable values, and a vector has 16 lanes at most.
        unsafe { self.load(lanes.as_ptr()) }
    }
    #[inline(always)]
    fn to_array(self, x: Self::F) -> [f32; 16] {
        let mut lanes = [0.0; 16];
        // SAFETY: `lanes` has 16 writable values, and a vector has 16 lanes at most.
        unsafe { self.store(lanes.as_mut_ptr(), x) }
        lanes
    }
    #[inline(always)]
    fn mask_and(self, a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }
    #[inline(always)]
    fn mask_or(self, a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }
    #[inline(always)]
    fn mask_not(self, mask: __mmask16) -> __mmask16 {
        !mask
    }

    by_formula! {
        exp = tables::exp,
        log = tables::log,
        tanh = tables::tanh,
        sigmoid = sigmoid::sigmoid_of,
        erf = tables::erf,
        sin = trig::sin_of,
        cos = trig::cos_of,
        rsqrt = tables::rsqrt,
    }
}

impl Vector for Avx512 {
    const TILE4: usize = 16;
    const TILE1: usize = 16;
    const LONG1: usize = 64;

    ops! {
        sum4(x: [__m512; 4]) -> [f32; 4] = combine4!(x, _mm512_add_ps, _mm256_add_ps, _mm_add_ps);
        max4(x: [__m512; 4]) -> [f32; 4] = combine4!(x, _mm512_max_ps, _mm256_max_ps, _mm_max_ps);
        sums4(x: [__m512; 4]) -> __m512 = {
            let [a, b, c, d] = x;
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
            let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
            let sums = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
            let sums = _mm512_add_ps(sums, _mm512_shuffle_f32x4::<0x4e>(sums, sums));
            _mm512_add_ps(sums, _mm512_shuffle_f32x4::<0xb1>(sums, sums))
        };
        broadcast4(x: __m512) -> [__m512; 4] = [
            _mm512_permute_ps::<0x00>(x),
            _mm512_permute_ps::<0x55>(x),
            _mm512_permute_ps::<0xaa>(x),
            _mm512_permute_ps::<0xff>(x),
        ];
    }
    #[inline(always)]
    fn dequantize_4bit(self, x: __m512i, scale: __m512, zero: __m512) -> __m512 {
        const INDICES: [f32; 16] =
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];
        // A table of all sixteen dequantized values, indexed by the low four bits of each lane.
        let table = self.fma(self.of_array(INDICES), scale, zero);
        // SAFETY: the token shows that the machine has the instruction, which accesses no memory.
        unsafe { _mm512_permutexvar_ps(x, table) }
    }
    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a hint, which accesses no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: `LANES` f32 are readable at `from`.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: __m512) {
        // SAFETY: `LANES` f32 are writable at `to`.
        unsafe { _mm512_storeu_ps(to, x) }
    }
    #[inline(always)]
    unsafe fn load_tail(self, from: *const f32, len: usize, fill: __m512) -> __m512 {
        // SAFETY: `len` f32 are readable at `from`; the mask keeps to them.
        unsafe { _mm512_mask_loadu_ps(fill, tail_mask(len), from) }
    }
    #[inline(always)]
    unsafe fn store_tail(self, to: *mut f32, len: usize, x: __m512) {
        // SAFETY: `len` f32 are writable at `to`; the mask keeps to them.
        unsafe { _mm512_mask_storeu_ps(to, tail_mask(len), x) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> __m512i {
        // SAFETY: `LANES` bytes are readable at `from`.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> __m512i {
        // SAFETY: `LANES` u16 are readable at `from`.
        unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_u8(self, to: *mut u8, x: __m512i) {
        // SAFETY: `LANES` bytes are writable at `to`.
        unsafe { _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(x)) }
    }
    #[inline(always)]
    unsafe fn store_saturated(self, to: *mut u8, [a, b, c, d]: [__m512i; 4], signed: bool) {
        // SAFETY: four times `LANES` bytes are writable at `to`.
        unsafe {
            let (low, high) = (_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
            let bytes =
                if signed { _mm512_packs_epi16(low, high) } else { _mm512_packus_epi16(low, high) };
            // Packs work within each 128-bit quarter, so the result has four lanes of each of the four vectors.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            _mm512_storeu_si512(to.cast(), _mm512_permutexvar_epi32(order, bytes));
        }
    }
    #[inline(always)]
    unsafe fn store_u16(self, to: *mut u16, x: __m512i) {
        // SAFETY: `LANES` u16 are writable at `to`.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(x)) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> __m512 {
        // SAFETY: `LANES` u16 are readable at `from`.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16, x: __m512) {
        // SAFETY: `LANES` u16 are writable at `to`.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)) }
    }

    #[inline(always)]
    unsafe fn tile4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize) {
        // SAFETY: `TILE4` rows of as many elements are readable at `x` and writable at `y`; the token
        // shows that the machine has the features.
        unsafe { tile16::<false, false>(x, x_stride, y, y_stride, [x; 2]) }
    }

    #[inline(always)]
    unsafe fn tile4_prefetch(
        self,
        x: *const u32,
        x_stride: usize,
        y: *mut u32,
        y_stride: usize,
        ahead: [*const u32; 2],
    ) {
        // SAFETY: `TILE4` rows of as many elements are readable at `x` and writable at `y`; the token
        // shows that the machine has the features.
        unsafe { tile16::<true, false>(x, x_stride, y, y_stride, ahead) }
    }

    #[inline(always)]
    unsafe fn tile4_stream(
        self,
        x: *const u32,
        x_stride: usize,
        y: *mut u32,
        y_stride: usize,
        ahead: *const u32,
    ) {
        // SAFETY: `TILE4` rows of as many elements are readable at `x` and writable at `y`, at lines;
        // the token shows that the machine has the features.
        unsafe { tile16::<true, true>(x, x_stride, y, y_stride, [ahead; 2]) }
    }

    #[inline(always)]
    unsafe fn part4(
        self,
        x: *const u32,
        x_stride: usize,
        y: *mut u32,
        y_stride: usize,
        rows: usize,
        cols: usize,
    ) {
        // Four columns at a time become four rows of `y`.
        let mut first_column = 0;
        while first_column < cols {
            let width = 4.min(cols - first_column);
            let mask = tail_mask(width) as __mmask8;
            // Missing rows are loaded from the last one, and not stored.
            macro_rules! row {
                ($i:expr) => {
                    _mm_maskz_loadu_epi32(
                        mask,
                        x.add(rows.min($i + 1) * x_stride - x_stride + first_column).cast(),
                    )
                };
            }
            let mut to = y.wrapping_add(first_column * y_stride);
            if rows <= 4 {
                // SAFETY: rows of the tile, and columns below `cols`.
                let columns = columns4(unsafe { [row!(0), row!(1), row!(2), row!(3)] });
                for column in columns.into_iter().take(width) {
                    // SAFETY: the mask covers the rows of the tile; columns below `cols`.
                    unsafe { _mm_mask_storeu_epi32(to.cast(), tail_mask(rows) as __mmask8, column) }
                    to = to.wrapping_add(y_stride);
                }
            } else {
                macro_rules! lanes {
                    ($k:literal) => {{
                        let lanes = _mm512_castsi128_si512(row!($k));
                        let lanes = _mm512_inserti32x4::<1>(lanes, row!($k + 4));
                        let lanes = _mm512_inserti32x4::<2>(lanes, row!($k + 8));
                        _mm512_inserti32x4::<3>(lanes, row!($k + 12))
                    }};
                }
                // SAFETY: rows of the tile, and columns below `cols`.
                let lanes = unsafe { [lanes!(0), lanes!(1), lanes!(2), lanes!(3)] };
                let columns = columns_of_lanes(lanes);
                for column in columns.into_iter().take(width) {
                    // SAFETY: the mask covers the rows of the tile; columns below `cols`.
                    unsafe {
                        let column = _mm512_castpd_ps(column);
                        _mm512_mask_storeu_ps(to.cast(), tail_mask(rows), column);
                    }
                    to = to.wrapping_add(y_stride);
                }
            }
            first_column += 4;
        }
    }

    #[inline(always)]
    fn fence(self) {
        // SAFETY: accesses no memory.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    unsafe fn quad4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize) {
        // SAFETY: four rows of four elements are readable at `x` and writable at `y`.
        unsafe { quad(x, x_stride, y, y_stride) }
    }

    #[inline(always)]
    unsafe fn long1(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: `LONG1` rows of 16 bytes are readable at `x` and 16 of `LONG1` writable at `y`; the
        // token shows that the machine has the features.
        unsafe { long64::<false>(x, x_stride, y, y_stride) }
    }

    #[inline(always)]
    unsafe fn long1_stream(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: `LONG1` rows of 16 bytes are readable at `x` and 16 of `LONG1` writable at `y`, at
        // lines; the token shows that the machine has the features.
        unsafe { long64::<true>(x, x_stride, y, y_stride) }
    }

    #[inline(always)]
    unsafe fn tile1(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: rows and columns below 16.
        unsafe {
            let w0 = lanes_of_rows::<4, _>(x, x_stride);
            let w1 = lanes_of_rows::<4, _>(x.add(x_stride), x_stride);
            let w2 = lanes_of_rows::<4, _>(x.add(2 * x_stride), x_stride);
            let w3 = lanes_of_rows::<4, _>(x.add(3 * x_stride), x_stride);
            let (a, b) = (_mm512_unpacklo_epi8(w0, w1), _mm512_unpackhi_epi8(w0, w1));
            let (c, d) = (_mm512_unpacklo_epi8(w2, w3), _mm512_unpackhi_epi8(w2, w3));
            // In part `j`, 4-byte unit `d` of 128-bit lane `g` has column `4j + d` of rows `4g..4g + 4`. The
            // permutation collects the units of each column.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let parts = [
                _mm512_unpacklo_epi16(a, c),
                _mm512_unpackhi_epi16(a, c),
                _mm512_unpacklo_epi16(b, d),
                _mm512_unpackhi_epi16(b, d),
            ];
            for (j, part) in parts.into_iter().enumerate() {
                let part = _mm512_permutexvar_epi32(order, part);
                let y = y.add(4 * j * y_stride);
                _mm_storeu_si128(y.cast(), _mm512_castsi512_si128(part));
                let second = _mm512_extracti32x4_epi32::<1>(part);
                _mm_storeu_si128(y.add(y_stride).cast(), second);
                let third = _mm512_extracti32x4_epi32::<2>(part);
                _mm_storeu_si128(y.add(2 * y_stride).cast(), third);
                let fourth = _mm512_extracti32x4_epi32::<3>(part);
                _mm_storeu_si128(y.add(3 * y_stride).cast(), fourth);
            }
        }
    }
}

/// Transposes 16 rows of 16 elements. With `STREAM`, uses non-temporal stores. With `PREFETCH`, prefetches the tiles at
/// `ahead`: one of `x` and, without `STREAM`, one of `y`.
///
/// Each row is loaded completely before the next one, because cache lines of distant rows may share a set of the
/// first-level cache. The function is not inlined: the caller's loop would need more registers for multiples of the
/// strides than there are.
///
/// # Safety
/// The rows are readable and writable at these strides; those of `y` start at cache lines if `STREAM`.
#[expect(clippy::needless_range_loop, reason = "indices of lanes and of rows in memory at once")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
unsafe fn tile16<const PREFETCH: bool, const STREAM: bool>(
    x: *const u32,
    x_stride: usize,
    y: *mut u32,
    y_stride: usize,
    ahead: [*const u32; 2],
) {
    // `lanes[f][k]` holds, in 128-bit lane `g`, elements `4f..4f + 4` of row `4g + k`.
    macro_rules! rows {
        ($lane:literal, $lanes:ident, $insert:expr) => {
            for k in 0..4 {
                let row = $lane * 4 + k;
                if PREFETCH {
                    let next = ahead[0].wrapping_add(row * x_stride);
                    _mm_prefetch::<_MM_HINT_T0>(next.cast());
                }
                if PREFETCH && !STREAM {
                    let next = ahead[1].wrapping_add(row * y_stride);
                    _mm_prefetch::<_MM_HINT_T0>(next.cast());
                }
                for quad in 0..4 {
                    let address = x.add(row * x_stride + quad * 4);
                    $lanes[quad][k] = $insert($lanes[quad][k], _mm_loadu_si128(address.cast()));
                }
            }
        };
    }
    // SAFETY: rows and columns below 16; a prefetch accesses no memory.
    unsafe {
        let mut lanes = [[_mm512_setzero_si512(); 4]; 4];
        rows!(0, lanes, |_, row| _mm512_castsi128_si512(row));
        rows!(1, lanes, _mm512_inserti32x4::<1>);
        rows!(2, lanes, _mm512_inserti32x4::<2>);
        rows!(3, lanes, _mm512_inserti32x4::<3>);
        for quad in 0..4 {
            let columns = columns_of_lanes(lanes[quad]);
            for k in 0..4 {
                let to = y.add((quad * 4 + k) * y_stride).cast();
                if STREAM {
                    _mm512_stream_pd(to, columns[k]);
                } else {
                    _mm512_storeu_pd(to.cast(), columns[k]);
                }
            }
        }
    }
}

/// Transposes 64 rows of 16 bytes. With `STREAM`, uses non-temporal stores. Not inlined, like [`tile16`].
///
/// # Safety
/// 64 rows of 16 bytes are readable and 16 of 64 writable at these strides; those of `y` start at cache lines if
/// `STREAM`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
unsafe fn long64<const STREAM: bool>(x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
    let mut rows = [_mm512_setzero_si512(); 16];
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: rows below 64.
        *row = unsafe { lanes_of_rows::<16, _>(x.add(i * x_stride), x_stride) };
    }
    // In every lane, each round interleaves rows `i` and `i + 8`; four rounds transpose.
    let rows = interleave(interleave(interleave(interleave(rows))));
    for (i, row) in rows.into_iter().enumerate() {
        // SAFETY: columns below 16; the rows of `y` are at lines if `STREAM`.
        unsafe {
            let to = y.add(i * y_stride).cast();
            if STREAM {
                _mm512_stream_si512(to, row);
            } else {
                _mm512_storeu_si512(to, row);
            }
        }
    }
}

/// Returns four columns of vectors whose lane `g` holds four elements of row `4g + k`.
#[inline(always)]
fn columns_of_lanes([w0, w1, w2, w3]: [__m512i; 4]) -> [__m512d; 4] {
    // SAFETY: called by holders of a token only; accesses no memory.
    unsafe {
        let a = _mm512_castsi512_pd(_mm512_unpacklo_epi32(w0, w1));
        let b = _mm512_castsi512_pd(_mm512_unpackhi_epi32(w0, w1));
        let c = _mm512_castsi512_pd(_mm512_unpacklo_epi32(w2, w3));
        let d = _mm512_castsi512_pd(_mm512_unpackhi_epi32(w2, w3));
        [
            _mm512_unpacklo_pd(a, c),
            _mm512_unpackhi_pd(a, c),
            _mm512_unpacklo_pd(b, d),
            _mm512_unpackhi_pd(b, d),
        ]
    }
}

/// Loads 16 bytes from four rows, `APART` rows from one to the next.
///
/// # Safety
/// 16 bytes are readable at `x + i * APART * stride` for `i` from 0 to 3.
#[inline(always)]
unsafe fn lanes_of_rows<const APART: usize, T>(x: *const T, stride: usize) -> __m512i {
    let step = APART * stride;
    // SAFETY: 16 bytes are readable at `x + i * step` for `i` from 0 to 3.
    unsafe {
        let row = _mm512_castsi128_si512(_mm_loadu_si128(x.cast()));
        let row = _mm512_inserti32x4::<1>(row, _mm_loadu_si128(x.add(step).cast()));
        let row = _mm512_inserti32x4::<2>(row, _mm_loadu_si128(x.add(2 * step).cast()));
        _mm512_inserti32x4::<3>(row, _mm_loadu_si128(x.add(3 * step).cast()))
    }
}

/// Interleaves the bytes of vectors `i` and `i + 8`, lane by lane.
#[inline(always)]
fn interleave(x: [__m512i; 16]) -> [__m512i; 16] {
    macro_rules! each {
        ($($i:literal)*) => {
            // SAFETY: called by holders of a token only; accesses no memory.
            unsafe {
                [$(
                    _mm512_unpacklo_epi8(x[$i], x[$i + 8]),
                    _mm512_unpackhi_epi8(x[$i], x[$i + 8]),
                )*]
            }
        };
    }
    each!(0 1 2 3 4 5 6 7)
}
