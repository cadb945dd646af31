//! The logistic function of each element.

use udo_api::{Error, Facts, InferCx, KernelDef, Op, OpDef, OpSchema, Port, types};
use udo_simd::math;

use crate::{gpu, map};

pub(crate) const OP: OpDef = OpDef::of::<Sigmoid>();
pub(crate) const KERNELS: &[KernelDef] = &[
    map::cpu::<Sigmoid, f32>("Sigmoid"),
    map::cpu::<Sigmoid, f64>("Sigmoid"),
    gpu::map::<Sigmoid>("Sigmoid"),
];

const TYPES: udo_api::TypeSet = types::F32.or(types::F64).or(types::F16);

pub(super) struct Sigmoid;

impl Op for Sigmoid {
    const SCHEMA: OpSchema =
        OpSchema::new("Sigmoid", &[Port::required("X", TYPES)], &[Port::required("Y", TYPES)], &[])
            .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        map::infer(cx)
    }
}

impl map::MapFn<f32> for Sigmoid {
    #[inline]
    fn of(x: f32) -> f32 {
        1.0 / (1.0 + (-x).exp())
    }

    fn of_all(x: &[f32], y: &mut [f32]) {
        math::sigmoid(x, y);
    }

    fn of_all_in_place(y: &mut [f32]) {
        math::sigmoid_in_place(y);
    }
}

impl map::MapFn<f64> for Sigmoid {
    #[inline]
    fn of(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }
}

impl gpu::MapProgram for Sigmoid {
    const NAME: &'static str = "udo_sigmoid";
    const SOURCE: &'static str = include_str!("../kernels/sigmoid.cl");

    fn of(x: f32) -> f32 {
        <Self as map::MapFn<f32>>::of(x)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Core, Dim, F16};

    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn numbers_lie_on_the_curve() {
        let x = [-100f32, -2.0, -0.1, 0.0, 0.1, 2.0, 100.0];
        let wanted = x.map(|v| 1.0 / (1.0 + (-f64::from(v)).exp()));
        for core in [Core::CPU, Core::GPU] {
            let y = bench("Sigmoid").on(core).input(tensor(&[7], &x)).one();
            assert_near(&y.values::<f32>(), &wanted, 1e-6);
        }
        let halves = x.map(F16::from_f32);
        let y = bench("Sigmoid").on(Core::GPU).input(tensor(&[7], &halves)).one();
        let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
        assert_near(&y, &wanted, 1e-3);
    }

    #[test]
    fn large_tensors_are_shared_out() {
        let x: Vec<f32> = (0..100_003).map(|i| (i % 1000) as f32 * 0.01 - 5.0).collect();
        let wanted: Vec<f64> = x.iter().map(|&v| 1.0 / (1.0 + (-f64::from(v)).exp())).collect();
        for threads in [1, 3] {
            let y = bench("Sigmoid").threads(threads).input(tensor(&[100_003], &x)).one();
            assert_near(&y.values::<f32>(), &wanted, 1e-6);
        }
    }

    #[test]
    fn bounded_shapes_are_those_of_the_run() {
        let x = tensor(&[2], &[0.0f32, 0.0]).bounded(&[Dim::UpTo(40_000)]);
        let y = bench("Sigmoid").input(x).one();
        assert_eq!((y.dims(), y.values::<f32>()), (vec![2], vec![0.5, 0.5]));
    }
}
