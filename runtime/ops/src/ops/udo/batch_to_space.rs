//! Builds images of blocks of pixels, and crops them. The pixels at position `i` of the blocks of image `n` come from
//! image `i * batch + n` of the input, where `batch` is that of the output. `SpaceToBatch` is the inverse.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0.

use udo_api::{
    Bits, Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, Node, OpSchema, Param,
    Port, Shape, TensorDesc, types,
};

use crate::Def;
use crate::family::movement::{BatchBlocks, Example, Movement, Setting, kernel, movement};
use crate::family::partition::row_grain;

pub(crate) const DEF: Def = movement::<BatchToSpace>();

struct BatchToSpace {
    blocks: BatchBlocks,
    /// Batch, channels, height and width of the output.
    output: [usize; 4],
}

impl Movement for BatchToSpace {
    const SCHEMA: OpSchema = OpSchema::new(
        "BatchToSpace",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[Param::tensor("block", DType::I64), Param::tensor("crops", DType::I64).optional()],
    );
    const KERNELS: &'static [KernelDef] = &[kernel::<Self>(Core::CPU)];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[4, 1, 1, 2]],
            params: &[("block", Setting::Ints(&[2, 2]))],
            outputs: &[(&[1, 1, 2, 4], &[0, 2, 1, 3, 4, 6, 5, 7])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[4, 1, 1, 3]],
            params: &[("block", Setting::Ints(&[2, 2])), ("crops", Setting::Ints(&[1, 0, 1, 2]))],
            outputs: &[(&[1, 1, 1, 3], &[9, 7, 10])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[6, 1, 1, 1]],
            params: &[("block", Setting::Ints(&[1, 3]))],
            outputs: &[(&[2, 1, 1, 3], &[0, 2, 4, 1, 3, 5])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = Shape::new(&read(cx, &x)?.output)?;
        cx.set_output(0, x.with_shape(shape))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        read(cx, &cx.input(0)?)
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, y) = (inputs.get_bits::<B>(0)?, outputs.take_bits::<B>(0)?);
        let BatchBlocks { images: [_, _, height, width], block, around } = self.blocks;
        let ([block_height, block_width], [crop_above, _, crop_before, _]) = (block, around);
        let [batch, channels, rows, cols] = self.output;
        let grain = row_grain(cols);
        parallel.chunks_mut(y, grain, |chunk, y| {
            for (index, y) in y.chunks_exact_mut(cols).enumerate() {
                let y_row = chunk * grain / cols + index;
                // `plane` counts the channels of all images; `row` is a row before cropping.
                let (plane, row) = (y_row / rows, y_row % rows + crop_above);
                for first_col in 0..block_width.min(cols) {
                    // Every `block_width`-th column from `first_col` on comes from the same batch.
                    let col = first_col + crop_before;
                    let pixel = row % block_height * block_width + col % block_width;
                    let x_batch = pixel * batch + plane / channels;
                    let x_row =
                        (x_batch * channels + plane % channels) * height + row / block_height;
                    let start = x_row * width + col / block_width;
                    let strided = y[first_col..].iter_mut().step_by(block_width);
                    strided.zip(&x[start..]).for_each(|(y, x)| *y = *x);
                }
            }
            Ok(())
        })
    }
}

/// Reads the parameters and computes the extents of the output.
fn read(node: &Node<'_>, x: &TensorDesc) -> Result<BatchToSpace, Error> {
    let blocks = BatchBlocks::read(node, "crops", x)?;
    let BatchBlocks { images: [batch, channels, height, width], block, around } = blocks;
    let ([block_height, block_width], [above, below, before, after]) = (block, around);
    let cropped = |extent: usize, block: usize, crops: [usize; 2]| {
        extent.checked_mul(block)?.checked_sub(crops[0])?.checked_sub(crops[1])
    };
    let rows = cropped(height, block_height, [above, below]);
    let cols = cropped(width, block_width, [before, after]);
    let area = block_height.checked_mul(block_width).filter(|&area| batch.is_multiple_of(area));
    match (area, rows, cols) {
        (Some(area), Some(rows), Some(cols)) => {
            Ok(BatchToSpace { blocks, output: [batch / area, channels, rows, cols] })
        }
        _ => Err(Error::new(format!(
            "input 0 is {x} and crops are {around:?}, expected batches for blocks of {block_height} by {block_width}, and pixels to crop"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn batch_to_space_inverts_space_to_batch() {
        let dims = [2, 3, 7, 60];
        let x: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
        let (block, around) = ([3, 2], [1i64, 1, 3, 1]);
        let batches = bench("udo:SpaceToBatch").threads(3).input(tensor(&dims, &x));
        let batches = batches.ints("block", &block).ints("pads", &around).one();
        assert_eq!(batches.dims(), [12, 3, 3, 32]);
        let run = bench("udo:BatchToSpace").threads(3).input(batches).ints("block", &block);
        let y = run.ints("crops", &around).one();
        assert_eq!((y.dims(), y.values::<i32>()), (dims.to_vec(), x));
    }

    #[test]
    fn batches_must_fill_whole_blocks() {
        let run = |crops: &[i64]| {
            let x = tensor(&[3, 1, 1, 1], &[1u8; 3]);
            bench("udo:BatchToSpace").input(x).ints("block", &[1, 3]).ints("crops", crops)
        };
        assert_eq!(run(&[0, 0, 1, 0]).one().values::<u8>(), [1, 1]);
        let expected = "expected batches for blocks of 1 by 3, and pixels to crop";
        let error = run(&[0, 0, 2, 2]).error();
        assert_eq!(error, format!("input 0 is u8[3,1,1,1] and crops are [0, 0, 2, 2], {expected}"));
        let run = bench("udo:BatchToSpace").input(tensor(&[3, 1, 1, 1], &[1u8; 3]));
        let error = run.ints("block", &[2, 1]).error();
        let expected = "expected batches for blocks of 2 by 1, and pixels to crop";
        assert_eq!(error, format!("input 0 is u8[3,1,1,1] and crops are [0, 0, 0, 0], {expected}"));
    }
}
