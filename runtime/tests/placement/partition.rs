//! Which core runs which nodes: pins, runs of nodes that are too short, costs, and subnets by name.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use udo_api::Core;
use udo_compile::place::Costs;
use udo_compile::plan::Passage;
use udo_engine::cores::OpenCl;
use udo_runtime::compile::{CompileError, Fallback};
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Model, Report};
use udo_test_support::close::assert_close;
use udo_test_support::compile::{built_in, compile_graph};
use udo_test_support::random::Random;

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

fn options(cores: &[Core], affinity: &[&str]) -> CompileOptions {
    let mut options = CompileOptions::default();
    options.place.cores = cores.to_vec();
    options.place.affinity = affinity.iter().map(|text| text.parse().unwrap()).collect();
    options.place.profile.opencl = OpenCl::Off;
    options
}

fn compile(text: &str, options: &CompileOptions) -> Result<Model, CompileError> {
    let graph = Graph::parse(text).unwrap();
    compile_graph(graph, &built_in(), options)
}

/// Runs the model on inputs from -1 to 1.
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

#[test]
fn pinned_nodes_follow_each_other_on_their_core() {
    let plain = compile(CHAINS, &options(&[Core::CPU], &[])).unwrap();
    assert_eq!(subnets(plain.report()), ["CPU Subnet 0: 0-6"]);
    let pinned = compile(CHAINS, &options(&[Core::CPU], &["0,2=gpu", "a2=gpu"])).unwrap();
    assert_eq!(subnets(pinned.report()), ["GPU Subnet 0: 0,2,4", "CPU Subnet 1: 1,3,5-6"]);
    assert_close(&run(&pinned), &run(&plain), 1e-5);
    let all = compile(CHAINS, &options(&[Core::CPU], &["*=gpu", "Add=cpu"])).unwrap();
    assert_eq!(subnets(all.report()), ["GPU Subnet 0: 0-5", "CPU Subnet 1: 6"]);
    let sum = all.report().nodes.iter().find(|node| node.name == "sum").unwrap();
    assert_eq!((sum.subnet, sum.ids.to_string().as_str()), (Some(1), "6"));
}

#[test]
fn pinned_nodes_are_not_fused() {
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
        assert_close(&found, &wanted, 1e-5);
    }
}

#[test]
fn pinned_nodes_run_on_their_core_or_report_a_fallback() {
    let text = CHAINS.replace("Sigmoid@13(a0)", "Det@11(m)");
    let text =
        text.replace("a1 =", "m = Reshape@14(a0, two)\n  d =").replace("Tanh@13(a1)", "Tanh@13(d)");
    let text = text.replace("[1,4]\n", "[1,4]\n  constant two: i64[2]{2,2}\n");
    let mut wanted = options(&[Core::CPU], &["Det=dsp:v68"]);
    wanted.place.affinity[0].core = Core::GPU;
    let error = compile(&text, &wanted).unwrap_err().to_string();
    assert!(error.contains("(Det) runs on none of the cores asked for: gpu: "), "{error}");
    wanted.place.fallback = Fallback::To(Core::CPU);
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
    assert_eq!(first.refusals[0].reason, "1 nodes follow each other there, expected at least 3");
    assert_close(&run(&model), &run(&plain), 1e-5);
}

/// Nodes that only give what they read another shape, or nothing else at all, of a value and for one of 4 extents.
const VIEWS: &[&str] = &[
    "v = Flatten@13(a)",
    "v = Reshape@14(a, shape)",
    "v = Squeeze@13(a)",
    "v = Unsqueeze@13(a, first)",
    "v = Identity@14(a)",
    "v = Dropout@13(a)",
    "v = Transpose@13(a) perm=[0, 2, 3, 1]",
    "v = Cast@13(a) to=1",
    "v = Slice@13(a, none, all, axis)",
    "u = Flatten@13(a) # inner\n  w = Reshape@14(u, shape) # middle\n  v = Unsqueeze@13(w, first)",
];

