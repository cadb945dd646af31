//! Small graphs, and packages that are linked in.

use udo_api::{DType, PackageV1};
use udo_engine::operators::Operators;
use udo_runtime::compile::CompileError;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node};
use udo_runtime::{CompileOptions, Model};

/// A graph of one node with `inputs` inputs of this type and shape, and one output.
pub fn one_node(
    op: &str,
    inputs: usize,
    dtype: DType,
    dims: &[usize],
    attrs: &[(&str, Attr)],
) -> Graph {
    let mut graph = Graph::new("test");
    let names = ["a", "b", "c"];
    let ids: Vec<_> = names[..inputs]
        .iter()
        .map(|name| graph.add_input(name, dtype, dims.iter().map(|&d| DimSpec::Fixed(d))))
        .collect();
    let y = graph.add_value("y");
    let mut node = Node::new(op, 21, &ids, &[y]);
    node.name = format!("the_{}", op.to_lowercase());
    node.attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
    graph.add_node(node);
    graph.outputs.push(y);
    graph
}

/// The graph compiled with the operators of `package` alone.
///
/// # Errors
///
/// As compiling it has.
pub fn compile(
    graph: Graph,
    package: &'static PackageV1,
    options: &CompileOptions,
) -> Result<Model, CompileError> {
    let mut operators = Operators::new();
    operators.add_static(package).expect("the package is well formed");
    crate::compile::compile_graph(graph, &operators, options)
}
