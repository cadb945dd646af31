//! Evaluates lists of a few integers: dimensions, coordinates, axes.

use super::Machine;
use crate::{
    bound::Val,
    fault::EvalError,
    ir::{Axes, AxesOf, Item, List, Scalar},
    number::{integer, length},
};

/// The maximum length of a list.
pub(crate) const MAX_LIST: usize = 16;

/// A list, with the tolerance of each item.
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

    /// Appends an item if there is space; returns whether there was.
    pub(crate) fn push(&mut self, item: i64, error: f64) -> bool {
        let (Some(at), Some(of)) = (self.items.get_mut(self.len), self.errors.get_mut(self.len))
        else {
            return false;
        };
        (*at, *of) = (item, error);
        self.len += 1;
        true
    }

    pub(crate) fn get(&self, at: usize) -> Option<Val> {
        let mut value = Val::int(*self.items().get(at)?);
        value.error = *self.errors().get(at)?;
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

    fn pushed(&self, list: &mut Ints, item: i64, error: f64) -> Result<(), EvalError> {
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
                    self.pushed(&mut all, value.whole(), value.error)?;
                }
                Item::Spread(list) => {
                    let list = self.list(list)?;
                    for (item, error) in list.items().iter().zip(list.errors()) {
                        self.pushed(&mut all, *item, *error)?;
                    }
                }
            }
        }
        Ok(all)
    }

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
        let place = |at: i64| {
            length(if at < 0 { at.saturating_add(len) } else { at.min(len) }).unwrap_or(0)
        };
        let (from, to) = (place(from), place(to));
        let mut cut = Ints::EMPTY;
        for at in from..to {
            if let Some(value) = list.get(at) {
                cut.push(value.whole(), value.error);
            }
        }
        Ok(cut)
    }

    fn comprehension(
        &mut self,
        slot: usize,
        count: &Scalar,
        body: &Scalar,
    ) -> Result<Ints, EvalError> {
        let count = self.scalar(count)?.whole();
        let mut all = Ints::EMPTY;
        for index in 0..count {
            self.set(slot, Val::int(index));
            let value = self.scalar(body)?;
            self.pushed(&mut all, value.whole(), value.error)?;
        }
        Ok(all)
    }

    fn broadcast(&mut self, lists: &[List]) -> Result<Ints, EvalError> {
        let mut all = Vec::new();
        for list in lists {
            all.push(self.list(list)?);
        }
        let rank = all.iter().map(|list| list.items().len()).max().unwrap_or(0);
        let mut dims = Ints::EMPTY;
        for axis in 0..rank {
            let mut dim = 1;
            for list in &all {
                let missing = rank - list.items().len();
                let Some(&of) = axis.checked_sub(missing).and_then(|axis| list.items().get(axis))
                else {
                    continue;
                };
                if of != 1 && dim != 1 && of != dim {
                    let said: Vec<_> =
                        all.iter().map(|list| format!("{:?}", list.items())).collect();
                    return Err(
                        self.fault(format!("shapes {} do not broadcast", said.join(" and ")))
                    );
                }
                if of != 1 {
                    dim = of;
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
            let place = if axis < 0 { axis.saturating_add(integer(rank)) } else { axis };
            match length(place)
                .filter(|place| *place < rank)
                .and_then(|place| marked.get_mut(place))
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

    fn axes(&mut self, axes: &Axes) -> Result<Ints, EvalError> {
        let dims = self.list(&axes.dims)?;
        let marked = self.marked(axes, dims.items().len())?;
        let mut result = Ints::EMPTY;
        let each = dims.items().iter().zip(marked);
        match &axes.what {
            AxesOf::Reduced => {
                for (dim, _) in each.filter(|(_, marked)| *marked) {
                    result.push(*dim, 0.0);
                }
            }
            AxesOf::Left(keep) => {
                let keep = self.scalar(keep)?.holds();
                for (dim, marked) in each.filter(|(_, marked)| keep || !*marked) {
                    result.push(if marked { 1 } else { *dim }, 0.0);
                }
            }
            AxesOf::Merged(left, reduced, keep) => {
                let (left, reduced) = (self.list(left)?, self.list(reduced)?);
                let keep = self.scalar(keep)?.holds();
                let (mut of_left, mut of_reduced) = (0, 0);
                for (_, marked) in each {
                    let item = if marked { reduced.get(of_reduced) } else { left.get(of_left) };
                    of_reduced += usize::from(marked);
                    of_left += usize::from(keep || !marked);
                    let item = item.unwrap_or(Val::int(0));
                    result.push(item.whole(), item.error);
                }
            }
        }
        Ok(result)
    }
}

/// Returns the last coordinates, one per dimension, with 0 for dimensions of 1.
fn align(coords: &Ints, dims: &Ints) -> Ints {
    let mut aligned = Ints::EMPTY;
    let skipped = coords.items().len().saturating_sub(dims.items().len());
    for (axis, dim) in dims.items().iter().enumerate() {
        let coord = coords.get(skipped + axis).filter(|_| *dim != 1).unwrap_or(Val::int(0));
        aligned.push(coord.whole(), coord.error);
    }
    aligned
}

fn unravel(number: i64, dims: &Ints) -> Ints {
    let mut coords = *dims;
    let mut rest = number;
    for item in coords.items.iter_mut().take(dims.len).rev() {
        let dim = (*item).max(1);
        *item = rest.rem_euclid(dim);
        rest = rest.div_euclid(dim);
    }
    // Excess is out of range, and such a read is detected.
    if let Some(first) = coords.items.first_mut().filter(|_| dims.len > 0) {
        *first = first
            .saturating_add(rest.saturating_mul(dims.items.first().copied().unwrap_or(1).max(1)));
    }
    coords
}
