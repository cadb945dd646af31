//! Quantized networks that the DSP runs from end to end: nothing between two of its steps is a number of 32 bits.

use std::fmt::Write;

use udo_api::guard::thread_heap_calls;
use udo_api::{Core, CoreKind, Shape};
use udo_runtime::compile::{PassOptions, PlaceOptions};
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Model, Session, Tensor};
use udo_test_support::compile::{built_in, compile_graph};

/// A graph as text, with values that are quantized on the way.
struct Net {
    text: String,
}

impl Net {
    fn new() -> Self {
        Self { text: "graph net\n  input x: f32[1,4,6,6]\n".to_owned() }
    }

    /// A constant tensor of a pattern of numbers.
    fn constant(&mut self, name: &str, dtype: &str, dims: &[usize], of: impl Fn(u16) -> f64) {
        let len: usize = dims.iter().product();
        let all: Vec<String> =
            (0..u16::try_from(len).unwrap()).map(|at| of(at).to_string()).collect();
        let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
        writeln!(self.text, "  constant {name}: {dtype}[{}]{{{}}}", dims.join(","), all.join(", "))
            .unwrap();
    }

    fn node(&mut self, line: &str) {
        writeln!(self.text, "  {line}").unwrap();
    }

    /// `to`, which is what 8-bit values for the numbers of `from` stand for.
    fn stored(&mut self, to: &str, from: &str, scale: f64, zero: u8) {
        self.constant(&format!("{to}_scale"), "f32", &[], |_| scale);
        self.constant(&format!("{to}_zero"), "u8", &[], |_| zero.into());
        self.node(&format!("{to}_q = QuantizeLinear@21({from}, {to}_scale, {to}_zero)"));
        self.node(&format!("{to} = DequantizeLinear@21({to}_q, {to}_scale, {to}_zero)"));
    }

    /// Weights by a scale for each of the results, whose axis is `axis`.
    fn weights(&mut self, name: &str, dims: &[usize], axis: usize) {
        self.constant(&format!("{name}_q"), "i8", dims, |at| {
            f64::from((at * 37 + 11) % 255) - 127.0
        });
        self.constant(&format!("{name}_scale"), "f32", &[dims[axis]], |at| {
            0.002 + 0.0005 * f64::from(at)
        });
        self.constant(&format!("{name}_zero"), "i8", &[dims[axis]], |_| 0.0);
        self.node(&format!(
            "{name} = DequantizeLinear@21({name}_q, {name}_scale, {name}_zero) axis={axis}"
        ));
    }

    fn graph(&self) -> Graph {
        Graph::parse(&self.text).unwrap()
    }
}

/// Convolutions, a residual, a join, pools, a product and shares, and the values that are no group's: a sum that is
/// averaged before it is quantized, and a mean that two read.
fn network() -> Net {
    let mut net = Net::new();
    net.stored("a", "x", 0.02, 128);
    net.weights("w", &[8, 4, 3, 3], 0);
    net.constant("b", "f32", &[8], |at| f64::from(at) * 0.1 - 0.4);
    net.node("c = Conv@11(a, w, b) pads=[1,1,1,1]");
    net.node("r = Relu@14(c)");
    net.stored("d", "r", 0.03, 0);
    net.weights("v", &[8, 8, 1, 1], 0);
    net.node("e = Conv@11(d, v)");
    net.stored("f", "e", 0.05, 120);
    net.node("g = Add@14(d, f)");
    net.stored("h", "g", 0.06, 90);
    net.node("i = Concat@13(h, f) axis=1");
    net.stored("j", "i", 0.06, 110);
    net.node("k = MaxPool@12(j) kernel_shape=[2,2] strides=[2,2]");
    net.stored("l", "k", 0.06, 110);
    // Nobody says how the sum and what becomes of it are stored.
    net.node("m = Add@14(l, l)");
    net.node("n = Relu@14(m)");
    net.node("o = GlobalAveragePool@1(n)");
    net.stored("p", "o", 0.04, 3);
    net.node("q_f = Flatten@13(p)");
    net.stored("q", "q_f", 0.04, 3);
    net.weights("u", &[16, 5], 1);
    net.node("s = MatMul@13(q, u)");
    net.stored("t", "s", 0.05, 128);
    net.node("y_f = Softmax@13(t)");
    net.stored("y", "y_f", 0.003_906_25, 0);
    net.node("output y");
    net
}

