//! Removes copies, and folds constant scales, biases and normalizations into neighboring products, so that the
//! quantizer sees the weights that are multiplied.

use std::collections::{HashMap, HashSet};

use udo_api::Core;

use super::QuantError;
use super::edit::{substitute, sweep};
use udo_compile::compiler::Compiler;
use udo_compile::pass::{self, PassOptions};
use udo_compile::resolve;
use udo_compile::resolve::TypedGraph;
use udo_engine::operators::Operators;
use udo_graph::graph::{Graph, GraphValue, Links, ValueId};

/// Operators that are copies in inference.
const COPIES: &[&str] = &["Dropout", "Identity"];

/// The pass that computes the new weights.
const SCALES: &str = "scale-folding";

/// Removes copies and folds constants into products, like the passes do when the model is loaded.
///
/// # Errors
/// The graph cannot be resolved.
pub(super) fn fold(graph: &mut Graph, compiler: &Compiler<'_>) -> Result<(), QuantError> {
    let mut typed = resolve::run(compiler, graph.clone())?.graph;
    let copies = copies(graph, &typed, compiler.operators);
    if !copies.is_empty() {
        substitute(graph, &copies);
        sweep(graph);
        graph.verify()?;
        typed = resolve::run(compiler, graph.clone())?.graph;
    }
    let before = inputs(&typed);
    let mut options = PassOptions::none();
    options.skip.remove(SCALES);
    pass::run(compiler, &mut typed, &options, Core::CPU)?;
    let after = inputs(&typed);
    let aliases = typed.nodes.iter().filter(|bound| bound.is_alias);
    let elided: HashMap<_, _> =
        aliases.filter_map(|of| Some((of.node.output(0)?, of.node.input(0)?))).collect();

    let count = graph.values.len();
    let mut nodes = std::mem::take(&mut graph.nodes);
    for node in &mut nodes {
        let Some(output) = node.output(0).filter(|output| !elided.contains_key(output)) else {
            continue;
        };
        let (Some(old), Some(new)) = (before.get(&output), after.get(&output)) else { continue };
        for (port, &input) in new.iter().enumerate() {
            if old.get(port) == Some(&input) {
                continue;
            }
            let own = input.and_then(|id| own(graph, &typed, (id, node.input(port)), count));
            node.inputs.resize(node.inputs.len().max(port + 1), None);
            node.inputs[port] = own;
        }
    }
    graph.nodes = nodes;
    substitute(graph, &elided);
    sweep(graph);
    Ok(graph.verify()?)
}

/// Returns the outputs of copies, with their inputs. An output of the graph stays if it is an input or another output.
fn copies(graph: &Graph, typed: &TypedGraph, operators: &Operators) -> HashMap<ValueId, ValueId> {
    let built_in = typed.nodes.iter().filter(|bound| operators.is_builtin(bound.package));
    let built_in: HashSet<_> = built_in.filter_map(|bound| bound.node.output(0)).collect();
    let (producers, consumers) = (graph.producers(), graph.consumers());
    let is_read = |id: ValueId| {
        graph.outputs.contains(&id) || consumers.get(id).is_some_and(|readers| !readers.is_empty())
    };
    let mut copies = HashMap::new();
    let mut given: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    for node in &graph.nodes {
        let (Some(from), Some(to)) = (node.input(0), node.output(0)) else { continue };
        let is_copy = COPIES.contains(&node.op.as_str())
            && node.domain.is_empty()
            && built_in.contains(&to)
            && !node.outputs.iter().skip(1).flatten().any(|&id| is_read(id));
        let mut first = from;
        while let Some(&before) = copies.get(&first) {
            first = before;
        }
        // The source takes the name of the graph output, so it must not be an output itself.
        let is_made = producers.get(first).copied().flatten().is_some();
        let mut is_free = || !graph.outputs.contains(&to) || is_made && given.insert(first);
        if is_copy && is_free() {
            copies.insert(to, from);
        }
    }
    copies
}

/// Returns the inputs of each node, by its first output.
fn inputs(typed: &TypedGraph) -> HashMap<ValueId, Vec<Option<ValueId>>> {
    let nodes = typed.nodes.iter().map(|bound| &bound.node);
    nodes.filter_map(|node| Some((node.output(0)?, node.inputs.clone()))).collect()
}

/// Returns the graph's value for a value of the resolved graph, given that the graph had `count` values. A value that
/// the pass added is a constant, which takes the name of the one that it replaces.
fn own(
    graph: &mut Graph,
    typed: &TypedGraph,
    (id, before): (ValueId, Option<ValueId>),
    count: usize,
) -> Option<ValueId> {
    if id.index() < count {
        return Some(id);
    }
    let tensor = typed.constant(id)?.clone();
    let name = typed.value(before.unwrap_or(id)).ok()?.value().name.clone();
    Some(graph.add_constant(&name, tensor))
}
