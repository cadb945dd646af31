//! The maximum along some axes. NaN counts as larger than any value.
//!
//! `reduce` builds the operator: `By` accumulates the elements, and `TEST` is the reference of tests.

use crate::Def;
use crate::family::reduce::{Greatest, Reduce, reduce};

pub(crate) const DEF: Def = reduce::<ReduceMax>();

pub(super) struct ReduceMax;

impl Reduce for ReduceMax {
    const NAME: &'static str = "ReduceMax";
    type By = Greatest;
    // `f64::max` ignores NaN, which the test below and those of the family cover.
    const TEST: fn(&[f64]) -> f64 = |x| x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
}

#[cfg(test)]
mod tests {
    use udo_api::Core;

    use crate::testing::{bench, tensor};

    #[test]
    fn nan_at_any_position_gives_nan() {
        for at in [0, 1, 40, 69] {
            let mut x = [1.0f32; 70];
            x[at] = f32::NAN;
            for dims in [[1, 70], [70, 1], [35, 2]] {
                for core in [Core::CPU, Core::GPU] {
                    let y = bench("ReduceMax").on(core).input(tensor(&dims, &x)).one();
                    assert!(y.values::<f32>()[0].is_nan(), "at {at} of {dims:?} on {core}");
                }
                let y = bench("ReduceMax").input(tensor(&dims, &x.map(f64::from))).one();
                assert!(y.values::<f64>()[0].is_nan(), "at {at} of {dims:?}");
            }
        }
        let column =
            bench("ReduceMax").input(tensor(&[3, 2], &[1.0, 2.0, f32::NAN, 0.0, 3.0, 4.0]));
        let y = column.constant(tensor(&[1], &[0i64])).one().values::<f32>();
        assert!(y[0].is_nan() && y[1] > 3.5, "{y:?}");
    }
}
