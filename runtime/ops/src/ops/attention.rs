//! ONNX's scaled dot-product attention: `softmax(scale * Q K^T + mask) V`.
//!
//! `infer` and the kernels are those of all attention operators, in `family::attention`.

use udo_api::{DType, Error, InferCx, Op, OpSchema, Param, Port, Value, types};

use crate::Def;
use crate::family::attention::{KERNELS, MASKS, TYPES, infer};

pub(crate) const DEF: Def = Def::new::<Attention>(KERNELS);

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
            // Kernels compute in f32 or wider, so every value of this parameter is satisfied.
            Param::scalar("softmax_precision", DType::I64).optional(),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        infer(cx)
    }
}
