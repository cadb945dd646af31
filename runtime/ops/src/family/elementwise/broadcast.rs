//! NumPy broadcasting: an axis of extent 1, or one that a tensor of lower rank lacks in front, repeats its element.

use udo_api::{Dim, Element, Error, ExecError, MAX_RANK, Parallel, Shape};

use super::GRAIN;
use super::rows::Side;
use crate::family::axes::{Axes, StridedIter};

/// Returns the shape of two broadcast tensors. An extent of the result is bounded only if no fixed extent other than 1
/// determines it.
pub(crate) fn broadcast_shapes(a: Shape, b: Shape) -> Result<Shape, Error> {
    let rank = a.rank().max(b.rank());
    let dim_at = |shape: Shape, axis: usize| {
        (axis + shape.rank()).checked_sub(rank).and_then(|i| shape.dim(i)).unwrap_or(Dim::Fixed(1))
    };
    let dims: Vec<Dim> = (0..rank)
        .map(|axis| match (dim_at(a, axis), dim_at(b, axis)) {
            (single, dim) | (dim, single) if single.exact() == Some(1) => {
                Ok(dim.with_both(single, dim.bound()))
            }
            (Dim::UpTo(x), Dim::UpTo(y)) => Ok(Dim::UpTo(x.max(y))),
            // At run time the bounded extent must be 1 or equal to the known one.
            (known, Dim::UpTo(_)) | (Dim::UpTo(_), known) => Ok(known),
            (x, y) if x.bound() == y.bound() => Ok(x.with_both(y, x.bound())),
            _ => Err(Error::new(format!("shapes {a} and {b} do not broadcast"))),
        })
        .collect::<Result<_, _>>()?;
    Shape::from_dims(&dims)
}

/// Broadcasting of `N` tensors, with neighbouring axes merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broadcast<const N: usize = 2> {
    /// Rank and extents of the output.
    out_rank: usize,
    out_dims: Axes,
    /// Number and extents of the merged axes; at least one.
    pub(super) rank: usize,
    pub(super) dims: Axes,
    /// Strides of each tensor; 0 along an axis on which it broadcasts.
    pub(super) strides: [Axes; N],
    /// Whether there are few elements along a single axis, so that call overhead dominates.
    is_few: bool,
}

impl<const N: usize> Broadcast<N> {
    /// Plans the broadcasting of tensors of these shapes, or returns `None` if they do not broadcast.
    pub(crate) fn from_shapes(shapes: [&[usize]; N]) -> Option<Self> {
        let out_rank = shapes.iter().map(|dims| dims.len()).max().unwrap_or(0);
        let mut plan = Self {
            out_rank,
            out_dims: [1; MAX_RANK],
            rank: 0,
            dims: [1; MAX_RANK],
            strides: [[0; MAX_RANK]; N],
            is_few: false,
        };
        let mut repeats = [[false; N]; MAX_RANK];
        for axis in 0..out_rank {
            let sizes = shapes.map(|dims| {
                let size = (axis + dims.len()).checked_sub(out_rank).and_then(|i| dims.get(i));
                size.map_or(1, |&size| size)
            });
            let dim = sizes.into_iter().find(|&size| size != 1).unwrap_or(1);
            if sizes.iter().any(|&size| size != dim && size != 1) {
                return None;
            }
            *plan.out_dims.get_mut(axis)? = dim;
            if dim == 1 {
                continue;
            }
            let repeat = sizes.map(|size| size == 1);
            if plan.rank > 0 && repeats[plan.rank - 1] == repeat {
                plan.dims[plan.rank - 1] *= dim;
            } else {
                repeats[plan.rank] = repeat;
                plan.dims[plan.rank] = dim;
                plan.rank += 1;
            }
        }
        plan.rank = plan.rank.max(1);
        let mut strides = [1; N];
        for axis in (0..plan.rank).rev() {
            for (tensor, stride) in strides.iter_mut().enumerate() {
                if !repeats[axis][tensor] {
                    plan.strides[tensor][axis] = *stride;
                    *stride *= plan.dims[axis];
                }
            }
        }
        plan.is_few = plan.rank == 1 && plan.dims[0] <= GRAIN;
        Some(plan)
    }

