//! The allocation of a device's cores to runs.

/// The cores that a run requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CoreRequest {
    /// This number of cores, whichever are free.
    Any(u32),
    /// The cores of these bits.
    These(u64),
}

/// Cores allocated to a run while it executes.
#[derive(Debug)]
#[must_use]
pub(super) struct AllocatedCores {
    cores: u64,
    /// The number of its user entry, unless the run named its cores when it was submitted.
    serial: Option<u64>,
}

/// The cores of a device, one bit each.
#[derive(Debug)]
pub(super) struct CoreAllocator {
    busy: u64,
    /// The users of cores: runs that named cores, from submission to end, and others while they execute.
    users: Vec<User>,
    next: u64,
}

#[derive(Debug)]
struct User {
    serial: u64,
    cores: u64,
}

/// The free cores of a device while the runs of a queue are considered in order. A run that cannot begin reserves the cores that
/// it waits for, so that later runs with smaller requests cannot starve it.
pub(super) struct FreeCores(u64);

impl FreeCores {
    /// Takes the cores for a run, if enough are free.
    pub(super) fn take(&mut self, request: CoreRequest) -> Option<u64> {
        let free = self.0;
        let got = match request {
            CoreRequest::These(cores) if free & cores == cores => Some(cores),
            CoreRequest::These(_) => None,
            CoreRequest::Any(count) => lowest(free, count),
        };
        self.0 &= match (got, request) {
            (Some(got), _) => !got,
            (None, CoreRequest::These(cores)) => !cores,
            (None, CoreRequest::Any(_)) => 0,
        };
        got
    }

    pub(super) fn is_none(&self) -> bool {
        self.0 == 0
    }
}

/// Returns the lowest `count` set bits, if there are that many.
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

impl CoreAllocator {
    pub(super) fn new() -> Self {
        Self { busy: 0, users: Vec::new(), next: 0 }
    }

    /// Reserves space for this number of users.
    pub(super) fn reserve(&mut self, count: usize) {
        self.users.reserve(count.saturating_sub(self.users.len()));
    }

    /// Returns the number of cores in use.
    pub(super) fn busy(&self) -> u32 {
        self.busy.count_ones()
    }

    /// Returns the free cores among `count`.
    pub(super) fn left(&self, count: u32) -> FreeCores {
        let all = u64::MAX >> (u64::BITS - count.clamp(1, u64::BITS));
        FreeCores(all & !self.busy)
    }

    /// Allocates these free cores to a run.
    pub(super) fn begin(&mut self, request: CoreRequest, cores: u64) -> AllocatedCores {
        self.busy |= cores;
        let serial = match request {
            CoreRequest::These(_) => None,
            CoreRequest::Any(_) => Some(self.enter(cores)),
        };
        AllocatedCores { cores, serial }
    }

    #[expect(clippy::needless_pass_by_value, reason = "returned cores must not be used again")]
    pub(super) fn give_back(&mut self, taken: AllocatedCores) {
        let AllocatedCores { cores, serial } = taken;
        self.busy &= !cores;
        if let Some(serial) = serial {
            self.leave(serial);
        }
    }

    /// Adds a user of cores and returns its number.
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

    /// Returns the number of the next user.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether a user with a number below `serial` has this core.
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
        let mut at_work = CoreAllocator::new();
        let first = at_work.begin(CoreRequest::Any(1), 0b0001);
        let mut left = at_work.left(4);
        assert_eq!(left.take(CoreRequest::These(0b0011)), None);
        assert_eq!(left.take(CoreRequest::These(0b0010)), None);
        assert_eq!(left.take(CoreRequest::Any(1)), Some(0b0100));
        assert_eq!(left.take(CoreRequest::Any(2)), None);
        assert!(left.is_none());
        at_work.give_back(first);
        assert_eq!(at_work.left(4).take(CoreRequest::These(0b0011)), Some(0b0011));
        assert_eq!(at_work.left(4).take(CoreRequest::Any(3)), Some(0b0111));
        assert_eq!(at_work.left(64).take(CoreRequest::Any(64)), Some(u64::MAX));
    }

    #[test]
    fn users_of_a_core_are_those_that_named_it_or_are_at_it() {
        let mut at_work = CoreAllocator::new();
        let named = at_work.enter(0b10);
        let begun = at_work.begin(CoreRequest::Any(1), 0b01);
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
