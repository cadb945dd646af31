//! The table of leases in all the orders that threads may run in, as far as `loom` tells them apart.
//!
//! A model that goes wrong ends the process: two who write the same bytes, or who read them meanwhile, are a race that loom
//! sees in a cell.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::{Access, Clash, Entry, LeaseTable, Slot, give_back_all, take_all};
use crate::device::range::ByteRange;

/// A memory of two bytes.
struct Bytes {
    table: LeaseTable,
    bytes: [UnsafeCell<u8>; 2],
}

impl Bytes {
    fn new() -> Arc<Self> {
        Arc::new(Self { table: LeaseTable::new(), bytes: [UnsafeCell::new(0), UnsafeCell::new(0)] })
    }

    fn range(at: u64, len: u64) -> ByteRange {
        ByteRange::new(at, at + len).unwrap()
    }

    /// Uses the bytes under a lease, and says whether there was one.
    fn try_use(&self, at: usize, len: usize, access: Access) -> Result<(), Clash> {
        let slot = self.table.take(Self::range(at as u64, len as u64), access)?;
        self.touch(at, len, access);
        self.table.give_back(slot);
        Ok(())
    }

    fn touch(&self, at: usize, len: usize, access: Access) {
        for byte in &self.bytes[at..at + len] {
            match access {
                // SAFETY: loom sees it if somebody writes meanwhile.
                Access::Read => drop(byte.with(|byte| unsafe { *byte })),
                // SAFETY: loom sees it if somebody is at it meanwhile.
                Access::Write => byte.with_mut(|byte| unsafe { *byte += 1 }),
            }
        }
    }
}

/// Tries every order in which threads take turns, up to so many turns that a thread does not give up itself.
fn explore(preemptions: usize, model: fn()) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn a_byte_has_one_writer() {
    explore(3, || {
        let bytes = Bytes::new();
        let other = Arc::clone(&bytes);
        let other = thread::spawn(move || other.try_use(0, 2, Access::Write).is_ok());
        let mine = bytes.try_use(1, 1, Access::Write).is_ok();
        assert!(other.join().unwrap() || mine, "one of them has it");
        assert_eq!(bytes.try_use(0, 2, Access::Write), Ok(()), "and then it is free again");
    });
}

#[test]
fn readers_share_and_keep_writers_out() {
    explore(3, || {
        let bytes = Bytes::new();
        let other = Arc::clone(&bytes);
        let writer = thread::spawn(move || other.try_use(0, 1, Access::Write).is_ok());
        let mine = bytes.table.take(Bytes::range(0, 2), Access::Read);
        if let Ok(slot) = mine {
            assert_eq!(bytes.try_use(0, 1, Access::Read), Ok(()), "readers share");
            bytes.touch(0, 2, Access::Read);
            bytes.table.give_back(slot);
        }
        assert!(writer.join().unwrap() || mine.is_ok());
    });
}

#[test]
fn parts_are_apart() {
    explore(3, || {
        let bytes = Bytes::new();
        let other = Arc::clone(&bytes);
        let other = thread::spawn(move || other.try_use(0, 1, Access::Write));
        assert_eq!(bytes.try_use(1, 1, Access::Write), Ok(()));
        assert_eq!(other.join().unwrap(), Ok(()));
    });
}

/// The first byte of a memory, to be written together with that of another.
struct First {
    of: Arc<Bytes>,
    slot: Slot,
}

impl Entry for First {
    type Refusal = Clash;

    fn request(&self) -> (&LeaseTable, ByteRange, Access) {
        (&self.of.table, Bytes::range(0, 1), Access::Write)
    }

    fn slot(&mut self) -> &mut Slot {
        &mut self.slot
    }

    fn refusal(&self, _: usize, clash: Clash) -> Clash {
        clash
    }
}

/// Writes the first bytes of two memories if both are to be had; the order is that of the first memory's number.
fn write_both(memories: [&Arc<Bytes>; 2], order: [usize; 2]) -> bool {
    let mut entries = memories.map(|of| First { of: Arc::clone(of), slot: Slot::NONE });
    let has_both = take_all(&mut entries, &order).is_ok();
    if has_both {
        for entry in &entries {
            entry.of.touch(0, 1, Access::Write);
        }
        give_back_all(&mut entries, &order);
    }
    has_both
}

#[test]
fn of_two_who_want_the_same_memories_one_gets_all() {
    explore(2, || {
        let (one, two) = (Bytes::new(), Bytes::new());
        let theirs = (Arc::clone(&one), Arc::clone(&two));
        let other = thread::spawn(move || write_both([&theirs.0, &theirs.1], [0, 1]));
        let mine = write_both([&two, &one], [1, 0]);
        assert!(other.join().unwrap() || mine, "neither is in the way of both");
        assert!(write_both([&one, &two], [0, 1]), "and nothing is left behind");
    });
}
