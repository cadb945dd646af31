//! Resolution, the first step of compiling a graph: binds each node to an operator, checks it against the operator's
//! schema, infers the type and shape of every value, and folds constants. The result is a [`TypedGraph`] for passes and
//! placement.

mod advice;
mod apply;
mod choose;
mod control;
mod coverage;
mod cut;
mod defaults;
mod fits;
mod fold;
mod inputs;
mod kernels;
mod missing;
mod open;
mod params;
mod raise;
mod rule;
mod sequence;
mod tensor_layout;
mod typed;
mod upgrade;

use std::ops::RangeInclusive;

use udo_api::{Core, DType, OpDef, Port, Status, TensorDesc, TypeSet};
use udo_host::{NodeDesc, Refusal, infer};

use crate::compiler::Compiler;
pub use crate::options::{BindOptions, Ranges};
use choose::choose;
use fits::check_bounded;
use fold::{fold, unfold};
use kernels::kernels_of;
use sequence::bind_sequence;
use udo_engine::cores::is_quantized;
use udo_engine::exit_guard::{self, PackageCall};
use udo_engine::operators::{OpEntry, Operators};
use udo_engine::package::Package;
use udo_graph::error::quoted;
use udo_graph::graph::{Graph, Node, Source, ValueId};
use udo_graph::memory::{Tensor, TensorStorage};

pub(crate) use apply::apply_to_constant;
pub use control::{Along, Control};
use control::{SubgraphKind, bind_control, bind_rest};
pub use coverage::{Coverage, coverage};
use cut::{Cut, Dependency};
pub use cut::{Part, Want};
use defaults::{fill_defaults, fill_seed};
pub use inputs::{Input, InputShapes, bind};
use missing::List;
pub use missing::{MissingOp, find_operators, missing, needs_package};
pub use params::Params;
pub use raise::raise;
use rule::port_takes;
pub(crate) use rule::{port_rule, port_types, takes_encoding};
use sequence::Sequences;
use tensor_layout::NhwcValues;
pub use typed::{
    BoundNode, EpilogueNode, LayoutRule, Quantized, Step, TypedGraph, TypedValue, Wide,
};
pub use udo_host::ParamSetting;
use upgrade::{RangeEnds, upgrade, widen};
pub use upgrade::{UPGRADES, Upgrade};

/// A resolved graph.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The graph.
    pub graph: TypedGraph,
    /// Notes for the user, such as a package's operator that replaces a built-in one.
    pub notices: Vec<String>,
    /// The nodes that can only be resolved once a run has computed the elements or extents that they depend on.
    pub rest: Option<Part>,
}

