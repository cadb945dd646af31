//! Operators that compute each output element from the input elements at the same position.

mod binary;
mod broadcast;
mod compare;
mod each;
mod gpu;
mod limited;
mod logic;
mod operands;
mod planes;
mod predicate;
mod repeated;
mod rows;
mod stored;
mod table;
mod ternary;
mod unary;

use udo_api::{Error, InferCx, TypeSet, types};

pub(crate) use crate::family::partition::GRAIN;
pub(crate) use binary::{Binary, Mixed, MixedOf, Shapes, binary, run_of};
pub(crate) use broadcast::{Broadcast, broadcast_shapes};
pub(crate) use compare::{Compare, compare};
pub(crate) use each::{Extents, each, each_quantized};
pub(crate) use limited::{Limited, limited};
pub(crate) use logic::{Bitwise, Logic, bitwise, logic, on_gpu};
pub(crate) use operands::Run;
pub(crate) use predicate::{Predicate, predicate};
pub(crate) use repeated::{End, Repeated, repeated};
pub(crate) use rows::{PairPredicate, Pairs, Rows, Side, lane_by_lane, singles};
pub(crate) use stored::{BLOCK, Stored};
pub(crate) use table::{look_up, tabulate};
pub(crate) use ternary::{Ternary, ternary};
pub(crate) use unary::{Unary, real, unary};

/// The quantized types that DSP kernels support.
const QUANTIZED: TypeSet = types::U8.or(types::I8);

/// Infers an output of the input's type and shape, without its encoding.
pub(crate) fn infer_like_input(cx: &mut InferCx<'_>) -> Result<(), Error> {
    let x = cx.input(0)?;
    // The host sets the encoding of a quantized output.
    cx.set_output(0, x.dtype().map_or(x, |t| x.with_dtype(t)))
}
