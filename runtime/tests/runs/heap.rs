//! A launch that is recorded costs no heap, on whichever thread.

use std::slice;

use udo_api::guard::{heap_calls, thread_heap_calls};
use udo_api::{Core, GuardAlloc};
use udo_runtime::device::DeviceSpec;
use udo_runtime::run::{RunOptions, Stream};
use udo_runtime::{CompileOptions, Runtime};

use super::{LONG, compile, cpu, elements, on, with_frames};

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

/// Other tests run beside this one and use the heap, so the queue's thread is counted by a run whose callback is on it: of one core, as
/// there is one thread then.
#[test]
fn submitting_and_waiting_leave_the_heap_alone() {
    let one = DeviceSpec { cores: 1, ..DeviceSpec::new(Core::CPU) };
    let runtime = Runtime::builder().devices([one]).build().unwrap();
    let text = "graph g\n  input x: f32[64]\n  a = Relu@14(x)\n  y = Neg@13(a)\n  output y\n";
    let model = compile(&runtime, text, &CompileOptions::default());
    let cpu = cpu(&runtime);
    let mut session = with_frames(&model, 2);
    let (x, y) = (on(&cpu, &[64], &[3.0f32; 64]), on(&cpu, &[64], &[0.0f32; 64]));
    let (said, heard) = std::sync::mpsc::sync_channel(1);
    let on_done = move |_: &Result<(), _>| said.send(thread_heap_calls()).unwrap();
    let options = RunOptions {
        timeout: Some(LONG),
        stream: Some(Stream::default()),
        on_done: Some(Box::new(on_done)),
        ..RunOptions::default()
    };
    let launch = session.record(slice::from_ref(&x), &[Some(y.clone())], options).unwrap();
    let made = session.record(&[x], &[None], RunOptions::default()).unwrap();
    let round = |first: bool| {
        let mine = thread_heap_calls();
        let run = launch.submit().unwrap();
        run.wait().unwrap();
        let theirs = heard.recv().unwrap();
        made.submit().unwrap().wait().unwrap();
        assert!(first || thread_heap_calls() == mine, "the caller used the heap");
        theirs
    };
    // The first runs start threads, make the output, and look guards up.
    let before = (0..10).fold(0, |_, _| round(true));
    let after = (0..100).fold(0, |_, _| round(false));
    assert_eq!(after - before, 0, "the queue's thread used the heap");
    assert_eq!(elements::<f32>(&y), [-3.0; 64]);
    assert!(heap_calls() > 0);
}

/// B22.
#[test]
fn reserved_memory_is_not_allocated_by_the_first_run() {
    let runtime = Runtime::new().unwrap();
    let text = "graph g\n  input x: f32[64]\n  y = Relu@14(x)\n  output y\n";
    let model = compile(&runtime, text, &CompileOptions::default());
    let cpu = cpu(&runtime);
    let (x, y) = (on(&cpu, &[64], &[3.0f32; 64]), on(&cpu, &[64], &[0.0f32; 64]));
    let mut session = with_frames(&model, 2);
    session.reserve().unwrap();
    let launch = session.record(&[x], &[Some(y)], RunOptions::default()).unwrap();
    let mine = thread_heap_calls();
    let run = launch.submit().unwrap();
    run.wait().unwrap();
    assert_eq!(thread_heap_calls(), mine);
}
