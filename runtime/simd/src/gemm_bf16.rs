//! Matrix products with factors rounded to bf16 and sums in `f32`: `C = epilogue(A x B)`.
//!
//! An AVX512-BF16 instruction adds the products of two neighbours along the depth to each sum. A 32-bit word of packed
//! `B` therefore holds two rows of a column, and a word of `A` two columns of a row. With words as elements, this is a
//! product of half the depth with the panels and tiles of [`crate::gemm_f32`]. `B` is rounded when it is packed. `A` is
//! rounded block by block into memory on the stack, where gathered rows become contiguous as well.
//!
//! # Accuracy
//!
//! A factor has a relative error of at most `2^-8` (denormals become 0), so a product has `2^-7` and a little more.
//! Sums are rounded at most once per product. A sum of `n` terms before the activation is off by at most
//! `(2^-7 + 2^-16 + 1.2 (n + 3) eps / 2) * (sum of |a b|)`, as long as nothing overflows or is denormal; denormal sums
//! become 0. NaN and infinities affect only their own row or column.

use std::ops::Range;

use crate::gemm_f32::{self, Epilogue, Layout, MicroKernels, Stored, bf16_kernels};
use crate::isa::Isa;

#[cfg(test)]
mod tests;

/// Words of the block of `A` on the stack: 64 KiB.
const WORDS: usize = 1 << 14;
/// Words of the block for products with few rows, which would spend too much time on zeroing a larger one.
const FEW_WORDS: usize = 1 << 10;
/// The most words per row of a block.
const MAX_DEPTH: usize = 256;

/// Returns whether the machine has bf16 products, and the instruction set in use permits them.
pub fn is_available() -> bool {
    bf16_kernels().is_some()
}

/// Rows of `A`, which are rounded as they are read.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Rows at a fixed stride.
    Strided {
        /// The rows.
        a: &'a [f32],
        /// Elements between rows.
        lda: usize,
    },
    /// Each row is the channels of one pixel per tap, tap after tap.
    Gathered {
        /// The pixels.
        a: &'a [f32],
        /// Elements between pixels.
        lda: usize,
        /// By row, then by tap: the index of a pixel. Any index out of range stands for zeros.
        table: &'a [u32],
        /// Columns of the table.
        taps: usize,
        /// The first channel of a pixel that is used, and the number of channels.
        channels: (usize, usize),
    },
}

/// Returns the words of a packed `k` x `n` matrix.
///
/// # Panics
///
/// Panics if the machine has no such products ([`is_available`]), or the size overflows `usize`.
pub fn packed_len(k: usize, n: usize) -> usize {
    kernels().packed_len(k.div_ceil(2), n)
}

/// Packs a `k` x `n` matrix into the first [`packed_len`] words of `out`. Its rows (columns, if `layout` is transposed)
/// have a stride of `ldb`.
///
/// # Panics
///
/// Panics like [`packed_len`], and if `b` or `out` is too short.
pub fn pack_b<T: Stored>(b: &[T], ldb: usize, layout: Layout, k: usize, n: usize, out: &mut [f32]) {
    let index = |row: usize, col: usize| match layout {
        Layout::Rows => row * ldb + col,
        Layout::Transposed => col * ldb + row,
    };
    pack(k, n, |row, col| b[index(row, col)].number(), out);
}

/// Packs a matrix whose elements `get` returns by row and column.
pub(crate) fn pack(k: usize, n: usize, get: impl Fn(usize, usize) -> f32, out: &mut [f32]) {
    let word = |pair: usize, col: usize| {
        let second = if 2 * pair + 1 < k { rounded(get(2 * pair + 1, col)) } else { 0 };
        f32::from_bits(u32::from(second) << 16 | u32::from(rounded(get(2 * pair, col))))
    };
    let words = k.div_ceil(2);
    kernels().pack_rows(words, n, &(0..words), word, out);
}

/// Rounds to bf16, ties to even.
fn rounded(x: f32) -> u16 {
    let bits = x.to_bits();
    let up = if x.is_nan() { 0x40_0000 } else { 0x7fff + (bits >> 16 & 1) };
    let bits = if x.is_nan() { bits | up } else { bits + up };
    (bits >> 16) as u16
}

