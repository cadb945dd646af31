//! Runs of several threads, ended at random.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::device::ErrorCode;
use crate::run::{Priority, Stream};

/// A linear congruential generator, so that a run can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

/// Returns the number of runs: `UDO_RANDOM_RUNS`, or a number that suits a test.
fn run_count() -> u32 {
    std::env::var("UDO_RANDOM_RUNS").ok().and_then(|count| count.parse().ok()).unwrap_or(400)
}

#[test]
fn random_runs_of_several_threads_end_once_and_as_they_should() {
    random_runs(None);
}

#[test]
fn b19_so_do_those_that_share_a_workspace() {
    random_runs(Some(SharedWorkspace::default()));
}

/// Runs of three frames; where they share a workspace, of one at a time, whose parts nobody else is at.
fn random_runs(workspace: Option<SharedWorkspace>) {
    let (is_shared, at_work) = (workspace.is_some(), Arc::new(AtomicU32::new(0)));
    let dsp = |index| DeviceId { kind: CoreKind::Dsp, index };
    let spin: Part = Arc::new(move |stop| {
        let others = at_work.fetch_add(1, Ordering::SeqCst);
        assert!(!is_shared || others == 0, "{others} beside this one");
        (0..200).take_while(|_| !stop.is_set()).for_each(|_| std::hint::spin_loop());
        at_work.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    });
    let parts = [cpu(), dsp(0), dsp(1), cpu()].map(|device| (device, Arc::clone(&spin)));
    let session = Session::sharing(&Parts(parts.to_vec()), 3, 64, workspace);
    let streams = [Stream::default(), Stream::default()];
    let called = Arc::new(AtomicU32::new(0));
    let runs = run_count();
    let submitted: u32 = std::thread::scope(|scope| {
        let one = |seed| {
            let (session, streams, called) = (&session, &streams, &called);
            move || several(Dice(seed), runs / 4, session, streams, called)
        };
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(one(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(called.load(Ordering::Relaxed), submitted);
    for stream in &streams {
        assert!(!stream.is_busy());
    }
}

/// Submits runs, cancels some, and looks at how each ends; how many there were.
fn several(
    mut dice: Dice,
    runs: u32,
    session: &Session,
    streams: &[Stream],
    called: &Arc<AtomicU32>,
) -> u32 {
    for _ in 0..runs {
        let counted = Arc::clone(called);
        let on_done: Callback = Box::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let priority = [Priority::Low, Priority::Medium, Priority::High][dice.below(3)];
        let timeout = (dice.below(3) == 0)
            .then(|| Duration::from_micros(u64::try_from(dice.below(60)).unwrap()));
        let stream = streams.get(dice.below(4)).cloned();
        let options = RunOptions {
            timeout,
            priority: Some(priority),
            cores: None,
            stream,
            on_done: Some(on_done),
        };
        let (launch, input, output) = session.record(options);
        let run = launch.submit().unwrap();
        let is_cancelled = dice.below(4) == 0;
        if is_cancelled {
            (0..dice.below(2000)).for_each(|_| std::hint::spin_loop());
            run.cancel();
        }
        let outcome = run.wait_timeout(LONG);
        input.write(&[9; 4]).expect("leases are given back before anybody is told");
        match outcome {
            Ok(()) => assert_eq!(output.read_all().unwrap(), [2, 3, 4, 5]),
            Err(error) => {
                let is_right = match error.code() {
                    ErrorCode::Cancelled => is_cancelled,
                    ErrorCode::Timeout => timeout.is_some(),
                    _ => false,
                };
                assert!(is_right, "{error}");
                assert_eq!(output.read_all().unwrap(), [1, 2, 3, 4]);
            }
        }
    }
    runs
}
