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
    let opset = newest(graph);
    let is_older = |node: &Node| node.domain.is_empty() && (1..opset).contains(&node.opset);
    let has_rows = |node: &Node| is_older(node) && rows(node, opset).next().is_some();
    let mut raised = graph.clone();
    if graph.nodes.iter().any(has_rows) {
        let mut typed = run(compiler, graph.clone())?.graph;
        typed.nodes.clear();
        typed.values.truncate(graph.values.len());
        raised.nodes.clear();
        for node in &graph.nodes {
            raise_node(compiler, &mut raised, &mut typed, node.clone(), opset)?;
        }
    }
    raise_all(&mut raised, opset)?;
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
        value.is_some_and(|v| v.declared.is_none() && matches!(v.source, Source::Computed))
    };
    let untyped: Vec<ValueId> = outputs.filter(is_untyped).collect();
    if untyped.is_empty() {
        return Ok(());
    }
    let is_open = graph.values.iter().any(|value| match &value.source {
        Source::Input(declared) => {
            declared.dims.iter().any(|dim| !matches!(dim, DimSpec::Fixed(_)))
        }
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

/// Adds a node converted to `opset`, between the producers and consumers that the conversion adds.
fn raise_node(
    compiler: &Compiler<'_>,
    graph: &mut Graph,
    typed: &mut TypedGraph,
    mut node: Node,
    opset: u32,
) -> Result<(), ResolveError> {
    let chosen = choose(compiler.operators, &node, compiler.bind());
    let is_builtin = chosen.is_ok_and(|(entry, _)| compiler.operators.is_builtin(entry.package));
    let is_renamed = rows(&node, opset).any(Upgrade::is_rename);
    let due_rows = UPGRADES.iter().filter(|row| row.since != EVER && row.since <= opset);
    let due_rows = due_rows.filter(|_| is_builtin || is_renamed);
    let consumers = apply_rows(due_rows, compiler, typed, &mut node)?;
    let Graph { nodes, values, .. } = &mut **typed;
    let producers = nodes.drain(..).map(|bound| bound.node);
    let added = values.iter().skip(graph.values.len()).map(|value| value.value.clone());
    graph.values.extend(added);
    let converted = producers.chain([node]).chain(consumers);
    graph.nodes.extend(converted.map(|node| Node { opset: node.opset.min(opset), ..node }));
    Ok(())
}

/// Returns the newest operator set that a node uses.
fn newest(graph: &Graph) -> u32 {
    let newest_in = |node: &Node| {
        let inner = node.subgraphs().map(|subgraph| newest(subgraph.graph)).max();
        inner.max(node.domain.is_empty().then_some(node.opset)).unwrap_or(1)
    };
    graph.nodes.iter().map(newest_in).max().unwrap_or(1)
}

/// Returns the rows of the upgrade table that convert a node from its operator set to `opset`.
fn rows(node: &Node, opset: u32) -> impl Iterator<Item = &'static Upgrade> {
    let is_due = move |row: &&Upgrade| row.since != EVER && row.since <= opset;
    UPGRADES.iter().filter(is_due).filter(|row| row.takes(node))
}

/// Sets the operator set of all nodes to at least `opset`; nodes of subgraphs must mean the same in both.
fn raise_all(graph: &mut Graph, opset: u32) -> Result<(), ResolveError> {
    for node in &mut graph.nodes {
        if node.domain.is_empty() {
            node.opset = node.opset.max(opset);
        }
        for inner in subgraphs_mut(node) {
            for node in &inner.nodes {
                if let Some(row) = rows(node, opset).next().filter(|_| node.domain.is_empty()) {
                    let (name, op) = (node.name.clone(), node.op.clone());
                    let reason = format!(
                        "it is of operator set {} in a subgraph, expected the form of {} on",
                        node.opset, row.since
                    );
                    return Err(ResolveError::unfit(name, op, reason));
                }
            }
            raise_all(inner, opset)?;
        }
    }
    Ok(())
}
