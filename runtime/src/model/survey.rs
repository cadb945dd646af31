//! What the nodes of a graph are, and which cores take each, before anything is compiled.

use udo_api::{Core, TensorDesc};

use crate::pipeline::CompileError;
use udo_compile::compiler::Resources;
use udo_compile::options::CompileOptions;
use udo_compile::pass;
use udo_compile::place::{self, Choice, Fallback, Layers, PlaceOptions, Placement};
use udo_compile::resolve::{self, BindOptions, Resolved};
use udo_engine::operators::Operators;
use udo_graph::graph::{Graph, GraphValue};

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
    resources: &impl AsRef<Resources>,
    bind: &BindOptions,
    cores: &[Core],
) -> Result<Vec<Surveyed>, CompileError> {
    let resources = resources.as_ref();
    let mut options = CompileOptions { bind: bind.clone(), ..CompileOptions::default() };
    let compiler = resources.compiler(&options);
    let mut resolved = resolve::run(&compiler, graph)?;
    pass::run(&compiler, &mut resolved.graph, &pass::encodings_only(), Core::CPU)?;
    let mut nodes = nodes(&resolved, &resources.operators);
    for &core in cores {
        options.place = PlaceOptions {
            cores: vec![core],
            fallback: Fallback::To(Core::CPU),
            ..PlaceOptions::default()
        };
        let compiler = resources.compiler(&options);
        let placement = place::run(&compiler, resolved.clone(), &Layers::default())?;
        for (node, reason) in nodes.iter_mut().zip(reasons(&placement, core)) {
            node.cores.push((core, reason));
        }
    }
    Ok(nodes)
}

fn nodes(resolved: &Resolved, operators: &Operators) -> Vec<Surveyed> {
    let graph = &resolved.graph;
    let surveyed = graph.nodes.iter().map(|bound| {
        let outputs = bound.node.outputs.iter().flatten().filter_map(|&id| {
            let name = graph.value(id).ok()?.value().name.clone();
            Some((name, graph.desc(Some(id))))
        });
        Surveyed {
            name: bound.node.name.clone(),
            op: bound.node.op.clone(),
            package: operators.package_name(bound.package).to_owned(),
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
