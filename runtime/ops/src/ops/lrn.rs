//! Local response normalization: `x / (bias + alpha / size * s)^beta`, with `s` the sum of squares over `size`
//! neighbouring channels (Krizhevsky, Sutskever and Hinton, 2012, section 3.3).

use std::ops::Range;

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, InferCx, Io, Kernel, KernelDef,
    KernelInfo, Launch, Node, Op, OpSchema, Param, Port, TypeSet, Value, WorkItemFn, input,
    output_like, types,
};
use udo_simd::rows::{Lrn, lrn};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::elementwise::infer_like_input;
use crate::family::gpu::{check_lens, ints};
use crate::family::layout::LayoutPorts;
use crate::family::partition::row_grain;

pub(crate) const DEF: Def = Def::new::<Normalization>(KERNELS);

const TYPES: TypeSet = types::F32.or(types::F64);
const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Pixels>("LRN", Core::CPU)
        .ports(&LayoutPorts::BOTH.apply([input(0, types::F32), output_like(0, 0)])),
    KernelDef::new::<Planes>("LRN", Core::CPU).ports(&[input(0, types::F32), output_like(0, 0)]),
    KernelDef::new::<Doubles>("LRN", Core::CPU).ports(&[input(0, types::F64), output_like(0, 0)]),
    KernelDef::gpu::<OnGpu>("LRN").ports(&[input(0, types::F32), output_like(0, 0)]),
];

struct Normalization;

impl Op for Normalization {
    const SCHEMA: OpSchema = OpSchema::new(
        "LRN",
        &[Port::required("X", TYPES)],
        &[Port::required("Y", TYPES)],
        &[
            Param::scalar("alpha", DType::F32).default(Value::float(1e-4)),
            Param::scalar("beta", DType::F32).default(Value::float(0.75)),
            Param::scalar("bias", DType::F32).default(Value::float(1.0)),
            Param::scalar("size", DType::I64),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        if x.rank() < 2 {
            return Err(Error::new(format!("input 0 is {x}, expected rank 2 or more")));
        }
        infer_like_input(cx)
    }
}

/// Reads the parameters.
fn read(node: &Node<'_>) -> Result<Lrn, Error> {
    let size = node.int("size")?;
    let invalid = || Error::new(format!("parameter \"size\" is {size}, expected 1 or more"));
    let size = usize::try_from(size).ok().filter(|&size| size > 0).ok_or_else(invalid)?;
    let [alpha, beta, bias] =
        [node.float32("alpha")?, node.float32("beta")?, node.float32("bias")?];
    Ok(Lrn { size, alpha, beta, bias })
}

/// Kernel for channels on the last axis.
struct Pixels {
    lrn: Lrn,
    channels: usize,
}

impl Kernel for Pixels {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let channels = cx.input(0)?.shape().last().copied().unwrap_or(1).max(1);
        Ok(Self { lrn: read(cx)?, channels })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        let grain = row_grain(self.channels);
        parallel.chunks_mut(y, grain, |chunk, y| {
            lrn(&x[chunk * grain..][..y.len()], self.channels, &self.lrn, y);
            Ok(())
        })
    }
}

/// Kernel for channels on the second axis.
struct Planes {
    lrn: Lrn,
    split: AxisSplit,
}

impl Kernel for Planes {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { lrn: read(cx)?, split: AxisSplit::at(cx.input(0)?.shape(), 1) })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        let AxisSplit { len, inner, .. } = self.split;
        let image_len = len * inner;
        let grain = row_grain(image_len);
        parallel.chunks_mut(y, grain, |chunk, y| {
            let images =
                x[chunk * grain..].chunks_exact(image_len).zip(y.chunks_exact_mut(image_len));
            images.for_each(|(x, y)| self.normalize_image(x, y));
            Ok(())
        })
    }
}

