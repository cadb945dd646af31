//! Packing of convolution weights: copying them into the order in which an algorithm reads them. A recipe describes the
//! packed layout. The host stores it as integers; by these it shares packed weights between kernels and finds them in
//! caches.

use udo_api::{Error, QuantizedType, Sources};
use udo_simd::conv_f32::{Plan, Shape, Strides, Transposed};
use udo_simd::gemm_f32::Stored;
use udo_simd::indirect::Window;
use udo_simd::winograd::{self, Tile};
use udo_simd::{conv_u8, depthwise};

use super::quantized::signed;
use crate::number::wrong_recipe;

/// How f32 weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum F32Packing {
    /// For products of gathered pixels: groups, outputs per group, channels per group, taps.
    Indirect([usize; 4]),
    /// For products of gathered pixels with factors rounded to bf16: groups, outputs per group, channels per group,
    /// taps.
    IndirectBf16([usize; 4]),
    /// For Winograd: tile, input and output channels.
    Winograd(Tile, [usize; 2]),
    /// For depthwise convolution.
    Depthwise { taps: usize, channels: usize },
    /// For each phase (output position modulo stride) of a transposed convolution, whatever the size of its images.
    Transposed(Shape),
}

impl F32Packing {
    /// Returns the recipe for the phases of a shape.
    pub(crate) fn transposed(shape: &Shape) -> Self {
        Self::Transposed(Shape { window: shape.window.whatever_the_images(), ..*shape })
    }

    /// Returns the recipe as integers.
    pub(crate) fn integers(self) -> Vec<u64> {
        let integers = match self {
            Self::Indirect([groups, outputs, channels, taps]) => {
                vec![0, groups, outputs, channels, taps]
            }
            Self::IndirectBf16([groups, outputs, channels, taps]) => {
                vec![4, groups, outputs, channels, taps]
            }
            Self::Winograd(tile, [inputs, outputs]) => vec![1, tile.size(), inputs, outputs],
            Self::Depthwise { taps, channels } => vec![2, taps, channels],
            Self::Transposed(Shape { window, channels, outputs, groups }) => {
                let Window { output, kernel, strides, dilations, pads, .. } = window;
                let axes = [output, kernel, strides, dilations, pads];
                [&[3, channels, outputs, groups], axes.as_flattened()].concat()
            }
        };
        integers.into_iter().map(|number| number as u64).collect()
    }

    fn decode(integers: &[u64]) -> Option<Self> {
        let integers: Vec<usize> = integers.iter().map(|&number| number as usize).collect();
        match integers[..] {
            [0, groups, outputs, channels, taps] => {
                Some(Self::Indirect([groups, outputs, channels, taps]))
            }
            [4, groups, outputs, channels, taps] => {
                Some(Self::IndirectBf16([groups, outputs, channels, taps]))
            }
            [1, size, inputs, outputs] => {
                let tile = Tile::ALL.into_iter().find(|tile| tile.size() == size)?;
                Some(Self::Winograd(tile, [inputs, outputs]))
            }
            [2, taps, channels] => Some(Self::Depthwise { taps, channels }),
            [3, channels, outputs, groups, ref axes @ ..] => {
                let (axes, []) = axes.as_chunks::<3>() else { return None };
                let &[output, kernel, strides, dilations, pads] = axes else { return None };
                let window = Window { input: [1; 3], output, kernel, strides, dilations, pads };
                Some(Self::Transposed(Shape { window, channels, outputs, groups }))
            }
            _ => None,
        }
    }

    /// Packs weights that are given in ONNX's order. Only Winograd allocates, for its transform.
    pub(crate) fn pack<T: Stored>(self, weights: &[T], packed: &mut [f32]) {
        match self {
            Self::Indirect(shape) => Plan::pack_onnx(shape, weights, packed),
            Self::IndirectBf16(shape) => Plan::pack_onnx_bf16(shape, weights, packed),
            Self::Winograd(tile, channels) => {
                let mut workspace = vec![0.0; winograd::pack_workspace_len(channels)];
                winograd::pack(tile, weights, channels, packed, &mut workspace);
            }
            Self::Depthwise { taps, channels } => depthwise::pack(weights, taps, channels, packed),
            Self::Transposed(shape) => {
                // A plan exists, as finalize made one for the whole image.
                if let Some(plan) = Transposed::new(&shape) {
                    plan.pack(weights, &Strides::onnx_transposed(&shape), packed);
                }
            }
        }
    }

    /// Packs by a recipe's integers.
    pub(crate) fn fill(
        integers: &[u64],
        sources: &Sources<'_>,
        packed: &mut [f32],
    ) -> Result<(), Error> {
        let recipe = Self::decode(integers).ok_or_else(|| wrong_recipe(integers))?;
        recipe.pack(sources.bytes::<f32>(0)?.as_chunks::<4>().0, packed);
        Ok(())
    }
}

/// How 8-bit quantized weights are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuantizedPacking {
    /// For gathered products.
    Indirect(conv_u8::Shape),
    /// For depthwise convolution.
    Depthwise { kernel: [usize; 3], channels: usize },
    /// For each phase of a transposed convolution: groups, channels and outputs of a group.
    Transposed { window: Window, counts: [usize; 3] },
}

