//! Float models for the DSP are quantized at load time and run there from end to end.

use std::fmt::Write;
use std::num::NonZero;
use std::sync::Arc;

use udo_api::guard::thread_heap_calls;
use udo_api::types::F32;
use udo_api::{
    Core, CoreKind, ExecError, F16, KernelDef, PackageV1, Quant, QuantMut, Scratch, Shape,
    dsp_kernel, input, output,
};
use udo_runtime::compile::{PlaceOptions, RangeSource};
use udo_runtime::device::{Coded, Devices, ErrorCode};
use udo_runtime::graph::{Graph, Source};
use udo_runtime::{CompileOptions, LoadError, LoadOptions, Model, Runtime, Session, Tensor};
use udo_test_support::compile::built_in;
use udo_test_support::doubles;
use udo_test_support::random::noise;

/// Operators of a package that double numbers: one also 8-bit values on the DSP, one the same numbers there.
static PACKAGE: PackageV1 = PackageV1::new("Doubles", "1.0.0").ops(doubles::OPS).kernels(&[
    doubles::TWICE,
    doubles::TWICE_DSP,
    doubles::PLAIN,
    KernelDef::new::<PlainDsp>("Plain", Core::DSP_V68).ports(&[input(0, F32), output(0, F32)]),
]);

dsp_kernel!(PlainDsp = plain(out: [f32], in: [f32], params: {}));

#[expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "what functions of the DSP are"
)]
fn plain(out: QuantMut<'_, f32>, x: Quant<'_, f32>, _: Scratch<'_>) -> Result<(), ExecError> {
    out.data.iter_mut().zip(x.data).for_each(|(y, x)| *y = 2.0 * x);
    Ok(())
}

fn constant(text: &mut String, name: &str, dims: &[usize], scale: f32) {
    let seed = name.bytes().map(u64::from).sum();
    let all = noise(dims.iter().product(), seed);
    let all: Vec<String> = all.iter().map(|x| (x * scale).to_string()).collect();
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    writeln!(text, "  constant {name}: f32[{}]{{{}}}", dims.join(","), all.join(", ")).unwrap();
}

/// Convolutions, an activation that is spelled out, a residual, a package's operator, a normalization and functions of numbers
/// alone, of which nobody reads all results, a product, and its logarithms.
fn text() -> String {
    let mut text = "graph net\n  input x: f32[1,3,8,8]\n".to_owned();
    constant(&mut text, "w", &[8, 3, 3, 3], 0.4);
    constant(&mut text, "b", &[8], 0.1);
    constant(&mut text, "d", &[8, 1, 3, 3], 0.4);
    constant(&mut text, "v", &[6, 8], 0.6);
    constant(&mut text, "c", &[6], 0.2);
    text += "  constant gain: f32[8]{1,1,1,1,1,1,1,1}
  constant axis: i64[]{1}
  h = Conv@17(x, w, b) pads=[1,1,1,1] # first
  r = Relu@17(h) # relu
  p = MaxPool@17(r) kernel_shape=[2,2] strides=[2,2] # pool
  e = Conv@17(p, d) pads=[1,1,1,1] group=8 # second
  s = Sigmoid@17(e) # gate
  g = Mul@17(e, s) # silu
  a = Add@17(g, p) # residual
  t = Twice@1(a) # package
  m = GlobalAveragePool@17(t) # mean
  f = Flatten@17(m) # row
  n, mu, inverse = LayerNormalization@17(f, gain) # norm
  k = Erf@17(n) # erf
  l = CumSum@17(k, axis) # sums
  z = Gemm@17(l, v, c) transB=1 # classes
  y = LogSoftmax@17(z) # logs
  output y
";
    text
}

fn network() -> Graph {
    Graph::parse(&text()).unwrap()
}

fn runtime() -> Runtime {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    Runtime::from_parts(operators, Devices::default())
}

