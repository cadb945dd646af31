//! Quantizes to u8 with the range of the input, extended to include 0: `scale = (max - min) / 255` and
//! `zero_point = round(-min / scale)`.

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema, Port,
    Shape, TensorDesc, Workspace, input, output, types,
};
use udo_simd::rows;

use crate::Def;
use crate::family::partition::GRAIN;
use crate::family::quantize::DynamicRange;

pub(crate) const DEF: Def = Def::new::<DynamicQuantizeLinear>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Quantize>("DynamicQuantizeLinear", Core::CPU)
    .ports(&[input(0, types::F32).bounded(), output(0, types::U8).bounded()])];

struct DynamicQuantizeLinear;

impl Op for DynamicQuantizeLinear {
    const SCHEMA: OpSchema = OpSchema::new(
        "DynamicQuantizeLinear",
        &[Port::required("x", types::F32)],
        &[
            Port::required("y", types::U8),
            Port::required("y_scale", types::F32),
            Port::required("y_zero_point", types::U8),
        ],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x.with_dtype(DType::U8))?;
        cx.set_output(1, TensorDesc::new(DType::F32, Shape::SCALAR))?;
        cx.set_output(2, TensorDesc::new(DType::U8, Shape::SCALAR))
    }
}

struct Quantize {
    range: DynamicRange,
    /// Whether the number of elements is known only in the run.
    is_bounded: bool,
}

impl Kernel for Quantize {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        Ok(Self { range: DynamicRange::new(x.len()), is_bounded: !x.full_shape().is_fixed() })
    }

    fn workspace(&self) -> Workspace {
        Workspace::for_elements::<f32>(self.range.scratch_len())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let x = inputs.get::<f32>(0)?;
        if self.is_bounded {
            outputs.set_shape(0, inputs.shape(0)?)?;
        }
        // Minimum and maximum of each part of the input; threads find them concurrently.
        let parts = scratch.take::<f32>(self.range.scratch_len())?;
        let (scale, zero) = DynamicRange::encoding(parallel, x, parts)?;
        outputs.take::<f32>(1)?.fill(scale);
        outputs.take::<u8>(2)?.fill(zero);
        parallel.chunks_mut(&mut outputs.take::<u8>(0)?[..x.len()], GRAIN, |chunk, y| {
            rows::quantize(&x[chunk * GRAIN..][..y.len()], scale, zero, y);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::family::partition::GRAIN;
    use crate::testing::{bench, noise, tensor};

    /// Returns the quantized values, scale and zero point.
    fn quantized(x: &[f32]) -> (Vec<u8>, f32, u8) {
        let run = bench("DynamicQuantizeLinear").threads(3).input(tensor(&[x.len()], x));
        let y = run.outputs(3).all();
        (y[0].values(), y[1].values::<f32>()[0], y[2].values::<u8>()[0])
    }

    #[test]
    fn bounded_inputs_are_read_in_the_run() {
        let x = noise(2 * GRAIN + 5);
        let bounds = [udo_api::Dim::UpTo(4 * GRAIN)];
        let run = bench("DynamicQuantizeLinear").input(tensor(&[x.len()], &x).bounded(&bounds));
        let y = run.outputs(3).all();
        let actual = (y[0].values(), y[1].values::<f32>()[0], y[2].values::<u8>()[0]);
        assert_eq!(actual, quantized(&x));
    }

    #[test]
    fn the_range_is_extended_to_zero() {
        for (x, zero) in [([-1f32, 0.5, 3.0], 64), ([1.0, 2.0, 4.0], 0), ([-4.0, -2.0, -1.0], 255)]
        {
            let (y, scale, actual_zero) = quantized(&x);
            assert_eq!(actual_zero, zero, "{x:?}");
            for (x, y) in x.iter().zip(y) {
                let dequantized = (f32::from(y) - f32::from(actual_zero)) * scale;
                assert!((dequantized - x).abs() <= scale / 2.0 + 1e-6, "{x} becomes {dequantized}");
            }
        }
        assert_eq!(quantized(&[0.0; 3]), (vec![0; 3], 1.0, 0));
        assert_eq!(quantized(&[]), (vec![], 1.0, 0));
    }

    #[test]
    fn extremes_at_any_position_set_the_range() {
        for index in [0, GRAIN - 1, GRAIN, 2 * GRAIN + 4] {
            let mut x = noise(2 * GRAIN + 5);
            x[index] = 100.0;
            let low = x.iter().copied().fold(0.0, f32::min);
            assert_eq!(quantized(&x).1.to_bits(), ((100.0 - low) / 255.0f32).to_bits());
        }
    }
}
