//! Quotient of two tensors, with broadcasting. Integers lose their fraction; over 0 they give 0.

use udo_api::{Error, InferCx, KernelDef, Op, OpDef, OpSchema};

use crate::broadcast::{self, PairFn};
use crate::number::Number;

pub(crate) const OP: OpDef = OpDef::of::<Div>();
pub(crate) const KERNELS: &[KernelDef] = &[broadcast::cpu::<Div>("Div")];

struct Div;

impl Op for Div {
    const SCHEMA: OpSchema = broadcast::schema("Div");

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        broadcast::infer(cx)
    }
}

impl PairFn for Div {
    #[inline]
    fn of<T: Number>(a: T, b: T) -> T {
        a.over(b)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn quotients_broadcast() {
        let run = bench("Div").input(tensor(&[2], &[1f32, -3.0])).input(tensor(&[], &[2f32]));
        assert_eq!(run.one().values::<f32>(), [0.5, -1.5]);
        let run = bench("Div").input(tensor(&[1], &[1f64])).input(tensor(&[2], &[0f64, -4.0]));
        assert_eq!(run.one().values::<f64>(), [f64::INFINITY, -0.25]);
    }

    #[test]
    fn integers_lose_their_fraction_and_survive_zero() {
        let a = tensor(&[4], &[7i8, -7, -128, 5]);
        let run = bench("Div").input(a).input(tensor(&[4], &[2i8, 2, -1, 0]));
        assert_eq!(run.one().values::<i8>(), [3, -3, -128, 0]);
    }
}
