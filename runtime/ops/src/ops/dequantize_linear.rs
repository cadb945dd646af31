//! The real numbers that codes stand for.

use udo_api::{
    Code, Core, DType, Encoding, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, Value, input, input_like, types,
};
use udo_simd::rows::{self, Quantized};

use crate::Def;
use crate::scaling::{self, Scaling};

pub(crate) const DEF: Def = Def::of::<DequantizeLinear>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<Dequantize>("DequantizeLinear", Core::CPU).types(&[
        input(0, CODES),
        input(1, types::F32),
        input_like(2, 0),
    ])];

const CODES: udo_api::TypeSet = super::quantize_linear::CODES.or(types::I32);

struct DequantizeLinear;

impl Op for DequantizeLinear {
    const SCHEMA: OpSchema = OpSchema::new(
        "DequantizeLinear",
        &[
            Port::required("x", CODES),
            Port::required("x_scale", types::F32),
            Port::optional("x_zero_point", CODES),
        ],
        &[Port::required("y", types::F32)],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(1)),
            Param::scalar("block_size", DType::I64).default(Value::int(0)),
            Param::scalar("output_dtype", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        scaling::read(cx)?;
        let x = cx.input(0)?;
        let declared = cx.int("output_dtype")?;
        if declared > 1 {
            return Err(Error::new(format!(
                "parameter \"output_dtype\" is {declared}, wanted f32"
            )));
        }
        if cx.has_input(2) && cx.input(2)?.dtype() != x.dtype() {
            let zero = cx.input(2)?;
            return Err(Error::new(format!("the zero point is {zero}, wanted the type of {x}")));
        }
        cx.set_output(0, x.with_dtype(DType::F32))
    }
}

struct Dequantize {
    scaling: Scaling,
    has_zero: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Dequantize {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(0)?.dtype();
        let run = match dtype {
            Some(DType::I32) => execute_wide as fn(&Self, Io<'_>) -> Result<(), ExecError>,
            _ => of_type!(dtype, [U8 = u8, I8 = i8, U16 = u16, I16 = i16], T => execute::<T>)?,
        };
        Ok(Self { scaling: scaling::read(cx)?, has_zero: cx.has_input(2), run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: Code + Quantized>(kernel: &Dequantize, io: Io<'_>) -> Result<(), ExecError> {
    each_run(kernel, io, |x, scale, zero_point: T, y| rows::dequantize(x, scale, zero_point, y))
}

fn execute_wide(kernel: &Dequantize, io: Io<'_>) -> Result<(), ExecError> {
    each_run(kernel, io, |x, scale, zero_point: i32, y| {
        let encoding = Encoding { scale, zero_point };
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = encoding.dequantize(x));
    })
}

/// Calls `run` for each run of codes under one scale.
fn each_run<T: Code + Default>(
    kernel: &Dequantize,
    mut io: Io<'_>,
    run: impl Fn(&[T], f32, T, &mut [f32]),
) -> Result<(), ExecError> {
    let (x, scales) = (io.inputs.get::<T>(0)?, io.inputs.get::<f32>(1)?);
    let zeros = if kernel.has_zero { io.inputs.get::<T>(2)? } else { &[] };
    let y = io.outputs.take::<f32>(0)?;
    scaling::each_run(kernel.scaling, x, y, |at, x, y| {
        run(x, scales[at], zeros.get(at).copied().unwrap_or_default(), y);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn codes_stand_for_numbers() {
        let run = bench("DequantizeLinear").input(tensor(&[3], &[0u8, 128, 255]));
        let y = run.input(tensor(&[], &[0.5f32])).input(tensor(&[], &[128u8])).one();
        assert_near(&y.values::<f32>(), &[-64.0, 0.0, 63.5], 1e-7);
        let run = bench("DequantizeLinear").input(tensor(&[2], &[-3i32, 1 << 20]));
        let y = run.input(tensor(&[], &[2f32])).one();
        assert_near(&y.values::<f32>(), &[-6.0, 2_097_152.0], 1e-7);
    }

    #[test]
    fn scales_may_lie_along_an_axis() {
        let run = bench("DequantizeLinear").input(tensor(&[2, 2], &[1i8, 2, 3, 4]));
        let run = run.input(tensor(&[2], &[1f32, 10.0])).input(tensor(&[2], &[0i8, 1]));
        assert_near(&run.int("axis", 0).one().values::<f32>(), &[1.0, 2.0, 20.0, 30.0], 1e-7);
    }

    #[test]
    fn scales_may_belong_to_blocks() {
        let run = bench("DequantizeLinear").input(tensor(&[1, 5], &[1u8, 2, 3, 4, 5]));
        let run = run.input(tensor(&[1, 3], &[1f32, 10.0, 100.0]));
        let run = run.input(tensor(&[1, 3], &[0u8, 1, 2])).int("block_size", 2);
        assert_near(&run.one().values::<f32>(), &[1.0, 2.0, 20.0, 30.0, 300.0], 1e-7);
    }
}
