//! Where a run goes on elsewhere than with the next call.

use std::ops::Range;

use super::extents::SharedArg;
use udo_compile::plan::Plan;

/// What comes after a call, where that may be another one than the next.
pub(super) struct Turn {
    /// The calls that run before it, from the last turn on, end here.
    pub(super) end: usize,
    /// The tensor whose first truth decides, and what that has to be; nothing where it is always taken.
    test: Option<(usize, bool)>,
    to: usize,
    /// The turn that comes next where this one is taken.
    next: usize,
    /// Where it leads back: the bounded outputs of the calls that run again, among those of all.
    pub(super) again: Range<usize>,
    /// What is exchanged before it is taken or not, among the exchanges of the plan.
    pub(super) exchanges: Range<usize>,
}

impl Turn {
    /// The turns of a plan whose tensors lie behind each other, those of each step from `first_tensor` on; `outputs` are
    /// its bounded outputs in order.
    pub(super) fn all(plan: &Plan, first_tensor: &[usize], outputs: &[usize]) -> Vec<Self> {
        let tensor = |step: usize| first_tensor.get(step).copied().unwrap_or(usize::MAX);
        let turn = |jump: &udo_compile::plan::Jump| {
            let bounded = |step: usize| outputs.partition_point(|&output| output < tensor(step));
            let exchanged = |step: usize| plan.exchanges.partition_point(|e| e.after < step);
            Self {
                end: jump.after + 1,
                test: jump.test.map(|test| (tensor(jump.after) + test.port, test.is)),
                to: jump.to,
                next: plan.jumps.partition_point(|other| other.after < jump.to),
                again: if jump.to > jump.after {
                    0..0
                } else {
                    bounded(jump.to)..bounded(jump.after + 1)
                },
                exchanges: exchanged(jump.after)..exchanged(jump.after + 1),
            }
        };
        plan.jumps.iter().map(turn).collect()
    }

    /// Whether it is taken.
    fn is_taken(&self, tensors: &[SharedArg]) -> bool {
        let Some((tensor, is)) = self.test else { return true };
        tensors.get(tensor).and_then(SharedArg::first_truth) == Some(is)
    }

    /// The call with which the run goes on, and the turn behind that; whether that is an earlier one.
    pub(super) fn follow(&self, at: usize, tensors: &[SharedArg]) -> (usize, usize, bool) {
        if self.is_taken(tensors) {
            (self.to, self.next, self.to < self.end)
        } else {
            (self.end, at + 1, false)
        }
    }
}
