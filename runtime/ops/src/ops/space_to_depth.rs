//! Rearranges blocks of pixels into channels, ordered as block row, block column, channel.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. `strided` is the GPU kernel, which reads the input with a stride per output axis.

use udo_api::{
    Bits, Core, DType, Error, ExecError, Facts, FinalizeCx, InferCx, Io, KernelDef, OpSchema,
    Param, Port, types,
};

use crate::Def;
use crate::family::gpu::StridedAccess;
use crate::family::movement::{
    Blocks, Example, Movement, Permutation, Setting, Strided, kernel, movement, strided,
};

pub(crate) const DEF: Def = movement::<SpaceToDepth>();

/// The permutation of axes that moves the elements, with each spatial axis split into blocks and their pixels.
struct SpaceToDepth(Permutation);

impl Movement for SpaceToDepth {
    const SCHEMA: OpSchema = OpSchema::new(
        "SpaceToDepth",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("blocksize", DType::I64)],
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Self>(Core::CPU),
        strided::<Self>("SpaceToDepth"),
        kernel::<Self>(Core::DSP_V68),
    ];
    const EXAMPLES: &'static [Example] = &[Example {
        inputs: &[&[1, 2, 2, 4]],
        params: &[("blocksize", Setting::Int(2))],
        outputs: &[(&[1, 8, 1, 2], &[0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15])],
        ..Example::NONE
    }];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = Blocks::read(cx, &x)?.to_depth(&x)?;
        cx.set_output(0, x.with_shape(shape))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let Blocks { size, images: [batch, channels, height, width] } =
            Blocks::read(cx, &cx.input(0)?)?;
        let shape = vec![batch, channels, height / size, size, width / size, size];
        Ok(Self(Permutation { shape, perm: vec![0, 3, 5, 1, 2, 4] }))
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        self.0.execute::<B>(io)
    }
}

impl Strided for SpaceToDepth {
    fn access(cx: &FinalizeCx<'_>) -> Result<StridedAccess, Error> {
        Ok(Self::plan(cx)?.0.access())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn pixels_must_make_whole_blocks() {
        let run = bench("SpaceToDepth").input(tensor(&[1, 1, 2, 3], &[0u8; 6]));
        let error = run.int("blocksize", 2).error();
        assert_eq!(error, "input 0 is u8[1,1,2,3], expected blocks of 2 by 2 pixels");
    }
}
