//! Networks of model files, and the stages that runs take.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::slice;
use std::thread;

use udo_api::{CoreKind, Shape};
use udo_runtime::container::{Contents, Extent, Network, Provenance, Stage, StoredGraph};
use udo_runtime::device::{DeviceTensor, ErrorCode};
use udo_runtime::graph::Graph;
use udo_runtime::import::ModelBytes;
use udo_runtime::memory::Tensor;
use udo_runtime::model::SessionOptions;
use udo_runtime::run::RunOptions;
use udo_runtime::runtime::{LoadOptions, Runtime};

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
    let tensor = Tensor::of(Shape::new(dims).unwrap(), &elements).unwrap();
    DeviceTensor::of(&runtime.devices().get(CoreKind::Cpu, 0).unwrap(), &tensor).unwrap()
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
        "m.udm: there is no network \"none\", wanted one of [\"twice\", \"neg\"]"
    );
    assert!(networks.get(None).unwrap_err().to_string().contains("it has several networks"));

    let twice = networks.get(Some("twice")).unwrap();
    let said = |stage| twice.inputs(stage).unwrap()[0].1.to_string();
    assert_eq!([0, 1, 2].map(said), ["f32[2,2]", "f32[4,2]", "f32[5..=9,2]"]);
    assert_eq!(twice.outputs().unwrap(), ["y"]);
    assert_eq!(twice.inputs(3).unwrap_err().code(), ErrorCode::InvalidArgument);
    let mut session = twice.session(&SessionOptions::default());
    for n in [4, 2, 7, 5, 4] {
        let x = tensor(&runtime, &[n, 2]);
        let made = session.run_on(slice::from_ref(&x), &[None]).unwrap();
        assert_eq!(made[0].spec().dims().unwrap(), [n, 2]);
        let wanted: Vec<f32> = (0u8..).map(|x| f32::from(2 * x)).take(2 * n).collect();
        assert_eq!(made[0].to_host().unwrap().get::<f32>().unwrap(), wanted);
        let run = session.submit(slice::from_ref(&x), &[None], RunOptions::default()).unwrap();
        run.wait().unwrap();
        assert_eq!(run.output(0).unwrap().read_all().unwrap(), made[0].read_all().unwrap());
        session.record(&[x], &[None], RunOptions::default()).unwrap();
    }
    let error = session.run_on(&[tensor(&runtime, &[3, 2])], &[None]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ShapeMismatch);
    assert!(error.to_string().contains("no stage of network \"twice\" takes x [3,2]"), "{error}");
    assert!(session.stage(7).is_err());
    let fixed = session.stage(1).unwrap().run_on(&[tensor(&runtime, &[2, 2])], &[None]);
    assert_eq!(fixed.unwrap_err().code(), ErrorCode::ShapeMismatch);
}

#[test]
fn the_only_stage_takes_as_many_elements_in_another_shape() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.udm");
    file(&path);
    let runtime = Runtime::new().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let networks = runtime.networks_of_bytes(&bytes, &LoadOptions::default()).unwrap();
    let mut session = networks.get(Some("neg")).unwrap().session(&SessionOptions::default());
    let made = session.run_on(&[tensor(&runtime, &[3, 2])], &[None]).unwrap();
    assert_eq!(made[0].spec().dims().unwrap(), [2, 3]);
    let error = session.run_on(&[tensor(&runtime, &[5])], &[None]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ShapeMismatch);
}

/// A model of another format is one network with one stage, and damaged files give nothing.
#[test]
fn other_formats_are_one_network() {
    let runtime = Runtime::new().unwrap();
    let text = "graph \"g\"\n  input x: f32[n,2]\n  y = Neg@13(x)\n  output y\n";
    let of = |bytes: &[u8]| runtime.networks_of_bytes(bytes, &LoadOptions::default());
    let networks = of(text.as_bytes()).unwrap();
    let network = networks.get(None).unwrap();
    assert_eq!((network.name(), network.stage_count()), ("g", 1));
    assert_eq!(network.inputs(0).unwrap()[0].1.to_string(), "f32[?,2]");
    assert_eq!(network.model(1).unwrap_err().code(), ErrorCode::InvalidArgument);
    let mut session = network.session(&SessionOptions::default());
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
    let pool = twice.pool(NonZero::new(2).unwrap(), &SessionOptions::default());
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
    let pool = neg.pool(NonZero::new(2).unwrap(), &SessionOptions::default());
    pool.reserve().unwrap();
    let (x, y) = (tensor(&runtime, &[2, 3]), tensor(&runtime, &[2, 3]));
    let cpu = runtime.devices().get(CoreKind::Cpu, 0).unwrap();
    let before = cpu.heap_stats();
    let run = pool.submit(&[x], &[Some(y)], RunOptions::default()).unwrap();
    run.wait().unwrap();
    assert_eq!(cpu.heap_stats(), before);
}
