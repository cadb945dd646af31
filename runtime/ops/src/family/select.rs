//! Operators that go by the order of elements: which is the greatest, the first `k`, or the same as another.

pub(crate) mod extreme;
mod gpu;
mod rank;
pub(crate) mod suppress;

pub(crate) use gpu::TopGpu;
pub(crate) use rank::{Ranked, least, positions_fit};
