//! Cache maintenance between the host and an accelerator whose memory is not coherent. Lines that the host wrote are flushed
//! before the accelerator reads them. The host's copies of lines are invalidated before it reads what the accelerator wrote.
//!
//! The emulation keeps the host's cache, the memory, and a copy of the clean lines. Both operations copy whole lines to the
//! other side and to the clean copy.

use udo_api::{Error, ExecError, FinalizeCx, Io, Kernel};

/// The name of steps that write lines of the host's cache to the accelerator's memory.
pub const FLUSH: &str = "Flush";
/// The name of steps that reload lines of the host's cache from the accelerator's memory.
pub const INVALIDATE: &str = "Invalidate";

/// Copies lines to each of its outputs.
#[derive(Debug)]
pub struct Lines;

impl Kernel for Lines {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(Error::new("flushes and invalidations cannot be finalized: plans create them"))
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
