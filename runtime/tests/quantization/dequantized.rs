//! Quantized models for the GPU are dequantized at load time.

use std::fmt::Write;

use udo_api::guard::thread_heap_calls;
use udo_api::{Core, CoreKind, Shape};
use udo_engine::cores::{OpenCl, Profile};
use udo_runtime::compile::PlaceOptions;
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, LoadError, LoadOptions, Model, Runtime, Session, Tensor};
use udo_test_support::random::noise;

fn compile(text: &str, core: Core, opencl: OpenCl) -> Result<Model, LoadError> {
    let profile = Profile { opencl, ..Profile::default() };
    let place = PlaceOptions { cores: vec![core], profile, ..PlaceOptions::default() };
    let options = CompileOptions { place, ..CompileOptions::default() };
    Runtime::new().unwrap().load(Graph::parse(text).unwrap(), &LoadOptions::from(options.clone()))
}

fn on(text: &str, core: Core) -> Model {
    compile(text, core, OpenCl::Off).unwrap()
}

/// A constant of elements that `of` makes of numbers from -1 to 1.
fn constant(name: &str, of: (&str, &[usize]), element: impl Fn(f32) -> f32) -> String {
    let (dtype, dims) = of;
    let seed = name.bytes().map(u64::from).sum();
    let all = noise(dims.iter().product(), seed).into_iter().map(|x| element(x).to_string());
    let all = all.collect::<Vec<_>>().join(", ");
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("  constant {name}: {dtype}[{}]{{{all}}}\n", dims.join(","))
}

fn whole(most: f32) -> impl Fn(f32) -> f32 {
    move |x| (x * most).round()
}

/// The input `x` of f32 that all graphs here have, of these dimensions.
fn session(model: &Model, dims: &[usize], seed: u64) -> Session {
    let x: Vec<f32> = noise(dims.iter().product(), seed).into_iter().map(|x| x * 3.0).collect();
    let mut session = model.session().unwrap();
    session.set_input("x", &Tensor::from_slice(Shape::new(dims).unwrap(), &x).unwrap()).unwrap();
    session.run().unwrap();
    session
}

fn output(model: &Model, dims: &[usize], seed: u64) -> Vec<f32> {
    session(model, dims, seed).output::<f32>("y").unwrap().to_vec()
}

fn steps_are_on_the_gpu(model: &Model) {
    let report = model.report();
    for step in report.steps.iter().filter(|step| !step.package.is_empty()) {
        assert_eq!(step.core.kind(), Some(CoreKind::Gpu), "{} ({})", step.name, step.op);
    }
    assert_eq!(
        report.steps.iter().filter(|step| step.is_transfer()).count(),
        2,
        "an input and an output cross"
    );
    let said = report.notices.join("\n");
    assert_eq!(said.matches("was dequantized at load for ").count(), 1, "{said}");
}

/// Scale and zero point of a value.
fn encoding(text: &mut String, name: &str, scale: f32, dtype: &str, zero: i32) {
    writeln!(
        text,
        "  constant {name}_s: f32[]{{{scale}}}\n  constant {name}_z: {dtype}[]{{{zero}}}"
    )
    .unwrap();
}

