//! Products of f32 matrices on the primitives: packed right sides, rows over threads.

use udo_api::{Arithmetic, Error, ExecError, FinalizeCx, Parallel, Sources, Work};
use udo_simd::gemm_bf16::{self, Rows};
use udo_simd::gemm_f32::{
    Epilogue, Layout, Stored, columns_of_chunk, gemm, gemm_by_columns, gemv, pack_b, packed_len,
};

use crate::family::partition;
use crate::family::results::{Cut, Results, Strip, strip_rows};
use crate::number::wrong_recipe;

/// Left sides of fewer rows are done before the right side is packed.
const WORTH_PACKING: usize = 4;

/// Parts of a right side for each thread that packs it.
const PARTS: usize = 4;

/// The fewest rows of a strip of results that become quantized values: a product of a few takes its terms in another order.
const STRIP_ROWS: usize = 64;

/// The fewest rows that a thread takes of a product at a time: each time it reads all of the right side.
const LEAST_ROWS: usize = 12;

/// What factors are rounded to before they are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factors {
    F32,
    Bf16,
}

impl Factors {
    /// Those of a product with a constant input: rounded where the user asked for it and the machine has it.
    pub(crate) fn of(cx: &FinalizeCx<'_>, constant: usize) -> Self {
        let is_asked = cx.allows_bf16() && cx.is_constant(constant);
        if is_asked && gemm_bf16::is_available() { Self::Bf16 } else { Self::F32 }
    }
}

/// `[rows, depth]` times `[depth, cols]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) cols: usize,
    /// How the right side lies in memory.
    pub(crate) right: Layout,
    pub(crate) factors: Factors,
}

impl Product {
    /// Elements of a packed right side, two numbers of 16 bits each where they are rounded.
    pub(crate) fn packed_len(&self) -> usize {
        match self.factors {
            Factors::F32 => packed_len(self.depth, self.cols),
            Factors::Bf16 => gemm_bf16::packed_len(self.depth, self.cols),
        }
    }

    /// Elements of a column of a packed right side.
    fn packed_depth(&self) -> usize {
        match self.factors {
            Factors::F32 => self.depth,
            Factors::Bf16 => self.depth.div_ceil(2),
        }
    }

    /// What `batch` products take.
    pub(crate) fn work(&self, batch: usize) -> Work {
        let work = Work::products(&[batch, self.rows, self.depth, self.cols]);
        match self.factors {
            Factors::F32 => work,
            Factors::Bf16 => work.with(Arithmetic::Bf16).by("bf16 product"),
        }
    }

    /// All that decides what [`Self::fill`] makes of right sides.
    pub(crate) fn recipe(&self) -> [u64; 4] {
        let (right, factors) = (self.right == Layout::Transposed, self.factors == Factors::Bf16);
        [right.into(), self.depth as u64, self.cols as u64, factors.into()]
    }

    /// Packs right sides that lie one after the other, by their recipe.
    pub(crate) fn fill(
        recipe: &[u64],
        sources: &Sources<'_>,
        packed: &mut [f32],
    ) -> Result<(), Error> {
        let &[transposed, depth, cols, factors] = recipe else { return Err(wrong_recipe(recipe)) };
        let right = if transposed == 0 { Layout::Rows } else { Layout::Transposed };
        let factors = if factors == 0 { Factors::F32 } else { Factors::Bf16 };
        let product = Self { rows: 0, depth: depth as usize, cols: cols as usize, right, factors };
        let (from_len, to_len) =
            ((product.depth * product.cols).max(1), product.packed_len().max(1));
        let rights = sources.bytes::<f32>(0)?.as_chunks::<4>().0.chunks_exact(from_len);
        for (right, packed) in rights.zip(packed.chunks_exact_mut(to_len)) {
            product.pack_parts(right, packed, sources.parallel())?;
        }
        Ok(())
    }

    /// Packs a right side by chunks of its columns, which threads share.
    fn pack_parts(
        &self,
        b: &[[u8; 4]],
        to: &mut [f32],
        parallel: Parallel<'_>,
    ) -> Result<(), Error> {
        let Self { depth, cols, right, factors, .. } = *self;
        if factors == Factors::Bf16 {
            self.pack(b, to);
            return Ok(());
        }
        let columns = columns_of_chunk(cols, PARTS * parallel.width());
        let (ldb, step) = match right {
            Layout::Rows => (cols, columns),
            Layout::Transposed => (depth, columns * depth),
        };
        Ok(parallel.chunks_mut(to, columns * depth, |part, to| {
            let b = b.get(part * step..).unwrap_or_default();
            pack_b(b, ldb, right, depth, columns.min(cols - part * columns), to);
            Ok(())
        })?)
    }

    pub(crate) fn pack<T: Stored>(&self, b: &[T], to: &mut [f32]) {
        let ldb = if self.right == Layout::Rows { self.cols } else { self.depth };
        match self.factors {
            Factors::F32 => pack_b(b, ldb, self.right, self.depth, self.cols, to),
            Factors::Bf16 => gemm_bf16::pack_b(b, ldb, self.right, self.depth, self.cols, to),
        }
    }

    /// Whether a right side that is used once is better packed than read as it lies.
    pub(crate) fn is_worth_packing(&self) -> bool {
        self.rows >= WORTH_PACKING || self.right == Layout::Transposed
    }

    /// `y = epilogue(a b)` with `b` packed.
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

    /// The same with rows of the left side so far apart, where results may become quantized values: with so many elements of
    /// scratch as [`Self::strips_len`] says.
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
        let cut = self.cut(grains.min((rows / LEAST_ROWS).max(parallel.width())));
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
            && self.is_cut_by_columns(parallel.width())
        {
            let mut done = Ok(());
            let run = |chunks: usize, chunk: &(dyn Fn() + Sync)| {
                done = parallel.run(chunks, |_| {
                    chunk();
                    Ok(())
                });
            };
            gemm_by_columns(a, lda, rows, depth, packed, cols, y, ldc, epilogue, grains, run);
            return done;
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

    /// Elements of scratch for results that become quantized values, on so many threads.
    pub(crate) fn strips_len(&self, threads: usize) -> usize {
        let cut = self.cut(1);
        cut.strips_len(cut.height, partition::most_grains(threads))
    }

    /// Whether rows are too few for all threads, so that these share the columns: each reads a part of the right side.
    fn is_cut_by_columns(&self, threads: usize) -> bool {
        threads > 1
            && (2..LEAST_ROWS.saturating_mul(threads)).contains(&self.rows)
            && self.factors == Factors::F32
    }

    /// How the rows of the result are cut among so many grains, or the columns of a single row.
    fn cut(&self, grains: usize) -> Cut {
        let &Self { rows, cols, .. } = self;
        if rows == 1 {
            let height = columns_of_chunk(cols, grains);
            return Cut { pixels: 1, channels: 1, height, strip: height, workspace: 0 };
        }
        let (height, strip) = (rows.div_ceil(grains), strip_rows(cols, STRIP_ROWS));
        Cut { pixels: 1, channels: cols, height, strip, workspace: 0 }
    }

    /// Columns of a product of one row, from `first` on.
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

    /// `y = a b` with `b` as it lies, in rows; those of `a` and of `y` lie so far apart.
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

/// What is done to the columns from `first` on.
fn from_column<'a>(first: usize, epilogue: &Epilogue<'a>) -> Epilogue<'a> {
    let bias = epilogue.bias.map(|bias| &bias[first..]);
    let residual = epilogue.residual.map(|(data, ld)| (&data[first..], ld));
    Epilogue { bias, residual, ..*epilogue }
}
