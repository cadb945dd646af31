//! Encodings per axis that a package in C states and reads.

use tempfile::tempdir;
use udo_api::{DType, Shape, TensorDesc};
use udo_engine::operators::Operators;
use udo_host::{NodeDesc, infer};
use udo_runtime::CompileOptions;
use udo_runtime::graph::{DimSpec, Graph, Node};
use udo_runtime::package::Containment;
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::packages::*;

const FILE: &str = "libUdoCScaleReg.so";

/// The C fixture with an output of these scales.
fn operators(folder: &std::path::Path, scales: &str) -> Operators {
    let path = folder.join(FILE);
    c_package(&path, &[("KERNELS", "{UDO_CPU, 0}"), ("SCALES", scales)]);
    let mut operators = built_in();
    operators.open(&path).unwrap();
    operators
}

fn of_two() -> TensorDesc {
    TensorDesc::new(DType::F32, Shape::new(&[2]).unwrap())
}

/// Returns the package's description of its output for the input `x`.
fn inferred(operators: &Operators, x: TensorDesc) -> Result<TensorDesc, String> {
    let op = operators.ops_named("Scale").next().unwrap().def;
    let (inputs, constants) = (vec![x], vec![None]);
    let node = NodeDesc { inputs, constants, params: &[], output_count: 1, opset: 0 };
    infer(op, &node).map(|outputs| outputs[0]).map_err(|refusal| refusal.to_string())
}

#[test]
fn per_axis_encodings_of_packages_are_copied() {
    let folder = tempdir().unwrap();
    let operators = operators(folder.path(), "0.5f,0.25f");
    let first = inferred(&operators, of_two()).unwrap();
    let second = inferred(&operators, of_two()).unwrap();
    assert_eq!(first.axis_encoding().unwrap().scales(), [1.0, 0.5]);
    assert_eq!(second.axis_encoding().unwrap().scales(), [2.0, 1.0], "the package writes it anew");
}

#[test]
fn per_axis_encodings_of_packages_are_checked() {
    let folder = tempdir().unwrap();
    let cases = [
        ("1.0f", "has 1 scales for axis 0 of i8[2], expected 2"),
        ("1.0f,-1.0f", "has scale -2 at 1, expected a finite one above 0"),
    ];
    for (at, (scales, wanted)) in cases.into_iter().enumerate() {
        let operators = operators(&folder.path().join(at.to_string()), scales);
        let error = inferred(&operators, of_two()).unwrap_err();
        assert!(error.ends_with(&format!("output 0: an encoding per axis {wanted}")), "{error}");
    }
}

/// Holds a kernel of the C fixture to the scales of its output, which it gets in the call.
#[track_caller]
fn reads_the_scales(operators: &Operators) {
    let mut graph = Graph::new("scaled");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(2)]);
    let y = graph.add_value("y");
    graph.add_node(Node::new("Scale", 21, &[x], &[y]));
    graph.outputs.push(y);
    let model = compile_graph(graph, operators, &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("x").unwrap().copy_from_slice(&[3.0, -4.0]);
    session.run().unwrap();
    let scales = session.output_desc("y").unwrap().axis_encoding().unwrap().scales();
    let wanted: Vec<f32> = [6.0, -8.0].iter().zip(scales).map(|(x, scale)| x / scale).collect();
    let found: Vec<f32> =
        session.output::<i8>("y").unwrap().iter().map(|&q| f32::from(q)).collect();
    assert_eq!(found, wanted);
}

#[test]
fn a_kernel_in_c_reads_the_scales_of_an_axis() {
    let folder = tempdir().unwrap();
    reads_the_scales(&operators(folder.path(), "0.5f,0.25f"));
}

#[test]
fn a_contained_kernel_reads_the_scales_of_an_axis() {
    let folder = tempdir().unwrap();
    // The library is there once the other operators is.
    let _plain = operators(folder.path(), "0.5f,0.25f");
    let mut contained = built_in();
    let containment = Containment::default().worker(worker());
    contained.open_contained(&folder.path().join(FILE), &containment).unwrap();
    reads_the_scales(&contained);
}
