//! Operators that set each element against others: those along an axis, in its row, or in its channel.

mod channels;
mod gpu;
mod groups;
mod lanes;
mod rows;

pub(crate) use channels::{ChannelNorm, channel_norm};
pub(crate) use gpu::{LaneGpu, lane_gpu};
pub(crate) use groups::{GroupNorm, group_norm};
pub(crate) use lanes::{LaneNorm, lane_norm};
pub(crate) use rows::{ROWS, RowNorm, RowReference, row_norm};