/// A mismatch between a node's inputs or outputs and its operator's ports.
#[derive(Debug, thiserror::Error)]
enum PortError {
    #[error("it has {found} inputs, the operator takes {}", .ports.join(", "))]
    Inputs { found: usize, ports: Vec<&'static str> },
    #[error("input {port:?} is {found}, expected {expected}")]
    Type { port: &'static str, found: String, expected: TypeSet },
    #[error("{side} {port:?} is missing")]
    Missing { side: &'static str, port: &'static str },
}

/// The reason why a graph cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No package has some of the operators.
    #[error("{}", List(.all))]
    MissingOps {
        /// All of these operators, in the order of the graph.
        all: Vec<MissingOp>,
    },
    /// Several packages have the operator.
    #[error("node {node:?}: operator {op:?} is in packages {}", .packages.join(", "))]
    Ambiguous {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// The packages' names.
        packages: Vec<String>,
    },
    /// `--bind` names a package that does not have the operator.
    #[error("operator {op:?} is bound to package {package:?}, which does not have it")]
    WrongBind {
        /// The operator type.
        op: String,
        /// The requested package.
        package: String,
    },
    /// The node does not match the schema, or the operator refuses it.
    #[error("node {node:?} ({op}): {reason}")]
    Node {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// The mismatch.
        reason: String,
        /// The next step, where one is known.
        help: Option<String>,
    },
    /// The worker process that runs the operator's code failed.
    #[error("node {node:?} ({op}): {reason}")]
    Worker {
        /// The node.
        node: String,
        /// Its operator type.
        op: String,
        /// The failure.
        reason: String,
    },
    /// A node depends on elements that are not known yet; it is resolved during the run.
    #[error("node {:?} ({}): {}", .0.node, .0.op, .0.reason)]
    Wants(Want),
    /// A graph input's shape is not known.
    #[error("graph input {input:?} has the open shape {dims}, expected a shape for it")]
    OpenShape {
        /// The input.
        input: String,
        /// Its dimensions as the model has them.
        dims: String,
    },
    /// A shape was given that does not match the model's input.
    #[error("graph input {input:?} has the shape {found}, expected one of {wanted}")]
    WrongShape {
        /// The input.
        input: String,
        /// The requested shape.
        found: String,
        /// Its dimensions as the model has them.
        wanted: String,
    },
    /// Two inputs have different extents where the model has one name for both.
    #[error(
        "dimension {name:?} is {} in input {:?} and {} in input {:?}, expected one extent",
        .extents[0], .inputs[0], .extents[1], .inputs[1]
    )]
    UnequalDims {
        /// The name.
        name: String,
        /// The inputs.
        inputs: [String; 2],
        /// Its extents in these inputs.
        extents: [usize; 2],
    },
    /// A named dimension has an extent outside its range.
    #[error("dimension {name:?} is {found}, expected {} to {}", .range.start(), .range.end())]
    OutOfRange {
        /// The name.
        name: String,
        /// The extent given.
        found: usize,
        /// The range that the model was compiled for.
        range: RangeInclusive<usize>,
    },
    /// A range contains no extent.
    #[error("the range {}..{} of dimension {name:?} is empty", .range.start(), .range.end())]
    EmptyRange {
        /// The dimension's name.
        name: String,
        /// The range given.
        range: RangeInclusive<usize>,
    },
    /// A shape was given for an input that the model does not have.
    #[error("the model has no input {name:?}, expected one of {}", quoted(.known))]
    NoSuchInput {
        /// The name given.
        name: String,
        /// The model's inputs.
        known: Vec<String>,
    },
    /// An extent was given for a dimension that the model does not have.
    #[error("no input has a dimension {name:?}, expected one of {}", quoted(.known))]
    NoSuchDim {
        /// The name given.
        name: String,
        /// The names in the model, in its order.
        known: Vec<String>,
    },
    /// A graph output is a sequence of tensors.
    #[error("graph output {output:?} is a sequence of {len} tensors, expected a tensor")]
    SequenceOutput {
        /// The output.
        output: String,
        /// The number of its tensors.
        len: usize,
    },
    /// The graph is inconsistent: an id refers to no node or value.
    #[error("the graph is invalid: {0}")]
    Broken(String),
}

impl ResolveError {
    /// Returns the error of a node that does not match its operator.
    pub(super) fn unfit(node: String, op: String, reason: String) -> Self {
        Self::Node { node, op, reason, help: None }
    }

    /// Returns the next step for the user, where one is known.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::MissingOps { all } if all.iter().any(|missing| missing.bound_to().is_some()) => {
                let flag = |missing: &MissingOp| {
                    Some(format!("--bind {}={}", missing.op, missing.bound_to()?))
                };
                let flags: Vec<String> = all.iter().filter_map(flag).collect();
                Some(format!("{} runs such nodes on the package's operator", flags.join(" ")))
            }
            Self::MissingOps { all } => {
                let op = &all.iter().find(|missing| needs_package(missing))?.op;
                Some(format!(
                    "pass the package that has it with --package, or create one: `udo new` with a config for type {op:?}"
                ))
            }
            Self::Ambiguous { op, packages, .. } => {
                let first = packages.first().map_or("PACKAGE", String::as_str);
                Some(format!("choose one with --bind {op}={first}"))
            }
            Self::WrongBind { .. } => {
                Some("`udo inspect PACKAGE` lists the operators of a package".to_owned())
            }
            Self::OpenShape { input, dims } => {
                let extent = |dim: &str| dim.parse().unwrap_or(1usize).to_string();
                let example: Vec<String> = dims.split(',').map(extent).collect();
                Some(format!(
                    "pass one as in --shape {input}={}, or the input itself",
                    example.join(",")
                ))
            }
            Self::SequenceOutput { .. } => Some(
                "join its tensors with ConcatFromSequence, or make each an output with SequenceAt"
                    .to_owned(),
            ),
            Self::Node { help, .. } => help.clone(),
            Self::Worker { .. }
            | Self::Wants(_)
            | Self::WrongShape { .. }
            | Self::UnequalDims { .. }
            | Self::OutOfRange { .. }
            | Self::EmptyRange { .. }
            | Self::NoSuchInput { .. }
            | Self::NoSuchDim { .. }
            | Self::Broken(_) => None,
        }
    }
}

