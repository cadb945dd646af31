//! Models with prepacked weights beside their graphs: in the folder of a cache, in buffers, and in model files that were
//! prepared.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use udo_graph::container::{Container, Contents, Extent, Network, Provenance, Stage, StoredGraph};
use udo_graph::error::Coded;
use udo_graph::memory::ModelBytes;
use udo_runtime::cache::{CacheOptions, CacheOutcome};
use udo_runtime::device::ErrorCode;
use udo_runtime::{LoadError, LoadOptions, LoadSource, Model, Runtime};
use udo_test_support::compile::built_in;
use udo_test_support::random::Random;
use udo_test_support::small::{TEXT, graph, numbers};

fn options(dir: &Path, version: u32) -> LoadOptions {
    let cache = Some(CacheOptions { dir: dir.to_owned(), version });
    LoadOptions { cache, ..LoadOptions::default() }
}

fn exportable() -> LoadOptions {
    LoadOptions { is_exportable: true, ..LoadOptions::default() }
}

/// Returns the output of a run.
fn run(model: &Model) -> Vec<u32> {
    run_of(model, 3)
}

fn run_of(model: &Model, rows: usize) -> Vec<u32> {
    let mut session = model.session().unwrap();
    session.set_input("x", &numbers(&[rows, 40], 5)).unwrap();
    session.run().unwrap();
    session.output::<f32>("y").unwrap().iter().map(|y| y.to_bits()).collect()
}

/// The numbers of restored and of packed constants.
fn counts(model: &Model) -> (usize, usize) {
    let report = model.cache().unwrap();
    (report.restored, report.packed)
}

/// Returns the output of a model of the graph.
fn expected(seed: usize) -> Vec<u32> {
    let model = Runtime::new().unwrap().load(graph(TEXT, seed), &LoadOptions::default());
    run(&model.unwrap())
}

/// A runtime that shares nothing that is packed with another.
fn runtime() -> Runtime {
    Runtime::from_parts(built_in(), udo_runtime::device::Devices::default())
}

#[test]
fn graphs_are_packed_once() {
    let dir = tempfile::tempdir().unwrap();
    for of in [(0, 2), (2, 0), (2, 0)] {
        let model = runtime().load(graph(TEXT, 1), &options(dir.path(), 0)).unwrap();
        assert_eq!((counts(&model), run(&model)), (of, expected(1)));
    }
    let other = runtime().load(graph(TEXT, 2), &options(dir.path(), 0)).unwrap();
    assert_eq!((counts(&other), run(&other)), ((0, 2), expected(2)), "it has a file of its own");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    let older = runtime().load(graph(TEXT, 1), &options(dir.path(), 1)).unwrap();
    assert!(matches!(older.cache().unwrap().outcome, CacheOutcome::Rebuilt(_)));
    let error = runtime().load(graph(TEXT, 1), &options(dir.path(), 0)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidState);
    let none = options(&dir.path().join("none"), 0);
    let error = runtime().load(graph(TEXT, 1), &none).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidPath);
}

#[test]
fn a_compilation_that_failed_may_be_corrected() {
    let dir = tempfile::tempdir().unwrap();
    let mut bad = options(dir.path(), 0);
    bad.compile.bind.dims.insert("none".to_owned(), 4);
    let text = TEXT.replace("x: f32[3,40]", "x: f32[n,40]");
    let error = runtime().load(graph(&text, 1), &bad).unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
    let mut good = options(dir.path(), 0);
    good.compile.bind.dims.insert("n".to_owned(), 3);
    let models = [(0, 2), (2, 0)].map(|of| {
        let model = runtime().load(graph(&text, 1), &good).unwrap();
        assert_eq!(counts(&model), of);
        model
    });
    for model in models {
        assert_eq!(run(&model), expected(1));
    }
}

