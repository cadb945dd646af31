//! Real numbers as the nearest quantized values.

use udo_api::{
    Core, DType, Encoding, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Param, Port, QuantizedType, Value, input, output, types,
};
use udo_simd::rows;

use crate::Def;
use crate::family::argument::constant_floats;
use crate::family::quantize::{AXIS, BLOCK_SIZE, OUTPUT_DTYPE, Scales, TYPES};
use crate::family::stored;

pub(crate) const DEF: Def = Def::of::<QuantizeLinear>(KERNELS);

const NAME: &str = "QuantizeLinear";
const KERNELS: &[KernelDef] = &[CPU, stored::quantized(NAME), CPU.on(Core::DSP_V68)];
const CPU: KernelDef = KernelDef::new::<Quantize>(NAME, Core::CPU).ports(&[
    input(0, types::F32).bounded(),
    input(1, types::F32),
    output(0, TYPES).bounded(),
]);

struct QuantizeLinear;

impl Op for QuantizeLinear {
    const SCHEMA: OpSchema = OpSchema::new(
        NAME,
        &[
            Port::required("x", types::F32),
            Port::required("y_scale", types::F32),
            Port::optional("y_zero_point", TYPES),
        ],
        &[Port::required("y", TYPES)],
        &[
            AXIS,
            BLOCK_SIZE,
            OUTPUT_DTYPE,
            Param::scalar("precision", DType::I64).default(Value::int(0)),
            // This speaks of 8-bit floating-point types only.
            Param::scalar("saturate", DType::I64).default(Value::int(1)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Scales::read(cx)?;
        let dtype = quantized_type(cx)?;
        let y = cx.input(0)?.with_dtype(dtype);
        let encoding = of_quantized!(Some(dtype), T => known_encoding::<T>(cx))??;
        cx.set_output(0, encoding.map_or(y, |e| y.with_encoding(e)))
    }
}

fn quantized_type(node: &Node<'_>) -> Result<DType, Error> {
    if node.int("precision")? > 1 {
        return Err(Error::new("parameter \"precision\" asks for another type than f32"));
    }
    let declared = node.int("output_dtype")?;
    let zero = if node.has_input(2) { node.input(2)?.dtype() } else { None };
    let found = match (zero, declared) {
        (Some(dtype), _) => Some(dtype),
        (None, 0) => Some(DType::U8),
        (None, value) => DType::from_onnx(value),
    };
    found.filter(|&t| TYPES.has(t)).ok_or_else(|| {
        Error::new(format!("parameter \"output_dtype\" is {declared}, wanted one of {TYPES}"))
    })
}

/// The encoding of the values, where one scale is known before the run.
fn known_encoding<T: QuantizedType>(node: &Node<'_>) -> Result<Option<Encoding>, Error> {
    let scales = constant_floats(node, 1)?;
    let Some(&[scale]) = scales.as_deref() else { return Ok(None) };
    if !node.has_input(2) {
        return Ok(Some(Encoding { scale, zero_point: 0 }));
    }
    let Some(&[zero]) = node.constant::<T>(2)? else { return Ok(None) };
    Ok(Some(Encoding { scale, zero_point: zero.to_i32() }))
}

struct Quantize {
    scales: Scales,
    run: fn(Scales, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Quantize {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_type!(
            cx.output(0)?.dtype(),
            [U8 = u8, I8 = i8, U16 = u16, I16 = i16],
            T => |scales: Scales, io: Io<'_>| scales.each_run(io, rows::quantize::<T>)
        )?;
        Ok(Self { scales: Scales::read(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.scales, io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn values_round_half_to_even_and_saturate() {
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
