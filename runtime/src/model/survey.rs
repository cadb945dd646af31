//! Lists the nodes of a graph and the cores that support each, before the graph is compiled.

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
    /// Its name, after the names of the nodes whose subgraphs contain it.
    pub name: String,
    /// Its operator, in the newest operator set.
    pub op: String,
    /// The package of the operator.
    pub package: String,
    /// The inputs; an omitted input has no type.
    pub inputs: Vec<TensorDesc>,
    /// The outputs with names; omitted outputs are left out.
    pub outputs: Vec<(String, TensorDesc)>,
    /// Each core, with the reason if it does not support the node.
    pub cores: Vec<(Core, Option<String>)>,
}

/// Lists the nodes of a graph before passes, and which of `cores` support each, with the encodings that the model
/// states. Packs no constants.
///
/// # Errors
/// A node has no operator or does not match it, shapes are open, or even the CPU does not support a node.
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

/// Returns for each node why `core` does not support it. Nodes without a kernel are supported on every core.
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
