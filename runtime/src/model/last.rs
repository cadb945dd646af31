//! Which plans the last run of a session took, whoever ran it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::session::Session;
use udo_compile::plan::Plan;
use udo_engine::device::{Error, ErrorCode, Result};

/// The plans of the last run, for a session and the frames of its submitted runs. Who gives up a plan for want of memory gets its
/// memory back all the same.
#[derive(Clone, Debug, Default)]
pub(super) struct LastPlans(Arc<Mutex<Vec<Weak<Plan>>>>);

impl LastPlans {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Plan>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the plans of a run. No heap, unless they are more than of any before.
    fn note<'a>(&self, plans: impl Iterator<Item = &'a Arc<Plan>>) {
        let mut last = self.lock();
        last.clear();
        last.extend(plans.map(Arc::downgrade));
    }
}

impl Session {
    /// Notes which plans a run took, where that is not always the same.
    pub(super) fn note_plans(&self) {
        if let (Some(last), Some(met)) = (&self.last, self.met.first()) {
            last.note(met.shared_plans());
        }
    }

    /// The plans that the last run took, a submitted one or another, in the order in which they ran. Before there was one they are
    /// those at hand.
    ///
    /// # Errors
    /// There are none yet, as the model leaves shapes open; or they are gone, as other plans wanted their memory.
    pub fn last_plans(&self) -> Result<Vec<Arc<Plan>>> {
        let noted = self.last.as_ref().map(|last| last.lock().clone()).unwrap_or_default();
        if noted.is_empty() {
            let at_hand: Vec<_> =
                self.met.iter().take(1).flat_map(|met| met.shared_plans().cloned()).collect();
            let none = || {
                let why = "the session has no plan yet, as its model leaves shapes open; run it, or prepare shapes";
                Error::new(ErrorCode::InvalidState, why)
            };
            return if at_hand.is_empty() { Err(none()) } else { Ok(at_hand) };
        }
        let there = noted.iter().map(Weak::upgrade).collect::<Option<_>>();
        there.ok_or_else(|| {
            let why =
                "the plan of the last run is gone, as another one wanted its memory; run again";
            Error::new(ErrorCode::InvalidState, why)
        })
    }
}
