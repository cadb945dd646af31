//! Float models become quantized models: which operators run in the end, how far their results are off, and what is refused.

mod masks;
mod on_dsp;
mod stated;

use std::collections::BTreeSet;

use udo_api::{Core, DType, PackageV1, Shape};
use udo_compile::compiler::Resources;
use udo_compile::resolve;
use udo_graph::{export, import};
use udo_runtime::compile::{BindOptions, Fallback, PlaceOptions};
use udo_runtime::device::Devices;
use udo_runtime::graph::{Attr, DimSpec, Graph, ImportOptions, Node, ValueId};
use udo_runtime::quant::{
    Bits, Comparison, Encodings, FloatOps, Kind, Method, Quantized, Quantizer, Settings,
    WeightEncoding,
};
use udo_runtime::{CompileOptions, LoadOptions, Runtime, Tensor};
use udo_test_support::compile::built_in;
use udo_test_support::doubles;
use udo_test_support::random::Random;

/// The operator set of the graphs.
const OPSET: u32 = 17;

/// Tensors of numbers that look random.
struct Numbers(Random);

impl Numbers {
    fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    fn tensor(&mut self, dims: &[usize], scale: f32) -> Tensor {
        let numbers: Vec<f32> = (0..dims.iter().product()).map(|_| self.0.unit() * scale).collect();
        Tensor::from_slice(Shape::new(dims).unwrap(), &numbers).unwrap()
    }
}

/// A graph that is written down node by node.
struct Net {
    graph: Graph,
    numbers: Numbers,
}

impl Net {
    fn new() -> Self {
        Self { graph: Graph::new("net"), numbers: Numbers::new(7) }
    }

    fn input(&mut self, name: &str, dims: &[usize]) -> ValueId {
        self.graph.add_input(name, DType::F32, dims.iter().map(|&n| DimSpec::Fixed(n)))
    }

    fn constant(&mut self, name: &str, dims: &[usize], scale: f32) -> ValueId {
        let tensor = self.numbers.tensor(dims, scale);
        self.graph.add_constant(name, tensor)
    }

    fn node(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let output =
            self.graph.add_value(&format!("{}_{}", op.to_lowercase(), self.graph.nodes.len()));
        let mut node = Node::new(op, OPSET, inputs, &[output]);
        node.attrs = attrs.iter().map(|(name, attr)| ((*name).to_owned(), attr.clone())).collect();
        self.graph.add_node(node);
        output
    }

    /// A 3 by 3 convolution with a bias.
    fn conv(&mut self, x: ValueId, [from, to]: [usize; 2]) -> ValueId {
        let at = self.graph.nodes.len();
        let w = self.constant(&format!("w{at}"), &[to, from, 3, 3], 0.4);
        let b = self.constant(&format!("b{at}"), &[to], 0.5);
        self.node("Conv", &[x, w, b], &[("pads", Attr::Ints(vec![1; 4]))])
    }

    fn ends(mut self, outputs: &[ValueId]) -> Graph {
        self.graph.outputs = outputs.to_vec();
        self.graph.verify().unwrap();
        self.graph
    }
}

/// A small network for pictures: a normalization, a residual, pools and a classifier.
fn pictures() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 3, 16, 16]);
    let a = net.conv(x, [3, 8]);
    let norm: Vec<ValueId> =
        ["scale", "shift", "mean"].iter().map(|name| net.constant(name, &[8], 0.5)).collect();
    let variance = Tensor::from_slice(Shape::new(&[8]).unwrap(), &[0.7f32; 8]).unwrap();
    let variance = net.graph.add_constant("variance", variance);
    let a = net.node("BatchNormalization", &[a, norm[0], norm[1], norm[2], variance], &[]);
    let a = net.node("Relu", &[a], &[]);
    let a = net.node(
        "MaxPool",
        &[a],
        &[("kernel_shape", Attr::Ints(vec![2, 2])), ("strides", Attr::Ints(vec![2, 2]))],
    );
    let b = net.conv(a, [8, 8]);
    let sum = net.node("Add", &[a, b], &[]);
    let sum = net.node("Relu", &[sum], &[]);
    let gate = net.node("Sigmoid", &[sum], &[]);
    let gated = net.node("Mul", &[sum, gate], &[]);
    let both = net.node("Concat", &[gated, b], &[("axis", Attr::Int(1))]);
    let mean = net.node("GlobalAveragePool", &[both], &[]);
    let flat = net.node("Flatten", &[mean], &[]);
    let weights = net.constant("classes", &[16, 10], 0.6);
    let bias = net.constant("bias", &[10], 0.2);
    let sums = net.node("Gemm", &[flat, weights, bias], &[]);
    let shares = net.node("Softmax", &[sums], &[]);
    net.ends(&[shares])
}

