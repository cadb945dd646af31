//! The plans of a session's last run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use udo_compile::plan::Plan;

/// The plans of the last run, shared by a session and the frames of its submitted runs. The references are weak, so
/// that dropping a plan frees its memory.
#[derive(Clone, Debug, Default)]
pub(super) struct LastPlans(Arc<Mutex<Vec<Weak<Plan>>>>);

impl LastPlans {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Weak<Plan>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the plans of a run. Uses no heap unless there are more than in any earlier run.
    pub(super) fn note<'a>(&self, plans: impl Iterator<Item = &'a Arc<Plan>>) {
        let mut last = self.lock();
        last.clear();
        last.extend(plans.map(Arc::downgrade));
    }
}
