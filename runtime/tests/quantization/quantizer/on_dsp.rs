//! Whatever is quantized without more being asked for runs on the DSP, in 8 bits, or is refused by name.

use udo_api::DType;
use udo_runtime::Tensor;
use udo_runtime::graph::Graph;
use udo_runtime::quant::{Bits, FloatOps, Settings};

use super::{Numbers, assert_on_dsp, quantize, refusal};

/// Constants that nodes below read.
const CONSTANTS: &str = "  constant half: f32[]{0.5}
  constant less: f32[]{-1.0}
  constant more: f32[]{1.0}
  constant factors: f32[1,4,1,1]{0.5,-0.7,1.2,2.0}
  constant scale: f32[4]{0.8,1.1,0.6,1.4}
  constant shift: f32[4]{0.1,-0.3,0.5,0.0}
  constant variance: f32[4]{0.7,1.3,0.4,0.9}
  constant w: f32[4,4,1,1]{0.5,-0.25,0.1,0.3, -0.6,0.2,0.4,0.1, 0.3,0.3,-0.2,0.5, 0.1,-0.4,0.2,0.6}
  constant v: f32[6,3]{0.5,-0.25,0.1,0.3,-0.6,0.2,0.4,0.1,0.3,0.3,-0.2,0.5,0.1,-0.4,0.2,0.6,0.3,-0.1}
  constant bias: f32[3]{0.2,-0.1,0.4}
  constant pads: i64[8]{0,0,1,1,0,0,1,1}
  constant start: i64[1]{1}
  constant end: i64[1]{4}
  constant axis: i64[1]{2}
  constant scales: f32[4]{1.0,1.0,2.0,2.0}
  constant at: i64[2]{3,1}
";

/// Nodes that make `b` of `a`, where `x` is an input of the graph that has the shape of `a`.
const NODES: &[&str] = &[
    "Relu@17(a)",
    "Sigmoid@17(a)",
    "Tanh@17(a)",
    "Exp@17(a)",
    "Abs@17(a)",
    "Neg@17(a)",
    "HardSwish@17(a)",
    "Elu@17(a)",
    "LeakyRelu@17(a)",
    "Clip@17(a, less, more)",
    "Clip@17(a, half, more)",
    "Clip@17(a, less)",
    "Mul@17(a, factors)",
    "Mul@17(half, a)",
    "Mul@17(a, a)",
    "Add@17(a, factors)",
    "Sub@17(factors, a)",
    "Sub@17(a, half)",
    "Div@17(a, half)",
    "Max@17(a, factors)",
    "Max@17(a, half)",
    "Min@17(factors, a)",
    "PRelu@17(a, factors)",
    "Dropout@17(a)",
    "BatchNormalization@17(a, scale, shift, shift, variance)",
    "InstanceNormalization@17(a, scale, shift)",
    "LRN@17(a) size=3",
    "MaxPool@17(a) kernel_shape=[3,3] pads=[1,1,1,1]",
    "AveragePool@17(a) kernel_shape=[3,3] pads=[1,1,1,1]",
    "LpPool@17(a) kernel_shape=[3,3] pads=[1,1,1,1]",
    "Transpose@17(a) perm=[0,1,3,2]",
    "Softmax@17(a)",
    "Conv@17(a, w)",
];

/// The same, which need not keep the shape.
const LAST: &[&str] = &[
    "Add@17(a, x)",
    "Sum@17(a, x, factors)",
    "Mul@17(x, a)",
    "Max@17(a, x)",
    "MatMul@17(a, x)",
    "Concat@17(a, x) axis=1",
    "Gemm@17(f, v, bias) alpha=0.5",
    "Pad@17(a, pads, half)",
    "Slice@17(a, start, end, axis)",
    "Flatten@17(a)",
    "Gather@17(a, at) axis=1",
    "Resize@17(a, _, scales) mode=\"linear\"",
    "Resize@17(a, _, scales) mode=\"cubic\"",
    "LpPool@17(a) kernel_shape=[2,3] p=1",
    "GlobalMaxPool@17(a)",
    "GlobalAveragePool@17(a)",
    "ReduceMax@17(a) axes=[1]",
    "ReduceMean@17(a) axes=[2]",
    "ReduceSum@17(a, axis)",
];

