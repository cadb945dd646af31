//! `struct Kept` of a kernel over slices: the state from finalize, and its use in a run.

/// A kernel over slices: `struct Kept`, and the loops.
pub(super) struct Loops {
    pub(super) kept: String,
    pub(super) execute: String,
}

/// The parts of `struct Kept`, as lines.
pub(super) struct KernelState {
    pub(super) fields: String,
    /// Its constructor.
    pub(super) made: String,
    /// The scratch of a run.
    pub(super) space: String,
    /// The views of a run.
    pub(super) io: String,
    pub(super) run: String,
}

impl KernelState {
    pub(super) fn print(&self) -> String {
        let Self { fields, made, space, io, run } = self;
        format!(
            "/// The state from finalize.\npub struct Kept {{\n{fields}}}\n\nimpl Kept {{\n    pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {{\n{made}    }}\n\n    \
             pub fn workspace(&self) -> Workspace {{\n        {space}\n    }}\n\n    \
             pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {{\n        {io}\n{run}    }}\n}}\n"
        )
    }
}
