//! Binds `If`, which runs one of two subgraphs, depending on a condition. A branch fits if all its nodes can be
//! resolved; if only one branch fits, a run fails when it would take the other one.

use udo_api::{Dim, Shape, TensorDesc};

use super::body::{BodyPorts, open_body};
use super::{Control, Parent, as_bool};
use crate::compiler::Compiler;
use crate::resolve::control::body::bind_all;
use crate::resolve::control::body::bind_body;
use crate::resolve::{Binding, Dependency, ResolveError, TypedGraph};
use udo_graph::graph::{Graph, Node, ValueId};

/// The condition that a run must meet because one branch does not fit.
struct Check<'a> {
    /// The required condition.
    taken: bool,
    /// The attribute of the branch that does not fit.
    branch: &'a str,
    /// The reason.
    unfit: ResolveError,
}

/// Binds the branch that runs if the condition is known, or else the branches that fit.
pub(super) fn bind_branches(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    mut parent: Parent,
) -> Result<(), ResolveError> {
    binding.graph.check_single(&parent, 0)?;
    let condition = parent.node.input(0);
    let (first, second) = (parent.next_graph()?, parent.next_graph()?);
    let attributes = [first.0.clone(), second.0.clone()];
    if let Some(taken) = binding.graph.known(condition).and_then(as_bool) {
        return replace_by_branch(binding, &parent, if taken { first } else { second });
    }
    let opened = binding.graph.nodes.len();
    binding.graph.nodes.push(parent.part(Control::If, vec![condition], Vec::new()));
    let first = match bind_fitting(compiler, binding, &parent, first)? {
        Ok(results) => results,
        Err(unfit) => {
            let Ok(results) = bind_fitting(compiler, binding, &parent, second)? else {
                return Err(unfit);
            };
            let check = Check { taken: false, branch: &attributes[0], unfit };
            let only = (attributes[1].as_str(), results);
            return keep_only(compiler, binding, &parent, opened, only, check);
        }
    };
    let read = read_outputs(&parent, &attributes[0], &first)?;
    let else_index = binding.graph.nodes.len();
    binding.graph.nodes.push(parent.part(Control::Else, read, Vec::new()));
    match bind_fitting(compiler, binding, &parent, second)? {
        Ok(second) => {
            let is_sequence = |&value: &ValueId| binding.sequences.items(value).is_some();
            let joined = match condition.filter(|_| first.iter().chain(&second).any(is_sequence)) {
                Some(condition) => {
                    let reason = "which branch runs is computed, and its output is a sequence";
                    Err(parent.want(reason.to_owned(), vec![condition]))
                }
                None => join(&mut binding.graph, &parent, &attributes, [first, second]),
            };
            joined.map_err(|error| match error {
                ResolveError::Wants(want) => binding.refused_in_loop(want),
                other => other,
            })
        }
        Err(unfit) => {
            binding.graph.nodes.truncate(else_index);
            let check = Check { taken: true, branch: &attributes[1], unfit };
            let only = (attributes[0].as_str(), first);
            keep_only(compiler, binding, &parent, opened, only, check)
        }
    }
}

/// Binds a branch and returns its results. If a node in it does not fit, binds nothing and returns the reason as the
/// inner error. A missing operator is an outer error, because it does not depend on shapes.
fn bind_fitting(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    parent: &Parent,
    branch: (String, Graph),
) -> Result<Result<Vec<ValueId>, ResolveError>, ResolveError> {
    let mark = binding.mark();
    match bind_body(compiler, binding, parent, branch, &BodyPorts::default()) {
        Err(unfit @ ResolveError::Node { .. }) => {
            binding.return_to(mark);
            Ok(Err(unfit))
        }
        Err(ResolveError::Wants(mut want)) => {
            if !want.values.iter().all(|&value| mark.has(value)) {
                // Once the condition is known, the branch is an ordinary part of the graph.
                want.values = parent.node.input(0).into_iter().collect();
                want.dependency = Dependency::Elements;
            }
            Err(binding.refused_in_loop(want))
        }
        other => other.map(Ok),
    }
}

/// Keeps the nodes of the only branch that fits, after a check of the condition, which replaces node `opened`.
fn keep_only(
    compiler: &Compiler<'_>,
    binding: &mut Binding<'_>,
    parent: &Parent,
    opened: usize,
    (attribute, results): (&str, Vec<ValueId>),
    Check { taken, branch, unfit }: Check<'_>,
) -> Result<(), ResolveError> {
    let reason = format!("takes its {branch:?}, which does not fit: {unfit}");
    let node = &parent.node.name;
    binding.notices.push(format!("a run fails if node {node:?} {reason}"));
    let check = Control::Check { taken, reason: reason.into() };
    if let Some(node) = binding.graph.nodes.get_mut(opened) {
        *node = parent.part(check, vec![parent.node.input(0)], Vec::new());
    }
    let nodes = copy_results(parent, attribute, &results)?;
    bind_all(compiler, binding, nodes)
}

