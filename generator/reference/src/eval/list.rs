//! Evaluates lists of integers: dimensions, coordinates and axes. They are short, so that they need no heap.

use super::Machine;
use crate::{
    bound::Val,
    fault::EvalError,
    ir::{Axes, AxesOf, Item, List, Scalar},
    number::{integer, length},
};

/// The maximum length of a list.
pub(crate) const MAX_LIST: usize = 16;

/// A list of integers, with the error bound of each item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ints {
    len: usize,
    items: [i64; MAX_LIST],
    errors: [f64; MAX_LIST],
}

impl Ints {
    pub(crate) const EMPTY: Self = Self { len: 0, items: [0; MAX_LIST], errors: [0.0; MAX_LIST] };

    pub(crate) fn one(value: Val) -> Self {
        let mut list = Self::EMPTY;
        list.push(value.whole(), value.error);
        list
    }

    pub(crate) fn from_items(items: &[i64]) -> Self {
        let mut list = Self::EMPTY;
        for item in items {
            list.push(*item, 0.0);
        }
        list
    }

    pub(crate) fn items(&self) -> &[i64] {
        self.items.get(..self.len).unwrap_or(&self.items)
    }

    pub(crate) fn errors(&self) -> &[f64] {
        self.errors.get(..self.len).unwrap_or(&self.errors)
    }

    pub(crate) fn is_sure(&self) -> bool {
        self.errors().iter().all(|error| *error == 0.0)
    }

    /// Appends an item. Returns `false` if the list is full.
    pub(crate) fn push(&mut self, item: i64, error: f64) -> bool {
        let (Some(item_slot), Some(error_slot)) =
            (self.items.get_mut(self.len), self.errors.get_mut(self.len))
        else {
            return false;
        };
        (*item_slot, *error_slot) = (item, error);
        self.len += 1;
        true
    }

    pub(crate) fn get(&self, index: usize) -> Option<Val> {
        let mut value = Val::int(*self.items().get(index)?);
        value.error = *self.errors().get(index)?;
        Some(value)
    }
}

