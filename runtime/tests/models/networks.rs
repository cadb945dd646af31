//! Networks of model files, and the stages that runs take.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::slice;
use std::thread;

use udo_api::{CoreKind, Shape};
use udo_graph::container::{Contents, Extent, Network, Provenance, Stage, StoredGraph};
use udo_graph::error::Coded;
use udo_graph::import::ModelBytes;
use udo_runtime::cache::{CacheOptions, CacheOutcome};
use udo_runtime::device::{DeviceTensor, ErrorCode};
use udo_runtime::graph::{Graph, ImportOptions};
use udo_runtime::run::{RunOptions, SessionOptions};
use udo_runtime::{CompileOptions, LoadOptions, Network as Opened, Networks, Runtime, Tensor};
use udo_test_support::compile::built_in;
use udo_test_support::small::{TEXT, graph, numbers};

/// One network for two shapes and a range, another one for one shape.
fn file(path: &Path) {
    let stage = |text: &str, shapes: &[(&str, &[Extent])]| {
        let graph = Graph::parse(text).unwrap();
        let source = Provenance::new("test", &ModelBytes::copy_of(text.as_bytes()), "test", vec![]);
        let shapes = shapes.iter().map(|(name, of)| ((*name).to_owned(), of.to_vec()));
        let shapes: BTreeMap<_, _> = shapes.collect();
        Stage { shapes, source, graph: StoredGraph::new(graph) }
    };
    let twice = "graph \"twice\"\n  input x: f32[n,2]\n  y = Add@14(x, x)\n  output y\n";
    let neg = "graph \"neg\"\n  input x: f32[2,3]\n  y = Neg@13(x)\n  output y\n";
    let [two, four] = [2, 4].map(|n| [Extent::Fixed(n), Extent::Fixed(2)]);
    let range = [Extent::Range { min: 5, opt: None, max: 9 }, Extent::Fixed(2)];
    let stages = [two, four, range].map(|of| stage(twice, &[("x", &of)]));
    let networks = vec![
        Network { name: "twice".to_owned(), stages: stages.into() },
        Network { name: "neg".to_owned(), stages: vec![stage(neg, &[])] },
    ];
    Contents { networks, sections: vec![] }.write(path).unwrap();
}

fn tensor(runtime: &Runtime, dims: &[usize]) -> DeviceTensor {
    let elements: Vec<f32> = (0u8..).map(f32::from).take(dims.iter().product()).collect();
    let tensor = Tensor::from_slice(Shape::new(dims).unwrap(), &elements).unwrap();
    DeviceTensor::from_tensor(&runtime.devices().get(CoreKind::Cpu, 0).unwrap(), &tensor).unwrap()
}

/// B02 and B05.
#[test]
fn a_run_takes_the_stage_for_its_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.udm");
    file(&path);
    let runtime = Runtime::new().unwrap();
    let networks = runtime.networks(&path, &LoadOptions::default()).unwrap();
    let names: Vec<_> =
        networks.iter().map(|of| (of.name().to_owned(), of.stage_count())).collect();
    assert_eq!(names, [("twice".to_owned(), 3), ("neg".to_owned(), 1)]);
    let error = networks.get(Some("none")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert_eq!(
        error.to_string(),
        "m.udm: network \"none\" not found, expected one of \"twice\", \"neg\""
    );
    assert!(networks.get(None).unwrap_err().to_string().contains("the file has several networks"));

    let twice = networks.get(Some("twice")).unwrap();
    let said = |stage| twice.inputs(stage).unwrap()[0].1.to_string();
    assert_eq!([0, 1, 2].map(said), ["f32[2,2]", "f32[4,2]", "f32[5..=9,2]"]);
    assert_eq!(twice.outputs().unwrap(), ["y"]);
    assert_eq!(twice.inputs(3).unwrap_err().code(), ErrorCode::InvalidArgument);
    let mut session = twice.model().unwrap().session().unwrap();
    for n in [4, 2, 7, 5, 4] {
        let x = tensor(&runtime, &[n, 2]);
        let made = session.run_on(slice::from_ref(&x), &[None]).unwrap();
        assert_eq!(made[0].spec().dims().unwrap(), [n, 2]);
        let wanted: Vec<f32> = (0u8..).map(|x| f32::from(2 * x)).take(2 * n).collect();
        assert_eq!(made[0].to_host().unwrap().get::<f32>().unwrap(), wanted);
        let run = session.submit(slice::from_ref(&x), &[None], RunOptions::default()).unwrap();
        run.wait().unwrap();
        assert_eq!(
            run.output(0).unwrap().to_host().unwrap().bytes(),
            made[0].to_host().unwrap().bytes()
        );
        session.record(&[x], &[None], RunOptions::default()).unwrap();
    }
    let error = session.run_on(&[tensor(&runtime, &[3, 2])], &[None]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ShapeMismatch);
    assert!(error.to_string().contains("no stage of network \"twice\" fits x [3,2]"), "{error}");
    assert!(session.prepare_stage(7).is_err() && twice.stage(7).is_err());
    let mut fixed = twice.stage(1).unwrap().session().unwrap();
    let fixed = fixed.run_on(&[tensor(&runtime, &[2, 2])], &[None]);
    assert_eq!(fixed.unwrap_err().code(), ErrorCode::ShapeMismatch);
}

