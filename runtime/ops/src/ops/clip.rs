//! `min(max(x, low), high)`, with the limits `min` and `max`, of each element. NaN stays NaN.
//!
//! `limited` builds the operator from `apply`. An absent limit is the lowest or highest value of the type.

use crate::Def;
use crate::family::elementwise::{Limited, limited};
use crate::number::Number;

pub(crate) const DEF: Def = limited::<Clip>();

struct Clip;

impl Limited for Clip {
    const NAME: &'static str = "Clip";
    const LIMITS: [&'static str; 2] = ["min", "max"];
    // OpenCL leaves `fmin` and `fmax` of NaN undefined, so the limits are compared explicitly.
    const OPENCL: &'static str = "(x < low ? low : x) > high ? high : (x < low ? low : x)";

    #[inline]
    fn apply<T: Number>(x: T, low: T, high: T) -> T {
        let x = if x < low { low } else { x };
        if x > high { high } else { x }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn either_bound_is_optional() {
        let x = tensor(&[4], &[-2f32, f32::NAN, 0.5, 9.0]);
        let run = bench("Clip").input(x.clone()).constant(tensor(&[], &[-1f32]));
        let y = run.input(tensor(&[1], &[6f32])).one().values::<f32>();
        assert_eq!(y[..1], [-1.0]);
        assert_eq!(y[2..], [0.5, 6.0]);
        assert!(y[1].is_nan());
        let y = bench("Clip").input(x.clone()).absent().input(tensor(&[], &[1f32])).one();
        assert_eq!(y.values::<f32>()[2..], [0.5, 1.0]);
        let y = bench("Clip").input(x).one().values::<f32>();
        assert_eq!(y[2..], [0.5, 9.0]);
    }

    #[test]
    fn integer_bounds_have_the_type_of_the_elements() {
        let x = tensor(&[3], &[0u8, 100, 255]);
        let y = bench("Clip").input(x.clone()).input(tensor(&[], &[7u8])).one();
        assert_eq!(y.values::<u8>(), [7, 100, 255]);
        let y = bench("Clip").input(x).absent().absent().one();
        assert_eq!(y.values::<u8>(), [0, 100, 255]);
    }

    #[test]
    fn a_lower_bound_above_the_upper_one_gives_the_upper_one() {
        let run = bench("Clip").input(tensor(&[2], &[-9i32, 9]));
        let y = run.input(tensor(&[], &[5i32])).input(tensor(&[], &[3i32])).one();
        assert_eq!(y.values::<i32>(), [3, 3]);
    }
}
