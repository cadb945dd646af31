//! A loaded package that breaks the rules: its own allocator and panic hook tell on it.

use std::num::NonZero;
use std::path::Path;

use udo_api::{DType, Status};
use udo_engine::operators::Operators;
use udo_runtime::compile::CompileError;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node};
use udo_runtime::run::RunError;
use udo_runtime::{CompileOptions, Model};
use udo_test_support::compile::compile_graph;
use udo_test_support::fixture::build_fixture;

fn compile(library: &Path, how: &str) -> Result<Model, CompileError> {
    let mut graph = Graph::new("hungry");
    let x = graph.add_input("x", DType::F32, [DimSpec::Fixed(4)]);
    let y = graph.add_value("y");
    let mut node = Node::new("Hungry", 17, &[x], &[y]);
    node.attrs.push(("how".to_owned(), Attr::Text(how.to_owned())));
    graph.add_node(node);
    graph.outputs.push(y);
    let mut operators = Operators::new();
    operators.open(library).unwrap();
    let options = CompileOptions { threads: NonZero::new(2).unwrap(), ..CompileOptions::default() };
    compile_graph(graph, &operators, &options)
}

#[test]
fn a_loaded_package_is_watched_in_release_builds_too() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libUdoHungryPackageReg.so");
    std::fs::copy(build_fixture("hungry", "release").join("libhungry_package.so"), &library)
        .unwrap();

    let node = "node \"Hungry_0\": package HungryPackage's Hungry on cpu ";
    let cases = [
        ("push", Status::HEAP_USE, "used the heap in execute: 2 times, the first for 8 bytes"),
        ("format", Status::HEAP_USE, "used the heap in execute: "),
        ("box", Status::HEAP_USE, "used the heap in execute: 2 times, the first for 48 bytes"),
        ("thread", Status::HEAP_USE, "used the heap in execute: "),
        ("thread-local", Status::HEAP_USE, "used the heap in execute: "),
        ("worker", Status::HEAP_USE, "used the heap in execute: 2 times, the first for 33 bytes"),
        ("panic", Status::PANICKED, "panicked: the kernel gave up (src/lib.rs:"),
    ];
    for (how, status, message) in cases {
        let mut session = compile(&library, how).unwrap().session().unwrap();
        session.input_mut::<f32>("x").unwrap().fill(1.0);
        let error = session.run().unwrap_err();
        let RunError::Step(step) = &error else { panic!("{how}: {error}") };
        assert_eq!(step.error.status, status, "{how}: {error}");
        let text = error.to_string();
        assert!(text.starts_with(&format!("{node}{message}")), "{how}: {text}");
    }
    let mut session = compile(&library, "nothing").unwrap().session().unwrap();
    session.run().unwrap();

    let error = compile(&library, "infer").unwrap_err().to_string();
    assert!(error.contains("panicked: shapes are hard (src/lib.rs:"), "{error}");
    let error = compile(&library, "finalize").unwrap_err().to_string();
    assert!(error.contains("panicked: weights are hard (src/lib.rs:"), "{error}");
}
