//! Resizing. A table per axis lists the input elements and weights of each output element. An output row is a weighted
//! sum of input rows, then of a few neighbours within the row.

mod axis;
mod copies;
mod gpu;
mod kernel;
mod plan;
mod rows;
mod sample;
mod sums;

pub(crate) use gpu::on_gpu;
pub(crate) use kernel::{kernel, on_dsp};
pub(crate) use plan::{PARAMS, Plan, ROI, SCALES, SIZES};
