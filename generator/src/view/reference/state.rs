//! Prints `struct Kept` of a first kernel over slices: the state computed in finalize, and its use in `execute`.

/// The Rust code of a kernel over slices: `struct Kept`, and the functions with the loops.
pub(super) struct Loops {
    pub(super) state: String,
    pub(super) execute: String,
}

/// The code that is inserted into `struct Kept` and its `impl`, indented and one statement per line.
pub(super) struct KernelState {
    pub(super) fields: String,
    /// The body of its constructor.
    pub(super) constructor: String,
    /// The expression of the `Workspace`: the scratch memory of a run.
    pub(super) workspace: String,
    /// The statement that destructures `Io`.
    pub(super) io: String,
    /// The remaining statements of `execute`.
    pub(super) run: String,
}

impl KernelState {
    pub(super) fn print(&self) -> String {
        let Self { fields, constructor, workspace, io, run } = self;
        format!(
            "/// The state from finalize.\npub struct Kept {{\n{fields}}}\n\nimpl Kept {{\n    pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {{\n{constructor}    }}\n\n    \
             pub fn workspace(&self) -> Workspace {{\n        {workspace}\n    }}\n\n    \
             pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {{\n        {io}\n{run}    }}\n}}\n"
        )
    }
}
