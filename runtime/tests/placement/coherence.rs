//! Accelerators whose memory is not coherent: what crosses is flushed and invalidated by the plan, and each of these is missed
//! where it is left out.

use udo_api::{Core, CoreKind, Shape};
use udo_engine::cores::{OpenCl, Profile};
use udo_runtime::compile::{Fallback, PlaceOptions, PlanOptions};
use udo_runtime::device::{Coherence, DeviceSpec};
use udo_runtime::graph::Graph;
use udo_runtime::run::RunOptions;
use udo_runtime::{CompileOptions, LoadOptions, Model, Runtime, Tensor};
use udo_test_support::compile::{built_in, compile_graph};

/// A small quantized network of images: functions and sums of branches on the DSP, and on the CPU what reads or makes running
/// sums, of which nobody knows the range, with values that cross in both directions and are read on both sides.
const NETWORK: &str = "graph network
  input x: f32[1,3,8,8]
  constant s: f32[]{0.0625}
  constant z: u8[]{128}
  constant w: f32[4,3,3,3]{0.11}
  constant one: i64[]{1}
  xq = QuantizeLinear@17(x, s, z)
  xr = DequantizeLinear@17(xq, s, z)
  a = Relu@14(xr)
  aq = QuantizeLinear@17(a, s, z)
  ar = DequantizeLinear@17(aq, s, z)
  b = CumSum@14(ar, one)
  c = Conv@11(b, w) pads=[1,1,1,1]
  cq = QuantizeLinear@17(c, s, z)
  cr = DequantizeLinear@17(cq, s, z)
  d = Sigmoid@13(cr)
  dq = QuantizeLinear@17(d, s, z)
  dr = DequantizeLinear@17(dq, s, z)
  e = Mul@14(cr, dr)
  eq = QuantizeLinear@17(e, s, z)
  er = DequantizeLinear@17(eq, s, z)
  g = Add@14(er, d)
  gq = QuantizeLinear@17(g, s, z)
  gr = DequantizeLinear@17(gq, s, z)
  k = CumSum@14(gr, one)
  m = CumSum@14(k, one)
  p = MaxPool@12(m) kernel_shape=[2,2] strides=[2,2]
  pq = QuantizeLinear@17(p, s, z)
  pr = DequantizeLinear@17(pq, s, z)
  f = CumSum@14(pr, one)
  y = Softmax@13(f) axis=1
  output y, pr
";

fn options(coherence: Coherence, left_out: Option<usize>) -> CompileOptions {
    let profile = Profile { opencl: OpenCl::Off, ..Profile::default() };
    let cores = vec![Core::DSP_V68, Core::CPU];
    let place = PlaceOptions {
        cores,
        fallback: Fallback::To(Core::CPU),
        profile,
        ..PlaceOptions::default()
    };
    let plan = PlanOptions { coherence, left_out, ..PlanOptions::default() };
    CompileOptions { place, plan, ..CompileOptions::default() }
}

fn compiled(text: &str, options: &CompileOptions) -> Model {
    let operators = built_in();
    compile_graph(Graph::parse(text).unwrap(), &operators, options).unwrap()
}

fn input(scale: f32) -> Tensor {
    let numbers: Vec<f32> = (0..192u8).map(|n| scale * (f32::from(n % 37) - 9.0)).collect();
    Tensor::from_slice(Shape::new(&[1, 3, 8, 8]).unwrap(), &numbers).unwrap()
}

/// Returns the bits of a model's outputs for several inputs, run in a new session.
fn results(model: &Model) -> Vec<Vec<u32>> {
    let mut session = model.session().unwrap();
    let mut all = Vec::new();
    for scale in [0.0625, 0.125, 0.0625] {
        session.set_input("x", &input(scale)).unwrap();
        session.run().unwrap();
        for output in ["y", "pr"] {
            let numbers = session.output::<f32>(output).unwrap();
            all.push(numbers.iter().map(|number| number.to_bits()).collect());
        }
    }
    all
}

/// How many steps of a plan keep host and accelerator in step.
fn maintenance_sites(model: &Model) -> usize {
    let steps = &model.report().steps;
    steps.iter().filter(|step| ["Flush", "Invalidate"].contains(&&*step.op)).count()
}

#[test]
fn b17_every_flush_and_invalidation_of_a_network_is_needed() {
    let coherent = compiled(NETWORK, &options(Coherence::Coherent, None));
    assert_eq!(maintenance_sites(&coherent), 0, "coherent memory costs nothing");
    let right = results(&coherent);
    let none = Coherence::NonCoherent { seed: None };
    let model = compiled(NETWORK, &options(none, None));
    let sites = maintenance_sites(&model);
    assert!(sites >= 6, "{:#?}", model.report().steps);
    let both = ["Flush", "Invalidate"].map(|op| model.report().steps.iter().any(|s| s.op == op));
    assert_eq!(both, [true; 2]);
    assert_eq!(results(&model), right);
    let steps = model.report().steps.iter().map(|step| (&*step.op, &*step.name));
    let kept: Vec<_> = steps.filter(|(op, _)| ["Flush", "Invalidate"].contains(op)).collect();
    for (site, of) in kept.iter().enumerate() {
        let model = compiled(NETWORK, &options(none, Some(site)));
        assert_eq!(maintenance_sites(&model), sites - 1);
        assert!(results(&model) != right, "nobody misses {of:?}, site {site} of {kept:?}");
    }
}

#[test]
fn b17_spontaneous_write_back_of_cache_lines_changes_nothing() {
    let right = results(&compiled(NETWORK, &options(Coherence::Coherent, None)));
    for seed in 0..20 {
        let coherence = Coherence::NonCoherent { seed: Some(seed) };
        let model = compiled(NETWORK, &options(coherence, None));
        assert_eq!(results(&model), right, "seed {seed}");
    }
}

#[test]
fn b17_models_are_planned_for_devices_as_they_are() {
    let of = |coherence| {
        let dsp = DeviceSpec { coherence, ..DeviceSpec::new(Core::DSP_V68) };
        let devices = [DeviceSpec::new(Core::CPU), dsp];
        let runtime = Runtime::builder().devices(devices).build().unwrap();
        let graph = Graph::parse(NETWORK).unwrap();
        let model =
            runtime.load(graph, &LoadOptions::from(options(Coherence::Coherent, None))).unwrap();
        (runtime, model)
    };
    let (_, coherent) = of(Coherence::Coherent);
    assert_eq!(maintenance_sites(&coherent), 0);
    let (runtime, model) = of(Coherence::NonCoherent { seed: Some(1) });
    assert!(maintenance_sites(&model) >= 6);
    assert_eq!(results(&model), results(&coherent));
    // A submitted run goes from queue to queue.
    let dsp = runtime.devices().get(CoreKind::Dsp, 0).unwrap();
    let x = udo_runtime::device::DeviceTensor::from_tensor(&dsp, &input(0.0625)).unwrap();
    let mut session = model.session().unwrap();
    let run = session.submit(&[x], &[None, None], RunOptions::default()).unwrap();
    run.wait().unwrap();
    let made = run.output(0).unwrap().to_host().unwrap();
    let made: Vec<u32> = made.get::<f32>().unwrap().iter().map(|n| n.to_bits()).collect();
    assert_eq!(made, results(&coherent)[0]);
}
