//! Pads images and splits their blocks into batches, one per pixel of a block.

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
        let BatchBlocks { images: [n, c, h, w], block: [high, wide], around } = self.0;
        let [above, _, before, _] = around;
        let each = y.len() / (high * wide);
        parallel.chunks_mut(y, each, |at, y| {
            let [i, j] = [at / wide, at % wide];
            let every = |extent: usize, first: usize, step: usize, pad: usize, len: usize| Walk {
                len,
                start: first.cast_signed() - pad.cast_signed(),
                step: step.cast_signed(),
                beyond: Beyond::Fill,
                ..Walk::whole(extent)
            };
            let [rows, cols] = self.0.blocks_padded();
            let walks = [
                Walk::whole(n),
                Walk::whole(c),
                every(h, i, high, above, rows),
                every(w, j, wide, before, cols),
            ];
            Walks::new(walks.into_iter()).copy_alone(x, y, B::default());
            Ok(())
        })
    }
}

/// Returns the blocks, and the extents of the output.
fn read_blocks(node: &Node<'_>, x: &TensorDesc) -> Result<(BatchBlocks, [usize; 4]), Error> {
    let blocks = BatchBlocks::read(node, "pads", x)?;
    let BatchBlocks { images: [n, c, h, w], block: [high, wide], around } = blocks;
    let [above, below, before, behind] = around;
    let whole = |extent: usize, pads: [usize; 2], block: usize| {
        let padded = extent.checked_add(pads[0])?.checked_add(pads[1])?;
        padded.is_multiple_of(block).then_some(padded / block)
    };
    let rows = whole(h, [above, below], high);
    let cols = whole(w, [before, behind], wide);
    let batch = n.checked_mul(high).and_then(|n| n.checked_mul(wide));
    match (batch, rows, cols) {
        (Some(batch), Some(rows), Some(cols)) => Ok((blocks, [batch, c, rows, cols])),
        _ => Err(Error::new(format!(
            "input 0 is {x} and pads are {around:?}, expected whole blocks of {high} by {wide}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn pads_are_zero() {
        let run = bench("udo:SpaceToBatch").input(tensor(&[1, 1, 1, 3], &[1i32, 2, 3]));
        let y = run.ints("block", &[2, 2]).ints("pads", &[1, 0, 1, 2]).one();
        assert_eq!(y.dims(), [4, 1, 1, 3]);
        assert_eq!(y.values::<i32>(), [0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 3, 0]);
    }

    #[test]
    fn blocks_are_whole() {
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
