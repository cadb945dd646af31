//! Tests of the pool with threads of the system.

use std::collections::HashSet;

use std::sync::atomic::AtomicU64;
use std::sync::{Barrier, Mutex};

use udo_api::{ExecError, Status};

use super::*;

struct Sum {
    total: AtomicU64,
    calls: AtomicU64,
    nested: *const ParallelTable,
}

/// # Safety
/// `ctx` points to a `Sum` whose `nested` is null or the table of a pool that lives.
// SAFETY: the tests pass it to `run` with such a `Sum`, which outlives the call.
unsafe extern "C" fn add(ctx: *const c_void, index: usize) {
    // SAFETY: `ctx` points to a `Sum`, as the caller promises.
    let sum = unsafe { &*ctx.cast::<Sum>() };
    sum.total.fetch_add(index as u64, Ordering::Relaxed);
    sum.calls.fetch_add(1, Ordering::Relaxed);
    // SAFETY: null or a table that lives, as the caller promises.
    if let Some(table) = unsafe { sum.nested.as_ref() } {
        let inner =
            Sum { total: AtomicU64::new(0), calls: AtomicU64::new(0), nested: std::ptr::null() };
        // SAFETY: `add` takes any number and a `Sum`, which `inner` is until `run` returns.
        unsafe { (table.run)(table.ctx, 10, add, (&raw const inner).cast()) };
        sum.total.fetch_add(inner.total.into_inner(), Ordering::Relaxed);
    }
}

fn sum_to(pool: &Pool, count: usize, nested: bool) -> (u64, u64) {
    let table = &pool.table;
    let nested = if nested { &raw const **table } else { std::ptr::null() };
    let sum = Sum { total: AtomicU64::new(0), calls: AtomicU64::new(0), nested };
    // SAFETY: `add` takes any number and a `Sum`, which `sum` is until `run` returns.
    unsafe { (table.run)(table.ctx, count, add, (&raw const sum).cast()) };
    (sum.calls.into_inner(), sum.total.into_inner())
}

#[test]
fn every_call_happens_once() {
    for threads in 1..=4 {
        let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
        for count in [0, 1, 2, 7, 1000] {
            let expected = (count as u64, (0..count as u64).sum());
            assert_eq!(sum_to(&pool, count, false), expected, "{threads} threads, {count} calls");
        }
    }
}

#[test]
fn every_thread_attends_a_meeting_once() {
    for threads in 1..=4 {
        let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
        let seen = Mutex::new(Vec::new());
        pool.on_every_thread(&|| seen.lock().unwrap().push(thread::current().id()));
        let seen = seen.into_inner().unwrap();
        let different: HashSet<_> = seen.iter().collect();
        assert_eq!((seen.len(), different.len()), (threads, threads));
    }
}

#[test]
fn a_pool_says_how_many_threads_it_can_have() {
    let most = Pool::most_threads();
    let error = Pool::new(NonZero::new(most + 1).unwrap()).unwrap_err().to_string();
    let expected = format!(
        "cannot run on {} threads, expected at most {most} for one model on this machine",
        most + 1
    );
    assert_eq!(error, expected);
    assert_eq!(Pool::new(NonZero::new(most).unwrap()).unwrap().width(), most);
}

