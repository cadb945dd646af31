//! Checks which operations of a graph a core supports, before the graph is compiled.

use udo_api::Core;

use super::survey;
use crate::pipeline::CompileError;
use udo_compile::build::FinishedGraph;
use udo_compile::compiler::Resources;
use udo_compile::resolve::BindOptions;
use udo_graph::graph::Graph;

/// Returns the name of each operation of a graph, in the order in which they were added, and the reason why `core` does not run it,
/// if it does not. `bind` gives the shapes that the graph leaves open.
///
/// If an operation prevents the graph from being resolved as a whole, each one is checked on its own, with the declared types and
/// shapes of its tensors.
pub fn support(
    graph: &FinishedGraph,
    resources: &impl AsRef<Resources>,
    bind: &BindOptions,
    core: Core,
) -> Vec<(String, Option<String>)> {
    let resources = resources.as_ref();
    let names = graph.operations().map(str::to_owned);
    let mut all: Vec<_> = names.map(|name| (name, None::<String>)).collect();
    let mut of_whole = bind.clone();
    of_whole.ranges.extend(graph.ranges());
    if let Ok(refused) = refused(graph.graph().clone(), resources, &of_whole, core) {
        for (node, reason) in refused {
            let of = graph.operation_of(&node).and_then(|at| all.get_mut(at));
            if let Some(of) = of {
                of.1.get_or_insert(reason);
            }
        }
        return all;
    }
    let of_one = BindOptions { bind: bind.bind.clone(), ..BindOptions::default() };
    for (at, (_, own)) in all.iter_mut().enumerate() {
        let alone = graph.alone(at).map_err(|error| error.to_string());
        let refused = alone.and_then(|graph| {
            refused(graph, resources, &of_one, core).map_err(|error| error.to_string())
        });
        *own = match refused {
            Ok(refused) => refused.into_iter().next().map(|(_, reason)| reason),
            Err(reason) => Some(reason),
        };
    }
    all
}

/// Returns the nodes that the core does not support, with reasons.
fn refused(
    graph: Graph,
    resources: &Resources,
    bind: &BindOptions,
    core: Core,
) -> Result<Vec<(String, String)>, CompileError> {
    let nodes = survey(graph, resources, bind, &[core])?;
    let refused = nodes.into_iter().filter_map(|node| {
        let reason = node.cores.into_iter().find_map(|(_, reason)| reason)?;
        Some((node.name, format!("{}: {reason}", node.op)))
    });
    Ok(refused.collect())
}
