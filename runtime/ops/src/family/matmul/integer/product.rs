//! 8-bit matrix products by the primitives of `udo_simd`: packing of right sides, and rows divided among threads.

use udo_api::{DType, Error, ExecError, Parallel, Sources, Status};
use udo_simd::gemm_u8::{Lhs, MAX_K, Output, Rhs, Strides, gemm, pack_b, packed_len};
use udo_simd::rows;

use super::ProductOutput;
use crate::family::partition;
use crate::number::wrong_recipe;

/// Columns that are packed together. Threads divide a product of a single row by these blocks.
const BLOCK_COLUMNS: usize = 256;

/// The bit to invert in a signed value to get the unsigned one that is 128 larger, and back.
pub(super) const FLIP: u8 = 1 << 7;

/// `[rows, depth]` times `[depth, cols]`, or times a transposed right side.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntegerProduct {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) cols: usize,
    pub(super) transposed: bool,
}

/// The operands, as the primitives take them.
pub(super) struct Sides<'a> {
    pub(super) a: &'a [u8],
    /// One, or one per row.
    pub(super) a_zeros: &'a [u8],
    pub(super) packed: &'a [i8],
    /// Empty if all are 0, one, or one per column.
    pub(super) b_zeros: &'a [i8],
}

/// Parameters of output elements, such as scales, in rows of `width`: 0 (none), 1 (one for all columns), or the number
/// of columns.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a, T> {
    pub(super) data: &'a [T],
    pub(super) width: usize,
    /// Stride between rows; 0 if all rows share one.
    pub(super) row_step: usize,
}

/// How sums are converted to outputs: `(sum + bias) * scale`, then `+ offset` or `+ zero`.
pub(super) struct Finish<'a, Y> {
    pub(super) bias: Grid<'a, i32>,
    pub(super) scales: Grid<'a, f32>,
    /// Added to float outputs.
    pub(super) offset: Grid<'a, f32>,
    /// One, or one per row.
    pub(super) zeros: &'a [Y],
}

impl<'a, T> Grid<'a, T> {
    pub(super) const NONE: Self = Self { data: &[], width: 0, row_step: 0 };

    /// Returns the parameters for `count` columns of a row.
    fn columns(&self, row: usize, column: usize, count: usize) -> &'a [T] {
        let row = &self.data[row * self.row_step..][..self.width];
        if self.width > 1 { &row[column..][..count] } else { row }
    }
}

/// Columns packed together.
#[derive(Clone, Copy)]
struct ColumnBlock {
    column: usize,
    count: usize,
    /// Offset in the packed data.
    at: usize,
}