/// Computes `C = epilogue(A x B)` with `A` of `m` x `k`, `B` of `k` x `n` packed by [`pack_b`], and `C` of `m` x `n`
/// with a row stride of `ldc`.
///
/// # Panics
///
/// Panics like [`packed_len`], and if a slice is too short for its matrix, or `ldc` is less than `n`.
#[expect(clippy::too_many_arguments, reason = "the arguments of BLAS, in its order")]
pub fn gemm(
    a: Rows<'_>,
    m: usize,
    k: usize,
    packed: &[f32],
    n: usize,
    c: &mut [f32],
    ldc: usize,
    epilogue: &Epilogue<'_>,
) {
    let words = k.div_ceil(2);
    let parts = words.div_ceil(MAX_DEPTH).max(1);
    let product = Product { a, k, depth: words.div_ceil(parts), packed, n, ldc, epilogue };
    if m.saturating_mul(product.depth) <= FEW_WORDS {
        product.run::<FEW_WORDS>(m, c);
    } else {
        product.run::<WORDS>(m, c);
    }
}

/// A product, and the words per row of a block of depth.
struct Product<'a> {
    a: Rows<'a>,
    k: usize,
    depth: usize,
    packed: &'a [f32],
    n: usize,
    ldc: usize,
    epilogue: &'a Epilogue<'a>,
}

impl Product<'_> {
    fn run<const WORDS: usize>(&self, m: usize, c: &mut [f32]) {
        let Self { a, k, depth, packed, n, ldc, epilogue } = *self;
        let (kernels, words) = (kernels(), k.div_ceil(2));
        let max_height = (WORDS / depth.max(1)).max(1);
        // Blocks of equal height, with few partial tiles.
        let height = m.div_ceil(m.div_ceil(max_height).max(1)).next_multiple_of(8).min(max_height);
        let mut block = [0u32; WORDS];
        for first in (0..m).step_by(height.max(1)) {
            let rows = height.min(m - first);
            let c = &mut c[first * ldc..];
            let residual = epilogue.residual.map(|(data, ld)| (&data[first * ld..], ld));
            let epilogue = Epilogue { residual, ..*epilogue };
            let mut start = 0;
            loop {
                let range = start..words.min(start + depth);
                let block = &mut block[..rows * range.len()];
                for (row, row_words) in block.chunks_exact_mut(range.len().max(1)).enumerate() {
                    a.round(first + row, 2 * range.start..k.min(2 * range.end), row_words);
                }
                start = range.end;
                let a = as_words(block);
                kernels.gemm_part(a, range, rows, words, packed, n, c, ldc, &epilogue);
                if start >= words {
                    break;
                }
            }
        }
    }
}

/// Returns the micro-kernels; panics on a machine without them.
fn kernels() -> &'static MicroKernels {
    let kernels = bf16_kernels();
    assert!(kernels.is_some(), "this machine has no products of bf16");
    kernels.unwrap_or_else(|| gemm_f32::kernels(Isa::Portable))
}

/// Reinterprets words as the elements that micro-kernels take.
fn as_words(words: &[u32]) -> &[f32] {
    // SAFETY: both types have 4 bytes, for which any bits are valid, and the same alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
}

impl Rows<'_> {
    /// Rounds the elements of a row in a range of depth, two per word. An odd last element is paired with zero.
    fn round(&self, row: usize, depth: Range<usize>, words: &mut [u32]) {
        match *self {
            Self::Strided { a, lda } => {
                let mut words = HalfWords { to: words, len: 0 };
                words.push(&a[row * lda..][depth.clone()]);
                words.end();
            }
            Self::Gathered { a, lda, table, taps, channels: (first, count) } => {
                let entries = &table[row * taps..][..taps];
                let mut words = HalfWords { to: words, len: 0 };
                let mut depth_index = depth.start;
                while depth_index < depth.end {
                    let (tap, channel) = (depth_index / count, depth_index % count);
                    let len = (count - channel).min(depth.end - depth_index);
                    let start = (entries[tap] as usize).checked_mul(lda);
                    let pixel = start.and_then(|start| a.get(start..)?.get(first + channel..));
                    match pixel.and_then(|pixel| pixel.get(..len)) {
                        Some(pixel) => words.push(pixel),
                        None => words.push_zeros(len),
                    }
                    depth_index += len;
                }
                words.end();
            }
        }
    }
}

