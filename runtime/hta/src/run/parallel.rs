//! The interface through which a host provides threads to a run.

use super::RunError;

/// The body of a parallel loop; called with a chunk and its index.
pub type Call<'a> = dyn Fn(usize, &mut [u8]) -> Result<(), RunError> + Sync + 'a;

/// A provider of threads. The calls of one parallel loop run in any order on any threads, and have all ended when it
/// returns.
pub trait Parallel {
    /// Returns the number of threads.
    fn threads(&self) -> usize;

    /// Calls `each` with each chunk of `len` bytes and its index. The last chunk may be shorter; `len` is not 0. Does
    /// not allocate.
    ///
    /// # Errors
    /// Returns the error of one of the calls, or [`RunError::Stopped`] if the host stopped the run.
    fn chunks(&self, bytes: &mut [u8], len: usize, each: &Call<'_>) -> Result<(), RunError>;
}

/// Runs everything on the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Parallel for Alone {
    fn threads(&self) -> usize {
        1
    }

    fn chunks(&self, bytes: &mut [u8], len: usize, each: &Call<'_>) -> Result<(), RunError> {
        bytes.chunks_mut(len).enumerate().try_for_each(|(index, chunk)| each(index, chunk))
    }
}