fn graph(nodes: &str) -> (Graph, Vec<Vec<(String, Tensor)>>) {
    let text = format!("graph g\n  input x: f32[1,4,6,6]\n{CONSTANTS}{nodes}  output y\n");
    let set = |seed| vec![("x".to_owned(), Numbers::new(seed).tensor(&[1, 4, 6, 6], 2.0))];
    (Graph::parse(&text).unwrap(), (1..=2).map(set).collect())
}

/// A node, as it makes `to` of `from`.
fn node(node: &str, from: &str, to: &str) -> String {
    let (op, rest) = node.split_once('(').unwrap();
    let (inputs, attrs) = rest.split_once(')').unwrap();
    let inputs: Vec<&str> =
        inputs.split(", ").map(|input| if input == "a" { from } else { input }).collect();
    let flat = if inputs.contains(&"f") {
        format!("  f = Flatten@17({from}) axis=3\n")
    } else {
        String::new()
    };
    format!("{flat}  {to} = {op}({}){attrs}\n", inputs.join(", "))
}

fn runs_on_the_dsp(nodes: &str, settings: Settings) {
    let (graph, sets) = graph(nodes);
    let (quantized, decibels) = quantize(&graph, settings, &sets);
    assert!(decibels > 17.0, "{decibels} dB of\n{nodes}");
    assert_on_dsp(&quantized, &sets[0], nodes);
}

#[test]
fn networks_of_one_operator_run_on_the_dsp() {
    for nodes in NODES.iter().chain(LAST) {
        runs_on_the_dsp(&node(nodes, "x", "y"), Settings::default());
        let wide = Settings { activation_bits: Bits::Sixteen, ..Settings::default() };
        runs_on_the_dsp(&node(nodes, "x", "y"), wide);
        let allowed = Settings { float_ops: FloatOps::Allowed, ..Settings::default() };
        runs_on_the_dsp(&node(nodes, "x", "y"), allowed);
    }
}

#[test]
fn operators_before_others_run_on_the_dsp() {
    // A third of all pairs, in which each operator comes first and second.
    for (at, first) in NODES.iter().enumerate() {
        for second in NODES.iter().chain(LAST).skip(at % 3).step_by(3) {
            let both = node(first, "x", "a") + &node(second, "a", "y");
            runs_on_the_dsp(&both, Settings::default());
        }
    }
}

#[test]
fn stored_values_have_8_bits() {
    for nodes in NODES.iter().chain(LAST) {
        let (graph, sets) = graph(&node(nodes, "x", "y"));
        let (quantized, _) = quantize(&graph, Settings::default(), &sets);
        assert!(quantized.floats.is_empty(), "{nodes}");
        let is_byte =
            |of: &udo_runtime::quant::Encoded| of.levels.dtype == DType::U8 || of.name == "bias";
        assert!(quantized.encoded.iter().all(is_byte), "{nodes}: {:?}", quantized.encoded);
    }
}

#[test]
fn outputs_outside_of_the_input_range_have_their_own_range() {
    let cases = [
        ("LpPool@17(h) kernel_shape=[3,3] p=1", true),
        ("LpPool@17(h) kernel_shape=[2,2]", true),
        ("Resize@17(h, _, scales) mode=\"cubic\"", true),
        (
            "Resize@17(h, region, scales) mode=\"linear\" coordinate_transformation_mode=\"tf_crop_and_resize\" extrapolation_value=9.0",
            true,
        ),
        ("Pad@17(h, pads, far)", true),
        ("Resize@17(h, _, scales) mode=\"linear\"", false),
        (
            "Resize@17(h, region, scales) mode=\"linear\" coordinate_transformation_mode=\"tf_crop_and_resize\"",
            false,
        ),
        ("MaxPool@17(h) kernel_shape=[2,2]", false),
        ("Transpose@17(h) perm=[0,1,3,2]", false),
    ];
    for (node, is_own) in cases {
        let nodes = format!(
            "  constant region: f32[8]{{0.0,0.0,0.0,0.0,1.0,1.0,1.5,1.5}}\n  input far: f32[]\n  h = Conv@17(x, w)\n  y = {node}\n"
        );
        let (own, mut sets) = graph(&nodes);
        for set in &mut sets {
            let far = Tensor::from_slice(udo_api::Shape::new(&[]).unwrap(), &[7.0f32]).unwrap();
            set.push(("far".to_owned(), far));
        }
        let (quantized, decibels) = quantize(&own, Settings::default(), &sets);
        assert!(decibels > 30.0, "{decibels} dB of\n{node}");
        let of = |name: &str| quantized.encoded.iter().find(|of| of.name == name).unwrap();
        assert_eq!(of("h").encodings != of("y").encodings, is_own, "{node}");
    }
}

