//! Random graphs: whatever the planner decides, a run gives bit for bit what the nodes give one by one.
//!
//! `UDO_FUZZ_GRAPHS` says how many graphs to try (1,000 unless given, and a tenth of that without optimization), `UDO_FUZZ_SEED` the
//! seed of the first; each next one has the next seed.

mod graphs;
mod in_place;
mod reference;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use udo_api::guard::thread_heap_calls;
use udo_api::{Core, PackageV1, Shape};
use udo_engine::cores::{OpenCl, Profile};
use udo_engine::operators::Operators;
use udo_graph::graph::Selector;
use udo_runtime::compile::{Affinity, Fallback, PassOptions, PlaceOptions, PlanOptions};
use udo_runtime::device::Coherence;
use udo_runtime::graph::{DimSpec, Source};
use udo_runtime::package::Containment;
use udo_runtime::{CompileOptions, Model, Report, Session, Tensor};
use udo_test_support::random::Random;
use udo_test_support::{fixture, planned};

use graphs::Case;
use udo_test_support::compile::{built_in, compile_graph};

static PACKAGE: PackageV1 = planned::PACKAGE.guarded();

/// The operators that graphs have, in this process.
fn linked() -> Operators {
    let mut operators = built_in();
    operators.add_static(&PACKAGE).unwrap();
    operators
}

/// How many graphs are tried: a build without optimization takes twenty times as long for each.
const fn tried(optimized: u64) -> u64 {
    if cfg!(debug_assertions) { optimized / 10 } else { optimized }
}

/// How often the graphs used each feature of the planner, by name.
type Counts = BTreeMap<&'static str, usize>;

#[test]
fn random_plans_match_node_by_node_execution() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (first, count) = (number("UDO_FUZZ_SEED", 1), number("UDO_FUZZ_GRAPHS", tried(1000)));
    let met = try_share(first..first + count, &linked);
    println!("{met:?}");
    if count >= 500 {
        let unmet: Vec<_> = met.iter().filter(|(_, times)| **times == 0).collect();
        assert!(unmet.is_empty(), "no graph has {unmet:?}");
    }
}

/// Their package has bounded outputs, strided rows, outputs in the place of inputs, and kernels of three kinds of cores.
#[test]
fn plans_of_random_graphs_give_the_same_where_their_package_is_contained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libUdoFuzzReg.so");
    let built = fixture::build_fixture("planned", "dev").join("libplanned_package.so");
    std::fs::copy(built, &path).unwrap();
    let containment = Containment::default().worker(fixture::worker());
    let met = try_share(1..tried(120) + 1, &|| {
        let mut operators = built_in();
        operators.open_contained(&path, &containment).unwrap();
        operators
    });
    for what in ["bounded values", "concats elided", "outputs in place", "steps on the DSP"] {
        assert!(met.get(what).is_some_and(|times| *times > 0), "no graph has {what}: {met:?}");
    }
}

/// Makes the operators that a graph has.
type Open<'a> = &'a (dyn Fn() -> Operators + Sync);

/// Tries graphs on all threads; what they have met.
fn try_share(seeds: Range<u64>, open: Open<'_>) -> Counts {
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut met = Counts::new();
    std::thread::scope(|scope| {
        let share = |worker| seeds.clone().skip(worker).step_by(workers);
        let spawn = |worker| scope.spawn(move || try_all(share(worker), open));
        let all: Vec<_> = (0..workers).map(spawn).collect();
        for worker in all {
            for (what, times) in worker.join().unwrap().unwrap() {
                *met.entry(what).or_default() += times;
            }
        }
    });
    met
}

/// Tries one graph after the other, up to the first that fails.
fn try_all(seeds: impl Iterator<Item = u64>, open: Open<'_>) -> Result<Counts, Failure> {
    let mut met = Counts::new();
    for seed in seeds {
        catch_unwind(AssertUnwindSafe(|| try_one(seed, &open(), &mut met)))
            .unwrap_or_else(|_| Err("it panics".to_owned()))
            .map_err(|found| Failure { seed, found })?;
    }
    Ok(met)
}

/// A graph that does not give what it should.
struct Failure {
    seed: u64,
    found: String,
}

impl std::fmt::Debug for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, found } = self;
        write!(f, "seed {seed}: {found}\nto see it again: UDO_FUZZ_SEED={seed} UDO_FUZZ_GRAPHS=1")
    }
}

