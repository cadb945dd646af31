//! Jumps between steps, which implement branches and loops. A plan without jumps runs its steps in order.

/// A jump after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The step after which the jump is taken.
    pub after: usize,
    /// The condition of the jump; `None` if it is unconditional.
    pub test: Option<Test>,
    /// The step that follows, or the number of steps to end the run.
    pub to: usize,
}

/// A condition: one element of a bool tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// The port of the tensor, counted over the step's inputs, then its outputs.
    pub port: usize,
    /// The value of the element with which the jump is taken.
    pub is: bool,
}

impl Jump {
    /// Returns the jump after renumbering: step `n` has become step `starts[n]`.
    pub(super) fn moved(self, starts: &[usize]) -> Self {
        let to = |step: usize| starts.get(step).copied().unwrap_or(usize::MAX);
        Self { after: to(self.after), to: to(self.to), ..self }
    }
}