fn runs(name: &str, dims: &[usize], count: u64) -> Vec<Vec<(String, Tensor)>> {
    let set = |seed| vec![(name.to_owned(), Numbers::new(seed * 99 + 5).tensor(dims, 1.0))];
    (1..=count).map(set).collect()
}

fn allowed() -> Settings {
    Settings { float_ops: FloatOps::Allowed, ..Settings::default() }
}

/// The model of `graph`, and the noise of its outputs in dB.
fn quantize(graph: &Graph, settings: Settings, sets: &[Vec<(String, Tensor)>]) -> (Quantized, f64) {
    let runtime = Runtime::new().unwrap();
    let bind = BindOptions::default();
    let source = Quantizer::new(graph.clone(), &runtime, &bind, settings).unwrap();
    let options = CompileOptions::default();
    let mut calibration = source.calibration(&runtime, &options).unwrap();
    for set in sets {
        calibration.add(set).unwrap();
    }
    assert_eq!(calibration.runs(), sets.len());
    let quantized = source.finish(&calibration).unwrap();
    let mut comparison = Comparison::new(&source, &quantized, &runtime, &options).unwrap();
    for set in sets {
        comparison.add(set).unwrap();
    }
    let values = comparison.values;
    let outputs = values.iter().filter(|value| value.is_output);
    let worst = outputs.map(|value| value.noise.decibels().unwrap_or(200.0));
    (quantized, worst.fold(f64::INFINITY, f64::min))
}

fn refusal(graph: Graph, settings: Settings) -> String {
    let runtime = Runtime::new().unwrap();
    Quantizer::new(graph, &runtime, &BindOptions::default(), settings).unwrap_err().to_string()
}

/// Why a graph cannot be quantized with data.
fn refusal_of_runs(graph: &Graph, sets: &[Vec<(String, Tensor)>]) -> String {
    let runtime = Runtime::new().unwrap();
    let bind = BindOptions::default();
    let source = Quantizer::new(graph.clone(), &runtime, &bind, Settings::default()).unwrap();
    let mut calibration = source.calibration(&runtime, &CompileOptions::default()).unwrap();
    for set in sets {
        if let Err(error) = calibration.add(set) {
            return error.to_string();
        }
    }
    source.finish(&calibration).unwrap_err().to_string()
}

/// Has a quantized graph run on the DSP, and on no other core, and compares its outputs with those on the CPU.
fn assert_on_dsp(quantized: &Quantized, set: &[(String, Tensor)], what: &str) {
    let runtime = Runtime::new().unwrap();
    Quantizer::check(quantized, &runtime, &CompileOptions::default()).unwrap();
    let [cpu, dsp] = [Core::CPU, Core::DSP_V68].map(|core| {
        let place = PlaceOptions { cores: vec![core], ..PlaceOptions::default() };
        let options = CompileOptions { place, ..CompileOptions::default() };
        let model = runtime.load(quantized.graph.clone(), &LoadOptions::from(options.clone()));
        let refusal = model.as_ref().err().map(ToString::to_string);
        assert_eq!(refusal, None, "{what} on {core}");
        let mut session = model.unwrap().session().unwrap();
        for (name, tensor) in set {
            session.set_input(name, tensor).unwrap();
        }
        session.run().unwrap();
        session.output::<f32>(&session.model().outputs()[0].clone()).unwrap().to_vec()
    });
    let most = cpu.iter().fold(0f32, |most, number| most.max(number.abs()));
    // A step or two, as functions are computed of what is stored in other places.
    let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= most / 25.0;
    assert!(cpu.iter().zip(&dsp).all(is_near), "{what}: {cpu:?} on the CPU, {dsp:?} on the DSP");
}

/// The operators that run in the end.
fn operators(graph: &Graph) -> BTreeSet<String> {
    let model = Runtime::new().unwrap().load(graph.clone(), &LoadOptions::default()).unwrap();
    model.report().steps.iter().map(|step| step.op.clone()).collect()
}

