//! Walks the intermediate representation: calls a function for each tensor that a part reads, and each slot (local
//! value or list) that it uses or binds.

use super::{AxesOf, Binder, Item, List, Scalar, Slot, Source};
use crate::fault::Position;

/// An event of a walk: a read of a tensor's elements or dimensions, or the use or declaration of a local.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Seen {
    Elements(Source, Position),
    Dims(Source),
    Use(Slot),
    UseList(Slot),
    Bind(Slot),
    BindList(Slot),
}

impl Scalar {
    /// Reports everything in the part, in no particular order.
    pub(crate) fn walk(&self, see: &mut dyn FnMut(Seen)) {
        match self {
            Self::Float(_)
            | Self::Int(_)
            | Self::Bool(_)
            | Self::Param(_)
            | Self::Present(_)
            | Self::TextIs(..) => {}
            Self::Var(slot) => see(Seen::Use(*slot)),
            Self::Item(list, at, _) => {
                list.walk(see);
                at.walk(see);
            }
            Self::Len(list) | Self::Product(list) => list.walk(see),
            Self::Ravel(coords, dims) => {
                coords.walk(see);
                dims.walk(see);
            }
            Self::Read(read) => {
                see(Seen::Elements(read.source, read.at));
                read.coords.walk(see);
                if let Some(outside) = &read.outside {
                    outside.walk(see);
                }
            }
            Self::Unary(_, operand) | Self::Cast(_, operand) | Self::Not(operand) => {
                operand.walk(see);
            }
            Self::Binary(_, left, right, _) | Self::And(left, right) | Self::Or(left, right) => {
                left.walk(see);
                right.walk(see);
            }
            Self::If(condition, then, otherwise) => {
                condition.walk(see);
                then.walk(see);
                otherwise.walk(see);
            }
            Self::Let(slot, value, body) => {
                see(Seen::Bind(*slot));
                value.walk(see);
                body.walk(see);
            }
            Self::There(list, body) => {
                list.walk(see);
                body.walk(see);
            }
            Self::Fold(fold) => {
                for binder in &fold.binders {
                    binder.walk(see);
                }
                fold.body.walk(see);
            }
        }
    }
}

impl Binder {
    pub(crate) fn walk(&self, see: &mut dyn FnMut(Seen)) {
        match self {
            Self::Index(slot, count) => {
                see(Seen::Bind(*slot));
                count.walk(see);
            }
            Self::Pack(slot, extents) => {
                see(Seen::BindList(*slot));
                extents.walk(see);
            }
        }
    }
}

impl List {
    /// Reports everything in the part, in no particular order.
    pub(crate) fn walk(&self, see: &mut dyn FnMut(Seen)) {
        match self {
            Self::Items(items) => {
                for item in items {
                    match item {
                        Item::One(scalar) => scalar.walk(see),
                        Item::Spread(list) => list.walk(see),
                    }
                }
            }
            Self::Dims(source) => see(Seen::Dims(*source)),
            Self::Var(slot) => see(Seen::UseList(*slot)),
            Self::Slice(list, from, to) => {
                list.walk(see);
                for end in [from, to].into_iter().flatten() {
                    end.walk(see);
                }
            }
            Self::For(slot, count, body) => {
                see(Seen::Bind(*slot));
                count.walk(see);
                body.walk(see);
            }
            Self::If(condition, then, otherwise) => {
                condition.walk(see);
                then.walk(see);
                otherwise.walk(see);
            }
            Self::Broadcast(lists, _) => {
                for list in lists {
                    list.walk(see);
                }
            }
            Self::Align(coords, dims) => {
                coords.walk(see);
                dims.walk(see);
            }
            Self::Unravel(number, dims) => {
                number.walk(see);
                dims.walk(see);
            }
            Self::Axes(axes) => {
                axes.dims.walk(see);
                if let Some(list) = &axes.reduced {
                    list.walk(see);
                }
                match &axes.what {
                    AxesOf::Reduced => {}
                    AxesOf::Left(keep) => keep.walk(see),
                    AxesOf::Merged(left, reduced, keep) => {
                        left.walk(see);
                        reduced.walk(see);
                        keep.walk(see);
                    }
                }
            }
        }
    }
}

impl super::Select {
    pub(crate) fn walk(&self, see: &mut dyn FnMut(Seen)) {
        see(Seen::Bind(self.index));
        self.count.walk(see);
        self.condition.walk(see);
        for part in [&self.by, &self.limit].into_iter().flatten() {
            part.walk(see);
        }
        if let Some((slot, drops)) = &self.unless {
            see(Seen::Bind(*slot));
            drops.walk(see);
        }
    }
}
