//! How the calls of a job are shared out.

use super::sync::{AtomicUsize, Ordering};

/// The calls that a thread takes first: as many as the others', next to each other, and of every job the
/// same part, so that what one job leaves in the caches of a core the next one finds there. Who is through
/// with its own helps with the others'. The grain is one call: who wants a larger one makes larger calls.
#[derive(Default)]
#[repr(align(64))]
struct Partition {
    /// The next call of it.
    next: AtomicUsize,
}

/// One partition for each thread.
pub(super) struct Partitions(Box<[Partition]>);

impl Partitions {
    pub(super) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Partition::default()).collect())
    }

    /// The first of `count` calls that is in a partition; for the number of partitions, `count`.
    pub(super) fn start(&self, count: usize, partition: usize) -> usize {
        let threads = self.0.len();
        count / threads * partition + (count % threads * partition).div_ceil(threads)
    }

    /// Makes all of `count` calls free to be taken. Only while nobody takes any.
    pub(super) fn fill(&self, count: usize) {
        for (index, partition) in self.0.iter().enumerate() {
            partition.next.store(self.start(count, index), Ordering::Relaxed);
        }
    }

    /// Takes calls until there are none left, those of the thread's own partition first.
    pub(super) fn drain(&self, count: usize, thread: usize, mut call: impl FnMut(usize)) {
        let threads = self.0.len();
        for index in (thread..threads).chain(0..thread) {
            let end = self.start(count, index + 1);
            let Some(partition) = self.0.get(index) else { continue };
            loop {
                let number = partition.next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    break;
                }
                call(number);
            }
        }
    }
}
