//! Pads images and divides them into blocks of pixels. The pixels at position `i` of the blocks of image `n` form
//! image `i * batch + n` of the output. `BatchToSpace` is the inverse.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0.

use udo_api::{
    Bits, Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, Node, OpSchema, Param,
    Port, Shape, TensorDesc, types,
};

use crate::Def;
use crate::family::movement::{
    BatchBlocks, Beyond, Example, Movement, Setting, Walk, Walks, kernel, movement,
};

pub(crate) const DEF: Def = movement::<SpaceToBatch>();

/// The input's images and the block size.
struct SpaceToBatch(BatchBlocks);

impl Movement for SpaceToBatch {
    const SCHEMA: OpSchema = OpSchema::new(
        "SpaceToBatch",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[Param::tensor("block", DType::I64), Param::tensor("pads", DType::I64).optional()],
    );
    const KERNELS: &'static [KernelDef] = &[kernel::<Self>(Core::CPU)];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[1, 1, 2, 4]],
            params: &[("block", Setting::Ints(&[2, 2]))],
            outputs: &[(&[4, 1, 1, 2], &[0, 2, 1, 3, 4, 6, 5, 7])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 1, 1, 3]],
            params: &[("block", Setting::Ints(&[1, 3]))],
            outputs: &[(&[6, 1, 1, 1], &[0, 3, 1, 4, 2, 5])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = Shape::new(&read_blocks(cx, &x)?.1)?;
        cx.set_output(0, x.with_shape(shape))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self(read_blocks(cx, &cx.input(0)?)?.0))
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, y) = (inputs.get_bits::<B>(0)?, outputs.take_bits::<B>(0)?);
        let BatchBlocks { images: [batch, channels, height, width], block, around } = self.0;
        let ([block_height, block_width], [pad_above, _, pad_before, _]) = (block, around);
        let pixel_batch_len = y.len() / (block_height * block_width);
        parallel.chunks_mut(y, pixel_batch_len, |pixel, y| {
            let [pixel_row, pixel_col] = [pixel / block_width, pixel % block_width];
            // Reads every `step`-th position of an axis, from position `first` of the padded axis on.
            let strided = |extent: usize, first: usize, step: usize, pad: usize, len: usize| Walk {
                len,
                start: first.cast_signed() - pad.cast_signed(),
                step: step.cast_signed(),
                beyond: Beyond::Fill,
                ..Walk::whole(extent)
            };
            let [rows, cols] = self.0.blocks_padded();
            let walks = [
                Walk::whole(batch),
                Walk::whole(channels),
                strided(height, pixel_row, block_height, pad_above, rows),
                strided(width, pixel_col, block_width, pad_before, cols),
            ];
            Walks::new(walks.into_iter()).copy_alone(x, y, B::default());
            Ok(())
        })
    }
}

/// Returns the blocks, and the extents of the output.
fn read_blocks(node: &Node<'_>, x: &TensorDesc) -> Result<(BatchBlocks, [usize; 4]), Error> {
    let blocks = BatchBlocks::read(node, "pads", x)?;
    let BatchBlocks { images: [batch, channels, height, width], block, around } = blocks;
    let ([block_height, block_width], [above, below, before, after]) = (block, around);
    let count_blocks = |extent: usize, pads: [usize; 2], block: usize| {
        let padded = extent.checked_add(pads[0])?.checked_add(pads[1])?;
        padded.is_multiple_of(block).then_some(padded / block)
    };
    let rows = count_blocks(height, [above, below], block_height);
    let cols = count_blocks(width, [before, after], block_width);
    let batch = batch.checked_mul(block_height).and_then(|count| count.checked_mul(block_width));
    match (batch, rows, cols) {
        (Some(batch), Some(rows), Some(cols)) => Ok((blocks, [batch, channels, rows, cols])),
        _ => Err(Error::new(format!(
            "input 0 is {x} and pads are {around:?}, expected whole blocks of {block_height} by {block_width}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn padding_is_zero() {
        let run = bench("udo:SpaceToBatch").input(tensor(&[1, 1, 1, 3], &[1i32, 2, 3]));
        let y = run.ints("block", &[2, 2]).ints("pads", &[1, 0, 1, 2]).one();
        assert_eq!(y.dims(), [4, 1, 1, 3]);
        assert_eq!(y.values::<i32>(), [0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 3, 0]);
    }

    #[test]
    fn padded_images_must_divide_into_blocks() {
        let run = |dims: &[usize], block: &[i64], pads: &[i64]| {
            let x = tensor(dims, &vec![0u8; dims.iter().product()]);
            bench("udo:SpaceToBatch").input(x).ints("block", block).ints("pads", pads).error()
        };
        let error = run(&[1, 1, 1, 3], &[1, 2], &[0; 4]);
        let expected = "expected whole blocks of 1 by 2";
        assert_eq!(error, format!("input 0 is u8[1,1,1,3] and pads are [0, 0, 0, 0], {expected}"));
        let error = run(&[1, 1, 3], &[1, 2], &[0; 4]);
        assert_eq!(error, "input 0 is u8[1,1,3], expected batch, channels, height and width");
        let error = run(&[1, 1, 1, 2], &[0, 2], &[0; 4]);
        assert_eq!(error, "parameter \"block\" is [0, 2], expected a height and a width");
        let error = run(&[1, 1, 1, 2], &[1, 2], &[0, -1]);
        assert_eq!(
            error,
            "parameter \"pads\" is [0, -1], expected rows above and below, columns before and after"
        );
    }
}
