//! Activations and normalizations that the operator before them takes over.
#![expect(clippy::unwrap_used, reason = "a graph that cannot be made fails the test")]

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, ExecError, Facts, FinalizeCx, GuardAlloc, InferCx, Io, Kernel, KernelDef,
    Op, OpDef, OpSchema, PackageV1, Param, Port, Shape, Value,
};
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, ValueId};
use udo_runtime::memory::Tensor;
use udo_runtime::model::{Model, Options};
use udo_runtime::registry::Registry;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

static PACKAGE: PackageV1 = PackageV1::new("Activations", "1.0.0")
    .ops(&[OpDef::of::<Negated>(), OpDef::of::<Deaf>(), OpDef::of::<Relu>()])
    .kernels(&[
        KernelDef::new::<NegatedF32>("Negated", Core::CPU),
        KernelDef::new::<DeafF32>("Deaf", Core::CPU),
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

/// Says that it takes activations; its kernel does not look for one.
struct Deaf;

impl Op for Deaf {
    const SCHEMA: OpSchema =
        OpSchema::new("Deaf", IN, OUT, &[Param::text("activation").default(Value::text("None"))])
            .facts(Facts::TAKES_ACTIVATION);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Negated::infer(cx)
    }
}

struct DeafF32;

impl Kernel for DeafF32 {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        NegatedF32 { lowest: f32::NEG_INFINITY }.execute(io)
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

    fn constant(&mut self, dims: &[usize], values: &[f32]) -> ValueId {
        let tensor = Tensor::of(Shape::new(dims).unwrap(), values).unwrap();
        self.graph.add_constant("constant", tensor)
    }

    /// `(x - mean) / sqrt(variance + 1) * scale + B`, which is `x / 2` of the first channel and `2 x` of the second.
    fn batch_norm(&mut self, x: ValueId) -> ValueId {
        let statistics = [[1.0f32, 2.0], [0.5, 0.0], [1.0, 0.0], [3.0, 0.0]];
        let statistics = statistics.map(|values| self.constant(&[2], &values));
        let y = self.node("BatchNormalization", &[&[x][..], &statistics].concat());
        let node = self.graph.nodes.last_mut().unwrap();
        node.attrs.push(("epsilon".to_owned(), Attr::Float(1.0)));
        y
    }

    /// A convolution that negates both channels.
    fn conv(&mut self, x: ValueId) -> ValueId {
        let weights = self.constant(&[2, 2, 1, 1], &[-1., 0., 0., -1.]);
        self.node("Conv", &[x, weights])
    }

    fn zero_point(&mut self) -> ValueId {
        let tensor = Tensor::of(Shape::new(&[]).unwrap(), &[0u8]).unwrap();
        self.graph.add_constant("zero point", tensor)
    }

    fn run(self, outputs: &[ValueId], relu: &str) -> (Vec<Vec<f32>>, Vec<String>) {
        self.run_on(outputs, relu, &[Core::CPU])
    }

    /// What comes of [-1, 2, -3, 4], and the steps that compute something.
    fn run_on(
        mut self,
        outputs: &[ValueId],
        relu: &str,
        cores: &[Core],
    ) -> (Vec<Vec<f32>>, Vec<String>) {
        self.graph.outputs.extend(outputs);
        let names: Vec<String> =
            outputs.iter().map(|&y| self.graph.value(y).unwrap().name.clone()).collect();
        let mut registry = Registry::builtin().unwrap();
        registry.add_static(&PACKAGE).unwrap();
        let mut options = Options::default();
        options.place.cores = cores.to_vec();
        options.bind.bind.insert("Relu".to_owned(), relu.to_owned());
        let model = Model::compile(self.graph, &mut registry, &options).unwrap();
        let mut session = model.session().unwrap();
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
    net.graph.nodes.last_mut().unwrap().attrs.push(("axis".to_owned(), Attr::Int(1)));
    let y = net.node("Relu", &[both]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [1., 0., 3., 0., 1., 0., 3., 0.]);
    assert_eq!(steps, ["Conv", "Conv", "Relu", "Relu", "Relu"]);
}

#[test]
fn what_another_node_does_keeps_its_core_and_its_precision() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let positive = net.node("Relu", &[sums]);
    // Half of the largest number would be lost in these codes.
    let (scale, zero) = (net.constant(&[], &[0.75]), net.zero_point());
    let codes = net.node("QuantizeLinear", &[positive, scale, zero]);
    let y = net.node("DequantizeLinear", &[codes, scale, zero]);
    let exact = net.node("Mul", &[positive, net.x]);
    let (outputs, steps) = net.run_on(&[y, exact], "builtin", &[Core::DSP_V68, Core::CPU]);
    assert_eq!(outputs[0], [0.75, 0., 3., 0.]);
    assert_eq!(outputs[1], [-1., 0., -9., 0.]);
    assert!(!steps.contains(&"Relu".to_owned()), "{steps:?}");
}

#[test]
fn models_do_not_say_what_is_taken_over() {
    let mut net = Net::new();
    net.conv(net.x);
    let relu = ("activation".to_owned(), Attr::Text("Relu".to_owned()));
    net.graph.nodes.last_mut().unwrap().attrs.push(relu);
    let mut registry = Registry::builtin().unwrap();
    let refused = Model::compile(net.graph, &mut registry, &Options::default()).unwrap_err();
    let wanted = "attribute \"activation\" is not a parameter of operator Conv, which has auto_pad, dilations, \
                  group, kernel_shape, pads, strides";
    assert!(refused.to_string().ends_with(wanted), "{refused}");
}

#[test]
fn clips_with_a_name_are_taken_over() {
    // The bounds, what comes of [1, -2, 3, -4], and whether a step is left.
    let (low, open) = (f32::NEG_INFINITY, f32::INFINITY);
    for (bounds, wanted, steps) in [
        ([0., 6.], [1., 0., 3., 0.], 1),
        ([0., open], [1., 0., 3., 0.], 1),
        ([0., 2.], [1., 0., 2., 0.], 2),
        ([-3., 6.], [1., -2., 3., -3.], 2),
        ([low, 2.], [1., -2., 2., -4.], 2),
    ] {
        let mut net = Net::new();
        let sums = net.conv(net.x);
        let [low, high] = bounds.map(|bound| net.constant(&[], &[bound]));
        let y = net.node("Clip", &[sums, low, high]);
        let (outputs, found) = net.run(&[y], "builtin");
        assert_eq!((outputs[0].as_slice(), found.len()), (&wanted[..], steps), "{bounds:?}");
    }
}

#[test]
fn a_normalization_goes_into_the_weights() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let normal = net.batch_norm(sums);
    let y = net.node("Relu", &[normal]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [0.5, 0., 6., 0.]);
    assert_eq!(steps, ["Conv"]);
}