impl Planes {
    fn normalize_image(&self, x: &[f32], y: &mut [f32]) {
        let AxisSplit { len, inner, .. } = self.split;
        let Lrn { size, alpha, beta, bias } = self.lrn;
        for (index, y) in y.iter_mut().enumerate() {
            let (channel, pixel) = (index / inner, index % inner);
            let window = window(size, channel, len);
            let squares: f32 = window.map(|channel| x[channel * inner + pixel].powi(2)).sum();
            *y = x[index] / (bias + alpha / size as f32 * squares).powf(beta);
        }
    }
}

/// The f64 kernel for channels on the second axis.
struct Doubles(Planes);

impl Kernel for Doubles {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Planes::finalize(cx).map(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, y) = (inputs.get::<f64>(0)?, outputs.take::<f64>(0)?);
        let AxisSplit { len, inner, .. } = self.0.split;
        let Lrn { size, alpha, beta, bias } = self.0.lrn;
        let [alpha, beta, bias] = [alpha, beta, bias].map(f64::from);
        let alpha = alpha / size as f64;
        let image_len = len * inner;
        let grain = row_grain(image_len);
        parallel.chunks_mut(y, grain, |chunk, y| {
            for (index, y) in (chunk * grain..).zip(y) {
                let x_image = &x[index / image_len * image_len..][..image_len];
                let (channel, pixel) = (index % image_len / inner, index % inner);
                let window = window(size, channel, len);
                let squares: f64 =
                    window.map(|channel| x_image[channel * inner + pixel].powi(2)).sum();
                *y = x[index] / (bias + alpha * squares).powf(beta);
            }
            Ok(())
        })
    }
}

/// Returns the neighbouring channels of `channel` among `len`.
fn window(size: usize, channel: usize, len: usize) -> Range<usize> {
    let (before, after) = ((size - 1) / 2, size / 2);
    channel.saturating_sub(before)..len.min(channel.saturating_add(after).saturating_add(1))
}

/// GPU kernel: one element per work item.
struct OnGpu(Planes);

const SOURCE: &str = "#pragma OPENCL FP_CONTRACT OFF
__kernel void udo_lrn(__global const float *x, __global float *y, const int channels, const int inner,
    const int size, const float factor, const float beta, const float bias) {
    const int i = get_global_id(0), channel = i / inner % channels, first = i - channel * inner;
    const int from = max(channel - (size - 1) / 2, 0), end = min(channel + size / 2 + 1, channels);
    float squares = 0.0f;
    for (int c = from; c < end; ++c) squares += x[first + c * inner] * x[first + c * inner];
    y[i] = x[i] / pow(bias + factor * squares, beta);
}
";

impl GpuKernel for OnGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|Self(kernel), item, buffers| {
        let ([i, ..], AxisSplit { len, inner, .. }) = (item.global_id, kernel.split);
        let Lrn { size, alpha, beta, bias } = kernel.lrn;
        let channel = i / inner % len;
        // The element of channel 0 at the same pixel.
        let first = i - channel * inner;
        let squares = window(size, channel, len).try_fold(0.0, |sum, channel| {
            let x = buffers.load(0, first + channel * inner)?;
            Ok(sum + x * x)
        })?;
        let y = buffers.load(0, i)? / (bias + alpha / size as f32 * squares).powf(beta);
        buffers.store(0, i, y)
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        Planes::finalize(cx).map(Self)
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let Planes { lrn: Lrn { size, alpha, beta, bias }, split } = self.0;
        let AxisSplit { outer, len, inner } = split;
        // A window of this size already covers all channels. The limit makes the size fit an OpenCL `int`.
        let clamped_size = size.min(2 * len + 1);
        let launch = Launch::new(SOURCE, "udo_lrn")
            .args([GpuArg::input(0), GpuArg::output(0)])
            .args(ints([len, inner, clamped_size])?)
            .args([alpha / size as f32, beta, bias].map(GpuArg::f32));
        info.push_launch(launch.global_size([outer * len * inner, 1, 1]));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::{of_kernels, on_gpu_too, settled_on_any_threads, with};
    use crate::testing::{assert_near, bench, noise, tensor};