/// `Runtime::load` gives all stages of a network where no option names one, and sets of inputs choose among them.
#[test]
fn a_session_of_a_loaded_file_chooses_its_stages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.udm");
    file(&path);
    let runtime = Runtime::new().unwrap();
    let load = |network: &str, stage| {
        let network = Some(network.to_owned());
        let import = ImportOptions { network, stage, ..ImportOptions::default() };
        runtime.load(&path, &LoadOptions { import, ..LoadOptions::default() }).unwrap()
    };
    let model = load("twice", None);
    assert_eq!((model.stage_count(), model.inputs()[0].of.to_string()), (3, "f32[n,2]".to_owned()));
    assert!(model.report().notices[0].starts_with("3 stages"), "{:?}", model.report().notices);
    let mut session = model.session().unwrap();
    assert!(session.plans().next().is_none() && session.input_mut::<f32>("x").is_err());
    for n in [4, 2, 9, 5, 2, 4] {
        let x: Vec<f32> = (0u8..).map(f32::from).take(2 * n).collect();
        let shape = Shape::new(&[n, 2]).unwrap();
        session.set_input("x", &Tensor::from_slice(shape, &x).unwrap()).unwrap();
        session.run().unwrap();
        let wanted: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
        assert_eq!(session.output::<f32>("y").unwrap(), wanted);
    }
    // Two of 2 and 4 rows, and one of 9 rows or fewer.
    assert_eq!(session.replans(), 3);
    session
        .set_input("x", &Tensor::from_slice(Shape::new(&[3, 2]).unwrap(), &[0.0f32; 6]).unwrap())
        .unwrap();
    let error = session.run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::ShapeMismatch);
    assert!(error.to_string().contains("no stage of network \"twice\" fits x [3,2]"), "{error}");
    session.prepare(&[("x", &[2, 2])]).unwrap();
    let io = session.io(Some(1)).unwrap().clone();
    session.io(Some(0)).unwrap();
    let again = session.io(Some(1)).unwrap();
    assert_eq!(again.inputs[0].spec().dims().unwrap(), [4, 2]);
    io.inputs[0].copy_from(&tensor(&runtime, &[4, 2])).unwrap();
    let same = again.inputs[0].to_host().unwrap();
    assert_eq!(same.get::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert!(session.io(Some(3)).is_err());
    let fixed = load("twice", Some(1));
    assert_eq!((fixed.stage_count(), fixed.inputs()[0].of.to_string()), (1, "f32[4,2]".to_owned()));
    assert_eq!(load("neg", None).plan().map(|plan| plan.outputs().count()), Some(1));
}

#[test]
fn the_only_stage_takes_as_many_elements_in_another_shape() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.udm");
    file(&path);
    let runtime = Runtime::new().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let networks = runtime.networks(&bytes, &LoadOptions::default()).unwrap();
    let neg = networks.get(Some("neg")).unwrap();
    let stage_for = |dims: &[usize]| neg.stage_for(&[("x".to_owned(), dims.to_vec())]);
    assert_eq!(stage_for(&[3, 2]).unwrap(), 0);
    assert_eq!(stage_for(&[5]).unwrap_err().code(), ErrorCode::ShapeMismatch);
}

/// A stage that is refused memory says nothing of why another one is refused.
#[test]
fn each_stage_is_refused_for_its_own_reason() {
    let stage = |text: &str, rows: usize| {
        let shapes = [("x".to_owned(), vec![Extent::Fixed(rows)])].into();
        let graph = StoredGraph::new(Graph::parse(text).unwrap());
        Stage { shapes, source: Provenance::default(), graph }
    };
    let large = "graph \"large\"\n  input x: f32[4096]\n  y = Neg@13(x)\n  output y\n";
    let unknown = "graph \"unknown\"\n  input x: f32[2]\n  y = Nobody@1(x)\n  output y\n";
    let stages = vec![stage(large, 4096), stage(unknown, 2)];
    let networks = vec![Network { name: "net".to_owned(), stages }];
    let bytes = Contents { networks, sections: vec![] }.to_bytes().unwrap();
    let compile = CompileOptions { max_memory: Some(64), ..CompileOptions::default() };
    let networks = Runtime::new().unwrap().networks(&bytes, &LoadOptions::from(compile)).unwrap();
    let network = networks.get(None).unwrap();
    let codes = [0, 1, 0].map(|index| network.stage(index).unwrap_err().code());
    assert_eq!(codes, [ErrorCode::OutOfMemory, ErrorCode::Unsupported, ErrorCode::OutOfMemory]);
}

