//! Why runtimes and models are refused: errors by kind, and the same with a code and all in one text.

use std::collections::BTreeMap;
use std::fs;

use udo_graph::container::{ContainerError, Contents, Network, Provenance, Stage, StoredGraph};
use udo_graph::error::Coded;
use udo_graph::memory::Limit;
use udo_runtime::cache::{CacheError, CacheOptions};
use udo_runtime::compile::CompileError;
use udo_runtime::device::{Devices, ErrorCode};
use udo_runtime::graph::ImportError;
use udo_runtime::{Error, LoadError, LoadOptions, LoadSource, Runtime};
use udo_test_support::compile::built_in;
use udo_test_support::small::{TEXT, graph, numbers};

/// A runtime that shares nothing that is packed with another.
fn runtime() -> Runtime {
    Runtime::from_parts(built_in(), Devices::default())
}

fn load(text: &str, options: &LoadOptions) -> LoadError {
    runtime().load(text.as_bytes(), options).unwrap_err()
}

/// An error as C sees it: the code of the error itself, and its message.
#[track_caller]
fn coded(error: LoadError, code: ErrorCode) -> String {
    assert_eq!(error.code(), code, "{error}");
    let error = Error::from(error);
    assert_eq!(error.code(), code, "{error}");
    error.to_string()
}

const RELU: &str = "graph g\n  input x: f32[256]\n  y = Relu@14(x)\n  output y\n";

#[test]
fn refusals_are_told_apart() {
    let error = Runtime::builder().package("no such package").build().unwrap_err();
    let LoadError::Package(package) = &error else { panic!("{error}") };
    let help = package.help();
    let said = coded(error, ErrorCode::InvalidPath);
    assert!(said.ends_with(&format!("; {help}")), "{said}");

    let error = runtime().load("no such model.onnx", &LoadOptions::default()).unwrap_err();
    let LoadError::Import(reason) = &error else { panic!("{error}") };
    assert!(matches!(**reason, ImportError::Read { .. }), "{error}");
    assert_eq!(error.to_string(), "cannot read \"no such model.onnx\"");
    let said = coded(error, ErrorCode::InvalidPath);
    assert!(said.starts_with("cannot read \"no such model.onnx\": "), "{said}");

    let dir = Some(CacheOptions { dir: "no such folder".into(), version: 0 });
    let error = load(RELU, &LoadOptions { cache: dir, ..LoadOptions::default() });
    assert!(matches!(error, LoadError::Cache(CacheError::NoFolder { .. })), "{error}");
    coded(error, ErrorCode::InvalidPath);

    let error = load(&RELU.replace("Relu", "Unknown"), &LoadOptions::default());
    let LoadError::Compile(reason) = &error else { panic!("{error}") };
    assert!(matches!(**reason, CompileError::Resolve(_)), "{reason}");
    assert!(coded(error, ErrorCode::Unsupported).contains("\"Unknown\""));

    let error = runtime().load(LoadSource::Cached(None), &LoadOptions::default()).unwrap_err();
    assert!(matches!(error, LoadError::Device(_)), "{error}");
    coded(error, ErrorCode::InvalidArgument);
}

#[test]
fn who_meets_the_limit_of_memory_is_told_which() {
    let mut options = LoadOptions::default();
    options.compile.max_memory = Some(2047);
    let error = load(RELU, &options);
    let LoadError::OutOfMemory { limit, reason } = &error else { panic!("{error}") };
    assert_eq!(*limit, Limit::Asked(2047));
    assert_eq!(error.to_string(), reason.to_string());
    assert!(coded(error, ErrorCode::OutOfMemory).contains("2047 that max_memory allows"));
    // A session takes what the model left.
    options.compile.max_memory = Some(3000);
    let model = runtime().load(RELU.as_bytes(), &options).unwrap();
    let _first = model.session().unwrap();
    assert_eq!(model.budget().refused_by(), None);
    model.session().unwrap_err();
    assert_eq!(model.budget().refused_by(), Some(Limit::Asked(3000)));
}

/// A model file with a network of one stage.
fn contents() -> Contents {
    let (shapes, source) = (BTreeMap::new(), Provenance::default());
    let stages = vec![Stage { shapes, source, graph: StoredGraph::new(graph(TEXT, 1)) }];
    Contents { networks: vec![Network { name: "net".to_owned(), stages }], sections: Vec::new() }
}

#[test]
fn model_files_report_missing_parts() {
    let bytes = contents().to_bytes().unwrap();
    let networks = runtime().networks(&bytes, &LoadOptions::default()).unwrap();
    assert!(networks.is_model_file());
    let error = networks.get(Some("nut")).unwrap_err();
    let LoadError::ModelFile { name, reason } = &error else { panic!("{error}") };
    assert!(matches!(**reason, ContainerError::NoSuchNetwork { .. }), "{error}");
    assert_eq!(name, "model");
    let wanted = "model: network \"nut\" not found, expected one of \"net\"";
    assert_eq!(coded(error, ErrorCode::InvalidArgument), wanted);
    let error = networks.get(None).unwrap().stage(1).unwrap_err();
    coded(error, ErrorCode::InvalidArgument);
    let half = &bytes[..bytes.len() / 2];
    let error = runtime().networks(half, &LoadOptions::default()).unwrap_err();
    assert!(matches!(error, LoadError::ModelFile { .. }), "{error}");
    coded(error, ErrorCode::InvalidFile);
}

#[test]
fn networks_use_their_own_prepacked_weights() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Some(CacheOptions { dir: dir.path().to_owned(), version: 0 });
    let options = LoadOptions { cache, ..LoadOptions::default() };
    let counts = |bytes: &[u8], options: &LoadOptions| {
        let networks = runtime().networks(bytes, options).unwrap();
        let report = networks.get(None).unwrap().stage(0).unwrap().cache().unwrap();
        (report.restored, report.packed)
    };
    let mut contents = contents();
    let bytes = contents.to_bytes().unwrap();
    assert_eq!([(); 2].map(|()| counts(&bytes, &options)), [(0, 2), (2, 0)]);
    contents.sections.push(runtime().prepare(&contents).unwrap());
    let bytes = contents.to_bytes().unwrap();
    assert_eq!(counts(&bytes, &LoadOptions::default()), (2, 0));
}

#[test]
fn a_network_may_be_opened_and_compiled_after_it_was_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (file, folder) = (dir.path().join("m.graph"), dir.path().join("cache"));
    fs::write(&file, RELU).unwrap();
    let cache = Some(CacheOptions { dir: folder.clone(), version: 0 });
    let mut options = LoadOptions { cache, ..LoadOptions::default() };
    assert!(matches!(runtime().networks(&file, &options).unwrap_err(), LoadError::Cache(_)));
    fs::create_dir(&folder).unwrap();
    let networks = runtime().networks(&file, &options).unwrap();
    assert!(!networks.is_model_file());
    let network = networks.get(Some("g")).unwrap();
    assert_eq!(networks.get(Some("h")).unwrap_err().code(), ErrorCode::InvalidArgument);
    let mut session = network.stage(0).unwrap().session().unwrap();
    session.set_input("x", &numbers(&[256], 5)).unwrap();
    session.run().unwrap();
    assert!(session.output::<f32>("y").unwrap().iter().all(|y| *y >= 0.0));
    // The graph that was read is refused as often as it is asked for.
    options.compile.max_memory = Some(16);
    let networks = runtime().networks(&file, &options).unwrap();
    let refused = [(); 2].map(|()| networks.get(None).unwrap().stage(0).unwrap_err().to_string());
    assert_eq!(refused[0], refused[1]);
}