/// A convolution by channels whose results the range cuts off at 0, a pool, a residual, and a product.
fn qdq() -> String {
    let mut text = "graph net\n  input x: f32[1,3,8,8]\n".to_owned();
    text += &constant("w", ("i8", &[6, 3, 3, 3]), whole(127.0));
    text += &constant("w_s", ("f32", &[6]), |x| 0.003 + 0.002 * x);
    text += &constant("w_z", ("i8", &[6]), |_| 0.0);
    text += &constant("b", ("f32", &[6]), |x| x);
    text += &constant("v", ("u8", &[6, 4]), |x| (127.0 + 120.0 * x).round());
    for (name, scale, zero) in
        [("x", 0.024, 128), ("c", 0.02, 0), ("a", 0.04, 3), ("m", 0.03, 10), ("v", 0.01, 128)]
    {
        encoding(&mut text, name, scale, "u8", zero);
    }
    text + "  x_q = QuantizeLinear@13(x, x_s, x_z)
  x_d = DequantizeLinear@13(x_q, x_s, x_z)
  w_d = DequantizeLinear@13(w, w_s, w_z) axis=0
  c = Conv@13(x_d, w_d, b) pads=[1,1,1,1] # convolution
  c_q = QuantizeLinear@13(c, c_s, c_z)
  c_d = DequantizeLinear@13(c_q, c_s, c_z)
  p_d = MaxPool@13(c_d) kernel_shape=[2,2] strides=[2,2] # pool
  p_q = QuantizeLinear@13(p_d, c_s, c_z)
  p = DequantizeLinear@13(p_q, c_s, c_z)
  a = Add@14(p, p) # sum
  a_q = QuantizeLinear@13(a, a_s, a_z)
  a_d = DequantizeLinear@13(a_q, a_s, a_z)
  m = GlobalAveragePool@13(a_d) # mean
  m_q = QuantizeLinear@13(m, m_s, m_z)
  m_d = DequantizeLinear@13(m_q, m_s, m_z)
  f = Flatten@13(m_d) # row
  v_d = DequantizeLinear@13(v, v_s, v_z)
  y = MatMul@13(f, v_d) # product
  output y
"
}

fn ratio(found: &[f32], wanted: &[f32]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let square = |x: f32| f64::from(x).powi(2);
    let signal: f64 = wanted.iter().map(|&x| square(x)).sum();
    let noise: f64 = found.iter().zip(wanted).map(|(&a, &b)| square(a - b)).sum();
    10.0 * (signal / noise.max(1e-30)).log10()
}

#[test]
fn a_quantized_network_runs_on_the_gpu_from_end_to_end() {
    let gpu = on(&qdq(), Core::GPU);
    steps_are_on_the_gpu(&gpu);
    let steps = gpu.report().steps.iter().filter(|step| !step.package.is_empty());
    let ops: Vec<&str> = steps.map(|step| step.op.as_str()).collect();
    let is_integer = |op: &&&str| op.contains("Quantize") || op.contains("QLinear");
    assert_eq!(ops.iter().filter(is_integer).count(), 0, "{ops:?}");
    let cuts = ops.iter().filter(|op| **op == "Clip").count();
    assert!(cuts <= 3, "what a pool gives is cut off already: {ops:?}");
    let cpu = on(&qdq(), Core::CPU);
    for seed in 1..4 {
        let dims = [1, 3, 8, 8];
        let found = ratio(&output(&gpu, &dims, seed), &output(&cpu, &dims, seed));
        assert!(found > 35.0, "{found} dB");
    }
    let mut session = session(&gpu, &[1, 3, 8, 8], 1);
    let before = thread_heap_calls();
    session.run().unwrap();
    assert_eq!(thread_heap_calls() - before, 0, "runs leave the heap alone");
}

#[test]
fn values_are_cut_off_and_rounded_as_the_stored_ones() {
    let mut text = "graph cut\n  input x: f32[64]\n".to_owned();
    encoding(&mut text, "s", 0.007_812_5, "u8", 0);
    text += "  q = QuantizeLinear@13(x, s_s, s_z)\n  y = DequantizeLinear@13(q, s_s, s_z)\n  output y\n";
    let found = output(&on(&text, Core::GPU), &[64], 1);
    assert_eq!(found, output(&on(&text, Core::CPU), &[64], 1));
    assert!(found.contains(&0.0) && found.contains(&1.992_187_5), "{found:?}");
}

