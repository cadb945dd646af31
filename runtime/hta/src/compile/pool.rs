//! The constants section of bytecode, as the compiler appends to it: weights, tables and constant tensors.

use crate::bytecode::{At, Convolution, Window};
use crate::network::{Tensor, Values, Weights, ratio};

/// Inverting this bit of an unsigned weight gives the signed weight that is smaller by 128. With the zero point
/// converted in the same way, the difference between weight and zero point does not change.
const SIGN_BIT: u8 = 1 << 7;

/// Alignment of constants in bytes.
const ALIGNMENT: usize = 4;

/// The constants so far.
#[derive(Debug, Default)]
pub(super) struct Pool(pub(super) Vec<u8>);

/// The offsets of a layer's weights and parameters in the pool, and its zero points.
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
        let offset = u32::try_from(self.0.len()).ok()?;
        self.0.extend(bytes);
        u32::try_from(self.0.len()).ok().map(|_| offset)
    }

    /// Appends the weights and parameters of a layer. The bytecode has signed weights, and one zero point, bias and
    /// ratio for each output.
    pub(super) fn filter(
        &mut self,
        source: &Weights<'_>,
        input: &Tensor<'_>,
        output: &Tensor<'_>,
    ) -> Option<Filter> {
        let outputs = output.shape[3];
        let inverted = |value: &u8| value ^ SIGN_BIT;
        let unchanged = |value: &i8| value.cast_unsigned();
        let weights: Vec<u8> = match source.values {
            Values::I8 { weights, .. } => weights.iter().map(unchanged).collect(),
            Values::U8 { weights, .. } => weights.iter().map(inverted).collect(),
        };
        let zero_points: Vec<u8> = match source.values {
            Values::I8 { zero_points, .. } => zero_points.iter().map(unchanged).collect(),
            Values::U8 { zero_points, .. } => zero_points.iter().map(inverted).collect(),
        };
        let depth = u32::try_from(weights.len() / outputs).ok()?;
        let ratio =
            |scale: &f32| ratio(input.encoding.scale, *scale, output.encoding.scale).to_le_bytes();
        let ratios: Vec<_> = source.scales.iter().map(ratio).collect();
        let bias = source.bias.iter().copied().chain(std::iter::repeat(0));
        Some(Filter {
            depth,
            from_zero: input.encoding.zero_point.into(),
            to_zero: output.encoding.zero_point.into(),
            weights: self.put(weights)?,
            zero_points: self.put(zero_points.into_iter().cycle().take(outputs))?,
            bias: self.put(bias.take(outputs).flat_map(i32::to_le_bytes))?,
            ratios: self.put(ratios.into_iter().cycle().take(outputs).flatten())?,
        })
    }
}

impl Filter {
    /// Returns an instruction for the outputs from `first` on. The caller sets the addresses, pitches and channels.
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
