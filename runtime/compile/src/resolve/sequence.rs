//! Sequences of tensors whose length is known while the graph is resolved.
//!
//! A sequence has no memory of its own: it is a list of values, its tensors. Nodes that build, change and
//! read sequences become nodes over those tensors (`SplitToSequence` becomes `Split`, `ConcatFromSequence` becomes
//! `Concat`) or disappear. Passes, placement and plans therefore see no sequences. A length or position that a run
//! computes cuts the graph, like any other elements that a node needs before it is resolved.

use std::collections::BTreeMap;

use udo_api::{Dim, Shape, resolve_axis};

use super::control::{BodyPorts, inline};
use super::{BindOptions, Binding, Dependency, ResolveError, TypedGraph, Want};
use crate::compiler::Compiler;
use crate::resolve::choose::choose;
use udo_engine::operators::Operators;
use udo_graph::graph::{Attr, NEWEST, Node, NodeReads, ValueId};
use udo_graph::memory::Tensor;

/// The longest sequence; a longer one is refused before it takes the memory.
const MAX_LEN: usize = 65_536;

/// Replaces a sequence node by nodes over its tensors.
type Rewrite = fn(&mut Binding<'_>, &Node) -> Result<Vec<Node>, ResolveError>;

/// ONNX's operators whose main purpose is to read or make sequences.
const OPERATORS: &[(&str, Rewrite)] = &[
    ("ConcatFromSequence", concat),
    ("SequenceAt", item),
    ("SequenceConstruct", construct),
    ("SequenceEmpty", construct),
    ("SequenceErase", erase),
    ("SequenceInsert", insert),
    ("SequenceLength", length),
    ("SequenceMap", map),
    ("SplitToSequence", split),
];

/// The sequences of a graph that is being resolved.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    items: BTreeMap<ValueId, Vec<ValueId>>,
    /// The sequences in insertion order.
    added: Vec<ValueId>,
}

impl Sequences {
    /// Returns the tensors of a sequence; `None` if the value is a tensor.
    pub(super) fn items(&self, value: ValueId) -> Option<&[ValueId]> {
        self.items.get(&value).map(Vec::as_slice)
    }

    pub(super) fn add(&mut self, value: ValueId, items: Vec<ValueId>) {
        self.items.insert(value, items);
        self.added.push(value);
    }

    /// Returns the number of sequences, for [`Self::truncate`].
    pub(super) fn len(&self) -> usize {
        self.added.len()
    }

    /// Forgets all but the first `len` sequences.
    pub(super) fn truncate(&mut self, len: usize) {
        for value in self.added.split_off(len.min(self.added.len())) {
            self.items.remove(&value);
        }
    }

    /// Refuses a graph that has a sequence among its outputs.
    pub(super) fn check_outputs(&self, graph: &TypedGraph) -> Result<(), ResolveError> {
        let mut outputs = graph.outputs.iter();
        match outputs.find_map(|&output| Some((output, self.items(output)?))) {
            None => Ok(()),
            Some((output, items)) => Err(ResolveError::SequenceOutput {
                output: graph.name_of(output).to_owned(),
                len: items.len(),
            }),
        }
    }

    /// Returns the tensors that a node reads: its inputs and captures, with each sequence expanded.
    pub(super) fn tensors_read<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = ValueId> + 'a {
        node.reads().flat_map(|(_, value)| {
            let items = self.items(value).unwrap_or_default();
            let tensor = self.items(value).is_none().then_some(value);
            tensor.into_iter().chain(items.iter().copied())
        })
    }
}

/// Returns whether a node is a sequence operator, unless a package has its operator.
pub(super) fn has_rewrite(node: &Node) -> bool {
    rewrite_of(node).is_some()
}

fn rewrite_of(node: &Node) -> Option<Rewrite> {
    let row = OPERATORS.iter().find(|(op, _)| *op == node.op);
    row.filter(|_| node.domain.is_empty()).map(|(_, rewrite)| *rewrite)
}

/// Resolves a sequence node; returns whether the node is one.
///
/// The replacing nodes are left in `binding.pending`.
pub(super) fn bind_sequence(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    node: &Node,
) -> Result<bool, ResolveError> {
    if let Some(rewrite) =
        rewrite_of(node).filter(|_| !has_operator(compiler.operators, node, binding.options))
    {
        binding.pending = rewrite(binding, node)?;
        return Ok(true);
    }
    let inputs = node.inputs.iter().enumerate();
    let mut sequences =
        inputs.filter_map(|(port, value)| Some((port, binding.sequences.items((*value)?)?)));
    let Some((port, items)) = sequences.next() else { return Ok(false) };
    if node.domain.is_empty() && node.op == "Identity" {
        let items = items.to_vec();
        binding.sequences.set_output(node, items);
        return Ok(true);
    }
    if node.domain.is_empty() && matches!(node.op.as_str(), "If" | "Loop") {
        return Ok(false);
    }
    let name = node.inputs.get(port).copied().flatten().map_or("", |v| binding.graph.name_of(v));
    let count = items.len();
    Err(refuse(
        node,
        format!("input {port} {name:?} is a sequence of {count} tensors, expected a tensor"),
    ))
}

