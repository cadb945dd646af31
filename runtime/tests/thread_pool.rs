//! A pool that has just been made: its first parallel-fors use the heap no more than its later ones.
//!
//! It has a process of its own and no test harness: the count is of all threads, and the harness's would count too.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::num::NonZero;

use udo_api::GuardAlloc;
use udo_api::guard::heap_calls;
use udo_engine::thread_pool::Pool;

#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

/// Starts of threads that come late are rare, so many pools are tried.
const POOLS: usize = 300;

fn main() {
    let counted = heap_calls();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(heap_calls() - counted, 2, "the counter counts");
    for threads in 2..=4 {
        let uses: Vec<(usize, u64)> = (0..POOLS)
            .map(|round| (round, first_runs(NonZero::new(threads).unwrap())))
            .filter(|&(_, calls)| calls > 0)
            .collect();
        assert_eq!(uses, [], "{threads} threads: (pool, heap calls in its first runs)");
    }
}

/// Heap calls of all threads in the first parallel-fors of a fresh pool.
fn first_runs(threads: NonZero<usize>) -> u64 {
    let pool = Pool::new(threads).unwrap();
    let before = heap_calls();
    for _ in 0..20 {
        pool.parallel().run(8, |_| Ok(())).unwrap();
    }
    heap_calls() - before
}
