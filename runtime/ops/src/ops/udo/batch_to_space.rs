//! Interleaves images of several batches as the pixels of blocks, and crops the result.

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
    together: [usize; 4],
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
        let shape = Shape::new(&together(cx, &x)?.together)?;
        cx.set_output(0, x.with_shape(shape))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        together(cx, &cx.input(0)?)
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, y) = (inputs.get_bits::<B>(0)?, outputs.take_bits::<B>(0)?);
        let BatchBlocks { images: [_, _, h, w], block: [high, wide], around } = self.blocks;
        let ([above, _, before, _], [n, c, rows, cols]) = (around, self.together);
        let grain = row_grain(cols);
        parallel.chunks_mut(y, grain, |chunk, y| {
            for (at, y) in y.chunks_exact_mut(cols).enumerate() {
                let row = chunk * grain / cols + at;
                let (image, row) = (row / rows, row % rows + above);
                for j in 0..wide.min(cols) {
                    // The first output column that column `j` of the blocks provides.
                    let first = (j + before) % wide;
                    let batch = (row % high * wide + first) * n + image / c;
                    let from = ((batch * c + image % c) * h + row / high) * w + (j + before) / wide;
                    let to = y[j..].iter_mut().step_by(wide);
                    to.zip(&x[from..]).for_each(|(y, x)| *y = *x);
                }
            }
            Ok(())
        })
    }
}

fn together(node: &Node<'_>, x: &TensorDesc) -> Result<BatchToSpace, Error> {
    let blocks = BatchBlocks::read(node, "crops", x)?;
    let BatchBlocks { images: [n, c, h, w], block: [high, wide], around } = blocks;
    let [above, below, before, after] = around;
    let long = |extent: usize, block: usize, crops: [usize; 2]| {
        extent.checked_mul(block)?.checked_sub(crops[0])?.checked_sub(crops[1])
    };
    let rows = long(h, high, [above, below]);
    let cols = long(w, wide, [before, after]);
    let area = high.checked_mul(wide).filter(|&area| n.is_multiple_of(area));
    match (area, rows, cols) {
        (Some(area), Some(rows), Some(cols)) => {
            Ok(BatchToSpace { blocks, together: [n / area, c, rows, cols] })
        }
        _ => Err(Error::new(format!(
            "input 0 is {x} and crops are {around:?}, expected batches for blocks of {high} by {wide}, and pixels to crop"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn images_come_back_together() {
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
