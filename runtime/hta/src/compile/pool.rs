//! Collects the constants of bytecode.

use crate::bytecode::{At, Convolution, Window};
use crate::network::{Tensor, Values, Weights, ratio};

/// Difference between an unsigned value and the signed value with the same bits but the highest inverted.
const MIDDLE: u8 = 1 << 7;

/// Alignment of constants in bytes.
const ALIGNMENT: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Pool(pub(super) Vec<u8>);

/// Offsets of the weights and parameters of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    /// Weights per output.
    pub(super) depth: u32,
    from_zero: u32,
    to_zero: u32,
    weights: u32,
    zero_points: u32,
    bias: u32,
    ratios: u32,
}

impl Pool {
    /// Appends bytes, and returns their offset; `None` if it exceeds 32 bits.
    pub(super) fn put(&mut self, bytes: impl IntoIterator<Item = u8>) -> Option<u32> {
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT), 0);
        let at = u32::try_from(self.0.len()).ok()?;
        self.0.extend(bytes);
        u32::try_from(self.0.len()).ok().map(|_| at)
    }

    /// Appends the weights and parameters of a layer.
    pub(super) fn filter(
        &mut self,
        source: &Weights<'_>,
        x: &Tensor<'_>,
        y: &Tensor<'_>,
    ) -> Option<Filter> {
        let outputs = y.shape[3];
        let moved = |value: &u8| value ^ MIDDLE;
        let same = |value: &i8| value.cast_unsigned();
        let weights: Vec<u8> = match source.values {
            Values::I8 { weights, .. } => weights.iter().map(same).collect(),
            Values::U8 { weights, .. } => weights.iter().map(moved).collect(),
        };
        let zero_points: Vec<u8> = match source.values {
            Values::I8 { zero_points, .. } => zero_points.iter().map(same).collect(),
            Values::U8 { zero_points, .. } => zero_points.iter().map(moved).collect(),
        };
        let depth = u32::try_from(weights.len() / outputs).ok()?;
        let ratio = |scale: &f32| ratio(x.encoding.scale, *scale, y.encoding.scale).to_le_bytes();
        let ratios: Vec<_> = source.scales.iter().map(ratio).collect();
        let bias = source.bias.iter().copied().chain(std::iter::repeat(0));
        Some(Filter {
            depth,
            from_zero: x.encoding.zero_point.into(),
            to_zero: y.encoding.zero_point.into(),
            weights: self.put(weights)?,
            zero_points: self.put(zero_points.into_iter().cycle().take(outputs))?,
            bias: self.put(bias.take(outputs).flat_map(i32::to_le_bytes))?,
            ratios: self.put(ratios.into_iter().cycle().take(outputs).flatten())?,
        })
    }
}

impl Filter {
    /// Returns the convolution of outputs from `first` on, for dense pixels.
    pub(super) fn convolution(&self, window: Window, first: u32) -> Convolution {
        Convolution {
            from: At::default(),
            from_pitch: 0,
            to: At::default(),
            to_pitch: 0,
            window,
            channels: 0,
            outputs: 0,
            from_zero: self.from_zero,
            to_zero: self.to_zero,
            weights: self.weights + first * self.depth,
            zero_points: self.zero_points + first,
            bias: self.bias + 4 * first,
            ratios: self.ratios + 4 * first,
        }
    }
}
