//! Memory that sessions share, and what sessions take of devices' heaps.

use udo_api::{Core, CoreKind};
use udo_engine::cores::{OpenCl, Profile};
use udo_runtime::compile::{Fallback, PlaceOptions};
use udo_runtime::device::{DeviceSpec, ErrorCode};
use udo_runtime::run::{RunOptions, SharedWorkspace};
use udo_runtime::{CompileOptions, Device, LoadOptions, Runtime};

use super::{compile, cpu, elements, on, sharing};
use udo_compile::plan::PlanLayout;
use udo_engine::device::Coded;

/// A chain whose values do not take each other's place.
fn chain(width: usize) -> String {
    format!(
        "graph g
  input x: f32[{width}]
  constant zero: i64[]{{0}}
  a = Softmax@13(x) axis=-1
  b = CumSum@14(a, zero)
  y = ReduceSum@13(b)
  output y
"
    )
}

fn workspace(device: &Device) -> (u64, u64) {
    let stats = device.heap_stats();
    let of = stats.owners.iter().find(|(owner, _)| owner == "workspace");
    of.map_or((0, 0), |(_, usage)| (usage.current_bytes, usage.peak_bytes))
}

#[test]
fn b19_a_shared_workspace_is_as_large_as_the_largest_wants() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let models =
        [1000, 3000, 2000].map(|n| compile(&runtime, &chain(n), &CompileOptions::default()));
    let arenas: Vec<u64> = models
        .iter()
        .map(|model| u64::try_from(model.plan().unwrap().session_bytes()).unwrap())
        .collect();
    let own = models.each_ref().map(|model| model.session().unwrap());
    assert_eq!(workspace(&cpu).0, arenas.iter().sum::<u64>());
    drop(own);
    assert_eq!(workspace(&cpu).0, 0);
    cpu.reset_heap_peaks();
    let shared = SharedWorkspace::default();
    let mut sessions: Vec<_> = models.iter().map(|model| sharing(model, &shared, 1)).collect();
    let (now, peak) = workspace(&cpu);
    let most = arenas.iter().max().copied().unwrap();
    assert!((most..most + 128).contains(&now), "{now} of {arenas:?}");
    assert_eq!((peak, shared.bytes(&cpu)), (now, now));
    // What a session has of its own stays whoever runs meanwhile.
    for session in &mut sessions {
        session.input_mut::<f32>("x").unwrap().fill(1.0);
        session.run().unwrap();
    }
    let mut results = Vec::new();
    for (session, model) in sessions.iter_mut().zip(&models) {
        let mut own = model.session().unwrap();
        own.input_mut::<f32>("x").unwrap().fill(1.0);
        own.run().unwrap();
        assert_eq!(session.output::<f32>("y").unwrap(), own.output::<f32>("y").unwrap());
        results.push(own.output::<f32>("y").unwrap().to_vec());
    }
    for (session, right) in sessions.iter_mut().zip(&results) {
        session.run().unwrap();
        assert_eq!(session.output::<f32>("y").unwrap(), right, "inputs are there as before");
    }
    let smallest = sessions.swap_remove(0);
    drop(sessions);
    assert!(workspace(&cpu).0 < arenas[0] + 128);
    drop(smallest);
    assert_eq!(workspace(&cpu).0, 0);
}

/// B08: bytes behind a short result stay as they are in a shared workspace as well.
#[test]
fn b19_bounded_results_and_loops_in_a_shared_workspace() {
    let text = "graph g
  input x: f32[2]
  input trips: i64[]
  y, z = Loop@16(trips, _, x, x) # loop
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input s: f32[2]
      input t: f32[2]
      next = Add@14(s, t) # next
      output go, t, next
  output y, z
";
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let model = compile(&runtime, text, &CompileOptions::default());
    let shared = SharedWorkspace::default();
    let mut sessions = [sharing(&model, &shared, 1), sharing(&model, &shared, 1)];
    for round in 0..4i64 {
        for (n, session) in [1.0f32, 2.0].into_iter().zip(&mut sessions) {
            let given = [on(&cpu, &[2], &[n, -n]), on(&cpu, &[], &[round])];
            let right = model.session().unwrap().run_on(&given, &[None, None]).unwrap();
            let right: Vec<_> = right.iter().map(elements::<f32>).collect();
            let made = session.run_on(&given, &[None, None]).unwrap();
            assert_eq!(made.iter().map(elements::<f32>).collect::<Vec<_>>(), right);
            let run = session.submit(&given, &[None, None], RunOptions::default()).unwrap();
            run.wait().unwrap();
            let again = [0, 1].map(|at| elements::<f32>(&run.output(at).unwrap()));
            assert_eq!(again.to_vec(), right);
        }
    }
}