fn of_view(nodes: &str, reader: &str) -> String {
    format!(
        "graph net
  input x: f32[1,8,1,1]
  constant shape: i64[2]{{2,4}}
  constant first: i64[1]{{0}}
  constant none: i64[1]{{0}}
  constant all: i64[1]{{9}}
  constant axis: i64[1]{{1}}
  a = Sigmoid@13(x) # maker
  {nodes} # view
  y = Neg@13(v) # reader
{reader}  output y
"
    )
}

/// How many values are brought from one memory into another, by the crossings and by the steps.
fn brought(report: &Report) -> [usize; 2] {
    let crossings = report.crossings.iter().filter(|of| of.passage != Passage::Shared);
    [crossings.count(), report.exchanges().count()]
}

#[test]
fn views_are_placed_with_their_producer_and_consumer() {
    for nodes in VIEWS {
        let text = of_view(nodes, "");
        let wanted = run(&compile(&text, &options(&[Core::CPU], &[])).unwrap());
        for (cores, own, count) in
            [([Core::GPU, Core::CPU], "cpu", 0), ([Core::CPU, Core::GPU], "gpu", 2)]
        {
            let pins = [format!("maker={own}"), format!("reader={own}")];
            let other = if own == "cpu" { "gpu" } else { "cpu" };
            let plain: Vec<&str> = pins.iter().map(String::as_str).collect();
            // One that its user puts elsewhere still has nothing to do there.
            let pinned = [pins.clone().to_vec(), vec![format!("view={other}")]].concat();
            let pinned: Vec<&str> = pinned.iter().map(String::as_str).collect();
            for (affinity, is_moved) in [(&plain, true), (&pinned, false)] {
                let model = compile(&text, &options(&cores, affinity)).unwrap();
                let report = model.report();
                let view = report.nodes.iter().find(|node| node.name == "view");
                if let Some(view) = view.filter(|view| is_moved && view.is_view) {
                    assert_eq!(view.core.to_string(), own, "{nodes}");
                    let refused: Vec<_> =
                        view.refusals.iter().map(|not| not.core.to_string()).collect();
                    assert_eq!(refused, [other], "{nodes}");
                }
                assert_eq!(brought(report), [count; 2], "{nodes} {affinity:?}");
                assert_eq!(
                    report.steps.iter().filter(|step| step.is_transfer()).count(),
                    count,
                    "{nodes} {affinity:?}"
                );
                assert_close(&run(&model), &wanted, 1e-5);
            }
        }
    }
}

#[test]
fn a_view_that_two_cores_read_is_brought_to_the_other_one_alone() {
    for nodes in VIEWS {
        let text = of_view(nodes, "  z = Abs@13(v) # other\n  output z\n");
        let wanted = run(&compile(&text, &options(&[Core::CPU], &[])).unwrap());
        let pins = ["maker=cpu", "reader=cpu", "other=gpu"];
        let model = compile(&text, &options(&[Core::GPU, Core::CPU], &pins)).unwrap();
        // To the GPU, and what it makes of it back.
        assert_eq!(brought(model.report()), [2, 2], "{nodes}");
        assert_close(&run(&model), &wanted, 1e-5);
    }
}