/// Returns whether a package has the node's operator.
fn has_operator(operators: &Operators, node: &Node, options: &BindOptions) -> bool {
    !matches!(choose(operators, node, options), Err(ResolveError::MissingOps { .. }))
}

impl Sequences {
    /// Makes the first output of a node the sequence of `items`.
    fn set_output(&mut self, node: &Node, items: Vec<ValueId>) {
        if let Some(output) = node.output(0) {
            self.add(output, items);
        }
    }
}

fn refuse(node: &Node, reason: String) -> ResolveError {
    ResolveError::Node { node: node.name.clone(), op: node.op.clone(), reason, help: None }
}

/// Returns a node that does part of the work of `original`.
fn part(original: &Node, name: &str, op: &str, (inputs, output): (&[ValueId], ValueId)) -> Node {
    let mut node = Node::new(op, NEWEST, inputs, &[output]);
    node.name = format!("{}/{name}", original.name);
    node
}

/// Returns the tensors of the sequence at an input.
fn sequence_at<'a>(
    binding: &'a Binding<'_>,
    node: &Node,
    port: usize,
) -> Result<&'a [ValueId], ResolveError> {
    let Some(value) = node.input(port) else {
        return Err(refuse(node, format!("input {port} is missing, expected a sequence")));
    };
    binding.sequences.items(value).ok_or_else(|| {
        let (name, desc) = (binding.graph.name_of(value), binding.graph.desc(Some(value)));
        refuse(node, format!("input {port} {name:?} is {desc}, expected a sequence"))
    })
}

/// Returns the tensor at an input.
fn tensor_at(binding: &Binding<'_>, node: &Node, port: usize) -> Result<ValueId, ResolveError> {
    let Some(value) = node.input(port) else {
        return Err(refuse(node, format!("input {port} is missing, expected a tensor")));
    };
    match binding.sequences.items(value) {
        None => Ok(value),
        Some(items) => {
            let (name, count) = (binding.graph.name_of(value), items.len());
            Err(refuse(
                node,
                format!(
                    "input {port} {name:?} is a sequence of {count} tensors, expected a tensor"
                ),
            ))
        }
    }
}

/// Returns the integers of an input if they are known.
fn integers(graph: &TypedGraph, value: ValueId) -> Option<Vec<i64>> {
    let tensor = graph.known(Some(value))?;
    let narrow = || tensor.get::<i32>().map(|ints| ints.iter().copied().map(i64::from).collect());
    tensor.get::<i64>().map(<[i64]>::to_vec).or_else(narrow)
}

/// Defers a node until a run has computed the elements of an input.
fn want(binding: &Binding<'_>, node: &Node, value: ValueId, what: &str) -> ResolveError {
    let name = binding.graph.name_of(value);
    let reason = format!("{what} {name:?} is computed, and the length of a sequence depends on it");
    let (node, op) = (node.name.clone(), node.op.clone());
    ResolveError::Wants(Want::new(node, op, reason, (Dependency::Elements, vec![value])))
}

/// The valid positions of an operator.
#[derive(Clone, Copy)]
struct Positions {
    /// The number of tensors, from which negative positions count.
    len: usize,
    /// The number of positions from 0 on.
    count: usize,
}

impl Positions {
    /// Returns the positions of the tensors of a sequence.
    fn of_tensors(len: usize) -> Self {
        Self { len, count: len }
    }
}

/// Returns the position that input `port` states; `None` if the node omits the input.
fn position(
    binding: &Binding<'_>,
    node: &Node,
    port: usize,
    Positions { len, count }: Positions,
) -> Result<Option<usize>, ResolveError> {
    let Some(value) = node.input(port) else { return Ok(None) };
    let Some(position) = integers(&binding.graph, value) else {
        return Err(want(binding, node, value, "the position"));
    };
    let [position] = position[..] else {
        let count = position.len();
        return Err(refuse(node, format!("its position has {count} elements, expected one")));
    };
    let signed = i64::try_from(len).unwrap_or(i64::MAX);
    let from_begin = if position < 0 { position.saturating_add(signed) } else { position };
    match usize::try_from(from_begin).ok().filter(|index| *index < count) {
        Some(index) => Ok(Some(index)),
        None if count == 0 => {
            Err(refuse(node, "its sequence is empty, expected a tensor".to_owned()))
        }
        None => {
            let last = count - 1;
            let reason =
                format!("its position is {position}, expected one from {} to {last}", -signed);
            Err(refuse(node, reason))
        }
    }
}

