//! The greatest of any number of tensors, with broadcasting. A NaN is greater than any number.

use udo_api::{TypeSet, types};

use crate::Def;
use crate::family::elementwise::{Repeated, repeated};
use crate::family::reduce::{Accumulate, Greatest};
use crate::number::Number;

pub(crate) const DEF: Def = repeated::<Max>();

struct Max;

impl Repeated for Max {
    const NAME: &'static str = "Max";
    const OUTPUT: &'static str = "max";
    const TYPES: TypeSet = types::F32.or(types::F64).or(types::INTS);
    const TEST: fn(f64, f64) -> f64 = f64::max;

    #[inline]
    fn of<T: Number>(a: T, b: T) -> T {
        Greatest::take(a, b)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn a_nan_stays_on_either_side() {
        let run = bench("Max").input(tensor(&[2], &[f32::NAN, 1.0]));
        let y = run.input(tensor(&[2], &[1.0, f32::NAN])).one();
        assert_near(&y.values::<f32>(), &[f64::NAN; 2], 0.0);
    }
}