fn on(core: Core, passes: PassOptions) -> Model {
    let operators = built_in();
    let place = PlaceOptions { cores: vec![core], ..PlaceOptions::default() };
    let options = CompileOptions { place, passes, ..CompileOptions::default() };
    compile_graph(network().graph(), &operators, &options).unwrap()
}

fn run(session: &mut Session, seed: u16) -> Vec<f32> {
    let shape = Shape::new(&[1, 4, 6, 6]).unwrap();
    let x: Vec<f32> =
        (0..144u16).map(|i| f32::from((i * 53 + seed * 7) % 97) * 0.04 - 2.0).collect();
    session.set_input("x", &Tensor::from_slice(shape, &x).unwrap()).unwrap();
    session.run().unwrap();
    session.output::<f32>("y").unwrap().to_vec()
}

#[test]
fn a_quantized_network_runs_on_the_dsp_from_end_to_end() {
    let model = on(Core::DSP_V68, PassOptions::default());
    let report = model.report();
    assert!(
        report
            .nodes
            .iter()
            .filter(|node| !node.is_folded)
            .all(|node| node.core.kind() == Some(CoreKind::Dsp))
    );
    assert_eq!(
        report.steps.iter().filter(|step| step.is_transfer()).count(),
        2,
        "what comes in, and what goes out: {:#?}",
        report.steps
    );
    for step in report.steps.iter().filter(|step| step.core.kind() == Some(CoreKind::Dsp)) {
        let is_number = |text: &&String| text.starts_with("f32[1,") || text.starts_with("f32[5,");
        assert_eq!(step.inputs.iter().chain(&step.outputs).find(is_number), None, "{step:?}");
    }
    let mut own = model.session().unwrap();
    let mut cpu = on(Core::CPU, PassOptions::default()).session().unwrap();
    let mut float = on(Core::CPU, PassOptions::none()).session().unwrap();
    for seed in 0..20 {
        let found = run(&mut own, seed);
        let near = |wanted: Vec<f32>| {
            let far = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far <= 0.008, "{found:?} {wanted:?}");
        };
        near(run(&mut cpu, seed));
        near(run(&mut float, seed));
        assert!(found.iter().any(|y| *y > 0.0));
    }
}

#[test]
fn every_version_of_the_dsp_computes_the_same() {
    let wanted = run(&mut on(Core::DSP_V68, PassOptions::default()).session().unwrap(), 3);
    for arch in [69, 73, 75, 79, 81] {
        let model = on(Core::dsp(arch), PassOptions::default());
        let nodes = model.report().nodes.iter().filter(|node| !node.is_folded);
        assert!(nodes.clone().all(|node| node.core == Core::dsp(arch)), "v{arch}");
        assert_eq!(run(&mut model.session().unwrap(), 3), wanted, "v{arch}");
    }
}

#[test]
fn versions_of_8_bits_leave_values_of_16_to_others() {
    let wanted = run(&mut on(Core::CPU, PassOptions::none()).session().unwrap(), 3);
    for arch in [65, 66] {
        let operators = built_in();
        let cores = vec![Core::dsp(arch), Core::CPU];
        let place = PlaceOptions { cores, ..PlaceOptions::default() };
        let options = CompileOptions { place, ..CompileOptions::default() };
        let model = compile_graph(network().graph(), &operators, &options).unwrap();
        let nodes = model.report().nodes.iter().filter(|node| !node.is_folded);
        let (own, others): (Vec<_>, Vec<_>) = nodes.partition(|node| node.core == Core::dsp(arch));
        let rule = "DSPs before v68 store values in 8 bits, not in 16 (docs/dsp.md, Types)";
        assert!(!others.is_empty() && own.len() > 2 * others.len(), "{others:#?}");
        for node in others {
            assert!(node.refusals[0].reason.ends_with(rule), "{node:?}");
        }
        let found = run(&mut model.session().unwrap(), 3);
        let far = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far <= 0.008, "{found:?} {wanted:?}");
    }
}

