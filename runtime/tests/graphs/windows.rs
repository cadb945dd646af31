//! Values that share memory: parts in their wholes, views, and outputs in the place of inputs.

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema,
    PackageV1, Param, Port, Shape,
};
use udo_runtime::CompileOptions;
use udo_runtime::graph::Graph;
use udo_test_support::compile::{built_in, compile_graph};

static PACKAGE: PackageV1 = PackageV1::new("Windows", "1.0.0")
    .ops(&[OpDef::of::<Tied>()])
    .kernels(&[KernelDef::new::<TiedF32>("Tied", Core::CPU)])
    .guarded();

/// The second half of the first axis; its kernel ties that as parameters say, truly or not.
struct Tied;

impl Op for Tied {
    const SCHEMA: OpSchema = OpSchema::new(
        "Tied",
        &[Port::required("x", F32)],
        &[Port::required("y", F32)],
        &[
            Param::scalar("output", DType::I64),
            Param::scalar("axis", DType::I64),
            Param::scalar("offset", DType::I64),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let mut dims = x.shape().to_vec();
        dims[0] /= 2;
        cx.set_output(0, x.with_shape(Shape::new(&dims)?))
    }
}

struct TiedF32;

impl Kernel for TiedF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let [output, axis, offset] = ["output", "axis", "offset"]
            .map(|name| usize::try_from(cx.int(name).unwrap()).unwrap_or(usize::MAX));
        cx.tie_output_in_input(output, 0, axis, offset)?;
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        y.copy_from_slice(&x[x.len() - y.len()..]);
        Ok(())
    }
}

/// The outputs of a graph whose input is 0, 1, 2 .., and the steps.
fn run(text: &str) -> (Vec<Vec<f32>>, Vec<String>) {
    let graph = Graph::parse(text).unwrap();
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let model = compile_graph(graph, &operators, &CompileOptions::default()).unwrap();
    let mut session = model.session().unwrap();
    for (x, i) in session.input_mut::<f32>("x").unwrap().iter_mut().zip(0u8..) {
        *x = f32::from(i);
    }
    session.run().unwrap();
    let outputs =
        model.plan().unwrap().outputs().map(|(name, _)| session.output(name).unwrap().to_vec());
    let steps = model.report().steps.iter().map(|step| step.op.clone());
    (outputs.collect(), steps.collect())
}

#[test]
fn parts_along_the_first_long_axis_are_written_in_place() {
    let (outputs, steps) = run("graph g
  input x: f32[1,2,2]
  a = Relu@17(x)
  b = Tanh@17(x)
  both = Concat@17(a, b) axis=1
  y = Sigmoid@17(both)
  output both
  output y");
    assert_eq!(outputs[0][..4], [0., 1., 2., 3.]);
    // The join is an output of the graph, so that its memory is not the plan's to choose.
    assert_eq!(steps, ["Relu", "Tanh", "Concat", "Sigmoid"]);
    let (outputs, steps) = run("graph g
  input x: f32[1,2,2]
  a = Relu@17(x)
  b = Tanh@17(x)
  both = Concat@17(a, b) axis=1
  y = Relu@17(both)
  output y");
    assert_eq!(outputs[0][..4], [0., 1., 2., 3.]);
    assert_eq!(outputs[0][5..6], [1f32.tanh()]);
    assert_eq!(steps, ["Relu", "Tanh", "Relu"]);
}

#[test]
fn pieces_are_read_where_they_lie() {
    let (outputs, steps) = run("graph g
  input x: f32[4,2]
  constant lengths: i64[2]{1, 3}
  a = Relu@17(x)
  left, right = Split@17(a, lengths) axis=0
  y = Relu@17(right)
  z = Relu@17(left)
  output y
  output z");
    assert_eq!(outputs, [vec![2., 3., 4., 5., 6., 7.], vec![0., 1.]]);
    assert_eq!(steps, ["Relu", "Relu", "Relu"]);
}

#[test]
fn slices_along_one_axis_are_read_where_they_lie() {
    let (outputs, steps) = run("graph g
  input x: f32[4,2]
  constant one: i64[1]{1}
  constant three: i64[1]{3}
  constant zero: i64[1]{0}
  constant all: i64[1]{9}
  a = Relu@17(x)
  b = Slice@17(a, one, three)
  c = Slice@17(a, zero, all)
  y = Relu@17(b)
  z = Relu@17(c)
  output y
  output z");
    assert_eq!(outputs, [vec![2., 3., 4., 5.], (0u8..8).map(f32::from).collect()]);
    assert_eq!(steps, ["Relu", "Relu", "Relu"]);
    let (outputs, steps) = run("graph g
  input x: f32[4,2]
  constant first: i64[1]{3}
  constant end: i64[1]{0}
  constant axes: i64[1]{0}
  constant steps: i64[1]{-2}
  a = Relu@17(x)
  b = Slice@17(a, first, end, axes, steps)
  y = Relu@17(b)
  output y");
    assert_eq!(outputs, [vec![6., 7., 2., 3.]]);
    assert_eq!(steps, ["Relu", "Slice", "Relu"]);
}

#[test]
fn outputs_that_cannot_be_in_place_are_copied() {
    // The input is the caller's, and one value is twice in the join.
    let (outputs, steps) = run("graph g
  input x: f32[2,2]
  a = Relu@17(x)
  b = Tanh@17(x)
  both = Concat@17(a, x, b, a) axis=1
  y = Relu@17(both)
  output y");
    let tanh = |x: f32| x.tanh();
    assert_eq!(outputs[0][..4], [0., 1., 0., 1.]);
    assert_eq!(outputs[0][4..8], [0., tanh(1.), 0., 1.]);
    assert_eq!(outputs[0][8..12], [2., 3., 2., 3.]);
    assert_eq!(steps, ["Relu", "Tanh", "Copy", "Copy", "Relu"]);
}

#[test]
fn kernels_of_packages_tie_as_well() {
    let tied = |output: i64, axis: i64, offset: i64| {
        format!(
            "graph g
  input x: f32[4,2]
  a = Relu@17(x)
  b = Tied@17(a) output={output} axis={axis} offset={offset}
  y = Relu@17(b)
  output y"
        )
    };
    let (outputs, steps) = run(&tied(0, 0, 2));
    assert_eq!(outputs[0], [4., 5., 6., 7.]);
    assert_eq!(steps, ["Relu", "Relu"]);
    for (output, axis, offset) in [(1, 0, 2), (0, 1, 0), (0, 0, 3), (0, 2, 0), (0, 0, -1)] {
        let graph = Graph::parse(&tied(output, axis, offset)).unwrap();
        let mut operators = built_in();
        operators.add_static(&PACKAGE).unwrap();
        let refused = compile_graph(graph, &operators, &CompileOptions::default()).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("finalize ties output"), "{refused}");
    }
}
