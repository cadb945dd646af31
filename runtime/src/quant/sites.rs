//! Determines which values of a graph have an encoding, and which of them share one.
//!
//! Operators with a quantized form need encodings of their inputs and outputs. Operators that only move elements keep
//! the encoding of their input.
//!
//! Consecutive elementwise functions are computed as one, so values between them are not quantized, nor is the value
//! between an operator and the only Relu or Clip that reads it.

use std::collections::{BTreeMap, HashMap};

use udo_api::{Core, DType, Encoding, Facts, Side, resolve_axis};

use super::FloatOps;
use super::masks::{self, Masks};
use super::operators::{
    GROUPS, NumberAttrs, PAD, QuantKind, ResultAxis, StoredFor, TRANSPOSED, cuts, is_float,
    is_fused_with_cut, stored_for,
};
use super::range::{Bits, Levels, Range, unbounded};
use udo_compile::resolve::{BoundNode, TypedGraph};
use udo_engine::operators::Operators;
use udo_graph::graph::{Attr, Graph, Links, Node, NodeId, PerValue, Read, ValueId};
use udo_graph::memory::Tensor;

/// A constant that is quantized for one of its consumers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Constant {
    /// Weights, with the axis of the results if several encodings are possible, and the port of the bias.
    Weights {
        /// The axis along which each position may have its own encoding.
        axis: Option<usize>,
        /// The input of the node that is its bias.
        bias: Option<usize>,
    },
    /// An ordinary operand.
    Operand(StoredFor),
}

/// Values that share an encoding.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The value whose elements determine the range.
    pub(super) root: ValueId,
    /// All values in order, including the root.
    pub(super) members: Vec<ValueId>,
    /// The range, if it does not depend on data.
    pub(super) fixed: Option<Range>,
    pub(super) stored_for: StoredFor,
    /// Padding values, with the values that contain them.
    pub(super) padded: Vec<(ValueId, f64)>,
}

/// A value whose only consumer clips it; the clipped value is quantized instead.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// The clipped value.
    pub(super) after: ValueId,
    /// The bounds; `None` if a run computes them.
    bounds: Option<[Option<f32>; 2]>,
    /// Whether both nodes can be one quantized operator.
    is_fused: bool,
}

impl Cut {
    /// Returns whether both nodes are one quantized operator if the result has this encoding: the clip must have no
    /// effect after saturation. Otherwise the value is quantized with the result's encoding, and the clip is computed
    /// from it.
    pub(super) fn is_fused(&self, levels: Levels, encoding: Encoding) -> bool {
        let Some([low, high]) = self.bounds else { return false };
        let stored = |bound: f32| unbounded(encoding, bound);
        self.is_fused
            && low.is_none_or(|low| stored(low) <= f64::from(levels.least))
            && high.is_none_or(|high| stored(high) >= f64::from(levels.most))
    }
}

/// A node that is computed in floating point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloatNode {
    /// Its name.
    pub node: String,
    /// Its operator.
    pub op: String,
}

/// The values and constants of a graph that are quantized.
#[derive(Clone, Debug)]
pub(super) struct Sites {
    pub(super) groups: Vec<Group>,
    /// The group of each value that has one.
    pub(super) of: PerValue<Option<usize>>,
    /// Quantized constants, by node and input.
    pub(super) constants: BTreeMap<(NodeId, usize), Constant>,
    /// The elements of known values that may be quantized.
    pub(super) known: HashMap<ValueId, Tensor>,
    /// Nodes without a quantized form.
    pub(super) floats: Vec<FloatNode>,
    /// The masks in values.
    pub(super) masks: Masks,
    /// Values that are not quantized because a node clips them.
    pub(super) cuts: HashMap<ValueId, Cut>,
}

