//! Which bytes of a memory are leased: some to any number of readers, others to one writer.

#[cfg(all(test, loom))]
mod models;
#[cfg_attr(all(test, loom), path = "lease_table/sync_loom.rs")]
#[cfg_attr(not(all(test, loom)), path = "lease_table/sync_std.rs")]
mod sync;

use super::range::ByteRange;
use sync::{AtomicBool, AtomicU64, Ordering, SLOTS, SPINS, spin_loop, yield_now};

/// The access that a lease permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read; others may read as well.
    Read,
    /// To read and write; nobody else is at the bytes.
    Write,
}

/// The leases of one memory. Taking and giving back leave the heap alone, and nobody waits for a lease: what is in the way
/// is said at once.
///
/// A flag keeps threads apart for as long as it takes to look through the slots. It is not a lock of the system: the
/// section has a few hundred instructions at most and calls nothing, and a set of leases holds the flags of several tables
/// at once, in the order of their memories' numbers, so that it has all of its leases or none at any moment.
#[derive(Debug)]
pub(super) struct LeaseTable {
    is_locked: AtomicBool,
    /// A bit per slot with a lease. This and what follows is written by whoever holds the flag, which orders it.
    used: AtomicU64,
    /// A bit per slot with a writer's lease.
    writers: AtomicU64,
    /// Start and end of each lease.
    ranges: [[AtomicU64; 2]; SLOTS],
}

/// A place in a table; none for a lease of no bytes, which is in nobody's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(Option<u8>);

impl Slot {
    pub(super) const NONE: Self = Self(None);
}

/// The reason why a lease is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clash {
    /// Somebody has some of the bytes.
    Held { range: ByteRange, access: Access },
    /// There are as many leases as there may be.
    Full,
}

impl LeaseTable {
    /// The most leases that a memory may have.
    pub(super) const MOST: usize = SLOTS;

    pub(super) fn new() -> Self {
        Self {
            is_locked: AtomicBool::new(false),
            used: AtomicU64::new(0),
            writers: AtomicU64::new(0),
            ranges: std::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]),
        }
    }

    /// Keeps other threads out until `unlock`.
    pub(super) fn lock(&self) {
        let mut spins = 0;
        while self
            .is_locked
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            spins += 1;
            if spins % SPINS == 0 { yield_now() } else { spin_loop() }
        }
    }

    /// Only for who holds the flag.
    pub(super) fn unlock(&self) {
        self.is_locked.store(false, Ordering::Release);
    }

    /// Notes a lease. Only between `lock` and `unlock`.
    pub(super) fn insert(&self, range: ByteRange, access: Access) -> Result<Slot, Clash> {
        if range.is_empty() {
            return Ok(Slot::NONE);
        }
        let used = self.used.load(Ordering::Relaxed);
        let writers = self.writers.load(Ordering::Relaxed);
        let in_the_way = match access {
            Access::Read => used & writers,
            Access::Write => used,
        };
        for (at, bounds) in self.ranges.iter().enumerate() {
            if in_the_way >> at & 1 == 0 {
                continue;
            }
            let [start, end] = bounds.each_ref().map(|bound| bound.load(Ordering::Relaxed));
            let held = ByteRange::new(start, end).filter(|held| held.meets(range));
            if let Some(held) = held {
                let access = if writers >> at & 1 == 1 { Access::Write } else { Access::Read };
                return Err(Clash::Held { range: held, access });
            }
        }
        let free = used.trailing_ones();
        let slot = u8::try_from(free).map_err(|_| Clash::Full)?;
        let [start, end] = self.ranges.get(usize::from(slot)).ok_or(Clash::Full)?;
        start.store(range.start(), Ordering::Relaxed);
        end.store(range.end(), Ordering::Relaxed);
        let bit = 1 << slot;
        self.used.store(used | bit, Ordering::Relaxed);
        let is_writer = access == Access::Write;
        let writers = if is_writer { writers | bit } else { writers & !bit };
        self.writers.store(writers, Ordering::Relaxed);
        Ok(Slot(Some(slot)))
    }

    /// Forgets a lease. Only between `lock` and `unlock`.
    pub(super) fn remove(&self, slot: Slot) {
        if let Slot(Some(slot)) = slot {
            let used = self.used.load(Ordering::Relaxed);
            self.used.store(used & !(1 << slot), Ordering::Relaxed);
        }
    }

    /// As [`LeaseTable::insert`], alone.
    pub(super) fn take(&self, range: ByteRange, access: Access) -> Result<Slot, Clash> {
        self.lock();
        let slot = self.insert(range, access);
        self.unlock();
        slot
    }

    /// As [`LeaseTable::remove`], alone.
    pub(super) fn give_back(&self, slot: Slot) {
        self.lock();
        self.remove(slot);
        self.unlock();
    }
}

/// One of several leases that are taken together.
pub(super) trait Entry {
    /// The error of a refused lease.
    type Refusal;
    /// The table of its memory, and the range and access in it.
    fn request(&self) -> (&LeaseTable, ByteRange, Access);
    /// Where its lease is noted, once it has one.
    fn slot(&mut self) -> &mut Slot;
    /// Returns the error if this entry, number `at`, is refused because of `clash`.
    fn refusal(&self, at: usize, clash: Clash) -> Self::Refusal;
}

/// Takes the leases of all entries, or none of them: then, the refusal of the first one without room. `order` has the numbers of
/// all entries, those of one table next to each other and tables always in one order, so that threads cannot wait for each
/// other in a circle.
pub(super) fn take_all<E: Entry>(entries: &mut [E], order: &[usize]) -> Result<(), E::Refusal> {
    each_table(entries, order, LeaseTable::lock);
    let mut outcome = Ok(());
    let mut taken = 0;
    for &at in order {
        let Some(entry) = entries.get_mut(at) else { continue };
        let (table, range, access) = entry.request();
        match table.insert(range, access) {
            Ok(slot) => *entry.slot() = slot,
            Err(clash) => {
                outcome = Err(entry.refusal(at, clash));
                break;
            }
        }
        taken += 1;
    }
    if outcome.is_err() {
        remove_all(entries, order.get(..taken).unwrap_or_default());
    }
    each_table(entries, order, LeaseTable::unlock);
    outcome
}

/// Gives back what [`take_all`] took.
pub(super) fn give_back_all<E: Entry>(entries: &mut [E], order: &[usize]) {
    each_table(entries, order, LeaseTable::lock);
    remove_all(entries, order);
    each_table(entries, order, LeaseTable::unlock);
}

fn remove_all<E: Entry>(entries: &mut [E], order: &[usize]) {
    for &at in order {
        if let Some(entry) = entries.get_mut(at) {
            let slot = std::mem::replace(entry.slot(), Slot::NONE);
            entry.request().0.remove(slot);
        }
    }
}

/// Does this to each table once.
fn each_table<E: Entry>(entries: &[E], order: &[usize], act: fn(&LeaseTable)) {
    let mut last: Option<&LeaseTable> = None;
    for entry in order.iter().filter_map(|&at| entries.get(at)) {
        let (table, ..) = entry.request();
        if last.is_none_or(|last| !std::ptr::eq(last, table)) {
            act(table);
        }
        last = Some(table);
    }
}
