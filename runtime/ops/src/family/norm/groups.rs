//! Operators that normalize groups of channels of each image (`GroupNormalization`, `InstanceNormalization`), and apply a
//! scale and bias per channel.

use std::marker::PhantomData;

use udo_api::{
    Core, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema, Port,
    PortRule, input, input_like, output_like,
};
use udo_simd::{Fold, Map1, Simd, fold, map1, rows};

use super::gpu::group_gpu;
use super::{GroupNorm, ROWS};
use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::elementwise::infer_like_input;
use crate::family::partition::row_grain;
use crate::number::Number;

/// Defines the operator of the normalization `N`.
pub(crate) const fn group_norm<N: GroupNorm>() -> Def {
    Def::new::<Described<N>>(Described::<N>::KERNELS)
}

/// The operator of the normalization `N`.
struct Described<N>(PhantomData<fn() -> N>);

const RULES: &[PortRule] = &[input(0, ROWS), output_like(0, 0), input_like(1, 0), input_like(2, 0)];

impl<N: GroupNorm> Described<N> {
    const KERNELS: &'static [KernelDef] =
        &[KernelDef::new::<Groups<N>>(N::NAME, Core::CPU).ports(RULES), group_gpu::<N>()];
}

impl<N: GroupNorm> Op for Described<N> {
    const SCHEMA: OpSchema = OpSchema::new(
        N::NAME,
        &[Port::required("X", ROWS), Port::required("scale", ROWS), Port::required("bias", ROWS)],
        &[Port::required("Y", ROWS)],
        N::PARAMS,
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let &[_, channels, ..] = x.shape() else {
            return Err(Error::new(format!("input 0 is {x}, expected rank 2 or more")));
        };
        for port in [1, 2] {
            let found = cx.input(port)?;
            if found.shape() != [channels] {
                return Err(Error::new(format!("input {port} is {found}, expected [{channels}]")));
            }
        }
        let groups = N::groups(cx, channels)?;
        if groups == 0 || channels % groups != 0 {
            let wrong = format!("{channels} channels do not fall into {groups} groups");
            return Err(Error::new(wrong));
        }
        infer_like_input(cx)
    }
}

/// CPU kernel of the normalization `N`.
struct Groups<N> {
    /// Channels of an image.
    channels: usize,
    /// Channels of a group.
    group: usize,
    /// Elements per channel.
    plane: usize,
    epsilon: f64,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    norm: PhantomData<fn() -> N>,
}

impl<N: GroupNorm> Kernel for Groups<N> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let AxisSplit { len: channels, inner: plane, .. } = AxisSplit::at(x.shape(), 1);
        Ok(Self {
            channels,
            group: channels / N::groups(cx, channels)?.max(1),
            plane,
            epsilon: f64::from(cx.float32("epsilon")?),
            run: of_type!(x.dtype(), [F32 = f32, F64 = f64], T => Self::run::<T>)?,
            norm: PhantomData,
        })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl<N: GroupNorm> Groups<N> {
    fn run<T: Moments>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let &Self { channels, group, plane, epsilon, .. } = self;
        let (x, scale, bias) = (inputs.get::<T>(0)?, inputs.get::<T>(1)?, inputs.get::<T>(2)?);
        let y = outputs.take::<T>(0)?;
        if y.is_empty() {
            return Ok(());
        }
        let len = group * plane;
        let grain = row_grain(len);
        parallel.chunks_mut(y, grain, |chunk, y| {
            let groups = x[chunk * grain..].chunks_exact(len).zip(y.chunks_exact_mut(len));
            for ((x, y), index) in groups.zip(chunk * grain / len..) {
                let mean = T::mean(x);
                let inverse = 1.0 / (T::variance(x, mean) + epsilon).sqrt();
                let first = index * group % channels;
                let planes = x.chunks_exact(plane).zip(y.chunks_exact_mut(plane));
                for ((x, y), channel) in planes.zip(first..) {
                    let factor = inverse * scale[channel].to_f64();
                    // The mean is rounded to the type of the elements. Its error matters if deviations are small, so
                    // the bias corrects it; with an infinite factor the correction would be NaN.
                    let mean_error = T::from_f64(mean).to_f64() - mean;
                    let correction = if factor.is_finite() { mean_error * factor } else { 0.0 };
                    let bias = T::from_f64(bias[channel].to_f64() + correction);
                    T::scale(x, [T::from_f64(mean), T::from_f64(factor), bias], y);
                }
            }
            Ok(())
        })
    }
}