#[test]
fn a_network_for_pictures_computes_with_integers() {
    let sets = runs("x", &[1, 3, 16, 16], 4);
    let (quantized, noise) = quantize(&pictures(), Settings::default(), &sets);
    assert!(noise > 30.0, "{noise} dB");
    assert!(quantized.floats.is_empty(), "{:?}", quantized.floats);
    let ops = operators(&quantized.graph);
    for wanted in [
        "QLinearConv",
        "QLinearAdd",
        "QGemm",
        "QLinearConcat",
        "QLinearGlobalAveragePool",
        "QLinearSoftmax",
    ] {
        assert!(ops.contains(wanted), "no {wanted} in {ops:?}");
    }
    for float in
        ["Conv", "BatchNormalization", "Add", "Relu", "Sigmoid", "Mul", "Gemm", "MaxPool#f32"]
    {
        assert!(!ops.contains(float), "{float} in {ops:?}");
    }
    let names: Vec<&str> = quantized.encoded.iter().map(|of| of.name.as_str()).collect();
    assert!(
        names.contains(&"x") && names.contains(&"w0") && names.contains(&"classes"),
        "{names:?}"
    );
    assert!(!names.contains(&"conv_0"), "what a Relu cuts off is not stored before: {names:?}");
    assert!(!names.contains(&"sigmoid_7"), "nor what is within a SiLU: {names:?}");
    let output = quantized.graph.value(quantized.graph.outputs[0]).unwrap();
    assert_eq!(output.name, "softmax_13", "outputs keep their names");
}

#[test]
fn more_bits_and_more_scales_are_less_noise() {
    let sets = runs("x", &[1, 3, 16, 16], 4);
    let noise = |settings| quantize(&pictures(), settings, &sets).1;
    let eight = noise(allowed());
    let channels = noise(Settings { weight_encoding: WeightEncoding::PerChannel, ..allowed() });
    let wide = noise(Settings {
        weight_encoding: WeightEncoding::PerChannel,
        activation_bits: Bits::Sixteen,
        ..allowed()
    });
    let four = noise(Settings { weight_bits: Bits::Four, ..allowed() });
    let sixteen =
        noise(Settings { weight_bits: Bits::Sixteen, activation_bits: Bits::Sixteen, ..allowed() });
    assert!(
        four + 6.0 < eight && eight < wide && channels < wide,
        "{four} {eight} {channels} {wide}"
    );
    assert!(sixteen > 60.0, "{sixteen}");
}

fn raise(runtime: &Runtime, graph: &mut Graph) {
    let (resources, options): (&Resources, _) = (runtime.as_ref(), CompileOptions::default());
    resolve::raise(&resources.compiler(&options), graph).unwrap();
}

#[test]
fn the_onnx_file_is_the_same_model() {
    let sets = runs("x", &[1, 3, 16, 16], 2);
    let runtime = Runtime::new().unwrap();
    for weight_encoding in [WeightEncoding::Asymmetric, WeightEncoding::PerChannel] {
        let settings = Settings { weight_encoding, ..Settings::default() };
        let (quantized, _) = quantize(&pictures(), settings, &sets);
        let mut graph = quantized.graph.clone();
        raise(&runtime, &mut graph);
        assert!(graph.nodes.iter().all(|node| node.opset == OPSET));
        let output = graph.value(graph.outputs[0]).unwrap().declared.as_ref();
        assert_eq!(output.map(ToString::to_string).as_deref(), Some("f32[1,10]"), "files say it");
        let bytes = export::to_onnx(&graph).unwrap();
        let read = import::bytes(&bytes, "model.onnx", &ImportOptions::default()).unwrap();
        let run = |graph: &Graph| {
            let model = runtime.load(graph.clone(), &LoadOptions::default()).unwrap();
            let mut session = model.session().unwrap();
            session.set_input("x", &sets[0][0].1).unwrap();
            session.run().unwrap();
            session.output::<f32>("softmax_13").unwrap().to_vec()
        };
        assert_eq!(run(&quantized.graph), run(&read));
    }
}