    /// Returns the extents of the output.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.out_dims[..self.out_rank]
    }

    /// Returns the number of output elements.
    pub(crate) fn len(&self) -> usize {
        self.dims[..self.rank].iter().product()
    }

    /// Returns the stride of each operand along an axis.
    fn steps(&self, axis: usize) -> [usize; N] {
        self.strides.map(|strides| strides[axis])
    }

    /// Returns the first element of each operand at this index of the outermost axis.
    fn starts(&self, index: usize) -> [usize; N] {
        self.strides.map(|strides| index * strides[0])
    }

    /// Iterates over the operand offsets of each result element.
    pub(crate) fn positions(&self) -> StridedIter<N> {
        StridedIter::new(&self.dims[..self.rank], self.strides)
    }

    /// Calls `body(offsets, strides, y)` for each output row; offsets and strides are those of the operands.
    fn each_row<Y>(&self, y: &mut [Y], mut body: impl FnMut([usize; N], [usize; N], &mut [Y])) {
        let inner = self.rank - 1;
        let (cols, steps) = (self.dims[inner], self.steps(inner));
        if inner == 0 {
            return body([0; N], steps, &mut y[..cols]);
        }
        let rows = StridedIter::new(&self.dims[..inner], self.strides);
        for (at, y) in rows.zip(y.chunks_exact_mut(cols.max(1))) {
            body(at, steps, y);
        }
    }

    /// Calls `body(part, offsets, y)` for parts of the output, on several threads if there are many elements. `part` is
    /// the broadcasting of the part, `offsets` are the starts of the operands.
    fn run_parallel<Y: Element>(
        &self,
        parallel: Parallel<'_>,
        y: &mut [Y],
        body: impl Fn(&Self, [usize; N], &mut [Y]) + Sync,
    ) -> Result<(), ExecError> {
        let len = self.len();
        let y = &mut y[..len];
        if len <= GRAIN {
            body(self, [0; N], y);
            return Ok(());
        }
        let inner: usize = self.dims[1..self.rank].iter().product();
        let grain = GRAIN.div_ceil(inner);
        parallel.chunks_mut(y, grain * inner, |chunk, y| {
            let mut part = *self;
            part.dims[0] = y.len() / inner;
            body(&part, self.starts(chunk * grain), y);
            Ok(())
        })
    }
}

/// Computes a row of the result from rows of two operands. It is behind `dyn`, so that the loops over rows are compiled
/// once for each element type, and not for pairs operator.
pub(super) type Row<'f, A, B, Y> = dyn Fn(Side<'_, A>, Side<'_, B>, &mut [Y]) + Sync + 'f;

/// Like [`Row`], but the result overwrites the first operand.
pub(super) type RowInPlace<'f, A, B> = dyn Fn(&mut [A], Side<'_, B>) + Sync + 'f;

impl Broadcast {
    /// Plans the broadcasting of two tensors, or returns `None` if their shapes do not broadcast.
    pub(crate) fn new(a: &[usize], b: &[usize]) -> Option<Self> {
        Self::from_shapes([a, b])
    }

    /// Calls `row` with each row of output and operands, divided among threads. Short rows are processed many at a
    /// time.
    #[inline]
    pub(crate) fn rows<A: Element, B: Element, Y: Element>(
        &self,
        parallel: Parallel<'_>,
        (a, b): (&[A], &[B]),
        y: &mut [Y],
        row: &(impl Fn(Side<'_, A>, Side<'_, B>, &mut [Y]) + Sync),
    ) -> Result<(), ExecError> {
        if self.is_few {
            let (len, [a_step, b_step]) = (self.dims[0], self.steps(0));
            row(Side::new(a, a_step, len), Side::new(b, b_step, len), &mut y[..len]);
            return Ok(());
        }
        self.many_rows(parallel, (a, b), y, row)
    }

    #[inline(never)]
    fn many_rows<A: Element, B: Element, Y: Element>(
        &self,
        parallel: Parallel<'_>,
        (a, b): (&[A], &[B]),
        y: &mut [Y],
        row: &Row<'_, A, B, Y>,
    ) -> Result<(), ExecError> {
        self.run_parallel(parallel, y, |part, [a_at, b_at], y| {
            let (a, b) = (&a[a_at..], &b[b_at..]);
            if part.has_short_rows() {
                return part.short_rows((a, b), y, row);
            }
            part.each_row(y, |[a_at, b_at], [a_step, b_step], y| {
                let a = Side::new(&a[a_at..], a_step, y.len());
                row(a, Side::new(&b[b_at..], b_step, y.len()), y);
            });
        })
    }

