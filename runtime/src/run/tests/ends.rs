//! Runs that end early: cancelled, out of time, on a device that goes away, by a panic.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::device::ErrorCode;
use crate::run::Stream;

/// A session whose part tells that it began and then waits for the gate, or for being stopped.
fn stoppable() -> (Session, Receiver<()>, Gate) {
    let (said, heard) = log();
    let (said, gate) = (Mutex::new(said), Gate::default());
    let pass = gate.clone();
    let session = Session::of(move |_| {
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
    for stream in [None, Some(Stream::new())] {
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
    let session = Session::of(move |stop| {
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
    assert!(error.to_string().starts_with("the run did not end within its time"), "{error}");
    assert!(!first.is_done());
    gate.open();
    first.wait().unwrap();
}

#[test]
fn a_run_with_time_enough_ends_well() {
    let session = Session::of(|_| Ok(()));
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
    assert!(error.to_string().ends_with("it goes on"), "{error}");
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
    let session = Session::of(move |_| {
        assert!(!does.load(Ordering::Relaxed), "on purpose");
        Ok(())
    });
    let error = session.submit(RunOptions::default()).wait().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    panics.store(false, Ordering::Relaxed);
    session.submit(RunOptions::default()).wait().unwrap();
}
