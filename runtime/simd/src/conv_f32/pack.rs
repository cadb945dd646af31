//! The memory layout of weights before they are packed, and their packing.

use super::Shape;
use crate::gemm_f32::{MicroKernels, Stored};

/// Strides of weights along each axis, in elements; taps are row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// Between groups.
    pub group: usize,
    /// Between output channels of a group.
    pub output: usize,
    /// Between input channels of a group.
    pub channel: usize,
    /// Between taps.
    pub tap: usize,
}

impl Strides {
    /// Returns ONNX's order for `Conv`: output channels of all groups, input channels of one, taps.
    pub fn onnx(shape: &Shape) -> Self {
        let taps = shape.window.kernel.iter().product();
        let output = shape.channels * taps;
        Self { group: shape.outputs * output, output, channel: taps, tap: 1 }
    }

    /// Returns the order height, width, input channels of one group, output channels of all groups (TensorFlow's HWIO).
    pub fn hwio(shape: &Shape) -> Self {
        let channel = shape.groups * shape.outputs;
        Self { group: shape.outputs, output: 1, channel, tap: shape.channels * channel }
    }

    /// Returns ONNX's order for `ConvTranspose`: input channels of all groups, output channels of one, taps.
    pub fn onnx_transposed(shape: &Shape) -> Self {
        let taps = shape.window.kernel.iter().product();
        let channel = shape.outputs * taps;
        Self { group: shape.channels * channel, output: taps, channel, tap: 1 }
    }

    /// Packs the weights of some taps for all groups. `out` has a packed matrix per group.
    pub(super) fn pack<T: Stored>(
        &self,
        kernels: &MicroKernels,
        shape: &Shape,
        weights: &[T],
        taps: &(impl Iterator<Item = usize> + Clone),
        out: &mut [f32],
    ) {
        let Shape { channels, outputs, groups, .. } = *shape;
        let k = taps.clone().count() * channels;
        let len = kernels.packed_len(k, outputs);
        if len == 0 {
            return;
        }
        for group in 0..groups {
            let weights = weights.get(group * self.group..).unwrap_or(&[]);
            let rows = taps.clone().flat_map(|tap| {
                (0..channels).map(move |channel| tap * self.tap + channel * self.channel)
            });
            let out = &mut out[group * len..][..len];
            kernels.pack_rows(
                k,
                outputs,
                &rows,
                |row, col| weights[row + col * self.output].number(),
                out,
            );
        }
    }
}
