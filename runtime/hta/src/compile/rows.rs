//! The input rows that a layer needs for a range of its output rows, by operator. Planning and emitting use them to
//! divide a layer into tiles.

use std::ops::Range;

use crate::network::{Layer, Network, Op, Tensor, TensorId, Window};

/// A tensor as rows of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lines {
    /// Number of rows.
    pub(super) count: usize,
    /// Bytes per row.
    pub(super) bytes: usize,
}

/// The dependence of output rows on the rows of an input.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    /// On the same row.
    Same,
    /// On all rows.
    Whole,
    /// On the rows that windows cover.
    Windows(Window),
    /// On one row for each group of this many output rows, as when an image is enlarged.
    Times(usize),
}

/// A layer with its tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'n, 'a> {
    pub(super) layer: &'n Layer<'a>,
    /// All tensors of the network.
    pub(super) tensors: &'n [Tensor<'a>],
    /// The output.
    pub(super) y: &'n Tensor<'a>,
}

impl<'n, 'a> Job<'n, 'a> {
    /// Returns `None` for a layer without an output, which a checked network does not have.
    pub(super) fn new(network: &'n Network<'a>, layer: &'n Layer<'a>) -> Option<Self> {
        let y = network.tensors.get(layer.output.0)?;
        Some(Self { layer, tensors: &network.tensors, y })
    }

    /// Returns input number `input`.
    pub(super) fn x(&self, input: usize) -> Option<&'n Tensor<'a>> {
        self.layer.inputs.get(input).and_then(|id| self.tensors.get(id.0))
    }

    /// Returns a tensor of this layer as rows.
    pub(super) fn lines(&self, id: TensorId) -> Lines {
        let Some(tensor) = self.tensors.get(id.0) else { return Lines { count: 0, bytes: 0 } };
        let [_, height, width, channels] = tensor.shape;
        match self.layer.op {
            // Input and output have unlike rows, so that tiles are ranges of bytes.
            Op::Reshape => Lines { count: tensor.len(), bytes: 1 },
            _ => Lines { count: height, bytes: width * channels },
        }
    }

    /// Returns the number that a tile's output rows must be a multiple of.
    pub(super) fn unit(&self) -> usize {
        match self.need(0) {
            Need::Times(times) => times,
            Need::Same | Need::Whole | Need::Windows(_) => 1,
        }
    }

    fn need(&self, input: usize) -> Need {
        match self.layer.op {
            Op::Conv { window, .. }
            | Op::Depthwise { window, .. }
            | Op::MaxPool { window }
            | Op::AveragePool { window, .. } => Need::Windows(window),
            Op::FullyConnected { .. } => Need::Whole,
            Op::Add | Op::Mul if self.x(input).is_some_and(|x| x.shape != self.y.shape) => {
                Need::Whole
            }
            Op::Add | Op::Mul | Op::Concat | Op::Lookup { .. } | Op::Reshape | Op::Softmax => {
                Need::Same
            }
            Op::Resize => {
                let height = self.x(input).map_or(1, |x| x.shape[1]);
                Need::Times((self.y.shape[1] / height.max(1)).max(1))
            }
        }
    }

    /// Returns the input rows that the output rows depend on.
    pub(super) fn rows(&self, input: usize, output: &Range<usize>) -> Range<usize> {
        let count = self.layer.inputs.get(input).map_or(0, |&id| self.lines(id).count);
        match self.need(input) {
            Need::Same => output.clone(),
            Need::Whole => 0..count,
            Need::Windows(window) => {
                let [stride, pad] = [window.strides[0], window.pads[0]];
                let last = output.end.saturating_sub(1) * stride + window.reach(0);
                (output.start * stride).saturating_sub(pad)..last.saturating_sub(pad).min(count)
            }
            Need::Times(times) => output.start / times..output.end.div_ceil(times),
        }
    }

    /// Returns the most input rows that any `rows` output rows depend on.
    pub(super) fn most_rows(&self, input: usize, rows: usize) -> usize {
        let count = self.layer.inputs.get(input).map_or(0, |&id| self.lines(id).count);
        match self.need(input) {
            Need::Same => rows,
            Need::Whole => count,
            Need::Windows(window) => ((rows.saturating_sub(1)) * window.strides[0])
                .saturating_add(window.reach(0))
                .min(count),
            Need::Times(times) => rows.div_ceil(times),
        }
    }
}
