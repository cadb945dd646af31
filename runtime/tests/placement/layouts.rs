//! Kernels that take channels last, in models that keep channels second.

use udo_api::types::F32;
use udo_api::{
    Core, DType, Error, InferCx, KernelDef, Op, OpDef, OpSchema, PackageV1, Port, PortRule, Shape,
    any_input, any_output,
};
use udo_engine::cores::{OpenCl, Profile};
use udo_runtime::compile::PlaceOptions;
use udo_runtime::graph::{Attr, DimSpec, Graph, Node, ValueId};
use udo_runtime::{CompileOptions, Tensor};
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::number::NumberF32;

const BOTH: &[PortRule] = &[any_input(0).channels_last(), any_output(0).channels_last()];

static PACKAGE: PackageV1 = PackageV1::new("Orders", "1.0.0")
    .ops(&[OpDef::of::<Number<'C'>>(), OpDef::of::<Number<'W'>>()])
    .kernels(&[
        KernelDef::new::<NumberF32>("Channel", Core::CPU).ports(BOTH),
        KernelDef::new::<NumberF32>("Column", Core::CPU),
    ])
    .guarded();

const IN: &[Port] = &[Port::required("x", F32)];
const OUT: &[Port] = &[Port::required("y", F32)];

/// Adds to each element its place along an axis: the channels, or the columns.
struct Number<const AXIS: char>;

impl<const AXIS: char> Op for Number<AXIS> {
    const SCHEMA: OpSchema =
        OpSchema::new(if AXIS == 'C' { "Channel" } else { "Column" }, IN, OUT, &[]);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        cx.set_output(0, x)
    }
}

/// A graph with one input, `x`.
struct Net {
    graph: Graph,
    x: ValueId,
}

impl Net {
    fn new(dims: &[usize]) -> Self {
        let mut graph = Graph::new("layouts");
        let x = graph.add_input("x", DType::F32, dims.iter().map(|&d| DimSpec::Fixed(d)));
        Self { graph, x }
    }

    /// A node's output, named like its operator and the number of its value.
    fn node(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let y = self.graph.add_value(&format!("{op}{}", self.graph.values.len()));
        let mut node = Node::new(op, 17, inputs, &[y]);
        node.attrs.extend(attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())));
        self.graph.add_node(node);
        y
    }

    fn constant(&mut self, dims: &[usize], values: &[f32]) -> ValueId {
        let tensor = Tensor::from_slice(Shape::new(dims).unwrap(), values).unwrap();
        self.graph.add_constant("constant", tensor)
    }

    /// Returns the outputs for an `x` whose elements are their indices, and the steps.
    fn run(mut self, outputs: &[ValueId], cores: &[Core]) -> (Vec<Vec<f32>>, Vec<String>) {
        self.graph.outputs.extend(outputs);
        let names: Vec<String> =
            outputs.iter().map(|&y| self.graph.value(y).unwrap().name.clone()).collect();
        let mut operators = built_in();
        operators.add_static(&PACKAGE).unwrap();
        let profile = Profile { opencl: OpenCl::Off, ..Profile::default() };
        let place = PlaceOptions { cores: cores.to_vec(), profile, ..PlaceOptions::default() };
        let options = CompileOptions { place, ..CompileOptions::default() };
        let model = compile_graph(self.graph, &operators, &options).unwrap();
        let mut session = model.session().unwrap();
        let x = session.input_mut::<f32>("x").unwrap();
        let places = std::iter::successors(Some(0.0f32), |n| Some(n + 1.0));
        x.iter_mut().zip(places).for_each(|(x, place)| *x = place);
        session.run().unwrap();
        let steps = model.report().steps.iter().map(|s| format!("{} {}", s.op, s.outputs[0]));
        let outputs = names.iter().map(|y| session.output(y).unwrap().to_vec());
        (outputs.collect(), steps.collect())
    }
}

const CPU: &[Core] = &[Core::CPU];

