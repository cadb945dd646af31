//! Sum of two tensors, with broadcasting.

use udo_api::{Error, InferCx, KernelDef, Op, OpDef, OpSchema};

use crate::broadcast::{self, PairFn};
use crate::gpu;
use crate::number::Number;

pub(crate) const OP: OpDef = OpDef::of::<Add>();
pub(crate) const KERNELS: &[KernelDef] =
    &[broadcast::cpu::<Add>("Add"), gpu::pair::<Add>("Add"), broadcast::dsp::<Add>("Add")];

struct Add;

impl Op for Add {
    const SCHEMA: OpSchema = broadcast::schema("Add");

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        broadcast::infer(cx)
    }
}

impl PairFn for Add {
    #[inline]
    fn of<T: Number>(a: T, b: T) -> T {
        a.plus(b)
    }
}

impl gpu::PairProgram for Add {
    const NAME: &'static str = "udo_add";
    const SOURCE: &'static str = include_str!("../kernels/add.cl");

    fn of(a: f32, b: f32) -> f32 {
        <Self as PairFn>::of(a, b)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Core, Dim, F16};

    use crate::testing::{assert_near, bench, noise, tensor};

    #[test]
    fn shapes_broadcast_from_either_side() {
        let cases: [(&[usize], &[usize], &[usize]); 6] = [
            (&[2, 3], &[2, 3], &[2, 3]),
            (&[2, 3], &[3], &[2, 3]),
            (&[2, 1, 4], &[3, 1], &[2, 3, 4]),
            (&[], &[2, 2], &[2, 2]),
            (&[1, 3, 1], &[2, 1, 4], &[2, 3, 4]),
            (&[0, 3], &[3], &[0, 3]),
        ];
        for (a_dims, b_dims, dims) in cases {
            let a = noise(a_dims.iter().product());
            let b = noise(b_dims.iter().product::<usize>() + 7).split_off(7);
            let y = bench("Add").input(tensor(a_dims, &a)).input(tensor(b_dims, &b)).one();
            assert_eq!(y.dims(), dims);
            let mut wanted = Vec::new();
            for i in 0..dims.iter().product::<usize>() {
                let at = |own: &[usize]| {
                    let (mut rest, mut at, mut step) = (i, 0, 1);
                    for axis in (0..dims.len()).rev() {
                        let place = rest % dims[axis];
                        rest /= dims[axis];
                        let own = (axis + own.len()).checked_sub(dims.len()).map_or(1, |k| own[k]);
                        at += if own == 1 { 0 } else { place * step };
                        step *= own;
                    }
                    at
                };
                wanted.push(f64::from(a[at(a_dims)]) + f64::from(b[at(b_dims)]));
            }
            assert_near(&y.values::<f32>(), &wanted, 1e-6);
        }
    }

    #[test]
    fn integers_wrap() {
        let run = bench("Add").input(tensor(&[2], &[250u8, 1])).input(tensor(&[2], &[10u8, 2]));
        assert_eq!(run.one().values::<u8>(), [4, 3]);
        let run = bench("Add").input(tensor(&[1], &[i64::MAX])).input(tensor(&[1], &[1i64]));
        assert_eq!(run.one().values::<i64>(), [i64::MIN]);
    }

    #[test]
    fn bounded_shapes_are_those_of_the_run() {
        let a = tensor(&[2, 2], &[1i32, 2, 3, 4]).bounded(&[Dim::UpTo(5), Dim::Fixed(2)]);
        let y = bench("Add").input(a).input(tensor(&[1, 2], &[10i32, 20])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5,2]");
        assert_eq!((y.dims(), y.values::<i32>()), (vec![2, 2], vec![11, 22, 13, 24]));
        let a = tensor(&[1], &[1i32]).bounded(&[Dim::UpTo(3)]);
        let b = tensor(&[3], &[1i32, 2, 3]).bounded(&[Dim::UpTo(3)]);
        assert_eq!(bench("Add").input(a).input(b).one().values::<i32>(), [2, 3, 4]);
    }

    #[test]
    fn old_nodes_say_where_the_second_operand_lies() {
        let node = |b_dims: &[usize], b: &[i32]| {
            let a = tensor(&[2, 2, 2], &[0i32, 1, 2, 3, 4, 5, 6, 7]);
            bench("Add").opset(6).int("broadcast", 1).input(a).input(tensor(b_dims, b))
        };
        let y = node(&[2], &[10, 20]).one();
        assert_eq!(y.values::<i32>(), [10, 21, 12, 23, 14, 25, 16, 27]);
        let y = node(&[2], &[10, 20]).int("axis", 1).one();
        assert_eq!(y.values::<i32>(), [10, 11, 22, 23, 14, 15, 26, 27]);
        let y = node(&[2, 2], &[10, 20, 30, 40]).int("axis", 0).one();
        assert_eq!(y.values::<i32>(), [10, 11, 22, 23, 34, 35, 46, 47]);
        let error = node(&[2, 2], &[0; 4]).int("axis", 2).error();
        assert_eq!(error, "input 1 is i32[2,2], wanted what fits into i32[2,2,2] from axis 2 on");
        let error = node(&[2], &[0; 2]).int("axis", 1).opset(7).error();
        assert_eq!(error, "parameter \"axis\" is given, wanted none from opset 7 on");
    }

    #[test]
    fn shapes_that_do_not_broadcast_are_named() {
        let run = bench("Add").input(tensor(&[2], &[0f32; 2])).input(tensor(&[3], &[0f32; 3]));
        assert_eq!(run.error(), "shapes [2] and [3] do not broadcast");
    }

    #[test]
    fn the_dsp_adds_what_codes_stand_for() {
        let a = tensor(&[1, 2], &[12u8, 200]).encoded(0.5, 10);
        let b = tensor(&[2, 1], &[5u8, 255]).encoded(1.0, 5);
        let y = bench("Add").on(Core::DSP_V68).input(a).input(b).output_encoding(0, 2.0, 3).one();
        // (1, 95) + (0, 250), in steps of 2 from 3; half steps go to the even one.
        assert_eq!(y.values::<u8>(), [3, 51, 129, 175]);
    }

    #[test]
    fn the_gpu_adds_scalars_and_halves() {
        let a = tensor(&[3], &[1f32, 2.0, 3.0]);
        let y = bench("Add").on(Core::GPU).input(a).input(tensor(&[], &[0.5f32])).one();
        assert_eq!(y.values::<f32>(), [1.5, 2.5, 3.5]);
        let half = |v: f32| F16::from_f32(v);
        let a = tensor(&[2], &[half(1.0), half(2.0)]);
        let y = bench("Add").on(Core::GPU).input(a.clone()).input(a).one();
        assert_eq!(y.values::<F16>(), [half(2.0), half(4.0)]);
        let run = bench("Add").on(Core::GPU).input(tensor(&[2, 2], &[0f32; 4]));
        let error = run.input(tensor(&[2], &[0f32; 2])).error();
        assert_eq!(error, "an input is f32[2], wanted f32[2,2] or one element");
    }
}
