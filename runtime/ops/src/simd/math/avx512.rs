//! 16 lanes of AVX-512.

use std::arch::x86_64::*;

use super::vector::Simd;

/// Shows that the machine has AVX-512 F, BW, DQ and VL, AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The machine has the features.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

macro_rules! ops {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $type),*) -> $out {
            // SAFETY: the token shows that the machine has the instruction, which touches no memory.
            unsafe { $body }
        }
    )*};
}

/// The mask of the first `len` lanes.
#[inline(always)]
fn head(len: usize) -> __mmask16 {
    ((1u32 << len) - 1) as __mmask16
}

impl Simd for Avx512 {
    type F = __m512;
    type I = __m512i;
    type M = __mmask16;

    const LANES: usize = 16;
    const FUSED: bool = true;
    const TILE4: usize = 16;
    const TILE1: usize = 16;

    ops! {
        splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        splat_i(x: i32) -> __m512i = _mm512_set1_epi32(x);
        add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        nfma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps(a, b, c);
        sqrt(x: __m512) -> __m512 = _mm512_sqrt_ps(x);
        min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        lt(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
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
        // SAFETY: as above.
        unsafe { _mm512_srli_epi32::<BY>(x) }
    }
    #[inline(always)]
    fn sar<const BY: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_srai_epi32::<BY>(x) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: __m512) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(to, x) }
    }
    #[inline(always)]
    unsafe fn load_head(self, from: *const f32, len: usize, fill: __m512) -> __m512 {
        // SAFETY: the mask covers what the caller promises; other lanes are not touched.
        unsafe { _mm512_mask_loadu_ps(fill, head(len), from) }
    }
    #[inline(always)]
    unsafe fn store_head(self, to: *mut f32, len: usize, x: __m512) {
        // SAFETY: the mask covers what the caller promises; other lanes are not touched.
        unsafe { _mm512_mask_storeu_ps(to, head(len), x) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_u8(self, to: *mut u8, x: __m512i) {
        // SAFETY: the caller's promise.
        unsafe { _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(x)) }
    }
    #[inline(always)]
    unsafe fn store_u16(self, to: *mut u16, x: __m512i) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(x)) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, to: *mut u16, x: __m512) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)) }
    }

    #[inline(always)]
    unsafe fn tile4(self, x: *const u32, x_stride: usize, y: *mut u32, y_stride: usize) {
        let mut four = 0;
        while four < 16 {
            // SAFETY: rows and columns below 16.
            unsafe {
                let w0 = lanes_of_rows(x.add(four), x_stride);
                let w1 = lanes_of_rows(x.add(four + x_stride), x_stride);
                let w2 = lanes_of_rows(x.add(four + 2 * x_stride), x_stride);
                let w3 = lanes_of_rows(x.add(four + 3 * x_stride), x_stride);
                let a = _mm512_castsi512_pd(_mm512_unpacklo_epi32(w0, w1));
                let b = _mm512_castsi512_pd(_mm512_unpackhi_epi32(w0, w1));
                let c = _mm512_castsi512_pd(_mm512_unpacklo_epi32(w2, w3));
                let d = _mm512_castsi512_pd(_mm512_unpackhi_epi32(w2, w3));
                let y = y.add(four * y_stride);
                _mm512_storeu_pd(y.cast(), _mm512_unpacklo_pd(a, c));
                _mm512_storeu_pd(y.add(y_stride).cast(), _mm512_unpackhi_pd(a, c));
                _mm512_storeu_pd(y.add(2 * y_stride).cast(), _mm512_unpacklo_pd(b, d));
                _mm512_storeu_pd(y.add(3 * y_stride).cast(), _mm512_unpackhi_pd(b, d));
            }
            four += 4;
        }
    }

    #[inline(always)]
    unsafe fn tile1(self, x: *const u8, x_stride: usize, y: *mut u8, y_stride: usize) {
        // SAFETY: rows and columns below 16.
        unsafe {
            let w0 = lanes_of_rows(x, x_stride);
            let w1 = lanes_of_rows(x.add(x_stride), x_stride);
            let w2 = lanes_of_rows(x.add(2 * x_stride), x_stride);
            let w3 = lanes_of_rows(x.add(3 * x_stride), x_stride);
            let (a, b) = (_mm512_unpacklo_epi8(w0, w1), _mm512_unpackhi_epi8(w0, w1));
            let (c, d) = (_mm512_unpacklo_epi8(w2, w3), _mm512_unpackhi_epi8(w2, w3));
            // A 4-byte unit `d` of lane `g` in part `j` is column `4j + d` of rows `4g..4g + 4`.
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

/// 16 bytes from every fourth row.
#[inline(always)]
unsafe fn lanes_of_rows<T>(x: *const T, stride: usize) -> __m512i {
    // SAFETY: rows 0, 4, 8 and 12 of the tile that the caller vouches for.
    unsafe {
        let row = _mm512_castsi128_si512(_mm_loadu_si128(x.cast()));
        let row = _mm512_inserti32x4::<1>(row, _mm_loadu_si128(x.add(4 * stride).cast()));
        let row = _mm512_inserti32x4::<2>(row, _mm_loadu_si128(x.add(8 * stride).cast()));
        _mm512_inserti32x4::<3>(row, _mm_loadu_si128(x.add(12 * stride).cast()))
    }
}
