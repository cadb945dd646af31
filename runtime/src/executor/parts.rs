//! A run cut into parts, each on one kind of core, for who runs them on threads of their own.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use udo_api::{CoreKind, Status};

use super::{Executor, StepError};
use udo_compile::plan::{Plan, Progress};
use udo_engine::exit_guard;

/// Calls that follow each other on one kind of core.
#[derive(Clone, Debug)]
pub(super) struct Part {
    calls: Range<usize>,
    kind: CoreKind,
}

impl Part {
    /// The parts of a plan. One in which a run goes back and forth is all of one part, on the host.
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
    /// The kind of core that part `index` of a run is on; nothing behind the last one.
    pub(crate) fn part(&self, index: usize) -> Option<CoreKind> {
        self.parts.get(index).map(|part| part.kind)
    }

    /// Runs one part, the first of which begins a run, up to its end or to where `is_stopped` says so; kernels look at `stop`
    /// themselves. Uses no heap unless it fails.
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
        let progress = Progress::of(&self.plan.steps);
        let run = || {
            if self.turns.is_empty() {
                return self.run_until(part.calls.clone(), &progress, is_stopped);
            }
            self.walk(|calls| self.run_until(calls, &progress, is_stopped))
        };
        let ran = exit_guard::during(&progress, || self.stopped_by(stop, run));
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

/// Why a part ends before its end.
enum Halt {
    Failed(StepError),
    Stopped,
}
