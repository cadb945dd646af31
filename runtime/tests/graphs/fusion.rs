//! Fusion of nodes into the kernels of their producers, and of normalizations into weights.

use udo_api::types::F32;
use udo_api::{
    AcceptCx, Activation, Core, DType, EpilogueOp, EpilogueStep, Error, ExecError, Facts,
    FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpDef, OpSchema, PackageV1, Port, Shape,
};
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, ValueId};
use udo_runtime::{CompileOptions, Tensor};
use udo_test_support::compile::{built_in, compile_graph};

static PACKAGE: PackageV1 = PackageV1::new("Activations", "1.0.0")
    .ops(&[
        OpDef::of::<Negated>(),
        OpDef::of::<Deaf>(),
        OpDef::of::<Greedy>(),
        OpDef::of::<Choosy>(),
        OpDef::of::<Relu>(),
    ])
    .kernels(&[
        KernelDef::new::<GreedyF32>("Greedy", Core::CPU),
        KernelDef::new::<ChoosyF32>("Choosy", Core::CPU),
        KernelDef::new::<NegatedF32>("Negated", Core::CPU),
        KernelDef::new::<DeafF32>("Deaf", Core::CPU),
        KernelDef::new::<ReluF32>("Relu", Core::CPU),
    ])
    .guarded();

const IN: &[Port] = &[Port::required("x", F32)];
const OUT: &[Port] = &[Port::required("y", F32)];

/// `-x`; its kernel can take over one Relu that follows.
struct Negated;

impl Op for Negated {
    const SCHEMA: OpSchema = OpSchema::new("Negated", IN, OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

struct NegatedF32 {
    lowest: f32,
}

fn leads_with_relu(steps: &[EpilogueStep]) -> bool {
    let relu = EpilogueOp::Activation(Activation::Relu);
    steps.first().is_some_and(|step| step.op() == Some(relu))
}

impl Kernel for NegatedF32 {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Ok(usize::from(leads_with_relu(cx.epilogue())))
    }

    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let lowest = if leads_with_relu(cx.epilogue()) { 0.0 } else { f32::NEG_INFINITY };
        Ok(Self { lowest })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (x, y) = (inputs.get::<f32>(0)?, outputs.take::<f32>(0)?);
        y.iter_mut().zip(x).for_each(|(y, x)| *y = (-x).max(self.lowest));
        Ok(())
    }
}

/// `-x`; its kernel accepts every epilogue step and applies none.
struct Deaf;

impl Op for Deaf {
    const SCHEMA: OpSchema = OpSchema::new("Deaf", IN, OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Negated::infer(cx)
    }
}

struct DeafF32;

impl Kernel for DeafF32 {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Ok(cx.epilogue().len())
    }

    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        NegatedF32 { lowest: f32::NEG_INFINITY }.execute(io)
    }
}

/// `-x`; its kernel takes a step more than there are.
struct Greedy;

impl Op for Greedy {
    const SCHEMA: OpSchema = OpSchema::new("Greedy", IN, OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Negated::infer(cx)
    }
}

struct GreedyF32;

impl Kernel for GreedyF32 {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        Ok(cx.epilogue().len() + 1)
    }

    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        DeafF32.execute(io)
    }
}

/// `-x` of two axes; its `accept` refuses tensors of another rank.
struct Choosy;

impl Op for Choosy {
    const SCHEMA: OpSchema = OpSchema::new("Choosy", IN, OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        Negated::infer(cx)
    }
}

struct ChoosyF32;

impl Kernel for ChoosyF32 {
    fn accept(cx: &AcceptCx<'_>) -> Result<usize, Error> {
        match cx.output(0)?.rank() {
            2 => Ok(0),
            rank => Err(Error::new(format!("rank {rank}, expected 2"))),
        }
    }

    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        DeafF32.execute(io)
    }
}