/// A graph whose nodes are being bound one after another.
struct Binding<'a> {
    options: &'a BindOptions,
    /// The nodes bound so far, and all values.
    graph: TypedGraph,
    notices: Vec<String>,
    /// The values that also exist channels-last, for operators that require it.
    layouts: NhwcValues,
    /// The number of conditional or repeated subgraphs around the current node.
    depth: usize,
    /// The number of values outside the outermost loop around the current node.
    outside_loop: Option<usize>,
    /// The nodes that replace the current node and are bound next, for example those of an `If` branch that always
    /// runs.
    pending: Vec<Node>,
    /// The values that are sequences of tensors.
    sequences: Sequences,
}

/// Binds every node of `graph` and infers every type and shape that is known before a run.
///
/// # Errors
/// A node matches no operator; the error names the node, the operator and the port.
pub fn run(compiler: &Compiler<'_>, graph: Graph) -> Result<Resolved, ResolveError> {
    run_part(compiler, Part::whole(graph))
}

/// Resolves a part of a graph like [`run`]. Some of its constants may have other elements in the next plan.
///
/// # Errors
/// The same as for [`run`].
pub fn run_part(compiler: &Compiler<'_>, part: Part) -> Result<Resolved, ResolveError> {
    let Part { graph, open, .. } = part;
    let options = compiler.bind();
    // Not an error yet: a branch that never runs may contain missing operators.
    let all_missing = missing(compiler.operators, &graph, options);
    let ends = RangeEnds::new(compiler, &graph);
    let shapes = inputs::shapes(&graph, options)?;
    let Graph { name, nodes, values, inputs, captures, outputs, in_place, affinity, .. } = graph;
    // A default that the caller does not override is an ordinary constant from here on.
    let defaults = Vec::new();
    let values = (0..).map(ValueId::new).zip(values);
    let values = values.map(|(id, value)| inputs::typed(value, shapes.get(&id))).collect();
    let source = nodes;
    let nodes = Vec::with_capacity(source.len());
    let mut graph = TypedGraph(Graph {
        name,
        nodes,
        values,
        inputs,
        captures,
        outputs,
        defaults,
        in_place,
        affinity,
        compiled: Vec::new(),
    });
    graph.set_open(&open);
    let (notices, layouts) = (Vec::new(), NhwcValues::default());
    let (depth, outside_loop, pending) = (0, None, Vec::new());
    let sequences = Sequences::default();
    let mut binding =
        Binding { options, graph, notices, layouts, depth, outside_loop, pending, sequences };
    let mut cut = Cut::new(source);
    while let Some(node) = cut.next(&binding.sequences) {
        let (original, mark) = (node.clone(), binding.mark());
        let is_builtin = |node: &Node| {
            let chosen = choose(compiler.operators, node, options);
            chosen.is_ok_and(|(entry, _)| compiler.operators.is_builtin(entry.package))
        };
        let in_run = ends.in_run(&binding.graph, &node).filter(|_| is_builtin(&node));
        let bound = binding.graph.nodes.len();
        match bind_next(compiler, &mut binding, in_run.unwrap_or(node)) {
            Ok(()) => {
                let mut added: Vec<_> = std::mem::take(&mut binding.pending);
                let bound = binding.graph.nodes.iter_mut().skip(bound).map(|bound| &mut bound.node);
                bound.chain(&mut added).for_each(|node| attribute(node, &original));
                cut.prepend(added);
            }
            Err(ResolveError::Wants(want)) => {
                cut.defer(&mut binding, (original, mark), want)?;
            }
            Err(ResolveError::MissingOps { .. }) => {
                return Err(ResolveError::MissingOps { all: all_missing });
            }
            Err(other) => return Err(other),
        }
    }
    let Binding { mut graph, mut notices, layouts, sequences, .. } = binding;
    let rest = cut.finish(&mut graph, &sequences)?;
    sequences.check_outputs(&graph)?;
    notices.extend(rest.as_ref().and_then(|_| ends.notice()));
    layouts.remove_unread(&mut graph);
    unfold(compiler, &mut graph);
    Ok(Resolved { graph, notices, rest })
}

