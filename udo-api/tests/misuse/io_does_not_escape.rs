//! Views of a call live as long as the call.
use std::sync::Mutex;

use udo_api::{Error, ExecError, FinalizeCx, Io, Kernel};

struct Hoarder {
    kept: Mutex<&'static [f32]>,
}

impl Kernel for Hoarder {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { kept: Mutex::new(&[]) })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        *self.kept.lock().unwrap() = io.inputs.get::<f32>(0)?;
        Ok(())
    }
}

fn main() {}
