//! Scaled products of queries and keys, and the values of those keys by the softmax of that.

use udo_api::{
    Bf16, Core, DType, Error, F16, InferCx, KernelDef, Op, OpSchema, Param, Port, TensorDesc,
    TypeSet, Value, input, input_like, output_like, types,
};

use crate::Def;
use crate::family::attention::{
    Exact, MASK, PRESENT_KEY, PRESENT_VALUE, Problem, Q, SCORES, Sizes, Tiled,
};

pub(crate) const DEF: Def = Def::of::<Attention>(KERNELS);

const TYPES: TypeSet = types::F32.or(types::F64).or(types::F16).or(types::BF16);
const MASKS: TypeSet = TYPES.or(types::BOOL);

macro_rules! rules {
    ($types:expr) => {
        &[
            input(0, $types),
            input_like(1, 0),
            input_like(2, 0),
            input(3, $types.or(types::BOOL)),
            input_like(4, 0),
            input_like(5, 0),
            output_like(0, 0),
            output_like(1, 0),
            output_like(2, 0),
            output_like(3, 0),
        ]
    };
}

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Tiled<F16>>("Attention", Core::CPU).ports(rules!(types::F16)),
    KernelDef::new::<Tiled<Bf16>>("Attention", Core::CPU).ports(rules!(types::BF16)),
    // Halves would be converted for it.
    KernelDef::new::<Tiled<f32>>("Attention", Core::CPU).ports(rules!(types::F32)),
    KernelDef::new::<Exact>("Attention", Core::CPU).ports(rules!(types::F64)),
];

struct Attention;

impl Op for Attention {
    const SCHEMA: OpSchema = OpSchema::new(
        "Attention",
        &[
            Port::required("Q", TYPES),
            Port::required("K", TYPES),
            Port::required("V", TYPES),
            Port::optional("attn_mask", MASKS),
            Port::optional("past_key", TYPES),
            Port::optional("past_value", TYPES),
            Port::optional("nonpad_kv_seqlen", types::I64),
        ],
        &[
            Port::required("Y", TYPES),
            Port::optional("present_key", TYPES),
            Port::optional("present_value", TYPES),
            Port::optional("qk_matmul_output", TYPES),
        ],
        &[
            Param::scalar("is_causal", DType::I64).default(Value::int(0)),
            Param::scalar("kv_num_heads", DType::I64).optional(),
            Param::scalar("q_num_heads", DType::I64).optional(),
            Param::scalar("qk_matmul_output_mode", DType::I64).default(Value::int(0)),
            Param::scalar("scale", DType::F32).optional(),
            Param::scalar("softcap", DType::F32).default(Value::float(0.0)),
            // Numbers are computed in single precision at least, whatever it asks for.
            Param::scalar("softmax_precision", DType::I64).optional(),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let q = cx.input(Q)?;
        for port in 1..cx.input_count().min(6) {
            let is_fine = |x: TensorDesc| {
                x.dtype() == q.dtype() || port == MASK && x.dtype() == Some(DType::Bool)
            };
            if cx.has_input(port) && !is_fine(cx.input(port)?) {
                let (found, wanted) = (cx.input(port)?, q.dtype().map_or("a type", DType::name));
                return Err(Error::new(format!("input {port} is {found}, wanted {wanted}")));
            }
        }
        let sizes = Sizes::read(cx)?;
        Problem::read(cx, &sizes)?;
        let shapes = [
            (0, sizes.output()?),
            (PRESENT_KEY, sizes.cache(sizes.depth)?),
            (PRESENT_VALUE, sizes.cache(sizes.width)?),
            (SCORES, sizes.scores()?),
        ];
        for (port, shape) in shapes.into_iter().take(cx.output_count()) {
            cx.set_output(port, q.with_shape(shape))?;
        }
        Ok(())
    }
}
