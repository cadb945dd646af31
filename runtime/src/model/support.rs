//! Which operations of a graph a core takes, before anything is compiled.

use udo_api::Core;

use super::survey;
use crate::pipeline::CompileError;
use udo_compile::build::FinishedGraph;
use udo_compile::compiler::Resources;
use udo_compile::resolve::BindOptions;
use udo_graph::graph::Graph;

/// Whether a core takes an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpSupport {
    /// The operation's name.
    pub name: String,
    /// Why the core does not take it, if it does not.
    pub reason: Option<String>,
}

impl OpSupport {
    /// Whether the core takes the operation.
    pub fn is_supported(&self) -> bool {
        self.reason.is_none()
    }
}

/// Whether `core` takes each operation of a graph, in the order in which they were added. Shapes that the graph leaves open are
/// asked of `bind`.
///
/// Where some operation keeps the graph from being resolved as a whole, each is looked at by itself, with the types and shapes
/// that were said of its tensors.
pub fn support(
    graph: &FinishedGraph,
    resources: &impl AsRef<Resources>,
    bind: &BindOptions,
    core: Core,
) -> Vec<OpSupport> {
    let resources = resources.as_ref();
    let names = graph.operations().map(str::to_owned);
    let mut all: Vec<_> = names.map(|name| OpSupport { name, reason: None }).collect();
    let mut of_whole = bind.clone();
    of_whole.ranges.extend(graph.ranges());
    if let Ok(refused) = refused(graph.graph().clone(), resources, &of_whole, core) {
        for (node, reason) in refused {
            let of = graph.operation_of(&node).and_then(|at| all.get_mut(at));
            if let Some(of) = of {
                of.reason.get_or_insert(reason);
            }
        }
        return all;
    }
    let of_one = BindOptions { bind: bind.bind.clone(), ..BindOptions::default() };
    for (at, support) in all.iter_mut().enumerate() {
        let alone = graph.alone(at).map_err(|error| error.to_string());
        let refused = alone.and_then(|graph| {
            refused(graph, resources, &of_one, core).map_err(|error| error.to_string())
        });
        support.reason = match refused {
            Ok(refused) => refused.into_iter().next().map(|(_, reason)| reason),
            Err(reason) => Some(reason),
        };
    }
    all
}

/// The nodes that the core does not take, and why.
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