/// A writer of pairs of 16-bit values, each pair in one word, in order.
struct HalfWords<'a> {
    to: &'a mut [u32],
    len: usize,
}

impl HalfWords<'_> {
    /// Returns the 16-bit values that are not written yet.
    fn unwritten(&mut self) -> &mut [u16] {
        // SAFETY: each word of `to` is two 16-bit values. Any bits are valid, and words have a larger alignment.
        let rounded_pair = unsafe {
            std::slice::from_raw_parts_mut(self.to.as_mut_ptr().cast::<u16>(), self.to.len() * 2)
        };
        &mut rounded_pair[self.len..]
    }

    fn push(&mut self, values: &[f32]) {
        round(values, &mut self.unwritten()[..values.len()]);
        self.len += values.len();
    }

    fn push_zeros(&mut self, count: usize) {
        self.unwritten()[..count].fill(0);
        self.len += count;
    }

    fn end(mut self) {
        self.unwritten().fill(0);
    }
}

/// Rounds the common length of both slices.
fn round(values: &[f32], rounded_values: &mut [u16]) {
    #[cfg(target_arch = "x86_64")]
    if is_available() {
        // SAFETY: `is_available` found that the machine has AVX512-BF16.
        return unsafe { avx512::round(values, rounded_values) };
    }
    rounded_values
        .iter_mut()
        .zip(values)
        .for_each(|(rounded_values, &x)| *rounded_values = rounded(x));
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    //! The AVX512-BF16 version.

    use std::arch::x86_64::{
        __m512, __m512bh, __m512i, _mm512_cvtne2ps_pbh, _mm512_loadu_ps, _mm512_mask_storeu_epi16,
        _mm512_maskz_loadu_ps, _mm512_storeu_si512,
    };

    /// Elements of two vectors.
    const STEP: usize = 32;

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(super) fn round(values: &[f32], outputs: &mut [u16]) {
        let len = values.len().min(outputs.len());
        let (chunks, tail) = values[..len].as_chunks::<STEP>();
        let (output_chunks, output_tail) = outputs[..len].as_chunks_mut::<STEP>();
        for (values, outputs) in chunks.iter().zip(output_chunks) {
            let upper_half = values[STEP / 2..].as_ptr();
            // SAFETY: `values` has 32 elements, and this reads the first 16.
            let low = unsafe { _mm512_loadu_ps(values.as_ptr()) };
            // SAFETY: `upper_half` points to the last 16 of the 32 elements of `values`.
            let high = unsafe { _mm512_loadu_ps(upper_half) };
            let pair = rounded_pair(low, high);
            // SAFETY: `outputs` has 32 values.
            unsafe { _mm512_storeu_si512(outputs.as_mut_ptr().cast(), pair) };
        }
        let mask = (1u32 << tail.len()) - 1;
        let upper_half = tail.as_ptr().wrapping_add(STEP / 2);
        // SAFETY: lanes outside the mask are not read, and `tail` has the others.
        let low = unsafe { _mm512_maskz_loadu_ps(mask as u16, tail.as_ptr()) };
        // SAFETY: lanes outside the mask are not read, and `tail` has the others from its 17th element on.
        let high = unsafe { _mm512_maskz_loadu_ps((mask >> 16) as u16, upper_half) };
        let pair = rounded_pair(low, high);
        // SAFETY: lanes outside the mask are not written, and `output_tail` is as long as `tail`.
        unsafe { _mm512_mask_storeu_epi16(output_tail.as_mut_ptr().cast(), mask, pair) };
    }

    /// Rounds the elements of two vectors.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn rounded_pair(low: __m512, high: __m512) -> __m512i {
        let pair = _mm512_cvtne2ps_pbh(high, low);
        // SAFETY: both types are 512 bits, for which any bits are valid.
        unsafe { std::mem::transmute::<__m512bh, __m512i>(pair) }
    }
}