/// A type with mean and variance of its elements, in f64.
trait Moments: Number {
    fn mean(x: &[Self]) -> f64;
    fn variance(x: &[Self], mean: f64) -> f64;
    /// Computes `(x - mean) * factor + bias`; `coefficients` are mean, factor and bias.
    fn scale(x: &[Self], coefficients: [Self; 3], y: &mut [Self]);
}

/// Elements summed in f32 before they are added to an f64 sum.
const RUN: usize = 4096;

impl Moments for f32 {
    fn mean(x: &[f32]) -> f64 {
        let mean_by = |sum: &dyn Fn(&[f32]) -> f32| {
            x.chunks(RUN).map(|x| f64::from(sum(x))).sum::<f64>() / x.len() as f64
        };
        // The error of a plain sum of large elements can exceed their deviation. A second pass sums the differences
        // from the approximate mean.
        let center = mean_by(&rows::sum) as f32;
        f64::from(center) + mean_by(&|x| fold(SumAround(center), x))
    }

    fn variance(x: &[f32], mean: f64) -> f64 {
        let center = mean as f32;
        let squares = x.chunks(RUN).map(|x| f64::from(fold(SquaresAround(center), x)));
        // Var = E[(x - c)^2] - (mean - c)^2, with `c` the rounded mean.
        let difference = f64::from(center) - mean;
        (squares.sum::<f64>() / x.len() as f64 - difference * difference).max(0.0)
    }

    fn scale(x: &[f32], [mean, factor, bias]: [f32; 3], y: &mut [f32]) {
        map1(Scaled { mean, factor, bias }, x, y);
    }
}

impl Moments for f64 {
    fn mean(x: &[f64]) -> f64 {
        x.iter().sum::<f64>() / x.len() as f64
    }

    fn variance(x: &[f64], mean: f64) -> f64 {
        x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64
    }

    fn scale(x: &[f64], [mean, factor, bias]: [f64; 3], y: &mut [f64]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = (x - mean) * factor + bias);
    }
}

/// The sum of `x - c`.
#[derive(Clone, Copy)]
struct SumAround(f32);

impl Fold for SumAround {
    const IDENTITY: f32 = 0.0;

    #[inline(always)]
    fn step<S: Simd>(self, s: S, sum: S::F, x: S::F) -> S::F {
        s.add(sum, s.sub(x, s.splat(self.0)))
    }

    #[inline(always)]
    fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

/// The sum of `(x - c)^2`.
#[derive(Clone, Copy)]
struct SquaresAround(f32);

impl Fold for SquaresAround {
    const IDENTITY: f32 = 0.0;

    #[inline(always)]
    fn step<S: Simd>(self, s: S, sum: S::F, x: S::F) -> S::F {
        let difference = s.sub(x, s.splat(self.0));
        s.fma(difference, difference, sum)
    }

    #[inline(always)]
    fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

#[derive(Clone, Copy)]
struct Scaled {
    mean: f32,
    factor: f32,
    bias: f32,
}

impl Map1 for Scaled {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        s.fma(s.sub(x, s.splat(self.mean)), s.splat(self.factor), s.splat(self.bias))
    }
}

#[cfg(test)]
mod tests {
    use crate::family::numerics::{on_gpu_too, settled_on_any_threads, with};
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    const DIMS: [usize; 4] = [2, 6, 3, 70];

    fn run(op: &str, groups: usize, x: &[f32]) -> Bench {
        run_with(1e-3, op, groups, x)
    }

    fn run_with(epsilon: f64, op: &str, groups: usize, x: &[f32]) -> Bench {
        let scale: Vec<f32> = (0..6u8).map(|c| f32::from(c) - 2.5).collect();
        let bias: Vec<f32> = (0..6u8).map(|c| f32::from(c) * 0.5).collect();
        let run = bench(op).input(tensor(&DIMS, x)).input(tensor(&[6], &scale));
        let run = run.input(tensor(&[6], &bias)).float("epsilon", epsilon);
        if op == "GroupNormalization" { run.int("num_groups", groups as i64) } else { run }
    }