fn int(node: &Node, name: &str, default: i64) -> Result<i64, ResolveError> {
    match node.attr(name) {
        None => Ok(default),
        Some(Attr::Int(value)) => Ok(*value),
        Some(_) => Err(refuse(node, format!("attribute {name:?} is not an integer, expected one"))),
    }
}

/// Adds a constant list of integers.
fn add_list(
    binding: &mut Binding<'_>,
    node: &Node,
    name: &str,
    values: &[i64],
) -> Result<ValueId, ResolveError> {
    let shape = Shape::new(&[values.len()]).map_err(|why| refuse(node, why.to_string()))?;
    let tensor = Tensor::from_slice(shape, values).map_err(|why| refuse(node, why.to_string()))?;
    Ok(binding.graph.add_constant(&format!("{}/{name}", node.name), tensor))
}

/// `SequenceConstruct` and `SequenceEmpty`.
fn construct(binding: &mut Binding<'_>, node: &Node) -> Result<Vec<Node>, ResolveError> {
    let items = (0..node.inputs.len()).map(|port| tensor_at(binding, node, port));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    binding.sequences.set_output(node, items);
    Ok(Vec::new())
}

fn insert(binding: &mut Binding<'_>, node: &Node) -> Result<Vec<Node>, ResolveError> {
    let mut items = sequence_at(binding, node, 0)?.to_vec();
    let new = tensor_at(binding, node, 1)?;
    // A tensor may also be inserted after the last one. Negative positions count from the last tensor.
    let index = position(binding, node, 2, Positions { len: items.len(), count: items.len() + 1 })?;
    let index = index.unwrap_or(items.len());
    if items.len() >= MAX_LEN {
        return Err(too_long(node));
    }
    items.insert(index.min(items.len()), new);
    binding.sequences.set_output(node, items);
    Ok(Vec::new())
}

fn too_long(node: &Node) -> ResolveError {
    refuse(
        node,
        format!("its sequence has more than {MAX_LEN} tensors, expected at most that many"),
    )
}

fn erase(binding: &mut Binding<'_>, node: &Node) -> Result<Vec<Node>, ResolveError> {
    let mut items = sequence_at(binding, node, 0)?.to_vec();
    let index = position(binding, node, 1, Positions::of_tensors(items.len()))?;
    let index = index.or(items.len().checked_sub(1));
    let Some(index) = index else {
        return Err(refuse(node, "its sequence is empty, expected a tensor to erase".to_owned()));
    };
    items.remove(index);
    binding.sequences.set_output(node, items);
    Ok(Vec::new())
}

fn length(binding: &mut Binding<'_>, node: &Node) -> Result<Vec<Node>, ResolveError> {
    let count = sequence_at(binding, node, 0)?.len();
    let Some(output) = node.output(0) else { return Ok(Vec::new()) };
    let count = i64::try_from(count).map_err(|why| refuse(node, why.to_string()))?;
    let count = Tensor::from_slice(Shape::SCALAR, &[count]);
    let count = count.map_err(|why| refuse(node, why.to_string()))?;
    let count = binding.graph.add_constant(&format!("{}/length", node.name), count);
    Ok(vec![part(node, "output", "Identity", (&[count], output))])
}

fn item(binding: &mut Binding<'_>, node: &Node) -> Result<Vec<Node>, ResolveError> {
    let items = sequence_at(binding, node, 0)?.to_vec();
    let Some(output) = node.output(0) else { return Ok(Vec::new()) };
    let index = position(binding, node, 1, Positions::of_tensors(items.len()));
    let index = match index {
        Err(ResolveError::Wants(_)) => match gathered_item(binding, node, (&items, output))? {
            Some(nodes) => return Ok(nodes),
            None => index?,
        },
        index => index?,
    };
    let Some(&item) = index.and_then(|index| items.get(index)) else {
        return Err(refuse(node, "its position is missing, expected one".to_owned()));
    };
    Ok(vec![part(node, "output", "Identity", (&[item], output))])
}

