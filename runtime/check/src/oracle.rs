//! What results should be: what another kernel, which is trusted, makes of the same numbers.
//!
//! An executable reference of the operator belongs here as the first source, before those below.

use udo_api::{Core, DType, TensorDesc};
use udo_runtime::registry::KernelEntry;

use crate::node::{Input, Node, inferred};
use crate::subject::{Opened, Subject, fits};
use crate::trial::{How, Trial};
use crate::values::{numbers, push};

/// Whose results are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    op: &'static udo_api::OpDef,
    kernels: Vec<KernelEntry>,
    pub(crate) who: Who,
}

/// Who vouches for results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The package's own kernel on the CPU.
    Cpu,
    /// The built-in operator of the same name.
    Builtin,
}

impl Who {
    pub(crate) const fn said(self) -> &'static str {
        match self {
            Self::Cpu => "the package's kernel on the CPU",
            Self::Builtin => "the built-in operator of this name",
        }
    }
}

/// Wanted numbers of an output, and its extents.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) dims: Vec<usize>,
    pub(crate) numbers: Vec<f64>,
}

/// Those who vouch for an operator, of which there may be none.
pub(crate) fn of(opened: &mut Opened, subject: &Subject) -> Vec<Oracle> {
    let mut oracles = Vec::new();
    if !subject.cpu.is_empty() {
        oracles.push(Oracle { op: subject.op, kernels: subject.cpu.clone(), who: Who::Cpu });
    }
    if let Some((op, kernels)) = opened.builtin(subject.op.schema().name())
        && speaks_alike(subject.op, op)
    {
        oracles.push(Oracle { op, kernels, who: Who::Builtin });
    }
    oracles
}

/// Whether nodes of `own` are nodes of `other` as well: as many ports, and parameters that the other has.
fn speaks_alike(own: &udo_api::OpDef, other: &udo_api::OpDef) -> bool {
    let (own, other) = (own.schema(), other.schema());
    own.inputs().len() == other.inputs().len()
        && own.outputs().len() == other.outputs().len()
        && own.params().iter().all(|param| other.params().iter().any(|p| p.name() == param.name()))
}

impl Oracle {
    /// What it makes of the node, whose elements are `values`; nothing where it does not take it.
    pub(crate) fn wanted(&self, node: &Node, values: &[Vec<u8>]) -> Option<Vec<Wanted>> {
        let (inputs, values): (Vec<_>, Vec<_>) =
            node.inputs.iter().zip(values).map(|(input, bytes)| as_numbers(input, bytes)).unzip();
        let params = self.op.schema().params().iter();
        let params: Vec<_> = params
            .map(|param| {
                let given = node.params.iter().find(|(name, _)| *name == param.name());
                let default = || udo_host::ParamSetting::default_of(param);
                (param.name(), given.map_or_else(default, |(_, setting)| setting.clone()))
            })
            .collect();
        let outputs = inferred(self.op, &inputs, &params, node.outputs.len()).ok()?;
        let outputs: Vec<TensorDesc> = outputs;
        let mut twin = Node { class: node.class, kernel: 0, inputs, params, outputs };
        let fitting = self.kernels.iter().filter(|k| fits(k, &twin.input_descs(), &twin.outputs));
        for kernel in fitting.copied().collect::<Vec<_>>() {
            twin.kernel = 0;
            let Ok(trial) = Trial::new(&twin, &kernel, Core::CPU, 1) else { continue };
            let run = trial.run(&values, How::default()).ok()?;
            let made = run.outputs.into_iter().zip(&twin.outputs);
            let made = made.map(|(made, desc)| Wanted {
                numbers: numbers(desc, &made.bytes),
                dims: made.dims,
            });
            return Some(made.collect());
        }
        None
    }
}

/// The input with what its elements stand for as `f32`, where they are halves or quantized.
fn as_numbers(input: &Input, bytes: &[u8]) -> (Input, Vec<u8>) {
    let is_half = matches!(input.desc.dtype(), Some(DType::F16 | DType::Bf16));
    if !is_half && input.desc.encoding().is_none() {
        return (input.clone(), bytes.to_vec());
    }
    let mut dense = Vec::new();
    for number in numbers(&input.desc, bytes) {
        push(&mut dense, DType::F32, number);
    }
    let desc = TensorDesc::new(DType::F32, input.desc.full_shape());
    let constant = input.constant.as_ref().and_then(|_| udo_host::Buffer::of(&dense).ok());
    let constant = constant.map(std::sync::Arc::new);
    (Input { desc, dims: input.dims.clone(), constant }, dense)
}
