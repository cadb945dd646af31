//! When each worker of a pool was at work, for who traces a run: a lane of memory for each, taken before.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

thread_local! {
    /// The lanes in which jobs of this thread are noted.
    static NOTED: Cell<Noted> = const { Cell::new(Noted(None)) };
}

/// What the number of a piece of work is where nothing is to be noted of it any more.
const FULL: u64 = u64::MAX;

/// A lane for each worker. Each writes to its own, and who lent them reads once the jobs are over.
#[derive(Debug)]
pub struct Lanes {
    started: Instant,
    /// The number of the piece of work in hand.
    work: AtomicU64,
    of_workers: Box<[Lane]>,
}

#[derive(Debug)]
struct Lane {
    len: AtomicUsize,
    lost: AtomicUsize,
    slots: Box<[Slot]>,
}

/// Times in nanoseconds since the lanes were made.
#[derive(Debug, Default)]
struct Slot {
    work: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    busy: AtomicU64,
}

/// When a worker was at a piece of work, from its first call to its last.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The worker's number, 1 for the first one.
    pub thread: usize,
    /// The number of the piece of work.
    pub work: usize,
    pub start: Duration,
    pub time: Duration,
    /// How much of that it worked; for the rest it waited for the next job.
    pub busy: Duration,
}

impl Lanes {
    /// Lanes for `workers` workers, with room for `stretches` each.
    pub fn new(workers: usize, stretches: usize) -> Self {
        let lane = |_| Lane {
            len: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            slots: (0..stretches).map(|_| Slot::default()).collect(),
        };
        let of_workers = (0..workers).map(lane).collect();
        Self { started: Instant::now(), work: AtomicU64::new(FULL), of_workers }
    }

    /// When they were made, from which on times count.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Runs `body`, whose jobs are noted as those of the piece of work `number`; of none they are counted as lost.
    pub fn during<R>(&self, number: Option<usize>, body: impl FnOnce() -> R) -> R {
        self.work.store(number.map_or(FULL, |number| number as u64), Ordering::Relaxed);
        let _back = Back(NOTED.replace(Noted(Some(NonNull::from(self)))));
        body()
    }

    /// Forgets what was noted.
    pub fn clear(&mut self) {
        for lane in &mut self.of_workers {
            (*lane.len.get_mut(), *lane.lost.get_mut()) = (0, 0);
        }
    }

    /// What was noted, worker by worker, in the order of time.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> {
        self.of_workers.iter().zip(1..).flat_map(|(lane, thread)| {
            let slots = lane.slots.iter().take(lane.len.load(Ordering::Relaxed));
            slots.map(move |slot| slot.read(thread))
        })
    }

    /// How many stretches there was no room for.
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
    /// Notes that its worker was at `work`, behind what it noted before.
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

/// Where a job is noted, for the workers that come to it.
#[derive(Clone, Copy)]
pub(super) struct Noted(Option<NonNull<Lanes>>);

/// Where this thread's jobs are noted.
pub(super) fn noted() -> Noted {
    NOTED.get()
}

impl Noted {
    /// Has worker `thread` work, and notes when, if `work` says that there was anything to do.
    ///
    /// # Safety
    /// The thread that got this from [`noted`] stays in [`Lanes::during`] until this returns.
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

/// Puts back where jobs were noted, when a panic unwinds as well.
struct Back(Noted);

impl Drop for Back {
    fn drop(&mut self) {
        NOTED.set(self.0);
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