#[test]
fn a_kernel_gets_its_layout_and_the_model_keeps_its_own() {
    let mut net = Net::new(&[2, 2, 1, 3]);
    let y = net.node("Channel", &[net.x], &[]);
    let (outputs, steps) = net.run(&[y], CPU);
    assert_eq!(outputs[0], [0., 1., 2., 4., 5., 6., 6., 7., 8., 10., 11., 12.]);
    assert_eq!(steps, ["Transpose f32[2,1,3,2]", "Channel f32[2,1,3,2]", "Transpose f32[2,2,1,3]"]);
}

#[test]
fn elementwise_nodes_follow() {
    let mut net = Net::new(&[1, 2, 1, 3]);
    let first = net.node("Channel", &[net.x], &[]);
    let positive = net.node("Relu", &[first], &[]);
    let per_channel = net.constant(&[1, 2, 1, 1], &[10., 20.]);
    let per_column = net.constant(&[1, 1, 1, 3], &[100., 200., 300.]);
    let one = net.constant(&[], &[1000.]);
    let mut sum = positive;
    for term in [per_channel, per_column, one, first] {
        sum = net.node("Add", &[sum, term], &[]);
    }
    let y = net.node("Channel", &[sum], &[]);
    let (outputs, steps) = net.run(&[y], CPU);
    assert_eq!(outputs[0], [1110., 1212., 1314., 1129., 1231., 1333.]);
    let transposes: Vec<bool> = steps.iter().map(|s| s.starts_with("Transpose")).collect();
    let count = transposes.len();
    assert_eq!((count, transposes[0], transposes[count - 1]), (9, true, true), "{steps:?}");
    assert_eq!(transposes.into_iter().filter(|&t| t).count(), 2, "{steps:?}");
}

#[test]
fn operands_may_be_left_out() {
    let mut net = Net::new(&[1, 2, 1, 3]);
    let a = net.node("Channel", &[net.x], &[]);
    let most = net.constant(&[], &[4.5]);
    let clipped = net.node("Clip", &[a, a, most], &[]);
    net.graph.nodes.last_mut().unwrap().inputs[1] = None;
    let y = net.node("Channel", &[clipped], &[]);
    let (outputs, steps) = net.run(&[y], CPU);
    assert_eq!(outputs[0], [0., 1., 2., 5., 5.5, 5.5]);
    assert_eq!(steps.len(), 5, "{steps:?}");
}

#[test]
fn joins_along_any_axis_follow() {
    for (axis, wanted) in [
        (1, vec![0., 1., 2., 4., 5., 6., 0., 1., 2., 5., 6., 7.]),
        (-1, vec![0., 1., 2., 0., 1., 2., 4., 5., 6., 5., 6., 7.]),
        (0, vec![0., 1., 2., 4., 5., 6., 0., 1., 2., 5., 6., 7.]),
    ] {
        // Channels last, the extents before the width are 1, so parts lie one behind the other.
        let is_free = axis != 1;
        let mut net = Net::new(&[1, 2, 1, 3]);
        let a = net.node("Channel", &[net.x], &[]);
        let b = net.node("Channel", &[a], &[]);
        let both = net.node("Concat", &[a, b], &[("axis", Attr::Int(axis))]);
        let y = net.node("Relu", &[both], &[]);
        let (outputs, steps) = net.run(&[y], CPU);
        assert_eq!(outputs[0], wanted, "axis {axis}");
        let concats = steps.iter().filter(|step| step.starts_with("Concat")).count();
        assert_eq!(concats, usize::from(!is_free), "{steps:?}");
        assert_eq!(steps.len(), 5 + concats, "{steps:?}");
    }
}