/// A package's own Relu, which adds 100 so that tests can tell it apart.
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
        let tensor = Tensor::from_slice(Shape::new(dims).unwrap(), values).unwrap();
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
        let tensor = Tensor::from_slice(Shape::new(&[]).unwrap(), &[0u8]).unwrap();
        self.graph.add_constant("zero point", tensor)
    }

    fn run(self, outputs: &[ValueId], relu: &str) -> (Vec<Vec<f32>>, Vec<String>) {
        self.run_on(outputs, relu, &[Core::CPU])
    }

    /// Returns the outputs for [-1, 2, -3, 4], and the operators of the steps except Transpose.
    fn run_on(
        mut self,
        outputs: &[ValueId],
        relu: &str,
        cores: &[Core],
    ) -> (Vec<Vec<f32>>, Vec<String>) {
        self.graph.outputs.extend(outputs);
        let names: Vec<String> =
            outputs.iter().map(|&y| self.graph.value(y).unwrap().name.clone()).collect();
        let mut operators = built_in();
        operators.add_static(&PACKAGE).unwrap();
        let mut options = CompileOptions::default();
        options.place.cores = cores.to_vec();
        options.bind.bind.insert("Relu".to_owned(), relu.to_owned());
        let model = compile_graph(self.graph, &operators, &options).unwrap();
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
fn parts_of_a_concat_are_written_where_they_are_computed() {
    let mut net = Net::new();
    let (a, b) = (net.conv(net.x), net.conv(net.x));
    let (a, b) = (net.node("Relu", &[a]), net.node("Relu", &[b]));
    let both = net.node("Concat", &[a, b]);
    net.graph.nodes.last_mut().unwrap().attrs.push(("axis".to_owned(), Attr::Int(1)));
    let y = net.node("Relu", &[both]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [1., 0., 3., 0., 1., 0., 3., 0.]);
    assert_eq!(steps, ["Conv", "Conv", "Relu"]);
}

#[test]
fn unrelated_nodes_keep_core_and_precision() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let positive = net.node("Relu", &[sums]);
    // With this scale 1 becomes 0.75, so the result shows whether the Relu was quantized.
    let (scale, zero) = (net.constant(&[], &[0.75]), net.zero_point());
    let quantized = net.node("QuantizeLinear", &[positive, scale, zero]);
    let y = net.node("DequantizeLinear", &[quantized, scale, zero]);
    let exact = net.node("Mul", &[positive, net.x]);
    let (outputs, steps) = net.run_on(&[y, exact], "builtin", &[Core::DSP_V68, Core::CPU]);
    assert_eq!(outputs[0], [0.75, 0., 3., 0.]);
    assert_eq!(outputs[1], [-1., 0., -9., 0.]);
    assert!(!steps.contains(&"Relu".to_owned()), "{steps:?}");
}

#[test]
fn clips_by_constants_are_taken_over() {
    // The bounds, and what comes of [1, -2, 3, -4].
    let (low, open) = (f32::NEG_INFINITY, f32::INFINITY);
    for (bounds, wanted) in [
        ([0., 6.], [1., 0., 3., 0.]),
        ([0., open], [1., 0., 3., 0.]),
        ([0., 2.], [1., 0., 2., 0.]),
        ([-3., 6.], [1., -2., 3., -3.]),
        ([low, 2.], [1., -2., 2., -4.]),
    ] {
        let mut net = Net::new();
        let sums = net.conv(net.x);
        let [low, high] = bounds.map(|bound| net.constant(&[], &[bound]));
        let y = net.node("Clip", &[sums, low, high]);
        let (outputs, found) = net.run(&[y], "builtin");
        assert_eq!(outputs[0], wanted, "{bounds:?}");
        assert_eq!(found, ["Conv"], "{bounds:?}");
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
fn normalizations_with_other_consumers_are_not_fused() {
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
fn kernels_that_accept_unsupported_steps_are_refused() {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let mut options = CompileOptions::default();
    options.bind.bind.insert("Relu".to_owned(), "builtin".to_owned());
    let compile = |ops: &[&str]| {
        let mut net = Net::new();
        let y = ops.iter().fold(net.x, |x, op| net.node(op, &[x]));
        net.graph.outputs = vec![y];
        compile_graph(net.graph, &operators, &options).map(|_| ())
    };
    compile(&["Deaf"]).unwrap();
    for (ops, wanted) in [
        (
            &["Deaf", "Relu"][..],
            "cpu: accept took 1 steps of the epilogue, and finalize did not ask for them",
        ),
        (&["Greedy", "Relu"], "accept takes 2 steps of an epilogue that has 1"),
        (&["Choosy"], "cpu: rank 4, expected 2"),
    ] {
        let refusal = compile(ops).unwrap_err().to_string();
        assert!(refusal.ends_with(wanted), "{refusal}");
    }
}

/// Adds an attribute to the last node.
fn add_attr(net: &mut Net, name: &str, attr: Attr) {
    net.graph.nodes.last_mut().unwrap().attrs.push((name.to_owned(), attr));
}

#[test]
fn a_convolution_adds_bias_and_residual_and_applies_a_function() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let bias = net.constant(&[1, 2, 1, 1], &[10., 20.]);
    let biased = net.node("Add", &[bias, sums]);
    let added = net.node("Add", &[biased, net.x]);
    let y = net.node("Relu", &[added]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [10., 10., 20., 20.]);
    assert_eq!(steps, ["Conv"]);
}

#[test]
fn a_residual_that_is_made_later_is_added_by_the_later_node() {
    for op in ["Add", "Sum"] {
        let mut net = Net::new();
        let first = net.conv(net.x);
        let second = net.conv(first);
        let third = net.conv(first);
        let y = net.node(op, &[second, third]);
        let (outputs, steps) = net.run(&[y], "builtin");
        assert_eq!(outputs[0], [-2., 4., -6., 8.]);
        assert_eq!(steps, ["Conv", "Conv", "Conv"]);
    }
}

#[test]
fn sums_of_three_stay() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let y = net.node("Sum", &[sums, net.x, net.x]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [-1., 2., -3., 4.]);
    assert_eq!(steps, ["Conv", "Sum"]);
}

#[test]
fn sums_that_broadcast_stay() {
    let cases = [
        // Larger than the convolution's output.
        ([2, 2, 1, 2], 2),
        // Of the output's shape: a residual.
        ([1, 2, 1, 2], 1),
        // Smaller along the channels.
        ([1, 1, 1, 2], 2),
    ];
    for (dims, expected) in cases {
        let mut net = Net::new();
        let sums = net.conv(net.x);
        let ones = vec![1.0; dims.iter().product()];
        let addend = net.constant(&dims, &ones);
        let y = net.node("Add", &[sums, addend]);
        let (outputs, steps) = net.run(&[y], "builtin");
        assert_eq!(outputs[0][..4], [2., -1., 4., -3.], "{dims:?}");
        assert_eq!(steps.len(), expected, "{dims:?}: {steps:?}");
    }
}

#[test]
fn silu_is_two_nodes_and_one_step() {
    for swapped in [false, true] {
        let mut net = Net::new();
        let sums = net.conv(net.x);
        let gate = net.node("Sigmoid", &[sums]);
        let y = net.node("Mul", &if swapped { [gate, sums] } else { [sums, gate] });
        let (outputs, steps) = net.run(&[y], "builtin");
        let wanted = [1f32, -2., 3., -4.].map(|x| x / (1. + (-x).exp()));
        for (found, wanted) in outputs[0].iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-6, "{outputs:?}");
        }
        assert_eq!(steps, ["Conv"]);
    }
}

