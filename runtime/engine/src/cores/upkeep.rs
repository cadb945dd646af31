//! Steps that keep host and accelerator in step where their memory is not coherent: what the host wrote is flushed before the
//! accelerator reads it, and what the host has of it is invalidated before it reads what the accelerator wrote.
//!
//! Both are copies of whole lines from one side to the other, and to what the cache has for clean.

use udo_api::{Error, ExecError, FinalizeCx, Io, Kernel};

/// What a step is called that writes lines of the host's cache to the accelerator's memory.
pub const FLUSH: &str = "Flush";
/// What a step is called that has lines of the host's cache be those of the accelerator's memory.
pub const INVALIDATE: &str = "Invalidate";

/// Copies lines to each of its outputs.
#[derive(Debug)]
pub struct Lines;

impl Kernel for Lines {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(Error::new("flushes and invalidations are the plan's own"))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let lines = inputs.get::<u8>(0)?;
        for output in 0..2 {
            for (to, from) in outputs.take::<u8>(output)?.iter_mut().zip(lines) {
                *to = *from;
            }
        }
        Ok(())
    }
}