/// Returns nodes that look up a tensor at a position computed by the run, if all tensors have the same type and shape.
fn gathered_item(
    binding: &mut Binding<'_>,
    node: &Node,
    (items, output): (&[ValueId], ValueId),
) -> Result<Option<Vec<Node>>, ResolveError> {
    let Some(position) = node.input(1) else { return Ok(None) };
    let mut descs = items.iter().map(|&item| binding.graph.desc(Some(item)));
    let Some(first) = descs.next() else { return Ok(None) };
    let are_alike = first.full_shape().is_fixed() && descs.all(|desc| desc == first);
    if !are_alike || binding.graph.desc(Some(position)).len() != 1 {
        return Ok(None);
    }
    let mut add = |name: &str| binding.graph.add_value(&format!("{}/{name}", node.name));
    let (stacked, place) = (add("stacked"), add("position"));
    let mut nodes = stack(binding, node, items, (0, stacked))?;
    let scalar = add_list(binding, node, "scalar", &[])?;
    nodes.push(part(node, "position", "Reshape", (&[position, scalar], place)));
    nodes.push(part(node, "output", "Gather", (&[stacked, place], output)));
    Ok(Some(nodes))
}

/// Returns the nodes that join tensors along a new axis.
fn stack(
    binding: &mut Binding<'_>,
    node: &Node,
    items: &[ValueId],
    (axis, output): (i64, ValueId),
) -> Result<Vec<Node>, ResolveError> {
    let new_axis = add_list(binding, node, "axes", &[axis])?;
    let mut nodes = Vec::with_capacity(items.len() + 1);
    let mut rows = Vec::with_capacity(items.len());
    for (index, &item) in items.iter().enumerate() {
        let name = format!("row_{index}");
        let row = binding.graph.add_value(&format!("{}/{name}", node.name));
        nodes.push(part(node, &name, "Unsqueeze", (&[item, new_axis], row)));
        rows.push(row);
    }
    nodes.push(joined(node, &rows, (axis, output)));
    Ok(nodes)
}

/// Returns the node that concatenates tensors.
fn joined(node: &Node, items: &[ValueId], (axis, output): (i64, ValueId)) -> Node {
    let mut join = part(node, "output", "Concat", (items, output));
    join.attrs.push(("axis".to_owned(), Attr::Int(axis)));
    join
}

fn concat(binding: &mut Binding<'_>, node: &Node) -> Result<Vec<Node>, ResolveError> {
    let items = sequence_at(binding, node, 0)?.to_vec();
    let Some(output) = node.output(0) else { return Ok(Vec::new()) };
    if items.is_empty() {
        return Err(refuse(node, "its sequence is empty, expected tensors to join".to_owned()));
    }
    let Some(Attr::Int(axis)) = node.attr("axis") else {
        return Err(refuse(node, "attribute \"axis\" is missing, expected an integer".to_owned()));
    };
    match int(node, "new_axis", 0)? {
        0 => Ok(vec![joined(node, &items, (*axis, output))]),
        1 => stack(binding, node, &items, (*axis, output)),
        other => Err(refuse(node, format!("attribute \"new_axis\" is {other}, expected 0 or 1"))),
    }
}

fn split(binding: &mut Binding<'_>, node: &Node) -> Result<Vec<Node>, ResolveError> {
    let input = tensor_at(binding, node, 0)?;
    let desc = binding.graph.desc(Some(input));
    let axis = int(node, "axis", 0)?;
    let Some(resolved) = resolve_axis(axis, desc.rank()) else {
        return Err(refuse(node, format!("attribute \"axis\" is {axis}, its input is {desc}")));
    };
    let Some(extent) = desc.full_shape().dim(resolved).and_then(Dim::exact) else {
        let reason = "the length of a sequence depends on the extents of its input".to_owned();
        let deferral = binding.graph.want_extents(node, reason.clone());
        return Err(deferral.unwrap_or_else(|| refuse(node, reason)));
    };
    let (parts, keeps_axis) = match node.input(1) {
        Some(lengths) => (part_lengths(binding, node, (lengths, extent))?, true),
        None if extent > MAX_LEN => return Err(too_long(node)),
        None => (vec![1; extent], int(node, "keepdims", 1)? != 0),
    };
    let axis = i64::try_from(resolved).map_err(|why| refuse(node, why.to_string()))?;
    let mut items = Vec::with_capacity(parts.len());
    for index in 0..parts.len() {
        items.push(binding.graph.add_value(&format!("{}/part_{index}", node.name)));
    }
    let mut nodes = Vec::new();
    if !items.is_empty() {
        let lengths = add_list(binding, node, "split", &parts)?;
        let mut split = Node::new("Split", NEWEST, &[input, lengths], &items);
        split.name = format!("{}/parts", node.name);
        split.attrs.push(("axis".to_owned(), Attr::Int(axis)));
        nodes.push(split);
    }
    if !keeps_axis {
        let squeezed_axis = add_list(binding, node, "axes", &[axis])?;
        for (index, item) in items.iter_mut().enumerate() {
            let name = format!("item_{index}");
            let squeezed = binding.graph.add_value(&format!("{}/{name}", node.name));
            nodes.push(part(node, &name, "Squeeze", (&[*item, squeezed_axis], squeezed)));
            *item = squeezed;
        }
    }
    binding.sequences.set_output(node, items);
    Ok(nodes)
}

