//! `y = saturate(round(x / scale) + zero_point)`, with one scale for the tensor, for each position
//! of an axis, or for each block along it. Ties round to even.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Encoding, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op,
    OpSchema, Param, Port, QuantizedType, TypeSet, Value, input, output, types,
};
use udo_simd::rows;

use crate::Def;
use crate::family::argument::constant_floats;
use crate::family::quantize::{AXIS, BLOCK_SIZE, OUTPUT_DTYPE, Scales, TYPES};
use crate::family::stored;

pub(crate) const DEF: Def = Def::new::<QuantizeLinear>(KERNELS);

const NAME: &str = "QuantizeLinear";
const KERNELS: &[KernelDef] = &[CPU, INTEGERS, stored::quantized(NAME), CPU.on(Core::DSP_V68)];
const CPU: KernelDef = KernelDef::new::<Quantize>(NAME, Core::CPU).ports(&[
    input(0, types::F32).bounded(),
    input(1, types::F32),
    output(0, TYPES).bounded(),
]);

/// Kernel for integer inputs or integer scales.
const INTEGERS: KernelDef = KernelDef::new::<Quantize>(NAME, Core::CPU).ports(&[
    input(0, REAL).bounded(),
    input(1, REAL),
    output(0, TYPES).bounded(),
]);
const REAL: TypeSet = types::F32.or(types::I32);

struct QuantizeLinear;

impl Op for QuantizeLinear {
    const SCHEMA: OpSchema = OpSchema::new(
        NAME,
        &[
            Port::required("x", REAL),
            Port::required("y_scale", REAL),
            Port::optional("y_zero_point", TYPES),
        ],
        &[Port::required("y", TYPES)],
        &[
            AXIS,
            BLOCK_SIZE,
            OUTPUT_DTYPE,
            Param::scalar("precision", DType::I64).default(Value::int(0)),
            // `saturate` concerns 8-bit floating-point types, which are not supported.
            Param::scalar("saturate", DType::I64).default(Value::int(1)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Scales::read(cx)?;
        let dtype = quantized_type(cx)?;
        let y = cx.input(0)?.with_dtype(dtype);
        let encoding = of_quantized!(Some(dtype), T => known_encoding::<T>(cx))??;
        cx.set_output(0, encoding.map_or(y, |encoding| y.with_encoding(encoding)))
    }
}

/// Returns the output type: that of the zero point, else `output_dtype`, else u8.
fn quantized_type(node: &Node<'_>) -> Result<DType, Error> {
    if node.int("precision")? > 1 {
        return Err(Error::new("parameter \"precision\" asks for another type than f32"));
    }
    let declared = node.int("output_dtype")?;
    let zero = if node.has_input(2) { node.input(2)?.dtype() } else { None };
    let dtype = match (zero, declared) {
        (Some(dtype), _) => Some(dtype),
        (None, 0) => Some(DType::U8),
        (None, value) => DType::from_onnx(value),
    };
    dtype.filter(|&dtype| TYPES.has(dtype)).ok_or_else(|| {
        Error::new(format!("parameter \"output_dtype\" is {declared}, expected one of {TYPES}"))
    })
}

/// Returns the output's encoding if its only scale is known before the run.
fn known_encoding<T: QuantizedType>(node: &Node<'_>) -> Result<Option<Encoding>, Error> {
    if node.input(1)?.dtype() == Some(DType::I32) {
        return Ok(None);
    }
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
        let is_integer = cx.input(0)?.dtype() == Some(DType::I32);
        let run = of_type!(
            cx.output(0)?.dtype(),
            [U8 = u8, I8 = i8, U16 = u16, I16 = i16],
            T => if is_integer { run_on_integers::<T> } else { run_on_floats::<T> }
        )?;
        Ok(Self { scales: Scales::read(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.scales, io)
    }
}

fn run_on_floats<T: QuantizedType + rows::Quantized>(
    scales: Scales,
    io: Io<'_>,
) -> Result<(), ExecError> {
    scales.each_run(io, rows::quantize::<T>)
}

fn run_on_integers<T: QuantizedType>(scales: Scales, io: Io<'_>) -> Result<(), ExecError> {
    scales.each_run(io, quantize_integers::<T>)
}

/// Quantizes integers; the quotient is computed in f64, so that it is rounded once.
fn quantize_integers<T: QuantizedType>(x: &[i32], scale: f32, zero: T, y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        let quotient = (f64::from(x) / f64::from(scale)).round_ties_even();
        // Integers of up to 16 bits are exact in f32.
        *y = T::from_f32((quotient + f64::from(zero.to_i32())) as f32);
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
        assert_eq!(y.desc().encoding(), None, "a scale that is not constant gives no encoding");
    }

    /// The expected values are numpy's quotients, like those of ONNX's reference implementation.
    #[test]
    fn integer_inputs_and_scales_are_supported() {
        let x = tensor(&[7], &[0i32, 1, 3, -3, 1000, -1000, i32::MIN]);
        let run = bench("QuantizeLinear").input(x.clone()).constant(tensor(&[], &[2f32]));
        let y = run.constant(tensor(&[], &[128u8])).one();
        assert_eq!(y.values::<u8>(), [128, 128, 130, 126, 255, 0, 0]);
        let run = bench("QuantizeLinear").input(x).constant(tensor(&[], &[2i32]));
        let y = run.int("output_dtype", 5).one();
        assert_eq!(y.values::<i16>(), [0, 0, 2, -2, 500, -500, i16::MIN]);
        // (2^24 + 1) / 2 is just above the midpoint; the nearest f32 is the midpoint itself.
        let x = tensor(&[2, 1], &[(1i32 << 24) + 1, 5]);
        let run = bench("QuantizeLinear").input(x).input(tensor(&[2], &[33_554_432f32, 2.0]));
        assert_eq!(run.int("axis", 0).one().values::<u8>(), [1, 2]);
        let x = tensor(&[2], &[5f32, 7.0]);
        let run = bench("QuantizeLinear").input(x).input(tensor(&[2], &[2i32, 7])).int("axis", 0);
        assert_eq!(run.one().values::<u8>(), [2, 1]);
    }

    #[test]
    fn scales_may_be_per_axis() {
        let x = tensor(&[2, 2, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let run = bench("QuantizeLinear").input(x).input(tensor(&[2], &[1f32, 2.0]));
        let y = run.input(tensor(&[2], &[0i8, 10])).one();
        assert_eq!(y.values::<i8>(), [1, 2, 12, 12, 5, 6, 14, 14]);
    }

    #[test]
    fn scales_may_be_per_block() {
        let x = tensor(&[2, 3, 2], &[4f32; 12]);
        let node = |scales: &[usize]| {
            let values = [1f32, 2.0, 4.0, 0.5, 1.0, 2.0, 4.0, 0.5];
            let run = bench("QuantizeLinear").input(x.clone());
            run.input(tensor(scales, &values)).int("block_size", 2)
        };
        let y = node(&[2, 2, 2]).input(tensor(&[2, 2, 2], &[0i8, 0, 0, 0, 10, 0, 0, 0])).one();
        assert_eq!(y.values::<i8>(), [4, 2, 4, 2, 1, 8, 14, 2, 14, 2, 1, 8]);
        let expected = "one per 2 positions of axis 1 of f32[2,3,2]";
        for run in [node(&[4, 2]), node(&[2, 2, 2]).input(tensor(&[8], &[0i8; 8]))] {
            let error = run.error();
            assert!(error.ends_with(expected), "{error}");
        }
    }
}
