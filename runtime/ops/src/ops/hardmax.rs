//! 1 at the first maximum along an axis, and 0 elsewhere.
//!
//! `lane_norm` builds the operator for lanes, the elements along the axis: `rows` computes contiguous lanes of `f32`,
//! `lane` one lane of elements `step` apart, and `TEST` is the reference of tests.

use udo_api::{DType, Error, Node, Param, Value};

use super::max_pool::is_larger;
use crate::Def;
use crate::family::norm::{LaneNorm, lane_norm};
use crate::number::Real;

pub(crate) const DEF: Def = lane_norm::<Hardmax>();

struct Hardmax;

impl LaneNorm for Hardmax {
    const NAME: &'static str = "Hardmax";
    const PARAMS: &'static [Param] = &[Param::scalar("axis", DType::I64).default(Value::int(-1))];
    const YIELDS_NAN: bool = false;
    const TEST: fn(&[f64]) -> Vec<f64> = |x| {
        let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = x.iter().position(|&x| x >= max);
        (0..x.len()).map(|index| if Some(index) == first { 1.0 } else { 0.0 }).collect()
    };

    fn read(_: &Node<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn rows(&self, x: &[f32], len: usize, y: &mut [f32]) {
        for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
            self.lane(x, 1, y);
        }
    }

    fn lane<T: Real>(&self, x: &[T], step: usize, y: &mut [T]) {
        let (mut first, mut max) = (0, T::LOWEST);
        for (index, &x) in x.iter().step_by(step).enumerate() {
            if is_larger(x, max) {
                (first, max) = (index, x);
            }
        }
        for (index, y) in y.iter_mut().step_by(step).enumerate() {
            *y = if index == first { T::from_f64(1.0) } else { T::ZERO };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn ties_go_to_the_first_and_nan_is_the_largest() {
        let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
        let x = [2.0, 5.0, 5.0, 1.0, nan, 9.0, low, low, low];
        let y = bench("Hardmax").input(tensor(&[3, 3], &x)).one().values::<f32>();
        assert_eq!(y, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    }
}
