//! How a host lends threads to a run.

use super::RunError;

/// What is done with a chunk, by its number.
pub type Call<'a> = dyn Fn(usize, &mut [u8]) -> Result<(), RunError> + Sync + 'a;

/// Where threads come from. Calls of one parallel-for are made in any order, on any threads, and all have ended when it
/// returns.
pub trait Parallel {
    /// How many threads there are.
    fn threads(&self) -> usize;

    /// Calls `each` with the number of each chunk of `len` bytes, the last of which may be shorter, and the chunk.
    /// `len` is not 0. Does not use the heap.
    ///
    /// # Errors
    /// One of those that calls returned, or [`RunError::Stopped`] if the host has ended the run.
    fn chunks(&self, bytes: &mut [u8], len: usize, each: &Call<'_>) -> Result<(), RunError>;
}

/// The caller's thread alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Parallel for Alone {
    fn threads(&self) -> usize {
        1
    }

    fn chunks(&self, bytes: &mut [u8], len: usize, each: &Call<'_>) -> Result<(), RunError> {
        bytes.chunks_mut(len).enumerate().try_for_each(|(at, chunk)| each(at, chunk))
    }
}