/// Replaces the node by the nodes of one branch; the other branch need not fit.
fn replace_by_branch(
    binding: &mut Binding<'_>,
    parent: &Parent,
    branch: (String, Graph),
) -> Result<(), ResolveError> {
    let (attribute, _) = &branch;
    let attribute = attribute.clone();
    let ports = BodyPorts { inputs: &[], outputs: &parent.node.outputs };
    let (mut nodes, results) = open_body(&mut binding.graph, parent, branch, &ports)?;
    nodes.extend(copy_results(parent, &attribute, &results)?);
    binding.pending = nodes;
    Ok(())
}

/// Returns the nodes that copy the results of the only branch into the outputs of the node.
fn copy_results(
    parent: &Parent,
    attribute: &str,
    results: &[ValueId],
) -> Result<Vec<Node>, ResolveError> {
    read_outputs(parent, attribute, results)?;
    let mut nodes = Vec::new();
    for (port, (&output, &result)) in parent.node.outputs.iter().zip(results).enumerate() {
        let Some(output) = output.filter(|&output| output != result) else { continue };
        let mut node = Node::new("Identity", 0, &[result], &[output]);
        node.name = format!("{}/{attribute}/output_{port}", parent.node.name);
        nodes.push(node);
    }
    Ok(nodes)
}

/// Ends a node whose branches are both bound; its outputs are those of the node.
fn join(
    graph: &mut TypedGraph,
    parent: &Parent,
    attributes: &[String; 2],
    [first, second]: [Vec<ValueId>; 2],
) -> Result<(), ResolveError> {
    let read = read_outputs(parent, &attributes[1], &second)?;
    for ((output, first), second) in parent.node.outputs.iter().zip(first).zip(second) {
        let Some(output) = *output else { continue };
        let descs = [first, second].map(|value| graph.desc(Some(value)));
        let name = graph.name_of(output);
        let desc = common_desc(&descs).ok_or_else(|| {
            let ([first, second], [first_name, second_name]) = (&descs, attributes);
            let reason = format!(
                "output {name:?} is {first} from {first_name:?} and {second} from {second_name:?}, expected one type and rank"
            );
            match parent.node.input(0).filter(|_| first.dtype() == second.dtype()) {
                Some(condition) => parent.want(reason, vec![condition]),
                None => parent.refuse(reason),
            }
        })?;
        if let Some(value) = graph.values.get_mut(output.index()) {
            value.desc = desc;
        }
    }
    let outputs = parent.node.outputs.iter().flatten().copied().map(Some).collect();
    graph.nodes.push(parent.part(Control::EndIf, read, outputs));
    Ok(())
}

/// Returns the results of a branch for the outputs that are used.
fn read_outputs(
    parent: &Parent,
    attribute: &str,
    results: &[ValueId],
) -> Result<Vec<Option<ValueId>>, ResolveError> {
    let outputs = &parent.node.outputs;
    if results.len() != outputs.len() {
        let (found, expected) = (results.len(), outputs.len());
        return Err(parent.refuse(format!(
            "its {attribute:?} has {found} outputs, expected {expected} as the node has"
        )));
    }
    Ok(outputs
        .iter()
        .zip(results)
        .filter_map(|(output, &result)| output.map(|_| Some(result)))
        .collect())
}

/// Returns the description of either tensor, in which extents that differ are bounded.
fn common_desc([a, b]: &[TensorDesc; 2]) -> Option<TensorDesc> {
    if a == b {
        return Some(*a);
    }
    let [shape_a, shape_b] = [a, b].map(TensorDesc::full_shape);
    let dims = shape_a.iter().zip(shape_b.iter()).map(|(a, b)| match (a.exact(), b.exact()) {
        (Some(n), Some(m)) if n == m => a,
        _ => Dim::UpTo(a.bound().max(b.bound())),
    });
    let shape = Shape::from_dims(&dims.collect::<Vec<_>>()).ok()?;
    let is_alike = a.dtype() == b.dtype() && a.rank() == b.rank() && a.encodings() == b.encodings();
    is_alike.then_some(a.with_extents(shape))
}
