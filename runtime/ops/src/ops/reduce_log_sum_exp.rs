//! `log(sum(exp(x)))` along some axes. Exponents are relative to the maximum, so that large values do not
//! overflow.
//!
//! `reduce` builds the operator: `By` accumulates the elements, and `TEST` is the reference of tests.

use crate::Def;
use crate::family::reduce::{LogOfSumOfPowers, Reduce, reduce};

pub(crate) const DEF: Def = reduce::<ReduceLogSumExp>();

struct ReduceLogSumExp;

impl Reduce for ReduceLogSumExp {
    const NAME: &'static str = "ReduceLogSumExp";
    type By = LogOfSumOfPowers;
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().map(|x| x.exp()).sum::<f64>().ln();
}

#[cfg(test)]
mod tests {
    use udo_api::Core;

    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn sums_that_overflow_every_type_have_a_logarithm() {
        let x = tensor(&[2, 3], &[1000f32, 1000.0, 990.0, f32::NEG_INFINITY, -2000.0, -2000.0]);
        let expected = [1000.0 + (2.0 + (-10f64).exp()).ln(), -2000.0 + 2f64.ln()];
        for core in [Core::CPU, Core::GPU] {
            let y = bench("ReduceLogSumExp").on(core).input(x.clone());
            let y = y.constant(tensor(&[1], &[1i64])).one();
            assert_near(&y.values::<f32>(), &expected, 1e-6);
        }
    }

    /// ONNX Runtime 1.31 truncates in the same way if no exponential overflows.
    #[test]
    fn integer_logarithms_truncate() {
        let y = |x: &[i32]| {
            let x: Vec<i64> = x.iter().copied().map(i64::from).collect();
            bench("ReduceLogSumExp").input(tensor(&[x.len()], &x)).one().values::<i64>()[0]
        };
        assert_eq!(y(&[1, 2, 3]), 3);
        assert_eq!(y(&[0; 8]), 2);
        assert_eq!(y(&[100; 3]), 101);
        assert_eq!(
            (y(&[5]), y(&[-3, -3]), y(&[]), y(&[5000, 5000, 4000])),
            (5, -2, i64::MIN, 5000)
        );
        let run = bench("ReduceLogSumExp").input(tensor(&[3, 2], &[1u32, 9, 2, 9, 3, 9]));
        let y = run.constant(tensor(&[1], &[0i64])).threads(2).one();
        assert_eq!(y.values::<u32>(), [3, 10]);
        let y = bench("ReduceLogSumExp").input(tensor(&[2], &[7u64, 7])).one();
        assert_eq!(y.values::<u64>(), [7]);
        let y = bench("ReduceLogSumExp").input(tensor(&[2], &[i32::MAX, 0])).one();
        assert_eq!(y.values::<i32>(), [i32::MAX]);
    }

    #[test]
    fn infinities_and_nan_are_preserved() {
        let x = [f32::INFINITY, f32::INFINITY, f32::NAN, 1.0, f32::NEG_INFINITY, f32::NEG_INFINITY];
        let y = bench("ReduceLogSumExp").input(tensor(&[3, 2], &x));
        let y = y.constant(tensor(&[1], &[1i64])).one();
        assert_near(&y.values::<f32>(), &[f64::INFINITY, f64::NAN, f64::NEG_INFINITY], 0.0);
        let doubles = tensor(&[3, 2], &x.map(f64::from));
        let y = bench("ReduceLogSumExp").input(doubles).constant(tensor(&[1], &[1i64])).one();
        assert_near(&y.values::<f64>(), &[f64::INFINITY, f64::NAN, f64::NEG_INFINITY], 0.0);
    }
}
