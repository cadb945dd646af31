//! First runs: what is shared is made once, whoever comes first, and what is reserved is not taken again.

use std::slice;
use std::sync::Barrier;
use std::thread;

use udo_runtime::compile::Plan;
use udo_runtime::device::{DeviceTensor, ErrorCode, HeapStats};
use udo_runtime::run::{RunOptions, SharedWorkspace};
use udo_runtime::{CompileOptions, Device, Error, LoadOptions, Model, Runtime, Session};

use super::{compile, cpu, elements, on, sharing, with_frames};

/// Its weights are packed, and its plan is made for the shape that a run brings.
const OPEN: &str = "graph g
  input x: f32[n,32]
  constant w: f32[32,32]{0.5}
  a = MatMul@13(x, w)
  y = Relu@14(a)
  output y
";

/// Races that are run.
const ROUNDS: usize = 16;

fn owned(device: &Device, owner: &str) -> (u64, u64) {
    let HeapStats { owners, .. } = device.heap_stats();
    let of = owners.iter().find(|(name, _)| name == owner);
    of.map_or((0, 0), |(_, usage)| (usage.current_bytes, usage.peak_bytes))
}

/// Returns the results of two threads that call `of` at the same moment.
fn at_once<T: Send, R: Send>(of: [T; 2], run: impl Fn(T) -> R + Sync) -> [R; 2] {
    let (start, run) = (Barrier::new(2), &run);
    thread::scope(|scope| {
        let begin = |of: T| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                run(of)
            })
        };
        of.map(begin).map(|thread| thread.join().unwrap())
    })
}

fn rows(runtime: &Runtime, rows: usize) -> DeviceTensor {
    on(&cpu(runtime), &[rows, 32], &vec![1.0f32; rows * 32])
}

fn plan_of(session: &Session) -> *const Plan {
    std::ptr::from_ref(session.plans().next().unwrap())
}

/// B22.
#[test]
fn first_runs_of_two_sessions_make_one_plan_and_pack_once() {
    let alone = Runtime::new().unwrap();
    compile(&alone, OPEN, &CompileOptions::default())
        .session()
        .unwrap()
        .run_on(&[rows(&alone, 3)], &[None])
        .unwrap();
    let once = owned(&cpu(&alone), "constants").1;
    assert!(once >= 32 * 32 * 4, "{once}");
    for _ in 0..ROUNDS {
        let runtime = Runtime::new().unwrap();
        let cpu = cpu(&runtime);
        let model = compile(&runtime, OPEN, &CompileOptions::default());
        let x = rows(&runtime, 3);
        let sessions = [(); 2].map(|()| model.session().unwrap());
        let ran = at_once(sessions, |mut session| {
            let made = session.run_on(slice::from_ref(&x), &[None]).unwrap();
            assert_eq!(elements::<f32>(&made[0]), [16.0; 96]);
            session
        });
        assert_eq!(plan_of(&ran[0]), plan_of(&ran[1]));
        assert_eq!(ran.each_ref().map(Session::replans), [1, 1]);
        assert_eq!(owned(&cpu, "constants"), (once, once));
        // The same, of runs that were submitted.
        let x = rows(&runtime, 5);
        at_once(ran, |mut session| {
            let run = session.submit(slice::from_ref(&x), &[None], RunOptions::default()).unwrap();
            run.wait().unwrap();
            assert_eq!(elements::<f32>(&run.output(0).unwrap()), [16.0; 160]);
        });
        assert_eq!(owned(&cpu, "constants").1, once);
    }
}

#[test]
fn first_runs_of_two_sessions_share_one_workspace() {
    let bytes = |runtime: &Runtime, model: &Model| {
        let alone = SharedWorkspace::default();
        let mut session = sharing(model, &alone, 1);
        session.run_on(&[rows(runtime, 3)], &[None]).unwrap();
        alone.bytes(&cpu(runtime))
    };
    for _ in 0..ROUNDS {
        let runtime = Runtime::new().unwrap();
        let model = compile(&runtime, OPEN, &CompileOptions::default());
        let once = bytes(&runtime, &model);
        cpu(&runtime).reset_heap_peaks();
        let shared = SharedWorkspace::default();
        let x = rows(&runtime, 3);
        let sessions = [(); 2].map(|()| sharing(&model, &shared, 1));
        let ran = at_once(sessions, |mut session| {
            let run = session.submit(slice::from_ref(&x), &[None], RunOptions::default()).unwrap();
            run.wait().unwrap();
            assert_eq!(elements::<f32>(&run.output(0).unwrap()), [16.0; 96]);
            session
        });
        assert_eq!(shared.bytes(&cpu(&runtime)), once);
        assert_eq!(owned(&cpu(&runtime), "workspace"), (once, once));
        drop(ran);
    }
}