#[test]
fn b20_a_heap_without_room_refuses_a_session_and_keeps_nothing() {
    let small = DeviceSpec { memory_bytes: Some(40_000), ..DeviceSpec::new(Core::CPU) };
    let runtime = Runtime::builder().devices([small]).build().unwrap();
    let cpu = cpu(&runtime);
    let model = compile(&runtime, &chain(2000), &CompileOptions::default());
    let first = model.session().unwrap();
    let used = cpu.heap_stats().total.current_bytes;
    let error = model.session().unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(error.to_string().starts_with("\"workspace\" wants "), "{error}");
    assert_eq!(cpu.heap_stats().total.current_bytes, used);
    drop(first);
    assert_eq!(cpu.heap_stats().total.current_bytes, 0);
    model.session().unwrap().run().unwrap();
}

#[test]
fn b20_the_memory_of_cores_is_that_of_their_devices() {
    let specs = [Core::CPU, Core::GPU].map(DeviceSpec::new);
    let runtime = Runtime::builder().devices(specs).build().unwrap();
    let profile = Profile { opencl: OpenCl::Off, ..Profile::default() };
    let cores = vec![Core::GPU, Core::CPU];
    let place = PlaceOptions {
        cores,
        fallback: Fallback::To(Core::CPU),
        profile,
        ..PlaceOptions::default()
    };
    let text = "graph g
  input x: f32[64]
  constant w: f32[64]{0.5}
  a = Mul@14(x, w)
  y = Relu@14(a)
  output y
";
    let model = compile(&runtime, text, &CompileOptions { place, ..CompileOptions::default() });
    let gpu = runtime.devices().get(CoreKind::Gpu, 0).unwrap();
    let owner = |device: &Device, owner: &str| {
        let stats = device.heap_stats();
        let of = stats.owners.into_iter().find(|(name, _)| name == owner);
        of.map_or(0, |(_, usage)| usage.current_bytes)
    };
    let session = model.session().unwrap();
    assert_eq!(owner(&gpu, "constants"), 256);
    let own = owner(&gpu, "workspace");
    assert!(own >= 256, "{own}");
    let second = model.session().unwrap();
    assert_eq!((owner(&gpu, "constants"), owner(&gpu, "workspace")), (256, 2 * own));
    drop((session, second));
    assert_eq!(gpu.heap_stats().total.current_bytes, 0);
}

/// Whether two models are of one file, of its bytes, or of others with the same weights.
#[test]
fn b20_the_same_weights_loaded_twice_take_their_memory_once() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let text = |name: &str| {
        format!(
            "graph {name}
  input x: f32[4,64]
  constant w: f32[64,64]{{0.5}}
  constant b: f32[64,64]{{0.25}}
  p = MatMul@13(x, w)
  q = Softmax@13(p) axis=-1
  y = MatMul@13(q, b)
  output y
"
        )
    };
    let constants = || {
        let stats = cpu.heap_stats();
        let of = stats.owners.into_iter().find(|(name, _)| name == "constants");
        of.map_or(0, |(_, usage)| usage.current_bytes)
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.graph");
    std::fs::write(&path, text("file")).unwrap();
    let load = |name: &str| {
        let options = LoadOptions::default();
        runtime.load(text(name).as_bytes(), &options).unwrap().session().unwrap()
    };
    let first = load("first");
    let (once, own) = (constants(), workspace(&cpu).0);
    assert!(once >= 2 * 64 * 64 * 4, "{once}");
    let others = [
        load("first"),
        load("second"),
        runtime.load(&path, &LoadOptions::default()).unwrap().session().unwrap(),
    ];
    assert_eq!((constants(), workspace(&cpu).0), (once, 4 * own));
    drop((first, others));
    assert_eq!(constants(), 0);
    let again = load("third");
    assert_eq!(constants(), once);
    drop(again);
    assert_eq!(cpu.heap_stats().total.current_bytes, 0);
}

