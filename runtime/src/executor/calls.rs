//! Runs the calls of a plan in order.

use std::ops::Range;
use std::time::Instant;

use udo_api::Status;
use udo_api::guard::heap_calls;

use super::extents::pass_shapes;
use super::{Executor, StepError, StepProfile, Trace};
use udo_compile::plan::Progress;

impl Executor {
    /// Runs a plan's calls with `run`, in ranges of consecutive calls.
    #[inline]
    pub(super) fn walk<E>(
        &self,
        mut run: impl FnMut(Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut from, mut at) = (0, 0);
        while let Some(turn) = self.jumps.get(at) {
            run(from..turn.end)?;
            self.exchange(turn.exchanges.clone());
            let is_back;
            (from, at, is_back) = turn.follow(at, &self.tensors);
            if is_back {
                self.to_bounds(self.output_bounds.get(turn.again.clone()).unwrap_or_default());
            }
        }
        run(from..self.calls.len())
    }

    pub(super) fn run_calls(
        &self,
        calls: Range<usize>,
        progress: &Progress<'_>,
    ) -> Result<(), StepError> {
        let mut shaped = self.shaped_before(&calls);
        let first = calls.start;
        for (index, call) in self.calls.get(calls).unwrap_or_default().iter().enumerate() {
            let index = first + index;
            progress.set_step(index);
            if call.geometry != 0 {
                self.prepare(index, call)?;
            }
            // SAFETY: the arguments point into memory of this session, laid out by its plan.
            let status = unsafe { (call.execute)(call.args) };
            if status != Status::OK.code() {
                return Err(self.failure(index, status));
            }
            if call.shapes_end != shaped {
                if !pass_shapes(&self.tensors, &self.shapes, shaped, call.shapes_end) {
                    return Err(self.failure(index, Status::BOUND_EXCEEDED.code()));
                }
                shaped = call.shapes_end;
            }
        }
        Ok(())
    }

    /// Does the same as [`Executor::run_calls`] with a cache that writes lines back spontaneously.
    pub(super) fn run_and_evict(
        &self,
        calls: Range<usize>,
        progress: &Progress<'_>,
    ) -> Result<(), StepError> {
        for index in calls {
            self.run_calls(index..index + 1, progress)?;
            self.evict();
        }
        Ok(())
    }

    /// Returns the number of bounded shapes that earlier calls pass on.
    fn shaped_before(&self, calls: &Range<usize>) -> u32 {
        let before = calls.start.checked_sub(1).and_then(|before| self.calls.get(before));
        before.map_or(0, |call| call.shapes_end)
    }

    /// Runs calls and adds to the profile of each.
    pub(super) fn profile_calls(
        &self,
        calls: Range<usize>,
        progress: &Progress<'_>,
        profile: &mut [StepProfile],
    ) -> Result<(), StepError> {
        for index in calls {
            let (heap, start) = (heap_calls(), Instant::now());
            let ran = self.run_calls(index..index + 1, progress);
            if let Some((device, _)) = self.plan.device {
                device.finish();
            }
            if let Some(step) = profile.get_mut(index) {
                step.time += start.elapsed();
                step.heap_calls += heap_calls() - heap;
            }
            ran?;
        }
        Ok(())
    }

    /// Runs calls and records each in `trace`.
    pub(super) fn trace_calls(
        &self,
        calls: Range<usize>,
        progress: &Progress<'_>,
        trace: &mut Trace,
    ) -> Result<(), StepError> {
        for index in calls {
            trace.step(index, || self.run_calls(index..index + 1, progress))?;
        }
        Ok(())
    }
}