/// Attributes `node` to the model's nodes that `original` stands for, unless it is attributed already.
fn attribute(node: &mut Node, original: &Node) {
    if !node.origin.is_known() {
        (node.origin, node.pin) = (original.origin.clone(), original.pin);
    }
}

/// Adds a node with its operator, after the nodes that must run before it and before those that must run after it.
fn bind_next(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    mut node: Node,
) -> Result<(), ResolveError> {
    if control::is_rest(&node) {
        return bind_rest(compiler, binding, node);
    }
    if bind_sequence(compiler, binding, &node)? {
        return Ok(());
    }
    let mut consumers = rename(compiler, &mut binding.graph, &mut node, binding.options)?;
    let (entry, notice) = choose(compiler.operators, &node, binding.options)?;
    let package_notice = compiler.operators.package(entry.package).and_then(Package::notice);
    for notice in notice.into_iter().chain(package_notice) {
        if !binding.notices.contains(&notice) {
            binding.notices.push(notice);
        }
    }
    if compiler.operators.is_builtin(entry.package) {
        consumers.splice(..0, upgrade(compiler, &mut binding.graph, &mut node)?);
        fill_seed(&mut node, entry.def.schema());
        if let Some(kind) = SubgraphKind::from_op(entry.def) {
            return bind_control(compiler, binding, node, entry, kind);
        }
    }
    let Binding { options, graph, layouts, .. } = binding;
    for transpose in layouts.convert_inputs(graph, &mut node, entry.def.schema()) {
        let (entry, _) = choose(compiler.operators, &transpose, options)?;
        bind_to(compiler, graph, transpose, entry)?;
    }
    let outputs = NhwcValues::nhwc_outputs(graph, &mut node, entry.def.schema());
    bind_to(compiler, graph, node, entry)?;
    for transpose in layouts.convert_outputs(graph, outputs) {
        let (entry, _) = choose(compiler.operators, &transpose, options)?;
        bind_to(compiler, graph, transpose, entry)?;
    }
    consumers.into_iter().try_for_each(|node| bind_builtin(compiler, graph, node))
}

/// Renames a node to the current name of its operator if no operator has the node's own name. Returns the nodes to add
/// after it.
fn rename(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: &mut Node,
    options: &BindOptions,
) -> Result<Vec<Node>, ResolveError> {
    if !upgrade::renames(node) {
        return Ok(Vec::new());
    }
    match choose(compiler.operators, node, options) {
        Err(ResolveError::MissingOps { .. }) => upgrade::apply_upgrades(compiler, graph, node),
        // An operator has this name; if it does not accept the node, the later `choose` reports that.
        Ok(_) | Err(_) => Ok(Vec::new()),
    }
}

/// Adds a node of a built-in operator that the runtime inserts itself.
fn bind_builtin(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: Node,
) -> Result<(), ResolveError> {
    let missing =
        || ResolveError::MissingOps { all: vec![MissingOp::new(&node, compiler.operators)] };
    let entry = builtin_for(compiler.operators, &node).ok_or_else(missing)?;
    bind_to(compiler, graph, node, entry)
}

/// Returns the built-in operator of a node's type and domain.
fn builtin_for(operators: &Operators, node: &Node) -> Option<OpEntry> {
    let is_builtin = |entry: &&OpEntry| {
        operators.is_builtin(entry.package) && entry.def.schema().domain() == node.domain
    };
    operators.ops_named(&node.op).find(is_builtin).copied()
}

/// Adds a node with operator `entry`, and folds it if its inputs are known.
fn bind_to(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: Node,
    entry: OpEntry,
) -> Result<(), ResolveError> {
    let (bound, outputs) = bound_node(compiler, graph, node, entry)?;
    if widen(compiler, graph, &bound, &outputs)? {
        return Ok(());
    }
    add_bound(compiler, graph, bound, outputs)
}

/// Adds a node with these output descriptions, and folds it if its inputs are known.
fn add_bound(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    bound: BoundNode,
    outputs: Vec<TensorDesc>,
) -> Result<(), ResolveError> {
    graph.add(bound, outputs);
    check_bounded(compiler, graph)?;
    fold(compiler, graph);
    Ok(())
}