/// A model of another format is one network with one stage, and damaged files give nothing.
#[test]
fn other_formats_are_one_network() {
    let runtime = Runtime::new().unwrap();
    let text = "graph \"g\"\n  input x: f32[n,2]\n  y = Neg@13(x)\n  output y\n";
    let of = |bytes: &[u8]| runtime.networks(bytes, &LoadOptions::default());
    let networks = of(text.as_bytes()).unwrap();
    let network = networks.get(None).unwrap();
    assert_eq!((network.name(), network.stage_count()), ("g", 1));
    assert_eq!(network.inputs(0).unwrap()[0].1.to_string(), "f32[?,2]");
    assert_eq!(network.stage(1).unwrap_err().code(), ErrorCode::InvalidArgument);
    let mut session = network.model().unwrap().session().unwrap();
    let made = session.run_on(&[tensor(&runtime, &[3, 2])], &[None]).unwrap();
    assert_eq!(made[0].spec().dims().unwrap(), [3, 2]);
    assert_eq!(of(b"nothing").unwrap_err().code(), ErrorCode::InvalidFile);
}

#[test]
fn threads_submit_to_one_pool_of_a_network_whose_stages_are_made_as_runs_want_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.udm");
    file(&path);
    let runtime = Runtime::new().unwrap();
    let networks = runtime.networks(&path, &LoadOptions::default()).unwrap();
    let twice = networks.get(Some("twice")).unwrap();
    let pool =
        twice.model().unwrap().pool(NonZero::new(2).unwrap(), &SessionOptions::default()).unwrap();
    thread::scope(|scope| {
        for first in 0..3 {
            let (pool, runtime) = (&pool, &runtime);
            scope.spawn(move || {
                for round in 0..8 {
                    let n = [2, 4, 7][(first + round) % 3];
                    let x = tensor(runtime, &[n, 2]);
                    let run = pool.submit(&[x], &[None], RunOptions::default()).unwrap();
                    run.wait().unwrap();
                    let made = run.output(0).unwrap().to_host().unwrap();
                    let wanted: Vec<f32> = (0u8..).map(|x| f32::from(2 * x)).take(2 * n).collect();
                    assert_eq!(made.get::<f32>().unwrap(), wanted);
                }
            });
        }
    });
    let none = pool.submit(&[tensor(&runtime, &[3, 2])], &[None], RunOptions::default());
    assert_eq!(none.unwrap_err().code(), ErrorCode::ShapeMismatch);
    // A stage whose memory was reserved takes none with its first run.
    let neg = networks.get(Some("neg")).unwrap();
    let pool =
        neg.model().unwrap().pool(NonZero::new(2).unwrap(), &SessionOptions::default()).unwrap();
    pool.reserve().unwrap();
    let (x, y) = (tensor(&runtime, &[2, 3]), tensor(&runtime, &[2, 3]));
    let cpu = runtime.devices().get(CoreKind::Cpu, 0).unwrap();
    let before = cpu.heap_stats();
    let run = pool.submit(&[x], &[Some(y)], RunOptions::default()).unwrap();
    run.wait().unwrap();
    assert_eq!(cpu.heap_stats(), before);
}

/// A network of two stages, each of which has two constants packed.
fn packing(folder: &Path) -> Contents {
    let text = TEXT.replace("x: f32[3,40]", "x: f32[n,40]");
    let stage = |rows: usize| {
        let shapes = [("x".to_owned(), vec![Extent::Fixed(rows), Extent::Fixed(40)])].into();
        let graph = StoredGraph::new(graph(&text, rows));
        Stage { shapes, source: Provenance::default(), graph }
    };
    let networks = vec![Network { name: "net".to_owned(), stages: vec![stage(3), stage(5)] }];
    let contents = Contents { networks, sections: vec![] };
    contents.write(&folder.join("plain.udm")).unwrap();
    contents
}

/// A runtime that shares nothing that is packed with another.
fn fresh() -> Runtime {
    Runtime::from_parts(built_in(), udo_runtime::device::Devices::default())
}

fn of_cache(folder: &Path) -> LoadOptions {
    let cache = Some(CacheOptions { dir: folder.to_owned(), version: 0 });
    LoadOptions { cache, ..LoadOptions::default() }
}

/// The numbers of restored and of packed constants, if the model has a cache.
type Counts = Option<(usize, usize)>;

