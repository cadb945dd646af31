//! `(x - mean) / sqrt(variance + epsilon) * scale + bias` per channel, with the statistics stored in the model.
//!
//! `channel_norm` builds the f32 kernels from `coefficients`, which folds the statistics into a factor and a term per
//! channel. `OTHERS` are further kernels.

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, GpuArg, GpuKernel, InferCx, Inputs, Io, Kernel,
    KernelDef, KernelInfo, Launch, OpSchema, Param, Port, PortRule, TypeSet, Value, WorkItemFn,
    input, input_like, output_like, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::elementwise::infer_like_input;
use crate::family::gpu::{check_lens, ints};
use crate::family::norm::{ChannelNorm, channel_norm};
use crate::family::partition::row_grain;

pub(crate) const DEF: Def = channel_norm::<BatchNormalization>();

const TYPES: TypeSet = types::F32.or(types::F64);

const fn rules(types: TypeSet) -> [PortRule; 6] {
    [
        input(0, types),
        input_like(1, 0),
        input_like(2, 0),
        input_like(3, 0),
        input_like(4, 0),
        output_like(0, 0),
    ]
}

struct BatchNormalization {
    epsilon: f32,
}

impl ChannelNorm for BatchNormalization {
    const SCHEMA: OpSchema = OpSchema::new(
        "BatchNormalization",
        &[
            Port::required("X", TYPES),
            Port::required("scale", TYPES),
            Port::required("B", TYPES),
            Port::required("input_mean", TYPES),
            Port::required("input_var", TYPES),
        ],
        &[
            Port::required("Y", TYPES),
            // Training only.
            Port::optional("running_mean", TYPES),
            Port::optional("running_var", TYPES),
        ],
        &[
            Param::scalar("epsilon", DType::F32).default(Value::float(1e-5)),
            // Training only.
            Param::scalar("momentum", DType::F32).optional(),
            Param::scalar("training_mode", DType::I64).default(Value::int(0)),
        ],
    );
    const OTHERS: [KernelDef; 2] = [
        KernelDef::gpu::<OnGpu>("BatchNormalization").ports(&rules(types::F32)),
        KernelDef::new::<Doubles>("BatchNormalization", Core::CPU).ports(&rules(types::F64)),
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        if cx.flag("training_mode")? {
            return Err(Error::new("parameter \"training_mode\" is 1, which asks for training"));
        }
        if cx.output_count() > 1 {
            return Err(Error::new(
                "output 1 is a statistic of the batch, which asks for training",
            ));
        }
        let x = cx.input(0)?;
        let channels = x.full_shape().dim(1).map_or(1, udo_api::Dim::bound);
        if x.rank() < 1 {
            return Err(Error::new(format!("input 0 is {x}, expected rank 1 or more")));
        }
        for port in 1..5 {
            let parameter = cx.input(port)?;
            if parameter.shape() != [channels] {
                return Err(Error::new(format!(
                    "input {port} is {parameter}, expected [{channels}]"
                )));
            }
            // f16 and bf16 inputs are computed in f32, so their parameters may be f32.
            if (parameter.dtype() == Some(DType::F64)) != (x.dtype() == Some(DType::F64)) {
                return Err(Error::new(format!(
                    "input {port} is {parameter}, expected the type of {x}"
                )));
            }
        }
        infer_like_input(cx)
    }

    fn read(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { epsilon: cx.float32("epsilon")? })
    }

    fn coefficients(
        &self,
        inputs: &Inputs<'_>,
        factors: &mut [f32],
        terms: &mut [f32],
    ) -> Result<(), ExecError> {
        let [scale, bias] = [inputs.get::<f32>(1)?, inputs.get::<f32>(2)?];
        let [mean, variance] = [inputs.get::<f32>(3)?, inputs.get::<f32>(4)?];
        for (channel, (factor, term)) in factors.iter_mut().zip(terms).enumerate() {
            *factor = scale[channel] / (variance[channel] + self.epsilon).sqrt();
            *term = bias[channel] - mean[channel] * *factor;
        }
        Ok(())
    }
}

/// The f64 kernel, for channels on the second axis.
struct Doubles {
    split: AxisSplit,
    epsilon: f64,
}