/// A graph of one operator on quantized values between steps, and how far a result may be off.
fn one(op: &str, constants: &str, dims: &str, scale: f32) -> String {
    let mut text = format!("graph one\n  input x: f32{dims}\n{constants}");
    encoding(&mut text, "a", 0.025, "u8", 120);
    encoding(&mut text, "r", scale, "u8", 100);
    format!(
        "{text}  q = QuantizeLinear@13(x, a_s, a_z)\n  k = {op}\n  y = DequantizeLinear@13(k, r_s, r_z)\n  output y\n"
    )
}

#[test]
fn operators_on_values_become_those_on_numbers() {
    let mut weights = constant("w", ("i8", &[5, 4, 1, 1]), whole(100.0));
    weights += &constant("w_s", ("f32", &[5]), |x| 0.01 + 0.004 * x);
    weights += &constant("w_z", ("i8", &[5]), |_| 0.0);
    weights += &constant("b", ("i32", &[5]), whole(4000.0));
    let mut filters = constant("w", ("i8", &[4, 5, 2, 2]), whole(100.0));
    filters += &constant("w_s", ("f32", &[5]), |x| 0.01 + 0.004 * x);
    filters += &constant("w_z", ("i8", &[5]), |_| 0.0);
    filters += &constant("b", ("i32", &[5]), whole(4000.0));
    let mut columns = constant("w", ("i8", &[6, 5]), whole(100.0));
    columns += &constant("w_s", ("f32", &[5]), |x| 0.01 + 0.004 * x);
    columns += &constant("w_z", ("i8", &[5]), |_| 0.0);
    let mut rows = constant("w", ("i8", &[5, 6]), whole(100.0));
    rows += &constant("b", ("i32", &[5]), whole(4000.0));
    rows += "  constant w_s: f32[]{0.01}\n  constant w_z: i8[]{2}\n";
    let mut other = constant("w", ("u8", &[1, 4, 6, 6]), |x| (x * 100.0 + 128.0).round());
    other += "  constant w_s: f32[]{0.02}\n  constant w_z: u8[]{128}\n";
    let truth =
        format!("{other}{}", constant("c", ("bool", &[1, 4, 6, 6]), |x| f32::from(x > 0.0)));
    let image = "[1,4,6,6]";
    let ms = "com.microsoft:";
    let cases = [
        ("QLinearConv@10(q, a_s, a_z, w, w_s, w_z, r_s, r_z, b)", &weights, image, 0.06),
        (
            "udo:QLinearConvTranspose@1(q, a_s, a_z, w, w_s, w_z, r_s, r_z, b) strides=[2,2]",
            &filters,
            image,
            0.06,
        ),
        ("QLinearMatMul@10(q, a_s, a_z, w, w_s, w_z, r_s, r_z)", &columns, "[3,6]", 0.08),
        ("{ms}QGemm@1(q, a_s, a_z, w, w_s, w_z, b, r_s, r_z) transB=1", &rows, "[3,6]", 0.08),
        ("{ms}QLinearAdd@1(q, a_s, a_z, w, w_s, w_z, r_s, r_z)", &other, image, 0.04),
        ("{ms}QLinearMul@1(q, a_s, a_z, w, w_s, w_z, r_s, r_z)", &other, image, 0.06),
        ("{ms}QLinearWhere@1(c, q, a_s, a_z, w, w_s, w_z, r_s, r_z)", &truth, image, 0.03),
        ("{ms}QLinearConcat@1(r_s, r_z, q, a_s, a_z, w, w_s, w_z) axis=1", &other, image, 0.03),
        (
            "{ms}QLinearAveragePool@1(q, a_s, a_z, r_s, r_z) kernel_shape=[2,2]",
            &String::new(),
            image,
            0.02,
        ),
        ("{ms}QLinearGlobalAveragePool@1(q, a_s, a_z, r_s, r_z)", &String::new(), image, 0.01),
        ("{ms}QLinearLeakyRelu@1(q, a_s, a_z, r_s, r_z) alpha=0.125", &String::new(), image, 0.02),
        ("{ms}QLinearSigmoid@1(q, a_s, a_z, r_s, r_z)", &String::new(), image, 0.007),
        (
            "{ms}QLinearSoftmax@1(q, a_s, a_z, r_s, r_z) axis=-1 opset=13",
            &String::new(),
            image,
            0.007,
        ),
        ("{ms}QLinearReduceMean@1(q, a_s, a_z, r_s, r_z) axes=[2,3]", &String::new(), image, 0.01),
    ];
    for (op, constants, shape, scale) in cases {
        let op = op.replace("{ms}", ms);
        let text = one(&op, constants, shape, scale);
        let dims: Vec<usize> =
            shape.trim_matches(['[', ']']).split(',').map(|n| n.parse().unwrap()).collect();
        let gpu = on(&text, Core::GPU);
        steps_are_on_the_gpu(&gpu);
        let (found, wanted) = (output(&gpu, &dims, 3), output(&on(&text, Core::CPU), &dims, 3));
        // Sums in another order may be rounded to the next value.
        let apart: Vec<f32> =
            found.iter().zip(&wanted).map(|(a, b)| ((a - b) / scale).abs()).collect();
        let near = apart.iter().filter(|steps| **steps < 0.01).count();
        assert!(near * 10 >= apart.len() * 7, "{op}: {apart:?}");
        assert!(apart.iter().all(|steps| *steps < 1.01), "{op}: {apart:?}");
        let [least, most] =
            [f32::min, f32::max].map(|end| wanted.iter().copied().reduce(end).unwrap());
        assert!(most - least > scale, "{op} computes something");
    }
}

