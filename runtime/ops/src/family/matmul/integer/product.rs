//! 8-bit matrix products on the primitives: packed right sides, rows divided among threads.

use udo_api::{DType, Error, ExecError, Parallel, Sources, Status};
use udo_simd::gemm_u8::{Lhs, MAX_K, Output, Rhs, Strides, gemm, pack_b, packed_len};
use udo_simd::rows;

use super::ProductOutput;
use crate::family::partition;
use crate::number::wrong_recipe;

/// Columns packed together; threads share a single row by these parts.
const PART: usize = 256;

/// Turns a signed value into the unsigned one that is 128 larger, and back.
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

/// Parameters of output elements: rows of `width` columns, which is 0, 1 or the number of columns.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a, T> {
    pub(super) data: &'a [T],
    pub(super) width: usize,
    /// Stride between rows; 0 if all rows share one.
    pub(super) row_step: usize,
}

/// How sums are finished.
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
struct Part {
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
        let parts = self.cols.div_ceil(PART).max(1);
        let fits = packed_len(self.depth, PART).and_then(|len| len.checked_mul(parts));
        let beyond = || Error::new("the product exceeds the address space");
        fits.map(|_| ()).ok_or_else(beyond)
    }

    /// Returns the elements of a packed right side.
    pub(super) fn packed_len(&self) -> usize {
        self.parts().last().map_or(0, |part| part.at + self.part_len(part.count))
    }

    /// Checked by `check`.
    fn part_len(&self, columns: usize) -> usize {
        packed_len(self.depth, columns).unwrap_or(0)
    }

    fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let (cols, step) = (self.cols, self.part_len(PART));
        (0..cols.div_ceil(PART)).map(move |i| {
            let column = i * PART;
            Part { column, count: PART.min(cols - column), at: i * step }
        })
    }

    /// Returns the recipe that determines what [`Self::fill`] writes.
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
        let from_len = (depth * cols).max(1);
        let mut signed = vec![0; from_len];
        let to_len = product.packed_len().max(1);
        for (bits, to) in bits.chunks_exact(from_len).zip(packed.chunks_exact_mut(to_len)) {
            product.pack(bits, flip, &mut signed, to);
        }
        Ok(())
    }

    /// Packs a right side, made signed in `signed`.
    pub(super) fn pack(&self, bits: &[u8], flip: u8, signed: &mut [i8], packed: &mut [i8]) {
        make_signed(bits, flip, signed);
        let strides = if self.transposed {
            Strides { k: 1, n: self.depth }
        } else {
            Strides { k: self.cols, n: 1 }
        };
        for Part { column, count, at } in self.parts() {
            let from = signed.get(column * strides.n..).unwrap_or(&[]);
            let to = &mut packed[at..][..self.part_len(count)];
            let fits = pack_b(from, strides, self.depth, count, to);
            debug_assert!(fits, "columns of the shape");
        }
    }

    /// `y = finish((a - a_zeros) (b - b_zeros))`.
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
            let parts = cols.div_ceil(PART).div_ceil(grains);
            return parallel.chunks_mut(y, parts * PART, |chunk, y| {
                let mine = self.parts().skip(chunk * parts).take(parts);
                for (part, y) in mine.zip(y.chunks_mut(PART)) {
                    self.tile(sides, finish, 0..1, part, y)?;
                }
                Ok(())
            });
        }
        let height = rows.div_ceil(grains);
        let each = sides.a_zeros.len() > 1 || finish.is_per_row();
        parallel.chunks_mut(y, height * cols, |chunk, y| {
            let step = if each { 1 } else { height };
            for (i, y) in y.chunks_mut(step * cols).enumerate() {
                let first = chunk * height + i * step;
                for part in self.parts() {
                    let rows = first..first + y.len() / cols;
                    self.tile(sides, finish, rows, part, &mut y[part.column..])?;
                }
            }
            Ok(())
        })
    }

    /// Computes some rows and columns of the output, with the parameters of the first of those rows.
    fn tile<Y: ProductOutput>(
        &self,
        sides: &Sides<'_>,
        finish: &Finish<'_, Y>,
        rows: std::ops::Range<usize>,
        Part { column, count, at }: Part,
        y: &mut [Y],
    ) -> Result<(), ExecError> {
        let (row, depth) = (rows.start, self.depth);
        let lhs = Lhs {
            data: &sides.a[row * depth..rows.end * depth],
            rows: rows.len(),
            stride: depth,
            zero_point: of_row(sides.a_zeros, row),
        };
        let b_zeros = sides.b_zeros;
        let zero_points = if b_zeros.len() > 1 { &b_zeros[column..][..count] } else { b_zeros };
        let packed = &sides.packed[at..][..self.part_len(count)];
        let rhs = Rhs { packed, k: depth, n: count, zero_points };
        let output = Y::output(
            y,
            finish.scales.columns(row, column, count),
            finish.offset.columns(row, column, count),
            of_row(finish.zeros, row),
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

/// Returns the value of a row from a slice of one per row, one for all, or none (0).
fn of_row<T: Copy + Default>(all: &[T], row: usize) -> T {
    all.get(row).or(all.first()).copied().unwrap_or_default()
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
