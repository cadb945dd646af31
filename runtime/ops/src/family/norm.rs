//! Operators that set each element against others: those along an axis, in its row, or in its channel.

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

/// The types of rows.
pub(crate) const ROWS: TypeSet = types::F32.or(types::F64);

/// What becomes of a row. Its family reads axis and epsilon, and has schema, inference, kernels for `f32`, threading
/// and tests.
pub(crate) trait RowNorm: Send + Sync + 'static {
    const NAME: &'static str;
    /// The rows, the scale of their positions, and their bias where there may be one.
    const INPUTS: &'static [Port];
    /// The normalized rows, and [`Self::STATISTICS`].
    const OUTPUTS: &'static [Port];
    /// Whether rows lose their mean.
    const IS_CENTRED: bool;
    /// How many numbers of a row are outputs as well.
    const STATISTICS: usize = 0;
    /// The same in `f64`.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests hold the rows against it"))]
    const TEST: RowReference;

    /// Rows as long as `scale`; `bias` is empty where there is none.
    fn rows(x: &[f32], scale: &[f32], bias: &[f32], epsilon: f32, y: &mut [f32]);

    /// The same of one row of `f64`.
    fn row(x: &[f64], scale: &[f64], bias: &[f64], epsilon: f64, y: &mut [f64]);

    /// Statistic `at` of a row.
    fn statistic<T: Number>(at: usize, x: &[T], epsilon: f64) -> f64 {
        let _ = (at, x, epsilon);
        0.0
    }
}

/// A row, the scale and the bias of its positions, and epsilon.
pub(crate) type RowReference = fn(&[f64], [&[f64]; 2], f64) -> Vec<f64>;

/// Which channels are a group. Its family has schema, inference, kernels for `f32` and `f64`, and threading.
pub(crate) trait GroupNorm: Send + Sync + 'static {
    const NAME: &'static str;
    /// `epsilon` among them.
    const PARAMS: &'static [Param];

    /// How many groups so many channels fall into.
    fn groups(node: &Node<'_>, channels: usize) -> Result<usize, Error>;
}
