//! Matrix products of `f32` with packed weights: `C = epilogue(A x B)`.
//!
//! `A` and `C` are row-major with a row stride; a row is a pixel or a token with its channels. `B` is packed once, into
//! panels of columns that the product reads sequentially. The packed layout depends on the instruction set, but not on
//! the number of rows. Bias, residual and activation (the [`Epilogue`]) are applied while a tile of `C` is in
//! registers. A caller with several threads divides the rows.
//!
//! Rows of `A` may also be gathered through a table (indirect GEMM): see [`IndirectA`], which convolutions use.
//!
//! In this module, `m`, `n` and `k` are the rows of `C`, the columns of `C`, and the depth, as in BLAS; `lda`, `ldb`
//! and `ldc` are row strides in elements. `driver` and `igemm` divide a product into tiles, which the micro-kernels of
//! each instruction set compute.

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

/// The micro-kernels of one instruction set, and its packed layout of `B`. In BLIS's terms, a micro-kernel computes one
/// tile of `C` in registers. Data packed for one instruction set can be used only with it.
#[derive(Debug)]
pub struct MicroKernels {
    /// Columns per register.
    lanes: usize,
    /// Registers per row of most panels.
    panel: usize,
    /// Kernels for strided rows of `A`, by registers per row minus 1, then by rows minus 1.
    strided: &'static [&'static [MicroKernel]],
    /// The same for gathered rows of `A`.
    indirect: &'static [&'static [MicroKernel]],
    isa: Isa,
    /// Converts table entries to pointers.
    resolve: ResolveFn,
}

/// A function that computes one tile. The machine must have the instruction set, and the tile's pointers must be valid
/// for the elements that its counts describe.
type MicroKernel = unsafe fn(&Tile);

/// A function that writes a pointer for each table entry. The machine must have the instruction set.
type ResolveFn = unsafe fn(&Pixels, &[u32], &mut [*const f32]);

/// The operands of one tile of `C`. Its rows and its registers per row are constants of the kernel.
#[derive(Debug)]
struct Tile {
    /// The first row of `A`, at the first of `depth` columns, for strided rows.
    a: *const f32,
    lda: usize,
    /// The first row's pixels, one per tap, for gathered rows.
    pixels: *const *const f32,
    /// Pixel pointers between rows.
    ld_pixels: usize,
    /// Offset of the first of `depth` columns in a pixel.
    channel: usize,
    /// The pixel of zeros.
    zeros: *const f32,
    /// Runs of `depth` columns; 1 for strided rows.
    taps: usize,
    /// Columns of `A` per tap.
    depth: usize,
    /// `depth` rows per tap, of whole registers without gaps.
    b: *const f32,
    /// Address to prefetch, one cache line per step of depth; never dereferenced.
    prefetch: *const f32,
    c: *mut f32,
    ldc: usize,
    /// Columns of `C`; only the last register may be partial.
    cols: usize,
    /// Initial value per column, or null.
    bias: *const f32,
    /// A matrix to add, or null: a residual, or `C` itself if the depth is divided into blocks.
    add: *const f32,
    ld_add: usize,
    clamp: Option<(f32, f32)>,
}

/// Returns the micro-kernels of an instruction set from [`Isa::available`].
///
/// # Panics
///
/// Panics if the machine does not have the instruction set.
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

/// Returns the micro-kernels for words of two bf16 values, if the machine has them and the instruction set in use
/// permits them.
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

/// Returns the micro-kernels of the instruction set in use.
fn current() -> &'static MicroKernels {
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

/// Returns the elements of a packed `k` x `n` matrix.
///
/// # Panics
///
/// Panics if the size overflows `usize`.
pub fn packed_len(k: usize, n: usize) -> usize {
    current().packed_len(k, n)
}

/// Packs a `k` x `n` matrix into the first [`packed_len`] elements of `out`. Its rows (columns, if `layout` is
/// transposed) have a stride of `ldb`. Products are fastest if `out` is aligned to 64 bytes.
///
/// # Panics
///
/// Panics if `b` or `out` is too short.
pub fn pack_b<T: Stored>(b: &[T], ldb: usize, layout: Layout, k: usize, n: usize, out: &mut [f32]) {
    current().pack_b(b, ldb, layout, k, n, out);
}

/// Computes `C = epilogue(A x B)` with `A` of `m` x `k`, `B` of `k` x `n` packed by [`pack_b`], and `C` of `m` x `n`.
/// Rows of `A` have a stride of `lda` and may overlap; rows of `C` have a stride of `ldc`.
///
/// # Panics
///
/// Panics if a slice is too short for its matrix, or `ldc` is less than `n`.
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
    current().gemm(a, lda, m, k, packed, n, c, ldc, epilogue);
}

/// Computes `y = epilogue(x B)` with `x` of `k` elements, `B` of `k` x `n` packed by [`pack_b`], and `y` of `n`
/// elements. `B` is read once, sequentially.
///
/// # Panics
///
/// Panics if a slice is too short.
pub fn gemv(x: &[f32], k: usize, packed: &[f32], n: usize, y: &mut [f32], epilogue: &Epilogue<'_>) {
    current().gemm(x, k, 1, k, packed, n, y, n, epilogue);
}

/// Computes [`gemm`] in at most `chunks` chunks of columns. `run` gets the number of chunks and a function that
/// computes the next chunk. It calls the function once per chunk, on any threads. Each chunk is computed exactly once,
/// even if `run` calls the function fewer or more times.
///
/// # Panics
///
/// Panics like [`gemm`].
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
    current().gemm_by_columns(a, lda, m, k, packed, n, c, ldc, epilogue, chunks, run);
}

/// Returns the columns of each chunk but the last, for at most `chunks` chunks of `B`. A chunk from column `j` on is
/// itself a packed matrix, at `j * k`.
pub fn columns_of_chunk(n: usize, chunks: usize) -> usize {
    current().columns_of_chunk(n, chunks)
}

/// The strides between the matrices of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of products.
    pub count: usize,
    /// Elements between `A` matrices; 0 if shared.
    pub a: usize,
    /// Elements between packed `B` matrices; 0 if shared.
    pub packed: usize,
    /// Elements between `C` matrices.
    pub c: usize,
    /// Elements between residuals; 0 if shared.
    pub residual: usize,
}

/// Computes [`gemm`] for each product of a batch. The bias is shared.
///
/// # Panics
///
/// Panics like [`gemm`], for each of the products.
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
    let kernels = current();
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