    fn reference(groups: usize, x: &[f64]) -> Vec<f64> {
        reference_with(1e-3, groups, x)
    }

    fn reference_with(epsilon: f32, groups: usize, x: &[f64]) -> Vec<f64> {
        let (plane, len) = (210, 6 / groups * 210);
        let mut y = Vec::new();
        for (at, x) in x.chunks(len).enumerate() {
            let mean = x.iter().sum::<f64>() / len as f64;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / len as f64;
            for (i, x) in x.iter().enumerate() {
                let channel = ((at * len + i) / plane % 6) as f64;
                let normal = (x - mean) / (variance + f64::from(epsilon)).sqrt();
                y.push(normal * (channel - 2.5) + channel * 0.5);
            }
        }
        y
    }

    #[test]
    fn groups_match_the_definition() {
        let x: Vec<f32> = noise(DIMS.iter().product()).iter().map(|x| x * 3.0 + 50.0).collect();
        let wide: Vec<f64> = x.iter().copied().map(f64::from).collect();
        for groups in [1, 2, 3, 6] {
            let expected = reference(groups, &wide);
            on_gpu_too(&run("GroupNormalization", groups, &x), 1e-4);
            let y = settled_on_any_threads(&run("GroupNormalization", groups, &x));
            assert_near(&y.values::<f32>(), &expected, 1e-4);
        }
        let y = on_gpu_too(&run("InstanceNormalization", 6, &x).threads(3), 1e-4);
        assert_near(&y.values::<f32>(), &reference(6, &wide), 1e-4);
        let ones = tensor(&[2], &[1f64; 2]);
        let x = tensor(&[1, 2, 2], &[1f64, 3.0, -5.0, -9.0]);
        let y = bench("InstanceNormalization").input(x).input(ones.clone()).input(ones);
        let y = y.float("epsilon", 0.0).one().values::<f64>();
        assert_near(&y, &[0.0, 2.0, 2.0, 0.0], 1e-12);
    }

    #[test]
    fn large_means_with_small_deviations_keep_precision() {
        for (mean, spread) in [(1e4, 1e-2), (-3e5, 0.5), (1e6, 1.0), (0.0, 1e-3)] {
            let x: Vec<f32> =
                noise(DIMS.iter().product()).iter().map(|x| mean + spread * x).collect();
            let wide: Vec<f64> = x.iter().copied().map(f64::from).collect();
            for groups in [2, 6] {
                let op = if groups == 6 { "InstanceNormalization" } else { "GroupNormalization" };
                let run = run_with(1e-12, op, groups, &x);
                let expected = reference_with(1e-12, groups, &wide);
                for core in [udo_api::Core::CPU, udo_api::Core::GPU] {
                    let y = run.clone().on(core).one().values::<f32>();
                    assert_near(&y, &expected, 2e-4);
                }
            }
        }
    }

    #[test]
    fn nan_stays_in_its_group() {
        let x = noise(DIMS.iter().product());
        let plain = run("GroupNormalization", 2, &x).one().values::<f32>();
        let y = run("GroupNormalization", 2, &with(&x, 700, f32::NAN)).one().values::<f32>();
        for (at, (y, plain)) in y.iter().zip(&plain).enumerate() {
            let actual = if at / 630 == 1 { y.is_nan() } else { y.to_bits() == plain.to_bits() };
            assert!(actual, "{y} at {at}");
        }
    }

    #[test]
    fn mismatched_inputs_are_refused() {
        let x = noise(DIMS.iter().product());
        let error = run("GroupNormalization", 4, &x).error();
        assert_eq!(error, "6 channels do not fall into 4 groups");
        let one = tensor(&[1], &[1f32]);
        let run = bench("InstanceNormalization").input(tensor(&[1, 2, 1], &[1f32, 2.0]));
        let error = run.input(one.clone()).input(one).error();
        assert_eq!(error, "input 1 is f32[1], expected [2]");
    }
}