impl Machine<'_> {
    pub(super) fn list(&mut self, list: &List) -> Result<Ints, EvalError> {
        self.spend()?;
        match list {
            List::Var(slot) => Ok(self.lists.get(*slot).copied().unwrap_or(Ints::EMPTY)),
            List::Dims(source) => self.ints_of_dims(*source),
            List::Items(items) => self.items(items),
            List::Slice(list, from, to) => self.slice(list, from.as_deref(), to.as_deref()),
            List::For(slot, count, body) => self.comprehension(*slot, count, body),
            List::If(condition, then, otherwise) => {
                if self.scalar(condition)?.holds() {
                    self.list(then)
                } else {
                    self.list(otherwise)
                }
            }
            List::Broadcast(lists, at) => {
                self.at = *at;
                self.broadcast(lists)
            }
            List::Align(coords, dims) => {
                let (coords, dims) = (self.list(coords)?, self.list(dims)?);
                Ok(align(&coords, &dims))
            }
            List::Unravel(number, dims) => {
                let (number, dims) = (self.scalar(number)?, self.list(dims)?);
                let mut coords = unravel(number.whole(), &dims);
                if !number.is_sure() {
                    coords.errors.fill(f64::INFINITY);
                }
                Ok(coords)
            }
            List::Axes(axes) => self.axes(axes),
        }
    }

    fn push_checked(&self, list: &mut Ints, item: i64, error: f64) -> Result<(), EvalError> {
        if list.push(item, error) {
            return Ok(());
        }
        Err(self.fault(format!("a list has more than {MAX_LIST} items")))
    }

    fn items(&mut self, items: &[Item]) -> Result<Ints, EvalError> {
        let mut all = Ints::EMPTY;
        for item in items {
            match item {
                Item::One(scalar) => {
                    let value = self.scalar(scalar)?;
                    self.push_checked(&mut all, value.whole(), value.error)?;
                }
                Item::Spread(list) => {
                    let list = self.list(list)?;
                    for (item, error) in list.items().iter().zip(list.errors()) {
                        self.push_checked(&mut all, *item, *error)?;
                    }
                }
            }
        }
        Ok(all)
    }

    /// Evaluates `list[from:to]`.
    fn slice(
        &mut self,
        list: &List,
        from: Option<&Scalar>,
        to: Option<&Scalar>,
    ) -> Result<Ints, EvalError> {
        let list = self.list(list)?;
        let len = integer(list.items().len());
        let from = from.map_or(Ok(0), |from| self.scalar(from).map(Val::whole))?;
        let to = to.map_or(Ok(len), |to| self.scalar(to).map(Val::whole))?;
        // Negative values count from the end, and out-of-range values are clamped, as in Python.
        let clamped = |at: i64| {
            length(if at < 0 { at.saturating_add(len) } else { at.min(len) }).unwrap_or(0)
        };
        let (from, to) = (clamped(from), clamped(to));
        let mut result = Ints::EMPTY;
        for at in from..to {
            if let Some(value) = list.get(at) {
                result.push(value.whole(), value.error);
            }
        }
        Ok(result)
    }

    /// Evaluates `[for index < count: body]`.
    fn comprehension(
        &mut self,
        slot: usize,
        count: &Scalar,
        body: &Scalar,
    ) -> Result<Ints, EvalError> {
        let count = self.scalar(count)?.whole();
        let mut result = Ints::EMPTY;
        for index in 0..count {
            self.set(slot, Val::int(index));
            let value = self.scalar(body)?;
            self.push_checked(&mut result, value.whole(), value.error)?;
        }
        Ok(result)
    }

    fn broadcast(&mut self, lists: &[List]) -> Result<Ints, EvalError> {
        let mut evaluated = Vec::new();
        for list in lists {
            evaluated.push(self.list(list)?);
        }
        let rank = evaluated.iter().map(|list| list.items().len()).max().unwrap_or(0);
        let mut dims = Ints::EMPTY;
        for axis in 0..rank {
            let mut dim = 1;
            for list in &evaluated {
                let missing = rank - list.items().len();
                let Some(&list_dim) =
                    axis.checked_sub(missing).and_then(|axis| list.items().get(axis))
                else {
                    continue;
                };
                if list_dim != 1 && dim != 1 && list_dim != dim {
                    let shapes: Vec<_> =
                        evaluated.iter().map(|list| format!("{:?}", list.items())).collect();
                    return Err(
                        self.fault(format!("shapes {} do not broadcast", shapes.join(" and ")))
                    );
                }
                if list_dim != 1 {
                    dim = list_dim;
                }
            }
            dims.push(dim, 0.0);
        }
        Ok(dims)
    }

    /// Returns for each axis whether it is in the list; negative values count from the end.
    fn marked(&mut self, axes: &Axes, rank: usize) -> Result<[bool; MAX_LIST], EvalError> {
        let Some(list) = &axes.reduced else { return Ok([true; MAX_LIST]) };
        let list = self.list(list)?;
        self.at = axes.at;
        let mut marked = [false; MAX_LIST];
        for &axis in list.items() {
            let axis_from_start = if axis < 0 { axis.saturating_add(integer(rank)) } else { axis };
            match length(axis_from_start)
                .filter(|axis_from_start| *axis_from_start < rank)
                .and_then(|axis_from_start| marked.get_mut(axis_from_start))
            {
                Some(true) => return Err(self.fault(format!("axis {axis} is given twice"))),
                Some(mark) => *mark = true,
                None => {
                    return Err(self.fault(format!("axis {axis} is out of range for rank {rank}")));
                }
            }
        }
        Ok(marked)
    }

    /// Evaluates the dimensions or coordinates of a fold along axes.
    fn axes(&mut self, axes: &Axes) -> Result<Ints, EvalError> {
        let dims = self.list(&axes.dims)?;
        let marked = self.marked(axes, dims.items().len())?;
        let mut result = Ints::EMPTY;
        let dims_and_marks = dims.items().iter().zip(marked);
        match &axes.what {
            AxesOf::Reduced => {
                for (dim, _) in dims_and_marks.filter(|(_, marked)| *marked) {
                    result.push(*dim, 0.0);
                }
            }
            AxesOf::Left(keep) => {
                let keep = self.scalar(keep)?.holds();
                for (dim, marked) in dims_and_marks.filter(|(_, marked)| keep || !*marked) {
                    result.push(if marked { 1 } else { *dim }, 0.0);
                }
            }
            AxesOf::Merged(left, reduced, keep) => {
                let (left, reduced) = (self.list(left)?, self.list(reduced)?);
                let keep = self.scalar(keep)?.holds();
                let (mut left_index, mut reduced_index) = (0, 0);
                for (_, marked) in dims_and_marks {
                    let item =
                        if marked { reduced.get(reduced_index) } else { left.get(left_index) };
                    reduced_index += usize::from(marked);
                    left_index += usize::from(keep || !marked);
                    let item = item.unwrap_or(Val::int(0));
                    result.push(item.whole(), item.error);
                }
            }
        }
        Ok(result)
    }
}

/// Returns the coordinates for a tensor that is broadcast: the last ones, one per dimension, with 0 for dimensions of
/// size 1.
fn align(coords: &Ints, dims: &Ints) -> Ints {
    let mut aligned = Ints::EMPTY;
    let skipped = coords.items().len().saturating_sub(dims.items().len());
    for (axis, dim) in dims.items().iter().enumerate() {
        let coord = coords.get(skipped + axis).filter(|_| *dim != 1).unwrap_or(Val::int(0));
        aligned.push(coord.whole(), coord.error);
    }
    aligned
}

/// Returns the coordinates of the element with this number in row-major order.
fn unravel(number: i64, dims: &Ints) -> Ints {
    let mut coords = *dims;
    let mut quotient = number;
    for item in coords.items.iter_mut().take(dims.len).rev() {
        let dim = (*item).max(1);
        *item = quotient.rem_euclid(dim);
        quotient = quotient.div_euclid(dim);
    }
    // The first coordinate of a number beyond the last element is out of range, so that the read is reported.
    if let Some(first) = coords.items.first_mut().filter(|_| dims.len > 0) {
        *first = first.saturating_add(
            quotient.saturating_mul(dims.items.first().copied().unwrap_or(1).max(1)),
        );
    }
    coords
}
