//! Runs that end early: cancelled, out of time, on a device that goes away, by a panic.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::device::ErrorCode;
use crate::run::Stream;
use udo_graph::error::ErrorContext;

/// A session whose part tells that it began and then waits for the gate, or for being stopped.
fn stoppable() -> (Session, Receiver<()>, Gate) {
    let (said, heard) = log();
    let (said, gate) = (Mutex::new(said), Gate::default());
    let pass = gate.clone();
    let session = Session::with_work(move |_| {
        lock(&said).send(()).unwrap();
        pass.pass()
    });
    (session, heard, gate)
}

#[test]
fn a_run_that_waits_is_cancelled_at_once() {
    let (session, heard, gate) = stoppable();
    let first = session.submit(RunOptions::default());
    heard.recv_timeout(LONG).unwrap();
    for stream in [None, Some(Stream::default())] {
        let (launch, input, _) = session.record(RunOptions { stream, ..RunOptions::default() });
        let run = launch.submit().unwrap();
        run.cancel();
        let error = run.wait().unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (ErrorCode::Cancelled, "the run was cancelled")
        );
        input.write(&[0; 4]).expect("its leases are given back");
        run.cancel();
        assert_eq!(run.wait(), Err(error));
    }
    assert!(!first.is_done());
    gate.open();
    first.wait().unwrap();
    gate.open();
    session.submit(RunOptions::default()).wait().expect("the frame is free again");
}

#[test]
fn a_run_at_work_keeps_its_leases_until_it_stops() {
    let (session, heard, gate) = stoppable();
    let (launch, input, output) = session.record(RunOptions::default());
    let run = launch.submit().unwrap();
    heard.recv_timeout(LONG).unwrap();
    run.cancel();
    assert!(!run.is_done());
    assert_eq!(input.write(&[0; 4]).unwrap_err().code(), ErrorCode::Busy);
    gate.open();
    assert_eq!(run.wait().unwrap_err().code(), ErrorCode::Cancelled);
    assert_eq!(output.read_all().unwrap(), [1, 2, 3, 4], "a run that ended early gives nothing");
    gate.open();
    launch.submit().unwrap().wait().expect("a cancelled launch runs again");
}

#[test]
fn a_part_sees_that_it_is_to_end() {
    let (said, heard) = log();
    let said = Mutex::new(said);
    let session = Session::with_work(move |stop| {
        lock(&said).send(()).unwrap();
        while !stop.is_set() {
            std::thread::yield_now();
        }
        Ok(())
    });
    let run = session.submit(RunOptions::default());
    heard.recv_timeout(LONG).unwrap();
    run.cancel();
    assert_eq!(run.wait().unwrap_err().code(), ErrorCode::Cancelled);
    let timeout = Some(Duration::from_millis(1));
    let run = session.submit(RunOptions { timeout, ..RunOptions::default() });
    assert_eq!(run.wait().unwrap_err().code(), ErrorCode::Timeout);
}

#[test]
fn time_counts_from_the_submission_and_ends_what_only_waits() {
    let (session, heard, gate) = stoppable();
    let first = session.submit(RunOptions::default());
    heard.recv_timeout(LONG).unwrap();
    let timeout = Some(Duration::from_millis(5));
    let late = session.submit(RunOptions { timeout, ..RunOptions::default() });
    let error = late.wait().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert!(error.to_string().starts_with("the run exceeded its time limit"), "{error}");
    assert!(!first.is_done());
    gate.open();
    first.wait().unwrap();
}

#[test]
fn a_run_with_time_enough_ends_well() {
    let session = Session::with_work(|_| Ok(()));
    for _ in 0..100 {
        session.submit(RunOptions { timeout: Some(LONG), ..RunOptions::default() }).wait().unwrap();
    }
}

