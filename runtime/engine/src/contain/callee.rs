//! The worker behind each operator and kernel of the host's tables.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::wire::InvalidMessage;
use super::worker::Worker;
use crate::exit_guard::PerProcess;

/// The target of a call of an operator or kernel in the host's tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callee {
    pub(super) worker: &'static Worker,
    pub(super) package: &'static str,
    /// Its index among the worker's operators or kernels.
    pub(super) number: usize,
}

/// The targets of all entries, by the addresses of the entries. Tables are never freed.
static CALLEES: PerProcess<RwLock<Option<HashMap<usize, Callee>>>> =
    PerProcess::new(RwLock::new(None));

/// Registers the entries of a table. Their numbers in the worker start at `first`.
pub(super) fn register<T>(
    entries: &'static [T],
    first: usize,
    (worker, package): (&'static Worker, &'static str),
) -> Result<(), InvalidMessage> {
    let end = first.checked_add(entries.len()).ok_or(InvalidMessage)?;
    let mut callees = CALLEES.get().write().unwrap_or_else(PoisonError::into_inner);
    let callees = callees.get_or_insert_with(HashMap::new);
    for (number, entry) in (first..end).zip(entries) {
        callees.insert(std::ptr::from_ref(entry).addr(), Callee { worker, package, number });
    }
    Ok(())
}

/// Returns the target of the entry whose function the host is calling.
pub(super) fn called() -> Option<Callee> {
    let callees = CALLEES.get().read().unwrap_or_else(PoisonError::into_inner);
    callees.as_ref()?.get(&udo_host::callee().addr()).copied()
}
