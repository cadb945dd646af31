//! The traits `Simd` and `Vector` for AVX2, with 8 lanes. The methods are mostly single instructions.

use std::arch::x86_64::*;

use super::elementary::{by_formula, erf, exp, log, rsqrt, sigmoid, tanh, trig};
use super::simd::{Simd, sealed::Sealed};
use super::token::Avx2;
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

/// Returns the mask of the first `len` lanes.
#[inline(always)]
fn tail_mask(len: usize) -> __m256i {
    // SAFETY: called by holders of a token only.
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(len as i32), lanes)
    }
}

impl Sealed for Avx2 {}

impl Simd for Avx2 {
    type F = __m256;
    type I = __m256i;
    type M = __m256;

    const LANES: usize = 8;
    const FUSED: bool = true;

    ops! {
        splat(x: f32) -> __m256 = _mm256_set1_ps(x);
        splat_i(x: i32) -> __m256i = _mm256_set1_epi32(x);
        add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        div(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        fma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fnma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fnmadd_ps(a, b, c);
        sqrt(x: __m256) -> __m256 = _mm256_sqrt_ps(x);
        min(a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
        max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        lt(a: __m256, b: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_LT_OQ>(a, b);
        le(a: __m256, b: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_LE_OQ>(a, b);
        mask_and(a: __m256, b: __m256) -> __m256 = _mm256_and_ps(a, b);
        mask_or(a: __m256, b: __m256) -> __m256 = _mm256_or_ps(a, b);
        mask_not(mask: __m256) -> __m256 = _mm256_xor_ps(mask, _mm256_castsi256_ps(_mm256_set1_epi32(-1)));
        round(x: __m256) -> __m256 = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
        floor(x: __m256) -> __m256 = _mm256_floor_ps(x);
        ceil(x: __m256) -> __m256 = _mm256_ceil_ps(x);
        trunc(x: __m256) -> __m256 = _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x);
        eq(a: __m256, b: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b);
        select(mask: __m256, yes: __m256, no: __m256) -> __m256 = _mm256_blendv_ps(no, yes, mask);
        any(mask: __m256) -> bool = _mm256_movemask_ps(mask) != 0;
        bits(x: __m256) -> __m256i = _mm256_castps_si256(x);
        float(x: __m256i) -> __m256 = _mm256_castsi256_ps(x);
        int_to_float(x: __m256i) -> __m256 = _mm256_cvtepi32_ps(x);
        add_i(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        sub_i(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        and(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        lt_i(a: __m256i, b: __m256i) -> __m256 = _mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a));
        sum(x: __m256) -> f32 = {
            let sums_of_2 = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let sums_of_4 = _mm_add_ps(sums_of_2, _mm_movehl_ps(sums_of_2, sums_of_2));
            _mm_cvtss_f32(_mm_add_ss(sums_of_4, _mm_movehdup_ps(sums_of_4)))
        };
        max_lane(x: __m256) -> f32 = {
            let sums_of_2 = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let sums_of_4 = _mm_max_ps(sums_of_2, _mm_movehl_ps(sums_of_2, sums_of_2));
            _mm_cvtss_f32(_mm_max_ss(sums_of_4, _mm_movehdup_ps(sums_of_4)))
        };
    }

    #[inline(always)]
    fn shl<const BY: u32>(self, x: __m256i) -> __m256i {
        // SAFETY: the token shows that the machine has the instruction.
        unsafe { _mm256_sllv_epi32(x, _mm256_set1_epi32(BY.cast_signed())) }
    }
    #[inline(always)]
    fn shr<const BY: u32>(self, x: __m256i) -> __m256i {
        // SAFETY: the token shows that the machine has the instruction.
        unsafe { _mm256_srlv_epi32(x, _mm256_set1_epi32(BY.cast_signed())) }
    }
    #[inline(always)]
    fn sar<const BY: u32>(self, x: __m256i) -> __m256i {
        // SAFETY: the token shows that the machine has the instruction.
        unsafe { _mm256_srav_epi32(x, _mm256_set1_epi32(BY.cast_signed())) }
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

    by_formula! {
        exp = exp::exp_of,
        log = log::log_of,
        tanh = tanh::tanh_of,
        sigmoid = sigmoid::sigmoid_of,
        erf = erf::erf_of,
        sin = trig::sin_of,
        cos = trig::cos_of,
        rsqrt = rsqrt::rsqrt_of,
    }
}

impl Vector for Avx2 {
    const TILE4: usize = 8;
    const TILE1: usize = 16;
    const LONG1: usize = 32;

    ops! {
        sums4(x: [__m256; 4]) -> __m256 = {
            let ab = _mm256_hadd_ps(x[0], x[1]);
            let cd = _mm256_hadd_ps(x[2], x[3]);
            let sums = _mm256_hadd_ps(ab, cd);
            _mm256_add_ps(sums, _mm256_permute2f128_ps::<0x01>(sums, sums))
        };
        broadcast4(x: __m256) -> [__m256; 4] = [
            _mm256_permute_ps::<0x00>(x),
            _mm256_permute_ps::<0x55>(x),
            _mm256_permute_ps::<0xaa>(x),
            _mm256_permute_ps::<0xff>(x),
        ];
    }
    #[inline(always)]
    fn prefetch(self, at: *const f32) {
        // SAFETY: a hint, which accesses no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: `LANES` f32 are readable at `from`.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: __m256) {
        // SAFETY: `LANES` f32 are writable at `to`.
        unsafe { _mm256_storeu_ps(to, x) }
    }
    #[inline(always)]
    unsafe fn load_tail(self, from: *const f32, len: usize, fill: __m256) -> __m256 {
        let mask = tail_mask(len);
        // SAFETY: `len` f32 are readable at `from`; the mask keeps to them.
        unsafe {
            let x = _mm256_maskload_ps(from, mask);
            _mm256_blendv_ps(fill, x, _mm256_castsi256_ps(mask))
        }
    }
    #[inline(always)]
    unsafe fn store_tail(self, to: *mut f32, len: usize, x: __m256) {
        // SAFETY: `len` f32 are writable at `to`; the mask keeps to them.
        unsafe { _mm256_maskstore_ps(to, tail_mask(len), x) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> __m256i {
        // SAFETY: `LANES` bytes are readable at `from`.
        unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> __m256i {
        // SAFETY: `LANES` u16 are readable at `from`.
        unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_u8(self, to: *mut u8, x: __m256i) {
        // SAFETY: `LANES` bytes are writable at `to`.
        unsafe {
            let x = _mm256_and_si256(x, _mm256_set1_epi32(0xff));
            let (low, high) = (_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = _mm_packus_epi32(low, high);
            _mm_storel_epi64(to.cast(), _mm_packus_epi16(x, x));
        }
    }
    #[inline(always)]
    unsafe fn store_saturated(self, to: *mut u8, [a, b, c, d]: [__m256i; 4], signed: bool) {
        // SAFETY: four times `LANES` bytes are writable at `to`.
        unsafe {
            let (low, high) = (_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            let bytes =
                if signed { _mm256_packs_epi16(low, high) } else { _mm256_packus_epi16(low, high) };
            // Packs work within each 128-bit half, so the result has four lanes of each of the four vectors.
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(bytes, order));
        }
    }
    #[inline(always)]
    unsafe fn store_u16(self, to: *mut u16, x: __m256i) {
        // SAFETY: `LANES` u16 are writable at `to`.
        unsafe {
            let x = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
            let (low, high) = (_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            _mm_storeu_si128(to.cast(), _mm_packus_epi32(low, high));
        }
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> __m256 {
        // SAFETY: `LANES` u16 are readable at `from`.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16, x: __m256) {
        // SAFETY: `LANES` u16 are writable at `to`.
        unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)) }
    }

    #[inline(always)]
    unsafe fn tile4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize) {
        // Four columns at a time become four rows of `y`. Vectors hold four elements of rows `k` and `k + 4`.
        let mut column = 0;
        while column < 8 {
            // SAFETY: rows and columns below 8.
            unsafe {
                let w0 = lanes_of_rows::<4, _>(x.add(column), x_stride);
                let w1 = lanes_of_rows::<4, _>(x.add(column + x_stride), x_stride);
                let w2 = lanes_of_rows::<4, _>(x.add(column + 2 * x_stride), x_stride);
                let w3 = lanes_of_rows::<4, _>(x.add(column + 3 * x_stride), x_stride);
                let (a, b) = (_mm256_unpacklo_epi32(w0, w1), _mm256_unpackhi_epi32(w0, w1));
                let (c, d) = (_mm256_unpacklo_epi32(w2, w3), _mm256_unpackhi_epi32(w2, w3));
                let y = y.add(column * y_stride);
                _mm256_storeu_si256(y.cast(), _mm256_unpacklo_epi64(a, c));
                _mm256_storeu_si256(y.add(y_stride).cast(), _mm256_unpackhi_epi64(a, c));
                _mm256_storeu_si256(y.add(2 * y_stride).cast(), _mm256_unpacklo_epi64(b, d));
                _mm256_storeu_si256(y.add(3 * y_stride).cast(), _mm256_unpackhi_epi64(b, d));
            }
            column += 4;
        }
    }

    #[inline(always)]
    unsafe fn quad4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize) {
        // SAFETY: four rows of four elements are readable at `x` and writable at `y`.
        unsafe { quad(x, x_stride, y, y_stride) }
    }

    #[inline(always)]
    unsafe fn long1(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: `LONG1` rows of 16 bytes are readable at `x` and 16 of `LONG1` writable at `y`.
        unsafe { long32(x, x_stride, y, y_stride) }
    }

    #[inline(always)]
    unsafe fn tile1(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: rows and columns below 16.
        unsafe {
            let mut rows = [_mm_setzero_si128(); 16];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm_loadu_si128(x.add(i * x_stride).cast());
            }
            // Each round interleaves rows `i` and `i + 8`; four rounds transpose.
            for _ in 0..4 {
                let before = rows;
                for i in 0..8 {
                    rows[2 * i] = _mm_unpacklo_epi8(before[i], before[i + 8]);
                    rows[2 * i + 1] = _mm_unpackhi_epi8(before[i], before[i + 8]);
                }
            }
            for (i, row) in rows.into_iter().enumerate() {
                _mm_storeu_si128(y.add(i * y_stride).cast(), row);
            }
        }
    }
}

/// Transposes four rows of four elements.
///
/// # Safety
/// The rows are readable at `x` and writable at `y`, at these strides.
#[inline(always)]
pub(super) unsafe fn quad(x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize) {
    // SAFETY: rows and columns below 4.
    unsafe {
        let rows = [
            _mm_loadu_si128(x.cast()),
            _mm_loadu_si128(x.add(x_stride).cast()),
            _mm_loadu_si128(x.add(2 * x_stride).cast()),
            _mm_loadu_si128(x.add(3 * x_stride).cast()),
        ];
        for (j, column) in columns4(rows).into_iter().enumerate() {
            _mm_storeu_si128(y.add(j * y_stride).cast(), column);
        }
    }
}

/// Returns the columns of four rows of four elements.
#[inline(always)]
pub(super) fn columns4([a, b, c, d]: [__m128i; 4]) -> [__m128i; 4] {
    // SAFETY: called by holders of a token only; accesses no memory.
    unsafe {
        let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
        let (low, high) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
        [
            _mm_unpacklo_epi64(ab, cd),
            _mm_unpackhi_epi64(ab, cd),
            _mm_unpacklo_epi64(low, high),
            _mm_unpackhi_epi64(low, high),
        ]
    }
}

/// Transposes 32 rows of 16 bytes.
///
/// # Safety
/// 32 rows of 16 bytes are readable and 16 of 32 writable at these strides; the machine has AVX2.
#[inline(always)]
unsafe fn long32(x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
    // SAFETY: rows below 32, columns below 16.
    unsafe {
        let mut rows = [_mm256_setzero_si256(); 16];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = lanes_of_rows::<16, _>(x.add(i * x_stride), x_stride);
        }
        // In every lane, each round interleaves rows `i` and `i + 8`; four rounds transpose.
        let rows = interleave(interleave(interleave(interleave(rows))));
        for (i, row) in rows.into_iter().enumerate() {
            _mm256_storeu_si256(y.add(i * y_stride).cast(), row);
        }
    }
}

/// Loads 16 bytes from a row and from the one `APART` rows further.
///
/// # Safety
/// 16 bytes are readable at `x` and at `x + APART * stride`.
#[inline(always)]
unsafe fn lanes_of_rows<const APART: usize, T>(x: *const T, stride: usize) -> __m256i {
    // SAFETY: 16 bytes are readable at `x` and at `x + APART * stride`.
    unsafe {
        let row = _mm256_castsi128_si256(_mm_loadu_si128(x.cast()));
        _mm256_inserti128_si256::<1>(row, _mm_loadu_si128(x.add(APART * stride).cast()))
    }
}

/// Interleaves the bytes of vectors `i` and `i + 8`, lane by lane.
#[inline(always)]
fn interleave(x: [__m256i; 16]) -> [__m256i; 16] {
    macro_rules! each {
        ($($i:literal)*) => {
            // SAFETY: called by holders of a token only; accesses no memory.
            unsafe {
                [$(
                    _mm256_unpacklo_epi8(x[$i], x[$i + 8]),
                    _mm256_unpackhi_epi8(x[$i], x[$i + 8]),
                )*]
            }
        };
    }
    each!(0 1 2 3 4 5 6 7)
}
