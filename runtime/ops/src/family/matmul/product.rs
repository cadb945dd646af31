//! f32 matrix products by the primitives of `udo_simd`: packing of right sides, and rows divided among threads.

use udo_api::{Arithmetic, Error, ExecError, FinalizeCx, Parallel, Sources, Work};
use udo_simd::gemm_bf16::{self, Rows};
use udo_simd::gemm_f32::{
    Epilogue, Layout, Stored, columns_of_chunk, gemm, gemm_by_columns, gemv, pack_b, packed_len,
};

use crate::family::partition;
use crate::family::results::{Cut, Results, Strip, strip_rows};
use crate::number::wrong_recipe;

/// With fewer left rows, packing the right side in the run costs more than it saves.
const MIN_ROWS_TO_PACK: usize = 4;

/// Parts of a right side per thread that packs it; several balance the threads.
const PARTS_PER_THREAD: usize = 4;

/// The fewest rows of a strip, which is computed and then quantized. Products of fewer rows add their terms in another
/// order, and would differ from those without quantization.
const MIN_STRIP_ROWS: usize = 64;

/// The fewest rows per grain: each grain reads the whole right side.
const MIN_GRAIN_ROWS: usize = 12;

/// The precision of the factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factors {
    F32,
    Bf16,
}

impl Factors {
    /// Returns bf16 for a constant input if the user allows it and the machine supports it, else f32.
    pub(crate) fn choose(cx: &FinalizeCx<'_>, constant: usize) -> Self {
        let is_allowed = cx.allows_bf16() && cx.is_constant(constant);
        if is_allowed && gemm_bf16::is_available() { Self::Bf16 } else { Self::F32 }
    }
}

/// `[rows, depth]` times `[depth, cols]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) cols: usize,
    /// Memory layout of the right side.
    pub(crate) right: Layout,
    pub(crate) factors: Factors,
}

impl Product {
    /// Returns the f32 elements of a packed right side; a bf16 pair takes one.
    pub(crate) fn packed_len(&self) -> usize {
        match self.factors {
            Factors::F32 => packed_len(self.depth, self.cols),
            Factors::Bf16 => gemm_bf16::packed_len(self.depth, self.cols),
        }
    }

    /// Returns the elements of a packed column.
    fn packed_depth(&self) -> usize {
        match self.factors {
            Factors::F32 => self.depth,
            Factors::Bf16 => self.depth.div_ceil(2),
        }
    }

    /// Returns the work of `batch` products.
    pub(crate) fn work(&self, batch: usize) -> Work {
        let work = Work::products(&[batch, self.rows, self.depth, self.cols]);
        match self.factors {
            Factors::F32 => work,
            Factors::Bf16 => work.with(Arithmetic::Bf16).by("bf16 product"),
        }
    }

    /// Returns the recipe: the integers that determine the layout that [`Self::fill`] writes, and identify it in
    /// caches.
    pub(crate) fn recipe(&self) -> [u64; 4] {
        let (right, factors) = (self.right == Layout::Transposed, self.factors == Factors::Bf16);
        [right.into(), self.depth as u64, self.cols as u64, factors.into()]
    }

    /// Packs consecutive right sides by their recipe.
    pub(crate) fn fill(
        recipe: &[u64],
        sources: &Sources<'_>,
        packed: &mut [f32],
    ) -> Result<(), Error> {
        let &[transposed, depth, cols, factors] = recipe else { return Err(wrong_recipe(recipe)) };
        let right = if transposed == 0 { Layout::Rows } else { Layout::Transposed };
        let factors = if factors == 0 { Factors::F32 } else { Factors::Bf16 };
        let product = Self { rows: 0, depth: depth as usize, cols: cols as usize, right, factors };
        let right_len = (product.depth * product.cols).max(1);
        let packed_len = product.packed_len().max(1);
        let rights = sources.bytes::<f32>(0)?.as_chunks::<4>().0.chunks_exact(right_len);
        for (right, packed) in rights.zip(packed.chunks_exact_mut(packed_len)) {
            product.pack_parts(right, packed, sources.parallel())?;
        }
        Ok(())
    }

    /// Packs a right side in chunks of columns, on several threads.
    fn pack_parts(
        &self,
        b: &[[u8; 4]],
        packed: &mut [f32],
        parallel: Parallel<'_>,
    ) -> Result<(), Error> {
        let Self { depth, cols, right, factors, .. } = *self;
        if factors == Factors::Bf16 {
            self.pack(b, packed);
            return Ok(());
        }
        let columns = columns_of_chunk(cols, PARTS_PER_THREAD * parallel.width());
        let (ldb, step) = match right {
            Layout::Rows => (cols, columns),
            Layout::Transposed => (depth, columns * depth),
        };
        Ok(parallel.chunks_mut(packed, columns * depth, |part, packed| {
            let b = b.get(part * step..).unwrap_or_default();
            pack_b(b, ldb, right, depth, columns.min(cols - part * columns), packed);
            Ok(())
        })?)
    }

    /// Packs a right side.
    pub(crate) fn pack<T: Stored>(&self, b: &[T], packed: &mut [f32]) {
        let ldb = if self.right == Layout::Rows { self.cols } else { self.depth };
        match self.factors {
            Factors::F32 => pack_b(b, ldb, self.right, self.depth, self.cols, packed),
            Factors::Bf16 => gemm_bf16::pack_b(b, ldb, self.right, self.depth, self.cols, packed),
        }
    }

    /// Whether packing a right side in the run is faster than reading it unpacked.
    pub(crate) fn is_worth_packing(&self) -> bool {
        self.rows >= MIN_ROWS_TO_PACK || self.right == Layout::Transposed
    }