    #[test]
    fn f64_matches_the_definition() {
        let x: Vec<f64> = noise(2 * 5 * 3).into_iter().map(f64::from).collect();
        for size in [1, 2, 5] {
            let run = bench("LRN").input(tensor(&[2, 5, 3], &x)).int("size", size);
            let run = run.float("alpha", 0.5).float("beta", 0.75).float("bias", 2.0);
            let y = run.threads(3).one().values::<f64>();
            for (index, (y, x_value)) in y.iter().zip(&x).enumerate() {
                let (image, channel, pixel) = (index / 15, (index / 3 % 5) as i64, index % 3);
                let window = channel - (size - 1) / 2..=channel + size / 2;
                let squares: f64 = window
                    .filter(|channel| (0..5).contains(channel))
                    .map(|channel| x[image * 15 + channel as usize * 3 + pixel].powi(2))
                    .sum();
                let expected = x_value / (2.0 + 0.5 / size as f64 * squares).powf(0.75);
                assert!((y - expected).abs() < 1e-14, "{y}, expected {expected}");
            }
        }
    }

    #[test]
    fn windows_end_with_the_channels() {
        for (size, dims) in
            [(3, vec![2, 7, 3, 2]), (4, vec![1, 5, 6]), (1, vec![2, 3]), (9, vec![1, 4, 1, 1])]
        {
            let len: usize = dims.iter().product();
            let (channels, inner) = (dims[1], dims[2..].iter().product::<usize>());
            let x = noise(len);
            let run = bench("LRN").input(tensor(&dims, &x)).int("size", size);
            let run = run.float("alpha", 0.5).float("beta", 0.6).float("bias", 2.0);
            let y = on_gpu_too(&run, 1e-6);
            let mut expected = Vec::new();
            for index in 0..len {
                let channel = (index / inner % channels) as i64;
                let mut sum = 0.0;
                for neighbour in channel - (size - 1) / 2..=channel + size / 2 {
                    if (0..channels as i64).contains(&neighbour) {
                        let x_index = index as i64 + (neighbour - channel) * inner as i64;
                        sum += f64::from(x[x_index as usize]).powi(2);
                    }
                }
                expected.push(f64::from(x[index]) / (2.0 + 0.5 / size as f64 * sum).powf(0.6));
            }
            assert_near(&y.values::<f32>(), &expected, 1e-5);
        }
    }

    #[test]
    fn invalid_sizes_and_ranks_are_refused() {
        let run = bench("LRN").input(tensor(&[1, 1, 1, 1], &[1f32])).int("size", 0);
        assert_eq!(run.error(), "parameter \"size\" is 0, expected 1 or more");
        let run = bench("LRN").input(tensor(&[1], &[1f32])).int("size", 1);
        assert_eq!(run.error(), "input 0 is f32[1], expected rank 2 or more");
    }

    #[test]
    fn nan_affects_only_windows_that_contain_it() {
        for (channels, inner) in [(7, 6), (40, 3), (19, 100)] {
            let x = noise(channels * inner);
            let run =
                |x: &[f32]| bench("LRN").input(tensor(&[1, channels, 1, inner], x)).int("size", 4);
            settled_on_any_threads(&run(&x));
            let plain = of_kernels(&run(&x));
            for nan_index in [0, 3 * inner, x.len() - 1] {
                // A window of size 4 begins one channel before its own and ends two after it.
                let contains_nan = |index: usize| {
                    let window = (index / inner).saturating_sub(1)..index / inner + 3;
                    index % inner == nan_index % inner && window.contains(&(nan_index / inner))
                };
                for (y, plain) in
                    of_kernels(&run(&with(&x, nan_index, f32::NAN))).iter().zip(&plain)
                {
                    for (index, (y, plain)) in y.iter().zip(plain).enumerate() {
                        let is_expected = if contains_nan(index) {
                            y.is_nan()
                        } else {
                            y.to_bits() == plain.to_bits()
                        };
                        assert!(
                            is_expected,
                            "{channels} channels with a NaN at {nan_index}: {y} at {index}"
                        );
                    }
                }
            }
        }
    }
}