#[test]
fn waiting_for_some_time_leaves_the_run_alone() {
    let (session, _heard, gate) = stoppable();
    let run = session.submit(RunOptions::default());
    let error = run.wait_timeout(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert!(error.to_string().ends_with("it continues"), "{error}");
    gate.open();
    run.wait_timeout(LONG).unwrap();
}

#[test]
fn a_lost_device_fails_what_is_there_once_and_what_comes_at_once() {
    let (session, heard, gate) = stoppable();
    let count = Arc::new(AtomicU32::new(0));
    let submit = || {
        let count = Arc::clone(&count);
        let on_done: Callback = Box::new(move |outcome| {
            assert_eq!(outcome.as_ref().unwrap_err().code(), ErrorCode::DeviceLost);
            count.fetch_add(1, Ordering::Relaxed);
        });
        session.submit(RunOptions { on_done: Some(on_done), ..RunOptions::default() })
    };
    let running = submit();
    heard.recv_timeout(LONG).unwrap();
    let waiting = [submit(), submit()];
    session.queues.lose(&session.home);
    let (launch, ..) = session.record(RunOptions::default());
    let error = launch.submit().unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceLost);
    assert_eq!(error.to_string(), "device cpu:0 was lost; reset it, then submit again");
    gate.open();
    for run in [&running, &waiting[0], &waiting[1]] {
        assert_eq!(run.wait().unwrap_err().code(), ErrorCode::DeviceLost);
    }
    assert_eq!(count.load(Ordering::Relaxed), 3);
    session.queues.reset(&session.home);
    gate.open();
    launch.submit().unwrap().wait().unwrap();
}

#[test]
fn a_run_that_panics_fails_and_its_frame_runs_the_next() {
    let panics = Arc::new(AtomicBool::new(true));
    let does = Arc::clone(&panics);
    let session = Session::with_work(move |_| {
        assert!(!does.load(Ordering::Relaxed), "on purpose");
        Ok(())
    });
    let error = session.submit(RunOptions::default()).wait().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    panics.store(false, Ordering::Relaxed);
    session.submit(RunOptions::default()).wait().unwrap();
}

/// The output of a run, as a caller asks for it; the message of a refusal.
fn refusal(run: &Run) -> (ErrorCode, String) {
    let error = run.output(0).unwrap_err();
    (error.code(), error.message().to_owned())
}

/// A way to stop a run.
type Cause = fn(&Session, &Run);

#[test]
fn a_run_that_does_not_end_well_has_no_output() {
    let (session, heard, gate) = stoppable();
    let causes: [(Cause, ErrorCode); 2] = [
        (|_, run| run.cancel(), ErrorCode::Cancelled),
        (|session, _| session.queues.lose(&session.home), ErrorCode::DeviceLost),
    ];
    for (cause, code) in causes {
        for is_given in [true, false] {
            let (input, output) = (session.tensor(), session.tensor());
            let given = [is_given.then(|| output.clone())];
            let bound = Bindings::new((&[input], &given), &[], &session.home).unwrap();
            let launch = session.frames.record(bound, RunOptions::default()).unwrap();
            gate.open();
            let well = launch.submit().unwrap();
            well.wait().unwrap();
            heard.recv_timeout(LONG).unwrap();
            assert_eq!(well.output(0).unwrap().read_all().unwrap(), [2, 3, 4, 5]);

            let run = launch.submit().unwrap();
            heard.recv_timeout(LONG).unwrap();
            assert_eq!(refusal(&run).0, ErrorCode::Busy);
            cause(&session, &run);
            gate.open();
            assert_eq!(run.wait().unwrap_err().code(), code);
            let (found, why) = refusal(&run);
            assert_eq!(found, ErrorCode::InvalidState);
            assert!(why.starts_with("output 0 is not available because the run failed: "), "{why}");
            let (found, why) = refusal(&well);
            assert_eq!(found, ErrorCode::InvalidState);
            assert!(why.starts_with("the launch was submitted again"), "{why}");
            session.queues.reset(&session.home);
        }
    }
}

