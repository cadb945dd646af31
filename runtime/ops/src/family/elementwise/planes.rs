//! Broadcasting of tensors with short rows. A call per row would cost more than its work, so the last two axes, a
//! plane, are processed together: operands are gathered in a block of many rows.

use udo_api::Element;

use super::Broadcast;
use super::broadcast::{Row, RowInPlace};
use super::rows::Side;
use super::stored::BLOCK;
use crate::family::axes::StridedIter;

/// Rows of fewer elements are processed together.
const SHORT: usize = 16;

/// Rows of fewer elements are processed together if every row of the plane has the same row of an operand.
const SHORT_REPEATED: usize = 64;

/// Some rows of a plane.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    rows: usize,
    cols: usize,
}

impl Part {
    /// Returns an operand for these rows: elements of its plane `x`, or copies in `block` if they are not in the
    /// output's order. `steps` are the operand's strides between rows and columns. A repeated row is copied for the
    /// first part of a plane, which has the most rows, and stays in `block` for the next parts.
    fn side<'a, T: Element>(
        self,
        x: &'a [T],
        steps: [usize; 2],
        block: &'a mut [T; BLOCK],
    ) -> Side<'a, T> {
        let Self { first, rows, cols } = self;
        let block = match steps {
            [0, 0] => return Side::One(x[0]),
            [0, _] => {
                if first == 0 {
                    repeat(&x[..cols], &mut block[..rows * cols]);
                }
                block
            }
            [_, 0] => {
                let to = block.chunks_exact_mut(cols).zip(&x[first..first + rows]);
                to.for_each(|(to, &x)| to.fill(x));
                block
            }
            _ => return Side::Each(&x[first * cols..][..rows * cols]),
        };
        Side::Each(&block[..rows * cols])
    }
}

/// Fills `to` with repetitions of `x`.
fn repeat<T: Element>(x: &[T], to: &mut [T]) {
    to[..x.len()].copy_from_slice(x);
    let mut filled = x.len();
    while filled < to.len() {
        let next = filled.min(to.len() - filled);
        to.copy_within(..next, filled);
        filled += next;
    }
}

impl Broadcast {
    /// Whether a call per row costs more than gathering the operands of many rows.
    pub(super) fn has_short_rows(&self) -> bool {
        if self.rank < 2 {
            return false;
        }
        let repeats = (0..2).any(|tensor| matches!(self.plane_steps(tensor), [0, 1]));
        self.dims[self.rank - 1] < if repeats { SHORT_REPEATED } else { SHORT }
    }

    /// Returns the strides of the last two axes.
    fn plane_steps(&self, tensor: usize) -> [usize; 2] {
        let inner = self.rank - 1;
        [self.strides[tensor][inner - 1], self.strides[tensor][inner]]
    }

    /// Calls `body(part, offsets, y)` for the parts of every plane; `offsets` are the starts of the operands' planes.
    fn each_part<Y>(&self, y: &mut [Y], mut body: impl FnMut(Part, [usize; 2], &mut [Y])) {
        let outer = self.rank - 2;
        let (rows, cols) = (self.dims[outer], self.dims[outer + 1]);
        if rows == 0 || cols == 0 {
            return;
        }
        let most_rows = (BLOCK / cols).min(rows);
        let planes = StridedIter::new(&self.dims[..outer], self.strides);
        for (plane_offsets, y) in planes.zip(y.chunks_exact_mut(rows * cols)) {
            for (part, y) in y.chunks_mut(most_rows * cols).enumerate() {
                let part = Part { first: part * most_rows, rows: y.len() / cols, cols };
                body(part, plane_offsets, y);
            }
        }
    }

    /// Calls `row` with the operands and outputs of many rows at a time.
    pub(super) fn short_rows<A: Element, B: Element, Y>(
        &self,
        (a, b): (&[A], &[B]),
        y: &mut [Y],
        row: &Row<'_, A, B, Y>,
    ) {
        let (mut a_block, mut b_block) = ([A::default(); BLOCK], [B::default(); BLOCK]);
        let (a_steps, b_steps) = (self.plane_steps(0), self.plane_steps(1));
        self.each_part(y, |part, [a_at, b_at], y| {
            let a = part.side(&a[a_at..], a_steps, &mut a_block);
            row(a, part.side(&b[b_at..], b_steps, &mut b_block), y);
        });
    }

    /// Calls `row` with many rows at a time; `y` holds operand 0 and gets the output.
    pub(super) fn short_rows_in_place<A, B: Element>(
        &self,
        y: &mut [A],
        b: &[B],
        row: &RowInPlace<'_, A, B>,
    ) {
        let mut b_block = [B::default(); BLOCK];
        let steps = self.plane_steps(1);
        self.each_part(y, |part, [_, b_at], y| {
            row(y, part.side(&b[b_at..], steps, &mut b_block));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Planes whose operands broadcast along rows, columns, both or neither, with fewer rows than a block and with
    /// more.
    #[test]
    fn operands_are_paired_by_position() {
        let shapes: [[&[usize]; 2]; 7] = [
            [&[3, 700, 8], &[3, 1, 8]],
            [&[3, 1, 8], &[3, 700, 8]],
            [&[2, 5, 3], &[2, 5, 1]],
            [&[2, 900, 3], &[1, 900, 1]],
            [&[400, 60], &[60]],
            [&[4, 1, 7], &[1, 9, 1]],
            [&[2, 3, 2, 3, 2], &[1, 3, 1, 3, 1]],
        ];
        for [a_dims, b_dims] in shapes {
            let plan = Broadcast::new(a_dims, b_dims).unwrap();
            assert!(plan.has_short_rows(), "{a_dims:?} and {b_dims:?}");
            let numbers = |dims: &[usize]| -> Vec<u32> {
                (0..).take(dims.iter().product()).map(|i: u32| i * 7 % 1000).collect()
            };
            let (a, b) = (numbers(a_dims), numbers(b_dims));
            let expected: Vec<u32> = plan.positions().map(|[i, j]| a[i] * 1000 + b[j]).collect();
            let at = |side: &Side<'_, u32>, i: usize| match side {
                Side::Each(x) => x[i],
                Side::One(x) => *x,
            };
            let mut y = vec![0; plan.len()];
            let row = |a: Side<'_, u32>, b: Side<'_, u32>, y: &mut [u32]| {
                y.iter_mut().enumerate().for_each(|(i, y)| *y = at(&a, i) * 1000 + at(&b, i));
            };
            plan.short_rows((&a, &b), &mut y, &row);
            assert_eq!(y, expected, "{a_dims:?} and {b_dims:?}");
            if a_dims.iter().product::<usize>() == plan.len() {
                let mut y = a.clone();
                let row = |y: &mut [u32], b: Side<'_, u32>| {
                    y.iter_mut().enumerate().for_each(|(i, y)| *y = *y * 1000 + at(&b, i));
                };
                plan.short_rows_in_place(&mut y, &b, &row);
                assert_eq!(y, expected, "{a_dims:?} in place and {b_dims:?}");
            }
        }
    }
}
