//! A kernel is shared by sessions on several threads, so it must be `Send` and `Sync`.
use std::cell::Cell;

use udo_api::{Error, ExecError, FinalizeCx, Io, Kernel};

struct Counting {
    calls: Cell<u32>,
}

impl Kernel for Counting {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { calls: Cell::new(0) })
    }

    fn execute(&self, _: Io<'_>) -> Result<(), ExecError> {
        self.calls.set(self.calls.get() + 1);
        Ok(())
    }
}

fn main() {}