#[test]
fn older_nodes_are_raised_for_a_file_that_has_one_operator_set() {
    let text = "graph old
  input x: f32[1,4]
  constant w: f32[4,3]{0.5,-0.5,0.25, 1.0,0.0,-1.0, 0.125,0.5,0.5, -0.25,0.75,0.5}
  h = MatMul@11(x, w) # product
  s = Softmax@11(h) axis=1 # shares
  y = Squeeze@11(s) axes=[0] # row
  output y
";
    let runtime = Runtime::new().unwrap();
    let sets = runs("x", &[1, 4], 2);
    let (quantized, _) = quantize(&Graph::parse(text).unwrap(), Settings::default(), &sets);
    let said = export::to_onnx(&quantized.graph).unwrap_err().to_string();
    assert!(said.contains("of operator set"), "{said}");
    let mut graph = quantized.graph.clone();
    raise(&runtime, &mut graph);
    assert!(graph.nodes.iter().all(|node| node.opset == 13));
    let row = graph.nodes.iter().find(|node| node.op == "Squeeze").unwrap();
    assert_eq!((row.inputs.len(), row.attrs.len()), (2, 0), "its axes are an input");
    let bytes = export::to_onnx(&graph).unwrap();
    let read = import::bytes(&bytes, "model.onnx", &ImportOptions::default()).unwrap();
    let run = |graph: &Graph| {
        let model = runtime.load(graph.clone(), &LoadOptions::default()).unwrap();
        let mut session = model.session().unwrap();
        session.set_input("x", &sets[0][0].1).unwrap();
        session.run().unwrap();
        session.output::<f32>("y").unwrap().to_vec()
    };
    assert_eq!(run(&quantized.graph), run(&read));
}

#[test]
fn operators_without_a_quantized_form_are_refused_by_name() {
    let mut net = Net::new();
    let x = net.input("x", &[2, 8]);
    let w = net.constant("w", &[8, 8], 1.0);
    let y = net.node("MatMul", &[x, w], &[]);
    let y = net.node("CumSum", &[y], &[]);
    let mut graph = net.graph.clone();
    let axis = graph.add_constant("axis", Tensor::from_slice(Shape::SCALAR, &[1i64]).unwrap());
    graph.nodes[1].inputs.push(Some(axis));
    graph.outputs = vec![y];
    let said = refusal(graph.clone(), Settings::default());
    assert_eq!(said, "no quantized form of CumSum (node \"CumSum_1\")");
    let (quantized, noise) = quantize(&graph, allowed(), &runs("x", &[2, 8], 2));
    assert_eq!(quantized.floats[0].op, "CumSum");
    assert!(noise > 30.0, "{noise}");
}

#[test]
fn models_without_numbers_or_with_integers_already_are_refused() {
    let mut net = Net::new();
    let x = net.input("x", &[2, 8]);
    let y = net.node("Shape", &[x], &[]);
    assert_eq!(
        refusal(net.ends(&[y]), allowed()),
        "no operator of the model has a quantized form for f32"
    );
    let (quantized, _) = quantize(&pictures(), Settings::default(), &runs("x", &[1, 3, 16, 16], 1));
    let said = refusal(quantized.graph, allowed());
    assert!(said.contains("quantizes already"), "{said}");
}

#[test]
fn values_that_no_run_reached_or_that_are_infinite_are_errors() {
    let runtime = Runtime::new().unwrap();
    let source =
        Quantizer::new(pictures(), &runtime, &BindOptions::default(), Settings::default()).unwrap();
    let mut calibration = source.calibration(&runtime, &CompileOptions::default()).unwrap();
    let said = source.finish(&calibration).unwrap_err().to_string();
    assert_eq!(said, "value \"x\" was never computed in 0 runs, expected data that reach it");
    for (number, word) in
        [(f32::INFINITY, "infinite"), (-f32::INFINITY, "infinite"), (f32::NAN, "NaN")]
    {
        let mut numbers = [0.5f32; 768];
        numbers[700] = number;
        let x = Tensor::from_slice(Shape::new(&[1, 3, 16, 16]).unwrap(), &numbers).unwrap();
        let said = calibration.add(&[("x".to_owned(), x)]).unwrap_err().to_string();
        assert_eq!(said, format!("value \"x\" is {word} for some inputs, expected numbers"));
    }
}

