//! Which cores of a device are at work, and who has taken or named them.

/// What a run wants of a device's cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// So many, whichever are free.
    Any(u32),
    /// Those of these bits.
    These(u64),
}

/// Cores that a run has while it is at work, and gives back.
#[derive(Debug)]
#[must_use]
pub(super) struct Taken {
    cores: u64,
    /// By which it is found, unless it named its cores when it was submitted.
    serial: Option<u64>,
}

/// The cores of a device, a bit for each.
#[derive(Debug)]
pub(super) struct AtWork {
    busy: u64,
    /// Who has cores: runs that named them, from submission to end, and others while they are at work.
    users: Vec<User>,
    next: u64,
}

#[derive(Debug)]
struct User {
    serial: u64,
    cores: u64,
}

/// What is left of a device's cores for the runs of a queue, one behind the other: who cannot begin yet keeps others from what it
/// waits for, so that runs that want little do not overtake it for ever.
pub(super) struct Left(u64);

impl Left {
    /// The cores that a run gets now, if it does.
    pub(super) fn take(&mut self, wanted: Wanted) -> Option<u64> {
        let free = self.0;
        let got = match wanted {
            Wanted::These(cores) if free & cores == cores => Some(cores),
            Wanted::These(_) => None,
            Wanted::Any(count) => lowest(free, count),
        };
        self.0 &= match (got, wanted) {
            (Some(got), _) => !got,
            (None, Wanted::These(cores)) => !cores,
            (None, Wanted::Any(_)) => 0,
        };
        got
    }

    pub(super) fn is_none(&self) -> bool {
        self.0 == 0
    }
}

/// The lowest `count` of these bits, if there are as many.
fn lowest(bits: u64, count: u32) -> Option<u64> {
    if bits.count_ones() < count {
        return None;
    }
    let mut rest = bits;
    for _ in 0..count {
        rest &= rest.wrapping_sub(1);
    }
    Some(bits & !rest)
}

impl AtWork {
    pub(super) fn new() -> Self {
        Self { busy: 0, users: Vec::new(), next: 0 }
    }

    /// Makes room for so many users in all.
    pub(super) fn reserve(&mut self, room: usize) {
        self.users.reserve(room.saturating_sub(self.users.len()));
    }

    /// How many cores somebody is at.
    pub(super) fn busy(&self) -> u32 {
        self.busy.count_ones()
    }

    /// What of `count` cores nobody is at.
    pub(super) fn left(&self, count: u32) -> Left {
        let all = u64::MAX >> (u64::BITS - count.clamp(1, u64::BITS));
        Left(all & !self.busy)
    }

    /// Has a run be at these cores, which were left.
    pub(super) fn begin(&mut self, wanted: Wanted, cores: u64) -> Taken {
        self.busy |= cores;
        let serial = match wanted {
            Wanted::These(_) => None,
            Wanted::Any(_) => Some(self.enter(cores)),
        };
        Taken { cores, serial }
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is given back is gone")]
    pub(super) fn give_back(&mut self, taken: Taken) {
        let Taken { cores, serial } = taken;
        self.busy &= !cores;
        if let Some(serial) = serial {
            self.leave(serial);
        }
    }

    /// Notes who has named cores or is at them: its number.
    pub(super) fn enter(&mut self, cores: u64) -> u64 {
        let serial = self.next;
        self.next += 1;
        self.users.push(User { serial, cores });
        serial
    }

    pub(super) fn leave(&mut self, serial: u64) {
        if let Some(at) = self.users.iter().position(|user| user.serial == serial) {
            self.users.swap_remove(at);
        }
    }

    /// The number that the next user will have.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether somebody numbered below `serial` has this core.
    pub(super) fn has_before(&self, core: u32, serial: u64) -> bool {
        self.users.iter().any(|user| user.serial < serial && user.cores >> core & 1 == 1)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn who_waits_keeps_what_it_waits_for() {
        let mut at_work = AtWork::new();
        let first = at_work.begin(Wanted::Any(1), 0b0001);
        let mut left = at_work.left(4);
        assert_eq!(left.take(Wanted::These(0b0011)), None);
        assert_eq!(left.take(Wanted::These(0b0010)), None);
        assert_eq!(left.take(Wanted::Any(1)), Some(0b0100));
        assert_eq!(left.take(Wanted::Any(2)), None);
        assert!(left.is_none());
        at_work.give_back(first);
        assert_eq!(at_work.left(4).take(Wanted::These(0b0011)), Some(0b0011));
        assert_eq!(at_work.left(4).take(Wanted::Any(3)), Some(0b0111));
        assert_eq!(at_work.left(64).take(Wanted::Any(64)), Some(u64::MAX));
    }

    #[test]
    fn users_of_a_core_are_those_that_named_it_or_are_at_it() {
        let mut at_work = AtWork::new();
        let named = at_work.enter(0b10);
        let begun = at_work.begin(Wanted::Any(1), 0b01);
        let until = at_work.next();
        let later = at_work.enter(0b11);
        assert!(at_work.has_before(0, until) && at_work.has_before(1, until));
        at_work.give_back(begun);
        at_work.leave(named);
        assert!(!at_work.has_before(0, until) && !at_work.has_before(1, until));
        at_work.leave(later);
        assert!(!at_work.has_before(0, u64::MAX));
    }
}
