//! Which core runs which nodes: pins, runs of nodes that are too short, costs, and subnets by name.
#![expect(clippy::unwrap_used, reason = "a graph that cannot be made fails the test")]

use std::sync::Arc;

use udo_api::{Core, GuardAlloc};
use udo_runtime::cores::OpenCl;
use udo_runtime::graph::Graph;
use udo_runtime::model::{CompileError, Model, Options};
use udo_runtime::place::{Costs, Fallback};
use udo_runtime::plan::Report;
use udo_runtime::registry::Registry;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

/// Two chains that take turns in the model's order, and meet.
const CHAINS: &str = "graph net
  input x: f32[1,4]
  a0 = Relu@14(x) # a0
  b0 = Neg@13(x) # b0
  a1 = Sigmoid@13(a0) # a1
  b1 = Abs@13(b0) # b1
  a2 = Tanh@13(a1) # a2
  b2 = Exp@13(b1) # b2
  y = Add@14(a2, b2) # sum
  output y
";

/// A product whose Relu a kernel does before it stores.
const PRODUCT: &str = "graph net
  input x: f32[64,64]
  constant w: f32[64,64]{0.5}
  h = MatMul@13(x, w) # product
  y = Relu@14(h) # cut
  output y
";

fn options(cores: &[Core], affinity: &[&str]) -> Options {
    let mut options = Options::default();
    options.place.cores = cores.to_vec();
    options.place.affinity = affinity.iter().map(|text| text.parse().unwrap()).collect();
    options.place.profile.opencl = OpenCl::Off;
    options
}

fn compile(text: &str, options: &Options) -> Result<Model, CompileError> {
    let graph = Graph::parse(text).unwrap();
    Model::compile(graph, &mut Registry::builtin().unwrap(), options)
}

/// What the model makes of numbers from -1 to 1.
fn run(model: &Model) -> Vec<f32> {
    let mut session = model.session().unwrap();
    let input = session.input_mut::<f32>("x").unwrap();
    input.iter_mut().zip((0..17u8).cycle()).for_each(|(x, n)| *x = f32::from(n) / 8.0 - 1.0);
    session.run().unwrap();
    session.output::<f32>("y").unwrap().to_vec()
}

fn subnets(report: &Report) -> Vec<String> {
    report.subnets.iter().map(|subnet| format!("{}: {}", subnet.name, subnet.nodes)).collect()
}

#[track_caller]
fn assert_close(found: &[f32], wanted: &[f32]) {
    let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    assert!(found.iter().zip(wanted).all(is_close), "{found:?} {wanted:?}");
}

#[test]
fn pinned_nodes_follow_each_other_on_their_core() {
    let plain = compile(CHAINS, &options(&[Core::CPU], &[])).unwrap();
    assert_eq!(subnets(plain.report()), ["CPU Subnet 0: 0-6"]);
    let pinned = compile(CHAINS, &options(&[Core::CPU], &["0,2=gpu", "a2=gpu"])).unwrap();
    assert_eq!(subnets(pinned.report()), ["GPU Subnet 0: 0,2,4", "CPU Subnet 1: 1,3,5-6"]);
    assert_close(&run(&pinned), &run(&plain));
    let all = compile(CHAINS, &options(&[Core::CPU], &["*=gpu", "Add=cpu"])).unwrap();
    assert_eq!(subnets(all.report()), ["GPU Subnet 0: 0-5", "CPU Subnet 1: 6"]);
    let sum = all.report().nodes.iter().find(|node| node.name == "sum").unwrap();
    assert_eq!((sum.subnet, sum.ids.to_string().as_str()), (Some(1), "6"));
}

#[test]
fn nothing_is_fused_across_what_is_pinned() {
    let steps = |affinity: &[&str]| {
        let model = compile(PRODUCT, &options(&[Core::CPU], affinity)).unwrap();
        (model.report().steps.len(), run(&model))
    };
    let (one, wanted) = steps(&[]);
    assert_eq!(one, 1, "the product does the Relu");
    assert_eq!(steps(&["*=cpu"]).0, 1, "both have the same pin");
    for affinity in ["cut=cpu", "product=cpu"] {
        let (two, found) = steps(&[affinity]);
        assert_eq!(two, 2, "{affinity}");
        assert_close(&found, &wanted);
    }
}