/// Analyzes a graph, given its resolved form and the same with fused activations and normalizations: values inside
/// these are not quantized.
pub(super) fn find(
    graph: &Graph,
    [typed, fused]: [&TypedGraph; 2],
    operators: &Operators,
    (float_ops, core): (FloatOps, Core),
    bits: Bits,
) -> Sites {
    let of = Survey::new(graph, [typed, fused], operators, core);
    let between = of.between(float_ops, bits);
    let (mut wanted, parents) = of.wanted(&between);
    match float_ops {
        FloatOps::Stored => of.want_all(&mut wanted, &between, StoredFor::Numbers),
        FloatOps::Refused => of.want_all(&mut wanted, &between, StoredFor::Integers),
        FloatOps::Allowed => {}
    }
    let is_empty = wanted.iter().all(|(_, of)| of.is_none());
    if is_empty {
        // If a model consists only of functions and moves, everything is quantized.
        of.want_all(&mut wanted, &between, StoredFor::Integers);
    }
    spread(&mut wanted, &parents);
    let (groups, of_value) = of.groups(&wanted, &parents);
    let constants = of.constants(&of_value);
    let known = of.known(&constants);
    let masks = masks::find(graph, typed, &makers(graph, typed), |bound| {
        operators.is_builtin(bound.package)
    });
    let (floats, cuts) = (of.floats(), of.cuts(bits));
    Sites { groups, of: of_value, constants, known, floats, masks, cuts }
}

/// A graph with what is known of its nodes and values.
struct Survey<'a> {
    graph: &'a Graph,
    /// The core that packages' operators are quantized for.
    core: Core,
    typed: &'a TypedGraph,
    /// Each node, or the fused one in its place.
    nodes: Vec<&'a Node>,
    /// The nodes of packages.
    of_packages: Vec<Option<&'a BoundNode>>,
    forms: Vec<QuantKind>,
    /// Whether each node is elementwise.
    elementwise: Vec<bool>,
    /// The nodes in the newest operator set, by first output.
    own: HashMap<ValueId, &'a BoundNode>,
    producers: PerValue<Option<NodeId>>,
    consumers: PerValue<Vec<(NodeId, Read)>>,
}

/// Operators that only read extents.
const EXTENTS: &[&str] = &["Shape", "Size"];

/// For whom each value is quantized, if it is.
type Needs = PerValue<Option<StoredFor>>;

/// Returns the node that computes each value as its first output.
fn makers<'a>(graph: &Graph, typed: &'a TypedGraph) -> HashMap<ValueId, &'a BoundNode> {
    let first = |bound: &'a BoundNode| Some((bound.node.output(0)?, bound));
    let (own, apart): (Vec<_>, Vec<_>) =
        typed.nodes.iter().filter_map(first).partition(|(id, _)| graph.value(*id).is_ok());
    let mut makers: HashMap<_, _> = own.into_iter().collect();
    // A channels-last value is not the graph's own: a transpose computes that one if it is read.
    for (_, bound) in apart {
        let is_bound = |node: &&Node| (&node.name, &node.op) == (&bound.node.name, &bound.node.op);
        let mut nodes = graph.nodes.iter().filter(is_bound);
        let made = nodes.find(|node| node.origin == bound.node.origin);
        if let Some(made) = made.and_then(|node| node.output(0)) {
            makers.insert(made, bound);
        }
    }
    makers
}

