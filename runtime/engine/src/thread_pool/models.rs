//! The pool's protocol in all the orders that its threads may run in, as far as `loom` tells them apart.
//!
//! A model that goes wrong ends the process: a deadlock, an access that races, a call too many or too few.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};

use super::team::{Job, Team};
use std::ffi::c_void;

/// One look before going to sleep shows all that more would.
const LOOKS: u32 = 1;

/// What the calls of a job work on. It lies on the submitter's stack.
struct Work {
    /// Written by the submitter before and after the job, read by every call: loom finds who reads too late.
    wanted: UnsafeCell<usize>,
    calls: Vec<AtomicUsize>,
}

/// # Safety
/// `ctx` points to a [`Work`].
// SAFETY: `submit` below alone hands it to a team, with its own `Work`.
unsafe extern "C" fn call(ctx: *const c_void, index: usize) {
    // SAFETY: `ctx` points to a `Work`, as the caller promises.
    let work = unsafe { &*ctx.cast::<Work>() };
    // SAFETY: `submit` below writes `wanted` only before and after the job.
    let wanted = work.wanted.with(|wanted| unsafe { *wanted });
    assert_eq!(wanted, work.calls.len());
    work.calls[index].fetch_add(1, Ordering::Relaxed);
}

/// Submits a job of `count` calls: either each was made once when it is over, or none.
fn submit(team: &Team, count: usize) -> bool {
    let calls = (0..count).map(|_| AtomicUsize::new(0)).collect();
    let work = Work { wanted: UnsafeCell::new(count), calls };
    let job = Job::new(call, (&raw const work).cast(), count);
    // SAFETY: `call` takes numbers below `count` and a `Work`, which `work` is until `submit` returns.
    let is_done = unsafe { team.submit(job) };
    // SAFETY: the job is over, so no call reads `wanted`; loom sees it if one does.
    work.wanted.with_mut(|wanted| unsafe { *wanted = 0 });
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

/// Tries every order in which threads take turns, up to so many turns that a thread does not give up itself.
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
