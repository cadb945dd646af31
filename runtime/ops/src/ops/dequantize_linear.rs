//! `y = (x - zero_point) * scale`, with one scale for the tensor, for each position of an axis, or for each block along
//! it.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Encoding, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Port, TypeSet, input, input_like, output, types,
};
use udo_simd::rows;

use crate::Def;
use crate::family::quantize::{self, AXIS, BLOCK_SIZE, OUTPUT_DTYPE, Scales};
use crate::family::stored;

pub(crate) const DEF: Def = Def::new::<DequantizeLinear>(KERNELS);

const NAME: &str = "DequantizeLinear";
const KERNELS: &[KernelDef] = &[CPU, stored::dequantized(NAME), CPU.on(Core::DSP_V68)];
// Scales are inputs of the node, independent of the tensor's own encoding.
const CPU: KernelDef = KernelDef::new::<Dequantize>(NAME, Core::CPU).ports(&[
    input(0, TYPES).per_axis().bounded(),
    input(1, types::F32),
    input_like(2, 0),
    output(0, types::F32).bounded(),
]);

const TYPES: TypeSet = quantize::TYPES.or(types::I32);

struct DequantizeLinear;

impl Op for DequantizeLinear {
    const SCHEMA: OpSchema = OpSchema::new(
        NAME,
        &[
            Port::required("x", TYPES),
            Port::required("x_scale", types::F32),
            Port::optional("x_zero_point", TYPES),
        ],
        &[Port::required("y", types::F32)],
        &[AXIS, BLOCK_SIZE, OUTPUT_DTYPE],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Scales::read(cx)?;
        let x = cx.input(0)?;
        let dtype = match cx.int("output_dtype")? {
            // 0 selects the type of the scale.
            0 => cx.input(1)?.dtype(),
            declared => DType::from_onnx(declared),
        };
        let dtype = dtype.filter(|&dtype| dtype.is_float() && dtype != DType::F64);
        let dtype = dtype.ok_or_else(|| {
            let declared = cx.int("output_dtype").unwrap_or(0);
            Error::new(format!(
                "parameter \"output_dtype\" is {declared}, expected f32, f16 or bf16"
            ))
        })?;
        if cx.has_input(2) && cx.input(2)?.dtype() != x.dtype() {
            let zero = cx.input(2)?;
            return Err(Error::new(format!("the zero point is {zero}, expected the type of {x}")));
        }
        cx.set_output(0, x.with_dtype(dtype))
    }
}

struct Dequantize {
    scales: Scales,
    run: fn(Scales, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Dequantize {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = match cx.input(0)?.dtype() {
            Some(DType::I32) => |scales: Scales, io: Io<'_>| scales.each_run(io, dequantize_i32),
            dtype => of_type!(
                dtype,
                [U8 = u8, I8 = i8, U16 = u16, I16 = i16],
                T => |scales: Scales, io: Io<'_>| scales.each_run(io, rows::dequantize::<T>)
            )?,
        };
        Ok(Self { scales: Scales::read(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.scales, io)
    }
}

/// Dequantizes `i32` values, which have no vector version.
fn dequantize_i32(x: &[i32], scale: f32, zero_point: i32, y: &mut [f32]) {
    let encoding = Encoding { scale, zero_point };
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = encoding.dequantize(x));
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn values_are_dequantized() {
        let run = bench("DequantizeLinear").input(tensor(&[3], &[0u8, 128, 255]));
        let y = run.input(tensor(&[], &[0.5f32])).input(tensor(&[], &[128u8])).one();
        assert_near(&y.values::<f32>(), &[-64.0, 0.0, 63.5], 1e-7);
        let run = bench("DequantizeLinear").input(tensor(&[2], &[-3i32, 1 << 20]));
        let y = run.input(tensor(&[], &[2f32])).one();
        assert_near(&y.values::<f32>(), &[-6.0, 2_097_152.0], 1e-7);
    }

    #[test]
    fn bounded_inputs_are_read_in_the_run() {
        let x = tensor(&[2], &[1i8, -2]).bounded(&[udo_api::Dim::UpTo(7)]);
        let y = bench("DequantizeLinear").input(x).input(tensor(&[], &[0.5f32])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=7]");
        assert_near(&y.values::<f32>(), &[0.5, -1.0], 1e-7);
    }

    #[test]
    fn scales_may_be_per_axis() {
        let run = bench("DequantizeLinear").input(tensor(&[2, 2], &[1i8, 2, 3, 4]));
        let run = run.input(tensor(&[2], &[1f32, 10.0])).input(tensor(&[2], &[0i8, 1]));
        assert_near(&run.int("axis", 0).one().values::<f32>(), &[1.0, 2.0, 20.0, 30.0], 1e-7);
    }

    #[test]
    fn scales_may_be_per_block() {
        let run = bench("DequantizeLinear").input(tensor(&[1, 5], &[1u8, 2, 3, 4, 5]));
        let run = run.input(tensor(&[1, 3], &[1f32, 10.0, 100.0]));
        let run = run.input(tensor(&[1, 3], &[0u8, 1, 2])).int("block_size", 2);
        assert_near(&run.one().values::<f32>(), &[1.0, 2.0, 20.0, 30.0, 300.0], 1e-7);
    }
}
