//! Loops whose iterations differ too much for one plan: a state grows, a stacked output has no bound, a node needs
//! elements that each iteration computes, or a state is a sequence.
//!
//! Such a loop is resolved one iteration at a time. The nodes of the next iteration precede a *rest*: a node that
//! stands for the remaining iterations of the loop. If the number of iterations and the condition are known, this
//! unrolls the loop. If a run computes the condition, the graph is cut at the rest: the iterations so far run first,
//! and the next one is planned for the shapes that they produced. Each of these plans has its own buffers and runs like
//! any other plan.

use udo_api::{Bool, DType, Shape};

use super::body::{BodyPorts, inline};
use super::{Parent, as_bool};
use crate::compiler::Compiler;
use crate::resolve::control::body::bind_all;
use crate::resolve::{Binding, Dependency, ResolveError, Want};
use udo_graph::graph::{Attr, DimSpec, Graph, NEWEST, Node, TensorType, ValueId};
use udo_graph::memory::{Tensor, TensorError};

/// The operator of a rest. Its inputs are those of the loop, then the stacked outputs so far. Its outputs are those of
/// the loop.
const REST: &str = "LoopRest";

/// The domain of the runtime's own operators.
const UDO: &str = "udo";

/// The attribute with the loop's body.
const BODY: &str = "body";

/// The attributes with the number of completed iterations and the number of states.
const DONE: &str = "done";
const STATES: &str = "states";

/// The largest number of iterations that are resolved one by one, because each has its own memory.
const MAX_ITERATIONS: usize = 16_384;

/// The largest number of nodes in a graph with an unrolled loop.
const MAX_NODES: usize = 131_072;

/// Returns whether a node is the rest of a loop.
pub(in crate::resolve) fn is_rest(node: &Node) -> bool {
    node.domain == UDO && node.op == REST
}

/// The parsed rest of a loop.
struct Rest {
    node: Node,
    body: Graph,
    /// The number of completed iterations.
    done: usize,
    /// The number of states.
    states: usize,
}

impl Rest {
    fn new(mut node: Node) -> Result<Self, ResolveError> {
        let body = node.attrs.iter().position(|(name, _)| name == BODY);
        let body = body.map(|index| node.attrs.swap_remove(index));
        let count = |name: &str| match node.attr(name) {
            Some(Attr::Int(value)) => usize::try_from(*value).ok(),
            _ => None,
        };
        match (body, count(DONE), count(STATES)) {
            (Some((_, Attr::Graph(body))), Some(done), Some(states)) => {
                Ok(Self { body: *body, done, states, node })
            }
            _ => Err(refuse(
                &node,
                "it is not the rest of a loop, expected a graph and two counts".into(),
            )),
        }
    }

    fn refuse(&self, reason: String) -> ResolveError {
        refuse(&self.node, reason)
    }

    /// Defers the rest until a run has computed an element.
    fn want(&self, binding: &Binding<'_>, value: ValueId, what: &str) -> ResolveError {
        let name = binding.graph.name_of(value);
        let reason = format!("{what} {name:?} is computed, and iterations are planned one by one");
        let (node, op) = (self.node.name.clone(), "Loop".to_owned());
        binding.refused_in_loop(Want::new(node, op, reason, (Dependency::Elements, vec![value])))
    }

    /// Returns whether another iteration runs.
    fn continues(&self, binding: &Binding<'_>) -> Result<bool, ResolveError> {
        if let Some(limit) = self.node.input(0) {
            let count = binding.graph.known(Some(limit));
            let Some(count) = count.and_then(|count| count.get::<i64>()?.first().copied()) else {
                return Err(self.want(binding, limit, "the number of iterations"));
            };
            if usize::try_from(count.max(0)).is_ok_and(|count| self.done >= count) {
                return Ok(false);
            }
        }
        let Some(condition) = self.node.input(1) else { return Ok(true) };
        let continues = binding.graph.known(Some(condition)).and_then(as_bool);
        continues.ok_or_else(|| self.want(binding, condition, "the condition"))
    }

