//! Sums overlapping blocks into images. The input has a column per block, with a row per channel and element of a
//! block. For bools, the sum is a logical or.

use udo_api::{
    Bool, Core, DType, Dim, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    MAX_RANK, Node, Op, OpSchema, Param, Port, Shape, TypeSet, input, output_like, types,
};

use crate::Def;
use crate::family::argument::IntsArgument;
use crate::family::axes::Axes;
use crate::family::window::sizes;
use crate::number::Number;

pub(crate) const DEF: Def = Def::new::<Col2Im>(KERNELS);

const IMAGE: IntsArgument =
    IntsArgument { input: 1, name: "image_shape", what: "extents of images" };
const BLOCK: IntsArgument =
    IntsArgument { input: 2, name: "block_shape", what: "extents of blocks" };
const TYPES: TypeSet = types::F32.or(types::F64).or(types::INTS).or(types::BOOL);
const KERNELS: &[KernelDef] = &[KernelDef::new::<AddedBlocks>("Col2Im", Core::CPU).ports(&[
    input(0, TYPES),
    input(1, types::I64),
    input(2, types::I64),
    output_like(0, 0),
])];

struct Col2Im;

impl Op for Col2Im {
    const SCHEMA: OpSchema = OpSchema::new(
        "Col2Im",
        &[Port::required("input", TYPES), IMAGE.port(), BLOCK.port()],
        &[Port::required("output", TYPES)],
        &[
            Param::tensor("dilations", DType::I64).optional(),
            Param::tensor("pads", DType::I64).optional(),
            Param::tensor("strides", DType::I64).optional(),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let blocks = Blocks::read(cx)?;
        let batch = x.full_shape().dim(0);
        let dims: Vec<Dim> = batch
            .into_iter()
            .chain([Dim::Fixed(blocks.channels)])
            .chain(blocks.axes.iter().map(|axis| Dim::Fixed(axis.image)))
            .collect();
        cx.set_output(0, x.with_shape(Shape::from_dims(&dims)?))
    }
}

/// The blocks along one axis of an image.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// Extent of the image.
    image: usize,
    /// Elements of a block along this axis, `dilation` apart.
    block: usize,
    dilation: usize,
    /// Number of blocks along this axis, `stride` apart.
    count: usize,
    stride: usize,
    /// Padding before the image.
    pad: usize,
}

impl Axis {
    /// Sets `count`; `None` if no block fits.
    fn with_count(mut self, end_pad: usize) -> Option<Self> {
        let span = (self.block - 1).checked_mul(self.dilation)?.checked_add(1)?;
        let padded = self.image.checked_add(self.pad)?.checked_add(end_pad)?;
        self.count = padded.checked_sub(span)? / self.stride + 1;
        Some(self)
    }

    /// Returns the position of an element of a block in the image, or `None` in the padding.
    fn position(&self, block: usize, element: usize) -> Option<usize> {
        let padded = block * self.stride + element * self.dilation;
        padded.checked_sub(self.pad).filter(|&position| position < self.image)
    }

    /// Returns the blocks whose element `element` is inside the image.
    fn inside(&self, element: usize) -> std::ops::Range<usize> {
        // The number of blocks whose element is before a padded position.
        let blocks_before = |padded: usize| {
            padded.saturating_sub(element * self.dilation).div_ceil(self.stride).min(self.count)
        };
        blocks_before(self.pad)..blocks_before(self.pad + self.image)
    }
}

/// The arrangement of blocks along all axes of an image.
struct Blocks {
    channels: usize,
    axes: Vec<Axis>,
}

