//! How the weights of convolutions are packed: recipes that hold all that decides it, whatever the images.

use udo_api::{Code, Error, Sources};
use udo_simd::conv_f32::Plan;
use udo_simd::winograd::{self, Tile};
use udo_simd::{conv_u8, depthwise};

use super::quantized::signed;
use crate::number::wrong_recipe;

/// How weights of f32 are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum F32Packing {
    /// For products whose rows are gathered: groups, outputs and channels of a group, taps.
    Indirect([usize; 4]),
    /// For Winograd's algorithm: input and output channels.
    Winograd(Tile, [usize; 2]),
    /// For filters of one channel.
    Depthwise { taps: usize, channels: usize },
}

impl F32Packing {
    /// The recipe as numbers.
    pub(crate) fn numbers(self) -> [u64; 5] {
        let [kind, a, b, c, d] = match self {
            Self::Indirect([groups, outputs, channels, taps]) => {
                [0, groups, outputs, channels, taps]
            }
            Self::Winograd(tile, [inputs, outputs]) => [1, tile.size(), inputs, outputs, 0],
            Self::Depthwise { taps, channels } => [2, taps, channels, 0, 0],
        };
        [kind, a, b, c, d].map(|number| number as u64)
    }

    fn of(numbers: &[u64]) -> Option<Self> {
        let &[kind, a, b, c, d] = numbers else { return None };
        let [a, b, c, d] = [a, b, c, d].map(|number| number as usize);
        match kind {
            0 => Some(Self::Indirect([a, b, c, d])),
            1 => {
                let tile = Tile::ALL.into_iter().find(|tile| tile.size() == a)?;
                Some(Self::Winograd(tile, [b, c]))
            }
            2 => Some(Self::Depthwise { taps: a, channels: b }),
            _ => None,
        }
    }

    /// Packs weights in ONNX's order. Allocates for Winograd's transform.
    pub(crate) fn pack(self, weights: &[f32], packed: &mut [f32]) {
        match self {
            Self::Indirect(shape) => Plan::pack_onnx(shape, weights, packed),
            Self::Winograd(tile, channels) => {
                let mut workspace = vec![0.0; winograd::pack_workspace_len(channels)];
                winograd::pack(tile, weights, channels, packed, &mut workspace);
            }
            Self::Depthwise { taps, channels } => depthwise::pack(weights, taps, channels, packed),
        }
    }

    /// Packs by numbers.
    pub(crate) fn fill(
        numbers: &[u64],
        sources: &Sources<'_>,
        packed: &mut [f32],
    ) -> Result<(), Error> {
        let recipe = Self::of(numbers).ok_or_else(|| wrong_recipe(numbers))?;
        recipe.pack(sources.get(0)?, packed);
        Ok(())
    }
}

/// How 8-bit quantized weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuantizedPacking {
    /// For products whose rows are gathered.
    Indirect(conv_u8::Shape),
    /// For filters of one channel.
    Depthwise { kernel: [usize; 3], channels: usize },
}

impl QuantizedPacking {
    /// The recipe as numbers.
    pub(crate) fn numbers(self) -> [u64; 6] {
        let numbers = match self {
            Self::Indirect(conv_u8::Shape { groups, channels, outputs, taps, run }) => {
                [0, groups, channels, outputs, taps, run]
            }
            Self::Depthwise { kernel: [depth, height, width], channels } => {
                [1, depth, height, width, channels, 0]
            }
        };
        numbers.map(|number| number as u64)
    }

    fn of(numbers: &[u64]) -> Option<Self> {
        let &[kind, a, b, c, d, e] = numbers else { return None };
        let [a, b, c, d, e] = [a, b, c, d, e].map(|number| number as usize);
        match kind {
            0 => Some(Self::Indirect(conv_u8::Shape {
                groups: a,
                channels: b,
                outputs: c,
                taps: d,
                run: e,
            })),
            1 => Some(Self::Depthwise { kernel: [a, b, c], channels: d }),
            _ => None,
        }
    }

    /// Packs weights in ONNX's order, made signed in `workspace`, which has as many elements.
    pub(crate) fn pack<B: Code>(self, weights: &[B], workspace: &mut [i8], packed: &mut [i8]) {
        workspace.iter_mut().zip(weights).for_each(|(to, &value)| *to = signed(value));
        match self {
            Self::Indirect(shape) => {
                let fits = conv_u8::pack(workspace, &shape, packed);
                debug_assert!(fits, "weights of the shape");
            }
            Self::Depthwise { kernel, channels } => {
                depthwise::pack_u8(workspace, kernel, channels, packed);
            }
        }
    }

    /// Packs by numbers. Allocates for the signed weights.
    pub(crate) fn fill<B: Code>(
        numbers: &[u64],
        sources: &Sources<'_>,
        packed: &mut [i8],
    ) -> Result<(), Error> {
        let recipe = Self::of(numbers).ok_or_else(|| wrong_recipe(numbers))?;
        let weights = sources.get::<B>(0)?;
        recipe.pack(weights, &mut vec![0; weights.len()], packed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_recipe() {
        let floats = [
            F32Packing::Indirect([1, 2, 3, 4]),
            F32Packing::Winograd(Tile::ALL[0], [5, 6]),
            F32Packing::Winograd(Tile::ALL[1], [5, 6]),
            F32Packing::Depthwise { taps: 9, channels: 7 },
        ];
        for recipe in floats {
            assert_eq!(F32Packing::of(&recipe.numbers()), Some(recipe));
        }
        assert_eq!(F32Packing::of(&[3, 0, 0, 0, 0]), None);
        assert_eq!(F32Packing::of(&[1, 3, 0, 0, 0]), None, "no such tile");
        let shape = conv_u8::Shape { groups: 1, channels: 2, outputs: 3, taps: 4, run: 2 };
        let quantized = [
            QuantizedPacking::Indirect(shape),
            QuantizedPacking::Depthwise { kernel: [1, 3, 5], channels: 8 },
        ];
        for recipe in quantized {
            assert_eq!(QuantizedPacking::of(&recipe.numbers()), Some(recipe));
        }
        assert_eq!(QuantizedPacking::of(&[0; 5]), None);
    }
}
