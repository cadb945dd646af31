//! Attention as fusion passes insert it. A query whose keys are all masked gives NaN, as the unfused nodes do, or zeros
//! if `zero_nan` is set.

use udo_api::{DType, Error, InferCx, Op, OpSchema, Param, Port, Value};

use crate::Def;
use crate::family::attention::{KERNELS_OF_STEPS, MASKS, TYPES, infer};

pub(crate) const DEF: Def = Def::new::<Attention>(KERNELS_OF_STEPS);

struct Attention;

impl Op for Attention {
    const SCHEMA: OpSchema = OpSchema::new(
        "Attention",
        &[
            Port::required("Q", TYPES),
            Port::required("K", TYPES),
            Port::required("V", TYPES),
            Port::optional("attn_mask", MASKS),
        ],
        &[Port::required("Y", TYPES)],
        &[
            Param::scalar("kv_num_heads", DType::I64).optional(),
            Param::scalar("q_num_heads", DType::I64).optional(),
            Param::scalar("scale", DType::F32).optional(),
            // If set, softmax results that are NaN count as 0. They arise if all scores of a query are minus infinity.
            Param::scalar("zero_nan", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        infer(cx)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn queries_without_visible_keys_give_zeros_or_nan() {
        let x = tensor(&[1, 1, 2, 2], &[1f32, 2.0, 3.0, 4.0]);
        let masked = f32::NEG_INFINITY;
        let mask = tensor(&[2, 2], &[masked, masked, masked, 0.0]);
        let run = bench("udo:Attention").input(x.clone()).input(x.clone()).input(x);
        let run = run.input(mask);
        let y = run.clone().int("zero_nan", 1).one().values::<f32>();
        assert_near(&y, &[0.0, 0.0, 3.0, 4.0], 1e-6);
        let y = run.one().values::<f32>();
        assert!(y[0].is_nan() && y[1].is_nan());
        assert_near(&y[2..], &[3.0, 4.0], 1e-6);
    }

    #[test]
    fn nan_in_queries_gives_zeros_only_with_zero_nan() {
        let x = tensor(&[1, 1, 2, 2], &[f32::NAN, 2.0, 3.0, 4.0]);
        let k = tensor(&[1, 1, 2, 2], &[1f32, 2.0, 3.0, 4.0]);
        let run = bench("udo:Attention").input(x).input(k.clone()).input(k);
        let y = run.clone().int("zero_nan", 1).one().values::<f32>();
        assert!(y[..2] == [0.0, 0.0] && y[2..].iter().all(|y| y.is_finite()));
        let y = run.one().values::<f32>();
        assert!(y[..2].iter().all(|y| y.is_nan()) && y[2..].iter().all(|y| y.is_finite()));
    }
}