#[test]
fn a_callback_finds_the_output_of_its_own_run_alone() {
    let (session, heard, gate) = stoppable();
    let (asks, asked) = log::<Run>();
    let (tells, completion) = log();
    let on_done: Callback = Box::new(move |_| {
        let run = asked.recv_timeout(LONG).unwrap();
        tells.send(run.output(0).map(|output| output.read_all().unwrap())).unwrap();
    });
    let (launch, ..) =
        session.record(RunOptions { on_done: Some(on_done), ..RunOptions::default() });
    for is_cancelled in [false, true] {
        let run = launch.submit().unwrap();
        asks.send(run.clone()).unwrap();
        heard.recv_timeout(LONG).unwrap();
        if is_cancelled {
            run.cancel();
        }
        gate.open();
        let found = completion.recv_timeout(LONG).unwrap();
        assert_eq!(found.is_err(), is_cancelled, "{found:?}");
        assert_eq!(run.wait().is_err(), is_cancelled);
    }
}

#[test]
fn a_device_that_is_back_when_a_run_looks_was_lost_all_the_same() {
    let gate = Gate::default();
    let (said, heard) = log();
    let (said, pass) = (Mutex::new(said), gate.clone());
    let stops = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stops);
    let part: Part = Arc::new(move |stop| {
        lock(&said).send(()).unwrap();
        pass.pass()?;
        stopped.store(stop.is_set(), Ordering::Relaxed);
        Ok(())
    });
    let dsp = DeviceId { kind: CoreKind::Dsp, index: 1 };
    let parts = Parts(vec![(dsp, Arc::clone(&part)), (cpu(), part)]);
    let session = Session::new(&parts, 1, 8);
    let device = session.queues.devices().get(dsp.kind, dsp.index).unwrap();
    // In the part that is on the device, and in the one after it.
    for lost_in in 0..2 {
        let run = session.submit(RunOptions::default());
        for part in 0..=lost_in {
            heard.recv_timeout(LONG).unwrap();
            if part == lost_in {
                session.queues.lose(&device);
                session.queues.reset(&device);
            }
            gate.open();
        }
        let error = run.wait().unwrap_err();
        assert_eq!(error.code(), ErrorCode::DeviceLost, "{error}");
        assert!(error.message().contains("was lost and is back"), "{error}");
        assert!(stops.load(Ordering::Relaxed), "a part is told to stop");
    }
    gate.open();
    gate.open();
    session.submit(RunOptions::default()).wait().expect("a device that is back runs");
}

#[test]
fn what_waits_for_a_lost_device_fails_also_where_a_callback_brings_it_back() {
    let (session, heard, gate) = stoppable();
    let running = session.submit(RunOptions::default());
    heard.recv_timeout(LONG).unwrap();
    // Runs of another session, so that they wait in the queue and not for a frame.
    let options = FrameOptions { depth: 8, ..FrameOptions::default() };
    let parts = Parts(vec![(cpu(), Arc::new(|_: &Stop<'_>| Ok(())) as Part)]);
    let other = Session::on(&session.queues, &parts, 2, options);
    let (queues, home) = (Arc::downgrade(&session.queues), session.home.clone());
    let on_done: Callback = Box::new(move |_| {
        if let Some(queues) = queues.upgrade() {
            queues.reset(&home);
        }
    });
    let first = other.submit(RunOptions { on_done: Some(on_done), ..RunOptions::default() });
    let second = other.submit(RunOptions::default());
    session.queues.lose(&session.home);
    gate.open();
    for run in [&running, &first, &second] {
        assert_eq!(run.wait().unwrap_err().code(), ErrorCode::DeviceLost);
    }
}

#[test]
fn who_ends_a_submission_late_leaves_the_next_one_where_it_waits() {
    let (session, heard, gate) = stoppable();
    let first = session.submit(RunOptions::default());
    heard.recv_timeout(LONG).unwrap();
    let stream = Stream::default();
    let (before, ..) =
        session.record(RunOptions { stream: Some(stream.clone()), ..RunOptions::default() });
    let (launch, ..) =
        session.record(RunOptions { stream: Some(stream.clone()), ..RunOptions::default() });
    let runs = [before.submit().unwrap(), launch.submit().unwrap()];
    // The first waits for a frame, the second for its turn in the stream; neither is to end.
    assert!(!session.frames.remove(&*before.0) && !session.queues.remove(&*launch.0));
    assert!(!stream.remove(&*launch.0));
    gate.open();
    gate.open();
    gate.open();
    for run in [&first, &runs[0], &runs[1]] {
        run.wait_timeout(LONG).unwrap();
    }
}
