//! Converts the nodes of an imported graph to a newer operator set, for file formats with one operator set for all
//! nodes.

use udo_api::Dim;

use super::upgrade::{EVER, UPGRADES, Upgrade, apply_rows};
use crate::compiler::Compiler;
use crate::resolve::choose::choose;
use crate::resolve::run;
use crate::resolve::{ResolveError, TypedGraph};
use udo_graph::graph::{
    DimSpec, Graph, Node, NodeReads, Source, TensorType, ValueId, subgraphs_mut,
};

/// Converts all nodes of ONNX's own operators to the newest operator set that one of them uses. Types and shapes that
/// the conversion needs come from the graph; open extents come from the options.
///
/// # Errors
/// The graph cannot be resolved, or a node cannot be converted, for example a node of a subgraph that would have to
/// change.
pub fn raise(compiler: &Compiler<'_>, graph: &mut Graph) -> Result<(), ResolveError> {
    let to = newest(graph);
    let is_older = |node: &Node| node.domain.is_empty() && (1..to).contains(&node.opset);
    let has_rows = |node: &Node| is_older(node) && rows(node, to).next().is_some();
    let mut raised = graph.clone();
    if graph.nodes.iter().any(has_rows) {
        let mut typed = run(compiler, graph.clone())?.graph;
        typed.nodes.clear();
        typed.values.truncate(graph.values.len());
        raised.nodes.clear();
        for node in &graph.nodes {
            raise_node(compiler, &mut raised, &mut typed, node.clone(), to)?;
        }
    }
    raise_all(&mut raised, to)?;
    declare_outputs(compiler, &mut raised)?;
    *graph = raised;
    Ok(())
}

/// Declares the type and shape of outputs for which the model does not, because files need them. If an input has open
/// extents, the extents of the outputs may differ in another run.
fn declare_outputs(compiler: &Compiler<'_>, graph: &mut Graph) -> Result<(), ResolveError> {
    let outputs = graph.outputs.clone().into_iter();
    let is_untyped = |id: &ValueId| {
        let value = graph.value(*id).ok();
        value.is_some_and(|of| of.declared.is_none() && matches!(of.source, Source::Computed))
    };
    let untyped: Vec<ValueId> = outputs.filter(is_untyped).collect();
    if untyped.is_empty() {
        return Ok(());
    }
    let is_open = graph.values.iter().any(|value| match &value.source {
        Source::Input(of) => of.dims.iter().any(|dim| !matches!(dim, DimSpec::Fixed(_))),
        Source::Computed | Source::Constant(_) | Source::Outer => false,
    });
    let typed = run(compiler, graph.clone())?.graph;
    for id in untyped {
        let desc = typed.desc(Some(id));
        let Some(dtype) = desc.dtype() else { continue };
        let dim = |dim: Option<Dim>| match dim {
            Some(Dim::Fixed(extent)) if !is_open => DimSpec::Fixed(extent),
            _ => DimSpec::Unknown,
        };
        let shape = desc.full_shape();
        let dims = (0..desc.rank()).map(|axis| dim(shape.dim(axis))).collect();
        if let Some(value) = graph.values.get_mut(id.index()) {
            value.declared = Some(TensorType { dtype, dims });
        }
    }
    Ok(())
}

/// Adds a converted node, with its added producers and consumers.
fn raise_node(
    compiler: &Compiler<'_>,
    graph: &mut Graph,
    typed: &mut TypedGraph,
    mut node: Node,
    to: u32,
) -> Result<(), ResolveError> {
    let chosen = choose(compiler.operators, &node, compiler.bind());
    let is_own = chosen.is_ok_and(|(of, _)| compiler.operators.is_builtin(of.package));
    let is_renamed = rows(&node, to).any(Upgrade::is_rename);
    let due = UPGRADES.iter().filter(|row| row.since != EVER && row.since <= to);
    let due = due.filter(|_| is_own || is_renamed);
    let behind = apply_rows(due, compiler, typed, &mut node)?;
    let Graph { nodes, values, .. } = &mut **typed;
    let before = nodes.drain(..).map(|bound| bound.node);
    let added = values.iter().skip(graph.values.len()).map(|value| value.value.clone());
    graph.values.extend(added);
    let own = before.chain([node]).chain(behind);
    graph.nodes.extend(own.map(|node| Node { opset: node.opset.min(to), ..node }));
    Ok(())
}

/// Returns the newest operator set that a node uses.
fn newest(graph: &Graph) -> u32 {
    let of_node = |node: &Node| {
        let inner = node.subgraphs().map(|subgraph| newest(subgraph.graph)).max();
        inner.max(node.domain.is_empty().then_some(node.opset)).unwrap_or(1)
    };
    graph.nodes.iter().map(of_node).max().unwrap_or(1)
}

/// Returns the upgrades of a node from its operator set to another one.
fn rows(node: &Node, to: u32) -> impl Iterator<Item = &'static Upgrade> {
    let is_due = move |row: &&Upgrade| row.since != EVER && row.since <= to;
    UPGRADES.iter().filter(is_due).filter(|row| row.takes(node))
}

/// Sets the operator set of all nodes to at least `to`; nodes of subgraphs must mean the same in both.
fn raise_all(graph: &mut Graph, to: u32) -> Result<(), ResolveError> {
    for node in &mut graph.nodes {
        if node.domain.is_empty() {
            node.opset = node.opset.max(to);
        }
        for inner in subgraphs_mut(node) {
            for node in &inner.nodes {
                if let Some(row) = rows(node, to).next().filter(|_| node.domain.is_empty()) {
                    let (name, op) = (node.name.clone(), node.op.clone());
                    let reason = format!(
                        "it is of operator set {} in a subgraph, expected the form of {} on",
                        node.opset, row.since
                    );
                    return Err(ResolveError::unfit(name, op, reason));
                }
            }
            raise_all(inner, to)?;
        }
    }
    Ok(())
}
