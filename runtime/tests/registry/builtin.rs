//! The built-in operators as a loaded package: nobody can tell the difference.

use std::path::{Path, PathBuf};

use udo_api::{DType, Shape};
use udo_engine::operators::Operators;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, ValueId};
use udo_runtime::package::Containment;
use udo_runtime::{CompileOptions, Tensor};
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::fixture::{builtin_library, worker};
use udo_test_support::random::noise;

fn add(graph: &mut Graph, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
    let output = graph.add_value(&format!("{op}_{}", graph.nodes.len()));
    let mut node = Node::new(op, 17, inputs, &[output]);
    node.attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
    graph.add_node(node);
    output
}

fn constant(graph: &mut Graph, name: &str, dims: &[usize], seed: u64) -> ValueId {
    let shape = Shape::new(dims).unwrap();
    graph.add_constant(name, Tensor::from_slice(shape, &noise(shape.len(), seed)).unwrap())
}

/// A small network with a good part of the built-in operators.
fn network() -> Graph {
    let mut graph = Graph::new("network");
    let image = graph.add_input("image", DType::F32, [1, 3, 12, 12].map(DimSpec::Fixed));
    let weights = constant(&mut graph, "w", &[4, 3, 3, 3], 1);
    let pads = ("pads", Attr::Ints(vec![1; 4]));
    let conv = add(&mut graph, "Conv", &[image, weights], &[pads]);
    let relu = add(&mut graph, "Relu", &[conv], &[]);
    let sigmoid = add(&mut graph, "Sigmoid", &[conv], &[]);
    let joined = add(&mut graph, "Concat", &[relu, sigmoid], &[("axis", Attr::Int(1))]);
    let window = ("kernel_shape", Attr::Ints(vec![2, 2]));
    let strides = ("strides", Attr::Ints(vec![2, 2]));
    let pooled = add(&mut graph, "MaxPool", &[joined], &[window, strides]);
    let turned = add(&mut graph, "Transpose", &[pooled], &[("perm", Attr::Ints(vec![0, 2, 3, 1]))]);
    let flat = add(&mut graph, "Flatten", &[turned], &[]);
    let matrix = constant(&mut graph, "m", &[5, 288], 2);
    let gemm = add(&mut graph, "Gemm", &[flat, matrix], &[("transB", Attr::Int(1))]);
    let scores = add(&mut graph, "Softmax", &[gemm], &[("axis", Attr::Int(-1))]);
    graph.outputs = vec![gemm, scores];
    graph
}

fn results(operators: &Operators) -> Vec<Vec<u32>> {
    let mut session =
        compile_graph(network(), operators, &CompileOptions::default()).unwrap().session().unwrap();
    session.input_mut::<f32>("image").unwrap().copy_from_slice(&noise(432, 3));
    session.run().unwrap();
    let names: Vec<String> =
        session.plans().next().unwrap().outputs().map(|(name, _)| name.to_owned()).collect();
    let bits =
        |name: &String| session.output::<f32>(name).unwrap().iter().map(|v| v.to_bits()).collect();
    names.iter().map(bits).collect()
}

/// The library of the built-in operators, by itself in a folder.
fn library(folder: &Path) -> PathBuf {
    let library = folder.join("libUdobuiltinReg.so");
    std::fs::copy(builtin_library(), &library).unwrap();
    library
}

#[test]
fn contained_built_in_operators_give_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let mut contained = Operators::new();
    let containment = Containment::default().worker(worker());
    contained.open_contained(&library(folder.path()), &containment).unwrap();
    let linked = results(&built_in());
    assert_eq!(results(&contained), linked);
}

#[test]
fn built_in_operators_loaded_as_a_package_give_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let mut loaded = Operators::new();
    loaded.open(&library(folder.path())).unwrap();
    let linked = results(&built_in());
    assert_eq!(results(&loaded), linked);
    assert!(linked.iter().flatten().all(|&bits| f32::from_bits(bits).is_finite()));
}