/// Returns a checked node with operator `entry`, and the descriptions of its outputs.
fn bound_node(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: Node,
    entry: OpEntry,
) -> Result<(BoundNode, Vec<TensorDesc>), ResolveError> {
    let name = node.name.clone();
    let call = PackageCall {
        node: &name,
        package: compiler.operators.package_name(entry.package),
        op: entry.def.schema().name(),
        core: None,
        function: "infer",
    };
    if compiler.operators.is_builtin(entry.package) {
        return exit_guard::with_record(&call, || graph.bound(node, entry));
    }
    graph.copy_constants(&node)?;
    let original = node.clone();
    exit_guard::with_record(&call, || graph.bound(node, entry)).map_err(|error| match error {
        ResolveError::Node { node, op, reason, help: None } => {
            let help = advice::advice(graph, &original, entry.def.schema());
            ResolveError::Node { node, op, reason, help }
        }
        other => other,
    })
}

/// Returns a node of a built-in operator whose outputs have the types and shapes that `graph` has for them, if `core`
/// has a kernel for it. A core that stores quantized values can also run float nodes on CPU kernels.
pub(crate) fn replacement(
    compiler: &Compiler<'_>,
    graph: &mut TypedGraph,
    node: Node,
    core: Core,
) -> Option<BoundNode> {
    let entry = builtin_for(compiler.operators, &node)?;
    let (bound, outputs) = bound_node(compiler, graph, node, entry).ok()?;
    // The encoding of a value comes from the node that is replaced.
    let type_and_shape = |desc: TensorDesc| (desc.dtype(), desc.full_shape());
    let expected = bound.node.outputs.iter().map(|&value| type_and_shape(graph.desc(value)));
    let is_same = expected.eq(outputs.into_iter().map(type_and_shape));
    let is_float = |value: &Option<ValueId>| graph.desc(*value).dtype() == Some(DType::F32);
    let may_use_cpu_kernel = is_quantized(core) && bound.node.outputs.iter().all(is_float);
    let mut cores = [core].into_iter().chain(may_use_cpu_kernel.then_some(Core::CPU));
    let fits = cores.any(|core| {
        let kernels = kernels_of(compiler.operators, &bound, core);
        kernels.iter().any(|entry| graph.fits(&bound, entry.def, core))
    });
    (is_same && fits).then_some(bound)
}

impl TypedGraph {
    /// Adds a node with these output descriptions.
    fn add(&mut self, bound: BoundNode, outputs: Vec<TensorDesc>) {
        for (value, desc) in bound.node.outputs.iter().zip(outputs) {
            if let Some(value) = value.and_then(|v| self.values.get_mut(v.index())) {
                value.desc = desc;
            }
        }
        self.note_rounding(&bound);
        self.nodes.push(bound);
    }

    /// Returns a checked node with operator `entry`, and the descriptions of its outputs.
    fn bound(
        &mut self,
        mut node: Node,
        entry: OpEntry,
    ) -> Result<(BoundNode, Vec<TensorDesc>), ResolveError> {
        let (name, op) = (node.name.clone(), node.op.clone());
        let fail = |reason: String| ResolveError::unfit(name.clone(), op.clone(), reason);
        let params = Params::from_node(&node, entry.def.schema()).map_err(fail)?;
        fill_defaults(self, &mut node, entry.def).map_err(|why| fail(why.to_string()))?;
        self.check_ports(&node, entry.def).map_err(|why| fail(why.to_string()))?;
        self.check_known(&node, entry.def)?;
        let inferred = self.infer(&node, entry.def, &params);
        let mut outputs = inferred.map_err(|refusal| {
            let reason = refusal.to_string();
            if refusal.status == Status::WORKER {
                return ResolveError::Worker { node: name.clone(), op: op.clone(), reason };
            }
            self.want_extents(&node, reason.clone()).unwrap_or_else(|| fail(reason))
        })?;
        if self.shapes_are_open(&node, entry.def, &params, &outputs) {
            outputs.iter_mut().for_each(open::all);
        }
        let OpEntry { package, def: op } = entry;
        let bound = BoundNode {
            node,
            package,
            op,
            params,
            epilogue: Vec::new(),
            layout: None,
            is_alias: false,
            is_folded: false,
            control: None,
        };
        Ok((bound, outputs))
    }

