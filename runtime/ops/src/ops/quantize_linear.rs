//! Real numbers as the nearest codes.

use udo_api::{
    Code, Core, DType, Encoding, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    Node, Op, OpSchema, Param, Port, TensorDesc, Value, input, types,
};
use udo_simd::rows::{self, Quantized};

use super::cast::of_onnx;
use crate::Def;
use crate::scaling::{self, Scaling};

pub(crate) const DEF: Def = Def::of::<QuantizeLinear>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Quantize>("QuantizeLinear", Core::CPU)
    .types(&[input(0, types::F32), input(1, types::F32)])];

/// The types of codes that the operator makes.
pub(super) const CODES: udo_api::TypeSet = types::U8.or(types::I8).or(types::U16).or(types::I16);

struct QuantizeLinear;

impl Op for QuantizeLinear {
    const SCHEMA: OpSchema = OpSchema::new(
        "QuantizeLinear",
        &[
            Port::required("x", types::F32),
            Port::required("y_scale", types::F32),
            Port::optional("y_zero_point", CODES),
        ],
        &[Port::required("y", CODES)],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(1)),
            Param::scalar("block_size", DType::I64).default(Value::int(0)),
            Param::scalar("output_dtype", DType::I64).default(Value::int(0)),
            Param::scalar("precision", DType::I64).default(Value::int(0)),
            // This speaks of 8-bit floating-point types only.
            Param::scalar("saturate", DType::I64).default(Value::int(1)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        scaling::read(cx)?;
        let dtype = code_type(cx)?;
        let y = cx.input(0)?.with_dtype(dtype);
        let encoding = of_code!(Some(dtype), T => known_encoding::<T>(cx))??;
        cx.set_output(0, encoding.map_or(y, |e| y.with_encoding(e)))
    }
}

fn code_type(node: &Node<'_>) -> Result<DType, Error> {
    if node.int("precision")? > 1 {
        return Err(Error::new("parameter \"precision\" asks for another type than f32"));
    }
    let declared = node.int("output_dtype")?;
    let zero = if node.has_input(2) { node.input(2)?.dtype() } else { None };
    let found = match (zero, declared) {
        (Some(dtype), _) => Some(dtype),
        (None, 0) => Some(DType::U8),
        (None, code) => of_onnx(code),
    };
    found.filter(|&t| CODES.has(t)).ok_or_else(|| {
        Error::new(format!("parameter \"output_dtype\" is {declared}, wanted one of {CODES}"))
    })
}

/// The encoding of the codes, where one scale is known before the run.
fn known_encoding<T: Code>(node: &Node<'_>) -> Result<Option<Encoding>, Error> {
    let Some(&[scale]) = node.constant::<f32>(1)? else { return Ok(None) };
    if !node.has_input(2) {
        return Ok(Some(Encoding { scale, zero_point: 0 }));
    }
    let Some(&[zero]) = node.constant::<T>(2)? else { return Ok(None) };
    Ok(Some(Encoding { scale, zero_point: zero.to_i32() }))
}

struct Quantize {
    scaling: Scaling,
    has_zero: bool,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Quantize {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let found: TensorDesc = cx.output(0)?;
        let run = of_type!(
            found.dtype(),
            [U8 = u8, I8 = i8, U16 = u16, I16 = i16],
            T => execute::<T>
        )?;
        Ok(Self { scaling: scaling::read(cx)?, has_zero: cx.has_input(2), run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

fn execute<T: Code + Quantized>(kernel: &Quantize, mut io: Io<'_>) -> Result<(), ExecError> {
    let (x, scales) = (io.inputs.get::<f32>(0)?, io.inputs.get::<f32>(1)?);
    let zeros = if kernel.has_zero { io.inputs.get::<T>(2)? } else { &[] };
    let y = io.outputs.take::<T>(0)?;
    scaling::each_run(kernel.scaling, x, y, |at, x, y| {
        rows::quantize(x, scales[at], zeros.get(at).copied().unwrap_or_default(), y);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn codes_round_half_to_even_and_saturate() {
        let x = tensor(&[6], &[0f32, 1.0, 3.0, -3.0, 1000.0, -1000.0]);
        let run = bench("QuantizeLinear").input(x.clone()).constant(tensor(&[], &[2f32]));
        let y = run.constant(tensor(&[], &[128u8])).one();
        assert_eq!(y.values::<u8>(), [128, 128, 130, 126, 255, 0]);
        assert_eq!(y.desc().encoding(), Some(Encoding { scale: 2.0, zero_point: 128 }));
        let run = bench("QuantizeLinear").input(x).input(tensor(&[], &[2f32]));
        let y = run.int("output_dtype", 5).one();
        assert_eq!(y.values::<i16>(), [0, 0, 2, -2, 500, -500]);
        assert_eq!(y.desc().encoding(), None, "the scale comes with the run");
    }

    #[test]
    fn scales_may_lie_along_an_axis() {
        let x = tensor(&[2, 2, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let run = bench("QuantizeLinear").input(x).input(tensor(&[2], &[1f32, 2.0]));
        let y = run.input(tensor(&[2], &[0i8, 10])).one();
        assert_eq!(y.values::<i8>(), [1, 2, 12, 12, 5, 6, 14, 14]);
    }

    #[test]
    fn scales_may_belong_to_blocks() {
        let x = tensor(&[2, 3, 2], &[4f32; 12]);
        let node = |scales: &[usize]| {
            let values = [1f32, 2.0, 4.0, 0.5, 1.0, 2.0, 4.0, 0.5];
            let run = bench("QuantizeLinear").input(x.clone());
            run.input(tensor(scales, &values)).int("block_size", 2)
        };
        let y = node(&[2, 2, 2]).input(tensor(&[2, 2, 2], &[0i8, 0, 0, 0, 10, 0, 0, 0])).one();
        assert_eq!(y.values::<i8>(), [4, 2, 4, 2, 1, 8, 14, 2, 14, 2, 1, 8]);
        let wanted = "one per 2 positions of axis 1 of f32[2,3,2]";
        for run in [node(&[4, 2]), node(&[2, 2, 2]).input(tensor(&[8], &[0i8; 8]))] {
            let error = run.error();
            assert!(error.ends_with(wanted), "{error}");
        }
    }
}
