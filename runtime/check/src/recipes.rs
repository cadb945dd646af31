//! Hand-written nodes of operators whose inputs need specific shapes or values, by operator name.

use std::sync::Arc;

use udo_api::{Core, CoreKind, DType, OpDef, Shape, TensorDesc, TypeSet};
use udo_host::{Buffer, ParamSetting};

use crate::node::Input;
use crate::params;
use crate::values::{Fill, Random, encoding_of, fill};

/// A description of a node.
pub(crate) struct Recipe {
    op: &'static str,
    inputs: &'static [InputSpec],
    params: &'static [(&'static str, ParamSpec)],
}

/// An input.
#[derive(Clone, Copy)]
enum InputSpec {
    /// An omitted input.
    Absent,
    /// A run-time input with these dimensions.
    Run(&'static [usize]),
    /// Constant integers.
    Ints(&'static [i64]),
    /// Constant floats, with their dimensions.
    Floats(&'static [f32], &'static [usize]),
    /// A constant of one-byte elements, with its dimensions.
    Bytes(&'static [u8], &'static [usize]),
    /// A run-time input of one-byte elements, with these dimensions.
    Stored(&'static [usize]),
}

/// A parameter.
#[derive(Clone, Copy)]
enum ParamSpec {
    Int(i64),
    Ints(&'static [i64]),
    Text(&'static str),
}

const fn recipe(
    op: &'static str,
    inputs: &'static [InputSpec],
    params: &'static [(&'static str, ParamSpec)],
) -> Recipe {
    Recipe { op, inputs, params }
}

use InputSpec::{Absent, Bytes, Floats, Ints, Run, Stored};

/// The scale and the zero point of a quantized tensor.
const STEP: [InputSpec; 2] = [Floats(&[0.04], &[]), Bytes(&[9], &[])];

const RECIPES: &[Recipe] = &[
    recipe("AffineGrid", &[Run(&[2, 2, 3]), Ints(&[2, 3, 4, 5])], &[]),
    recipe("BitShift", &[Run(&[3, 5]), Run(&[3, 5])], &[("direction", ParamSpec::Text("LEFT"))]),
    recipe("BitShift", &[Run(&[7]), Run(&[7])], &[("direction", ParamSpec::Text("RIGHT"))]),
    recipe("CausalConvWithState", &[Run(&[2, 3, 5]), Run(&[3, 1, 3])], &[]),
    recipe(
        "CausalConvWithState",
        &[Run(&[1, 2, 7]), Run(&[2, 1, 2]), Run(&[2]), Run(&[1, 2, 1])],
        &[("activation", ParamSpec::Text("silu"))],
    ),
    recipe("Col2Im", &[Run(&[1, 8, 9]), Ints(&[4, 4]), Ints(&[2, 2])], &[]),
    recipe("ConvTranspose", &[Run(&[1, 3, 4, 5]), Run(&[3, 2, 3, 2])], &[]),
    recipe("ConvTranspose", &[Run(&[2, 2, 7]), Run(&[2, 3, 2]), Run(&[3])], &[]),
    recipe("DFT", &[Run(&[2, 8, 1])], &[]),
    recipe("DFT", &[Run(&[1, 5, 2])], &[]),
    recipe("DeformConv", &[Run(&[1, 2, 5, 5]), Run(&[3, 2, 2, 2]), Run(&[1, 8, 4, 4])], &[]),
    recipe("Det", &[Run(&[2, 3, 3])], &[]),
    recipe(
        "DynamicQuantizeLSTM",
        &[
            Run(&[3, 2, 4]),
            Run(&[1, 4, 20]),
            Run(&[1, 5, 20]),
            Absent,
            Absent,
            Absent,
            Absent,
            Absent,
            Floats(&[0.03], &[1]),
            Bytes(&[3], &[1]),
            Floats(&[0.02], &[1]),
            Bytes(&[5], &[1]),
        ],
        &[("hidden_size", ParamSpec::Int(5))],
    ),
    recipe("Einsum", &[Run(&[3, 4]), Run(&[4, 5])], &[("equation", ParamSpec::Text("ij,jk->ik"))]),
    recipe(
        "GRU",
        &[Run(&[3, 2, 4]), Run(&[1, 15, 4]), Run(&[1, 15, 5])],
        &[("hidden_size", ParamSpec::Int(5))],
    ),
    recipe(
        "LSTM",
        &[Run(&[3, 2, 4]), Run(&[1, 20, 4]), Run(&[1, 20, 5])],
        &[("hidden_size", ParamSpec::Int(5))],
    ),
    recipe(
        "RNN",
        &[Run(&[3, 2, 4]), Run(&[1, 5, 4]), Run(&[1, 5, 5])],
        &[("hidden_size", ParamSpec::Int(5))],
    ),
    recipe("STFT", &[Run(&[2, 9, 1]), Ints(&[2]), Run(&[4])], &[]),
    recipe("STFT", &[Run(&[1, 12, 1]), Ints(&[3]), Absent, Ints(&[5])], &[]),
    recipe(
        "GroupQueryAttention",
        &[
            Run(&[1, 3, 16]),
            Run(&[1, 3, 8]),
            Run(&[1, 3, 8]),
            Absent,
            Absent,
            Ints(&[2]),
            Ints(&[3]),
        ],
        &[("num_heads", ParamSpec::Int(2)), ("kv_num_heads", ParamSpec::Int(1))],
    ),
    recipe(
        "GatherBlockQuantized",
        &[Stored(&[5, 16]), Ints(&[4, 0, 2]), Run(&[5, 2])],
        &[("block_size", ParamSpec::Int(16))],
    ),
    recipe("GridSample", &[Run(&[1, 2, 4, 5]), Run(&[1, 3, 3, 2])], &[]),
    recipe(
        "LinearAttention",
        &[Run(&[1, 3, 8]), Run(&[1, 3, 4]), Run(&[1, 3, 6])],
        &[
            ("q_num_heads", ParamSpec::Int(2)),
            ("kv_num_heads", ParamSpec::Int(1)),
            ("update_rule", ParamSpec::Text("linear")),
        ],
    ),
    recipe(
        "MaxRoiPool",
        &[Run(&[1, 2, 6, 6]), Floats(&[0.0, 0.0, 0.0, 3.0, 3.0], &[1, 5])],
        &[("pooled_shape", ParamSpec::Ints(&[2, 2]))],
    ),
    recipe(
        "MatMulNBits",
        &[Run(&[3, 32]), Run(&[4, 1, 16]), Run(&[4, 1])],
        &[("K", ParamSpec::Int(32)), ("N", ParamSpec::Int(4)), ("block_size", ParamSpec::Int(32))],
    ),
    recipe("NonMaxSuppression", &[Run(&[1, 6, 4]), Run(&[1, 2, 6])], &[]),
    recipe("OneHot", &[Run(&[3, 2]), Ints(&[4]), Run(&[2])], &[]),
    recipe("Pad", &[Run(&[3, 5]), Ints(&[1, 0, 0, 2])], &[]),
    recipe("Pad", &[Run(&[1, 2, 3, 4]), Ints(&[0, 0, 1, 2, 0, 0, 2, 1])], &[]),
    recipe(
        "QGemm",
        &[Run(&[3, 5]), STEP[0], STEP[1], Run(&[5, 4]), STEP[0], STEP[1], Absent, STEP[0], STEP[1]],
        &[],
    ),
    recipe(
        "QLinearConcat",
        &[STEP[0], STEP[1], Stored(&[2, 3]), STEP[0], STEP[1], Stored(&[2, 4]), STEP[0], STEP[1]],
        &[("axis", ParamSpec::Int(1))],
    ),
    recipe(
        "QLinearConv",
        &[
            Run(&[1, 3, 4, 5]),
            STEP[0],
            STEP[1],
            Run(&[2, 3, 2, 2]),
            STEP[0],
            STEP[1],
            STEP[0],
            STEP[1],
        ],
        &[],
    ),
    recipe("Resize", &[Run(&[1, 2, 3, 4]), Absent, Absent, Ints(&[1, 2, 5, 7])], &[]),
    recipe(
        "Resize",
        &[Run(&[1, 2, 3, 4]), Absent, Floats(&[1.0, 1.0, 2.0, 1.5], &[4])],
        &[("mode", ParamSpec::Text("linear"))],
    ),
    recipe(
        "RoiAlign",
        &[Run(&[1, 2, 6, 6]), Floats(&[0.5, 0.5, 3.0, 3.5], &[1, 4]), Ints(&[0])],
        &[("output_height", ParamSpec::Int(2)), ("output_width", ParamSpec::Int(3))],
    ),
    recipe("RotaryEmbedding", &[Run(&[1, 2, 3, 4]), Run(&[1, 3, 2]), Run(&[1, 3, 2])], &[]),
    recipe("Where", &[Run(&[2, 5]), Run(&[2, 5]), Run(&[2, 5])], &[]),
];

/// Returns the recipes of an operator.
pub(crate) fn for_op(op: &str) -> impl Iterator<Item = &'static Recipe> {
    RECIPES.iter().filter(move |recipe| recipe.op == op)
}

impl Recipe {
    /// Builds the inputs and parameters of the node for ports of these types; `None` if they do not fit. Run-time
    /// inputs get encodings on a core that requires them.
    pub(crate) fn build(
        &self,
        op: &OpDef,
        types: impl Fn(usize, &[TensorDesc]) -> TypeSet,
        core: Core,
    ) -> Option<(Vec<Input>, params::Params)> {
        let mut inputs = Vec::new();
        let mut descs: Vec<TensorDesc> = Vec::new();
        for (port, of) in self.inputs.iter().enumerate() {
            let types = types(port, &descs);
            let same = descs.first().and_then(TensorDesc::dtype).filter(|own| types.has(*own));
            let mut all = types.iter();
            let (dtype, dims, bytes) = match of {
                Absent => {
                    let desc = TensorDesc::ABSENT;
                    descs.push(desc);
                    inputs.push(Input { desc, dims: Vec::new(), constant: None });
                    continue;
                }
                Run(dims) => {
                    let dtype =
                        same.or_else(|| all.find(|own| own.is_float()).or(types.iter().next()))?;
                    (dtype, dims.to_vec(), None)
                }
                Ints(values) => {
                    let dtype = [DType::I64, DType::I32].into_iter().find(|own| types.has(*own))?;
                    let element = |value: &i64| value.to_le_bytes().into_iter();
                    let bytes =
                        values.iter().flat_map(|value| element(value).take(dtype.size_bytes()));
                    (dtype, vec![values.len()], Some(bytes.collect()))
                }
                Floats(values, dims) => {
                    let dtype = all.find(|own| *own == DType::F32)?;
                    let bytes: Vec<u8> =
                        values.iter().flat_map(|value| value.to_ne_bytes()).collect();
                    (dtype, dims.to_vec(), Some(bytes))
                }
                Bytes(_, dims) | Stored(dims) => {
                    let small = |own: &DType| own.size_bytes() == 1 && *own != DType::Bool;
                    let before = descs.iter().filter_map(TensorDesc::dtype).find(small);
                    let dtype = before.filter(|own| types.has(*own)).or_else(|| all.find(small))?;
                    let bytes =
                        if let Bytes(values, _) = of { Some(values.to_vec()) } else { None };
                    (dtype, dims.to_vec(), bytes)
                }
            };
            let mut desc = TensorDesc::new(dtype, Shape::new(&dims).ok()?);
            let is_stored = core.kind() == Some(CoreKind::Dsp) && bytes.is_none();
            if let Some(encoding) = encoding_of(dtype, &[-3.0, 4.0]).filter(|_| is_stored) {
                desc = desc.with_encoding(encoding);
            }
            let constant = match bytes {
                Some(bytes) => Some(Arc::new(Buffer::from_bytes(&bytes).ok()?)),
                None if op.schema().input(port)?.wants_constant() => {
                    let bytes = fill(&desc, &dims, Fill::Positive, &mut Random::new(0xc1));
                    Some(Arc::new(Buffer::from_bytes(&bytes).ok()?))
                }
                None => None,
            };
            descs.push(desc);
            inputs.push(Input { desc, dims, constant });
        }
        let mut params = params::guesses(op, 2).into_iter().next()?;
        for (name, set) in self.params {
            let slot = params.iter_mut().find(|(own, _)| own == name)?;
            slot.1 = match set {
                ParamSpec::Int(value) => ParamSetting::Int(*value),
                ParamSpec::Ints(values) => ParamSetting::Ints(values.to_vec()),
                ParamSpec::Text(text) => ParamSetting::Text((*text).to_owned()),
            };
        }
        Some((inputs, params))
    }
}
