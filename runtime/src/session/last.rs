//! Which plans the last run of a session took, whoever ran it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use udo_compile::plan::Plan;

/// The plans of the last run, for a session and the frames of its submitted runs. Who gives up a plan for want of memory gets its
/// memory back all the same.
#[derive(Clone, Debug, Default)]
pub(super) struct LastPlans(Arc<Mutex<Vec<Weak<Plan>>>>);

impl LastPlans {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Weak<Plan>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the plans of a run. No heap, unless they are more than of any before.
    pub(super) fn note<'a>(&self, plans: impl Iterator<Item = &'a Arc<Plan>>) {
        let mut last = self.lock();
        last.clear();
        last.extend(plans.map(Arc::downgrade));
    }
}