#[test]
fn operators_on_values_of_16_bits_become_those_on_numbers() {
    let mut filters = constant("w", ("i8", &[5, 4, 1, 1]), whole(100.0));
    filters += &constant("b", ("i32", &[5]), whole(400_000.0));
    let mut rows = constant("w", ("i8", &[5, 6]), whole(100.0));
    rows += &constant("b", ("i32", &[5]), whole(400_000.0));
    let cases = [
        ("QLinearConv@10(q, a_s, a_z, w, w_s, w_z, r_s, r_z, b)", &filters, "[1,4,6,6]"),
        ("com.microsoft:QGemm@1(q, a_s, a_z, w, w_s, w_z, b, r_s, r_z) transB=1", &rows, "[3,6]"),
    ];
    let scale = 0.000_25;
    for (op, constants, shape) in cases {
        let mut text = format!("graph one\n  input x: f32{shape}\n{constants}");
        encoding(&mut text, "w", 0.01, "i8", 2);
        encoding(&mut text, "a", 0.0001, "u16", 32_768);
        encoding(&mut text, "r", scale, "i16", 0);
        writeln!(
            text,
            "  q = QuantizeLinear@13(x, a_s, a_z)\n  k = {op}\n  y = DequantizeLinear@13(k, r_s, r_z)\n  output y"
        )
        .unwrap();
        let dims: Vec<usize> =
            shape.trim_matches(['[', ']']).split(',').map(|n| n.parse().unwrap()).collect();
        let gpu = on(&text, Core::GPU);
        steps_are_on_the_gpu(&gpu);
        let (found, wanted) = (output(&gpu, &dims, 3), output(&on(&text, Core::CPU), &dims, 3));
        // Sums in another order may be rounded to the next value.
        let steps = found.iter().zip(&wanted).map(|(a, b)| ((a - b) / scale).abs());
        let most = steps.fold(0.0, f32::max);
        assert!(most < 1.01, "{op}: {most} steps");
        assert!(wanted.iter().any(|x| x.abs() > 1000.0 * scale), "{op} computes something");
    }
}

