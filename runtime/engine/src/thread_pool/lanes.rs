//! Records when each worker of a pool was busy, for tracing. Each worker has preallocated memory.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    /// The lanes that record jobs of this thread.
    static CURRENT: Cell<LaneRef> = const { Cell::new(LaneRef(None)) };
}

/// The number of a piece of work that is not recorded.
const FULL: u64 = u64::MAX;

/// One lane per worker. Each worker writes its own lane. The owner reads them after the jobs have ended.
#[derive(Debug)]
pub struct Lanes {
    started: Instant,
    /// The number of the current piece of work.
    work: AtomicU64,
    of_workers: Box<[Lane]>,
}

#[derive(Debug)]
struct Lane {
    len: AtomicUsize,
    lost: AtomicUsize,
    slots: Box<[Slot]>,
}

/// Times in nanoseconds since the creation of the lanes.
#[derive(Debug, Default)]
struct Slot {
    work: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    busy: AtomicU64,
}

/// The time that a worker spent on a piece of work, from its first call to its last.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The worker's number, starting at 1.
    pub thread: usize,
    /// The number of the piece of work.
    pub work: usize,
    pub start: Duration,
    pub time: Duration,
    /// The time that it was busy; otherwise it waited for the next job.
    pub busy: Duration,
}

impl Lanes {
    /// Creates lanes for `workers` workers with space for `stretches` each.
    pub fn new(workers: usize, stretches: usize) -> Self {
        let lane = |_| Lane {
            len: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            slots: (0..stretches).map(|_| Slot::default()).collect(),
        };
        let of_workers = (0..workers).map(lane).collect();
        Self { started: Instant::now(), work: AtomicU64::new(FULL), of_workers }
    }

    /// Returns the time of creation, which recorded times are relative to.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Runs `body` and records its jobs as those of the piece of work `number`. Without a number they are only
    /// counted as lost.
    pub fn during<R>(&self, number: Option<usize>, body: impl FnOnce() -> R) -> R {
        self.work.store(number.map_or(FULL, |number| number as u64), Ordering::Relaxed);
        let _restore = Restore(CURRENT.replace(LaneRef(Some(NonNull::from(self)))));
        body()
    }

    /// Discards all records.
    pub fn clear(&mut self) {
        for lane in &mut self.of_workers {
            (*lane.len.get_mut(), *lane.lost.get_mut()) = (0, 0);
        }
    }

    /// Returns the records, worker by worker, in chronological order.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> {
        self.of_workers.iter().zip(1..).flat_map(|(lane, thread)| {
            let slots = lane.slots.iter().take(lane.len.load(Ordering::Relaxed));
            slots.map(move |slot| slot.read(thread))
        })
    }

    /// Returns the number of stretches that exceeded the space.
    pub fn lost(&self) -> usize {
        self.of_workers.iter().map(|lane| lane.lost.load(Ordering::Relaxed)).sum()
    }

    fn note(&self, thread: usize, start: Instant) {
        let Some(lane) = thread.checked_sub(1).and_then(|at| self.of_workers.get(at)) else {
            return;
        };
        let since =
            |time: Instant| u64::try_from((time - self.started).as_nanos()).unwrap_or(u64::MAX);
        lane.note(self.work.load(Ordering::Relaxed), since(start), since(Instant::now()));
    }
}

impl Lane {
    /// Records that its worker was busy with `work`, after its earlier records.
    fn note(&self, work: u64, start: u64, end: u64) {
        let len = self.len.load(Ordering::Relaxed);
        let last = len.checked_sub(1).and_then(|last| self.slots.get(last));
        if let Some(last) = last.filter(|last| last.work.load(Ordering::Relaxed) == work) {
            last.end.store(end, Ordering::Relaxed);
            last.busy.fetch_add(end - start, Ordering::Relaxed);
            return;
        }
        let Some(slot) = self.slots.get(len).filter(|_| work != FULL) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        slot.work.store(work, Ordering::Relaxed);
        slot.start.store(start, Ordering::Relaxed);
        slot.end.store(end, Ordering::Relaxed);
        slot.busy.store(end - start, Ordering::Relaxed);
        self.len.store(len + 1, Ordering::Relaxed);
    }
}

impl Slot {
    fn read(&self, thread: usize) -> Stretch {
        let [work, start, end, busy] =
            [&self.work, &self.start, &self.end, &self.busy].map(|n| n.load(Ordering::Relaxed));
        Stretch {
            thread,
            work: usize::try_from(work).unwrap_or(usize::MAX),
            start: Duration::from_nanos(start),
            time: Duration::from_nanos(end - start),
            busy: Duration::from_nanos(busy),
        }
    }
}

/// The lanes that record a job, for the workers that join it.
#[derive(Clone, Copy)]
pub(super) struct LaneRef(Option<NonNull<Lanes>>);

/// Returns the lanes that record this thread's jobs.
pub(super) fn current_lanes() -> LaneRef {
    CURRENT.get()
}

impl LaneRef {
    /// Runs `work` on worker `thread`, and records the time if `work` returns that it had something to do.
    ///
    /// # Safety
    /// The thread that got this from [`current_lanes`] stays in [`Lanes::during`] until this returns.
    pub(super) unsafe fn around(self, thread: usize, work: impl FnOnce() -> bool) {
        let Some(lanes) = self.0.filter(|_| thread > 0) else {
            work();
            return;
        };
        let start = Instant::now();
        if work() {
            // SAFETY: `lanes` are borrowed by `during`, in which the thread that lent them still is.
            unsafe { lanes.as_ref() }.note(thread, start);
        }
    }
}

/// Restores the lanes of the thread, also if a panic unwinds.
struct Restore(LaneRef);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_one_piece_of_work_are_one_stretch_and_what_does_not_fit_is_counted() {
        let mut lanes = Lanes::new(1, 2);
        let lane = &lanes.of_workers[0];
        for (work, start, end) in
            [(0, 10, 20), (0, 30, 35), (1, 40, 50), (2, 60, 70), (FULL, 71, 72)]
        {
            lane.note(work, start, end);
        }
        let times: Vec<_> = lanes
            .stretches()
            .map(|s| (s.thread, s.work, [s.start, s.time, s.busy].map(|time| time.as_nanos())))
            .collect();
        assert_eq!(times, [(1, 0, [10, 25, 15]), (1, 1, [40, 10, 10])]);
        assert_eq!(lanes.lost(), 2);
        lanes.clear();
        assert_eq!((lanes.stretches().count(), lanes.lost()), (0, 0));
    }
}