    /// Computes `y = epilogue(a b)` with `b` packed.
    pub(crate) fn run(
        &self,
        parallel: Parallel<'_>,
        a: &[f32],
        packed: &[f32],
        y: &mut [f32],
        epilogue: &Epilogue<'_>,
    ) -> Result<(), ExecError> {
        self.run_to(
            parallel,
            (a, self.depth),
            packed,
            Results::numbers(y, self.cols),
            epilogue,
            &mut [],
        )
    }

    /// Computes `y = epilogue(a b)` with `b` packed, for rows of `a` with stride `lda` and an output that may be
    /// quantized. `strips` is scratch memory of [`Self::strips_len`] elements.
    pub(crate) fn run_to(
        &self,
        parallel: Parallel<'_>,
        (a, lda): (&[f32], usize),
        packed: &[f32],
        mut y: Results<'_>,
        epilogue: &Epilogue<'_>,
        strips: &mut [f32],
    ) -> Result<(), ExecError> {
        let &Self { rows, depth, cols, .. } = self;
        let grains = partition::grains(parallel, rows * depth * cols, partition::F32_PRODUCTS);
        let cut = self.cut(grains.min((rows / MIN_GRAIN_ROWS).max(parallel.width())));
        if rows == 1 {
            return y.channels(cols).compute(
                parallel,
                cut,
                strips,
                |Strip { first, y, .. }, _| {
                    self.row(first, a, packed, y, epilogue);
                    Ok(())
                },
            );
        }
        if let Some((y, ldc)) = y.as_numbers()
            && grains > 1
            && self.is_divided_by_columns(parallel.width())
        {
            let mut result = Ok(());
            let run = |chunks: usize, chunk: &(dyn Fn() + Sync)| {
                result = parallel.run(chunks, |_| {
                    chunk();
                    Ok(())
                });
            };
            gemm_by_columns(a, lda, rows, depth, packed, cols, y, ldc, epilogue, grains, run);
            return result;
        }
        y.part(0, rows).compute(parallel, cut, strips, |Strip { first, rows, y, pitch }, _| {
            let a = a.get(first * lda..).unwrap_or_default();
            let residual = epilogue.residual.map(|(data, ld)| (&data[first * ld..], ld));
            let epilogue = Epilogue { residual, ..*epilogue };
            match self.factors {
                Factors::F32 => gemm(a, lda, rows, depth, packed, cols, y, pitch, &epilogue),
                Factors::Bf16 => {
                    let a = Rows::Strided { a, lda };
                    gemm_bf16::gemm(a, rows, depth, packed, cols, y, pitch, &epilogue);
                }
            }
            Ok(())
        })
    }

    /// Returns the scratch elements for sums that are quantized, on this many threads.
    pub(crate) fn strips_len(&self, threads: usize) -> usize {
        let cut = self.cut(1);
        cut.strips_len(cut.height, partition::most_grains(threads))
    }

    /// Whether there are too few rows for all threads, so that threads share the columns.
    fn is_divided_by_columns(&self, threads: usize) -> bool {
        threads > 1
            && (2..MIN_GRAIN_ROWS.saturating_mul(threads)).contains(&self.rows)
            && self.factors == Factors::F32
    }

    /// Divides the rows of the output among grains, or the columns of a single row.
    fn cut(&self, grains: usize) -> Cut {
        let &Self { rows, cols, .. } = self;
        if rows == 1 {
            let height = columns_of_chunk(cols, grains);
            return Cut { pixels: 1, channels: 1, height, strip: height, workspace: 0 };
        }
        let (height, strip) = (rows.div_ceil(grains), strip_rows(cols, MIN_STRIP_ROWS));
        Cut { pixels: 1, channels: cols, height, strip, workspace: 0 }
    }

    /// Computes columns of a single row, from `first` on.
    fn row(&self, first: usize, a: &[f32], packed: &[f32], y: &mut [f32], epilogue: &Epilogue<'_>) {
        let epilogue = from_column(first, epilogue);
        let packed = &packed[first * self.packed_depth()..];
        let (depth, cols) = (self.depth, y.len());
        match self.factors {
            Factors::F32 => gemv(a, depth, packed, cols, y, &epilogue),
            Factors::Bf16 => {
                let a = Rows::Strided { a, lda: depth };
                gemm_bf16::gemm(a, 1, depth, packed, cols, y, cols, &epilogue);
            }
        }
    }

    /// Computes `y = a b` with `b` unpacked in rows, and rows of `a` and `y` with strides `lda` and `ldc`.
    pub(crate) fn run_unpacked(
        &self,
        (a, lda): (&[f32], usize),
        b: &[f32],
        (y, ldc): (&mut [f32], usize),
    ) {
        let &Self { depth, cols, .. } = self;
        for (row, y) in y.chunks_mut(ldc).enumerate() {
            let y = &mut y[..cols];
            y.fill(0.0);
            for (&a, b) in a[row * lda..][..depth].iter().zip(b.chunks_exact(cols)) {
                y.iter_mut().zip(b).for_each(|(y, &b)| *y += a * b);
            }
        }
    }
}

/// Returns the epilogue from column `first` on.
fn from_column<'a>(first: usize, epilogue: &Epilogue<'a>) -> Epilogue<'a> {
    let bias = epilogue.bias.map(|bias| &bias[first..]);
    let residual = epilogue.residual.map(|(data, ld)| (&data[first..], ld));
    Epilogue { bias, residual, ..*epilogue }
}