#[test]
fn models_come_back_without_their_graph() {
    let dir = tempfile::tempdir().unwrap();
    let restore = |name: Option<&str>, version: u32| {
        runtime().load(LoadSource::Cached(name), &options(dir.path(), version))
    };
    let code = |restored: Result<Model, LoadError>| restored.unwrap_err().code();
    assert_eq!(code(restore(None, 0)), ErrorCode::InvalidArgument);
    assert_eq!(
        code(runtime().load(LoadSource::Cached(None), &LoadOptions::default())),
        ErrorCode::InvalidArgument,
        "no folder is said"
    );
    runtime().load(graph(TEXT, 1), &options(dir.path(), 3)).unwrap();
    let model = restore(None, 3).unwrap();
    assert_eq!((counts(&model), run(&model)), ((2, 0), expected(1)));
    assert_eq!(code(restore(None, 2)), ErrorCode::InvalidState, "it is newer");
    assert_eq!(code(restore(None, 4)), ErrorCode::InvalidState, "it is older");
    assert_eq!(code(restore(Some("other"), 3)), ErrorCode::InvalidArgument);
    let other = TEXT.replace("graph small", "graph other");
    runtime().load(graph(&other, 2), &options(dir.path(), 3)).unwrap();
    assert_eq!(code(restore(None, 3)), ErrorCode::InvalidArgument, "there are two");
    assert_eq!(run(&restore(Some("other"), 3).unwrap()), expected(2));
    // A file that is loaded as one that can be exported leaves its graph as well.
    let file = dir.path().join("third.graph");
    fs::write(&file, "graph third\n  input x: f32[3,40]\n  y = Relu@14(x)\n  output y\n").unwrap();
    let asked = LoadOptions { is_exportable: true, ..options(dir.path(), 3) };
    let model = runtime().load(&file, &asked).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(run(&restore(Some("third"), 3).unwrap()), run(&model));
}

#[test]
fn ranges_of_dimensions_come_back_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let text = TEXT.replace("x: f32[3,40]", "x: f32[n,40]");
    let mut asked = options(dir.path(), 0);
    asked.compile.bind.ranges.insert("n".to_owned(), 1..=8);
    let model = runtime().load(graph(&text, 1), &asked).unwrap();
    let again = runtime().load(LoadSource::Cached(None), &options(dir.path(), 0)).unwrap();
    assert_eq!(again.ranges(), model.ranges());
    assert_eq!((counts(&again), run(&again)), ((2, 0), expected(1)));
    assert_eq!(run_of(&again, 7), run_of(&model, 7));
}

#[test]
fn exported_models_need_no_packing() {
    let model = runtime().load(graph(TEXT, 1), &exportable()).unwrap();
    let bytes = model.export().unwrap();
    assert_eq!(model.export().unwrap(), bytes);
    let again = runtime().load(&bytes, &LoadOptions::default()).unwrap();
    assert_eq!((counts(&again), run(&again)), ((2, 0), expected(1)));
    assert_eq!(again.cache().unwrap().outcome, CacheOutcome::Hit);
    assert_eq!(again.export().unwrap_err().code(), ErrorCode::InvalidState, "it was not asked to");
    let third = runtime().load(&bytes, &exportable()).unwrap();
    assert_eq!(counts(&third), (2, 0));
    let fourth = runtime().load(&third.export().unwrap(), &LoadOptions::default()).unwrap();
    assert_eq!((counts(&fourth), run(&fourth)), ((2, 0), expected(1)));
    let plain = Runtime::new().unwrap().load(graph(TEXT, 1), &LoadOptions::default()).unwrap();
    assert_eq!(plain.export().unwrap_err().code(), ErrorCode::InvalidState);
}

