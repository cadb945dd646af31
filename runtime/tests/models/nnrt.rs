//! Every operation of `NNRt` next to plain loops, with defaults and without; what each refuses; and graphs that are built by
//! calls.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the numbers of these tests are small"
)]
#![expect(clippy::many_single_char_names, reason = "tensors are called as in formulas")]
#![expect(clippy::panic, reason = "a type without numbers fails the test")]

mod elementwise;
mod graphs;
mod image;
mod movement;
mod order;
mod reduce;
mod support;

use std::fmt::Write as _;

use udo_api::DType;
use udo_compile::build::{GraphBuilder, Operation};
use udo_compile::build::{Kind, NNRT_OPS as OPS, Param};
use udo_runtime::device::TensorSpec;
use udo_runtime::graph::Attr;

#[test]
fn the_table_has_every_number_and_each_has_a_test() {
    let numbers: Vec<u32> = OPS.iter().map(|op| op.number).collect();
    assert_eq!(numbers, (1..=108).collect::<Vec<_>>());
    let mut names: Vec<_> = OPS.iter().map(|op| op.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), OPS.len(), "names");
    let tested =
        [elementwise::TESTED, image::TESTED, movement::TESTED, order::TESTED, reduce::TESTED];
    let mut tested = tested.concat();
    tested.sort_unstable();
    assert_eq!(tested, numbers, "tests");
}

#[test]
fn builder_operations_refuse_unknown_attributes() {
    let spec = TensorSpec::fixed(DType::F32, &[2]).unwrap();
    for op in OPS {
        let mut graph = GraphBuilder::new("one");
        let mut tensors =
            |count: usize| (0..count).map(|_| graph.tensor("", spec).unwrap()).collect::<Vec<_>>();
        let (inputs, outputs) = (tensors(op.inputs[0]), tensors(op.outputs[0]));
        let more = tensors(201);
        let plain = || Operation::nnrt(op.name).reads(&inputs);
        let mut refused = |operation: Operation, words: &str| {
            let error = graph.op(operation).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains(op.name), "{}: {error}", op.name);
        };
        let foreign = plain().makes(&outputs).attr("colour", Attr::Int(1));
        refused(foreign, "has no attribute \"colour\"");
        refused(plain(), "makes 0 tensors");
        let many = Operation::nnrt(op.name).reads(&more).makes(&outputs);
        refused(many, "it has 201 inputs, expected");
        refused(plain().makes(&outputs).makes(&more), "outputs, expected");
        for param in op.params {
            let wrong = match param.of {
                Kind::Truth | Kind::Choice(_) => Attr::Int(77),
                Kind::Int | Kind::Ints | Kind::Float | Kind::Floats => Attr::Text("red".to_owned()),
            };
            let with = plain().makes(&outputs).attr(param.name, wrong);
            refused(with, &format!("attribute {:?} is", param.name));
        }
        // What was refused left nothing behind.
        graph.op(plain().makes(&outputs)).unwrap();
    }
}

#[test]
fn operations_have_a_number_and_a_name() {
    let mut graph = GraphBuilder::new("one");
    let spec = TensorSpec::fixed(DType::F32, &[2]).unwrap();
    let [x, y] = [graph.tensor("x", spec).unwrap(), graph.tensor("y", spec).unwrap()];
    let error = graph.op(Operation::nnrt("RELUU").reads(&[x]).makes(&[y])).unwrap_err();
    let words = "there is no operation \"RELUU\", expected one of the 108 of NNRt, as is \"RELU\"";
    assert_eq!(error.to_string(), words);
    let error = graph.op(Operation::nnrt_number(109).reads(&[x]).makes(&[y])).unwrap_err();
    assert_eq!(error.to_string(), "there is no operation 109, expected 1 to 108 of NNRt");
    graph.op(Operation::nnrt_number(47).reads(&[x]).makes(&[y])).unwrap();
    graph.set_io(&[x], &[y]).unwrap();
    assert_eq!(graph.finish().unwrap().operations().collect::<Vec<_>>(), ["RELU_0"]);
}

/// The table of operations as the document has it.
fn table() -> String {
    let mut text =
        "\n| number | operation | reads | makes | parameters |\n|---|---|---|---|---|\n".to_owned();
    for op in OPS {
        let count = |[least, most]: [usize; 2]| match most {
            _ if least == most => least.to_string(),
            200 => format!("{least} or more"),
            _ => format!("{least} to {most}"),
        };
        let param = |param: &Param| {
            let default = param.default.map(|default| format!(" = {default}")).unwrap_or_default();
            format!("`{}`: {}{default}", param.name, param.of)
        };
        let params: Vec<_> = op.params.iter().map(param).collect();
        let (reads, makes) = (count(op.inputs), count(op.outputs));
        let params = params.join("; ");
        writeln!(text, "| {} | {} | {reads} | {makes} | {params} |", op.number, op.name).unwrap();
    }
    text
}

#[test]
fn the_document_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/graph-building.md");
    let found = std::fs::read_to_string(path).unwrap();
    let (before, _) = found.split_once("-->\n").unwrap();
    let wanted = format!("{before}-->\n{}", table());
    if std::env::var_os("UDO_BLESS").is_some() {
        std::fs::write(path, &wanted).unwrap();
        return;
    }
    assert!(found == wanted, "docs/graph-building.md: UDO_BLESS=1 writes its table");
}
