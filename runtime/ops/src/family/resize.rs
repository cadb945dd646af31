//! Tensors that are sampled at other places. Along each axis a table says which elements a new one is made of, and what
//! they weigh; a new row is the weighted sum of some rows, of which each new element is one of a few neighbours.

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