#[test]
fn a_system_that_gives_fewer_threads_is_an_error_and_the_others_end() {
    let ended = Arc::new(AtomicUsize::new(0));
    let start = |index, body: Box<dyn FnOnce() + Send>| {
        if index == 3 {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let ended = Arc::clone(&ended);
        thread::Builder::new().spawn(move || {
            body();
            ended.fetch_add(1, Ordering::Relaxed);
        })
    };
    let error = Pool::started_by(NonZero::new(5).unwrap(), Pool::SPIN, start).unwrap_err();
    assert_eq!(error.to_string(), "cannot run on 5 threads: the system creates only 3");
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(ended.load(Ordering::Relaxed), 2);
}

#[test]
fn nested_calls_run_on_their_caller() {
    let pool = Pool::new(NonZero::new(3).unwrap()).unwrap();
    assert_eq!(sum_to(&pool, 100, true), (100, (0..100).sum::<u64>() + 100 * 45));
}

#[test]
fn a_long_call_does_not_hold_up_the_others() {
    const CALLS: usize = 100;
    for threads in 2..=4 {
        let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
        let finished = AtomicUsize::new(0);
        let done = pool.parallel().run(CALLS, |index| {
            if index == 0 {
                // Ends only if other threads take all the other calls.
                while finished.load(Ordering::Acquire) < CALLS - 1 {
                    thread::yield_now();
                }
            }
            finished.fetch_add(1, Ordering::AcqRel);
            Ok(())
        });
        assert_eq!((done, finished.into_inner()), (Ok(()), CALLS), "{threads} threads");
    }
}

#[test]
fn threads_take_their_own_partitions_first() {
    const CALLS: usize = 11;
    for threads in 1..=4 {
        let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
        let takers: Vec<Mutex<Option<thread::ThreadId>>> =
            (0..CALLS).map(|_| Mutex::new(None)).collect();
        let begun = AtomicUsize::new(0);
        let done = pool.parallel().run(CALLS, |index| {
            *takers[index].lock().unwrap() = Some(thread::current().id());
            begun.fetch_add(1, Ordering::AcqRel);
            // Nobody has two calls before everybody has one.
            while begun.load(Ordering::Acquire) < threads {
                thread::yield_now();
            }
            Ok(())
        });
        assert_eq!(done, Ok(()));
        let taker = |index: usize| takers[index].lock().unwrap().unwrap();
        let begins: Vec<usize> =
            (0..=threads).map(|i| pool.team.partitions.start(CALLS, i)).collect();
        assert_eq!((begins[0], begins[threads]), (0, CALLS));
        let firsts: Vec<_> = begins[..threads].iter().map(|&first| taker(first)).collect();
        for (partition, first) in firsts.iter().enumerate() {
            let len = begins[partition + 1] - begins[partition];
            assert!((CALLS / threads..=CALLS.div_ceil(threads)).contains(&len), "{begins:?}");
            assert!(
                !firsts[..partition].contains(first),
                "{threads} threads: two partitions begun by one"
            );
        }
        assert_eq!(firsts[0], thread::current().id(), "the caller has the first partition");
    }
}

#[test]
fn pieces_have_rooms_of_their_own() {
    for threads in 1..=3 {
        let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
        let (mut data, mut workspace) = ([0u32; 50], [0u32; 40]);
        let fill = |index: usize, chunk: &mut [u32], workspace: &mut [u32]| {
            let index = u32::try_from(index).unwrap();
            workspace.fill(index + 1);
            chunk.copy_from_slice(workspace);
            Ok(())
        };
        let parallel = pool.parallel();
        assert_eq!(
            parallel.chunks_mut_with(&mut data, 5, &mut workspace, 5, fill),
            Err(too_short())
        );
        assert_eq!(data, [0; 50], "nothing ran");
        let (data, workspace) = (&mut data[..40], &mut workspace[..]);
        assert_eq!(parallel.chunks_mut_with(data, 5, workspace, 5, fill), Ok(()));
        let expected: Vec<u32> = (0..40).map(|i| i / 5 + 1).collect();
        assert_eq!((&*data, &*workspace), (&expected[..], &expected[..]));
    }
}

fn too_short() -> ExecError {
    ExecError::with(Status::SCRATCH_EXCEEDED, [200, 160])
}

#[test]
fn failures_and_panics_of_workers_reach_the_caller() {
    let pool = Pool::new(NonZero::new(2).unwrap()).unwrap();
    let meet = Barrier::new(2);
    // Both calls wait for each other, so one of them is on the worker.
    let on_worker = |fail: fn() -> Result<(), ExecError>| {
        let caller = thread::current().id();
        pool.parallel().run(2, |_| {
            meet.wait();
            if thread::current().id() == caller { Ok(()) } else { fail() }
        })
    };
    let failed = on_worker(|| Err(ExecError::new(Status::FAILED)));
    assert_eq!(failed.unwrap_err().status, Status::FAILED);
    let panicked = on_worker(|| panic!("on a worker"));
    assert_eq!(panicked.unwrap_err().status, Status::PANICKED);
    assert_eq!(on_worker(|| Ok(())), Ok(()), "the pool goes on");
}

#[test]
fn a_failed_call_cancels_those_that_have_not_started() {
    const CALLS: usize = 1000;
    for threads in 1..=4 {
        let pool = Pool::new(NonZero::new(threads).unwrap()).unwrap();
        let made = AtomicUsize::new(0);
        let failed = pool.parallel().run(CALLS, |_| {
            made.fetch_add(1, Ordering::Relaxed);
            Err(ExecError::new(Status::FAILED))
        });
        assert_eq!(failed.unwrap_err().status, Status::FAILED);
        // A thread that has failed knows of it, so none fails twice.
        let made = made.into_inner();
        assert!((1..=threads).contains(&made), "{made} calls on {threads} threads");
        let made = AtomicUsize::new(0);
        let count = |_| {
            made.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        assert_eq!(pool.parallel().run(CALLS, count), Ok(()));
        assert_eq!(made.into_inner(), CALLS, "the next parallel-for makes all its calls");
    }
}

#[test]
fn several_callers_share_a_pool() {
    let pool = Pool::new(NonZero::new(2).unwrap()).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    assert_eq!(sum_to(&pool, 20, false), (20, 190));
                }
            });
        }
    });
}