#[test]
fn a_view_of_an_input_that_the_host_reads_stays_on_the_host() {
    let text = "graph net
  input x: f32[1,4]
  constant shape: i64[2]{2,2}
  v = Reshape@14(x, shape) # view
  y = Neg@13(v) # reader
  output y
";
    for affinity in [&["reader=cpu"][..], &["reader=cpu", "view=gpu"]] {
        let model = compile(text, &options(&[Core::GPU, Core::CPU], affinity)).unwrap();
        assert_eq!(brought(model.report()), [0, 0], "{affinity:?}");
        assert_close(
            &run(&model),
            &run(&compile(text, &options(&[Core::CPU], &[])).unwrap()),
            1e-5,
        );
    }
    // It is read where it is preferred: it goes there once.
    let model = compile(text, &options(&[Core::GPU, Core::CPU], &[])).unwrap();
    assert_eq!(brought(model.report()), [2, 2]);
    let view = model.report().nodes.iter().find(|node| node.name == "view").unwrap();
    assert_eq!((view.core, view.is_view), (Core::GPU, true));
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
    let core_for = |costs: Option<Arc<Costs>>, options: &mut CompileOptions| {
        options.place.costs = costs;
        let model = compile(PRODUCT, options).unwrap();
        let product = model.report().nodes.iter().find(|node| node.name == "product").unwrap();
        (product.core, product.refusals.clone(), subnets(model.report()).len())
    };
    assert_eq!(core_for(None, &mut options).0, Core::CPU);
    let (core, refusals, subnets) = core_for(Some(costs(1.0)), &mut options);
    assert_eq!((core, subnets), (Core::GPU, 1));
    assert!(
        refusals[0].reason.starts_with("the total cost is higher: its nodes take "),
        "{refusals:?}"
    );
    assert_eq!(core_for(Some(costs(1e6)), &mut options).0, Core::CPU);
    let again = core_for(Some(costs(1.0)), &mut options);
    assert_eq!(again, (core, refusals, subnets));
    let mut lacking = Costs::clone(&costs(1.0));
    lacking.crossings.pop();
    options.place.costs = Some(Arc::new(lacking));
    let error = compile(PRODUCT, &options).unwrap_err().to_string();
    assert!(
        error.starts_with("costs: there are no figures for transfers from gpu to cpu"),
        "{error}"
    );
}

#[test]
fn figures_that_are_no_costs_are_refused() {
    let error = |from: &str, to: &str| {
        let json = costs(1.0).to_json();
        assert!(json.contains(from), "{json}");
        Costs::read(json.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
    };
    assert!(error("\"cpu\"", "\"npu\"").contains("there is no core \"npu\""));
    assert!(error("1000.0", "0.0").ends_with("expected more than 0"));
    assert!(error("\"step\":0.0", "\"step\":-1.0").ends_with("microseconds, 0 or more"));
    assert!(error("step", "steps").contains("unknown field"));
}

/// A graph of products and of steps between them, in random order, on matrices of 8 rows.
struct RandomGraph {
    text: String,
    nodes: usize,
}

impl RandomGraph {
    fn new(most: usize, dice: &mut Random) -> Self {
        let mut text = String::from("graph net\n  input x: f32[8,64]\n");
        for width in WIDTHS {
            for to in WIDTHS {
                writeln!(text, "  constant w{width}_{to}: f32[{width},{to}]{{0.01}}").unwrap();
            }
        }
        let mut made = vec![("x".to_owned(), 64)];
        let (mut read, mut nodes) = (BTreeSet::new(), BTreeSet::new());
        while nodes.len() < most {
            let at = nodes.len();
            let from = made[made.len().saturating_sub(1 + dice.below(3))].clone();
            let same = made.iter().filter(|(_, width)| *width == from.1).collect::<Vec<_>>();
            let other = same[dice.below(same.len())].0.clone();
            let (width, to) = (from.1, WIDTHS[dice.below(WIDTHS.len())]);
            let (node, to) = match dice.below(3) {
                0 => (format!("Softmax@13({}) axis=-1", from.0), width),
                1 if other != from.0 => (format!("Pow@15({}, {other})", from.0), width),
                _ => (format!("MatMul@13({}, w{width}_{to})", from.0), to),
            };
            // Two that do the same would become one.
            if !nodes.insert(node.clone()) {
                continue;
            }
            read.extend([from.0].into_iter().chain(node.contains("Pow").then_some(other)));
            writeln!(text, "  v{at} = {node} # n{at}").unwrap();
            made.push((format!("v{at}"), to));
        }
        for (name, _) in made.iter().filter(|(name, _)| !read.contains(name)) {
            writeln!(text, "  output {name}").unwrap();
        }
        Self { text, nodes: nodes.len() }
    }
}

/// The columns that matrices may have.
const WIDTHS: [usize; 3] = [16, 64, 256];

/// The costs of an invented machine.
fn random_costs(dice: &mut Random) -> Arc<Costs> {
    let mut of = |least: usize, most: usize| least + dice.below(most - least);
    // One that is quick to begin, and one that is quick at work.
    let mut core = |step: usize, rate: usize| {
        let (step, rate) = (of(0, step), of(rate, 3 * rate));
        format!(
            r#"{{"step": {step}, "operations": {rate}, "integer_operations": 1, "bytes": {rate}}}"#
        )
    };
    let (cpu, gpu) = (core(10, 2_000), core(40, 20_000));
    let mut way = || format!(r#""value": {}, "bytes": {}"#, of(0, 10), of(500, 8_000));
    let json = format!(
        r#"{{"cores": {{"cpu": {cpu}, "gpu": {gpu}}}, "crossings": [
            {{"from": "cpu", "to": "gpu", {}}}, {{"from": "gpu", "to": "cpu", {}}}
        ]}}"#,
        way(),
        way()
    );
    Arc::new(Costs::read(json.as_bytes()).unwrap())
}

