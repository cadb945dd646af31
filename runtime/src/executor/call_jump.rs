//! Jumps between calls.

use std::ops::Range;

use super::extents::SharedArg;
use udo_compile::plan::Plan;

/// A jump after a call.
pub(super) struct CallJump {
    /// The end of the range of calls before it.
    pub(super) end: usize,
    /// The tensor whose first element is the condition, with the value that it must have; `None` if the jump is
    /// unconditional.
    test: Option<(usize, bool)>,
    to: usize,
    /// The next jump if this one is taken.
    next: usize,
    /// The bounded outputs of the calls that run again, if it leads backward.
    pub(super) again: Range<usize>,
    /// The exchanges before the jump.
    pub(super) exchanges: Range<usize>,
}

impl CallJump {
    /// Returns the jumps of a plan. `first_tensor` has the first tensor of each step, and `outputs` the bounded outputs
    /// in order.
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

    /// Returns whether it is taken.
    fn is_taken(&self, tensors: &[SharedArg]) -> bool {
        let Some((tensor, is)) = self.test else { return true };
        tensors.get(tensor).and_then(SharedArg::first_bool) == Some(is)
    }

    /// Returns the next call, the next jump, and whether the call is an earlier one.
    pub(super) fn follow(&self, at: usize, tensors: &[SharedArg]) -> (usize, usize, bool) {
        if self.is_taken(tensors) {
            (self.to, self.next, self.to < self.end)
        } else {
            (self.end, at + 1, false)
        }
    }
}