impl Blocks {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let x = node.input(0)?;
        let (image, block) = (IMAGE.required(node)?, BLOCK.required(node)?);
        let extents = |ints: &[i64], lowest: i64| -> Option<Vec<usize>> {
            ints.iter().map(|&int| usize::try_from(int).ok().filter(|_| int >= lowest)).collect()
        };
        let rank = image.len();
        let mismatch = || {
            Error::new(format!(
                "input 0 is {x}, expected the elements of all blocks {block:?} of images {image:?}"
            ))
        };
        let (Some(images), Some(blocks)) = (extents(&image, 0), extents(&block, 1)) else {
            return Err(mismatch());
        };
        if blocks.len() != rank || !(1..=MAX_RANK - 2).contains(&rank) {
            return Err(mismatch());
        }
        // An absent parameter has its lowest value.
        let sizes_or_lowest =
            |name: &str, len: usize, lowest: usize| -> Result<Vec<usize>, Error> {
                if node.has_param(name) {
                    sizes(node, name, len, lowest)
                } else {
                    Ok(vec![lowest; len])
                }
            };
        let (strides, dilations) =
            (sizes_or_lowest("strides", rank, 1)?, sizes_or_lowest("dilations", rank, 1)?);
        let pads = sizes_or_lowest("pads", 2 * rank, 0)?;
        let axes: Option<Vec<Axis>> = (0..rank)
            .map(|index| {
                let (stride, dilation, pad) = (strides[index], dilations[index], pads[index]);
                let axis = Axis {
                    image: images[index],
                    block: blocks[index],
                    dilation,
                    count: 0,
                    stride,
                    pad,
                };
                axis.with_count(pads[rank + index])
            })
            .collect();
        let axes = axes.ok_or_else(mismatch)?;
        let product = |extent: fn(&Axis) -> usize| {
            axes.iter().try_fold(1usize, |product, axis| product.checked_mul(extent(axis)))
        };
        let (block_len, count) = (product(|axis| axis.block), product(|axis| axis.count));
        match (x.shape(), block_len) {
            (&[_, rows, cols], Some(block_len)) if rows % block_len == 0 && count == Some(cols) => {
                Ok(Self { channels: rows / block_len, axes })
            }
            _ => Err(mismatch()),
        }
    }

    /// Returns the product of an extent over all axes.
    fn product(&self, extent: fn(&Axis) -> usize) -> usize {
        self.axes.iter().map(extent).product()
    }

    /// Adds the blocks of one channel to its image `y`, with the given zero and addition.
    fn add<T: Copy>(&self, x: &[T], y: &mut [T], (zero, sum): (T, impl Fn(T, T) -> T)) {
        y.fill(zero);
        let Some((last, outer)) = self.axes.split_last() else { return };
        let elements = x.chunks_exact(self.product(|axis| axis.count));
        for (element, x) in elements.enumerate() {
            let element = self.index_per_axis(element, |axis| axis.block);
            for (row, x) in x.chunks_exact(last.count).enumerate() {
                let block = self.index_per_axis(row * last.count, |axis| axis.count);
                let mut axes = outer.iter().zip(block).zip(element);
                let image_row = axes.try_fold(0, |row, ((axis, block), element)| {
                    Some(row * axis.image + axis.position(block, element)?)
                });
                let Some(image_row) = image_row else { continue };
                let y = &mut y[image_row * last.image..][..last.image];
                let last_element = element[outer.len()];
                let inside = last.inside(last_element);
                let first = last.position(inside.start, last_element).unwrap_or(0);
                let targets = y[first..].iter_mut().step_by(last.stride);
                for (y, x) in targets.zip(&x[inside]) {
                    *y = sum(*y, *x);
                }
            }
        }
    }

    /// Splits a linear index into an index per axis.
    fn index_per_axis(&self, mut index: usize, extent: fn(&Axis) -> usize) -> Axes {
        let mut indices = [0; MAX_RANK];
        for (axis_index, axis) in indices[..self.axes.len()].iter_mut().zip(&self.axes).rev() {
            *axis_index = index % extent(axis);
            index /= extent(axis);
        }
        indices
    }
}

