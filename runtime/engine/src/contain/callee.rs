//! Which worker answers for which operator or kernel of the host's tables.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::wire::Garbled;
use super::worker::Worker;
use crate::exit_guard::PerProcess;

/// What a worker is asked to call for an operator or a kernel of the host's tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callee {
    pub(super) worker: &'static Worker,
    pub(super) package: &'static str,
    /// Among the worker's operators or kernels.
    pub(super) number: usize,
}

/// The callees of tables that never go, by the addresses of their entries.
static CALLEES: PerProcess<RwLock<Option<HashMap<usize, Callee>>>> =
    PerProcess::new(RwLock::new(None));

/// Says who answers for the entries of tables that stay, which have numbers from `first` on in the worker.
pub(super) fn answer_for<T>(
    entries: &'static [T],
    first: usize,
    (worker, package): (&'static Worker, &'static str),
) -> Result<(), Garbled> {
    let end = first.checked_add(entries.len()).ok_or(Garbled)?;
    let mut callees = CALLEES.get().write().unwrap_or_else(PoisonError::into_inner);
    let callees = callees.get_or_insert_with(HashMap::new);
    for (number, entry) in (first..end).zip(entries) {
        callees.insert(std::ptr::from_ref(entry).addr(), Callee { worker, package, number });
    }
    Ok(())
}

/// Who answers for the entry whose function the host calls.
pub(super) fn called() -> Option<Callee> {
    let callees = CALLEES.get().read().unwrap_or_else(PoisonError::into_inner);
    callees.as_ref()?.get(&udo_host::callee().addr()).copied()
}
