//! Numpy's broadcasting of two tensors.

use udo_api::{Dim, Element, Error, ExecError, MAX_RANK, Parallel, Shape};

use super::GRAIN;
use crate::family::axes::{Axes, StridedIter};

/// The shape of two broadcast tensors, bounded where either decides it and is bounded.
pub(crate) fn broadcast_shapes(a: Shape, b: Shape) -> Result<Shape, Error> {
    let rank = a.rank().max(b.rank());
    let at = |shape: Shape, axis: usize| {
        (axis + shape.rank()).checked_sub(rank).and_then(|i| shape.dim(i)).unwrap_or(Dim::Fixed(1))
    };
    let dims: Vec<Dim> = (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Ok(other),
            (Dim::Fixed(x), Dim::Fixed(y)) if x == y => Ok(Dim::Fixed(x)),
            (Dim::Fixed(_), Dim::Fixed(_)) => {
                Err(Error::new(format!("shapes {a} and {b} do not broadcast")))
            }
            // In each run the bounded one is 1 or the same.
            (Dim::Fixed(x), Dim::UpTo(_)) | (Dim::UpTo(_), Dim::Fixed(x)) => Ok(Dim::Fixed(x)),
            (Dim::UpTo(x), Dim::UpTo(y)) => Ok(Dim::UpTo(x.max(y))),
        })
        .collect::<Result<_, _>>()?;
    Shape::of_dims(&dims)
}

/// How the elements of two tensors meet, with neighbouring axes merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broadcast {
    out_rank: usize,
    out_dims: Axes,
    rank: usize,
    dims: Axes,
    a: Axes,
    b: Axes,
}

impl Broadcast {
    /// Nothing if the shapes do not broadcast.
    pub(crate) fn of(a: &[usize], b: &[usize]) -> Option<Self> {
        let out_rank = a.len().max(b.len());
        let mut plan = Self {
            out_rank,
            out_dims: [1; MAX_RANK],
            rank: 0,
            dims: [1; MAX_RANK],
            a: [0; MAX_RANK],
            b: [0; MAX_RANK],
        };
        let mut repeats = [(false, false); MAX_RANK];
        for axis in 0..out_rank {
            let at = |dims: &[usize]| {
                (axis + dims.len())
                    .checked_sub(out_rank)
                    .and_then(|i| dims.get(i))
                    .map_or(1, |&d| d)
            };
            let (x, y) = (at(a), at(b));
            if x != y && x != 1 && y != 1 {
                return None;
            }
            let dim = if x == 1 { y } else { x };
            *plan.out_dims.get_mut(axis)? = dim;
            if dim == 1 {
                continue;
            }
            let repeat = (x == 1, y == 1);
            if plan.rank > 0 && repeats[plan.rank - 1] == repeat {
                plan.dims[plan.rank - 1] *= dim;
            } else {
                repeats[plan.rank] = repeat;
                plan.dims[plan.rank] = dim;
                plan.rank += 1;
            }
        }
        plan.rank = plan.rank.max(1);
        let (mut a_step, mut b_step) = (1, 1);
        for axis in (0..plan.rank).rev() {
            let (repeat_a, repeat_b) = repeats[axis];
            plan.a[axis] = if repeat_a { 0 } else { a_step };
            plan.b[axis] = if repeat_b { 0 } else { b_step };
            a_step *= if repeat_a { 1 } else { plan.dims[axis] };
            b_step *= if repeat_b { 1 } else { plan.dims[axis] };
        }
        Some(plan)
    }

