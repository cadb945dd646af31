//! A graph run node by node, each in a model of its own, so that the planner has nothing to decide.

use std::collections::HashMap;
use std::num::NonZero;

use udo_api::Core;
use udo_engine::cores::{OpenCl, Profile};
use udo_engine::operators::Operators;
use udo_runtime::compile::PlaceOptions;
use udo_runtime::graph::{DimSpec, Graph, Node, ValueId};
use udo_runtime::{CompileOptions, Tensor};
use udo_test_support::compile::compile_graph;

/// Every value of one run that starts from `inputs`, each node on its core where that takes it alone.
pub(crate) fn run(
    graph: &Graph,
    inputs: HashMap<ValueId, Tensor>,
    operators: &Operators,
    cores: &[Core],
    threads: NonZero<usize>,
) -> Result<HashMap<ValueId, Tensor>, String> {
    let mut known = inputs;
    for (node, &core) in graph.nodes.iter().zip(cores) {
        let fail = |reason: String| format!("node {:?} alone: {reason}", node.name);
        // The only core of some operators is the GPU.
        let cores = vec![core, Core::CPU, Core::GPU];
        let profile = Profile { opencl: OpenCl::Off, ..Profile::default() };
        let place = PlaceOptions { cores, profile, ..PlaceOptions::default() };
        let options = CompileOptions { place, threads, ..CompileOptions::default() };
        let made = run_node(graph, node, &known, operators, &options).map_err(fail)?;
        known.extend(made);
    }
    Ok(known)
}

fn run_node(
    graph: &Graph,
    node: &Node,
    known: &HashMap<ValueId, Tensor>,
    operators: &Operators,
    options: &CompileOptions,
) -> Result<Vec<(ValueId, Tensor)>, String> {
    let mut alone = Graph::new("alone");
    let mut ids: HashMap<ValueId, ValueId> = HashMap::new();
    let mut given = Vec::new();
    for &value in node.inputs.iter().flatten() {
        if ids.contains_key(&value) {
            continue;
        }
        let name = format!("v{}", value.0);
        let id = if let Some(tensor) = graph.constant(value) {
            alone.add_constant(&name, tensor.clone())
        } else {
            let tensor = known.get(&value).ok_or("an input is not known")?;
            let dims = tensor.dims().iter().map(|&d| DimSpec::Fixed(d));
            given.push((name.clone(), tensor));
            alone.add_input(&name, tensor.dtype(), dims)
        };
        ids.insert(value, id);
    }
    let mut taken = Vec::new();
    for &value in node.outputs.iter().flatten() {
        let name = format!("v{}", value.0);
        let id = alone.add_value(&name);
        ids.insert(value, id);
        alone.outputs.push(id);
        taken.push((value, name));
    }
    let mut node = node.clone();
    for port in node.inputs.iter_mut().chain(&mut node.outputs) {
        *port = port.and_then(|value| ids.get(&value).copied());
    }
    alone.add_node(node);
    let model = compile_graph(alone, operators, options).map_err(|e| e.to_string())?;
    let mut session = model.session().unwrap();
    for (name, tensor) in given {
        session.set_input(&name, tensor).map_err(|e| e.to_string())?;
    }
    session.run().map_err(|e| e.to_string())?;
    let tensor = |(value, name): (ValueId, String)| {
        session.output_tensor(&name).map(|tensor| (value, tensor)).map_err(|e| e.to_string())
    };
    taken.into_iter().map(tensor).collect()
}