impl<'a> Survey<'a> {
    fn new(
        graph: &'a Graph,
        [typed, fused]: [&'a TypedGraph; 2],
        operators: &Operators,
        core: Core,
    ) -> Self {
        let (before, after) = (makers(graph, typed), makers(graph, fused));
        let (mut nodes, mut forms, mut elementwise) = (Vec::new(), Vec::new(), Vec::new());
        let mut of_packages = Vec::new();
        for node in &graph.nodes {
            let output = node.output(0);
            let [own, bound] =
                [&before, &after].map(|of| output.and_then(|id| of.get(&id)).copied());
            let (node, form) = match (own, bound) {
                (Some(_), None) => (node, QuantKind::Within),
                (Some(own), Some(bound)) if own.node.op != bound.node.op => (
                    &bound.node,
                    QuantKind::from_node(&bound.node, bound, fused, (operators, core)),
                ),
                (_, Some(bound)) => {
                    (node, QuantKind::from_node(node, bound, fused, (operators, core)))
                }
                (None, None) => (node, QuantKind::Float),
            };
            nodes.push(node);
            forms.push(form);
            elementwise.push(bound.is_some_and(|bound| is_elementwise(bound, fused)));
            of_packages.push(bound.filter(|bound| !operators.is_builtin(bound.package)));
        }
        let (producers, consumers) = (graph.producers(), graph.consumers());
        Self {
            graph,
            core,
            typed: fused,
            nodes,
            of_packages,
            forms,
            elementwise,
            own: before,
            producers,
            consumers,
        }
    }

    fn nodes(&self) -> impl Iterator<Item = (NodeId, &'a Node, QuantKind)> {
        let nodes = self.nodes.iter().zip(&self.forms).enumerate();
        nodes.map(|(at, (node, form))| (NodeId::new(at), *node, *form))
    }

    /// Returns whether a value is float and computed by runs.
    fn is_open(&self, id: ValueId) -> bool {
        is_float(self.typed, Some(id)) && self.typed.known(Some(id)).is_none()
    }

    /// Returns a node's float inputs that runs compute.
    fn operands(&self, node: &'a Node) -> impl Iterator<Item = ValueId> {
        node.inputs.iter().flatten().copied().filter(|&id| self.is_open(id))
    }

    fn results(&self, node: &'a Node) -> impl Iterator<Item = ValueId> {
        node.outputs.iter().flatten().copied().filter(|&id| self.is_open(id))
    }

    fn readers(&self, id: ValueId) -> &[(NodeId, Read)] {
        self.consumers.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns the only consumer of a value that is not an output of the graph.
    fn only_reader(&self, id: ValueId) -> Option<NodeId> {
        match self.readers(id) {
            [(reader, Read::Input(_))] if !self.graph.outputs.contains(&id) => Some(*reader),
            _ => None,
        }
    }

    fn form(&self, id: NodeId) -> QuantKind {
        self.forms.get(id.index()).copied().unwrap_or(QuantKind::Float)
    }

    /// Returns the values inside nodes that are computed as one. If everything is quantized, consecutive functions are
    /// separate, because they are one table only if both ends have 8 bits.
    fn between(&self, float_ops: FloatOps, bits: Bits) -> PerValue<bool> {
        // Fixed-point cores have a table for functions of one 8-bit operand.
        let most_operands = match float_ops {
            FloatOps::Allowed => usize::MAX,
            FloatOps::Refused if bits == Bits::Eight => 1,
            FloatOps::Refused | FloatOps::Stored => 0,
        };
        let mut between = PerValue::filled(self.graph, false);
        let mut base: PerValue<Option<ValueId>> = PerValue::filled(self.graph, None);
        for (at, node, form) in self.nodes() {
            let (
                Some(output),
                QuantKind::Function | QuantKind::Own | QuantKind::Fixed(_) | QuantKind::Within,
            ) = (node.output(0), form)
            else {
                continue;
            };
            if form == QuantKind::Within {
                self.results(node).for_each(|id| between.set(id, true));
                continue;
            }
            if cuts(node) && self.cut_before(node).is_some() {
                node.input(0).into_iter().for_each(|cut| between.set(cut, true));
                continue;
            }
            if self.operands(node).count() <= most_operands {
                base.set(output, self.base_of(at, node, &base));
            }
        }
        for (value, of) in base.iter() {
            let is_same = |reader: &NodeId| {
                let node = self.nodes.get(reader.index());
                let output = node.and_then(|node| node.output(0));
                output.and_then(|output| base.get(output).copied()).flatten() == *of
            };
            let readers = self.readers(value);
            let is_within = of.is_some()
                && !readers.is_empty()
                && !self.graph.outputs.contains(&value)
                && readers.iter().all(|(reader, read)| *read != Read::Capture && is_same(reader));
            if is_within {
                between.set(value, true);
            }
        }
        between
    }

    /// Returns the node whose result a clip reads and replaces.
    fn cut_before(&self, node: &Node) -> Option<NodeId> {
        let cut = node.input(0)?;
        self.only_reader(cut)?;
        let before = self.producers.get(cut).copied().flatten()?;
        let is_fused = self.nodes.get(before.index()).is_some_and(|node| is_fused_with_cut(node));
        let stores = matches!(self.form(before), QuantKind::Product { .. } | QuantKind::Own);
        (stores && is_fused).then_some(before)
    }

    /// Returns the values that nodes clip, which are quantized in their place.
    fn cuts(&self, bits: Bits) -> HashMap<ValueId, Cut> {
        let cut = |node: &Node| {
            let (before, after) = (node.input(0)?, node.output(0)?);
            let maker = self.cut_before(node).filter(|_| cuts(node))?;
            // 16-bit sums and means are computed in floating point.
            let is_product = matches!(self.form(maker), QuantKind::Product { .. });
            let maker = *self.nodes.get(maker.index())?;
            let is_plain = ["alpha", "beta"].into_iter().all(|name| {
                maker.float_attr(name).is_none_or(|factor| factor.to_bits() == 1f64.to_bits())
            });
            let is_fused = is_plain && (is_product || bits == Bits::Eight);
            Some((before, Cut { after, bounds: self.bounds(node, after), is_fused }))
        };
        self.nodes.iter().filter_map(|node| cut(node)).collect()
    }

    /// Returns the bounds of a clip; `None` if a run computes them.
    fn bounds(&self, node: &Node, after: ValueId) -> Option<[Option<f32>; 2]> {
        if node.op == "Relu" {
            return Some([Some(0.0), None]);
        }
        let newest = &self.own.get(&after)?.node;
        let bound = |port: usize| match newest.input(port) {
            None => Some(None),
            id => match self.typed.known(id)?.get::<f32>()? {
                [bound] => Some(Some(*bound)),
                _ => None,
            },
        };
        Some([bound(1)?, bound(2)?])
    }

    /// Returns the value that a chain of elementwise functions starts from.
    fn base_of(
        &self,
        id: NodeId,
        node: &'a Node,
        base: &PerValue<Option<ValueId>>,
    ) -> Option<ValueId> {
        let constants = node.inputs.iter().flatten();
        let mut known = constants.filter_map(|&id| self.typed.known(Some(id)));
        let is_elementwise = self.elementwise.get(id.index()) == Some(&true);
        if !is_elementwise || known.any(|tensor| tensor.desc().len() != 1) {
            return None;
        }
        let mut bases = self.operands(node).map(|id| base.get(id).copied().flatten().unwrap_or(id));
        let first = bases.next()?;
        bases.all(|other| other == first).then_some(first)
    }

    /// Returns the values for which operators need an encoding, and for each value the one that it shares its encoding
    /// with.
    fn wanted(&self, between: &PerValue<bool>) -> (Needs, PerValue<Option<ValueId>>) {
        let is_free = |id: &ValueId| between.get(*id) != Some(&true);
        let mut wanted: Needs = PerValue::filled(self.graph, None);
        let asked = Some(StoredFor::Integers);
        let mut parents = PerValue::filled(self.graph, None);
        for (at, node, form) in self.nodes() {
            for (id, stored_for) in
                self.of_ports(at, node).into_iter().filter(|(id, _)| is_free(id))
            {
                let known = wanted.get(id).copied().flatten();
                wanted.set(id, Some(known.map_or(stored_for, |known| known.min(stored_for))));
            }
            match form {
                QuantKind::Product { .. }
                | QuantKind::Own
                | QuantKind::Kernel
                | QuantKind::Fixed(_) => {
                    let values = self.operands(node).chain(self.results(node));
                    values.filter(is_free).for_each(|id| wanted.set(id, asked));
                }
                QuantKind::Moves => {
                    let from = node.input(0).filter(|&id| self.is_open(id) && is_free(&id));
                    let results = self.results(node).filter(|_| from.is_some());
                    results.for_each(|result| parents.set(result, from));
                }
                QuantKind::Function if cuts(node) && self.cut_before(node).is_some() => {
                    self.results(node).for_each(|id| wanted.set(id, asked));
                }
                QuantKind::Ports | QuantKind::Function | QuantKind::Within | QuantKind::Float => {}
            }
        }
        spread(&mut wanted, &parents);
        (wanted, parents)
    }

    /// Returns the values that a package's operator needs quantized.
    fn of_ports(&self, at: NodeId, node: &'a Node) -> Vec<(ValueId, StoredFor)> {
        let Some(bound) = self.of_packages.get(at.index()).copied().flatten() else {
            return Vec::new();
        };
        // An operator that only moves elements keeps the encoding of its first operand, also for its results.
        let (first, outputs) = match self.form(at) {
            QuantKind::Ports => (0, node.outputs.as_slice()),
            QuantKind::Moves => (1, &[][..]),
            _ => return Vec::new(),
        };
        let inputs = node.inputs.iter().enumerate().skip(first);
        let inputs =
            inputs.map(|(index, id)| (*id, stored_for(bound, self.core, (Side::Input, index))));
        let outputs = outputs.iter().enumerate();
        let outputs =
            outputs.map(|(index, id)| (*id, stored_for(bound, self.core, (Side::Output, index))));
        let all = inputs.chain(outputs).filter_map(|(id, stored_for)| id.zip(stored_for));
        all.filter(|(id, _)| self.is_open(*id)).collect()
    }

    /// Quantizes values between nodes even if no operator with a quantized form needs them.
    fn want_all(&self, wanted: &mut Needs, between: &PerValue<bool>, stored_for: StoredFor) {
        for (at, node, form) in self.nodes() {
            // Packages state themselves how values of their operators are stored.
            let is_package = self.of_packages.get(at.index()).is_some_and(Option::is_some);
            let has_float = form == QuantKind::Float && self.results(node).next().is_some();
            let is_known = |id: &ValueId| self.typed.known(Some(*id)).is_some();
            let reads_none =
                EXTENTS.contains(&node.op.as_str()) || node.outputs.iter().flatten().all(is_known);
            if stored_for == StoredFor::Integers && (is_package || has_float || reads_none) {
                continue;
            }
            let values = self.operands(node).chain(self.results(node));
            for id in values.filter(|id| between.get(*id) != Some(&true)) {
                let asked = wanted.get(id).copied().flatten();
                wanted.set(id, asked.or(Some(stored_for)));
            }
        }
    }

    fn groups(
        &self,
        wanted: &Needs,
        parents: &PerValue<Option<ValueId>>,
    ) -> (Vec<Group>, PerValue<Option<usize>>) {
        let mut groups: Vec<Group> = Vec::new();
        let mut of = PerValue::filled(self.graph, None);
        let mut known: HashMap<ValueId, usize> = HashMap::new();
        for (id, stored_for) in wanted.iter().filter_map(|(id, of)| Some((id, (*of)?))) {
            let mut root = id;
            while let Some(parent) = parents.get(root).copied().flatten() {
                root = parent;
            }
            let at = *known.entry(root).or_insert_with(|| {
                let (members, padded) = (Vec::new(), Vec::new());
                groups.push(Group { root, members, fixed: self.fixed(root), stored_for, padded });
                groups.len() - 1
            });
            of.set(id, Some(at));
            groups[at].members.push(id);
            groups[at].padded.extend(self.put_around(id).map(|number| (id, number)));
        }
        (groups, of)
    }

    /// Returns the padding value that was added to the value that this one is computed from, if any.
    fn put_around(&self, id: ValueId) -> Option<f64> {
        let maker = self.producers.get(id).copied().flatten()?;
        let of = self
            .own
            .get(&id)
            .filter(|of| of.node.op == PAD && self.form(maker) == QuantKind::Moves);
        let of = &of?.node;
        let is_constant = match of.attr("mode") {
            Some(Attr::Text(mode)) => mode == "constant",
            _ => true,
        };
        let number = self.typed.known(of.input(2)).and_then(|tensor| tensor.get::<f32>());
        number.filter(|_| is_constant)?.first().copied().map(f64::from)
    }

    /// Returns the range of a value if it does not depend on data.
    fn fixed(&self, id: ValueId) -> Option<Range> {
        match self.form(self.producers.get(id).copied().flatten()?) {
            QuantKind::Fixed(range) => Some(range),
            QuantKind::Product { .. }
            | QuantKind::Own
            | QuantKind::Kernel
            | QuantKind::Ports
            | QuantKind::Moves
            | QuantKind::Function
            | QuantKind::Within
            | QuantKind::Float => None,
        }
    }

    /// Returns for whom a constant of a package's operator is quantized, if it is.
    fn of_constant(&self, at: NodeId, port: usize) -> Option<StoredFor> {
        let bound = self.of_packages.get(at.index()).copied().flatten()?;
        stored_for(bound, self.core, (Side::Input, port))
    }

    /// Returns the constants that are quantized.
    fn constants(&self, of: &PerValue<Option<usize>>) -> BTreeMap<(NodeId, usize), Constant> {
        let mut constants = BTreeMap::new();
        for (at, node, form) in self.nodes() {
            let has_encoding = |id: ValueId| of.get(id).copied().flatten().is_some();
            let is_own = self.graph.nodes.get(at.index()).is_some_and(|own| own.op == node.op);
            if !is_own || !self.operands(node).any(has_encoding) {
                continue;
            }
            for (port, id) in node.inputs.iter().enumerate() {
                let Some(tensor) = self.typed.known(*id) else { continue };
                if tensor.dtype() != DType::F32 || tensor.desc().is_empty() {
                    continue;
                }
                let constant = match form {
                    QuantKind::Product { axis, bias } if port < 2 && bias != Some(port) => {
                        let axis = axis_of(node, axis, port, tensor.dims().len());
                        Constant::Weights { axis, bias }
                    }
                    QuantKind::Own => Constant::Operand(StoredFor::Integers),
                    QuantKind::Ports | QuantKind::Moves => match self.of_constant(at, port) {
                        Some(stored_for) => Constant::Operand(stored_for),
                        None => continue,
                    },
                    QuantKind::Product { .. }
                    | QuantKind::Fixed(_)
                    | QuantKind::Kernel
                    | QuantKind::Function
                    | QuantKind::Within
                    | QuantKind::Float => continue,
                };
                constants.insert((at, port), constant);
            }
        }
        constants
    }

    /// Returns the elements of these constants, and of the other known inputs of their consumers.
    fn known(&self, constants: &BTreeMap<(NodeId, usize), Constant>) -> HashMap<ValueId, Tensor> {
        let nodes = constants.keys().filter_map(|(id, _)| self.graph.nodes.get(id.index()));
        let inputs = nodes.flat_map(|node| node.inputs.iter().flatten().copied());
        inputs.filter_map(|id| Some((id, self.typed.known(Some(id))?.clone()))).collect()
    }

    /// Returns the nodes that compute in floating point, with inputs that runs compute.
    fn floats(&self) -> Vec<FloatNode> {
        let floats = self.nodes().filter(|(_, node, form)| {
            *form == QuantKind::Float && self.results(node).next().is_some()
        });
        let named = |(_, node, _): (_, &Node, _)| FloatNode {
            node: node.name.clone(),
            op: node.op.clone(),
        };
        floats.map(named).collect()
    }
}

/// Propagates needs through nodes that only move elements, in both directions. Integer operators take precedence.
fn spread(wanted: &mut Needs, parents: &PerValue<Option<ValueId>>) {
    let pairs: Vec<(ValueId, ValueId)> =
        parents.iter().filter_map(|(id, parent)| Some((id, (*parent)?))).collect();
    loop {
        let mut has_changed = false;
        for &(id, parent) in &pairs {
            let both = [id, parent].map(|id| wanted.get(id).copied().flatten());
            if both[0] != both[1] {
                let asked = both.into_iter().flatten().min();
                wanted.set(id, asked);
                wanted.set(parent, asked);
                has_changed = true;
            }
        }
        if !has_changed {
            return;
        }
    }
}

/// Lists nodes by operator.
pub(super) fn list(nodes: &[FloatNode]) -> String {
    let mut ops: Vec<(&str, &str, usize)> = Vec::new();
    for FloatNode { node, op } in nodes {
        match ops.iter_mut().find(|(known, ..)| known == op) {
            Some((.., count)) => *count += 1,
            None => ops.push((op, node, 1)),
        }
    }
    let word = |(op, node, count): &(&str, &str, usize)| match count {
        1 => format!("{op} (node {node:?})"),
        _ => format!("{op} ({count} nodes, as {node:?})"),
    };
    ops.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Returns whether a node is elementwise on inputs of one shape.
fn is_elementwise(bound: &BoundNode, typed: &TypedGraph) -> bool {
    let shape = |id| typed.desc(id).full_shape();
    let open = bound.node.inputs.iter().filter(|id| id.is_some() && typed.known(**id).is_none());
    let mut shapes = open.map(|&id| shape(id));
    bound.op.schema().known_facts().has(Facts::ELEMENTWISE)
        && shapes.all(|of| of == shape(bound.node.output(0)))
}

/// Returns the axis of a product's weights along which its results are.
fn axis_of(node: &Node, axis: ResultAxis, port: usize, rank: usize) -> Option<usize> {
    let is_transposed = || node.int_attr(TRANSPOSED) == Some(1);
    let has_groups = || node.int_attr(GROUPS).is_some_and(|groups| groups != 1);
    let axis = match axis {
        ResultAxis::First => 0,
        ResultAxis::Second if has_groups() => return None,
        ResultAxis::Second => 1,
        ResultAxis::Columns => usize::from(!is_transposed()),
        ResultAxis::Last if rank == 2 => 1,
        ResultAxis::Last => return None,
    };
    let axis = i64::try_from(axis).ok().filter(|_| port == 1)?;
    resolve_axis(axis, rank)
}