/// Returns the outputs of all stages of the only network, and the counts after the runs.
fn runs(runtime: &Runtime, networks: &Networks) -> Vec<(Vec<f32>, Counts)> {
    let network: Opened = networks.get(None).unwrap();
    let mut session = network.model().unwrap().session().unwrap();
    let cpu = runtime.devices().get(CoreKind::Cpu, 0).unwrap();
    let run = |stage: usize| {
        let model = network.stage(stage).unwrap();
        let dims = network.inputs(stage).unwrap()[0].1.dims().unwrap().to_vec();
        let x = DeviceTensor::from_tensor(&cpu, &numbers(&dims, 5)).unwrap();
        let made = session.run_on(&[x], &[None]).unwrap();
        let counts = model.cache().map(|report| (report.restored, report.packed));
        (made[0].to_host().unwrap().get::<f32>().unwrap().to_vec(), counts)
    };
    (0..network.stage_count()).map(run).collect()
}

#[test]
fn stages_are_packed_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    packing(folder.path());
    let path = folder.path().join("plain.udm");
    let counted = |options: &LoadOptions| {
        let runtime = fresh();
        let (given, counts): (Vec<_>, Vec<_>) =
            runs(&runtime, &runtime.networks(&path, options).unwrap()).into_iter().unzip();
        (given, counts)
    };
    let (wanted, none) = counted(&LoadOptions::default());
    assert_eq!(none, [None, None]);
    let packed = vec![Some((0, 2)), Some((0, 4))];
    let restored = vec![Some((2, 0)), Some((4, 0))];
    for counts in [packed.clone(), restored.clone(), restored.clone()] {
        assert_eq!(counted(&of_cache(&cache)), (wanted.clone(), counts));
    }
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 1, "stages have one file");
    // Bytes have a file of their own, and so has each graph of those that can be exported.
    let bytes = fs::read(&path).unwrap();
    for counts in [packed, restored] {
        let runtime = fresh();
        let networks = runtime.networks(&bytes, &of_cache(&cache)).unwrap();
        let ran: Vec<_> = wanted.iter().cloned().zip(counts).collect();
        assert_eq!(runs(&runtime, &networks), ran);
    }
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 2);
    let exportable = LoadOptions { is_exportable: true, ..of_cache(&cache) };
    for counts in [(0, 2), (2, 0)] {
        assert_eq!(counted(&exportable), (wanted.clone(), vec![Some(counts); 2]));
    }
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 4);
    let runtime = fresh();
    let model = runtime.networks(&path, &exportable).unwrap().get(None).unwrap().stage(1).unwrap();
    let again = fresh().load(&model.export().unwrap(), &LoadOptions::default()).unwrap();
    assert_eq!(again.cache().unwrap().restored, 2);
    let none = of_cache(&folder.path().join("none"));
    assert_eq!(runtime.networks(&path, &none).unwrap_err().code(), ErrorCode::InvalidPath);
}

#[test]
fn files_of_other_formats_are_packed_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.graph");
    let zeros = |n: usize| format!("{{{}}}", vec!["1"; n].join(", "));
    let text = TEXT.replacen("{0}", &zeros(960), 1).replacen("{0}", &zeros(480), 1);
    fs::write(&path, text).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let counts = [(0, 2), (2, 0)].map(|_| {
        let runtime = fresh();
        runs(&runtime, &runtime.networks(&path, &of_cache(cache.path())).unwrap())[0].1
    });
    assert_eq!(counts, [Some((0, 2)), Some((2, 0))]);
}

#[test]
fn prepacked_weights_of_a_model_file_serve_all_stages() {
    let folder = tempfile::tempdir().unwrap();
    let mut contents = packing(folder.path());
    let section = fresh().prepare(&contents).unwrap();
    contents.sections.push(section);
    let path = folder.path().join("prepared.udm");
    contents.write(&path).unwrap();
    let runtime = fresh();
    let of_plain = runtime.networks(folder.path().join("plain.udm"), &LoadOptions::default());
    let wanted = runs(&runtime, &of_plain.unwrap());
    let runtime = fresh();
    let networks = runtime.networks(&path, &LoadOptions::default()).unwrap();
    let found = runs(&runtime, &networks);
    for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        assert_eq!((&found.0, found.1), (&wanted.0, Some((2 * at + 2, 0))));
    }
    let model = networks.get(None).unwrap().stage(0).unwrap();
    assert_eq!(model.cache().unwrap().outcome, CacheOutcome::Hit);
    // What is damaged is refused, as where one model is loaded.
    let mut bad = fs::read(&path).unwrap();
    let last = bad.len() - 64;
    bad[last..].fill(0xa5);
    let networks = fresh().networks(&bad, &LoadOptions::default()).unwrap();
    let network = networks.get(None).unwrap();
    let errors: Vec<_> =
        [0, 1].into_iter().filter_map(|stage| network.stage(stage).err()).collect();
    assert!(!errors.is_empty(), "the stage that it was packed for");
    assert!(errors.iter().all(|error| error.to_string().contains("damaged")), "{errors:?}");
}
