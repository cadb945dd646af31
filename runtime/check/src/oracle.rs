//! Oracles: the config's reference, or another kernel on the same values, compute the expected results.

use udo_api::{Core, DType, TensorDesc};
use udo_engine::operators::KernelEntry;
use udo_reference::Program;
use udo_testing::How;

use crate::expected::{Expected, OracleKind};
use crate::node::{Input, Node, inferred};
use crate::reference;
use crate::subject::{Opened, Subject, fits};
use crate::trial::{Site, Trial};
use crate::values::{numbers, push, range_of};

/// A source of expected results.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    source: Source,
    pub(crate) kind: OracleKind,
}

/// The kind of an oracle.
#[derive(Clone, Debug)]
enum Source {
    Reference(Box<Program>),
    Kernels {
        op: &'static udo_api::OpDef,
        kernels: Vec<KernelEntry>,
    },
    /// The expected results recorded in a capture.
    Recorded(Vec<Option<Expected>>),
}

/// Returns the operator's oracles; there may be none.
pub(crate) fn oracles(
    opened: &mut Opened,
    subject: &Subject,
    reference: Option<Program>,
) -> Vec<Oracle> {
    let mut oracles = Vec::new();
    if let Some(program) = reference {
        oracles.push(Oracle {
            source: Source::Reference(Box::new(program)),
            kind: OracleKind::Reference,
        });
    }
    if !subject.cpu.is_empty() {
        let source = Source::Kernels { op: subject.op, kernels: subject.cpu.clone() };
        oracles.push(Oracle { source, kind: OracleKind::Cpu });
    }
    if let Some((op, kernels)) = opened.builtin(subject.op.schema().name())
        && has_same_interface(subject.op, op)
    {
        oracles.push(Oracle { source: Source::Kernels { op, kernels }, kind: OracleKind::Builtin });
    }
    oracles
}

/// Whether `other` accepts the nodes of `own`: the same number of ports, and all parameters.
fn has_same_interface(own: &udo_api::OpDef, other: &udo_api::OpDef) -> bool {
    let (own, other) = (own.schema(), other.schema());
    own.inputs().len() == other.inputs().len()
        && own.outputs().len() == other.outputs().len()
        && own.params().iter().all(|param| other.params().iter().any(|p| p.name() == param.name()))
}

impl Oracle {
    /// Returns the oracle of a capture's expected results.
    pub(crate) fn recorded(wanted: Vec<Option<Expected>>) -> Self {
        Self { source: Source::Recorded(wanted), kind: OracleKind::Recorded }
    }

    /// Computes the expected results of the node on `values`; `None` if the oracle does not cover it.
    pub(crate) fn expected(&self, node: &Node, values: &[Vec<u8>]) -> Option<Vec<Expected>> {
        match &self.source {
            Source::Reference(program) => reference::expected(program, node, values),
            Source::Kernels { op, kernels } => by_kernels(op, kernels, node, values),
            Source::Recorded(wanted) => wanted.iter().cloned().collect(),
        }
    }

    /// Computes the results before they are quantized, to choose output encodings from. The outputs need no encodings.
    pub(crate) fn real(&self, node: &Node, values: &[Vec<u8>]) -> Option<Vec<Expected>> {
        let real = |desc: &TensorDesc| match desc.dtype().and_then(range_of) {
            Some(_) => TensorDesc::new(DType::F32, desc.full_shape()),
            None => *desc,
        };
        let outputs = node.outputs.iter().map(real).collect();
        self.expected(&Node { outputs, ..node.clone() }, values)
    }

    /// Returns the reference, if this oracle is one.
    pub(crate) fn program(&self) -> Option<&Program> {
        match &self.source {
            Source::Reference(program) => Some(program),
            Source::Kernels { .. } | Source::Recorded(_) => None,
        }
    }
}

/// Runs a CPU kernel on the node's dequantized values; `None` if no kernel accepts it.
fn by_kernels(
    op: &'static udo_api::OpDef,
    kernels: &[KernelEntry],
    node: &Node,
    values: &[Vec<u8>],
) -> Option<Vec<Expected>> {
    let (inputs, values): (Vec<_>, Vec<_>) =
        node.inputs.iter().zip(values).map(|(input, bytes)| as_numbers(input, bytes)).unzip();
    let params = op.schema().params().iter();
    let params: Vec<_> = params
        .map(|param| {
            let given = node.params.iter().find(|(name, _)| *name == param.name());
            let default = || udo_host::ParamSetting::default_of(param);
            (param.name(), given.map_or_else(default, |(_, setting)| setting.clone()))
        })
        .collect();
    let outputs = inferred(op, &inputs, &params, node.outputs.len()).ok()?;
    let outputs: Vec<TensorDesc> = outputs;
    let mut twin = Node { class: node.class, kernel: 0, inputs, params, outputs, fixed: None };
    let fitting = kernels.iter().filter(|k| fits(k, &twin.input_descs(), &twin.outputs));
    for kernel in fitting.copied().collect::<Vec<_>>() {
        twin.kernel = 0;
        let Ok(trial) = Trial::new(&twin, &kernel, Site { core: Core::CPU, threads: 1 }, None)
        else {
            continue;
        };
        let run = trial.run(&values, How::default()).ok()?;
        let made = run.outputs.into_iter().zip(&twin.outputs);
        let made = made.map(|(made, desc)| Expected {
            numbers: numbers(desc, &made.bytes),
            dims: Some(made.dims),
            allowed: None,
            integers: None,
        });
        return Some(made.collect());
    }
    None
}

/// Converts an f16, bf16 or quantized input to `f32`.
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
    let constant = input.constant.as_ref().and_then(|_| udo_host::Buffer::from_bytes(&dense).ok());
    let constant = constant.map(std::sync::Arc::new);
    (Input { desc, dims: input.dims.clone(), constant }, dense)
}
