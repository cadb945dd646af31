//! Operators that compute each element of their output from elements in the same place.

mod binary;
mod broadcast;
mod compare;
mod each;
mod gpu;
mod limited;
mod operands;
mod repeated;
mod table;
mod ternary;
mod unary;

use udo_api::{Error, InferCx};

pub(crate) use crate::family::partition::GRAIN;
pub(crate) use binary::{Binary, Mixed, binary};
pub(crate) use broadcast::{Broadcast, broadcast_shapes};
pub(crate) use compare::{Compare, compare};
pub(crate) use each::{Extents, each};
pub(crate) use limited::{Limited, limited};
pub(crate) use repeated::{Repeated, repeated};
pub(crate) use table::{look_up, tabulate};
pub(crate) use ternary::{Ternary, ternary};
pub(crate) use unary::{Curve, Slices, Unary, unary};

/// Shape inference of an operator whose output is like its input.
pub(crate) fn infer_like_input(cx: &mut InferCx<'_>) -> Result<(), Error> {
    let x = cx.input(0)?;
    // What the result's quantized values mean is for others to say.
    cx.set_output(0, x.dtype().map_or(x, |t| x.with_dtype(t)))
}
