//! What the nodes of a graph are, and which cores take each, before anything is compiled.

use std::num::NonZero;

use udo_api::{Core, TensorDesc};

use super::CompileError;
use crate::graph::{Graph, GraphValue};
use crate::pass::{self, PassOptions};
use crate::place::{self, Choice, Fallback, Layers, PlaceOptions, Placement};
use crate::registry::Registry;
use crate::resolve::{BindOptions, Resolved};

/// A node with its operator, types and shapes.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// Its name, behind those of the nodes whose subgraphs it is in.
    pub name: String,
    /// Its operator, in the form of the newest operator set.
    pub op: String,
    /// The package of the operator.
    pub package: String,
    /// What it reads; an input that is left out has no type.
    pub inputs: Vec<TensorDesc>,
    /// What it makes, by name; none for outputs that are left out.
    pub outputs: Vec<(String, TensorDesc)>,
    /// Each core, and why it does not take the node, if it does not.
    pub cores: Vec<(Core, Option<String>)>,
}

/// The nodes of a graph as they are before passes rewrite them, and which of `cores` would take each, with the encodings that
/// the model states for values. No constant is packed.
///
/// # Errors
/// A node without an operator or one that does not fit it, open shapes, or a node that not even the CPU takes.
pub fn survey(
    graph: Graph,
    registry: &mut Registry,
    bind: &BindOptions,
    cores: &[Core],
) -> Result<Vec<Surveyed>, CompileError> {
    let mut resolved = registry.resolve(graph, bind)?;
    pass::run(&mut resolved.graph, registry, &PassOptions::encodings(), Core::CPU)?;
    let mut nodes = nodes(&resolved, registry);
    for &core in cores {
        let options =
            PlaceOptions { cores: vec![core], fallback: Fallback::CPU, ..PlaceOptions::default() };
        let (threads, layers) = (NonZero::<usize>::MIN.get(), Layers::default());
        let placement = place::assign(resolved.clone(), registry, (&options, &layers), threads)?;
        for (node, reason) in nodes.iter_mut().zip(reasons(&placement, core)) {
            node.cores.push((core, reason));
        }
    }
    Ok(nodes)
}

fn nodes(resolved: &Resolved, registry: &Registry) -> Vec<Surveyed> {
    let graph = &resolved.graph;
    let surveyed = graph.nodes.iter().map(|bound| {
        let outputs = bound.node.outputs.iter().flatten().filter_map(|&id| {
            let name = graph.value(id).ok()?.value().name.clone();
            Some((name, graph.desc(Some(id))))
        });
        Surveyed {
            name: bound.node.name.clone(),
            op: bound.node.op.clone(),
            package: registry.package_name(bound.package).to_owned(),
            inputs: bound.node.inputs.iter().map(|&id| graph.desc(id)).collect(),
            outputs: outputs.collect(),
            cores: Vec::new(),
        }
    });
    surveyed.collect()
}

/// Why `core` does not take each node, if it does not. What no kernel computes, every core does.
fn reasons(placement: &Placement, core: Core) -> impl Iterator<Item = Option<String>> {
    placement.choices.iter().map(move |choice| match choice {
        Choice::Kernel(placed) if placed.fell_back => {
            let own = placed.refusals.iter().find(|refusal| refusal.core == core);
            Some(own.map_or_else(String::new, |refusal| refusal.reason.clone()))
        }
        Choice::Kernel(_)
        | Choice::Epilogue { .. }
        | Choice::Alias
        | Choice::Folded
        | Choice::Control => None,
    })
}