/// The kernel.
struct AddedBlocks {
    blocks: Blocks,
    run: fn(&Blocks, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for AddedBlocks {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = match cx.input(0)?.dtype() {
            Some(DType::Bool) => run_bools,
            dtype => of_number!(dtype, T => run_numbers::<T>)?,
        };
        Ok(Self { blocks: Blocks::read(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.blocks, io)
    }
}

fn run_numbers<T: Number>(blocks: &Blocks, io: Io<'_>) -> Result<(), ExecError> {
    execute(blocks, io, (T::ZERO, T::add))
}

fn run_bools(blocks: &Blocks, io: Io<'_>) -> Result<(), ExecError> {
    execute(blocks, io, (Bool::from(false), |a: Bool, b: Bool| Bool::from(a.get() || b.get())))
}

fn execute<T: Element>(
    blocks: &Blocks,
    io: Io<'_>,
    arithmetic: (T, impl Fn(T, T) -> T + Copy + Sync),
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let (x, y) = (inputs.get::<T>(0)?, outputs.take::<T>(0)?);
    let image_len = blocks.product(|axis| axis.image);
    let channel_len = blocks.product(|axis| axis.block * axis.count);
    parallel.chunks_mut(y, image_len, |channel, y| {
        blocks.add(&x[channel * channel_len..][..channel_len], y, arithmetic);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, bench, tensor};

    fn bench_with(dims: &[usize], image: &[i64], block: &[i64]) -> Bench {
        let len: usize = dims.iter().product();
        let x: Vec<i32> = (1..=len as i32).collect();
        let run = bench("Col2Im").input(tensor(dims, &x)).constant(tensor(&[image.len()], image));
        run.constant(tensor(&[block.len()], block))
    }

    #[test]
    fn blocks_that_overlap_add_up() {
        let y = bench_with(&[1, 2, 3], &[4], &[2]).one();
        assert_eq!((y.dims(), y.values::<i32>()), (vec![1, 1, 4], vec![1, 6, 8, 6]));
        let y = bench_with(&[1, 2, 2], &[4], &[2]).ints("strides", &[2]).one();
        assert_eq!(y.values::<i32>(), [1, 3, 2, 4]);
        let y = bench_with(&[1, 2, 2], &[4], &[2]).ints("dilations", &[2]).one();
        assert_eq!(y.values::<i32>(), [1, 2, 3, 4]);
        let y = bench_with(&[1, 2, 5], &[4], &[2]).ints("pads", &[1, 1]).one();
        assert_eq!(y.values::<i32>(), [2 + 6, 3 + 7, 4 + 8, 5 + 9]);
    }

    #[test]
    fn overlapping_bools_are_combined_by_or() {
        let x = [0u8, 1, 0, 0, 1, 0].map(udo_api::Bool);
        let run = bench("Col2Im").input(tensor(&[1, 2, 3], &x)).constant(tensor(&[1], &[4i64]));
        let y = run.constant(tensor(&[1], &[2i64])).one();
        assert_eq!(y.values::<udo_api::Bool>(), [0u8, 1, 1, 0].map(udo_api::Bool));
    }

    #[test]
    fn blocks_with_three_axes_are_added_at_their_positions() {
        let (dims, image, block) = ([2, 3 * 8, 4 * 3 * 3], [5i64, 6, 7], [2i64, 2, 2]);
        let run = || {
            let run = bench_with(&dims, &image, &block).ints("strides", &[1, 2, 3]);
            run.ints("dilations", &[2, 1, 3]).ints("pads", &[1, 0, 1, 0, 0, 2])
        };
        let y = run().one();
        assert_eq!(y.dims(), [2, 3, 5, 6, 7]);
        let mut expected = vec![0i32; 2 * 3 * 210];
        for index in 0..dims.iter().product::<usize>() {
            let (channel, element, block) = (index / 288, index / 36 % 8, index % 36);
            let position = [
                (block / 9 + element / 4 * 2).wrapping_sub(1),
                block / 3 % 3 * 2 + element / 2 % 2,
                (block % 3 * 3 + element % 2 * 3).wrapping_sub(1),
            ];
            if position[0] < 5 && position[1] < 6 && position[2] < 7 {
                let pixel = (position[0] * 6 + position[1]) * 7 + position[2];
                expected[channel * 210 + pixel] += index as i32 + 1;
            }
        }
        assert_eq!(y.values::<i32>(), expected);
        assert_eq!(run().threads(3).one().values::<i32>(), expected);
    }

    #[test]
    fn other_counts_of_blocks_are_refused() {
        let error = |dims: &[usize], block: &[i64]| bench_with(dims, &[4], block).error();
        assert_eq!(
            error(&[1, 2, 4], &[2]),
            "input 0 is i32[1,2,4], expected the elements of all blocks [2] of images [4]"
        );
        assert_eq!(
            error(&[1, 3, 3], &[2]),
            "input 0 is i32[1,3,3], expected the elements of all blocks [2] of images [4]"
        );
        assert_eq!(
            error(&[1, 0, 3], &[0]),
            "input 0 is i32[1,0,3], expected the elements of all blocks [0] of images [4]"
        );
        assert_eq!(
            error(&[1, 5, 1], &[5]),
            "input 0 is i32[1,5,1], expected the elements of all blocks [5] of images [4]"
        );
        assert_eq!(
            bench_with(&[1, 2, 3], &[4], &[2]).ints("strides", &[0]).error(),
            "parameter \"strides\" is [0], expected 1 numbers from 1"
        );
    }
}
