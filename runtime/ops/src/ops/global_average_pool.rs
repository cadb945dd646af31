//! The mean over all spatial positions of each channel.

use udo_api::{
    Code, Core, Dim, Error, ExecError, Facts, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Port, Quant, QuantMut, Scratch, Shape, TensorDesc, dsp_kernel, input,
    output_like, types,
};
use udo_simd::pooling::{Image, global_average};

use crate::Def;
use crate::number::Real;
use crate::sides::Sides;

pub(crate) const DEF: Def = Def::of::<GlobalAveragePool>(KERNELS);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Pixels>("GlobalAveragePool", Core::CPU)
        .types(&[input(0, types::F32), output_like(0, 0)])
        .flags(Sides::BOTH.flags()),
    KernelDef::new::<Means>("GlobalAveragePool", Core::CPU)
        .types(&[input(0, types::F32.or(types::F64)), output_like(0, 0)]),
    KernelDef::new::<MeansU8>("GlobalAveragePool", Core::DSP_V68)
        .types(&[input(0, types::U8), output_like(0, 0)]),
    KernelDef::new::<MeansI8>("GlobalAveragePool", Core::DSP_V68)
        .types(&[input(0, types::I8), output_like(0, 0)]),
];

const TYPES: udo_api::TypeSet =
    types::F32.or(types::F64).or(types::F16).or(types::U8).or(types::I8);

struct GlobalAveragePool;

impl Op for GlobalAveragePool {
    const SCHEMA: OpSchema = OpSchema::new(
        "GlobalAveragePool",
        &[Port::required("X", TYPES)],
        &[Port::required("Y", TYPES)],
        &[],
    )
    .facts(Facts::SAME_ENCODING.or(Facts::LAYOUT_SENSITIVE));

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        if x.rank() < 3 {
            return Err(Error::new(format!("input 0 is {x}, wanted rank 3 or more")));
        }
        let dims: Vec<Dim> = x
            .full_shape()
            .iter()
            .enumerate()
            .map(|(axis, dim)| if axis < 2 { dim } else { Dim::Fixed(1) })
            .collect();
        cx.set_output(0, x.with_shape(Shape::of_dims(&dims)?))
    }
}

/// Means of images whose channels are last.
struct Pixels {
    pixels: usize,
    channels: usize,
}

impl Kernel for Pixels {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let &[_, height, width, channels] = x.shape() else { return Err(empty(&x)) };
        let pixels = height * width;
        if pixels == 0 { Err(empty(&x)) } else { Ok(Self { pixels, channels }) }
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let Self { pixels, channels } = *self;
        let x = io.inputs.get::<f32>(0)?;
        let y = io.outputs.take::<f32>(0)?;
        let images = x.chunks_exact((pixels * channels).max(1));
        for (data, y) in images.zip(y.chunks_exact_mut(channels.max(1))) {
            global_average(Image { data, stride: channels }, pixels, y);
        }
        Ok(())
    }
}

fn empty(x: &TensorDesc) -> Error {
    Error::new(format!("input 0 is {x}, wanted at least one position"))
}

struct Means {
    plane: usize,
    run: fn(usize, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Means {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let plane = x.shape().iter().skip(2).product();
        if plane == 0 {
            return Err(empty(&x));
        }
        let run = of_type!(x.dtype(), [F32 = f32, F64 = f64], T => execute::<T>)?;
        Ok(Self { plane, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.plane, io)
    }
}

fn execute<T: Real>(plane: usize, mut io: Io<'_>) -> Result<(), ExecError> {
    let x = io.inputs.get::<T>(0)?;
    let y = io.outputs.take::<T>(0)?;
    for (x, y) in x.chunks_exact(plane).zip(y) {
        *y = x.iter().fold(T::ZERO, |sum, &v| sum.add(v)).div(T::of(plane as f64));
    }
    Ok(())
}

dsp_kernel!(MeansU8 = means_impl(out: [u8], in: [u8], params: {}));
dsp_kernel!(MeansI8 = means_impl(out: [i8], in: [i8], params: {}));

#[expect(clippy::unnecessary_wraps, reason = "the signature of DSP functions")]
fn means_impl<T: Code>(
    out: QuantMut<'_, T>,
    input: Quant<'_, T>,
    _vtcm: Scratch<'_>,
) -> Result<(), ExecError> {
    let plane = input.shape.iter().skip(2).product::<usize>().max(1);
    for (x, y) in input.data.chunks_exact(plane).zip(out.data) {
        let sum: i64 = x.iter().map(|&v| i64::from(v.to_i32())).sum();
        let mean = sum as f32 / plane as f32 - input.encoding.zero_point as f32;
        *y = out.encoding.quantize(mean * input.encoding.scale);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn means_are_per_channel() {
        let x = [1.0f32, 2.0, 3.0, 6.0, -1.0, -1.0, 5.0, 5.0];
        let y = bench("GlobalAveragePool").input(tensor(&[1, 2, 2, 2], &x)).one();
        assert_eq!(y.dims(), [1, 2, 1, 1]);
        assert_near(&y.values::<f32>(), &[3.0, 2.0], 1e-6);
    }

    #[test]
    fn codes_average_to_the_nearest_code() {
        let x = tensor(&[1, 2, 1, 4], &[10u8, 11, 11, 11, 0, 0, 255, 255]).encoded(0.5, 10);
        let run = bench("GlobalAveragePool").on(Core::DSP_V68).input(x);
        let y = run.output_encoding(0, 0.5, 10).one();
        assert_eq!(y.values::<u8>(), [11, 128], "127.5 lies at 117.5 above the zero point");
    }
}