#[test]
fn what_is_pinned_runs_there_or_falls_back_and_says_so() {
    let text = CHAINS.replace("Sigmoid@13(a0)", "Det@11(m)");
    let text =
        text.replace("a1 =", "m = Reshape@14(a0, two)\n  d =").replace("Tanh@13(a1)", "Tanh@13(d)");
    let text = text.replace("[1,4]\n", "[1,4]\n  constant two: i64[2]{2,2}\n");
    let mut wanted = options(&[Core::CPU], &["Det=dsp:v68"]);
    wanted.place.affinity[0].core = Core::GPU;
    let error = compile(&text, &wanted).unwrap_err().to_string();
    assert!(error.contains("(Det) runs on none of the cores asked for: gpu: "), "{error}");
    wanted.place.fallback = Fallback::CPU;
    let model = compile(&text, &wanted).unwrap();
    let det = model.report().nodes.iter().find(|node| node.op == "Det").unwrap();
    assert_eq!((det.core, det.fell_back, det.refusals.len()), (Core::CPU, true, 1));
}

#[test]
fn who_pins_nodes_that_are_not_there_is_told() {
    let error =
        |affinity| compile(CHAINS, &options(&[Core::CPU], &[affinity])).unwrap_err().to_string();
    assert_eq!(
        error("7-9=gpu"),
        "affinity: 7-9 is to choose nodes of the model, and no node has such an id"
    );
    assert_eq!(
        error("Conv=gpu"),
        "affinity: Conv is to choose nodes of the model, and no node has that name or operator"
    );
}

#[test]
fn too_few_nodes_run_on_a_core_behind() {
    let text = "graph net
  input x: f32[2,2]
  a = Relu@14(x) # first
  b = Det@11(a) # det
  c = Add@14(a, b) # second
  d = Tanh@13(c) # third
  y = Neg@13(d) # fourth
  output y
";
    let mut options = options(&[Core::GPU, Core::CPU], &[]);
    let plain = compile(text, &options).unwrap();
    assert_eq!(
        subnets(plain.report()),
        ["GPU Subnet 0: 0", "CPU Subnet 1: 1", "GPU Subnet 2: 2-4"]
    );
    options.place.min_subnet = 3;
    let model = compile(text, &options).unwrap();
    assert_eq!(subnets(model.report()), ["CPU Subnet 0: 0-1", "GPU Subnet 1: 2-4"]);
    let first = model.report().nodes.iter().find(|node| node.name == "first").unwrap();
    assert_eq!(first.refusals[0].reason, "1 nodes follow each other there, wanted 3 at least");
    assert_close(&run(&model), &run(&plain));
}

/// Costs by which the GPU takes a tenth of the time, and a value takes so long to cross.
fn costs(crossing_us: f64) -> Arc<Costs> {
    let json = format!(
        r#"{{"cores": {{
            "cpu": {{"step": 0, "operations": 1000, "integer_operations": 1000, "bytes": 1000}},
            "gpu": {{"step": 0, "operations": 10000, "integer_operations": 10000, "bytes": 10000}}
        }}, "crossings": [
            {{"from": "cpu", "to": "gpu", "value": {crossing_us}, "bytes": 1e9}},
            {{"from": "gpu", "to": "cpu", "value": {crossing_us}, "bytes": 1e9}}
        ]}}"#
    );
    Arc::new(Costs::read(json.as_bytes()).unwrap())
}

#[test]
fn costs_say_where_nodes_run() {
    let mut options = options(&[Core::CPU, Core::GPU], &[]);
    let core_for = |costs: Option<Arc<Costs>>, options: &mut Options| {
        options.place.costs = costs;
        let model = compile(PRODUCT, options).unwrap();
        let product = model.report().nodes.iter().find(|node| node.name == "product").unwrap();
        (product.core, product.refusals.clone(), subnets(model.report()).len())
    };
    assert_eq!(core_for(None, &mut options).0, Core::CPU);
    let (core, refusals, subnets) = core_for(Some(costs(1.0)), &mut options);
    assert_eq!((core, subnets), (Core::GPU, 1));
    assert!(
        refusals[0].reason.starts_with("the whole costs more: its nodes take "),
        "{refusals:?}"
    );
    assert_eq!(core_for(Some(costs(1e6)), &mut options).0, Core::CPU);
    let again = core_for(Some(costs(1.0)), &mut options);
    assert_eq!(again, (core, refusals, subnets));
    let mut lacking = Costs::clone(&costs(1.0));
    lacking.crossings.pop();
    options.place.costs = Some(Arc::new(lacking));
    let error = compile(PRODUCT, &options).unwrap_err().to_string();
    assert!(error.starts_with("costs: nothing is said of the way from gpu to cpu"), "{error}");
}

#[test]
fn figures_that_are_no_costs_are_refused() {
    let error = |from: &str, to: &str| {
        let json = costs(1.0).to_json();
        assert!(json.contains(from), "{json}");
        Costs::read(json.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
    };
    assert!(error("\"cpu\"", "\"npu\"").contains("there is no core \"npu\""));
    assert!(error("1000.0", "0.0").ends_with("wanted more than 0"));
    assert!(error("\"step\":0.0", "\"step\":-1.0").ends_with("microseconds, from 0 on"));
    assert!(error("step", "steps").contains("unknown field"));
}