    /// The extents of the result.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.out_dims[..self.out_rank]
    }

    /// Elements of the result.
    pub(crate) fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Where each element of the result has its operands.
    pub(crate) fn positions(&self) -> StridedIter<2> {
        StridedIter::new(&self.dims[..self.rank], [self.a, self.b])
    }

    fn rows(&self) -> (usize, usize, usize, StridedIter<2>) {
        let inner = self.rank - 1;
        let walk = StridedIter::new(&self.dims[..inner], [self.a, self.b]);
        (self.dims[inner], self.a[inner], self.b[inner], walk)
    }

    /// `y[i] = f(a[..], b[..])` for every element of the result.
    pub(crate) fn apply<A: Copy, B: Copy, Y>(
        &self,
        a: &[A],
        b: &[B],
        y: &mut [Y],
        f: impl Fn(A, B) -> Y,
    ) {
        let (cols, a_step, b_step, rows) = self.rows();
        if cols == 0 {
            return;
        }
        for ([a_at, b_at], y) in rows.zip(y.chunks_exact_mut(cols)) {
            let (a, b) = (&a[a_at..], &b[b_at..]);
            match (a_step, b_step) {
                (0, 0) => y.iter_mut().for_each(|y| *y = f(a[0], b[0])),
                (0, _) => y.iter_mut().zip(b).for_each(|(y, &b)| *y = f(a[0], b)),
                (_, 0) => y.iter_mut().zip(a).for_each(|(y, &a)| *y = f(a, b[0])),
                (..) => y.iter_mut().zip(a).zip(b).for_each(|((y, &a), &b)| *y = f(a, b)),
            }
        }
    }

    /// The same, shared out among threads.
    pub(crate) fn apply_shared<A: Element, B: Element, Y: Element>(
        &self,
        parallel: Parallel<'_>,
        a: &[A],
        b: &[B],
        y: &mut [Y],
        f: impl Fn(A, B) -> Y + Sync,
    ) -> Result<(), ExecError> {
        let Some(grain) = self.grain() else {
            self.apply(a, b, y, f);
            return Ok(());
        };
        parallel.chunks_mut(&mut y[..self.len()], grain * self.inner(), |piece, y| {
            let (part, [a_at, b_at]) = self.part(piece * grain, y.len());
            part.apply(&a[a_at..], &b[b_at..], y, &f);
            Ok(())
        })
    }

    /// [`Self::apply_in_place`], shared out among threads where no element of `a` repeats.
    pub(crate) fn apply_in_place_shared<T: Element, B: Element>(
        &self,
        parallel: Parallel<'_>,
        y: &mut [T],
        b: &[B],
        f: impl Fn(T, B) -> T + Sync,
    ) -> Result<(), ExecError> {
        let Some(grain) = self.grain().filter(|_| !self.repeats_a()) else {
            self.apply_in_place(y, b, f);
            return Ok(());
        };
        parallel.chunks_mut(&mut y[..self.len()], grain * self.inner(), |piece, y| {
            let (part, [_, b_at]) = self.part(piece * grain, y.len());
            part.apply_in_place(y, &b[b_at..], &f);
            Ok(())
        })
    }

    /// Places along the first axis that a thread takes at a time; nothing where one takes all.
    fn grain(&self) -> Option<usize> {
        let grain = GRAIN.div_ceil(self.inner().max(1));
        (grain < self.dims[0]).then_some(grain)
    }

    /// Elements of the result at a place along the first axis.
    fn inner(&self) -> usize {
        self.dims[1..self.rank].iter().product()
    }

    fn repeats_a(&self) -> bool {
        self.a[..self.rank].contains(&0)
    }

    /// `len` elements of the result from place `first` along the first axis on, and where their operands are.
    fn part(&self, first: usize, len: usize) -> (Self, [usize; 2]) {
        let mut part = *self;
        part.dims[0] = len / self.inner().max(1);
        (part, [first * self.a[0], first * self.b[0]])
    }

    /// The same where `y` holds the elements of `a`.
    pub(crate) fn apply_in_place<T: Copy, B: Copy>(
        &self,
        y: &mut [T],
        b: &[B],
        f: impl Fn(T, B) -> T,
    ) {
        if self.repeats_a() {
            return self.apply_backwards(y, b, f);
        }
        let (cols, _, b_step, rows) = self.rows();
        if cols == 0 {
            return;
        }
        for ([_, b_at], y) in rows.zip(y.chunks_exact_mut(cols)) {
            let b = &b[b_at..];
            if b_step == 0 {
                for y in y {
                    *y = f(*y, b[0]);
                }
            } else {
                y.iter_mut().zip(b).for_each(|(y, &b)| *y = f(*y, b));
            }
        }
    }

    /// A bounded `a` may turn out shorter than the result. No element of it lies behind the place
    /// that needs it, so from the last place on none is overwritten too early.
    fn apply_backwards<T: Copy, B: Copy>(&self, y: &mut [T], b: &[B], f: impl Fn(T, B) -> T) {
        for i in (0..self.len()).rev() {
            let (mut rest, mut a_at, mut b_at) = (i, 0, 0);
            for axis in (0..self.rank).rev() {
                let at = rest % self.dims[axis];
                rest /= self.dims[axis];
                a_at += at * self.a[axis];
                b_at += at * self.b[axis];
            }
            y[i] = f(y[a_at], b[b_at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_axes_merge() {
        let plan = Broadcast::of(&[2, 3, 4, 5], &[3, 1, 1]).unwrap();
        assert_eq!(plan.shape(), [2, 3, 4, 5]);
        assert_eq!(
            (plan.rank, &plan.dims[..3], &plan.b[..3]),
            (3, &[2, 3, 20][..], &[0, 1, 0][..])
        );
        assert!(Broadcast::of(&[2, 3], &[2]).is_none());
    }

    #[test]
    fn a_short_operand_in_place_is_read_before_it_is_overwritten() {
        let plan = Broadcast::of(&[2, 1], &[2, 3]).unwrap();
        let mut y = [10, 20, -1, -1, -1, -1];
        plan.apply_in_place(&mut y, &[1, 2, 3, 4, 5, 6], |a, b| a + b);
        assert_eq!(y, [11, 12, 13, 24, 25, 26]);
    }

    #[test]
    fn bounds_meet_extents() {
        use Dim::{Fixed, UpTo};
        let cases = [
            (UpTo(6), Fixed(1), UpTo(6)),
            (UpTo(6), Fixed(4), Fixed(4)),
            (UpTo(6), UpTo(3), UpTo(6)),
            (Fixed(3), Fixed(3), Fixed(3)),
        ];
        for (a, b, wanted) in cases {
            let shape =
                broadcast_shapes(Shape::of_dims(&[a]).unwrap(), Shape::of_dims(&[b]).unwrap());
            assert_eq!(shape.unwrap().dim(0), Some(wanted), "{a:?} and {b:?}");
        }
    }
}