#[test]
fn constants_that_are_no_numbers_are_errors() {
    for (number, word) in [("inf", "infinite"), ("-inf", "infinite"), ("NaN", "NaN")] {
        for (op, name) in [("MatMul(x, w)", "w"), ("Add(x, w)", "w"), ("Gemm(x, v, b)", "b")] {
            let text = format!(
                "graph g\n  input x: f32[2,2]\n  constant w: f32[2,2]{{1.0, {number}, 2.0, 0.5}}\n  constant v: f32[2,2]{{0.5}}\n  \
                 constant b: f32[2]{{0.5, {number}}}\n  y = {}\n  output y\n",
                op.replace('(', "@17(")
            );
            let graph = Graph::parse(&text).unwrap();
            let runtime = Runtime::new().unwrap();
            let bind = BindOptions::default();
            let source = Quantizer::new(graph, &runtime, &bind, Settings::default()).unwrap();
            let mut calibration = source.calibration(&runtime, &CompileOptions::default()).unwrap();
            // Results computed from such a constant are NaN too, and may be refused first.
            calibration.add(&runs("x", &[2, 2], 1)[0]).unwrap();
            let said = source.finish(&calibration).unwrap_err().to_string();
            let wanted = [name, "y"].map(|name| {
                [word, "infinite"].map(|word| {
                    format!("value {name:?} is {word} for some inputs, expected numbers")
                })
            });
            let is_unseen = said.starts_with("value \"y\" was never computed");
            assert!(is_unseen || wanted.as_flattened().contains(&said), "{op} {number}: {said}");
        }
    }
}

#[test]
fn encodings_that_are_given_are_those_of_the_model() {
    let sets = runs("x", &[1, 3, 16, 16], 2);
    let (first, _) = quantize(&pictures(), Settings::default(), &sets);
    let text = Encodings::text(&first.encoded);
    let encodings = text.parse::<Encodings>().unwrap();
    // Other data say other ranges, and yet.
    let other = runs("x", &[1, 3, 16, 16], 7);
    let (second, _) = quantize(&pictures(), Settings { encodings, ..Settings::default() }, &other);
    let of = |quantized: &Quantized, kind| -> Vec<_> {
        let encoded = quantized.encoded.iter().filter(|of| of.kind == kind);
        encoded.map(|of| (of.name.clone(), of.encodings.clone())).collect()
    };
    assert_eq!(of(&first, Kind::Activation), of(&second, Kind::Activation));
    assert_eq!(of(&first, Kind::Weights), of(&second, Kind::Weights));
    let text = r#"{"activation_encodings": {"x": [{"bitwidth": 8, "scale": 0.5, "offset": -1}, {"bitwidth": 8, "scale": 0.5, "offset": -1}]}}"#;
    let encodings = text.parse::<Encodings>().unwrap();
    let runtime = Runtime::new().unwrap();
    let settings = Settings { encodings, ..Settings::default() };
    let source = Quantizer::new(pictures(), &runtime, &BindOptions::default(), settings).unwrap();
    let calibration = source.calibration(&runtime, &CompileOptions::default()).unwrap();
    let said = source.finish(&calibration).unwrap_err().to_string();
    assert_eq!(said, "value \"x\" is given 2 encodings, expected 1");
}

/// Two convolutions whose channels have very different ranges.
fn uneven() -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[1, 4, 8, 8]);
    let mut y = x;
    for at in 0..3 {
        let w = net.numbers.tensor(&[4, 4, 3, 3], 0.4);
        let mut numbers = w.get::<f32>().unwrap().to_vec();
        for (channel, row) in numbers.chunks_mut(36).enumerate() {
            let factor = [30.0, 1.0, 0.05, 0.3][(channel + at) % 4];
            for weight in row {
                *weight *= factor;
            }
        }
        let w = Tensor::from_slice(Shape::new(&[4, 4, 3, 3]).unwrap(), &numbers).unwrap();
        let w = net.graph.add_constant(&format!("w{at}"), w);
        let b = net.constant(&format!("b{at}"), &[4], 0.3);
        y = net.node("Conv", &[y, w, b], &[("pads", Attr::Ints(vec![1; 4]))]);
        y = net.node("Relu", &[y], &[]);
    }
    net.ends(&[y])
}

