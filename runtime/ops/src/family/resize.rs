//! Resizing (Resize and Upsample). A table per axis lists the input elements and weights of each output element. An
//! output row is first computed as a weighted sum of input rows, then each of its elements as a weighted sum of
//! neighbours in it.

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
