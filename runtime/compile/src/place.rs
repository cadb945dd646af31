//! Placement: chooses a core and a kernel for each node of a resolved graph, and records why other cores refused it.
//! The planner then turns the placed graph into steps.

mod affinity;
mod attempt;
mod candidate;
mod constraints;
mod cost_based;
mod epilogue;
mod layers;
mod layout;
mod limits;
mod on_quantized_core;
mod order;
mod partition;
mod ports;
mod price;
mod views;

use std::collections::HashMap;

use udo_api::{Core, EpilogueStep, PortRule, Status, TensorDesc};
use udo_host::{ConstantId, FinalizedKernel, Machine, Refusal, Source};

use crate::compiler::Compiler;
use crate::resolve::{Params, Resolved, TypedGraph};
use udo_engine::cores::opencl::OpenClError;
use udo_engine::cores::{Format, Profile, machine};
use udo_engine::operators::KernelEntry;
use udo_engine::package::{OpenError, PackageId};
use udo_graph::graph::{NodeId, ValueId};
use udo_graph::memory::{Tensor, TensorStorage};

pub use crate::options::{
    Affinity, AffinityError, CoreCosts, Costs, CostsError, Crossing, DSP_ARCHS, Fallback,
    PlaceOptions, core_named,
};
pub use affinity::{pin, pinned};
use candidate::PlaceCandidate;
use constraints::Constraints;
pub use layers::Layers;
pub use limits::takes_numbers;
pub(crate) use views::Readers;

/// A core that refused a node, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreRefusal {
    /// The core.
    pub core: Core,
    /// The reason.
    pub reason: String,
}

/// A constant input in the format that the kernel reads.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    id: ConstantId,
    tensor: Tensor,
    desc: TensorDesc,
}

impl Constant {
    /// Returns the constant as a source for prepacking.
    pub(crate) fn source(&self) -> Source<'_> {
        let (bytes, stable) = (self.tensor.stored(), self.tensor.stable());
        Source { id: self.id, desc: self.desc, bytes, stable }
    }
}

/// A tensor of a node on its core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    /// The value; `None` if the node omits the port.
    pub(crate) value: Option<ValueId>,
    /// The format in which the kernel gets it.
    pub(crate) format: Format,
    /// Whether its rows may be strided.
    pub(crate) pitch: Pitch,
}

/// Whether the rows of a call's tensor may be strided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pitch {
    /// Rows must be contiguous.
    Refused,
    /// Rows may have any stride.
    Taken,
    /// Rows may be strided if no other tensor of the call lies between them.
    Alone,
}

impl Pitch {
    /// Returns what a kernel declares for a port.
    pub(crate) fn from_rule(rule: Option<&PortRule>) -> Self {
        match rule {
            Some(rule) if rule.wants_alone() => Self::Alone,
            Some(rule) if rule.takes_pitched() => Self::Taken,
            Some(_) | None => Self::Refused,
        }
    }
}

/// A node with a kernel of its own.
#[derive(Debug)]
pub struct PlacedKernel {
    /// The core that runs it.
    pub core: Core,
    /// The kernel's table entry.
    pub entry: KernelEntry,
    /// The kernel, finalized for the node.
    pub kernel: FinalizedKernel,
    /// The backend of a GPU kernel: `opencl: <device>` or `work items on host threads`.
    pub backend: Option<String>,
    /// Why the kernel's OpenCL C does not run; `None` if it runs or the kernel has no OpenCL C.
    pub opencl_unused: Option<String>,
    /// The inputs that are known before the run, in the kernel's format.
    pub(crate) constants: Vec<Option<Constant>>,
    /// The node's inputs, then those of the epilogue steps that the kernel does.
    pub(crate) inputs: Vec<Operand>,
    /// The node's outputs; the first one is the result of the last epilogue step.
    pub(crate) outputs: Vec<Operand>,
    /// The parameters, if they differ from the node's.
    params: Option<Params>,
    /// The epilogue steps that the kernel does.
    epilogue: Vec<EpilogueStep>,
    /// The cores that were tried before this one.
    pub refusals: Vec<CoreRefusal>,
    /// Whether the core is a fallback.
    pub fell_back: bool,
}

impl PlacedKernel {
    /// Returns the package that the kernel comes from.
    pub(crate) fn package(&self) -> PackageId {
        self.entry.package
    }
}

/// How a node's outputs are computed.
#[derive(Debug)]
pub enum Choice {
    /// By a kernel of its own.
    Kernel(Box<PlacedKernel>),
    /// By the kernel of an earlier node, before it stores its output.
    Epilogue {
        /// The earlier node.
        of: NodeId,
    },
    /// Not at all: its output is its input.
    Alias,
    /// Not at all: its output is a constant.
    Folded,
    /// By the runtime, which runs a control-flow node itself.
    Control,
}

/// A graph in which every node has a core.
#[derive(Debug)]
pub struct Placement {
    /// The graph.
    pub resolved: Resolved,
    /// How each node is computed.
    pub choices: Vec<Choice>,
    /// The modelled time of nodes and transfers in microseconds, if cores were chosen by cost.
    pub modelled_us: Option<f64>,
    /// The properties of the cores.
    pub profile: Profile,
    /// Whether HTA and DSP form one AIP runtime.
    pub aip: bool,
}

