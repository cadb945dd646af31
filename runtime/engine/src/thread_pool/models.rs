//! Model checking of the pool's protocol with `loom`, in all relevant interleavings of its threads.
//!
//! A failure ends the process: a deadlock, a data race, a missing call or an extra one.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};

use super::team::{Job, Team};
use std::ffi::c_void;

/// One check before sleeping covers the behaviour of more.
const LOOKS: u32 = 1;

/// The data of a job's calls, on the submitter's stack.
struct Work {
    /// Written by the submitter before and after the job, read by every call. loom detects late reads.
    expected: UnsafeCell<usize>,
    calls: Vec<AtomicUsize>,
}

/// # Safety
/// `ctx` points to a [`Work`].
// SAFETY: `submit` below alone hands it to a team, with its own `Work`.
unsafe extern "C" fn call(ctx: *const c_void, index: usize) {
    // SAFETY: `ctx` points to a `Work`, as the caller promises.
    let work = unsafe { &*ctx.cast::<Work>() };
    // SAFETY: `submit` below writes `expected` only before and after the job.
    let expected = work.expected.with(|expected| unsafe { *expected });
    assert_eq!(expected, work.calls.len());
    work.calls[index].fetch_add(1, Ordering::Relaxed);
}

/// Submits a job of `count` calls and checks that either each was made exactly once, or none.
fn submit(team: &Team, count: usize) -> bool {
    let calls = (0..count).map(|_| AtomicUsize::new(0)).collect();
    let work = Work { expected: UnsafeCell::new(count), calls };
    let job = Job::new(call, (&raw const work).cast(), count);
    // SAFETY: `call` takes numbers below `count` and a `Work`, which `work` is until `submit` returns.
    let is_done = unsafe { team.submit(job) };
    // SAFETY: the job is over, so no call reads `expected`; loom sees it if one does.
    work.expected.with_mut(|expected| unsafe { *expected = 0 });
    for calls in &work.calls {
        assert_eq!(calls.load(Ordering::Relaxed), usize::from(is_done));
    }
    is_done
}

fn worker(team: &Arc<Team>, thread: usize) -> JoinHandle<()> {
    let team = Arc::clone(team);
    thread::spawn(move || team.serve(thread))
}

fn close(team: &Team, workers: Vec<JoinHandle<()>>) {
    team.close();
    for worker in workers {
        worker.join().unwrap();
    }
}

/// Explores all interleavings with at most this number of preemptions.
fn explore(preemptions: usize, model: fn()) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn jobs_follow_each_other() {
    explore(3, || {
        let team = Arc::new(Team::new(2, LOOKS));
        let workers = vec![worker(&team, 1)];
        assert!(submit(&team, 2));
        assert!(submit(&team, 1));
        close(&team, workers);
    });
}

#[test]
fn two_workers_share_a_job() {
    explore(2, || {
        let team = Arc::new(Team::new(3, LOOKS));
        let workers = vec![worker(&team, 1), worker(&team, 2)];
        assert!(submit(&team, 3));
        close(&team, workers);
    });
}

#[test]
fn a_team_has_one_job_at_a_time() {
    explore(2, || {
        let team = Arc::new(Team::new(2, LOOKS));
        let workers = vec![worker(&team, 1)];
        let other = Arc::clone(&team);
        let other = thread::spawn(move || submit(&other, 1));
        let mine = submit(&team, 1);
        assert!(other.join().unwrap() || mine, "one of them has the team");
        assert!(submit(&team, 1), "and then it is free again");
        close(&team, workers);
    });
}

#[test]
fn workers_go_home_without_a_job() {
    explore(3, || {
        let team = Arc::new(Team::new(3, LOOKS));
        let workers = vec![worker(&team, 1), worker(&team, 2)];
        close(&team, workers);
    });
}
