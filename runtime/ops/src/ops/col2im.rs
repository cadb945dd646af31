//! Sums overlapping blocks back into images, the inverse of an unfolding. For bools the sum is a logical or.

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
const KERNELS: &[KernelDef] = &[KernelDef::new::<Added>("Col2Im", Core::CPU).ports(&[
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
        let plan = Blocks::read(cx)?;
        let batch = x.full_shape().dim(0);
        let dims: Vec<Dim> = batch
            .into_iter()
            .chain([Dim::Fixed(plan.channels)])
            .chain(plan.axes.iter().map(|axis| Dim::Fixed(axis.image)))
            .collect();
        cx.set_output(0, x.with_shape(Shape::of_dims(&dims)?))
    }
}

/// The blocks along one axis of an image.
#[derive(Clone, Copy, Debug)]
struct Axis {
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
    /// Computes the number of blocks; `None` if not even one fits.
    fn placed(mut self, end_pad: usize) -> Option<Self> {
        let span = (self.block - 1).checked_mul(self.dilation)?.checked_add(1)?;
        let padded = self.image.checked_add(self.pad)?.checked_add(end_pad)?;
        self.count = padded.checked_sub(span)? / self.stride + 1;
        Some(self)
    }

    /// Returns the position of element `at` of block `block`, or `None` in the padding.
    fn place(&self, block: usize, at: usize) -> Option<usize> {
        let from = block * self.stride + at * self.dilation;
        from.checked_sub(self.pad).filter(|&place| place < self.image)
    }

    /// Returns the blocks whose element `at` is inside the image.
    fn inside(&self, at: usize) -> std::ops::Range<usize> {
        let (first, end) = (self.pad, self.pad + self.image);
        let before = |place: usize| {
            place.saturating_sub(at * self.dilation).div_ceil(self.stride).min(self.count)
        };
        before(first)..before(end)
    }
}

struct Blocks {
    channels: usize,
    axes: Vec<Axis>,
}

impl Blocks {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let x = node.input(0)?;
        let (image, block) = (IMAGE.required(node)?, BLOCK.required(node)?);
        let extents = |ints: &[i64], least: i64| -> Option<Vec<usize>> {
            ints.iter().map(|&n| usize::try_from(n).ok().filter(|_| n >= least)).collect()
        };
        let rank = image.len();
        let misfit = || {
            Error::new(format!(
                "input 0 is {x}, expected the elements of all blocks {block:?} of images {image:?}"
            ))
        };
        let (Some(images), Some(blocks)) = (extents(&image, 0), extents(&block, 1)) else {
            return Err(misfit());
        };
        if blocks.len() != rank || !(1..=MAX_RANK - 2).contains(&rank) {
            return Err(misfit());
        }
        let stated = |name: &str, len: usize, least: usize| -> Result<Vec<usize>, Error> {
            if node.has_param(name) { sizes(node, name, len, least) } else { Ok(vec![least; len]) }
        };
        let (strides, dilations) = (stated("strides", rank, 1)?, stated("dilations", rank, 1)?);
        let pads = stated("pads", 2 * rank, 0)?;
        let axes: Option<Vec<Axis>> = (0..rank)
            .map(|at| {
                let (stride, dilation, pad) = (strides[at], dilations[at], pads[at]);
                let axis =
                    Axis { image: images[at], block: blocks[at], dilation, count: 0, stride, pad };
                axis.placed(pads[rank + at])
            })
            .collect();
        let axes = axes.ok_or_else(misfit)?;
        let product = |extent: fn(&Axis) -> usize| {
            axes.iter().try_fold(1usize, |product, axis| product.checked_mul(extent(axis)))
        };
        let (of_block, count) = (product(|axis| axis.block), product(|axis| axis.count));
        match (x.shape(), of_block) {
            (&[_, rows, cols], Some(of_block)) if rows % of_block == 0 && count == Some(cols) => {
                Ok(Self { channels: rows / of_block, axes })
            }
            _ => Err(misfit()),
        }
    }

    fn count(&self, extent: fn(&Axis) -> usize) -> usize {
        self.axes.iter().map(extent).product()
    }

    /// Adds the blocks of one channel to its plane.
    fn add<T: Copy>(&self, x: &[T], y: &mut [T], (zero, sum): (T, impl Fn(T, T) -> T)) {
        y.fill(zero);
        let Some((last, outer)) = self.axes.split_last() else { return };
        let elements = x.chunks_exact(self.count(|axis| axis.count));
        for (element, x) in elements.enumerate() {
            let at = self.position(element, |axis| axis.block);
            for (row, x) in x.chunks_exact(last.count).enumerate() {
                let block = self.position(row * last.count, |axis| axis.count);
                let mut places = outer.iter().zip(block).zip(at);
                let start = places.try_fold(0, |start, ((axis, block), at)| {
                    Some(start * axis.image + axis.place(block, at)?)
                });
                let Some(start) = start else { continue };
                let y = &mut y[start * last.image..][..last.image];
                let (inside, at) = (last.inside(at[outer.len()]), at[outer.len()]);
                let first = last.place(inside.start, at).unwrap_or(0);
                let places = y[first..].iter_mut().step_by(last.stride);
                for (y, x) in places.zip(&x[inside]) {
                    *y = sum(*y, *x);
                }
            }
        }
    }

    /// Splits the linear index `at` into an index per axis.
    fn position(&self, mut at: usize, extent: fn(&Axis) -> usize) -> Axes {
        let mut position = [0; MAX_RANK];
        for (place, axis) in position[..self.axes.len()].iter_mut().zip(&self.axes).rev() {
            *place = at % extent(axis);
            at /= extent(axis);
        }
        position
    }
}

