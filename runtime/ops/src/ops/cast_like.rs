//! Converts each element to the type of another tensor, with the kernels of `Cast`.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Error, InferCx, KernelDef, Op, OpSchema, Param, Port, Value, any_input,
    any_output, input, output, types,
};

use super::cast::{Convert, ConvertGpu, ON_GPU};
use crate::Def;

pub(crate) const DEF: Def = Def::new::<CastLike>(KERNELS);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Convert>("CastLike", Core::CPU).ports(&[
        any_input(0).bounded(),
        any_input(1).bounded(),
        any_output(0).bounded(),
    ]),
    KernelDef::gpu::<ConvertGpu>("CastLike").ports(&[
        input(0, ON_GPU),
        any_input(1),
        output(0, ON_GPU),
    ]),
];

struct CastLike;

impl Op for CastLike {
    const SCHEMA: OpSchema = OpSchema::new(
        "CastLike",
        &[Port::required("input", types::ANY), Port::required("target_type", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[
            // `saturate` and `round_mode` concern 8-bit floating-point types, which are not supported.
            Param::scalar("saturate", DType::I64).default(Value::int(1)),
            Param::text("round_mode").default(Value::text("up")),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, target) = (cx.input(0)?, cx.input(1)?);
        cx.set_output(0, target.dtype().map_or(x, |dtype| x.with_dtype(dtype)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn elements_get_the_type_of_another_tensor_of_any_shape() {
        for core in [Core::CPU, Core::GPU] {
            let run = bench("CastLike").on(core);
            let run = run.input(tensor(&[2, 2], &[1.9f32, -1.9, 0.0, 300.0]));
            let y = run.input(tensor(&[3], &[0i16; 3])).one();
            assert_eq!((y.dims(), y.values::<i16>()), (vec![2, 2], vec![1, -1, 0, 300]));
        }
    }
}
