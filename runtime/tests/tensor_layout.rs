//! Operators that ask for channel-last activations, in models that keep channels second.
#![expect(clippy::unwrap_used, reason = "a graph that cannot be made fails the test")]

use udo_api::types::F32;
use udo_api::{
    Core, Error, GuardAlloc, InferCx, KernelDef, Layout, Op, OpDef, OpSchema, PackageV1, Port,
};
use udo_runtime::graph::Graph;
use udo_runtime::model::{Model, Options};
use udo_runtime::registry::Registry;

#[path = "support/number.rs"]
mod number;

use number::NumberF32;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

static PACKAGE: PackageV1 = PackageV1::new("Channels", "1.0.0")
    .ops(&[OpDef::of::<Number>()])
    .kernels(&[KernelDef::new::<NumberF32>("Number", Core::CPU)]);

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

fn run(dims: &[usize], ops: usize) -> (Vec<f32>, Vec<String>) {
    let nodes = (0..ops).map(|at| format!("  v{} = Number@17(v{at})\n", at + 1));
    let nodes: String = nodes.collect();
    let text = format!("graph channels\n  input v0: f32{dims:?}\n{nodes}  output v{ops}\n");
    let graph = Graph::parse(&text).unwrap();
    let mut registry = Registry::builtin().unwrap();
    registry.add_static(&PACKAGE).unwrap();
    let model = Model::compile(graph, &mut registry, &Options::default()).unwrap();
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
