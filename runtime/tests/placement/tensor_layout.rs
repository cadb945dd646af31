//! Operators that ask for channel-last tensors, in models that keep channels second.

use udo_api::types::F32;
use udo_api::{Core, Error, InferCx, KernelDef, Layout, Op, OpDef, OpSchema, PackageV1, Port};
use udo_runtime::CompileOptions;
use udo_runtime::graph::Graph;
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::number::NumberF32;

static PACKAGE: PackageV1 = PackageV1::new("Channels", "1.0.0")
    .ops(&[OpDef::of::<Number>(), OpDef::of::<NumberOfStatic>()])
    .kernels(&[
        KernelDef::new::<NumberF32>("Number", Core::CPU),
        KernelDef::new::<NumberF32>("NumberOfStatic", Core::CPU),
    ]);

/// Adds to each element the number of its last coordinate.
struct Number;

impl Op for Number {
    const SCHEMA: OpSchema = OpSchema::new(
        "Number",
        &[Port::required("x", F32).layout(Layout::Nhwc)],
        &[Port::required("y", F32).layout(Layout::Nhwc)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// The same of data that the model holds.
struct NumberOfStatic;

impl Op for NumberOfStatic {
    const SCHEMA: OpSchema = OpSchema::new(
        "NumberOfStatic",
        &[Port::required("x", F32).layout(Layout::Nhwc).constant()],
        &[Port::required("y", F32).layout(Layout::Nhwc)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// Returns the concatenated outputs of a graph for inputs of zeros.
fn outputs(lines: &str) -> Vec<f32> {
    let graph = Graph::parse(&format!("graph constants\n{lines}")).unwrap();
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    for input in model.inputs() {
        session.input_mut::<f32>(&input.name).unwrap().fill(0.0);
    }
    session.run().unwrap();
    let names = model.outputs().iter();
    names.flat_map(|name| session.output::<f32>(name).unwrap().to_vec()).collect()
}

fn run(dims: &[usize], ops: usize) -> (Vec<f32>, Vec<String>) {
    let nodes = (0..ops).map(|at| format!("  v{} = Number@17(v{at})\n", at + 1));
    let nodes: String = nodes.collect();
    let text = format!("graph channels\n  input v0: f32{dims:?}\n{nodes}  output v{ops}\n");
    let graph = Graph::parse(&text).unwrap();
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    session.input_mut::<f32>("v0").unwrap().fill(0.0);
    session.run().unwrap();
    let ops = model.report().steps.iter().map(|s| format!("{} {}", s.op, s.outputs[0])).collect();
    let name = model.plan().unwrap().outputs().next().unwrap().0.to_owned();
    (session.output(&name).unwrap().to_vec(), ops)
}

#[test]
fn rank_4_activations_are_transposed_and_transposed_back() {
    let (y, steps) = run(&[1, 2, 1, 3], 1);
    assert_eq!(y, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0], "the last axis was the channels");
    assert_eq!(steps, ["Transpose f32[1,1,3,2]", "Number f32[1,1,3,2]", "Transpose f32[1,2,1,3]"]);
}

#[test]
fn neighbours_that_agree_need_no_transpose_between_them() {
    let (y, steps) = run(&[1, 2, 1, 3], 3);
    assert_eq!(y, [0.0, 0.0, 0.0, 3.0, 3.0, 3.0]);
    assert_eq!(steps.len(), 5);
    assert_eq!(steps.iter().filter(|s| s.starts_with("Transpose")).count(), 2);
}

#[test]
fn other_ranks_stay_as_they_are() {
    let (y, steps) = run(&[2, 3], 1);
    assert_eq!(y, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    assert_eq!(steps, ["Number f32[2,3]"]);
}

/// A value lies in the model's order whatever makes it: its channels are numbered, as those of a run's input are.
#[test]
fn constants_lie_in_the_models_order_as_inputs_do() {
    // Elements are 10 and 20 more than the number of their channel, which is the second coordinate.
    let k = "constant k: f32[1,2,1,3]{10.0, 11.0, 12.0, 20.0, 21.0, 22.0}\n";
    let numbered = [10.0, 11.0, 12.0, 21.0, 22.0, 23.0];
    let negative = numbered.map(|of: f32| if of < 20.0 { -of } else { 2.0 - of });
    let rest = "  y = Add@17(a, x)\n  output y\n";
    let cases = [
        ("an initializer", "a = Number@17(k)", numbered),
        ("a view of one", "b = Identity@17(k)\n  a = Number@17(b)", numbered),
        ("a folded value", "b = Neg@17(k)\n  a = Number@17(b)", negative),
        ("a part of the graph before", "b = Add@17(k, x)\n  a = Number@17(b)", numbered),
        ("data that the model holds", "a = NumberOfStatic@17(k)", numbered),
        ("a folded value for such", "b = Neg@17(k)\n  a = NumberOfStatic@17(b)", negative),
        (
            "quantized data",
            "constant q: u8[1,2,1,3]{10, 11, 12, 20, 21, 22}\n  constant one: f32[]{1.0}\n  \
             b = DequantizeLinear@17(q, one)\n  a = Number@17(b)",
            numbered,
        ),
        (
            "data quantized along its channels",
            "constant q: u8[1,2,1,3]{20, 22, 24, 40, 42, 44}\n  constant half: f32[2]{0.5, 0.5}\n  \
             constant zero: u8[2]{0, 0}\n  b = DequantizeLinear@17(q, half, zero) axis=1\n  \
             a = Number@17(b)",
            numbered,
        ),
    ];
    for (what, nodes, wanted) in cases {
        assert_eq!(
            outputs(&format!("  input x: f32[1,2,1,3]\n  {k}  {nodes}\n{rest}")),
            wanted,
            "{what}"
        );
    }
}

#[test]
fn a_constant_that_several_nodes_read_is_the_same_for_all() {
    let lines = "  constant k: f32[1,2,1,3]{10.0, 11.0, 12.0, 20.0, 21.0, 22.0}
  input x: f32[1,2,1,3]
  a = Number@17(k)
  b = Number@17(k)
  c = Add@17(k, x)
  y = Sub@17(a, c)
  z = Sub@17(b, x)
  output y
  output z
";
    let wanted = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 10.0, 11.0, 12.0, 21.0, 22.0, 23.0];
    assert_eq!(outputs(lines), wanted);
}