/// A model file of the graph, with prepacked weights if requested.
fn file(dir: &TempDir, name: &str, seed: usize, is_prepared: bool) -> std::path::PathBuf {
    let (path, graph) = (dir.path().join(name), StoredGraph::new(graph(TEXT, seed)));
    let shapes = [("x".to_owned(), vec![Extent::Fixed(3), Extent::Fixed(40)])].into();
    let stage = Stage { shapes, source: Provenance::default(), graph };
    let networks = vec![Network { name: "net".to_owned(), stages: vec![stage] }];
    let mut contents = Contents { networks, sections: Vec::new() };
    if is_prepared {
        contents.sections.push(runtime().prepare(&contents).unwrap());
    }
    contents.write(&path).unwrap();
    path
}

#[test]
fn prepared_model_files_are_used_where_they_fit() {
    let dir = tempfile::tempdir().unwrap();
    let [plain, prepared] =
        [("plain.udm", false), ("prepared.udm", true)].map(|(name, is)| file(&dir, name, 1, is));
    let model = runtime().load(&plain, &LoadOptions::default()).unwrap();
    assert_eq!((model.cache(), run(&model)), (None, expected(1)));
    let model = runtime().load(&prepared, &LoadOptions::default()).unwrap();
    assert_eq!((counts(&model), run(&model)), ((2, 0), expected(1)));
    // What was prepared for other weights is for another model.
    let of_file = |path: &Path| {
        let container = Container::read(&ModelBytes::map_file(path).unwrap()).unwrap();
        container.contents().unwrap()
    };
    let mut other = of_file(&file(&dir, "other.udm", 2, false));
    other.sections = of_file(&prepared).sections;
    other.write(&dir.path().join("mixed.udm")).unwrap();
    let model = runtime().load(dir.path().join("mixed.udm"), &LoadOptions::default()).unwrap();
    assert_eq!((counts(&model), run(&model)), ((0, 2), expected(2)));
    let notice =
        "the prepacked weights in the model file are not used: it belongs to another model";
    assert_eq!(model.report().notices, [notice]);
}

#[test]
fn damaged_model_files_are_refused_or_run_right() {
    let dir = tempfile::tempdir().unwrap();
    let good = fs::read(file(&dir, "good.udm", 1, true)).unwrap();
    let (wanted, runtime) = (expected(1), runtime());
    let mut refused = 0;
    let header = 8 + usize::try_from(u64::from_le_bytes(*good.first_chunk().unwrap())).unwrap();
    for turn in 0..1000 {
        let (mut bad, mut random) = (good.clone(), Random::new(turn + 1));
        let within = if turn % 3 == 0 { header } else { good.len() };
        for _ in 0..=turn % 3 {
            bad[random.below(within)] ^= 1 << random.below(8);
        }
        if turn % 10 == 9 {
            bad.truncate(random.below(good.len()));
        }
        match runtime.load(&bad, &LoadOptions::default()) {
            Ok(model) => assert_eq!(run(&model), wanted, "turn {turn}"),
            Err(error) => {
                assert!(!error.to_string().is_empty(), "turn {turn}");
                refused += 1;
            }
        }
    }
    assert!(refused > 900, "{refused} files of 1000 were found out");
}

#[test]
fn files_of_caches_that_hold_graphs_may_be_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let compile = || runtime().load(graph(TEXT, 1), &options(dir.path(), 0)).unwrap();
    compile();
    let path = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let (good, wanted) = (fs::read(&path).unwrap(), expected(1));
    for turn in 0..200 {
        let (mut bad, mut random) = (good.clone(), Random::new(turn + 7));
        bad[random.below(good.len())] ^= 1 << random.below(8);
        if turn % 4 == 3 {
            bad.truncate(random.below(good.len()));
        }
        fs::write(&path, &bad).unwrap();
        match runtime().load(LoadSource::Cached(None), &options(dir.path(), 0)) {
            Ok(model) => assert_eq!(run(&model), wanted, "turn {turn}"),
            Err(error) => assert_ne!(error.code(), ErrorCode::Internal, "turn {turn}: {error}"),
        }
        let model = compile();
        assert_eq!(run(&model), wanted, "turn {turn}");
    }
    assert_eq!(counts(&compile()), (2, 0), "what was damaged is made again");
}
