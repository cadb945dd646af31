//! Difference of two tensors, with broadcasting.

use udo_api::{Error, InferCx, KernelDef, Op, OpDef, OpSchema};

use crate::broadcast::{self, PairFn};
use crate::number::Number;

pub(crate) const OP: OpDef = OpDef::of::<Sub>();
pub(crate) const KERNELS: &[KernelDef] = &[broadcast::cpu::<Sub>("Sub")];

struct Sub;

impl Op for Sub {
    const SCHEMA: OpSchema = broadcast::schema("Sub");

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        broadcast::infer(cx)
    }
}

impl PairFn for Sub {
    #[inline]
    fn of<T: Number>(a: T, b: T) -> T {
        a.minus(b)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn differences_broadcast_and_wrap() {
        let run = bench("Sub").input(tensor(&[2], &[1u8, 7])).input(tensor(&[1], &[3u8]));
        assert_eq!(run.one().values::<u8>(), [254, 4]);
        let run = bench("Sub").input(tensor(&[], &[1f32])).input(tensor(&[2], &[3f32, 0.5]));
        assert_eq!(run.one().values::<f32>(), [-2.0, 0.5]);
    }
}
