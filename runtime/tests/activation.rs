//! Activations that the operator before them takes over.
#![expect(clippy::unwrap_used, reason = "a graph that cannot be made fails the test")]

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, Facts, FinalizeCx, GuardAlloc, InferCx, Io, Kernel, KernelDef,
    Op, OpDef, OpSchema, PackageV1, Param, Port, Shape, Value,
};
use udo_runtime::graph::{DimSpec, Graph, Node, ValueId};
use udo_runtime::memory::Tensor;
use udo_runtime::model::{Model, Options};
use udo_runtime::registry::Registry;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

static PACKAGE: PackageV1 = PackageV1::new("Activations", "1.0.0")
    .ops(&[OpDef::of::<Negated>(), OpDef::of::<Relu>()])
    .kernels(&[
        KernelDef::new::<NegatedF32>("Negated", Core::CPU),
        KernelDef::new::<ReluF32>("Relu", Core::CPU),
    ])
    .guarded();

const IN: &[Port] = &[Port::required("x", F32)];
const OUT: &[Port] = &[Port::required("y", F32)];

/// `-x`, and what the host asks for after that.
struct Negated;

impl Op for Negated {
    const SCHEMA: OpSchema = OpSchema::new(
        "Negated",
        IN,
        OUT,
        &[Param::text("activation").default(Value::text("None"))],
    )
    .facts(Facts::TAKES_ACTIVATION);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct NegatedF32 {
    lowest: f32,
}

impl Kernel for NegatedF32 {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let lowest = if cx.text("activation")? == "Relu" { 0.0 } else { f32::NEG_INFINITY };
        Ok(Self { lowest })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        y.iter_mut().zip(x).for_each(|(y, x)| *y = (-x).max(self.lowest));
        Ok(())
    }
}

/// Another idea of what a Relu is: 100 more.
struct Relu;

impl Op for Relu {
    const SCHEMA: OpSchema = OpSchema::new("Relu", IN, OUT, &[]).facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct ReluF32;

impl Kernel for ReluF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x.max(0.0) + 100.0);
        Ok(())
    }
}

struct Net {
    graph: Graph,
    x: ValueId,
}

impl Net {
    fn new() -> Self {
        let mut graph = Graph::new("activations");
        let x = graph.add_input("x", DType::F32, [1, 2, 1, 2].map(DimSpec::Fixed));
        Self { graph, x }
    }

    fn node(&mut self, op: &str, inputs: &[ValueId]) -> ValueId {
        let y = self.graph.add_value(&format!("{op}{}", self.graph.values.len()));
        self.graph.add_node(Node::new(op, 17, inputs, &[y]));
        y
    }

    /// A convolution that negates both channels.
    fn conv(&mut self, x: ValueId) -> ValueId {
        let weights = Tensor::of(Shape::new(&[2, 2, 1, 1]).unwrap(), &[-1f32, 0., 0., -1.]);
        let weights = self.graph.add_constant("weights", weights.unwrap());
        self.node("Conv", &[x, weights])
    }

    /// What comes of [-1, 2, -3, 4], and the steps that compute something.
    fn run(mut self, outputs: &[ValueId], relu: &str) -> (Vec<Vec<f32>>, Vec<String>) {
        self.graph.outputs.extend(outputs);
        let names: Vec<String> =
            outputs.iter().map(|&y| self.graph.value(y).unwrap().name.clone()).collect();
        let mut registry = Registry::builtin().unwrap();
        registry.add_static(&PACKAGE).unwrap();
        let mut options = Options::default();
        options.bind.bind.insert("Relu".to_owned(), relu.to_owned());
        let model = Model::compile(self.graph, &mut registry, &options).unwrap();
        let mut session = model.session();
        session.input_mut::<f32>("x").unwrap().copy_from_slice(&[-1., 2., -3., 4.]);
        session.run().unwrap();
        let steps = model.report().steps.iter().map(|s| s.op.clone());
        let outputs = names.iter().map(|y| session.output(y).unwrap().to_vec());
        (outputs.collect(), steps.filter(|op| op != "Transpose").collect())
    }
}

#[test]
fn a_convolution_takes_over_the_relu_behind_it() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let y = net.node("Relu", &[sums]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [1., 0., 3., 0.]);
    assert_eq!(steps, ["Conv"]);
}

#[test]
fn so_does_any_operator_that_says_so() {
    let mut net = Net::new();
    let negated = net.node("Negated", &[net.x]);
    let first = net.node("Relu", &[negated]);
    let again = net.node("Negated", &[first]);
    let (outputs, steps) = net.run(&[again, first], "builtin");
    assert_eq!(outputs, [[-1., 0., -3., 0.], [1., 0., 3., 0.]]);
    assert_eq!(steps, ["Negated", "Negated"]);
}

#[test]
fn an_operator_takes_over_one_activation() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let first = net.node("Relu", &[sums]);
    let y = net.node("Relu", &[first]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [1., 0., 3., 0.]);
    assert_eq!(steps, ["Conv", "Relu"]);
}

#[test]
fn sums_that_someone_else_reads_stay() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let y = net.node("Relu", &[sums]);
    let (outputs, steps) = net.run(&[y, sums], "builtin");
    assert_eq!(outputs, [[1., 0., 3., 0.], [1., -2., 3., -4.]]);
    assert_eq!(steps, ["Conv", "Relu"]);

    let mut net = Net::new();
    let sums = net.conv(net.x);
    let positive = net.node("Relu", &[sums]);
    let y = net.node("Sub", &[sums, positive]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [0., -2., 0., -4.]);
    assert_eq!(steps, ["Conv", "Relu", "Sub"]);
}

#[test]
fn the_operator_of_a_package_is_not_replaced() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let y = net.node("Relu", &[sums]);
    let (outputs, steps) = net.run(&[y], "Activations");
    assert_eq!(outputs[0], [101., 100., 103., 100.]);
    assert_eq!(steps, ["Conv", "Relu"]);
}

#[test]
fn parts_of_a_join_are_written_by_their_activation() {
    let mut net = Net::new();
    let (a, b) = (net.conv(net.x), net.conv(net.x));
    let (a, b) = (net.node("Relu", &[a]), net.node("Relu", &[b]));
    let both = net.node("Concat", &[a, b]);
    net.graph
        .nodes
        .last_mut()
        .unwrap()
        .attrs
        .push(("axis".to_owned(), udo_runtime::graph::Attr::Int(1)));
    let y = net.node("Relu", &[both]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [1., 0., 3., 0., 1., 0., 3., 0.]);
    assert_eq!(steps, ["Conv", "Conv", "Relu", "Relu", "Relu"]);
}