/// The reason why a graph cannot be placed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// No cores were requested.
    #[error("no cores to place the model on")]
    NoCores,
    /// None of the requested cores accepts the node.
    #[error("node {node:?} ({op}) runs on none of the cores asked for: {}", list(.refusals))]
    NoCore {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// Each core's reason.
        refusals: Vec<CoreRefusal>,
    },
    /// A kernel failed in finalize in a way that trying another core must not hide.
    #[error("node {node:?}: package {package}'s {op} on {core} {}", failure(.refusal))]
    Finalize {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// The kernel's package.
        package: String,
        /// The core.
        core: Core,
        /// The failure.
        refusal: Refusal,
    },
    /// A GPU kernel does not compile for the device. Work items on host threads do not replace it silently.
    #[error("node {node:?}: package {package}'s {op} does not run on OpenCL device {device:?}")]
    Device {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// The kernel's package.
        package: String,
        /// The device.
        device: String,
        /// The reason, with the compiler's log.
        #[source]
        source: Box<OpenClError>,
    },
    /// An implementation library cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The options have no costs for a core.
    #[error(transparent)]
    Costs(CostsError),
}

fn list(refusals: &[CoreRefusal]) -> String {
    refusals.iter().map(|r| format!("{}: {}", r.core, r.reason)).collect::<Vec<_>>().join("; ")
}

fn failure(refusal: &Refusal) -> String {
    let when = "in finalize";
    match refusal.status {
        Status::NOT_IMPLEMENTED => format!("{} {when}", refusal.status),
        Status::BAD_CALL => format!("breaks the contract {when}: {}", refusal.message),
        _ => format!("{refusal} {when}"),
    }
}

/// Gives every node the first core that accepts it, and finalizes its kernel for the number of threads in the options.
/// `layers` are the nodes of the model before passes.
///
/// # Errors
/// No core accepts a node, an implementation library cannot be opened, or a kernel failed instead of refusing the node.
pub fn run(
    compiler: &Compiler<'_>,
    resolved: Resolved,
    layers: &Layers,
) -> Result<Placement, PlaceError> {
    let (options, threads) = (&compiler.options.place, compiler.options.threads.get());
    if options.cores.is_empty() {
        return Err(PlaceError::NoCores);
    }
    let (graph, price) = (&resolved.graph, compiler.constants.memory_price());
    let pinned = pinned(&options.affinity);
    let placing = Placing { graph, options, layers, threads, price, pinned };
    let (mut choices, modelled_us) = placing.partitioned(compiler)?;
    let machine = machine(Core::CPU, &options.profile, threads);
    let machine = Machine { memory_price: price, ..machine };
    compiler.constants.set_memory_price(price::settle(graph, &mut choices, machine, compiler));
    Ok(Placement { resolved, choices, modelled_us, profile: options.profile, aip: options.aip })
}

/// A graph whose nodes are being placed.
struct Placing<'a> {
    graph: &'a TypedGraph,
    options: &'a PlaceOptions,
    layers: &'a Layers,
    threads: usize,
    /// The price of a byte of packed constants; see the module `price`.
    price: u32,
    /// The cores that nodes are pinned to, indexed by pin.
    pinned: Vec<Core>,
}

impl Placing<'_> {
    /// Returns the choice for each node under these constraints.
    fn choices(
        &self,
        compiler: &Compiler<'_>,
        constraints: &Constraints,
    ) -> Result<Vec<Choice>, PlaceError> {
        let Self { graph, options, layers, threads, price, ref pinned } = *self;
        let mut choices = Vec::with_capacity(graph.nodes.len());
        let mut produced =
            Produced { values: vec![None; graph.values.len()], stored_by: HashMap::new() };
        for (id, bound) in graph.node_ids().zip(&graph.nodes) {
            if bound.is_folded {
                choices.push(Choice::Folded);
                continue;
            }
            if bound.control.is_some() {
                for &output in &bound.node.outputs {
                    produced
                        .record(output, Some((Core::CPU, Format::from_desc(graph.desc(output)))));
                }
                choices.push(Choice::Control);
                continue;
            }
            let output = bound.node.output(0);
            if let Some(&of) = output.and_then(|value| produced.stored_by.get(&value)) {
                choices.push(Choice::Epilogue { of });
                continue;
            }
            if bound.is_alias {
                produced.record(output, produced.get(bound.node.input(0)));
                choices.push(Choice::Alias);
                continue;
            }
            let (node, constraint) = (&bound.node, constraints.get(id));
            let candidate = PlaceCandidate {
                graph,
                produced: &produced,
                node,
                bound,
                options,
                threads,
                pinned,
                constraint,
                layers,
                price,
            };
            let (placed, steps) = candidate.choose(compiler)?;
            for output in &placed.outputs {
                produced.record(output.value, Some((placed.core, output.format)));
            }
            for value in bound.epilogue.iter().take(steps).flat_map(|step| &step.makes) {
                produced.stored_by.insert(*value, id);
            }
            choices.push(Choice::Kernel(Box::new(placed)));
        }
        Ok(choices)
    }
}

/// Where the values of placed nodes are produced.
struct Produced {
    /// The core and format that each value is produced on and in.
    values: Vec<Option<(Core, Format)>>,
    /// The nodes whose kernels compute these values as part of their epilogue.
    stored_by: HashMap<ValueId, NodeId>,
}

impl Produced {
    fn get(&self, value: Option<ValueId>) -> Option<(Core, Format)> {
        self.values.get(value?.index()).copied().flatten()
    }

    fn knows(&self, value: ValueId) -> bool {
        self.get(Some(value)).is_some()
    }

    fn record(&mut self, value: Option<ValueId>, produced: Option<(Core, Format)>) {
        if let Some(slot) = value.and_then(|v| self.values.get_mut(v.index())) {
            *slot = produced;
        }
    }
}

impl PlaceError {
    /// Returns the package, the operator and the core of a missing kernel whose author must act, if that is the next
    /// step.
    pub fn unfinished(&self) -> Option<(&str, &str, Core)> {
        match self {
            Self::Finalize { package, op, core, refusal, .. }
                if refusal.status == Status::NOT_IMPLEMENTED =>
            {
                Some((package, op, *core))
            }
            _ => None,
        }
    }
}