    /// Copies constants that point into the model's file to aligned memory, because packages may rely on the alignment.
    fn copy_constants(&mut self, node: &Node) -> Result<(), ResolveError> {
        for value in node.inputs.iter().flatten() {
            let value = self.values.get_mut(value.index()).map(|value| &mut value.value.source);
            let Some(Source::Constant(tensor)) = value else { continue };
            *tensor = tensor.apart().map_err(|error| {
                let reason = format!("the copy of a constant {error}");
                ResolveError::unfit(node.name.clone(), node.op.clone(), reason)
            })?;
        }
        Ok(())
    }

    /// Returns the node as shape inference sees it. The elements of large constants stay in the model's file.
    fn view<'a>(&'a self, node: &Node, params: &'a Params) -> NodeDesc<'a> {
        NodeDesc {
            inputs: node.inputs.iter().map(|&v| self.desc(v)).collect(),
            constants: node.inputs.iter().map(|&v| self.known(v).map(Tensor::stored)).collect(),
            params: params.settings(),
            output_count: node.outputs.len(),
            opset: node.opset,
        }
    }

    /// Infers the output descriptions of a node, and checks them against the schema.
    fn infer(&self, node: &Node, op: &OpDef, params: &Params) -> Result<Vec<TensorDesc>, Refusal> {
        let wrong = |message| Err(Refusal { status: Status::FAILED, message });
        let view = self.view(node, params);
        let outputs = infer(op, &view)?;
        let schema = op.schema();
        for (index, (value, desc)) in node.outputs.iter().zip(&outputs).enumerate() {
            let Some(port) = schema.output(index) else {
                return wrong(format!(
                    "it has {} outputs, expected at most {}",
                    node.outputs.len(),
                    schema.outputs().len()
                ));
            };
            if value.is_some() && !port_takes(port.types(), desc) {
                return wrong(format!(
                    "shape inference gives output {:?} {desc}, expected {}",
                    port.name(),
                    port.types()
                ));
            }
        }
        Ok(outputs)
    }

    /// Checks the inputs of a node, and the number of its outputs, against the schema.
    fn check_ports(&self, node: &Node, op: &OpDef) -> Result<(), PortError> {
        let schema = op.schema();
        for (index, &value) in node.inputs.iter().enumerate() {
            let Some(port) = schema.input(index) else {
                let ports = schema.inputs().iter().map(Port::name).collect();
                return Err(PortError::Inputs { found: node.inputs.len(), ports });
            };
            let desc = self.desc(value);
            if value.is_some() && !port_takes(port.types(), &desc) {
                let (found, expected) = (desc.to_string(), port.types());
                return Err(PortError::Type { port: port.name(), found, expected });
            }
        }
        for (index, port) in schema.inputs().iter().enumerate() {
            let is_present = node.inputs.get(index).is_some_and(Option::is_some);
            if !is_present && !port.is_optional() {
                return Err(PortError::Missing { side: "input", port: port.name() });
            }
        }
        let outputs = schema.outputs().iter().skip(node.outputs.len());
        match outputs.into_iter().find(|port| !port.is_optional() && !port.is_repeated()) {
            Some(port) => Err(PortError::Missing { side: "output", port: port.name() }),
            None => Ok(()),
        }
    }

    /// Refuses a node whose operator needs an input's elements before the run when they are not known.
    fn check_known(&self, node: &Node, op: &OpDef) -> Result<(), ResolveError> {
        let inputs = node.inputs.iter().enumerate();
        let unknown = inputs.filter_map(|(index, &value)| {
            let port = op.schema().input(index)?;
            (port.wants_constant() && self.known(value).is_none()).then_some((port, value?))
        });
        let (ports, values): (Vec<&Port>, Vec<ValueId>) = unknown.unzip();
        let Some(port) = ports.first() else { return Ok(()) };
        let reason =
            format!("input {:?} is computed, expected a constant in the model", port.name());
        let (node, op) = (node.name.clone(), node.op.clone());
        Err(ResolveError::Wants(Want::new(node, op, reason, (Dependency::Elements, values))))
    }
}