#[test]
fn gates_of_something_else_or_that_are_read_elsewhere_stay() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let gate = net.node("Sigmoid", &[net.x]);
    let y = net.node("Mul", &[sums, gate]);
    let (_, steps) = net.run(&[y], "builtin");
    assert_eq!(steps, ["Conv", "Sigmoid", "Mul"]);

    let mut net = Net::new();
    let sums = net.conv(net.x);
    let gate = net.node("Sigmoid", &[sums]);
    let y = net.node("Mul", &[sums, gate]);
    let (_, steps) = net.run(&[y, gate], "builtin");
    assert_eq!(steps, ["Conv", "Sigmoid", "Mul"]);
}

#[test]
fn matrix_products_do_all_steps() {
    let mut net = Net::new();
    let weights = net.constant(&[2, 2], &[-1., 0., 0., -1.]);
    let sums = net.node("MatMul", &[net.x, weights]);
    let bias = net.constant(&[2], &[10., 20.]);
    let biased = net.node("Add", &[sums, bias]);
    let added = net.node("Add", &[net.x, biased]);
    let y = net.node("Relu", &[added]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [10., 20., 10., 20.]);
    assert_eq!(steps, ["MatMul"]);

    let mut net = Net::new();
    let flat = net.node("Flatten", &[net.x]);
    add_attr(&mut net, "axis", Attr::Int(2));
    let weights = net.constant(&[2, 2], &[-1., 0., 0., -1.]);
    let bias = net.constant(&[2], &[1., 2.]);
    let sums = net.node("Gemm", &[flat, weights, bias]);
    let added = net.node("Add", &[sums, flat]);
    let y = net.node("Relu", &[added]);
    let (outputs, steps) = net.run(&[y], "builtin");
    assert_eq!(outputs[0], [1., 2., 1., 2.]);
    assert_eq!(steps, ["Gemm"]);
}

#[test]
fn explain_names_the_node_that_absorbed_a_fused_node() {
    let mut net = Net::new();
    let sums = net.conv(net.x);
    let normal = net.batch_norm(sums);
    let y = net.node("Relu", &[normal]);
    for (index, node) in net.graph.nodes.iter_mut().enumerate() {
        node.name = format!("node{index}");
    }
    net.graph.outputs = vec![y];
    let operators = built_in();
    let model = compile_graph(net.graph, &operators, &CompileOptions::default()).unwrap();
    let into: Vec<_> = model.report().nodes.iter().map(|n| n.fused_into.as_deref()).collect();
    assert_eq!(into, [None, Some("node0"), Some("node0")]);
}
