//! Results of passes on small graphs as text: every file in `passes/` has a graph before and after.

use udo_api::{Core, DType};
use udo_compile::pass::{self, PASSES};
use udo_compile::resolve::{self, TypedGraph};
use udo_runtime::compile::{BindOptions, PassOptions, PassResult};
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Tensor};
use udo_test_support::compile::{built_in, compile_graph, resolve_graph, with_compiler};
use udo_test_support::graph_files;
use udo_test_support::random::Random;

/// A graph as passes leave it, and what each did.
fn passed(graph: Graph, options: &PassOptions) -> (TypedGraph, Vec<PassResult>) {
    with_compiler(&built_in(), &BindOptions::default(), |compiler| {
        let mut resolved = resolve::run(compiler, graph).unwrap();
        let fired = pass::run(compiler, &mut resolved.graph, options, Core::CPU).unwrap();
        (resolved.graph, fired)
    })
}

#[test]
fn imported_graphs_match_their_files() {
    graph_files::check("graphs/passes", |graph| {
        let (graph, _) = passed(graph, &PassOptions::default());
        graph.to_string()
    });
}

#[test]
fn skipped_passes_change_nothing() {
    for text in graph_files::files_in("graphs/passes") {
        let before = resolve_graph(text.before(), &built_in(), &BindOptions::default());
        let (after, fired) = passed(text.before(), &PassOptions::none());
        assert!(fired.is_empty(), "{}", text.name);
        assert_eq!(after.to_string(), before.unwrap().graph.to_string(), "{}", text.name);
    }
}

/// Passes that were renamed are also skipped by their earlier names.
#[test]
fn passes_are_skipped_by_their_aliases() {
    let graph = || {
        Graph::parse("graph g\n  input x: f32[2]\n  h = Relu@14(x)\n  y = Relu@14(x)\n  output y\n")
            .unwrap()
    };
    let aliases = ["same", "unread", "common", "pads", "ranges", "scales"];
    assert!(PASSES.iter().filter_map(|pass| pass.alias).eq(aliases));
    for alias in aliases {
        let pass = PASSES.iter().find(|pass| pass.alias == Some(alias)).unwrap();
        let (_, fired) = passed(graph(), &PassOptions { skip: [alias.to_owned()].into() });
        assert_eq!(fired.len(), PASSES.len() - 1, "{alias}");
        assert!(fired.iter().all(|fired| fired.pass != pass.name), "{alias}");
    }
}

#[test]
fn every_pass_has_files() {
    let texts = graph_files::files_in("graphs/passes");
    for pass in PASSES {
        let has_file = texts.iter().any(|text| text.name.starts_with(pass.name));
        assert!(has_file, "no file in tests/passes is called after pass {}", pass.name);
    }
}

/// Returns the outputs for random inputs.
fn results(graph: Graph, passes: PassOptions, seed: u64) -> Vec<Tensor> {
    let operators = built_in();
    let options = CompileOptions { passes, ..CompileOptions::default() };
    let model = compile_graph(graph, &operators, &options).unwrap();
    let mut session = model.session().unwrap();
    let mut random = Random::new(seed);
    for input in model.inputs() {
        let (shape, dtype) = (input.shape().unwrap(), input.of.dtype);
        let tensor = if dtype == DType::F32 {
            Tensor::from_slice(shape, &random.reals(shape.len())).unwrap()
        } else {
            let mut bytes = vec![0; shape.len() * dtype.size_bytes()];
            // The least byte comes first.
            bytes
                .iter_mut()
                .step_by(dtype.size_bytes())
                .for_each(|byte| *byte = random.pick(&[0, 1]));
            Tensor::from_bytes(dtype, shape, &bytes).unwrap()
        };
        session.set_input(&input.name, &tensor).unwrap();
    }
    session.run().unwrap();
    model.outputs().iter().map(|name| session.output_tensor(name).unwrap()).collect()
}

#[test]
fn results_are_those_without_passes() {
    for (text, seed) in
        graph_files::files_in("graphs/passes").iter().flat_map(|text| [(text, 1), (text, 2)])
    {
        let found = results(text.before(), PassOptions::default(), seed);
        let wanted = results(text.before(), PassOptions::none(), seed);
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found.desc(), wanted.desc(), "{} of seed {seed}", text.name);
            let (Some(numbers), Some(exact)) = (found.get::<f32>(), wanted.get::<f32>()) else {
                assert_eq!(found.bytes(), wanted.bytes(), "{} of seed {seed}", text.name);
                continue;
            };
            let largest =
                exact.iter().filter(|x| x.is_finite()).fold(1.0f32, |most, x| most.max(x.abs()));
            let is_near = |(x, y): (&f32, &f32)| {
                x.to_bits() == y.to_bits()
                    || (x.is_nan() && y.is_nan())
                    || (x - y).abs() < 1e-5 * largest
            };
            let is_same = numbers.iter().zip(exact).all(is_near);
            assert!(is_same, "{} of seed {seed}: {numbers:?}, expected {exact:?}", text.name);
        }
    }
}