#[test]
fn joined_channels_are_written_in_place() {
    let mut net = Net::new(&[1, 2, 2, 2]);
    let a = net.node("Channel", &[net.x], &[]);
    let (left, right) = (net.node("Relu", &[a], &[]), net.node("Sigmoid", &[a], &[]));
    let both = net.node("Concat", &[left, right], &[("axis", Attr::Int(1))]);
    let y = net.node("Channel", &[both], &[]);
    let (outputs, steps) = net.run(&[y], CPU);
    let a: Vec<f32> = vec![0., 1., 2., 3., 5., 6., 7., 8.];
    let sigmoid = a.iter().map(|x| 1.0 / (1.0 + (-x).exp()));
    let joined = a.iter().copied().chain(sigmoid);
    let channels = (0u8..4).flat_map(|channel| [f32::from(channel); 4]);
    for ((found, wanted), channel) in outputs[0].iter().zip(joined).zip(channels) {
        assert!((found - wanted - channel).abs() < 1e-6, "{:?}", outputs[0]);
    }
    assert!(!steps.iter().any(|s| s.starts_with("Concat")), "{steps:?}");
}

#[test]
fn everyone_else_gets_the_layout_of_the_model() {
    let mut net = Net::new(&[1, 2, 1, 3]);
    let a = net.node("Channel", &[net.x], &[]);
    let column = net.node("Column", &[a], &[]);
    let flat = net.node("Flatten", &[a], &[]);
    let (outputs, steps) = net.run(&[column, flat, a], CPU);
    assert_eq!(outputs[0], [0., 2., 4., 4., 6., 8.]);
    assert_eq!(outputs[1], [0., 1., 2., 4., 5., 6.]);
    assert_eq!(outputs[2], outputs[1]);
    let transposes = steps.iter().filter(|s| s.starts_with("Transpose")).count();
    assert_eq!(transposes, 2, "there and back, once: {steps:?}");
}

#[test]
fn quantize_steps_follow() {
    for (axis, scales) in [(1, vec![0.5, 0.25]), (-1, vec![0.5, 0.25, 1.0]), (1, vec![0.5])] {
        let mut net = Net::new(&[1, 2, 1, 3]);
        let a = net.node("Channel", &[net.x], &[]);
        let scale = net.constant(&[scales.len()], &scales);
        let along = [("axis", Attr::Int(axis))];
        let quantized = net.node("QuantizeLinear", &[a, scale], &along);
        let numbers = net.node("DequantizeLinear", &[quantized, scale], &along);
        let y = net.node("Channel", &[numbers], &[]);
        let (outputs, steps) = net.run(&[y], CPU);
        assert_eq!(outputs[0], [0., 1., 2., 5., 6., 7.], "{scales:?}");
        let ops: Vec<&str> = steps.iter().filter_map(|s| s.split(' ').next()).collect();
        let between = ["QuantizeLinear", "DequantizeLinear"];
        assert_eq!(
            ops,
            [&["Transpose", "Channel"][..], &between, &["Channel", "Transpose"]].concat()
        );
    }
}

#[test]
fn scales_of_blocks_lie_in_the_layout_of_the_model() {
    let mut net = Net::new(&[1, 2, 1, 3]);
    let a = net.node("Channel", &[net.x], &[]);
    let scale = net.constant(&[1, 1, 1, 3], &[0.5, 0.25, 1.0]);
    let blocks = [("axis", Attr::Int(1)), ("block_size", Attr::Int(2))];
    let quantized = net.node("QuantizeLinear", &[a, scale], &blocks);
    let y = net.node("DequantizeLinear", &[quantized, scale], &blocks);
    let (outputs, _) = net.run(&[y], CPU);
    assert_eq!(outputs[0], [0., 1., 2., 4., 5., 6.]);
}

#[test]
fn transposes_that_keep_the_memory_order_are_views() {
    let perm = |axes: [i64; 4]| [("perm", Attr::Ints(axes.to_vec()))];
    let mut net = Net::new(&[1, 2, 2, 3]);
    let first = net.node("Transpose", &[net.x], &perm([0, 3, 1, 2]));
    let a = net.node("Channel", &[first], &[]);
    let pixels = net.node("Transpose", &[a], &perm([0, 2, 3, 1]));
    let twice = net.node("Column", &[pixels], &[]);
    let images = net.node("Transpose", &[twice], &perm([0, 3, 1, 2]));
    let b = net.node("Channel", &[images], &[]);
    let y = net.node("Transpose", &[b], &perm([0, 2, -1, 1]));
    let (outputs, steps) = net.run(&[y], CPU);
    // Three times the number of the last axis.
    let wanted: Vec<f32> = (0u8..12).map(|at| f32::from(at) + 3.0 * f32::from(at % 3)).collect();
    assert_eq!(outputs[0], wanted);
    assert!(!steps.iter().any(|step| step.starts_with("Transpose f32[1,3")), "{steps:?}");
    let moved = steps.iter().filter(|step| step.starts_with("Transpose")).count();
    assert!(moved <= 2, "ends of the model at most: {steps:?}");
}

