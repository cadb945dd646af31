//! Folds normalizations, scales and biases by constants into the products beside them, so that weights are quantized as they are
//! multiplied in the end.

use std::collections::HashMap;

use udo_api::Core;

use super::QuantError;
use super::edit::{substitute, sweep};
use crate::graph::{Graph, GraphValue, ValueId};
use crate::pass::{self, PassOptions};
use crate::registry::Registry;
use crate::resolve::{BindOptions, TypedGraph};

/// The pass that computes the new weights.
const SCALES: &str = "scales";

/// Has products do what nodes beside them do by constants, as they do when the model runs.
///
/// # Errors
/// The graph cannot be resolved.
pub(super) fn fold(
    graph: &mut Graph,
    registry: &mut Registry,
    bind: &BindOptions,
) -> Result<(), QuantError> {
    let mut typed = registry.resolve(graph.clone(), bind)?.graph;
    let before = inputs(&typed);
    let mut options = PassOptions::none();
    options.skip.remove(SCALES);
    pass::run(&mut typed, registry, &options, Core::CPU)?;
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

/// What each node reads, by its first output.
fn inputs(typed: &TypedGraph) -> HashMap<ValueId, Vec<Option<ValueId>>> {
    let nodes = typed.nodes.iter().map(|bound| &bound.node);
    nodes.filter_map(|node| Some((node.output(0)?, node.inputs.clone()))).collect()
}

/// A value of the typed graph in the graph itself, which had `count` values. One that the pass made is a constant, which goes by
/// the name of the one whose place it takes.
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