/// Where a graph runs and what its planner may do.
fn options(random: &mut Random) -> CompileOptions {
    let cores = random.pick(&[
        vec![Core::CPU],
        vec![Core::CPU, Core::GPU],
        vec![Core::GPU, Core::CPU],
        vec![Core::GPU],
        vec![Core::DSP_V68, Core::CPU, Core::GPU],
        vec![Core::DSP_V68, Core::GPU],
    ]);
    // Pins of nodes that may not take it fall back.
    let ids = |random: &mut Random| {
        let ranges = (0..=random.below(3)).map(|_| {
            let [first, more] = [8, 4].map(|end| u32::try_from(random.below(end)).unwrap());
            first..=first + more
        });
        Selector::Ids(ranges.chain([0..=0]).collect())
    };
    let affinity = (0..random.below(3)).map(|_| Affinity {
        of: ids(random),
        core: random.pick(&[Core::CPU, Core::GPU, Core::DSP_V68]),
    });
    let affinity = affinity.collect();
    let place = PlaceOptions {
        cores,
        fallback: Fallback::To(Core::CPU),
        profile: Profile { opencl: OpenCl::Off, ..Profile::default() },
        prefers_channels_last: random.once_in(3),
        affinity,
        min_subnet: if random.once_in(4) { 3 } else { 1 },
        costs: random.once_in(12).then(Arc::default),
        ..PlaceOptions::default()
    };
    let plan = PlanOptions {
        reuses_inputs: !random.once_in(4),
        elides_concats: !random.once_in(4),
        row_gap: if random.once_in(3) { 1 + random.below(3) } else { 0 },
        fill: if random.once_in(4) { 0 } else { 0xff },
        coherence: match random.below(4) {
            0 => Coherence::NonCoherent { seed: None },
            1 => Coherence::NonCoherent { seed: Some(random.below(1000) as u64) },
            _ => Coherence::Coherent,
        },
        ..PlanOptions::default()
    };
    let threads = NonZero::new(1 + random.below(2)).unwrap();
    // Those that leave no node out are compared with the nodes one by one; some of the others round otherwise.
    let skip = [
        "identity-elimination",
        "dead-code-elimination",
        "common-subexpressions",
        "layer_norm",
        "rms_norm",
        "attention",
        "activations",
        "pad-fusion",
        "quantized",
        "range-propagation",
        "scale-folding",
    ];
    let passes = PassOptions { skip: skip.map(str::to_owned).into() };
    CompileOptions { passes, place, plan, threads, ..CompileOptions::default() }
}

fn try_one(seed: u64, operators: &Operators, met: &mut Counts) -> Result<(), String> {
    let is_contained = operators.packages().any(|package| package.is_contained);
    let nodes = if is_contained { linked() } else { operators.clone() };
    let mut random = Random::new(seed);
    let mut options = options(&mut random);
    let case = graphs::random(random);
    // Not every core has every operator, and only the GPU has one of them.
    if !options.place.cores.contains(&Core::GPU) {
        options.place.cores.push(Core::GPU);
    }
    // An id that no node has is refused.
    if case.graph.nodes.is_empty() {
        options.place.affinity.clear();
    }
    if case.graph.nodes.iter().any(|node| node.op == "TwiceOnGpu") {
        options.place.affinity.push("TwiceOnGpu=gpu".parse().unwrap());
    }
    let model = compile_graph(case.graph.clone(), operators, &options)
        .map_err(|e| format!("{e}\n{}", case.graph))?;
    note(model.report(), &case, &options, met);
    let mut session = model.session().unwrap();
    let mut reports: Vec<_> = model.report().nodes.iter().collect();
    reports.sort_by_key(|node| node.ids.ids().next());
    let cores: Vec<Core> = reports.into_iter().map(|node| node.core).collect();
    if seed.is_multiple_of(4) && !case.has_wide_filters() {
        check_open(&case, &model, operators, &options)?;
    }
    let mut random = Random::new(!seed);
    for run in 0..2 {
        let mut inputs = HashMap::new();
        for ((name, dims), &id) in case.inputs.iter().zip(&case.graph.inputs) {
            let elements = random.reals(dims.iter().product());
            let tensor = Tensor::from_slice(Shape::new(dims).unwrap(), &elements).unwrap();
            session.set_input(name, &tensor).unwrap();
            inputs.insert(id, tensor);
        }
        let given = inputs.clone();
        let wanted = reference::run(&case.graph, given, &nodes, &cores, options.threads)?;
        if run == 0 && seed.is_multiple_of(3) {
            in_place::check(&case, &model, operators, &options, (&inputs, &wanted), met)?;
        }
        // The second time, memory holds what the first left.
        for again in 0..2 {
            let heap = thread_heap_calls();
            session.run().map_err(|e| format!("{e}\n{}", case.graph))?;
            // Constants go to a worker with the first call that has them.
            if thread_heap_calls() != heap && (run + again > 0 || !is_contained) {
                return Err(format!("run {run}.{again} meets the heap\n{}", case.graph));
            }
            for (name, id) in case.outputs.iter().zip(&case.graph.outputs) {
                compare(&session, name, &wanted[id]).map_err(|found| {
                    let steps = steps(model.report());
                    format!(
                        "run {run}.{again}: {found}\n{}{steps}{:?}\n{:?}",
                        case.graph, options.place, options.plan
                    )
                })?;
            }
        }
    }
    Ok(())
}