    fn states(&self) -> impl Iterator<Item = Option<ValueId>> + '_ {
        self.node.inputs.iter().skip(2).take(self.states).copied()
    }

    /// Returns the stacked outputs so far; empty before the first iteration.
    fn stacks(&self) -> &[Option<ValueId>] {
        self.node.inputs.get(2 + self.states..).unwrap_or_default()
    }
}

fn refuse(node: &Node, reason: String) -> ResolveError {
    ResolveError::Node { node: node.name.clone(), op: "Loop".to_owned(), reason, help: None }
}

/// Replaces a loop by a rest, which is resolved one iteration at a time.
pub(super) fn unroll(
    binding: &mut Binding<'_>,
    parent: &Parent,
    reason: &str,
) -> Result<(), ResolveError> {
    let mut node = parent.node.clone();
    let [(_, body)] = &parent.graphs[..] else {
        return Err(parent.refuse("it has no body, expected a graph".to_owned()));
    };
    let states = node.inputs.len().saturating_sub(2);
    let name = &node.name;
    binding.notices.push(format!("node {name:?} (Loop) is unrolled: {reason}"));
    (node.op, node.domain) = (REST.to_owned(), UDO.to_owned());
    node.inputs.resize(2 + states, None);
    let states = i64::try_from(states).unwrap_or(i64::MAX);
    node.attrs = vec![
        (BODY.to_owned(), Attr::Graph(Box::new(body.clone()))),
        (DONE.to_owned(), Attr::Int(0)),
        (STATES.to_owned(), Attr::Int(states)),
    ];
    binding.pending = vec![node];
    Ok(())
}

/// Resolves the rest of a loop: adds the nodes of its next iteration and a shorter rest, or its results.
pub(in crate::resolve) fn bind_rest(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    node: Node,
) -> Result<(), ResolveError> {
    let rest = Rest::new(node)?;
    if !rest.continues(binding)? {
        binding.pending = results(compiler, binding, &rest)?;
        return Ok(());
    }
    if rest.done >= MAX_ITERATIONS || binding.graph.nodes.len() >= MAX_NODES {
        let reason = format!(
            "it has more than {} iterations whose shapes differ, expected at most {MAX_ITERATIONS} with at most {MAX_NODES} nodes in total",
            rest.done
        );
        return Err(rest.refuse(reason));
    }
    binding.pending = next_iteration(binding, rest)?;
    Ok(())
}

/// Returns the nodes that copy the final values into a loop's outputs.
fn results(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    rest: &Rest,
) -> Result<Vec<Node>, ResolveError> {
    let mut nodes = Vec::new();
    let outputs = rest.node.outputs.iter().copied().enumerate();
    let stacks = rest.node.outputs.len().saturating_sub(rest.states);
    let mut values: Vec<_> = rest.states().collect();
    if rest.done == 0 && stacks > 0 {
        values.extend(empty_stacks(compiler, binding, rest, stacks)?.into_iter().map(Some));
    } else {
        values.extend(rest.stacks());
    }
    for (port, output) in outputs {
        let Some(output) = output else { continue };
        let Some(Some(value)) = values.get(port).copied() else {
            return Err(rest.refuse(format!("its body has no value for output {port}")));
        };
        let mut node = Node::new("Identity", NEWEST, &[value], &[output]);
        node.name = format!("{}/output_{port}", rest.node.name);
        nodes.push(node);
    }
    Ok(nodes)
}

/// Returns the stacked outputs of a loop without iterations.
fn empty_stacks(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    rest: &Rest,
    count: usize,
) -> Result<Vec<ValueId>, ResolveError> {
    let rows = rest.body.outputs.iter().skip(1 + rest.states).take(count);
    let rows: Vec<_> = rows.map(|&row| rest.body.value(row).ok()?.declared.clone()).collect();
    let mut stacks = Vec::new();
    for (port, row) in rows.into_iter().enumerate() {
        let computed = || computed_row(compiler, binding, rest, port);
        let Some((dtype, dims)) = row.map(|row| known_extents(&row)).or_else(computed) else {
            return Err(rest.refuse(format!(
                "it has no iteration, and the model does not state the type of output {port} of its body, expected one"
            )));
        };
        let dims: Vec<usize> = [0].into_iter().chain(dims).collect();
        let shape = Shape::new(&dims).map_err(|why| rest.refuse(why.to_string()))?;
        let empty = Tensor::zeros(dtype, shape);
        let empty = empty.map_err(|why| rest.refuse(why.to_string()))?;
        let name = format!("{}/empty_{port}", rest.node.name);
        stacks.push(binding.graph.add_constant(&name, empty));
    }
    Ok(stacks)
}