/// Constants that folding and passes make, packed ones and ones that calls read, in models that are loaded and of graphs.
#[test]
fn b20_models_share_prepacked_weights() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let text = |name: &str| {
        format!(
            "graph {name}
  input x: f32[4,64]
  constant w: f32[64,64]{{0.5}}
  constant s: f32[64]{{3}}
  constant b: f32[64,64]{{0.25}}
  constant t: f32[4,64]{{0.125}}
  p = MatMul@13(x, w)
  m = Mul@14(p, s) # scaled
  q = Softmax@13(m) axis=-1
  n = Neg@13(b) # folded
  z = MatMul@13(q, n)
  u = Exp@13(t) # folded
  y = Max@13(z, u)
  output y
"
        )
    };
    let constants = || {
        let stats = cpu.heap_stats();
        let of = stats.owners.into_iter().find(|(name, _)| name == "constants");
        of.map_or(0, |(_, usage)| usage.current_bytes)
    };
    let load = |name: &str| runtime.load(text(name).as_bytes(), &LoadOptions::default()).unwrap();
    let first = load("first");
    let folded = first.report().nodes.iter().filter(|node| node.is_folded).count();
    let scaled =
        first.passes().iter().any(|fired| fired.pass == "scale-folding" && fired.count > 0);
    assert!(folded == 2 && scaled, "{folded} are folded");
    let mut sessions = vec![first.session().unwrap()];
    let (once, own) = (constants(), workspace(&cpu).0);
    assert!(once >= (2 * 64 * 64 + 4 * 64) * 4, "{once}");
    sessions.push(load("first").session().unwrap());
    sessions.push(load("second").session().unwrap());
    assert_eq!((constants(), workspace(&cpu).0), (once, 3 * own));
    // Packed constants stay when their source is gone.
    drop((first, sessions.drain(..2)));
    sessions.push(load("third").session().unwrap());
    assert_eq!((constants(), workspace(&cpu).0), (once, 2 * own));
    sessions.clear();
    let graph = udo_runtime::graph::Graph::parse(&text("graph")).unwrap();
    let models = [0, 1].map(|_| runtime.load(graph.clone(), &LoadOptions::default()).unwrap());
    sessions.extend(models.iter().map(|model| model.session().unwrap()));
    assert_eq!((constants(), workspace(&cpu).0), (once, 2 * own));
    for session in &mut sessions {
        session.input_mut::<f32>("x").unwrap().fill(1.0);
        session.run().unwrap();
        let y = session.output::<f32>("y").unwrap();
        assert!(y.iter().all(|y| (y - 0.125f32.exp()).abs() < 1e-6), "{y:?}");
    }
    drop((sessions, models));
    assert_eq!(cpu.heap_stats().total.current_bytes, 0);
}

/// 1000 launches, each tenth of which fails.
#[test]
fn b09_launches_leave_nothing_behind() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let text = "graph g
  input x: i64[4]
  input at: i64[1]
  a = Add@14(x, x)
  y = Gather@13(a, at)
  output y
";
    let model = compile(&runtime, text, &CompileOptions::default());
    let mut session = model.session().unwrap();
    session.reserve().unwrap();
    let (x, good, bad) =
        (on(&cpu, &[4], &[1i64, 2, 3, 4]), on(&cpu, &[1], &[2i64]), on(&cpu, &[1], &[9i64]));
    let before = cpu.heap_stats().total;
    for launch in 0..1000 {
        let is_good = launch % 10 != 9;
        let given = [x.clone(), if is_good { good.clone() } else { bad.clone() }];
        let run = session.submit(&given, &[None], RunOptions::default()).unwrap();
        assert_eq!(run.wait().is_ok(), is_good, "{launch}");
        if is_good {
            assert_eq!(elements::<i64>(&run.output(0).unwrap()), [6]);
        } else {
            assert!(run.output(0).is_err());
        }
    }
    let after = cpu.heap_stats().total;
    assert_eq!(after.current_bytes, before.current_bytes);
    assert_eq!(after.memories, before.memories);
    assert!(after.peak_bytes <= before.peak_bytes + 64, "one output at a time");
}