#[test]
fn operators_that_are_not_of_8_bits_are_refused_by_name() {
    for op in ["LayerNormalization@17(x, row)", "Mean@17(x, x)", "CumSum@17(x, one)"] {
        let text = format!(
            "graph g\n  input x: f32[1,4,6,6]\n  constant row: f32[6]{{1.0}}\n  constant one: i64[]{{1}}\n  \
             h = Relu@17(x)\n  y = {}\n  output y\n",
            op.replace("(x", "(h")
        );
        let said = refusal(Graph::parse(&text).unwrap(), Settings::default());
        let name = op.split('@').next().unwrap();
        assert!(said.starts_with(&format!("no quantized form of {name} (node ")), "{said}");
    }
}

#[test]
fn copies_leave_no_step() {
    let cases = [
        ("  h = Conv@17(x, w)\n  d = Dropout@17(h)\n  y = Relu@17(d)\n", "Dropout"),
        ("  d = Dropout@17(x)\n  y = Conv@17(d, w)\n", "Dropout"),
        ("  h = Conv@17(x, w)\n  y = Dropout@17(h)\n", "Dropout"),
        (
            "  h = Conv@17(x, w)\n  d = Dropout@17(h)\n  i = Identity@17(d)\n  y = Add@17(i, h)\n",
            "Identity",
        ),
        ("  h = Conv@17(x, w)\n  d = Dropout@10(h)\n  y = Sigmoid@17(d)\n", "Dropout"),
    ];
    for (nodes, op) in cases {
        let without = nodes.replace("Dropout@17(h)", "h");
        let (own, sets) = graph(nodes);
        let (quantized, decibels) = quantize(&own, Settings::default(), &sets);
        assert!(decibels > 30.0, "{decibels} dB of\n{nodes}");
        let left =
            quantized.graph.nodes.iter().filter(|node| node.op == op || node.op == "Dropout");
        assert_eq!(left.count(), 0, "{nodes}{without}");
        let output = quantized.graph.outputs[0];
        assert_eq!(quantized.graph.value(output).unwrap().name, "y", "outputs keep their names");
        let stored: Vec<&str> = quantized.encoded.iter().map(|of| of.name.as_str()).collect();
        assert!(!stored.contains(&"d") && !stored.contains(&"i"), "{stored:?}");
        assert_on_dsp(&quantized, &sets[0], nodes);
    }
    // What is given besides is read, so that node stays; and so does a copy of an input that is an output.
    for nodes in
        ["  h = Conv@17(x, w)\n  y, m = Dropout@17(h)\n  output m\n", "  y = Dropout@17(x)\n"]
    {
        let (own, sets) = graph(nodes);
        let (quantized, _) = quantize(&own, Settings::default(), &sets);
        assert!(quantized.graph.nodes.iter().any(|node| node.op == "Dropout"), "{nodes}");
    }
}

#[test]
fn clips_within_the_range_become_lookup_tables() {
    for (bounds, count) in [("less, more", 1), ("half, more", 1), ("less", 0), ("_, half", 0)] {
        let nodes = format!("  h = Conv@17(x, w)\n  y = Clip@17(h, {bounds})\n");
        let (own, sets) = graph(&nodes);
        let (quantized, decibels) = quantize(&own, Settings::default(), &sets);
        assert!(decibels > 30.0, "{decibels} dB of\n{nodes}");
        assert_on_dsp(&quantized, &sets[0], &nodes);
        let of = |name: &str| quantized.encoded.iter().find(|of| of.name == name);
        let (h, y) = (of("h"), of("y").unwrap());
        if count == 1 {
            assert_eq!(h.unwrap().encodings, y.encodings, "{bounds}");
        }
    }
}