#[test]
fn other_orders_take_input_as_it_arrives() {
    for (perm, wanted) in [
        ([3, 2, 1, 0], [0., 5., 1., 6., 2., 7.]),
        ([0, 3, 2, 1], [0., 5., 1., 6., 2., 7.]),
        ([1, 0, 2, 3], [0., 1., 2., 5., 6., 7.]),
    ] {
        let mut net = Net::new(&[1, 2, 1, 3]);
        let a = net.node("Channel", &[net.x], &[]);
        let a = net.node("Channel", &[a], &[]);
        let y = net.node("Transpose", &[a], &[("perm", Attr::Ints(perm.to_vec()))]);
        let (outputs, _) = net.run(&[y], CPU);
        assert_eq!(outputs[0], wanted, "{perm:?}");
    }
}

#[test]
fn other_cores_get_the_layout_of_the_model() {
    let mut net = Net::new(&[1, 2, 1, 3]);
    let a = net.node("Channel", &[net.x], &[]);
    let positive = net.node("Relu", &[a], &[]);
    let y = net.node("Channel", &[positive], &[]);
    let (outputs, steps) = net.run(&[y], &[Core::GPU, Core::CPU]);
    assert_eq!(outputs[0], [0., 1., 2., 5., 6., 7.]);
    let ops: Vec<&str> = steps.iter().filter_map(|s| s.split(' ').next()).collect();
    let round = ["Transpose", "Channel", "Transpose"];
    assert_eq!(ops, [&round[..], &["Transfer", "Relu", "Transfer"], &round].concat());
}

#[test]
fn one_channel_or_one_pixel_has_the_same_bytes_in_both_layouts() {
    for (dims, wanted) in
        [([2, 1, 1, 3], [0., 1., 2., 3., 4., 5.]), ([1, 6, 1, 1], [0., 2., 4., 6., 8., 10.])]
    {
        let mut net = Net::new(&dims);
        let y = net.node("Channel", &[net.x], &[]);
        let (outputs, steps) = net.run(&[y], CPU);
        assert_eq!(outputs[0], wanted);
        assert_eq!(steps.len(), 1, "{steps:?}");
    }
}

#[test]
fn tensors_without_elements_are_no_single_numbers() {
    for (dims, second) in
        [([0, 2, 1, 3], vec![1, 2, 1, 1]), ([1, 2, 0, 3], vec![2, 1, 1]), ([2, 0, 1, 1], vec![])]
    {
        let mut net = Net::new(&dims);
        let a = net.node("Channel", &[net.x], &[]);
        let squashed = net.node("Sigmoid", &[a], &[]);
        let twice = net.node("Add", &[squashed, a], &[]);
        let term = vec![1.0; second.iter().product()];
        let term = net.constant(&second, &term);
        let y = net.node("Mul", &[twice, term], &[]);
        let (outputs, _) = net.run(&[y], CPU);
        assert_eq!(outputs[0], [0f32; 0], "{dims:?}");
    }
}

#[test]
fn other_ranks_are_refused() {
    let mut net = Net::new(&[2, 3]);
    let y = net.node("Channel", &[net.x], &[]);
    net.graph.outputs.push(y);
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let refused = compile_graph(net.graph, &operators, &CompileOptions::default()).unwrap_err();
    let wanted = "runs on none of the cores asked for: cpu: input 0 is f32[2,3], expected four fixed dimensions";
    assert!(refused.to_string().ends_with(wanted), "{refused}");
}
