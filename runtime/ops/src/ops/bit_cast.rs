//! Reinterprets the bits of each element as another type of the same size.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Error, InferCx, KernelDef, Op, OpSchema, Param, Port, any_input, any_output, types,
};

use crate::Def;
use crate::family::shape::Copied;

pub(crate) const DEF: Def = Def::new::<BitCast>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Copied>("BitCast", Core::CPU)
    .ports(&[any_input(0).bounded(), any_output(0).bounded()])];

struct BitCast;

impl Op for BitCast {
    const SCHEMA: OpSchema = OpSchema::new(
        "BitCast",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("to", DType::I64)],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, to) = (cx.input(0)?, cx.int("to")?);
        let bytes = x.dtype().map(DType::size_bytes);
        let dtype = DType::from_onnx(to).filter(|dtype| Some(dtype.size_bytes()) == bytes);
        let dtype = dtype.ok_or_else(|| {
            Error::new(format!(
                "parameter \"to\" is {to}, expected a type with as many bits as {x}"
            ))
        })?;
        cx.set_output(0, x.with_dtype(dtype))
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use crate::testing::{bench, tensor};

    // Types in the parameter `to`, as ONNX numbers them.
    const DOUBLE: i64 = 11;
    const I32: i64 = 6;
    const U32: i64 = 12;
    const U64: i64 = 13;
    const UNKNOWN: i64 = 99;

    #[test]
    fn bits_are_unchanged() {
        let x = [1.0f32, -2.5, f32::NAN, -0.0];
        let y = bench("BitCast").input(tensor(&[2, 2], &x)).int("to", I32).one();
        assert_eq!(
            (y.values::<i32>(), y.dims()),
            (x.map(|x| x.to_bits() as i32).to_vec(), vec![2, 2])
        );
        let y = bench("BitCast").input(tensor(&[2], &[-1i64, 7])).int("to", U64).one();
        assert_eq!(y.values::<u64>(), [u64::MAX, 7]);
    }

    #[test]
    fn types_of_another_width_are_refused() {
        for to in [DOUBLE, UNKNOWN] {
            let run = bench("BitCast").input(tensor(&[1], &[1f32])).int("to", to);
            let expected = "expected a type with as many bits as f32[1]";
            assert_eq!(run.error(), format!("parameter \"to\" is {to}, {expected}"));
        }
    }

    #[test]
    fn bounds_are_preserved() {
        let x = tensor(&[1], &[7i32]).bounded(&[Dim::UpTo(3)]);
        let y = bench("BitCast").input(x).int("to", U32).one();
        assert_eq!((y.dims(), y.values::<u32>()), (vec![1], vec![7]));
    }
}