impl Kernel for Doubles {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let split = AxisSplit::at(cx.input(0)?.shape(), 1);
        Ok(Self { split, epsilon: cx.float("epsilon")? })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let input = |port: usize| inputs.get::<f64>(port);
        let (x, scale, bias, mean, variance) =
            (input(0)?, input(1)?, input(2)?, input(3)?, input(4)?);
        let (len, inner) = (self.split.len, self.split.inner);
        let grain = row_grain(inner);
        parallel.chunks_mut(outputs.take::<f64>(0)?, grain, |chunk, y| {
            for (index, y) in (chunk * grain..).zip(y) {
                let channel = index / inner % len;
                let factor = scale[channel] / (variance[channel] + self.epsilon).sqrt();
                *y = (x[index] - mean[channel]) * factor + bias[channel];
            }
            Ok(())
        })
    }
}

/// GPU kernel: one element per work item.
struct OnGpu {
    split: AxisSplit,
    epsilon: f32,
}

const SOURCE: &str = "#pragma OPENCL FP_CONTRACT OFF
__kernel void udo_batch_norm(__global const float *x, __global const float *scale, __global const float *bias,
    __global const float *mean, __global const float *variance, __global float *y,
    const int channels, const int inner, const float epsilon) {
    const int i = get_global_id(0), channel = i / inner % channels;
    const float factor = scale[channel] / sqrt(variance[channel] + epsilon);
    // Subtracts the mean first: where it is large compared to the deviation, `x * factor + (bias - mean * factor)`
    // would cancel. A factor that is not finite gives NaN, as on the CPU.
    y[i] = isfinite(factor) ? (x[i] - mean[channel]) * factor + bias[channel]
                            : x[i] * factor + (bias[channel] - mean[channel] * factor);
}
";