/// That the graph with inputs of open extents has the same plan and gives the same, once these are given.
fn check_open(
    case: &Case,
    fixed: &Model,
    operators: &Operators,
    options: &CompileOptions,
) -> Result<(), String> {
    let (mut graph, mut options) = (case.graph.clone(), options.clone());
    for ((name, dims), id) in case.inputs.iter().zip(&case.graph.inputs) {
        if let Source::Input(of) = &mut graph.values[id.index()].source {
            of.dims =
                (0..dims.len()).map(|axis| DimSpec::Named(format!("{name}.{axis}"))).collect();
        }
        options.bind.shapes.insert(name.clone(), dims.clone());
    }
    let fail = |found: String| format!("with open extents: {found}\n{}", case.graph);
    let open = compile_graph(graph, operators, &options).map_err(|e| fail(e.to_string()))?;
    let plans = [fixed, &open].map(|model| format!("{:#?}", model.report()));
    if plans[0] != plans[1] {
        let mut lines = plans[0].lines().zip(plans[1].lines());
        return Err(fail(format!("the plan differs: {:?}", lines.find(|(a, b)| a != b))));
    }
    let [mut fixed, mut open] = [fixed, &open].map(|model| model.session().unwrap());
    for (name, dims) in &case.inputs {
        let elements = Random::new(0).reals(dims.iter().product());
        let tensor = Tensor::from_slice(Shape::new(dims).unwrap(), &elements).unwrap();
        fixed.set_input(name, &tensor).unwrap();
        open.set_input(name, &tensor).unwrap();
    }
    fixed.run().map_err(|e| fail(e.to_string()))?;
    open.run().map_err(|e| fail(e.to_string()))?;
    case.outputs.iter().try_for_each(|name| {
        compare(&open, name, &fixed.output_tensor(name).unwrap()).map_err(fail)
    })
}

fn compare(session: &Session, name: &str, wanted: &Tensor) -> Result<(), String> {
    let found = session.output_tensor(name).map_err(|e| e.to_string())?;
    if found.dims() != wanted.dims() {
        return Err(format!("output {name} is {}, expected {}", found.desc(), wanted.desc()));
    }
    let [found, wanted] = [&found, wanted].map(|t| t.get::<f32>().unwrap_or_default());
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    match found.iter().zip(wanted).position(|pair| !same(pair)) {
        None => Ok(()),
        Some(at) => {
            Err(format!("output {name}[{at}] is {:?}, expected {:?}", found[at], wanted[at]))
        }
    }
}

fn steps(report: &Report) -> String {
    let step = |s: &udo_runtime::compile::StepReport| {
        let in_place = if s.in_place.is_empty() { "" } else { " in place" };
        format!("  {} {} {:?} -> {:?} {}{in_place}\n", s.name, s.op, s.inputs, s.outputs, s.core)
    };
    report.steps.iter().map(step).collect()
}

/// Counts what the plan has in it.
fn note(report: &Report, case: &Case, options: &CompileOptions, met: &mut Counts) {
    let concats = |op: &str| ["Beside", "BesideStrided", "Concat"].contains(&op);
    let all = case.graph.nodes.iter().filter(|node| concats(&node.op)).count();
    let steps = |is: &dyn Fn(&udo_runtime::compile::StepReport) -> bool| {
        report.steps.iter().filter(|step| is(step)).count()
    };
    let nodes = |is: &dyn Fn(&udo_runtime::compile::NodeReport) -> bool| {
        report.nodes.iter().filter(|node| is(node)).count()
    };
    let left_out = all - steps(&|s| concats(&s.op));
    for (what, times) in [
        ("graphs", 1),
        ("graphs with gaps between rows", usize::from(options.plan.row_gap > 0)),
        ("outputs in place", report.steps.iter().map(|s| s.in_place.len()).sum()),
        ("concats", all),
        ("concats elided", left_out),
        ("copies of parts", steps(&|s| s.op == "Copy")),
        ("parts in place", {
            let cuts = |op: &str| ["Split", "Rest"].contains(&op);
            let all = case.graph.nodes.iter().filter(|node| cuts(&node.op)).count();
            all - steps(&|s| cuts(&s.op))
        }),
        ("views", nodes(&|n| n.is_view)),
        ("fused nodes", nodes(&|n| n.fused_into.is_some())),
        (
            "quantized values stored by a node before",
            nodes(&|n| n.fused_into.is_some() && n.op == "QuantizeLinear"),
        ),
        ("nodes on another core", nodes(&|n| n.fell_back)),
        ("layouts converted", steps(&|s| s.op == "Transpose" && s.package.is_empty())),
        ("values transferred", steps(&|s| s.op == "Transfer")),
        ("bounded values", steps(&|s| s.outputs.iter().any(|o| o.contains("<=")))),
        ("steps on the GPU", steps(&|s| s.core == Core::GPU)),
        ("steps on the DSP", steps(&|s| s.core == Core::DSP_V68)),
    ] {
        *met.entry(what).or_default() += times;
    }
}
