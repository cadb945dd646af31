//! Where a run goes on elsewhere than with the next step.

/// What comes after a step, where that may be another one than the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The step.
    pub after: usize,
    /// The truth that has to be so; nothing where the run always goes on elsewhere.
    pub test: Option<Test>,
    /// The step with which the run goes on then, or how many there are.
    pub to: usize,
}

/// One element of a tensor of truths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Which tensor of the step, counted over its inputs and then its outputs.
    pub port: usize,
    /// What it has to be.
    pub is: bool,
}

impl Jump {
    /// The same where step `n` has become step `starts[n]`.
    pub(super) fn moved(self, starts: &[usize]) -> Self {
        let to = |step: usize| starts.get(step).copied().unwrap_or(usize::MAX);
        Self { after: to(self.after), to: to(self.to), ..self }
    }
}