#[test]
fn integers_go_in_and_come_out() {
    let mut text = "graph io\n  input q: u8[2,6]\n  input x: f32[2,6]\n".to_owned();
    encoding(&mut text, "a", 0.5, "u8", 100);
    encoding(&mut text, "r", 0.25, "i8", -3);
    text += "  d = DequantizeLinear@13(q, a_s, a_z)\n  s = Add@14(d, x)\n  r = Relu@14(s)
  k = QuantizeLinear@13(r, r_s, r_z)\n  t = Transpose@13(k) perm=[1,0]\n  best = ArgMax@13(t) axis=0\n  output t, best\n";
    let run = |core| {
        let model = on(&text, core);
        let mut session = model.session().unwrap();
        let q: Vec<u8> = (90..102).collect();
        let shape = Shape::new(&[2, 6]).unwrap();
        session.set_input("q", &Tensor::from_slice(shape, &q).unwrap()).unwrap();
        let x: Vec<f32> = noise(12, 5).into_iter().map(|x| x * 6.0).collect();
        session.set_input("x", &Tensor::from_slice(shape, &x).unwrap()).unwrap();
        session.run().unwrap();
        let cores: Vec<Option<CoreKind>> = {
            let steps = model.report().steps.iter().filter(|step| !step.package.is_empty());
            steps.map(|step| step.core.kind()).collect()
        };
        let best = session.output::<i64>("best").unwrap().to_vec();
        (session.output::<i8>("t").unwrap().to_vec(), best, cores)
    };
    let (wanted, largest, _) = run(Core::CPU);
    let (found, best, cores) = run(Core::GPU);
    assert_eq!(found, wanted, "they are rounded and cut off as quantize nodes do");
    assert_eq!(best, largest);
    assert!(cores.iter().all(|kind| *kind == Some(CoreKind::Gpu)), "{cores:?}");
}

#[test]
fn only_quantized_models_for_the_gpu_are_dequantized() {
    let said = |model: &Model| model.report().notices.join("\n").contains("dequantized");
    assert!(!said(&on(&qdq(), Core::CPU)));
    let plain = "graph g\n  input x: f32[4]\n  y = Relu@14(x)\n  output y\n";
    assert!(!said(&on(plain, Core::GPU)), "it is in numbers");
}

#[test]
fn values_that_are_asked_for_besides_are_given() {
    let place = PlaceOptions { cores: vec![Core::GPU], ..PlaceOptions::default() };
    let more_outputs = vec!["c_d".to_owned(), "convolution".to_owned()];
    let options = CompileOptions { place, more_outputs, ..CompileOptions::default() };
    let model = Runtime::new()
        .unwrap()
        .load(Graph::parse(&qdq()).unwrap(), &LoadOptions::from(options.clone()))
        .unwrap();
    assert_eq!(model.outputs(), ["y", "c_d", "c"]);
    let session = session(&model, &[1, 3, 8, 8], 2);
    let [cut, all] = ["c_d", "c"].map(|name| session.output::<f32>(name).unwrap().to_vec());
    let near = |(x, cut): (&f32, &f32)| (x.clamp(0.0, 255.0 * 0.02) - cut).abs() < 0.0101;
    assert!(all.iter().zip(&cut).all(near), "{all:?} {cut:?}");
    assert!(all.iter().any(|x| *x < 0.0));
}

#[test]
fn operators_without_a_float_equivalent_are_refused_by_name() {
    let mut text = "graph g\n  input x: f32[1,2,4,4]\n".to_owned();
    encoding(&mut text, "a", 0.1, "u8", 120);
    text += &constant("w", ("u8", &[1, 2, 1, 1]), |x| (x * 50.0 + 60.0).round());
    text += "  q = QuantizeLinear@13(x, a_s, a_z)\n  y = ConvInteger@10(q, w, a_z) # sums\n  output y\n";
    let error = compile(&text, Core::GPU, OpenCl::Off).unwrap_err().to_string();
    assert!(
        error.contains("node \"sums\" (ConvInteger)") && error.contains("gpu: no kernel"),
        "{error}"
    );
}
