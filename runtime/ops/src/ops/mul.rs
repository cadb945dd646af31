//! Product of two tensors, with broadcasting.

use udo_api::{Error, InferCx, KernelDef, Op, OpDef, OpSchema};

use crate::broadcast::{self, PairFn};
use crate::gpu;
use crate::number::Number;

pub(crate) const OP: OpDef = OpDef::of::<Mul>();
pub(crate) const KERNELS: &[KernelDef] =
    &[broadcast::cpu::<Mul>("Mul"), gpu::pair::<Mul>("Mul"), broadcast::dsp::<Mul>("Mul")];

struct Mul;

impl Op for Mul {
    const SCHEMA: OpSchema = broadcast::schema("Mul");

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        broadcast::infer(cx)
    }
}

impl PairFn for Mul {
    #[inline]
    fn of<T: Number>(a: T, b: T) -> T {
        a.times(b)
    }
}

impl gpu::PairProgram for Mul {
    const NAME: &'static str = "udo_mul";
    const SOURCE: &'static str = include_str!("../kernels/mul.cl");

    fn of(a: f32, b: f32) -> f32 {
        <Self as PairFn>::of(a, b)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Core;

    use crate::testing::{bench, tensor};

    #[test]
    fn products_broadcast() {
        let (a, b) = (tensor(&[2], &[3f64, -2.0]), tensor(&[2, 1], &[2f64, 0.5]));
        assert_eq!(bench("Mul").input(a).input(b).one().values::<f64>(), [6.0, -4.0, 1.5, -1.0]);
    }

    #[test]
    fn the_dsp_multiplies_what_codes_stand_for() {
        let a = tensor(&[2], &[4i8, -4]).encoded(0.5, 0);
        let run = bench("Mul").on(Core::DSP_V68).input(a.clone()).input(a);
        assert_eq!(run.output_encoding(0, 1.0, -1).one().values::<i8>(), [3, 3]);
    }

    #[test]
    fn the_gpu_multiplies() {
        let (a, b) = (tensor(&[2], &[3f32, -2.0]), tensor(&[2], &[2f32, 0.5]));
        let y = bench("Mul").on(Core::GPU).input(a).input(b).one();
        assert_eq!(y.values::<f32>(), [6.0, -1.0]);
    }
}
