//! Divides the elements along an axis by their L1 or L2 norm.
//!
//! `lane_norm` builds the operator for lanes, the elements along the axis: `rows` computes contiguous lanes of `f32`,
//! `lane` one lane of elements `step` apart, and `TEST` is the reference of tests.

use udo_api::{DType, Error, Node, Param, Value};

use crate::Def;
use crate::family::norm::{LaneNorm, lane_norm};
use crate::number::Real;

pub(crate) const DEF: Def = lane_norm::<LpNormalization>();

enum LpNormalization {
    /// L1: the sum of absolute values.
    Absolute,
    /// L2: the root of the sum of squares.
    Squares,
}

impl LaneNorm for LpNormalization {
    const NAME: &'static str = "LpNormalization";
    const PARAMS: &'static [Param] = &[
        Param::scalar("axis", DType::I64).default(Value::int(-1)),
        Param::scalar("p", DType::I64).default(Value::int(2)),
    ];
    const TEST: fn(&[f64]) -> Vec<f64> = |x| {
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        x.iter().map(|x| x / norm).collect()
    };

    fn read(node: &Node<'_>) -> Result<Self, Error> {
        match node.int("p")? {
            1 => Ok(Self::Absolute),
            2 => Ok(Self::Squares),
            p => Err(Error::new(format!("parameter \"p\" is {p}, expected 1 or 2"))),
        }
    }

    fn rows(&self, x: &[f32], len: usize, y: &mut [f32]) {
        for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
            self.lane(x, 1, y);
        }
    }

    fn lane<T: Real>(&self, x: &[T], step: usize, y: &mut [T]) {
        let lane = x.iter().step_by(step).map(|x| x.to_f64());
        let norm = match self {
            Self::Absolute => lane.map(f64::abs).sum::<f64>(),
            Self::Squares => lane.map(|x| x * x).sum::<f64>().sqrt(),
        };
        for (y, &x) in y.iter_mut().zip(x).step_by(step) {
            // A norm of 0 gives zeros, as in ONNX Runtime.
            *y = if norm == 0.0 { T::ZERO } else { T::from_f64(x.to_f64() / norm) };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn lanes_are_divided_by_their_norm_unless_it_is_zero() {
        let run = || bench("LpNormalization").input(tensor(&[2, 2], &[3f32, -4.0, 0.0, 0.0]));
        assert_near(&run().one().values::<f32>(), &[0.6, -0.8, 0.0, 0.0], 1e-6);
        let y = run().int("p", 1).one().values::<f32>();
        assert_near(&y, &[3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0], 1e-6);
        assert_eq!(run().int("p", 3).error(), "parameter \"p\" is 3, expected 1 or 2");
    }
}
