//! Normalization: lane norms (along an axis, such as Softmax), row norms (over the last axes, such as
//! `LayerNormalization`), group norms and channel norms.

mod channels;
mod gpu;
mod groups;
mod lanes;
mod rows;

use udo_api::{Error, Node, Param, Port, TypeSet, types};

use crate::number::Number;
pub(crate) use channels::{ChannelNorm, channel_norm};
pub(crate) use gpu::{LaneGpu, lane_gpu};
pub(crate) use groups::group_norm;
pub(crate) use lanes::{LaneNorm, lane_norm};
pub(crate) use rows::row_norm;

/// The element types of rows.
pub(crate) const ROWS: TypeSet = types::F32.or(types::F64);

/// A row normalization. The family reads axis and epsilon, and provides schema, inference, f32 kernels, threading and
/// tests.
pub(crate) trait RowNorm: Send + Sync + 'static {
    const NAME: &'static str;
    /// Rows, scale, and an optional bias.
    const INPUTS: &'static [Port];
    /// The normalized rows, and [`Self::STATISTICS`].
    const OUTPUTS: &'static [Port];
    /// Whether the mean is subtracted.
    const IS_CENTRED: bool;
    /// Number of further outputs, each with one statistic per row, such as its mean.
    const STATISTICS: usize = 0;
    /// The f64 reference.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests read the reference"))]
    const TEST: RowReference;

    /// Normalizes rows as long as `scale`; `bias` may be empty.
    fn rows(x: &[f32], scale: &[f32], bias: &[f32], epsilon: f32, y: &mut [f32]);

    /// Normalizes one row of f64.
    fn row(x: &[f64], scale: &[f64], bias: &[f64], epsilon: f64, y: &mut [f64]);

    /// Returns statistic `at` of a row.
    fn statistic<T: Number>(at: usize, x: &[T], epsilon: f64) -> f64 {
        let _ = (at, x, epsilon);
        0.0
    }
}

/// A row, the scale and bias of its positions, and epsilon.
pub(crate) type RowReference = fn(&[f64], [&[f64]; 2], f64) -> Vec<f64>;

/// A group normalization. The family provides schema, inference, f32 and f64 kernels, and threading.
pub(crate) trait GroupNorm: Send + Sync + 'static {
    const NAME: &'static str;
    /// The parameters; `epsilon` is among them.
    const PARAMS: &'static [Param];

    /// Returns the number of groups for this many channels.
    fn groups(node: &Node<'_>, channels: usize) -> Result<usize, Error>;
}
