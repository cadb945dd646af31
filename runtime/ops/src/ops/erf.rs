//! The error function of each element.

use udo_api::{Error, Facts, InferCx, KernelDef, Op, OpDef, OpSchema, Port, types};
use udo_simd::math;

use crate::map;

pub(crate) const OP: OpDef = OpDef::of::<Erf>();
pub(crate) const KERNELS: &[KernelDef] = &[map::cpu::<Erf, f32>("Erf")];

struct Erf;

impl Op for Erf {
    const SCHEMA: OpSchema = OpSchema::new(
        "Erf",
        &[Port::required("input", types::F32)],
        &[Port::required("output", types::F32)],
        &[],
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        map::infer(cx)
    }
}

impl map::MapFn<f32> for Erf {
    fn of(x: f32) -> f32 {
        let mut one = [x];
        math::erf_in_place(&mut one);
        one[0]
    }

    fn of_all(x: &[f32], y: &mut [f32]) {
        math::erf(x, y);
    }

    fn of_all_in_place(y: &mut [f32]) {
        math::erf_in_place(y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::MapFn;
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn numbers_lie_on_the_curve() {
        let x = [0f32, 0.5, -1.0, 3.0, f32::INFINITY];
        let y = bench("Erf").input(tensor(&[5], &x)).one().values::<f32>();
        let wanted =
            [0.0, 0.520_499_877_813_046_5, -0.842_700_792_949_714_9, 0.999_977_909_503_001_4, 1.0];
        assert_near(&y, &wanted, 1e-6);
        assert_eq!(x.map(Erf::of).to_vec(), y, "one at a time");
    }
}
