//! Leases that are taken together: those of a run's inputs and outputs.

use super::table::{Slot, give_back_all, take_all};
use super::{Access, Cause, Conflict, Lease};
use crate::device::memory::MemoryView;
use udo_graph::error::{Error, ErrorCode, Result, invalid};

/// What a run is bound to: memories to read and to write, of which it has all leases or none.
///
/// Making and binding uses the heap; taking the leases and giving them back does not. So a run that is prepared once is
/// submitted without. A range that is read and written in place is one binding, to write.
///
/// ```
/// # extern crate udo_engine as udo_runtime;
/// use udo_api::CoreKind;
/// use udo_runtime::device::{Access, Devices, LeaseSet};
///
/// let cpu = Devices::default().get(CoreKind::Cpu, 0)?;
/// let (x, y) = (cpu.alloc(16)?, cpu.alloc(16)?);
/// let mut run = LeaseSet::new([(x.all(), Access::Read), (y.all(), Access::Write)]);
/// run.take()?;
/// assert!(x.write(0, &[1]).is_err(), "a run in flight keeps its inputs as they are");
/// run.give_back();
/// x.write(0, &[1])?;
/// # Ok::<(), udo_runtime::device::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct LeaseSet {
    /// Their slots are none while the set does not have its leases.
    leases: Vec<Lease>,
    /// Their numbers by memory, so that threads take tables in one order.
    order: Vec<usize>,
    is_held: bool,
}

impl LeaseSet {
    /// A set that is bound to these bytes, and has no leases yet.
    pub fn new(bindings: impl IntoIterator<Item = (MemoryView, Access)>) -> Self {
        let bound =
            bindings.into_iter().map(|(view, access)| Lease { view, access, slot: Slot::NONE });
        let leases: Vec<_> = bound.collect();
        let mut set = Self { order: (0..leases.len()).collect(), leases, is_held: false };
        set.sort();
        set
    }

    fn sort(&mut self) {
        let Self { leases, order, .. } = self;
        order.sort_unstable_by_key(|&at| (leases.get(at).map(|lease| lease.view.memory_id()), at));
    }

    /// How many bindings there are.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether there are no bindings.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Whether the set has its leases.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// The bytes that a binding is of.
    pub fn view(&self, binding: usize) -> Option<&MemoryView> {
        self.leases.get(binding).map(Lease::view)
    }

    /// Binds other bytes, to do the same with them. No heap.
    ///
    /// # Errors
    /// There is no such binding, or the set has its leases.
    pub fn bind(&mut self, binding: usize, view: MemoryView) -> Result<()> {
        let count = self.leases.len();
        if self.is_held {
            let why = format!(
                "binding {binding} cannot change while the run has its leases; end it first"
            );
            return Err(Error::new(ErrorCode::InvalidState, why));
        }
        let Some(lease) = self.leases.get_mut(binding) else {
            return Err(invalid(format!("there is no binding {binding}: the run has {count}")));
        };
        lease.view = view;
        self.sort();
        Ok(())
    }

    /// Takes all leases, or none of them. No heap.
    ///
    /// # Errors
    /// Somebody has some of the bytes; two bindings are in each other's way; the set has its leases already.
    pub fn take(&mut self) -> std::result::Result<(), Conflict> {
        if self.is_held {
            return match self.leases.first() {
                Some(first) => Err(Conflict::of(&first.view, first.access, 0, Cause::Taken)),
                None => Ok(()),
            };
        }
        match take_all(&mut self.leases, &self.order) {
            Ok(()) => {
                self.is_held = true;
                Ok(())
            }
            Err(conflict) => Err(self.with_alias(conflict)),
        }
    }

    /// Gives all leases back; nothing if there are none. No heap, unless a memory has no other handle left.
    pub fn give_back(&mut self) {
        if self.is_held {
            self.is_held = false;
            give_back_all(&mut self.leases, &self.order);
        }
    }

    /// A lease, to read through; none while the set does not have its leases.
    pub fn get(&self, binding: usize) -> Option<&Lease> {
        self.leases.get(binding).filter(|_| self.is_held)
    }

    /// The bytes of a binding that is to be written; none while the set does not have its leases, where it is to be read, and
    /// where others may be at the bytes.
    pub fn bytes_mut(&mut self, binding: usize) -> Option<&mut [u8]> {
        self.leases.get_mut(binding).filter(|_| self.is_held)?.bytes_mut()
    }

    /// Writes bytes of a binding from `at` on.
    ///
    /// # Errors
    /// The set does not have its leases, or they go beyond the binding's, or that is to be read.
    pub fn write(&mut self, binding: usize, at: u64, from: &[u8]) -> Result<()> {
        match self.leases.get_mut(binding).filter(|_| self.is_held) {
            Some(lease) => lease.write(at, from),
            None => Err(Error::new(
                ErrorCode::InvalidState,
                format!("binding {binding} has no lease; take the set's leases first"),
            )),
        }
    }

    /// What is in the way of a binding: if another one of the set is, then that one, whoever else is there.
    fn with_alias(&self, conflict: Conflict) -> Conflict {
        let is_alias = |other: &Lease| {
            other.view.memory_id() == conflict.memory
                && other.view.range().meets(conflict.range)
                && (other.access, conflict.access) != (Access::Read, Access::Read)
        };
        let mut others = self.leases.iter().enumerate();
        match others.find(|&(at, other)| at != conflict.binding && is_alias(other)) {
            Some((binding, _)) => Conflict { cause: Cause::Alias { binding }, ..conflict },
            None => conflict,
        }
    }
}
