//! True for each element that is infinite and of a selected sign.
//!
//! `predicate` builds the operator from `holds`, which gets each element as `f64` and the bool parameters in the order
//! of `PARAMS`; in OpenCL these are `p` and `q`.

use udo_api::{DType, Param, TypeSet, Value, types};

use crate::Def;
use crate::family::elementwise::{Predicate, predicate};

pub(crate) const DEF: Def = predicate::<IsInf>();

struct IsInf;

impl Predicate for IsInf {
    const NAME: &'static str = "IsInf";
    const TYPES: TypeSet = types::FLOATS;
    const PARAMS: &'static [Param] = &[
        Param::scalar("detect_negative", DType::I64).default(Value::int(1)),
        Param::scalar("detect_positive", DType::I64).default(Value::int(1)),
    ];
    const OPENCL: &'static str = "(x == INFINITY && q) || (x == -INFINITY && p)";

    fn holds(x: f64, [negative, positive]: [bool; 2]) -> bool {
        x == f64::INFINITY && positive || x == f64::NEG_INFINITY && negative
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Bool;

    use crate::testing::{bench, tensor};

    #[test]
    fn each_sign_is_detected_only_if_selected() {
        let x = tensor(&[3], &[f32::INFINITY, f32::NEG_INFINITY, f32::MAX]);
        for (negative, positive) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let run = bench("IsInf").input(x.clone());
            let y = run.int("detect_negative", negative).int("detect_positive", positive).one();
            let expected = [positive == 1, negative == 1, false].map(Bool::from);
            assert_eq!(y.values::<Bool>(), expected, "{negative} {positive}");
        }
    }
}