fn options(cores: &[Core], range_source: RangeSource) -> CompileOptions {
    let place = PlaceOptions { cores: cores.to_vec(), ..PlaceOptions::default() };
    CompileOptions { place, range_source, ..CompileOptions::default() }
}

fn compile(graph: Graph, cores: &[Core], range_source: RangeSource) -> Result<Model, LoadError> {
    runtime().load(graph, &LoadOptions::from(options(cores, range_source)))
}

fn random(count: usize) -> RangeSource {
    RangeSource::Random(NonZero::new(count).unwrap())
}

fn picture(seed: u64, scale: f32) -> Tensor {
    let x: Vec<f32> = noise(192, seed).iter().map(|x| x * scale).collect();
    Tensor::from_slice(Shape::new(&[1, 3, 8, 8]).unwrap(), &x).unwrap()
}

fn run(session: &mut Session, x: &Tensor) -> Vec<f32> {
    session.set_input("x", x).unwrap();
    session.run().unwrap();
    session.output::<f32>("y").unwrap().to_vec()
}

/// The ratio of what is wanted to what is off, in decibels, over pictures of so large numbers.
fn ratio(model: &Model, scale: f32) -> f64 {
    let cpu = compile(network(), &[Core::CPU], RangeSource::Nothing).unwrap();
    let [mut found, mut wanted] = [model, &cpu].map(|model| model.session().unwrap());
    let (mut signal, mut noise) = (0.0, 0.0);
    for seed in 100..108 {
        let x = picture(seed, scale);
        for (found, wanted) in run(&mut found, &x).iter().zip(run(&mut wanted, &x)) {
            signal += f64::from(wanted).powi(2);
            noise += f64::from(found - wanted).powi(2);
        }
    }
    10.0 * (signal / noise).log10()
}

fn notices(model: &Model) -> String {
    model.report().notices.join("\n")
}

#[test]
fn a_network_in_numbers_runs_on_the_dsp_from_end_to_end() {
    let model = compile(network(), &[Core::DSP_V68], random(4)).unwrap();
    let report = model.report();
    let steps = || report.steps.iter().filter(|step| !step.package.is_empty());
    for step in steps() {
        assert_eq!(step.core.kind(), Some(CoreKind::Dsp), "{}", step.name);
        assert!(!step.outputs[0].starts_with("f32"), "{} makes {:?}", step.name, step.outputs);
    }
    let package = steps().find(|step| step.name == "package").unwrap();
    assert_eq!((package.package.as_str(), package.outputs[0].as_str()), ("Doubles", "u8[1,8,4,4]"));
    let of = |name: &str| steps().find(|step| step.name == name).map(|step| step.op.as_str());
    assert_eq!(of("first"), Some("QLinearConv"));
    assert_eq!((of("gate"), of("silu")), (None, Some("Lookup")), "an activation is one table");
    let found = ratio(&model, 1.0);
    assert!(found > 20.0, "{found} dB");
    let mut session = model.session().unwrap();
    run(&mut session, &picture(1, 1.0));
    let before = thread_heap_calls();
    session.run().unwrap();
    assert_eq!(thread_heap_calls() - before, 0, "runs leave the heap alone");
}

#[test]
fn an_operator_of_numbers_on_the_dsp_gets_numbers_between_stored_values() {
    let text = text().replace("Twice@1", "Plain@1");
    let model = compile(Graph::parse(&text).unwrap(), &[Core::DSP_V68], random(4)).unwrap();
    let step = model.report().steps.iter().find(|step| step.name == "package").unwrap();
    assert_eq!(step.core.kind(), Some(CoreKind::Dsp));
    assert_eq!(
        (step.inputs[0].as_str(), step.outputs[0].as_str()),
        ("f32[1,8,4,4]", "f32[1,8,4,4]")
    );
    let found = ratio(&model, 1.0);
    assert!(found > 20.0, "{found} dB");
}