#[test]
fn equalized_weights_are_less_noise_per_tensor() {
    let sets = runs("x", &[1, 4, 8, 8], 3);
    let (_, before) = quantize(&uneven(), Settings::default(), &sets);
    let equalized = Settings { equalize: true, ..Settings::default() };
    let (quantized, after) = quantize(&uneven(), equalized, &sets);
    assert!(after > before + 3.0, "{before} dB, then {after}");
    assert!(quantized.encoded.iter().any(|of| of.name == "w0"), "names stay");
}

#[test]
fn corrected_biases_move_means_back() {
    let sets = runs("x", &[1, 3, 16, 16], 6);
    let coarse = Settings { weight_bits: Bits::Four, ..Settings::default() };
    let (_, before) = quantize(&pictures(), coarse.clone(), &sets);
    let corrected = Settings { correct_biases: true, ..coarse };
    let (_, after) = quantize(&pictures(), corrected, &sets);
    assert!(after > before, "{before} dB, then {after}");
}

#[test]
fn percentiles_leave_rare_numbers_out() {
    let mut sets = runs("x", &[1, 3, 16, 16], 4);
    let mut numbers = sets[0][0].1.get::<f32>().unwrap().to_vec();
    numbers[5] = 40.0;
    sets[0][0].1 = Tensor::from_slice(Shape::new(&[1, 3, 16, 16]).unwrap(), &numbers).unwrap();
    let settings = Settings { method: Method::Percentile(99.9), ..Settings::default() };
    let (quantized, _) = quantize(&pictures(), settings, &sets);
    let x = quantized.encoded.iter().find(|of| of.name == "x").unwrap();
    let range = x.stored_range();
    assert!(range.max < 1.1 && range.min > -1.1, "{range:?}");
}

/// Operators that double numbers: one on the DSP too, one of numbers alone.
static PACKAGE: PackageV1 = PackageV1::new("Doubles", "1.0.0").ops(doubles::OPS).kernels(&[
    doubles::TWICE,
    doubles::TWICE_DSP,
    doubles::PLAIN,
]);

#[test]
fn user_operators_take_part_as_their_types_say() {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    let runtime = Runtime::from_parts(operators, Devices::default());
    for (op, is_stored) in [("Twice", true), ("Plain", false)] {
        let mut net = Net::new();
        let x = net.input("x", &[2, 8]);
        let w = net.constant("w", &[8, 8], 1.0);
        let y = net.node("MatMul", &[x, w], &[]);
        let y = net.node(op, &[y], &[]);
        let graph = net.ends(&[y]);
        let bind = BindOptions::default();
        let strict = Quantizer::new(graph.clone(), &runtime, &bind, Settings::default());
        assert_eq!(strict.is_ok(), is_stored, "{op}");
        let source = Quantizer::new(graph, &runtime, &bind, allowed()).unwrap();
        let mut calibration = source.calibration(&runtime, &CompileOptions::default()).unwrap();
        let sets = runs("x", &[2, 8], 2);
        for set in &sets {
            calibration.add(set).unwrap();
        }
        let quantized = source.finish(&calibration).unwrap();
        let result = format!("{}_1", op.to_lowercase());
        assert_eq!(quantized.encoded.iter().any(|of| of.name == result), is_stored, "{op}");
        let run = |cores: Vec<Core>| {
            let fallback = Fallback::To(Core::CPU);
            let place = PlaceOptions { cores, fallback, ..PlaceOptions::default() };
            let options = CompileOptions { place, ..CompileOptions::default() };
            let model =
                runtime.load(quantized.graph.clone(), &LoadOptions::from(options.clone())).unwrap();
            let mut session = model.session().unwrap();
            session.set_input("x", &sets[0][0].1).unwrap();
            session.run().unwrap();
            let steps = model.report().steps.iter();
            let core = steps.filter(|step| step.op == op).map(|step| step.core).next();
            (session.output::<f32>(&result).unwrap().to_vec(), core)
        };
        let (on_cpu, core) = run(vec![Core::CPU]);
        assert_eq!(core, Some(Core::CPU));
        if is_stored {
            let (on_dsp, core) = run(vec![Core::DSP_V68, Core::CPU]);
            assert_eq!(core, Some(Core::DSP_V68), "by the kernel for the DSP");
            let most = on_cpu.iter().fold(0f32, |most, x| most.max(x.abs()));
            let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= most / 60.0;
            assert!(on_cpu.iter().zip(&on_dsp).all(is_near), "{on_cpu:?} {on_dsp:?}");
        }
    }
}