impl QuantizedPacking {
    /// Returns the recipe as integers.
    pub(crate) fn integers(self) -> Vec<u64> {
        let integers = match self {
            Self::Indirect(conv_u8::Shape { groups, channels, outputs, taps, run }) => {
                vec![0, groups, channels, outputs, taps, run]
            }
            Self::Depthwise { kernel: [depth, height, width], channels } => {
                vec![1, depth, height, width, channels]
            }
            Self::Transposed { window, counts: [groups, channels, outputs] } => {
                let Window { input, output, kernel, strides, dilations, pads } = window;
                let axes = [input, output, kernel, strides, dilations, pads];
                [&[2, groups, channels, outputs], axes.as_flattened()].concat()
            }
        };
        integers.into_iter().map(|number| number as u64).collect()
    }

    fn decode(integers: &[u64]) -> Option<Self> {
        let integers: Vec<usize> = integers.iter().map(|&number| number as usize).collect();
        match integers[..] {
            [0, groups, channels, outputs, taps, run] => {
                Some(Self::Indirect(conv_u8::Shape { groups, channels, outputs, taps, run }))
            }
            [1, depth, height, width, channels] => {
                Some(Self::Depthwise { kernel: [depth, height, width], channels })
            }
            [2, groups, channels, outputs, ref axes @ ..] => {
                let (axes, []) = axes.as_chunks::<3>() else { return None };
                let &[input, output, kernel, strides, dilations, pads] = axes else { return None };
                let window = Window { input, output, kernel, strides, dilations, pads };
                Some(Self::Transposed { window, counts: [groups, channels, outputs] })
            }
            _ => None,
        }
    }

    /// Packs weights that are given in ONNX's order. `workspace`, as long as `weights`, takes their signed copy.
    pub(crate) fn pack<B: QuantizedType>(
        self,
        weights: &[B],
        workspace: &mut [i8],
        packed: &mut [i8],
    ) {
        workspace.iter_mut().zip(weights).for_each(|(to, &value)| *to = signed(value));
        match self {
            Self::Indirect(shape) => {
                let fits = conv_u8::pack(workspace, &shape, packed);
                debug_assert!(fits, "weights of the shape");
            }
            Self::Depthwise { kernel, channels } => {
                depthwise::pack_u8(workspace, kernel, channels, packed);
            }
            Self::Transposed { window, counts: [groups, channels, outputs] } => {
                let plan = conv_u8::Transposed::new(window, groups, channels, outputs);
                let fits = plan.is_some_and(|plan| plan.pack(workspace, packed));
                debug_assert!(fits, "weights of the shape");
            }
        }
    }

    /// Packs by a recipe's integers. Allocates for the signed weights.
    pub(crate) fn fill<B: QuantizedType>(
        integers: &[u64],
        sources: &Sources<'_>,
        packed: &mut [i8],
    ) -> Result<(), Error> {
        let recipe = Self::decode(integers).ok_or_else(|| wrong_recipe(integers))?;
        let weights = sources.get::<B>(0)?;
        recipe.pack(weights, &mut vec![0; weights.len()], packed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_survive_encoding() {
        let floats = [
            F32Packing::Indirect([1, 2, 3, 4]),
            F32Packing::IndirectBf16([1, 2, 3, 4]),
            F32Packing::Winograd(Tile::ALL[0], [5, 6]),
            F32Packing::Winograd(Tile::ALL[1], [5, 6]),
            F32Packing::Depthwise { taps: 9, channels: 7 },
            F32Packing::transposed(&Shape {
                window: Window {
                    input: [1, 5, 6],
                    output: [1, 9, 11],
                    kernel: [1, 3, 2],
                    strides: [1, 2, 3],
                    dilations: [1, 1, 2],
                    pads: [0, 3, 1],
                },
                channels: 4,
                outputs: 5,
                groups: 2,
            }),
        ];
        for recipe in floats {
            assert_eq!(F32Packing::decode(&recipe.integers()), Some(recipe));
        }
        assert_eq!(F32Packing::decode(&[3, 0, 0, 0, 0]), None);
        assert_eq!(F32Packing::decode(&[1, 3, 0, 0]), None, "no such tile");
        let shape = conv_u8::Shape { groups: 1, channels: 2, outputs: 3, taps: 4, run: 2 };
        let quantized = [
            QuantizedPacking::Indirect(shape),
            QuantizedPacking::Depthwise { kernel: [1, 3, 5], channels: 8 },
            QuantizedPacking::Transposed {
                window: Window {
                    input: [1, 2, 1],
                    output: [1, 2, 3],
                    kernel: [1, 3, 2],
                    strides: [1, 2, 3],
                    dilations: [1, 1, 2],
                    pads: [0, 1, 1],
                },
                counts: [2, 4, 5],
            },
        ];
        for recipe in quantized {
            assert_eq!(QuantizedPacking::decode(&recipe.integers()), Some(recipe));
        }
        assert_eq!(QuantizedPacking::decode(&[0; 5]), None);
        assert_eq!(QuantizedPacking::decode(&[2; 5]), None);
    }
}