#[test]
fn first_runs_of_two_sessions_of_a_network_compile_a_stage_once() {
    for _ in 0..ROUNDS {
        let runtime = Runtime::new().unwrap();
        let networks = runtime.networks(OPEN.as_bytes(), &LoadOptions::default()).unwrap();
        let model = networks.get(None).unwrap().model().unwrap();
        let x = rows(&runtime, 2);
        let sessions = [(); 2].map(|()| model.session().unwrap());
        let ran = at_once(sessions, |mut session| {
            let made = session.run_on(slice::from_ref(&x), &[None]).unwrap();
            assert_eq!(elements::<f32>(&made[0]), [16.0; 64]);
            session
        });
        let [one, other] = ran.each_ref().map(plan_of);
        assert_eq!(one, other);
    }
}

/// B22, of devices' memory: `heap.rs` counts the host's.
#[test]
fn after_a_reservation_first_runs_take_no_memory_of_devices() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let model = compile(&runtime, OPEN, &CompileOptions::default());
    let mut session = with_frames(&model, 2);
    // Shapes that are open are those that were prepared by then.
    session.prepare(&[("x", &[3, 32])]).unwrap();
    session.prepare(&[("x", &[5, 32])]).unwrap();
    session.reserve().unwrap();
    let of = |n: usize| (rows(&runtime, n), Some(on(&cpu, &[n, 32], &vec![0.0f32; n * 32])));
    let all = [3, 5, 3, 5].map(of);
    cpu.reset_heap_peaks();
    let before = cpu.heap_stats();
    let submit = |(x, y): &(DeviceTensor, Option<DeviceTensor>)| {
        session.submit(slice::from_ref(x), slice::from_ref(y), RunOptions::default()).unwrap()
    };
    for run in all.each_ref().map(submit) {
        run.wait().unwrap();
    }
    for (x, y) in &all {
        session.run_on(slice::from_ref(x), slice::from_ref(y)).unwrap();
        let made = elements::<f32>(y.as_ref().unwrap());
        assert_eq!(made, vec![16.0; made.len()]);
    }
    assert_eq!(cpu.heap_stats(), before);
}

#[test]
fn runs_on_their_callers_thread_want_their_devices_as_well() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let mut session = compile(&runtime, OPEN, &CompileOptions::default()).session().unwrap();
    let x = rows(&runtime, 3);
    session.run_on(slice::from_ref(&x), &[None]).unwrap();
    runtime.lose_device(&cpu);
    let error = session.run_on(slice::from_ref(&x), &[None]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceLost);
    let error = Error::from(session.run().unwrap_err());
    assert_eq!(error.code(), ErrorCode::DeviceLost);
    runtime.reset_device(&cpu);
    let made = session.run_on(slice::from_ref(&x), &[None]).unwrap();
    assert_eq!(elements::<f32>(&made[0]), [16.0; 96]);
}

/// B22: shapes that are prepared once frames are there.
#[test]
fn frames_that_are_there_are_reserved_for_shapes_that_are_prepared_later() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let model = compile(&runtime, OPEN, &CompileOptions::default());
    let mut session = with_frames(&model, 2);
    session.prepare(&[("x", &[3, 32])]).unwrap();
    session.reserve().unwrap();
    let of = |n: usize| (rows(&runtime, n), Some(on(&cpu, &[n, 32], &vec![0.0f32; n * 32])));
    let all = [3, 7, 3, 7].map(of);
    let run = |session: &mut Session| {
        let submit = |(x, y): &(DeviceTensor, Option<DeviceTensor>)| {
            session.submit(slice::from_ref(x), slice::from_ref(y), RunOptions::default()).unwrap()
        };
        for run in all.each_ref().map(submit) {
            run.wait().unwrap();
        }
    };
    session.submit(&[of(3).0], &[None], RunOptions::default()).unwrap().wait().unwrap();
    session.prepare(&[("x", &[7, 32])]).unwrap();
    let before = cpu.heap_stats().total;
    session.reserve().unwrap();
    assert_ne!(cpu.heap_stats().total, before, "memory for two frames");
    cpu.reset_heap_peaks();
    let before = cpu.heap_stats();
    run(&mut session);
    assert_eq!(cpu.heap_stats(), before);
    for (_, y) in &all {
        let made = elements::<f32>(y.as_ref().unwrap());
        assert_eq!(made, vec![16.0; made.len()]);
    }
}
