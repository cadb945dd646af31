//! Negative elements become 0.

use udo_api::{
    Code, Core, Error, ExecError, Facts, InferCx, KernelDef, Op, OpDef, OpSchema, Port, Quant,
    QuantMut, Scratch, dsp_kernel, input, output_like, types,
};

use crate::number::Number;
use crate::{gpu, map};

pub(crate) const OP: OpDef = OpDef::of::<Relu>();
pub(crate) const KERNELS: &[KernelDef] = &[
    map::cpu::<Relu, f32>("Relu"),
    map::cpu::<Relu, f64>("Relu"),
    map::cpu::<Relu, i8>("Relu"),
    map::cpu::<Relu, i16>("Relu"),
    map::cpu::<Relu, i32>("Relu"),
    map::cpu::<Relu, i64>("Relu"),
    gpu::map::<Relu>("Relu"),
    KernelDef::new::<ReluU8>("Relu", Core::DSP_V68)
        .types(&[input(0, types::U8), output_like(0, 0)]),
    KernelDef::new::<ReluI8>("Relu", Core::DSP_V68)
        .types(&[input(0, types::I8), output_like(0, 0)]),
];

// Unsigned codes are for the DSP alone.
const TYPES: udo_api::TypeSet =
    types::F32.or(types::F64).or(types::F16).or(types::SIGNED).or(types::U8);

struct Relu;

impl Op for Relu {
    const SCHEMA: OpSchema =
        OpSchema::new("Relu", &[Port::required("X", TYPES)], &[Port::required("Y", TYPES)], &[])
            .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        map::infer(cx)
    }
}

impl<T: Number> map::MapFn<T> for Relu {
    #[inline]
    fn of(x: T) -> T {
        if x < T::ZERO { T::ZERO } else { x }
    }
}

impl gpu::MapProgram for Relu {
    const NAME: &'static str = "udo_relu";
    const SOURCE: &'static str = include_str!("../kernels/relu.cl");

    fn of(x: f32) -> f32 {
        <Self as map::MapFn<f32>>::of(x)
    }
}

dsp_kernel!(ReluU8 = relu_impl(out: [u8], in: [u8], params: {}));
dsp_kernel!(ReluI8 = relu_impl(out: [i8], in: [i8], params: {}));

#[expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "the signature of DSP functions"
)]
fn relu_impl<T: Code>(
    out: QuantMut<'_, T>,
    input: Quant<'_, T>,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    for (y, &x) in out.data.iter_mut().zip(input.data) {
        *y = out.encoding.quantize(input.encoding.dequantize(x).max(0.0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn negative_elements_become_zero() {
        for core in [Core::CPU, Core::GPU] {
            let y = bench("Relu").on(core).input(tensor(&[3], &[-1f32, 2.0, f32::NAN])).one();
            let y = y.values::<f32>();
            assert_eq!(y[..2], [0.0, 2.0], "{core}");
            assert!(y[2].is_nan(), "{core}");
        }
        assert_eq!(bench("Relu").input(tensor(&[2], &[-5i16, 5])).one().values::<i16>(), [0, 5]);
    }

    #[test]
    fn bounded_shapes_are_those_of_the_run() {
        let x = tensor(&[2], &[-1f32, 1.0]).bounded(&[Dim::UpTo(4)]);
        let y = bench("Relu").input(x).one();
        assert_eq!((y.dims(), y.values::<f32>()), (vec![2], vec![0.0, 1.0]));
    }

    #[test]
    fn codes_below_the_zero_point_become_it() {
        let x = tensor(&[3], &[5u8, 10, 30]).encoded(0.5, 10);
        let run = bench("Relu").on(Core::DSP_V68).input(x).output_encoding(0, 0.25, 0);
        assert_eq!(run.one().values::<u8>(), [0, 0, 40]);
        let x = tensor(&[2], &[-5i8, 30]).encoded(0.5, 10);
        let run = bench("Relu").on(Core::DSP_V68).input(x).output_encoding(0, 0.5, 10);
        assert_eq!(run.one().values::<i8>(), [10, 30]);
    }
}
