//! `struct Kept` of a kernel over slices: what finalize keeps, and what a run does with it.

/// A kernel over slices: `struct Kept`, and the loops.
pub(super) struct Loops {
    pub(super) kept: String,
    pub(super) execute: String,
}

/// Its parts, as lines.
pub(super) struct Kept {
    pub(super) fields: String,
    /// How it is made.
    pub(super) made: String,
    /// The scratch of a run.
    pub(super) space: String,
    /// What a run takes.
    pub(super) io: String,
    pub(super) run: String,
}

impl Kept {
    pub(super) fn print(&self) -> String {
        let Self { fields, made, space, io, run } = self;
        format!(
            "/// What finalize keeps.\npub struct Kept {{\n{fields}}}\n\nimpl Kept {{\n    pub fn of(cx: &FinalizeCx<'_>) -> Result<Self, Error> {{\n{made}    }}\n\n    \
             pub fn workspace(&self) -> Workspace {{\n        {space}\n    }}\n\n    \
             pub fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {{\n        {io}\n{run}    }}\n}}\n"
        )
    }
}