/// Returns the part lengths that input 1 of `SplitToSequence` states: a list of them, or the length of all parts but
/// the last.
fn part_lengths(
    binding: &Binding<'_>,
    node: &Node,
    (lengths, extent): (ValueId, usize),
) -> Result<Vec<i64>, ResolveError> {
    let Some(stated) = integers(&binding.graph, lengths) else {
        return Err(want(binding, node, lengths, "the split"));
    };
    let extent_int = i64::try_from(extent).map_err(|why| refuse(node, why.to_string()))?;
    if binding.graph.desc(Some(lengths)).rank() > 0 {
        let total = stated.iter().try_fold(0i64, |sum, n| sum.checked_add(*n).filter(|_| *n >= 0));
        if total != Some(extent_int) || stated.len() > MAX_LEN {
            let reason =
                format!("its parts are {stated:?} long, expected {extent_int} elements in all");
            return Err(refuse(node, reason));
        }
        return Ok(stated);
    }
    let [length] = stated[..] else {
        return Err(refuse(node, "its split is empty, expected an integer".to_owned()));
    };
    let Some(length) = usize::try_from(length).ok().filter(|length| *length > 0) else {
        return Err(refuse(node, format!("its parts are {length} long, expected 1 or more")));
    };
    if extent.div_ceil(length) > MAX_LEN {
        return Err(too_long(node));
    }
    let starts = (0..extent).step_by(length);
    let parts = starts.map(|start| i64::try_from(length.min(extent - start)));
    parts.collect::<Result<_, _>>().map_err(|why| refuse(node, why.to_string()))
}

/// `SequenceMap`: repeats the nodes of its body for each tensor of its first sequence.
fn map(binding: &mut Binding<'_>, node: &Node) -> Result<Vec<Node>, ResolveError> {
    let count = sequence_at(binding, node, 0)?.len();
    let Some(Attr::Graph(body)) = node.attr("body") else {
        return Err(refuse(node, "attribute \"body\" is missing, expected a graph".to_owned()));
    };
    let mut outputs = vec![Vec::with_capacity(count); node.outputs.len()];
    let mut nodes = Vec::new();
    for index in 0..count {
        let mut body_inputs = Vec::with_capacity(node.inputs.len());
        for port in 0..node.inputs.len() {
            let Some(value) = node.input(port) else {
                return Err(refuse(node, format!("input {port} is missing, expected a value")));
            };
            let Some(items) = binding.sequences.items(value) else {
                body_inputs.push(value);
                continue;
            };
            let Some(&item) = items.get(index) else {
                let (name, found) = (binding.graph.name_of(value), items.len());
                let reason = format!(
                    "input {port} {name:?} is a sequence of {found} tensors, expected {count} as input 0 has"
                );
                return Err(refuse(node, reason));
            };
            body_inputs.push(item);
        }
        let path = format!("{}/{index}", node.name);
        let ports = BodyPorts { inputs: &body_inputs, outputs: &[] };
        let body = ("body", (**body).clone());
        let inlined = inline(&mut binding.graph, &path, body, &ports);
        let (added, results) = inlined.map_err(|why| refuse(node, why.to_string()))?;
        if results.len() != outputs.len() {
            let (found, expected) = (results.len(), outputs.len());
            let reason =
                format!("its body has {found} outputs, expected {expected} as the node has");
            return Err(refuse(node, reason));
        }
        nodes.extend(added);
        outputs.iter_mut().zip(results).for_each(|(items, item)| items.push(item));
    }
    for (output, items) in node.outputs.iter().zip(outputs) {
        if let Some(output) = *output {
            binding.sequences.add(output, items);
        }
    }
    Ok(nodes)
}

/// Returns the node that rebuilds a sequence after a cut from the tensors that cross it.
pub(super) fn rebuilt(graph: &TypedGraph, sequence: ValueId, items: &[ValueId]) -> Node {
    let mut node = Node::new("SequenceConstruct", NEWEST, items, &[sequence]);
    node.name = format!("{}/crossing", graph.name_of(sequence));
    node
}
