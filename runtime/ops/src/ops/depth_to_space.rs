//! Rearranges channels into blocks of pixels. Channels are ordered as block row, block column, channel (`DCR`), or as
//! channel, block row, block column (`CRD`).
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. `strided` is the GPU kernel, which reads the input with a stride per output axis.

use udo_api::{
    Bits, Core, DType, Error, ExecError, Facts, FinalizeCx, InferCx, Io, KernelDef, OpSchema,
    Param, Port, Value, types,
};

use crate::Def;
use crate::family::gpu::StridedAccess;
use crate::family::movement::{
    Blocks, Example, Movement, Permutation, Setting, Strided, kernel, movement, strided,
};

pub(crate) const DEF: Def = movement::<DepthToSpace>();

/// The permutation of axes that moves the elements, with the channels split into blocks and remaining channels.
struct DepthToSpace(Permutation);

impl Movement for DepthToSpace {
    const SCHEMA: OpSchema = OpSchema::new(
        "DepthToSpace",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("blocksize", DType::I64), Param::text("mode").default(Value::text("DCR"))],
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Self>(Core::CPU),
        strided::<Self>("DepthToSpace"),
        kernel::<Self>(Core::DSP_V68),
    ];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[1, 8, 1, 2]],
            params: &[("blocksize", Setting::Int(2))],
            outputs: &[(&[1, 2, 2, 4], &[0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[1, 8, 1, 2]],
            params: &[("blocksize", Setting::Int(2)), ("mode", Setting::Text("CRD"))],
            outputs: &[(&[1, 2, 2, 4], &[0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = Blocks::read(cx, &x)?.to_space(&x)?;
        cx.set_output(0, x.with_shape(shape))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let Blocks { size, images: [batch, all_channels, height, width] } =
            Blocks::read(cx, &cx.input(0)?)?;
        let channels = all_channels / (size * size).max(1);
        let (shape, perm) = match cx.text("mode")? {
            "DCR" => ([batch, size, size, channels, height, width], [0, 3, 4, 1, 5, 2]),
            "CRD" => ([batch, channels, size, size, height, width], [0, 1, 4, 2, 5, 3]),
            mode => {
                let message = format!("parameter \"mode\" is {mode:?}, expected DCR or CRD");
                return Err(Error::new(message));
            }
        };
        Ok(Self(Permutation { shape: shape.to_vec(), perm: perm.to_vec() }))
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        self.0.execute::<B>(io)
    }
}

impl Strided for DepthToSpace {
    fn access(cx: &FinalizeCx<'_>) -> Result<StridedAccess, Error> {
        Ok(Self::plan(cx)?.0.access())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn channels_must_make_whole_blocks() {
        let run = |dims: &[usize], size: i64| {
            let x = tensor(dims, &vec![0u8; dims.iter().product()]);
            bench("DepthToSpace").input(x).int("blocksize", size)
        };
        let error = run(&[1, 6, 1, 1], 2).error();
        assert_eq!(error, "input 0 is u8[1,6,1,1], expected blocks of 2 by 2 channels");
        let error = run(&[4, 1, 1], 2).error();
        assert_eq!(error, "input 0 is u8[4,1,1], expected batch, channels, height and width");
        let error = run(&[1, 4, 1, 1], 0).error();
        assert_eq!(error, "parameter \"blocksize\" is 0, expected at least 1");
        let error = run(&[1, 4, 1, 1], 2).text("mode", "RGB").error();
        assert_eq!(error, "parameter \"mode\" is \"RGB\", expected DCR or CRD");
    }
}