    /// Calls `row` with each row of `y`, which holds operand `a` and gets the output, and of operand `b`.
    #[inline]
    pub(super) fn rows_in_place<A: Element, B: Element>(
        &self,
        parallel: Parallel<'_>,
        y: &mut [A],
        b: &[B],
        row: &(impl Fn(&mut [A], Side<'_, B>) + Sync),
    ) -> Result<(), ExecError> {
        let (len, [a_step, b_step]) = (self.dims[0], self.steps(0));
        if self.is_few && a_step == 1 {
            row(&mut y[..len], Side::new(b, b_step, len));
            return Ok(());
        }
        self.many_rows_in_place(parallel, y, b, row)
    }

    #[inline(never)]
    fn many_rows_in_place<A: Element, B: Element>(
        &self,
        parallel: Parallel<'_>,
        y: &mut [A],
        b: &[B],
        row: &RowInPlace<'_, A, B>,
    ) -> Result<(), ExecError> {
        if self.strides[0][..self.rank].contains(&0) {
            self.rows_backwards(y, b, row);
            return Ok(());
        }
        self.run_parallel(parallel, y, |part, [_, b_at], y| {
            let b = &b[b_at..];
            if part.has_short_rows() {
                return part.short_rows_in_place(y, b, row);
            }
            part.each_row(y, |[_, b_at], [_, b_step], y| {
                let b = Side::new(&b[b_at..], b_step, y.len());
                row(y, b);
            });
        })
    }

    /// Computes the output in place if `a`, stored in `y`, has fewer elements than the output because it broadcasts. No
    /// element lies after an output that needs it, so outputs are written from the last to the first.
    fn rows_backwards<A: Element, B: Element>(
        &self,
        y: &mut [A],
        b: &[B],
        row: &RowInPlace<'_, A, B>,
    ) {
        for i in (0..self.len()).rev() {
            let (mut remaining, mut a_at, mut b_at) = (i, 0, 0);
            for axis in (0..self.rank).rev() {
                let coordinate = remaining % self.dims[axis];
                remaining /= self.dims[axis];
                a_at += coordinate * self.strides[0][axis];
                b_at += coordinate * self.strides[1][axis];
            }
            y[i] = y[a_at];
            row(&mut y[i..=i], Side::One(b[b_at]));
        }
    }
}

/// Computes a row of the result from three operands, whose strides are given.
type RowOf3<'f, A, B, C, Y> = dyn Fn((&[A], &[B], &[C]), [usize; 3], &mut [Y]) + Sync + 'f;

impl Broadcast<3> {
    /// Computes `y[i] = f(a[..], b[..], c[..])` for every output element, divided among threads.
    pub(crate) fn apply_shared<A: Element, B: Element, C: Element, Y: Element>(
        &self,
        parallel: Parallel<'_>,
        operands: (&[A], &[B], &[C]),
        y: &mut [Y],
        f: impl Fn(A, B, C) -> Y + Sync,
    ) -> Result<(), ExecError> {
        self.rows_of_3(parallel, operands, y, &|(a, b, c), steps, y| {
            // The first operand usually varies along the row; the others may be a single element for the whole row.
            let pairs = y.iter_mut().zip(a);
            match steps {
                [1, 1, 1] => {
                    pairs.zip(b).zip(c).for_each(|(((y, &a), &b), &c)| *y = f(a, b, c));
                }
                [1, 1, 0] => {
                    let c = c[0];
                    pairs.zip(b).for_each(|((y, &a), &b)| *y = f(a, b, c));
                }
                [1, 0, 1] => {
                    let b = b[0];
                    pairs.zip(c).for_each(|((y, &a), &c)| *y = f(a, b, c));
                }
                [1, 0, 0] => {
                    let (b, c) = (b[0], c[0]);
                    pairs.for_each(|(y, &a)| *y = f(a, b, c));
                }
                [a_step, b_step, c_step] => {
                    for (i, y) in y.iter_mut().enumerate() {
                        *y = f(a[i * a_step], b[i * b_step], c[i * c_step]);
                    }
                }
            }
        })
    }

    fn rows_of_3<A: Element, B: Element, C: Element, Y: Element>(
        &self,
        parallel: Parallel<'_>,
        (a, b, c): (&[A], &[B], &[C]),
        y: &mut [Y],
        row: &RowOf3<'_, A, B, C, Y>,
    ) -> Result<(), ExecError> {
        self.run_parallel(parallel, y, |part, [a_at, b_at, c_at], y| {
            let (a, b, c) = (&a[a_at..], &b[b_at..], &c[c_at..]);
            part.each_row(y, |[a_at, b_at, c_at], steps, y| {
                row((&a[a_at..], &b[b_at..], &c[c_at..]), steps, y);
            });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::elementwise::rows::each_in_place;

    #[test]
    fn neighbouring_axes_merge() {
        let plan = Broadcast::new(&[2, 3, 4, 5], &[3, 1, 1]).unwrap();
        assert_eq!(plan.shape(), [2, 3, 4, 5]);
        assert_eq!(
            (plan.rank, &plan.dims[..3], &plan.strides[1][..3]),
            (3, &[2, 3, 20][..], &[0, 1, 0][..])
        );
        assert!(Broadcast::new(&[2, 3], &[2]).is_none());
    }

    #[test]
    fn short_in_place_operands_are_read_before_they_are_overwritten() {
        let plan = Broadcast::new(&[2, 1], &[2, 3]).unwrap();
        let mut y = [10, 20, -1, -1, -1, -1];
        plan.rows_backwards(&mut y, &[1, 2, 3, 4, 5, 6], &|y, b| each_in_place(y, b, |a, b| a + b));
        assert_eq!(y, [11, 12, 13, 24, 25, 26]);
    }

    #[test]
    fn bounds_broadcast_with_extents() {
        use Dim::{Fixed, UpTo};
        let cases = [
            (UpTo(6), Fixed(1), UpTo(6)),
            (UpTo(6), Fixed(4), Fixed(4)),
            (UpTo(6), UpTo(3), UpTo(6)),
            (Fixed(3), Fixed(3), Fixed(3)),
        ];
        for (a, b, expected) in cases {
            let shape =
                broadcast_shapes(Shape::from_dims(&[a]).unwrap(), Shape::from_dims(&[b]).unwrap());
            assert_eq!(shape.unwrap().dim(0), Some(expected), "{a:?} and {b:?}");
        }
    }
}
