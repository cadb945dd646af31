//! Matrix products of `f32` on packed weights: `C = epilogue(A x B)`.
//!
//! `A` and `C` are row-major with a row stride, so that a row is a pixel or a token with its
//! channels. `B` is packed once, into panels of columns that the product then reads in sequence. How it
//! is packed depends on the instruction set, not on the number of rows. Bias, residual and activation
//! are applied while a tile of `C` is in registers. A caller with several threads splits the rows.
//!
//! Rows of `A` may also be gathered, run by run, by a table (indirect GEMM): see [`IndirectA`], which convolutions
//! rest on.

use crate::isa::{Isa, isa};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
mod driver;
mod epilogue;
mod igemm;
#[cfg(test)]
mod igemm_tests;
#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
mod pack;
mod portable;
mod source;
#[cfg(test)]
mod tests;

pub use crate::math::Activation;
pub use epilogue::Epilogue;
pub use igemm::{IndirectA, RowMap};
pub use pack::{Layout, Stored};

use source::Pixels;

/// The micro-kernels of one instruction set (BLIS' word: what computes one tile of `C` in registers), and how
/// they want `B` packed. What is packed for one instruction set, only the same reads.
#[derive(Debug)]
pub struct MicroKernels {
    /// Columns in one register.
    lanes: usize,
    /// Registers per row of most panels.
    panel: usize,
    /// By registers per row less one, then by rows less one: a tile whose rows of `A` are strided.
    strided: &'static [&'static [MicroKernel]],
    /// The same for rows of `A` that a table gathers.
    indirect: &'static [&'static [MicroKernel]],
    isa: Isa,
    /// Entries of a table to pointers.
    resolve: ResolveFn,
}

/// A micro-kernel: computes one tile. The machine must have the instruction set, and the pointers of the tile
/// must be good for the elements that it names.
type MicroKernel = unsafe fn(&Tile);

/// Writes a pointer for each entry. The machine must have the instruction set.
type ResolveFn = unsafe fn(&Pixels, &[u32], &mut [*const f32]);

/// One tile of `C`: some rows by some registers, both known to the function that computes it.
#[derive(Debug)]
struct Tile {
    /// The first row of `A`, at the first of `depth` columns, if rows are strided.
    a: *const f32,
    lda: usize,
    /// The first row's pixels, one per tap, if rows are gathered.
    pixels: *const *const f32,
    /// Pixels from a row to the next.
    ld_pixels: usize,
    /// Elements from the start of a pixel to the first of `depth` columns.
    channel: usize,
    /// The pixel whose elements are known to be zeros.
    zeros: *const f32,
    /// Runs of `depth` columns: 1 if rows are strided.
    taps: usize,
    /// Columns of `A` per tap.
    depth: usize,
    /// `depth` rows per tap of whole registers, without gaps.
    b: *const f32,
    /// What to prefetch meanwhile, a cache line per step of depth. It is never read.
    prefetch: *const f32,
    c: *mut f32,
    ldc: usize,
    /// Columns of `C`: the last register counts in part, the others in full.
    cols: usize,
    /// A number per column to start from, or null.
    bias: *const f32,
    /// A matrix to add, or null: a residual, or `C` itself when depth comes in blocks.
    add: *const f32,
    ld_add: usize,
    clamp: Option<(f32, f32)>,
}

/// The micro-kernels of an instruction set, which must be one that the machine has: see [`Isa::available`].
///
/// # Panics
///
/// If the machine does not have the instruction set.
pub fn kernels(isa: Isa) -> &'static MicroKernels {
    assert!(Isa::available().contains(&isa), "this machine does not have the instruction set");
    match isa {
        Isa::Portable => &portable::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &avx2::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => &avx512::KERNELS,
        #[cfg(not(target_arch = "x86_64"))]
        _ => &portable::KERNELS,
    }
}

/// Micro-kernels for words of two bf16 numbers each, where the machine has them and the instruction set in use does not forbid
/// them.
pub(crate) fn bf16_kernels() -> Option<&'static MicroKernels> {
    #[cfg(target_arch = "x86_64")]
    if isa().is_avx512() && has_bf16() {
        return Some(&avx512_bf16::KERNELS);
    }
    None
}

#[cfg(target_arch = "x86_64")]
fn has_bf16() -> bool {
    !cfg!(miri) && is_x86_feature_detected!("avx512bf16")
}

/// The micro-kernels of the instruction set in use.
fn chosen() -> &'static MicroKernels {
    match isa() {
        Isa::Portable => &portable::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &avx2::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => &avx512::KERNELS,
        #[cfg(not(target_arch = "x86_64"))]
        _ => &portable::KERNELS,
    }
}

