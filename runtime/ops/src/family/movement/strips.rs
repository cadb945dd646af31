//! Concatenation and splitting along an axis. A row spans the axes of a tensor from that axis on; a strip is the part
//! of a row that one of the joined tensors holds.

use udo_api::{Bits, Error, ExecError, Parallel, TensorDesc};

use crate::family::axes::AxisSplit;
use crate::family::partition::GRAIN;

/// How the rows of a tensor divide into strips of other tensors.
pub(crate) struct Strips {
    /// Elements of a row.
    pub(super) row: usize,
    /// Elements of a row's strip from each tensor.
    pub(super) widths: Vec<usize>,
}

impl Strips {
    /// Divides the rows of `whole`, which start at `axis`, into strips of the tensors `parts`.
    pub(crate) fn along(
        axis: usize,
        whole: &TensorDesc,
        parts: impl Iterator<Item = Result<TensorDesc, Error>>,
    ) -> Result<Self, Error> {
        let AxisSplit { len, inner, .. } = AxisSplit::at(whole.shape(), axis);
        let widths = parts.map(|part| Ok(AxisSplit::at(part?.shape(), axis).len * inner));
        Ok(Self { row: len * inner, widths: widths.collect::<Result<_, Error>>()? })
    }

    /// Returns the number of strips.
    pub(crate) fn count(&self) -> usize {
        self.widths.len()
    }

    /// Returns the number of the tensor that holds element `index` of the joined one, and the position in it.
    pub(super) fn place(&self, index: usize) -> Option<(usize, usize)> {
        let (row, mut col) = (index / self.row, index % self.row);
        for (part, &width) in self.widths.iter().enumerate() {
            if col < width {
                return Some((part, row * width + col));
            }
            col -= width;
        }
        None
    }

    /// Writes all rows of `y` from the tensors that `parts` yields.
    pub(crate) fn join<'a, B: Bits>(
        &self,
        parallel: Parallel<'_>,
        y: &mut [B],
        parts: impl Fn(usize) -> Result<&'a [B], ExecError> + Sync,
    ) -> Result<(), ExecError> {
        join(parallel, y, self.row, &self.widths.iter().copied(), parts)
    }

    /// Copies the strips of all rows of `x` to the tensors that `parts` yields.
    pub(crate) fn cut<'a, B: Bits>(
        &self,
        parallel: Parallel<'_>,
        x: &[B],
        mut parts: impl FnMut(usize) -> Result<&'a mut [B], ExecError>,
    ) -> Result<(), ExecError> {
        let mut start = 0;
        for (index, &width) in self.widths.iter().enumerate() {
            let y = parts(index)?;
            let rows = (GRAIN / width.max(1)).max(1);
            parallel.chunks_mut(y, rows * width, |chunk, y| {
                let x = x.get(chunk * rows * self.row + start..).unwrap_or(&[]);
                for (x, y) in x.chunks(self.row.max(1)).zip(y.chunks_exact_mut(width.max(1))) {
                    y.copy_from_slice(&x[..width]);
                }
                Ok(())
            })?;
            start += width;
        }
        Ok(())
    }
}

/// Writes rows of `row` elements from strips of these widths.
pub(crate) fn join<'a, B: Bits>(
    parallel: Parallel<'_>,
    y: &mut [B],
    row: usize,
    widths: &(impl Iterator<Item = usize> + Clone + Sync),
    parts: impl Fn(usize) -> Result<&'a [B], ExecError> + Sync,
) -> Result<(), ExecError> {
    let rows = (GRAIN / row.max(1)).max(1);
    parallel.chunks_mut(y, rows * row, |chunk, y| {
        let mut start = 0;
        for (index, width) in widths.clone().enumerate() {
            let x = &parts(index)?[chunk * rows * width..];
            for (at, y) in y.chunks_exact_mut(row).enumerate() {
                y[start..][..width].copy_from_slice(&x[at * width..][..width]);
            }
            start += width;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    const ROWS: usize = 20_000;

    /// Returns `cols` values for each row, starting at `from`.
    fn part(from: i32, cols: usize) -> Vec<i32> {
        (0..(ROWS * cols) as i32).map(|i| from + i).collect()
    }

    #[test]
    fn rows_are_divided_among_threads() {
        let [a, b] = [part(0, 3), part(-7, 1)];
        let rows = |values: &[i32]| tensor(&[ROWS, values.len() / ROWS], values);
        let run = bench("Concat").threads(3).input(rows(&a)).input(rows(&b));
        let whole = run.int("axis", 1).one();
        for (row, y) in whole.values::<i32>().chunks(4).enumerate() {
            let first = row as i32;
            assert_eq!(y, [first * 3, first * 3 + 1, first * 3 + 2, first - 7]);
        }
        let run = bench("Split").threads(3).input(whole).int("axis", 1).outputs(2);
        let parts = run.constant(tensor(&[2], &[3i64, 1])).all();
        assert!(parts[0].values::<i32>() == a && parts[1].values::<i32>() == b);
    }
}