impl IntegerProduct {
    /// Checks that the depth is within that of exact i32 sums, and sizes do not overflow.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.depth > MAX_K {
            return Err(Error::new(format!(
                "{} products are summed up, of which {MAX_K} fit the sums",
                self.depth
            )));
        }
        let blocks = self.cols.div_ceil(BLOCK_COLUMNS).max(1);
        let fits = packed_len(self.depth, BLOCK_COLUMNS).and_then(|len| len.checked_mul(blocks));
        let too_large = || Error::new("the product exceeds the address space");
        fits.map(|_| ()).ok_or_else(too_large)
    }

    /// Returns the elements of a packed right side.
    pub(super) fn packed_len(&self) -> usize {
        self.blocks().last().map_or(0, |block| block.at + self.block_packed_len(block.count))
    }

    /// Returns the packed elements of a block of columns; `check` has refused an overflow.
    fn block_packed_len(&self, columns: usize) -> usize {
        packed_len(self.depth, columns).unwrap_or(0)
    }

    fn blocks(&self) -> impl Iterator<Item = ColumnBlock> + use<> {
        let (cols, step) = (self.cols, self.block_packed_len(BLOCK_COLUMNS));
        (0..cols.div_ceil(BLOCK_COLUMNS)).map(move |i| {
            let column = i * BLOCK_COLUMNS;
            ColumnBlock { column, count: BLOCK_COLUMNS.min(cols - column), at: i * step }
        })
    }

    /// Returns the recipe: the integers that determine the layout that [`Self::fill`] writes, and identify it in
    /// caches.
    pub(super) fn recipe(&self) -> [u64; 3] {
        [u64::from(self.transposed), self.depth as u64, self.cols as u64]
    }

    /// Packs consecutive right sides by their recipe.
    pub(super) fn fill(
        recipe: &[u64],
        sources: &Sources<'_>,
        packed: &mut [i8],
    ) -> Result<(), Error> {
        let &[transposed, depth, cols] = recipe else { return Err(wrong_recipe(recipe)) };
        let (depth, cols) = (depth as usize, cols as usize);
        let product = Self { rows: 0, depth, cols, transposed: transposed != 0 };
        let (bits, flip) = match sources.desc(0)?.dtype() {
            Some(DType::U8) => (sources.get::<u8>(0)?, FLIP),
            _ => (rows::bits(sources.get::<i8>(0)?), 0),
        };
        let right_len = (depth * cols).max(1);
        let mut signed = vec![0; right_len];
        let packed_len = product.packed_len().max(1);
        for (bits, packed) in bits.chunks_exact(right_len).zip(packed.chunks_exact_mut(packed_len))
        {
            product.pack(bits, flip, &mut signed, packed);
        }
        Ok(())
    }

    /// Packs a right side. `signed` is scratch memory for its signed values.
    pub(super) fn pack(&self, bits: &[u8], flip: u8, signed: &mut [i8], packed: &mut [i8]) {
        make_signed(bits, flip, signed);
        let strides = if self.transposed {
            Strides { k: 1, n: self.depth }
        } else {
            Strides { k: self.cols, n: 1 }
        };
        for ColumnBlock { column, count, at } in self.blocks() {
            let columns = signed.get(column * strides.n..).unwrap_or(&[]);
            let packed = &mut packed[at..][..self.block_packed_len(count)];
            let fits = pack_b(columns, strides, self.depth, count, packed);
            debug_assert!(fits, "columns of the shape");
        }
    }

    /// Computes `y = finish((a - a_zeros) (b - b_zeros))`.
    pub(super) fn run<Y: ProductOutput>(
        &self,
        parallel: Parallel<'_>,
        sides: &Sides<'_>,
        finish: &Finish<'_, Y>,
        y: &mut [Y],
    ) -> Result<(), ExecError> {
        let &Self { rows, depth, cols, .. } = self;
        if rows * cols == 0 {
            return Ok(());
        }
        let grains = partition::grains(parallel, rows * depth * cols, partition::U8_PRODUCTS);
        if rows == 1 {
            let blocks = cols.div_ceil(BLOCK_COLUMNS).div_ceil(grains);
            return parallel.chunks_mut(y, blocks * BLOCK_COLUMNS, |chunk, y| {
                let grain_blocks = self.blocks().skip(chunk * blocks).take(blocks);
                for (block, y) in grain_blocks.zip(y.chunks_mut(BLOCK_COLUMNS)) {
                    self.tile(sides, finish, 0..1, block, y)?;
                }
                Ok(())
            });
        }
        let height = rows.div_ceil(grains);
        let is_row_by_row = sides.a_zeros.len() > 1 || finish.is_per_row();
        parallel.chunks_mut(y, height * cols, |chunk, y| {
            let step = if is_row_by_row { 1 } else { height };
            for (i, y) in y.chunks_mut(step * cols).enumerate() {
                let first = chunk * height + i * step;
                for block in self.blocks() {
                    let rows = first..first + y.len() / cols;
                    self.tile(sides, finish, rows, block, &mut y[block.column..])?;
                }
            }
            Ok(())
        })
    }

    /// Computes some rows and columns of the output, all rows with the parameters of the first.
    fn tile<Y: ProductOutput>(
        &self,
        sides: &Sides<'_>,
        finish: &Finish<'_, Y>,
        rows: std::ops::Range<usize>,
        ColumnBlock { column, count, at }: ColumnBlock,
        y: &mut [Y],
    ) -> Result<(), ExecError> {
        let (row, depth) = (rows.start, self.depth);
        let lhs = Lhs {
            data: &sides.a[row * depth..rows.end * depth],
            rows: rows.len(),
            stride: depth,
            zero_point: row_value(sides.a_zeros, row),
        };
        let b_zeros = sides.b_zeros;
        let zero_points = if b_zeros.len() > 1 { &b_zeros[column..][..count] } else { b_zeros };
        let packed = &sides.packed[at..][..self.block_packed_len(count)];
        let rhs = Rhs { packed, k: depth, n: count, zero_points };
        let output = Y::output(
            y,
            finish.scales.columns(row, column, count),
            finish.offset.columns(row, column, count),
            row_value(finish.zeros, row),
        );
        gemm(&lhs, &rhs, finish.bias.columns(row, column, count), output, self.cols)
            .map_err(|_| ExecError::new(Status::BAD_CALL))
    }
}

impl Finish<'_, i32> {
    /// Stores the sums unchanged.
    pub(super) const SUMS: Self =
        Self { bias: Grid::NONE, scales: Grid::NONE, offset: Grid::NONE, zeros: &[] };
}

impl<Y> Finish<'_, Y> {
    /// Whether parameters differ between rows.
    fn is_per_row(&self) -> bool {
        self.bias.row_step + self.scales.row_step + self.offset.row_step > 0 || self.zeros.len() > 1
    }
}

/// Returns the value of a row from a slice with one per row, one for all rows, or none (0).
fn row_value<T: Copy + Default>(values: &[T], row: usize) -> T {
    values.get(row).or(values.first()).copied().unwrap_or_default()
}

/// Converts bytes to signed values; zero points must be shifted as well.
pub(super) fn make_signed(bits: &[u8], flip: u8, signed: &mut [i8]) {
    signed.iter_mut().zip(bits).for_each(|(to, &bits)| *to = (bits ^ flip).cast_signed());
}

impl ProductOutput for i32 {
    fn output<'a>(to: &'a mut [Self], _: &'a [f32], _: &'a [f32], _: Self) -> Output<'a> {
        Output::I32(to)
    }
}

impl ProductOutput for f32 {
    fn output<'a>(to: &'a mut [Self], scales: &'a [f32], bias: &'a [f32], _: Self) -> Output<'a> {
        Output::F32 { to, scales, bias, activation: udo_simd::gemm_u8::Activation::None }
    }
}

impl ProductOutput for u8 {
    fn output<'a>(to: &'a mut [Self], scales: &'a [f32], _: &'a [f32], zero: Self) -> Output<'a> {
        Output::U8 { to, scales, zero_point: zero }
    }
}

impl ProductOutput for i8 {
    fn output<'a>(to: &'a mut [Self], scales: &'a [f32], _: &'a [f32], zero: Self) -> Output<'a> {
        Output::I8 { to, scales, zero_point: zero }
    }
}