struct Added {
    blocks: Blocks,
    run: fn(&Blocks, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Added {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = match cx.input(0)?.dtype() {
            Some(DType::Bool) => bools,
            dtype => of_number!(dtype, T => numbers::<T>)?,
        };
        Ok(Self { blocks: Blocks::read(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.blocks, io)
    }
}

fn numbers<T: Number>(blocks: &Blocks, io: Io<'_>) -> Result<(), ExecError> {
    execute(blocks, io, (T::ZERO, T::add))
}

fn bools(blocks: &Blocks, io: Io<'_>) -> Result<(), ExecError> {
    execute(blocks, io, (Bool::from(false), |a: Bool, b: Bool| Bool::from(a.get() || b.get())))
}

fn execute<T: Element>(
    blocks: &Blocks,
    io: Io<'_>,
    by: (T, impl Fn(T, T) -> T + Copy + Sync),
) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let (x, y) = (inputs.get::<T>(0)?, outputs.take::<T>(0)?);
    let plane = blocks.count(|axis| axis.image);
    let of_channel = blocks.count(|axis| axis.block * axis.count);
    parallel.chunks_mut(y, plane, |channel, y| {
        blocks.add(&x[channel * of_channel..][..of_channel], y, by);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, bench, tensor};

    fn blocks(dims: &[usize], image: &[i64], block: &[i64]) -> Bench {
        let len: usize = dims.iter().product();
        let x: Vec<i32> = (1..=len as i32).collect();
        let run = bench("Col2Im").input(tensor(dims, &x)).constant(tensor(&[image.len()], image));
        run.constant(tensor(&[block.len()], block))
    }

    #[test]
    fn blocks_that_overlap_add_up() {
        let y = blocks(&[1, 2, 3], &[4], &[2]).one();
        assert_eq!((y.dims(), y.values::<i32>()), (vec![1, 1, 4], vec![1, 6, 8, 6]));
        let y = blocks(&[1, 2, 2], &[4], &[2]).ints("strides", &[2]).one();
        assert_eq!(y.values::<i32>(), [1, 3, 2, 4]);
        let y = blocks(&[1, 2, 2], &[4], &[2]).ints("dilations", &[2]).one();
        assert_eq!(y.values::<i32>(), [1, 2, 3, 4]);
        let y = blocks(&[1, 2, 5], &[4], &[2]).ints("pads", &[1, 1]).one();
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
    fn blocks_of_any_rank_return_to_their_positions() {
        let (dims, image, block) = ([2, 3 * 8, 4 * 3 * 3], [5i64, 6, 7], [2i64, 2, 2]);
        let run = || {
            let run = blocks(&dims, &image, &block).ints("strides", &[1, 2, 3]);
            run.ints("dilations", &[2, 1, 3]).ints("pads", &[1, 0, 1, 0, 0, 2])
        };
        let y = run().one();
        assert_eq!(y.dims(), [2, 3, 5, 6, 7]);
        let mut expected = vec![0i32; 2 * 3 * 210];
        for at in 0..dims.iter().product::<usize>() {
            let (channel, element, block) = (at / 288, at / 36 % 8, at % 36);
            let place = [
                (block / 9 + element / 4 * 2).wrapping_sub(1),
                block / 3 % 3 * 2 + element / 2 % 2,
                (block % 3 * 3 + element % 2 * 3).wrapping_sub(1),
            ];
            if place[0] < 5 && place[1] < 6 && place[2] < 7 {
                let place = (place[0] * 6 + place[1]) * 7 + place[2];
                expected[channel * 210 + place] += at as i32 + 1;
            }
        }
        assert_eq!(y.values::<i32>(), expected);
        assert_eq!(run().threads(3).one().values::<i32>(), expected);
    }

    #[test]
    fn other_counts_of_blocks_are_refused() {
        let error = |dims: &[usize], block: &[i64]| blocks(dims, &[4], block).error();
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
            blocks(&[1, 2, 3], &[4], &[2]).ints("strides", &[0]).error(),
            "parameter \"strides\" is [0], expected 1 numbers from 1"
        );
    }
}