/// Elements that a `k` x `n` matrix takes when packed.
///
/// # Panics
///
/// If that is more than `usize` holds.
pub fn packed_len(k: usize, n: usize) -> usize {
    chosen().packed_len(k, n)
}

/// Packs a `k` x `n` matrix whose rows (columns, if `layout` is transposed) lie `ldb` elements apart
/// into the first [`packed_len`] elements of `out`. Products run best when `out` is aligned to 64 bytes.
///
/// # Panics
///
/// If `b` or `out` is too short.
pub fn pack_b<T: Stored>(b: &[T], ldb: usize, layout: Layout, k: usize, n: usize, out: &mut [f32]) {
    chosen().pack_b(b, ldb, layout, k, n, out);
}

/// `C = epilogue(A x B)` with `A` of `m` x `k`, `B` of `k` x `n` as packed by [`pack_b`], and `C` of
/// `m` x `n`. Rows of `A` lie `lda` elements apart, and may overlap; rows of `C` lie `ldc` apart.
///
/// # Panics
///
/// If a slice is too short for its matrix, or `ldc` is less than `n`.
#[expect(clippy::too_many_arguments, reason = "the arguments of BLAS, in its order")]
pub fn gemm(
    a: &[f32],
    lda: usize,
    m: usize,
    k: usize,
    packed: &[f32],
    n: usize,
    c: &mut [f32],
    ldc: usize,
    epilogue: &Epilogue<'_>,
) {
    chosen().gemm(a, lda, m, k, packed, n, c, ldc, epilogue);
}

/// `y = epilogue(x B)` with `x` of `k` elements, `B` of `k` x `n` as packed by [`pack_b`], and `y` of
/// `n` elements. `B` is read once, in sequence.
///
/// # Panics
///
/// If a slice is too short.
pub fn gemv(x: &[f32], k: usize, packed: &[f32], n: usize, y: &mut [f32], epilogue: &Epilogue<'_>) {
    chosen().gemm(x, k, 1, k, packed, n, y, n, epilogue);
}

/// [`gemm`] by chunks of columns, at most so many. `run` gets their number and what computes one that is left, and calls that
/// as often, on any threads; each chunk is computed once, whatever it does.
///
/// # Panics
///
/// As [`gemm`].
#[expect(clippy::too_many_arguments, reason = "those of `gemm`, and how columns are shared")]
pub fn gemm_by_columns(
    a: &[f32],
    lda: usize,
    m: usize,
    k: usize,
    packed: &[f32],
    n: usize,
    c: &mut [f32],
    ldc: usize,
    epilogue: &Epilogue<'_>,
    chunks: usize,
    run: impl FnOnce(usize, &(dyn Fn() + Sync)),
) {
    chosen().gemm_by_columns(a, lda, m, k, packed, n, c, ldc, epilogue, chunks, run);
}

/// Columns of each chunk but the last, if `B` is to be cut into so many at most: a chunk from column `j` on is
/// itself a packed matrix, from `j * k` on.
pub fn columns_of_chunk(n: usize, chunks: usize) -> usize {
    chosen().columns_of_chunk(n, chunks)
}

/// How the matrices of a batch lie: each so many elements behind the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Products.
    pub count: usize,
    /// Elements from one `A` to the next; 0 if all share it.
    pub a: usize,
    /// Elements from one packed `B` to the next; 0 if all share it.
    pub packed: usize,
    /// Elements from one `C` to the next.
    pub c: usize,
    /// Elements from one residual to the next; 0 if all share it.
    pub residual: usize,
}

/// [`gemm`] for each product of a batch. All share the bias.
///
/// # Panics
///
/// As [`gemm`], for each of the products.
#[expect(clippy::too_many_arguments, reason = "the arguments of `gemm`, and the batch")]
pub fn gemm_batched(
    batch: &Batch,
    a: &[f32],
    lda: usize,
    m: usize,
    k: usize,
    packed: &[f32],
    n: usize,
    c: &mut [f32],
    ldc: usize,
    epilogue: &Epilogue<'_>,
) {
    let kernels = chosen();
    if m == 0 || n == 0 {
        return;
    }
    for i in 0..batch.count {
        let residual = epilogue.residual.map(|(data, ld)| (&data[i * batch.residual..], ld));
        let epilogue = Epilogue { residual, ..*epilogue };
        let (a, packed) = (&a[i * batch.a..], &packed[i * batch.packed..]);
        kernels.gemm(a, lda, m, k, packed, n, &mut c[i * batch.c..], ldc, &epilogue);
    }
}
