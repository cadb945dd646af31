//! `log(softmax(x))` along an axis, computed as `(x - max) - log(sum(exp(x - max)))`.
//!
//! `lane_norm` builds the operator for lanes, the elements along the axis: `rows` computes contiguous lanes of `f32`,
//! `lane` one lane of elements `step` apart, and `TEST` is the reference of tests.

use udo_api::{DType, Error, KernelDef, Node, Param, Value};
use udo_simd::{Fold, Map1, Simd, fold, map1, rows};

use crate::Def;
use crate::family::norm::{LaneGpu, LaneNorm, lane_gpu, lane_norm};
use crate::number::Real;

pub(crate) const DEF: Def = lane_norm::<LogSoftmax>();

struct LogSoftmax;

impl LaneNorm for LogSoftmax {
    const NAME: &'static str = "LogSoftmax";
    const PARAMS: &'static [Param] = &[Param::scalar("axis", DType::I64).default(Value::int(-1))];
    const GPU: Option<KernelDef> = Some(lane_gpu::<Self>());
    const TEST: fn(&[f64]) -> Vec<f64> = |x| {
        let sum: f64 = x.iter().map(|x| x.exp()).sum();
        x.iter().map(|x| x - sum.ln()).collect()
    };

    fn read(_: &Node<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn rows(&self, x: &[f32], len: usize, y: &mut [f32]) {
        for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
            let max = rows::max(x);
            let sum = fold(SumOfExponentials { max }, x);
            map1(Shifted { max, log_sum: sum.ln() }, x, y);
        }
    }

    fn lane<T: Real>(&self, x: &[T], step: usize, y: &mut [T]) {
        let lane = || x.iter().step_by(step);
        let largest = |max: T, &x: &T| if x > max { x } else { max };
        let max = lane().fold(T::LOWEST, largest);
        let sum = lane().fold(T::ZERO, |sum: T, x| sum.add(x.sub(max).exp()));
        for (y, &x) in y.iter_mut().zip(x).step_by(step) {
            *y = x.sub(max).sub(sum.ln());
        }
    }
}

/// The GPU kernel, which first finds the maximum of a lane (`most`) and the sum of `exp(x - most)`.
impl LaneGpu for LogSoftmax {
    const OPENCL: &'static str = "x - most - log(sum)";

    fn normalize(x: f32, most: f32, sum: f32) -> f32 {
        x - most - sum.ln()
    }
}

/// The sum of `exp(x - max)`.
#[derive(Clone, Copy)]
struct SumOfExponentials {
    max: f32,
}

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
impl Fold for SumOfExponentials {
    const IDENTITY: f32 = 0.0;

    #[inline(always)]
    fn step<S: Simd>(self, s: S, sum: S::F, x: S::F) -> S::F {
        s.add(sum, s.exp(s.sub(x, s.splat(self.max))))
    }

    #[inline(always)]
    fn combine<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

/// Computes `(x - max) - log_sum`. `x - max` comes first: `max + log_sum` would lose `log_sum` beside a large `max`.
#[derive(Clone, Copy)]
struct Shifted {
    max: f32,
    log_sum: f32,
}

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
impl Map1 for Shifted {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F) -> S::F {
        s.sub(s.sub(x, s.splat(self.max)), s.splat(self.log_sum))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn large_values_do_not_overflow() {
        let y = bench("LogSoftmax").input(tensor(&[1, 2], &[1e4f32, 1e4 - 200.0])).one();
        assert_near(&y.values::<f32>(), &[0.0, -200.0], 1e-6);
    }
}
