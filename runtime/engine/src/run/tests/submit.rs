//! Submissions, their leases, and who is told.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use super::*;
use crate::device::ErrorCode;

#[test]
fn work_goes_on_beside_the_caller_and_who_waits_gets_what_it_made() {
    let (done, seen) = log();
    let session = Session::with_work(move |_| {
        done.send(()).unwrap();
        Ok(())
    });
    let (launch, _, output) = session.record(RunOptions::default());
    let run = launch.submit().unwrap();
    seen.recv_timeout(LONG).expect("it runs although nobody waits");
    run.wait().unwrap();
    run.wait().expect("as often as expected");
    assert!(run.is_done());
    assert_eq!(output.read_all().unwrap(), [2, 3, 4, 5]);
    assert_eq!(run.output(0).unwrap().read_all().unwrap(), [2, 3, 4, 5]);
    let error = run.output(1).unwrap_err();
    assert_eq!(error.to_string(), "output 1 does not exist; expected an index below 1");
}

#[test]
fn a_run_in_flight_keeps_its_tensors_to_itself() {
    let (session, gate) = Session::gated();
    let (launch, input, output) = session.record(RunOptions::default());
    let run = launch.submit().unwrap();
    assert_eq!(input.write(&[0; 4]).unwrap_err().code(), ErrorCode::Busy);
    assert_eq!(output.read_all().unwrap_err().code(), ErrorCode::Busy);
    assert_eq!(input.read_all().unwrap(), [1, 2, 3, 4]);
    let error = run.output(0).unwrap_err();
    assert_eq!(error.to_string(), "the run is in flight; wait for it first");
    let error = launch.submit().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Busy);
    assert!(error.to_string().contains("the launch is in flight"), "{error}");
    gate.open();
    run.wait().unwrap();
    input.write(&[7; 4]).unwrap();
    gate.open();
    launch.submit().unwrap().wait().unwrap();
    assert_eq!(output.read_all().unwrap(), [8; 4]);
}

#[test]
fn a_run_whose_tensors_are_in_use_is_refused_and_changes_nothing() {
    let session = Session::with_work(|_| Ok(()));
    let (launch, input, output) = session.record(RunOptions::default());
    let map = input.memory().lease(crate::device::Access::Write).unwrap();
    assert_eq!(launch.submit().unwrap_err().code(), ErrorCode::Busy);
    output.write(&[9; 4]).expect("it has no lease");
    drop(map);
    launch.submit().unwrap().wait().unwrap();
    assert_eq!(output.read_all().unwrap(), [2, 3, 4, 5]);
}

#[test]
fn one_that_reads_what_it_writes_is_refused() {
    let session = Session::with_work(|_| Ok(()));
    let tensor = session.tensor();
    let given = [Some(tensor.clone())];
    let bound = Bindings::new((&[tensor], &given), &[], &session.home).unwrap();
    let launch = session.frames.record(bound, RunOptions::default()).unwrap();
    assert_eq!(launch.submit().unwrap_err().code(), ErrorCode::InvalidArgument);
}

#[test]
fn a_session_takes_as_many_runs_as_it_has_frames_and_depth() {
    let gate = Gate::default();
    let pass = gate.clone();
    let parts = Parts(vec![(cpu(), Arc::new(move |_: &Stop<'_>| pass.pass()))]);
    let session = Session::new(&parts, 2, 1);
    let runs: Vec<_> = (0..3).map(|_| session.submit(RunOptions::default())).collect();
    let (launch, input, _) = session.record(RunOptions::default());
    let error = launch.submit().unwrap_err();
    assert_eq!(error.code(), ErrorCode::Busy);
    assert_eq!(
        error.to_string(),
        "the session has 3 runs in flight, which is its maximum; wait for one, or create the session with more frames or depth"
    );
    input.write(&[3; 4]).expect("a run that is refused has no lease");
    for _ in 0..4 {
        gate.open();
    }
    for run in &runs {
        run.wait().unwrap();
    }
    launch.submit().unwrap().wait().unwrap();
}

#[test]
fn a_callback_comes_once_and_may_submit_but_not_wait() {
    let count = Arc::new(AtomicU32::new(0));
    let session = Arc::new(Session::with_work(|_| Ok(())));
    let (said, heard) = log();
    let (counted, of) = (Arc::clone(&count), Arc::clone(&session));
    let on_done = move |outcome: &Result<()>| {
        assert_eq!(*outcome, Ok(()));
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            let next = of.submit(RunOptions::default());
            let refused = next.wait().unwrap_err();
            said.send((next, refused)).unwrap();
        }
    };
    let run =
        session.submit(RunOptions { on_done: Some(Box::new(on_done)), ..RunOptions::default() });
    run.wait().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 1, "whoever waits goes on after the callback");
    let (next, refused) = heard.recv_timeout(LONG).unwrap();
    assert_eq!(refused.code(), ErrorCode::InvalidState);
    assert!(refused.to_string().starts_with("a callback cannot wait for a run"), "{refused}");
    next.wait().unwrap();
    run.wait().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn a_callback_may_submit_its_own_launch_again() {
    let session = Session::with_work(|_| Ok(()));
    let again: Arc<Mutex<Option<Launch>>> = Arc::default();
    let (said, heard) = log();
    let mine = Arc::clone(&again);
    let mut left = 100;
    let on_done = move |_: &Result<()>| {
        left -= 1;
        if left > 0
            && let Some(launch) = &*lock(&mine)
        {
            launch.submit().unwrap();
        } else {
            said.send(()).unwrap();
        }
    };
    let (launch, _, _) =
        session.record(RunOptions { on_done: Some(Box::new(on_done)), ..RunOptions::default() });
    *lock(&again) = Some(launch);
    let first = lock(&again).as_ref().unwrap().submit().unwrap();
    heard.recv_timeout(LONG).unwrap();
    *lock(&again) = None;
    let error = first.wait().unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidState);
    assert!(error.to_string().starts_with("the launch was submitted again"), "{error}");
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_run_is_a_future() {
    let (session, gate) = Session::gated();
    let mut run = pin!(session.submit(RunOptions::default()));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    assert_eq!(run.as_mut().poll(&mut cx), Poll::Pending);
    gate.open();
    loop {
        match run.as_mut().poll(&mut cx) {
            Poll::Ready(outcome) => break outcome.unwrap(),
            Poll::Pending => thread::park_timeout(LONG),
        }
    }
}

#[test]
fn a_handle_that_goes_leaves_the_run_alone() {
    let (session, gate) = Session::gated();
    let (launch, _, output) = session.record(RunOptions::default());
    drop((launch.submit().unwrap(), launch));
    gate.open();
    while output.read_all().is_err() {
        thread::yield_now();
    }
    assert_eq!(output.read_all().unwrap(), [2, 3, 4, 5]);
}