/// Infers the type of a stacked output of the body, as if there were an iteration.
fn computed_row(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    rest: &Rest,
    port: usize,
) -> Option<(DType, Vec<usize>)> {
    let mark = binding.mark();
    let inputs = next_inputs(binding, rest).ok()?;
    let ports = BodyPorts { inputs: &inputs, outputs: &[] };
    let path = format!("{}/none", rest.node.name);
    let inlined = inline(&mut binding.graph, &path, (BODY, rest.body.clone()), &ports).ok()?;
    let (nodes, outputs) = inlined;
    binding.depth += 1;
    let is_bound = bind_all(compiler, binding, nodes).is_ok();
    let desc = binding.graph.desc(outputs.get(1 + rest.states + port).copied());
    binding.return_to(mark);
    desc.dtype().filter(|_| is_bound).map(|dtype| (dtype, desc.shape().to_vec()))
}

/// Returns a declared type, with 0 for each open extent.
fn known_extents(declared: &TensorType) -> (DType, Vec<usize>) {
    let extent = |dim: &DimSpec| match dim {
        DimSpec::Fixed(extent) => *extent,
        DimSpec::Named(_) | DimSpec::Unknown => 0,
    };
    (declared.dtype, declared.dims.iter().map(extent).collect())
}

/// Returns the inputs of the body for the next iteration.
fn next_inputs(binding: &mut Binding<'_>, rest: &Rest) -> Result<Vec<ValueId>, ResolveError> {
    let mut inputs = vec![add_number(binding, rest)?, add_condition(binding, rest)?];
    for state in rest.states() {
        let state = state.ok_or_else(|| rest.refuse("a state is missing".to_owned()))?;
        check_declared(binding, rest, (inputs.len(), state))?;
        inputs.push(state);
    }
    Ok(inputs)
}

/// Returns the nodes of the next iteration, followed by the remaining loop.
fn next_iteration(binding: &mut Binding<'_>, rest: Rest) -> Result<Vec<Node>, ResolveError> {
    let body_inputs = next_inputs(binding, &rest)?;
    let path = format!("{}/{}", rest.node.name, rest.done);
    let ports = BodyPorts { inputs: &body_inputs, outputs: &[] };
    let inlined = inline(&mut binding.graph, &path, (BODY, rest.body.clone()), &ports);
    let (mut nodes, outputs) = inlined.map_err(|why| rest.refuse(why.to_string()))?;
    let stacks = rest.node.outputs.len().saturating_sub(rest.states);
    if outputs.len() < 1 + rest.states || stacks > outputs.len() - 1 - rest.states {
        let (found, expected) = (outputs.len(), 1 + rest.states + stacks);
        return Err(rest.refuse(format!(
            "its {BODY:?} has {found} outputs, expected {expected} as the node has states and outputs"
        )));
    }
    let (next, rows) = outputs.split_at(1 + rest.states);
    let mut inputs = vec![rest.node.input(0)];
    inputs.extend(next.iter().copied().map(Some));
    for (port, &row) in rows.iter().take(stacks).enumerate() {
        let previous = rest.stacks().get(port).copied().flatten();
        let (added, stack) = stacked(binding, &path, (port, row, previous))
            .map_err(|why| rest.refuse(why.to_string()))?;
        nodes.extend(added);
        inputs.push(Some(stack));
    }
    let done = i64::try_from(rest.done + 1).map_err(|why| rest.refuse(why.to_string()))?;
    let Rest { mut node, body, .. } = rest;
    node.inputs = inputs;
    node.attrs.retain(|(name, _)| name != DONE);
    node.attrs.push((DONE.to_owned(), Attr::Int(done)));
    node.attrs.push((BODY.to_owned(), Attr::Graph(Box::new(body))));
    nodes.push(node);
    Ok(nodes)
}