impl GpuKernel for OnGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let ([i, ..], AxisSplit { len, inner, .. }) = (item.global_id, kernel.split);
        let parameter = |port: usize| buffers.load(port, i / inner % len);
        let factor = parameter(1)? / (parameter(4)? + kernel.epsilon).sqrt();
        let (x, mean, bias) = (buffers.load(0, i)?, parameter(3)?, parameter(2)?);
        // As in the OpenCL source.
        let y = if factor.is_finite() {
            (x - mean) * factor + bias
        } else {
            x * factor + (bias - mean * factor)
        };
        buffers.store(0, i, y)
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let split = AxisSplit::at(cx.input(0)?.shape(), 1);
        Ok(Self { split, epsilon: cx.float32("epsilon")? })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let AxisSplit { outer, len, inner } = self.split;
        let launch = Launch::new(SOURCE, "udo_batch_norm")
            .args((0..5).map(GpuArg::input))
            .args([GpuArg::output(0)])
            .args(ints([len, inner])?)
            .args([GpuArg::f32(self.epsilon)]);
        info.push_launch(launch.global_size([outer * len * inner, 1, 1]));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::{EDGES, bits, of_kernels, on_gpu_too, settled_on_any_threads};
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    fn run(dims: &[usize], channels: usize) -> Bench {
        let x = noise(dims.iter().product());
        let per_channel = |first: f32| -> Vec<f32> {
            (0..channels).map(|channel| first + channel as f32 * 0.25).collect()
        };
        let mut run = bench("BatchNormalization").input(tensor(dims, &x));
        // Scale, bias, mean and variance.
        for first in [0.5, -1.0, 0.1, 0.3] {
            run = run.constant(tensor(&[channels], &per_channel(first)));
        }
        run
    }

    #[test]
    fn channels_are_normalized() {
        for dims in [
            vec![2, 5, 3, 4],
            vec![1, 3, 7],
            vec![4, 6],
            vec![3],
            vec![1, 2, 1, 1],
            vec![2, 3, 0, 4],
        ] {
            let channels = dims.get(1).copied().unwrap_or(1);
            let inner: usize = dims.iter().skip(2).product();
            let x = noise(dims.iter().product());
            let expected: Vec<f64> = x
                .iter()
                .enumerate()
                .map(|(index, &x)| {
                    let step = (index / inner % channels) as f64 * 0.25;
                    let deviation = (0.3 + step + 1e-3f64).sqrt();
                    (f64::from(x) - 0.1 - step) / deviation * (0.5 + step) - 1.0 + step
                })
                .collect();
            let y = on_gpu_too(&run(&dims, channels).float("epsilon", 1e-3).threads(2), 1e-6);
            assert_near(&y.values::<f32>(), &expected, 1e-5);
        }
    }

    #[test]
    fn f64_matches_the_definition() {
        let x: Vec<f64> = noise(2 * 3 * 5).into_iter().map(f64::from).collect();
        let params = [[0.5, 1.0, 2.0], [-1.0, 0.0, 1.0], [0.25, 0.5, 0.75], [1.0, 2.0, 3.0]];
        let run = bench("BatchNormalization").input(tensor(&[2, 3, 5], &x));
        let run = params.iter().fold(run, |run, params| run.input(tensor(&[3], params)));
        let y = run.float("epsilon", 0.5).threads(3).one().values::<f64>();
        for (index, (y, x)) in y.iter().zip(&x).enumerate() {
            let [scale, bias, mean, variance] = params.map(|params| params[index / 5 % 3]);
            let expected = (x - mean) / (variance + 0.5f64).sqrt() * scale + bias;
            assert!((y - expected).abs() < 1e-14, "{y}, expected {expected}");
        }
    }

    #[test]
    fn large_means_with_small_deviations_keep_precision_on_the_gpu() {
        let x: Vec<f32> = noise(60).iter().map(|x| 1e4 + 1e-2 * x).collect();
        let mut run = bench("BatchNormalization").input(tensor(&[2, 3, 10], &x));
        for param in [1.5f32, -0.5, 1e4, 1e-4] {
            run = run.constant(tensor(&[3], &[param; 3]));
        }
        let y = run.float("epsilon", 0.0).on(udo_api::Core::GPU).one().values::<f32>();
        let normalize = |x: &f32| (f64::from(*x) - 1e4) / f64::from(1e-4f32).sqrt() * 1.5 - 0.5;
        assert_near(&y, &x.iter().map(normalize).collect::<Vec<_>>(), 1e-5);
    }

    #[test]
    fn training_and_mismatched_inputs_are_refused() {
        let error = run(&[1, 2], 2).int("training_mode", 1).error();
        assert_eq!(error, "parameter \"training_mode\" is 1, which asks for training");
        let error = run(&[1, 2], 2).outputs(3).error();
        assert_eq!(error, "output 1 is a statistic of the batch, which asks for training");
        assert_eq!(run(&[1, 2], 3).error(), "input 1 is f32[3], expected [2]");
        let mixed = bench("BatchNormalization").input(tensor(&[1, 1], &[1f32]));
        let mixed = (0..4).fold(mixed, |run, _| run.input(tensor(&[1], &[1f64])));
        assert_eq!(mixed.error(), "input 1 is f64[1], expected the type of f32[1,1]");
    }

    #[test]
    fn neutral_parameters_preserve_edge_values() {
        let x: Vec<f32> = EDGES.iter().copied().cycle().take(2 * 5 * 13).collect();
        let mut run = bench("BatchNormalization").input(tensor(&[2, 5, 1, 13], &x));
        for param in [1f32, 0.0, 0.0, 1.0] {
            run = run.constant(tensor(&[5], &[param; 5]));
        }
        let run = run.float("epsilon", 0.0);
        settled_on_any_threads(&run);
        // The kernel adds a bias of 0, which turns -0 into 0.
        let expected: Vec<f32> = x.iter().map(|x| x + 0.0).collect();
        for y in of_kernels(&run) {
            assert_eq!(bits(&y), bits(&expected));
        }
    }

    #[test]
    fn clamping_activations_are_fused_and_others_are_not() {
        use udo_api::Activation::{Clip, Relu, Silu};

        for (dims, channels) in [(vec![2, 5, 3, 4], 5), (vec![1, 700, 1, 2], 700), (vec![3, 4], 4)]
        {
            let unfused = run(&dims, channels).threads(2);
            for (activation, [low, high]) in
                [(Relu, [0.0, f32::INFINITY]), (Clip(-0.25, 0.5), [-0.25, 0.5])]
            {
                let fused = unfused.clone().then_activation(activation);
                assert_eq!(fused.clone().run().unwrap()[0].epilogue_steps, 1);
                let pairs = of_kernels(&unfused).into_iter().zip(of_kernels(&fused));
                for (expected, actual) in pairs {
                    let expected: Vec<f32> = expected.iter().map(|y| y.clamp(low, high)).collect();
                    assert_eq!(actual, expected, "{activation:?} of {dims:?}");
                }
            }
            let y = unfused.then_activation(Silu).run().unwrap();
            assert_eq!(y[0].epilogue_steps, 0, "the kernel fuses no other function");
        }
    }
}