#[test]
fn functions_of_a_part_of_rows_read_that_part() {
    let text = "graph parts
  input x: f32[1,3,8,8]
  constant sizes: i64[2]{3,5}
  a, b = Split@18(x, sizes) axis=-1
  y = Relu@18(b) # function
  output y
";
    let [mut found, mut wanted] = [Core::DSP_V68, Core::CPU].map(|core| {
        compile(Graph::parse(text).unwrap(), &[core], random(2)).unwrap().session().unwrap()
    });
    let x = picture(4, 1.0);
    let pairs: Vec<_> = run(&mut found, &x).into_iter().zip(run(&mut wanted, &x)).collect();
    assert!(pairs.iter().all(|(found, wanted)| (found - wanted).abs() < 0.01), "{pairs:?}");
}

#[test]
fn the_cost_of_quantizing_and_its_remedy_are_reported_once() {
    let model = compile(network(), &[Core::DSP_V68], random(3)).unwrap();
    let said = notices(&model);
    for wanted in [
        "quantized at load for ",
        " values, 3 weights and 2 biases, ",
        "ranges of 3 sets of random inputs",
        "`udo quantize MODEL --per-channel --store-all --calibration DATA -o quantized.udm`",
    ] {
        assert_eq!(said.matches(wanted).count(), 1, "{wanted}: {said}");
    }
}

#[test]
fn ranges_are_those_of_the_inputs_that_are_given() {
    let sets: Vec<_> = (0..4).map(|seed| vec![("x".to_owned(), picture(seed, 8.0))]).collect();
    let given = RangeSource::Inputs(Arc::new(sets));
    let model = compile(network(), &[Core::DSP_V68], given).unwrap();
    assert!(notices(&model).contains("of 4 sets of given inputs"), "{}", notices(&model));
    let near = ratio(&model, 8.0);
    assert!(near > 20.0, "{near} dB");
    let other = compile(network(), &[Core::DSP_V68], random(4)).unwrap();
    let far = ratio(&other, 8.0);
    assert!(far < near - 6.0, "ranges of -1 to 1 do not hold numbers to 8: {far} dB, {near} dB");
}

#[test]
fn the_same_random_inputs_give_the_same_model() {
    let of = |count| {
        let model = compile(network(), &[Core::DSP_V68], random(count)).unwrap();
        run(&mut model.session().unwrap(), &picture(5, 1.0))
    };
    assert_eq!(of(2), of(2));
    assert_ne!(of(1), of(8), "more inputs reach further");
}

#[test]
fn only_models_in_numbers_for_the_dsp_are_quantized() {
    let quantized = |model: &Model| notices(model).contains("quantized at load");
    let both = [Core::DSP_V68, Core::CPU];
    assert!(quantized(&compile(network(), &both, random(1)).unwrap()));
    // v66 takes models that were quantized before alone.
    for cores in [[Core::CPU, Core::DSP_V68], [Core::GPU, Core::CPU], [Core::dsp(66), Core::CPU]] {
        assert!(!quantized(&compile(network(), &cores, random(1)).unwrap()), "{cores:?}");
    }
    let speaks = "graph g\n  input x: f32[4]\n  constant s: f32[]{0.1}\n  constant z: u8[]{128}\n  \
                  q = QuantizeLinear@13(x, s, z)\n  d = DequantizeLinear@13(q, s, z)\n  y = Relu@14(d)\n  output y\n";
    let graph = Graph::parse(speaks).unwrap();
    assert!(!quantized(&compile(graph, &both, random(1)).unwrap()), "it says how itself");
    let whole = "graph g\n  input x: i64[4]\n  y = Add@14(x, x)\n  output y\n";
    let graph = Graph::parse(whole).unwrap();
    assert!(!quantized(&compile(graph, &both, random(1)).unwrap()), "it has no numbers");
}