/// Returns the nodes that append an iteration's result to the stacked results.
fn stacked(
    binding: &mut Binding<'_>,
    path: &str,
    (port, row, previous): (usize, ValueId, Option<ValueId>),
) -> Result<(Vec<Node>, ValueId), ElementError> {
    let mut add = |name: &str| binding.graph.add_value(&format!("{path}/{name}_{port}"));
    let (unsqueezed, joined) = (add("row"), previous.map(|previous| (previous, add("stack"))));
    let axes = Tensor::from_slice(Shape::new(&[1])?, &[0i64])?;
    let axes = binding.graph.add_constant(&format!("{path}/axes_{port}"), axes);
    let mut node = Node::new("Unsqueeze", NEWEST, &[row, axes], &[unsqueezed]);
    node.name = format!("{path}/row_{port}");
    let Some((previous, joined)) = joined else { return Ok((vec![node], unsqueezed)) };
    let mut join = Node::new("Concat", NEWEST, &[previous, unsqueezed], &[joined]);
    join.name = format!("{path}/stack_{port}");
    join.attrs.push(("axis".to_owned(), Attr::Int(0)));
    Ok((vec![node, join], joined))
}

/// The reason why a tensor of one element cannot be created.
#[derive(Debug, thiserror::Error)]
enum ElementError {
    #[error(transparent)]
    Shape(#[from] udo_api::Error),
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// Returns the shape of a single-element input of the body: `[1]` if the model declares rank 1, else a scalar.
fn single(body: &Graph, port: usize) -> Result<Shape, udo_api::Error> {
    let declared =
        body.inputs.get(port).and_then(|&input| body.value(input).ok()?.declared.as_ref());
    if declared.is_some_and(|declared| declared.dims.len() == 1) {
        return Shape::new(&[1]);
    }
    Ok(Shape::SCALAR)
}

/// Adds the index of the next iteration.
fn add_number(binding: &mut Binding<'_>, rest: &Rest) -> Result<ValueId, ResolveError> {
    let number = || -> Result<Tensor, ElementError> {
        let number = i64::try_from(rest.done).unwrap_or(i64::MAX);
        Ok(Tensor::from_slice(single(&rest.body, 0)?, &[number])?)
    };
    let number = number().map_err(|why| rest.refuse(why.to_string()))?;
    Ok(binding.graph.add_constant(&format!("{}/{}/number", rest.node.name, rest.done), number))
}

/// Adds the condition of the next iteration, which is true.
fn add_condition(binding: &mut Binding<'_>, rest: &Rest) -> Result<ValueId, ResolveError> {
    let as_bool = || -> Result<Tensor, ElementError> {
        Ok(Tensor::from_slice(single(&rest.body, 1)?, &[Bool::from(true)])?)
    };
    let as_bool = as_bool().map_err(|why| rest.refuse(why.to_string()))?;
    Ok(binding.graph.add_constant(&format!("{}/{}/condition", rest.node.name, rest.done), as_bool))
}

/// Refuses a state of another element type than the body declares.
fn check_declared(
    binding: &Binding<'_>,
    rest: &Rest,
    (port, state): (usize, ValueId),
) -> Result<(), ResolveError> {
    if binding.sequences.items(state).is_some() {
        return Ok(());
    }
    let input = rest.body.inputs.get(port).and_then(|&input| rest.body.value(input).ok());
    let declared = input.and_then(|input| Some((&input.name, input.declared.as_ref()?)));
    let desc = binding.graph.desc(Some(state));
    let differs = |dtype: DType| desc.dtype().is_some_and(|actual| actual != dtype);
    match declared.filter(|(_, declared)| differs(declared.dtype)) {
        None => Ok(()),
        Some((name, declared)) => Err(rest.refuse(format!(
            "its {BODY:?} declares input {name:?} {declared}, and is given {desc}"
        ))),
    }
}
