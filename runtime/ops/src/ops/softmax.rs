//! `exp(x - max) / sum(exp(x - max))` along an axis, where `max` is the maximum along it.
//!
//! `lane_norm` builds the operator for lanes, the elements along the axis: `rows` computes contiguous lanes of `f32`,
//! `lane` one lane of elements `step` apart, and `TEST` is the reference of tests.

use udo_api::{DType, Error, KernelDef, Node, Param, Value};
use udo_simd::rows;

use crate::Def;
use crate::family::norm::{LaneGpu, LaneNorm, lane_gpu, lane_norm};
use crate::number::Real;

pub(crate) const DEF: Def = lane_norm::<Softmax>();

struct Softmax;

impl LaneNorm for Softmax {
    const NAME: &'static str = "Softmax";
    const PARAMS: &'static [Param] = &[Param::scalar("axis", DType::I64).default(Value::int(-1))];
    const GPU: Option<KernelDef> = Some(lane_gpu::<Self>());
    const TEST: fn(&[f64]) -> Vec<f64> = |x| {
        let sum: f64 = x.iter().map(|x| x.exp()).sum();
        x.iter().map(|x| x.exp() / sum).collect()
    };

    fn read(_: &Node<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn rows(&self, x: &[f32], len: usize, y: &mut [f32]) {
        rows::softmax(x, len, y);
    }

    fn lane<T: Real>(&self, x: &[T], step: usize, y: &mut [T]) {
        let largest = |max, x| if x > max { x } else { max };
        let max = x.iter().step_by(step).copied().fold(T::LOWEST, largest);
        let mut sum = T::ZERO;
        for (y, &x) in y.iter_mut().zip(x).step_by(step) {
            *y = x.sub(max).exp();
            sum = sum.add(*y);
        }
        for y in y.iter_mut().step_by(step) {
            *y = y.div(sum);
        }
    }
}

/// The GPU kernel, which first finds the maximum of a lane (`most`) and the sum of `exp(x - most)`.
impl LaneGpu for Softmax {
    const OPENCL: &'static str = "exp(x - most) / sum";

    fn normalize(x: f32, most: f32, sum: f32) -> f32 {
        (x - most).exp() / sum
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn large_values_do_not_overflow() {
        let y = bench("Softmax").input(tensor(&[1, 2], &[1e4f32, 1e4 - 1.0])).one();
        let first = 1.0 / (1.0 + (-1f64).exp());
        assert_near(&y.values::<f32>(), &[first, 1.0 - first], 1e-6);
    }
}