#[test]
fn a_normalization_moves_the_bias() {
    let mut net = Net::new();
    let weights = net.constant(&[2, 2, 1, 1], &[-1., 0., 0., -1.]);
    let bias = net.constant(&[2], &[10., 20.]);
    let sums = net.node("Conv", &[net.x, weights, bias]);
    let y = net.batch_norm(sums);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [5.5, 4., 46., 32.]);
    assert_eq!(steps, ["Conv"]);
}

#[test]
fn a_normalization_of_what_someone_else_reads_stays() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let y = net.batch_norm(sums);
    let (outputs, steps) = net.run(&[y, sums], "builtin");
    assert_eq!(outputs, [[0.5, -1., 6., -8.], [1., -2., 3., -4.]]);
    assert_eq!(steps, ["Conv", "BatchNormalization"]);

    let mut net = Net::new();
    let y = net.batch_norm(net.x);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [-0.5, 1., -6., 8.]);
    assert_eq!(steps, ["BatchNormalization"]);

    let mut net = Net::new();
    let weights = net.node("Relu", &[net.x]);
    let weights = net.node("GlobalAveragePool", &[weights]);
    let sums = net.conv(net.x);
    let sums = net.node("Mul", &[sums, weights]);
    let y = net.batch_norm(sums);
    let (_, steps) = net.run(&[y], "builtin");
    assert_eq!(steps.last().unwrap(), "BatchNormalization");
}

#[test]
fn a_kernel_that_would_lose_an_activation_is_refused() {
    let mut registry = Registry::builtin().unwrap();
    registry.add_static(&PACKAGE).unwrap();
    let mut options = Options::default();
    options.bind.bind.insert("Relu".to_owned(), "builtin".to_owned());
    let mut compile = |ops: &[&str]| {
        let mut net = Net::new();
        let y = ops.iter().fold(net.x, |x, op| net.node(op, &[x]));
        net.graph.outputs = vec![y];
        Model::compile(net.graph, &mut registry, &options).map(|_| ())
    };
    compile(&["Deaf"]).unwrap();
    let refusal = compile(&["Deaf", "Relu"]).unwrap_err().to_string();
    assert!(
        refusal.ends_with(
            "cpu: the operator says that it takes activations, and the kernel does not read parameter \
             \"activation\", which asks for Relu"
        ),
        "{refusal}"
    );
}
