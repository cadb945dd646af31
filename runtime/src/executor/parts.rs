//! Divides a run into parts on one kind of core each, for callers that run them on separate threads.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use udo_api::{CoreKind, Status};

use super::{Executor, StepError};
use udo_compile::plan::{Plan, Progress};
use udo_engine::exit_guard;

/// Consecutive calls on one kind of core.
#[derive(Clone, Debug)]
pub(super) struct Part {
    calls: Range<usize>,
    kind: CoreKind,
}

impl Part {
    /// Returns the parts of a plan. A plan with jumps is a single part on the host.
    pub(super) fn all(plan: &Plan) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        if !plan.jumps.is_empty() {
            return vec![Self { calls: 0..plan.steps.len(), kind: CoreKind::Cpu }];
        }
        for (at, step) in plan.steps.iter().enumerate() {
            let kind = step.core.kind().unwrap_or(CoreKind::Cpu);
            match parts.last_mut().filter(|part| part.kind == kind) {
                Some(part) => part.calls.end = at + 1,
                None => parts.push(Self { calls: at..at + 1, kind }),
            }
        }
        parts
    }
}

impl Executor {
    /// Returns the kind of core of part `index`; `None` after the last part.
    pub(crate) fn part(&self, index: usize) -> Option<CoreKind> {
        self.parts.get(index).map(|part| part.kind)
    }

    /// Runs one part until its end or until `is_stopped`; the first part begins a run. Kernels check `stop` themselves.
    /// Uses no heap unless it fails.
    pub(crate) fn run_part(
        &mut self,
        index: usize,
        stop: &AtomicU32,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), StepError> {
        self.enter_thread();
        if index == 0 {
            self.reset_bounds();
        }
        let Some(part) = self.parts.get(index) else { return Ok(()) };
        let progress = Progress::new(&self.plan.steps);
        let run = || {
            if self.jumps.is_empty() {
                return self.run_until(part.calls.clone(), &progress, is_stopped);
            }
            self.walk(|calls| self.run_until(calls, &progress, is_stopped))
        };
        let ran = exit_guard::with_record(&progress, || self.stopped_by(stop, run));
        match ran {
            Err(Halt::Failed(error)) => Err(error),
            Ok(()) | Err(Halt::Stopped) => Ok(()),
        }
    }

    fn run_until(
        &self,
        calls: Range<usize>,
        progress: &Progress<'_>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), Halt> {
        for index in calls {
            if is_stopped() {
                return Err(Halt::Stopped);
            }
            self.run_and_evict(index..index + 1, progress).map_err(|error| {
                let is_cancelled = error.error.status == Status::CANCELLED && is_stopped();
                if is_cancelled { Halt::Stopped } else { Halt::Failed(error) }
            })?;
        }
        Ok(())
    }
}

/// Why a part ends early.
enum Halt {
    Failed(StepError),
    Stopped,
}
