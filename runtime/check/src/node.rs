//! A node that an operator accepts, with its inputs.

use udo_api::{Core, DType, TensorDesc};
use udo_engine::operators::KernelEntry;
use udo_host::{NodeDesc, ParamSetting, Refusal, infer};

use crate::shapes::Class;
use crate::subject::store_quantized;
use crate::values::{Fill, Random, fill};

/// An input of a node.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// Absent if the node leaves it out.
    pub(crate) desc: TensorDesc,
    /// The dimensions in a run.
    pub(crate) dims: Vec<usize>,
    /// The elements of a constant, aligned to 64 bytes.
    pub(crate) constant: Option<std::sync::Arc<udo_host::Buffer>>,
}

/// A node with its inferred outputs.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) class: Class,
    /// The index of the subject's kernel that accepts the node.
    pub(crate) kernel: usize,
    pub(crate) inputs: Vec<Input>,
    pub(crate) params: Vec<(&'static str, ParamSetting)>,
    pub(crate) outputs: Vec<TensorDesc>,
    /// The elements of all inputs, if a capture provides them.
    pub(crate) fixed: Option<std::sync::Arc<Vec<Vec<u8>>>>,
}

/// The operator set version of the nodes.
pub(crate) const OPSET: u32 = 21;

impl Node {
    pub(crate) fn input_descs(&self) -> Vec<TensorDesc> {
        self.inputs.iter().map(|input| input.desc).collect()
    }

    /// Infers the outputs of the node for its kernel on `core`.
    pub(crate) fn inferred(
        &self,
        kernel: &KernelEntry,
        core: Core,
    ) -> Result<Vec<TensorDesc>, Refusal> {
        let mut outputs = inferred(kernel.op, &self.inputs, &self.params, self.outputs.len())?;
        store_quantized(kernel, core, &self.input_descs(), &mut outputs);
        Ok(outputs)
    }

    /// Returns dense elements for every input; constants keep their own.
    pub(crate) fn values(&self, how: Fill, seed: u64) -> Vec<Vec<u8>> {
        if let Some(fixed) = &self.fixed {
            return fixed.to_vec();
        }
        let mut random = Random::new(seed);
        let inputs = self.inputs.iter();
        inputs
            .map(|input| match &input.constant {
                Some(bytes) => bytes.bytes().to_vec(),
                None => fill(&input.desc, &input.dims, how, &mut random),
            })
            .collect()
    }

    /// Describes the node in a message.
    pub(crate) fn describe(&self, core: Core) -> String {
        let inputs: Vec<String> = self.inputs.iter().map(describe).collect();
        let params = self.params.iter().filter(|(_, setting)| *setting != ParamSetting::Absent);
        let params: Vec<String> = params
            .map(|(name, setting)| format!("{name} = {}", describe_setting(setting)))
            .collect();
        let params =
            if params.is_empty() { String::new() } else { format!(", {}", params.join(", ")) };
        format!("({}{params}) on {core}", inputs.join(", "))
    }

    /// Whether an input has unquantized integers, which may be indices or divisors.
    pub(crate) fn has_integers(&self) -> bool {
        self.inputs.iter().any(|input| {
            let is_float = input.desc.dtype().is_some_and(DType::is_float);
            !input.desc.is_absent() && !is_float && input.desc.encoding().is_none()
        })
    }

    /// Returns the total size of its tensors in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().map(|input| input.desc.size_bytes());
        inputs.chain(self.outputs.iter().map(TensorDesc::size_bytes)).sum()
    }
}

fn describe(input: &Input) -> String {
    let about = match input.desc.encoding() {
        Some(encoding) => format!(" at {} from {}", encoding.scale, encoding.zero_point),
        None => String::new(),
    };
    let constant = if input.constant.is_some() { " constant" } else { "" };
    if input.desc.is_absent() {
        return "-".to_owned();
    }
    let run = if input.desc.full_shape().is_fixed() {
        String::new()
    } else {
        format!(" of {:?}", input.dims)
    };
    let dtype = input.desc.dtype().map_or("?", |dtype| dtype.name());
    format!("{dtype}{}{run}{about}{constant}", input.desc.full_shape())
}

pub(crate) fn describe_setting(setting: &ParamSetting) -> String {
    match setting {
        ParamSetting::Absent => "-".to_owned(),
        ParamSetting::Int(value) => value.to_string(),
        ParamSetting::Float(value) => value.to_string(),
        ParamSetting::Text(value) => format!("{value:?}"),
        ParamSetting::Ints(values) => format!("{values:?}"),
        ParamSetting::Floats(values) => format!("{values:?}"),
        ParamSetting::Texts(values) => format!("{values:?}"),
        ParamSetting::Tensor(_) => "a tensor".to_owned(),
    }
}

/// Builds the description that packages see of a node with these inputs.
pub(crate) fn desc<'a>(
    inputs: &'a [Input],
    params: &'a [(&'static str, ParamSetting)],
    output_count: usize,
) -> NodeDesc<'a> {
    NodeDesc {
        inputs: inputs.iter().map(|input| input.desc).collect(),
        constants: inputs.iter().map(|input| input.constant.as_ref().map(|b| b.bytes())).collect(),
        params,
        output_count,
        opset: OPSET,
    }
}

/// Infers the outputs of such a node.
pub(crate) fn inferred(
    op: &udo_api::OpDef,
    inputs: &[Input],
    params: &[(&'static str, ParamSetting)],
    output_count: usize,
) -> Result<Vec<TensorDesc>, Refusal> {
    infer(op, &desc(inputs, params, output_count))
}