#[test]
fn runs_on_the_dsp_leave_the_heap_alone() {
    let model = on(Core::DSP_V68, PassOptions::default());
    let mut session = model.session().unwrap();
    run(&mut session, 0);
    let before = thread_heap_calls();
    session.run().unwrap();
    assert_eq!(thread_heap_calls(), before);
}

#[test]
fn numbers_that_do_not_fit_into_fast_memory_are_refused_with_their_size() {
    let operators = built_in();
    let mut place = PlaceOptions { cores: vec![Core::DSP_V68], ..PlaceOptions::default() };
    place.profile.vtcm_bytes = 1024;
    let options = CompileOptions { place, ..CompileOptions::default() };
    let error = compile_graph(network().graph(), &operators, &options).unwrap_err().to_string();
    assert!(error.contains("bytes of fast memory, and dsp:v68 has 1024"), "{error}");
}

#[test]
fn numbers_of_no_known_range_are_refused_by_their_name() {
    let mut net = Net::new();
    net.stored("a", "x", 0.02, 128);
    net.node("b = Exp@13(a)");
    net.node("c = LogSoftmax@13(b)");
    net.stored("y", "c", 0.05, 200);
    net.node("output y");
    let operators = built_in();
    let place = PlaceOptions { cores: vec![Core::DSP_V68], ..PlaceOptions::default() };
    let options = CompileOptions { place, ..CompileOptions::default() };
    let error = compile_graph(net.graph(), &operators, &options).unwrap_err().to_string();
    assert!(error.contains("and the model has no encoding for it"), "{error}");
}

/// Of what leaves the range of its input, on the DSP: as the model says, and not cut off where its input ends.
#[test]
fn numbers_beyond_the_range_of_their_input_are_stored_as_the_model_says() {
    let scales = "  constant scales: f32[4]{1.0,1.0,2.0,2.0}\n";
    for (node, step) in [
        ("LpPool@18(a) kernel_shape=[3,3] p=1", 0.1),
        ("LpPool@18(a) kernel_shape=[3,3] pads=[1,1,1,1]", 0.05),
        ("Resize@19(a, _, scales) mode=\"cubic\"", 0.025),
    ] {
        let mut net = Net::new();
        net.text.push_str(scales);
        net.stored("a", "x", 0.016, 128);
        net.node(&format!("b = {node}"));
        net.stored("y", "b", step, if node.starts_with("LpPool") { 0 } else { 128 });
        net.node("output y");
        let found = [(Core::DSP_V68, PassOptions::default()), (Core::CPU, PassOptions::none())];
        let [dsp, cpu] = found.map(|(core, passes)| {
            let operators = built_in();
            let place = PlaceOptions { cores: vec![core], ..PlaceOptions::default() };
            let options = CompileOptions { place, passes, ..CompileOptions::default() };
            let model = compile_graph(net.graph(), &operators, &options).unwrap();
            run(&mut model.session().unwrap(), 3)
        });
        // The input ends at 127 steps of 0.016.
        assert!(cpu.iter().any(|y| *y > 2.05), "{node}: {cpu:?}");
        let is_near = |(a, b): (&f32, &f32)| f64::from((a - b).abs()) <= 1.01 * step;
        assert!(dsp.iter().zip(&cpu).all(is_near), "{node}: {dsp:?} {cpu:?}");
    }
}