/// Computes the cost of a placement from the report's nodes and transfers.
fn counted(report: &Report, costs: &Costs) -> f64 {
    let count = |count: u64| f64::from(u32::try_from(count).unwrap());
    let steps = report.steps.iter().filter(|step| !step.is_transfer()).map(|step| {
        let core = &costs.cores[step.core.kind().unwrap().name()];
        core.step + (count(step.operations) / core.operations).max(count(step.bytes) / core.bytes)
    });
    // Into another subnet on the same core a value is not brought again.
    let mut brought = BTreeSet::new();
    let crossings = report.crossings.iter().map(|crossing| {
        let core = |subnet: Option<usize>| {
            subnet.map_or("cpu", |at| report.subnets[at].core.kind().unwrap().name())
        };
        let (from, to) = (core(crossing.from), core(crossing.to));
        let way = costs.crossings.iter().find(|way| way.from == from && way.to == to);
        let is_new = brought.insert((&crossing.value, to));
        way.filter(|_| is_new).map_or(0.0, |way| way.value + count(crossing.bytes) / way.bytes)
    });
    steps.sum::<f64>() + crossings.sum::<f64>()
}

#[test]
fn random_graphs_are_placed_where_they_cost_least() {
    let (operators, mut mixed) = (built_in(), 0);
    let compile = |text: &str, options: &CompileOptions| {
        compile_graph(Graph::parse(text).unwrap(), &operators, options)
    };
    for seed in 0..30u64 {
        let mut dice = Random::new(seed);
        let most = if seed == 0 { 10 } else { 3 + dice.below(6) };
        let (random, costs) = (RandomGraph::new(most, &mut dice), random_costs(&mut dice));
        let mut of = options(&[Core::CPU, Core::GPU], &[]);
        of.place.costs = Some(costs.clone());
        let found = compile(&random.text, &of).unwrap();
        let report = found.report();
        let cost = report.modelled_us.unwrap();
        assert_eq!(report.nodes.len(), random.nodes, "{}", random.text);
        let all = (0..1usize << random.nodes).map(|cores| {
            let pins = (0..random.nodes)
                .map(|at| format!("{at}={}", if cores >> at & 1 == 1 { "gpu" } else { "cpu" }));
            let pins: Vec<String> = pins.collect();
            let pins: Vec<&str> = pins.iter().map(String::as_str).collect();
            let mut pinned = options(&[Core::CPU, Core::GPU], &pins);
            pinned.place.costs = Some(costs.clone());
            let model = compile(&random.text, &pinned).unwrap();
            let said = model.report().modelled_us.unwrap();
            let counted = counted(model.report(), &costs);
            assert!((said - counted).abs() < 1e-6 * counted, "{said} {counted} {pins:?} {seed}");
            said
        });
        let least = all.fold(f64::INFINITY, f64::min);
        assert!((cost - least).abs() < 1e-9 * least, "seed {seed}: {cost} for {least}");
        assert!((cost - counted(report, &costs)).abs() < 1e-6 * cost, "seed {seed}");
        let again = compile(&random.text, &of).unwrap();
        assert_eq!(again.report(), report, "seed {seed}");
        mixed += usize::from(report.subnets.len() > 1);
    }
    assert!(mixed > 5, "{mixed} graphs on two cores");
}