#[test]
fn values_that_are_asked_for_besides_are_given() {
    let mut options = options(&[Core::DSP_V68], random(2));
    options.more_outputs = vec!["first".to_owned(), "n".to_owned()];
    let model = runtime().load(network(), &LoadOptions::from(options.clone())).unwrap();
    assert_eq!(model.outputs(), ["y", "h", "n"]);
    let mut session = model.session().unwrap();
    run(&mut session, &picture(1, 1.0));
    let mut exact = {
        let options = CompileOptions { place: PlaceOptions::default(), ..options };
        runtime().load(network(), &LoadOptions::from(options.clone())).unwrap().session().unwrap()
    };
    run(&mut exact, &picture(1, 1.0));
    let pairs = |name: &str| {
        let (found, wanted) = (session.output::<f32>(name), exact.output::<f32>(name));
        found.unwrap().iter().zip(wanted.unwrap()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    assert!(pairs("h") < 0.1 && pairs("n") < 0.3, "{} {}", pairs("h"), pairs("n"));
    assert!(pairs("h") > 0.0, "the values are those that are stored");
}

#[test]
fn files_and_their_caches_are_quantized_alike() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.graph");
    std::fs::write(&path, text()).unwrap();
    let cache = dir.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    let compile = options(&[Core::DSP_V68], random(2));
    let plain = LoadOptions { compile, ..LoadOptions::default() };
    let cached = LoadOptions {
        cache: Some(udo_runtime::cache::CacheOptions { dir: cache, version: 0 }),
        ..plain.clone()
    };
    let of = |options: &LoadOptions| {
        let network = runtime().networks(&path, options).unwrap().get(None).unwrap();
        run(&mut network.stage(0).unwrap().session().unwrap(), &picture(3, 1.0))
    };
    let wanted = of(&plain);
    assert_eq!(of(&cached), wanted, "and its cache is written");
    assert_eq!(of(&cached), wanted, "and its cache is read");
}

/// Why a graph cannot be had on the DSP.
fn refused(text: &str, range_source: RangeSource) -> (String, ErrorCode) {
    let error = compile(Graph::parse(text).unwrap(), &[Core::DSP_V68], range_source).unwrap_err();
    (udo_runtime::Error::from(error).to_string(), ErrorCode::Unsupported)
}

#[test]
fn models_that_cannot_be_quantized_are_refused_with_a_reason() {
    let dark = "graph g\n  input x: f32[2,4]\n  constant w: f32[4,2]{1,2,3,4,5,6,7,8}\n  constant no: f32[]{-1}\n  \
                a = Abs@13(x)\n  n = Mul@14(a, no)\n  l = Log@13(n) # log\n  y = MatMul@13(l, w)\n  output y\n";
    let (error, code) = refused(dark, random(2));
    assert!(error.contains("quantizing it at load fails"), "{error}");
    assert!(error.contains("value \"l\" was never computed in 2 runs"), "{error}");
    let found = compile(Graph::parse(dark).unwrap(), &[Core::DSP_V68], random(2)).unwrap_err();
    assert_eq!(found.code(), code);

    // Beside a core that computes with numbers it runs there, and says why.
    let both = [Core::DSP_V68, Core::CPU];
    let model = compile(Graph::parse(dark).unwrap(), &both, random(2)).unwrap();
    let said = notices(&model);
    assert!(said.contains("was not quantized for dsp:v68"), "{said}");
    assert!(said.contains("value \"l\" was never computed"), "{said}");
    let fallback = udo_runtime::compile::Fallback::To(Core::CPU);
    let place = PlaceOptions { cores: vec![Core::DSP_V68], fallback, ..PlaceOptions::default() };
    let options = CompileOptions { place, range_source: random(2), ..CompileOptions::default() };
    let model =
        runtime().load(Graph::parse(dark).unwrap(), &LoadOptions::from(options.clone())).unwrap();
    assert!(
        notices(&model).contains("which does not support floating point"),
        "{}",
        notices(&model)
    );
    assert!(model.report().steps.iter().all(|step| step.core == Core::CPU));

    let open = "graph g\n  input x: f32[n,4]\n  constant w: f32[4,2]{1,2,3,4,5,6,7,8}\n  y = MatMul@13(x, w)\n  output y\n";
    let (error, _) = refused(open, random(1));
    assert!(error.contains("\"x\" has the open shape n,4"), "{error}");

    let plain = "graph g\n  input x: f32[2,4]\n  y = Exp@13(x) # exp\n  output y\n";
    let (error, _) = refused(plain, RangeSource::Nothing);
    assert!(error.contains("and the model has no encoding for it"), "{error}");

    let wrong = vec![vec![("x".to_owned(), picture(1, 1.0))]];
    let (error, _) = refused(plain, RangeSource::Inputs(Arc::new(wrong)));
    assert!(error.contains("\"x\""), "{error}");
}

#[test]
fn a_model_in_halves_is_widened_and_keeps_its_ends() {
    let text = "graph g\n  input x: f16[2,4]\n  constant w: f32[4,2]{0.5,1,-1.5,2,0.25,-0.5,1,1}\n  \
                h = MatMul@13(x, w)\n  d = Cast@13(h) to=10\n  r = Relu@14(d)\n  y: f16[2,2] = Add@14(r, r)\n  output y\n";
    let x: Vec<F16> = noise(8, 9).into_iter().map(F16::from_f32).collect();
    let x = Tensor::from_slice(Shape::new(&[2, 4]).unwrap(), &x).unwrap();
    let given = RangeSource::Inputs(Arc::new(vec![vec![("x".to_owned(), x.clone())]]));
    let mut graph = Graph::parse(text).unwrap();
    for value in &mut graph.values {
        if let Source::Constant(tensor) = &mut value.source {
            let numbers = tensor.get::<f32>().unwrap().iter().copied();
            let halves: Vec<F16> = numbers.map(F16::from_f32).collect();
            *tensor = Tensor::from_slice(tensor.desc().full_shape(), &halves).unwrap();
        }
    }
    let run = |core| {
        let model = compile(graph.clone(), &[core], given.clone()).unwrap();
        let mut session = model.session().unwrap();
        session.set_input("x", &x).unwrap();
        session.run().unwrap();
        let y = session.output::<F16>("y").unwrap();
        (y.iter().map(|half| half.to_f32()).collect::<Vec<_>>(), notices(&model))
    };
    let ((wanted, _), (found, said)) = (run(Core::CPU), run(Core::DSP_V68));
    assert!(said.contains("quantized at load"), "{said}");
    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 0.06;
    assert!(found.iter().zip(&wanted).all(near), "{found:?} {wanted:?}");
    assert!(wanted.iter().any(|y| *y > 0.5), "{wanted:?}");
}

#[test]
fn open_extents_take_ranges_of_the_inputs_at_hand() {
    let text = "graph g\n  input x: f32[n,4]\n  constant w: f32[4,2]{1,2,3,4,5,6,7,8}\n  y = MatMul@13(x, w)\n  output y\n";
    let x = Tensor::from_slice(Shape::new(&[3, 4]).unwrap(), &noise(12, 1)).unwrap();
    let given = RangeSource::Inputs(Arc::new(vec![vec![("x".to_owned(), x.clone())]]));
    let model = compile(Graph::parse(text).unwrap(), &[Core::DSP_V68], given).unwrap();
    let mut session = model.session().unwrap();
    session.set_input("x", &x).unwrap();
    session.run().unwrap();
    let sum: f32 = session.output::<f32>("y").unwrap().iter().sum();
    let numbers = x.get::<f32>().unwrap().iter().enumerate();
    let wanted: f32 = numbers.map(|(at, x)| x * [3.0, 7.0, 11.0, 15.0][at % 4]).sum();
    assert!((sum - wanted).abs() < 0.5, "{sum} {wanted}");
    assert!(notices(&model).contains("quantized at load"));
}
