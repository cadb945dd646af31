//! Sessions that threads have together.

use std::num::NonZero;
use std::slice;
use std::sync::{Arc, Mutex};
use std::thread;

use udo_runtime::device::{DeviceTensor, ErrorCode};
use udo_runtime::run::{Priority, RunOptions, SessionOptions};
use udo_runtime::{CompileOptions, Model, Runtime, SessionPool};

use super::{LONG, compile, cpu, elements, gate, on};

fn pool(model: &Model, count: usize, depth: usize) -> SessionPool {
    let options = SessionOptions { depth, ..SessionOptions::default() };
    model.pool(NonZero::new(count).unwrap(), &options).unwrap()
}

#[test]
fn threads_that_share_a_pool_get_their_own_results() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    for text in ["f32[64]", "f32[n]"].map(|of| {
        format!("graph g\n  input x: {of}\n  a = Neg@13(x)\n  y = Add@14(a, a)\n  output y\n")
    }) {
        let model = compile(&runtime, &text, &CompileOptions::default());
        let pool = pool(&model, 2, 64);
        let (pool, cpu) = (&pool, &cpu);
        let serve = |thread: u8| {
            for round in 0..50u8 {
                let n = f32::from(thread) * 100.0 + f32::from(round);
                let x = on(cpu, &[64], &[n; 64]);
                let run = pool.submit(&[x], &[None], RunOptions::default()).unwrap();
                run.wait_timeout(LONG).unwrap();
                assert_eq!(elements::<f32>(&run.output(0).unwrap()), [-2.0 * n; 64]);
            }
            // The same launch again and again, each time over what is there then.
            let (x, y) = (on(cpu, &[64], &[0.0f32; 64]), on(cpu, &[64], &[0.0f32; 64]));
            let (given, to) = (slice::from_ref(&x), [Some(y.clone())]);
            let launch = pool.record(given, &to, RunOptions::default()).unwrap();
            for round in 0..50u8 {
                let n = f32::from(thread) + f32::from(round);
                x.copy_from(&on(cpu, &[64], &[n; 64])).unwrap();
                launch.submit().unwrap().wait_timeout(LONG).unwrap();
                assert_eq!(elements::<f32>(&y), [-2.0 * n; 64]);
            }
        };
        thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || serve(thread));
            }
        });
    }
}

#[test]
fn a_pool_takes_as_many_runs_as_all_its_sessions_and_is_busy_then() {
    let runtime = gate::runtime();
    let cpu = cpu(&runtime);
    let options = CompileOptions { threads: NonZero::<usize>::MIN, ..CompileOptions::default() };
    let model = compile(&runtime, &gate::text(11), &options);
    let pool = pool(&model, 2, 1);
    let submit = |x: &DeviceTensor| pool.submit(slice::from_ref(x), &[None], RunOptions::default());
    let all = [1.0f32, 2.0, 3.0, 4.0].map(|n| on(&cpu, &[2], &[n, n]));
    let runs = all.each_ref().map(|x| submit(x).unwrap());
    let error = submit(&all[0]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Busy);
    assert!(error.to_string().contains("4 runs in flight, which is its maximum"), "{error}");
    gate::open(11, 5);
    for (run, n) in runs.iter().zip([1.0f32, 2.0, 3.0, 4.0]) {
        run.wait_timeout(LONG).unwrap();
        assert_eq!(elements::<f32>(&run.output(0).unwrap()), [-n; 2]);
    }
    submit(&all[0]).unwrap().wait_timeout(LONG).unwrap();
}

#[test]
fn the_waiting_run_with_the_highest_priority_goes_first() {
    let runtime = gate::runtime();
    let cpu = cpu(&runtime);
    let model = compile(&runtime, &gate::text(12), &CompileOptions::default());
    let pool = pool(&model, 1, 3);
    let order = Arc::new(Mutex::new(Vec::new()));
    let priorities = [Priority::Medium, Priority::Low, Priority::Medium, Priority::High];
    let runs = [0, 1, 2, 3].map(|at| {
        let said = Arc::clone(&order);
        let options = RunOptions {
            priority: Some(priorities[at]),
            on_done: Some(Box::new(move |_| said.lock().unwrap().push(at))),
            ..RunOptions::default()
        };
        let run = pool.submit(&[on(&cpu, &[2], &[1.0f32; 2])], &[None], options).unwrap();
        // The first one has the session before others wait for it.
        gate::began(12, 1);
        run
    });
    gate::open(12, 4);
    for run in runs {
        run.wait_timeout(LONG).unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 3, 2, 1]);
}

#[test]
fn pools_refuse_the_same_runs_as_sessions() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let text = "graph g\n  input x: f32[2]\n  y = Neg@13(x)\n  output y\n";
    let model = compile(&runtime, text, &CompileOptions::default());
    let pool = pool(&model, 2, 1);
    let (x, ints) = (on(&cpu, &[2], &[1.0f32; 2]), on(&cpu, &[2], &[1i32; 2]));
    let cases: [(&DeviceTensor, _, _, _); 3] = [
        (&ints, None, ErrorCode::ShapeMismatch, "input 0, \"x\", is i32[2]"),
        (&x, Some(ints.clone()), ErrorCode::InvalidArgument, "output 0, \"y\", is i32[2]"),
        (&x, Some(x.clone()), ErrorCode::InvalidArgument, "output 0 overlaps input 0"),
    ];
    for (input, output, code, message) in cases {
        let error = pool.submit(slice::from_ref(input), &[output], RunOptions::default());
        let error = error.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.to_string().starts_with(message), "{error}");
    }
    let options = SessionOptions { depth: usize::MAX, ..SessionOptions::default() };
    let error = model.pool(NonZero::new(2).unwrap(), &options).unwrap_err();
    assert!(error.to_string().ends_with("expected at most 65536"), "{error}");
    // The memory of all sessions is taken with the pool, so that first runs take none.
    let y = on(&cpu, &[2], &[0.0f32; 2]);
    let before = cpu.heap_stats();
    let run = pool.submit(&[x], &[Some(y)], RunOptions::default()).unwrap();
    run.wait_timeout(LONG).unwrap();
    assert_eq!(cpu.heap_stats(), before);
}
