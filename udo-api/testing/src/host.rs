//! The environment of kernel calls under test: their memory, and the count of their heap calls.

use std::fmt;

use udo_api::guard::thread_heap_calls;
use udo_host::{Buffer, OutOfMemory};

/// The pattern after the bytes of [`Plain`] memory.
const UNTOUCHED: u8 = 0xa5;

/// The number of pattern bytes after [`Plain`] memory.
const GUARD_BYTES: usize = 64;

/// The purpose of memory in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The elements of an input.
    Input(usize),
    /// The elements of an output.
    Output(usize),
    /// The elements of a constant input, as finalize gets them.
    Constant(usize),
    /// The scratch of the call.
    Scratch,
    /// The geometry of the call.
    Geometry,
}

impl Role {
    /// Returns the name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Output(_) => "output",
            Self::Constant(_) => "constant input",
            Self::Scratch => "scratch",
            Self::Geometry => "geometry",
        }
    }

    /// Returns the port of a tensor.
    pub const fn port(self) -> Option<usize> {
        match self {
            Self::Input(port) | Self::Output(port) | Self::Constant(port) => Some(port),
            Self::Scratch | Self::Geometry => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.port().map_or(Ok(()), |port| write!(f, " {port}"))
    }
}

/// Bytes that a call uses. Their address does not change.
pub trait Memory: fmt::Debug + Send + Sync {
    /// Returns the bytes.
    fn bytes(&self) -> &[u8];

    /// Returns the bytes for writing; a call gets this address.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Makes the bytes read-only, if the host supports that.
    ///
    /// # Errors
    /// The system refuses.
    fn seal(&self) -> Result<(), MemoryError> {
        Ok(())
    }

    /// Describes a write outside of the bytes; `None` if none is detected.
    fn stray(&self) -> Option<String>;
}

/// Why memory for a call is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryError(String);

impl MemoryError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MemoryError {}

/// The heap use of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapUse {
    /// Calls of the allocator.
    pub calls: u64,
    /// The size requested by the first of them; 0 if unknown.
    pub first_bytes: usize,
}

impl HeapUse {
    /// Adds later heap use.
    pub(crate) fn add(&mut self, later: Self) {
        if self.calls == 0 {
            self.first_bytes = later.first_bytes;
        }
        self.calls += later.calls;
    }
}

/// Provides memory for kernel calls, and watches the heap during them. The threads of a call share it.
pub trait Host: Sync {
    /// Allocates `len` bytes, aligned to at least `align`.
    ///
    /// # Errors
    /// The system does not have enough memory.
    fn memory(&self, role: Role, len: usize, align: usize) -> Result<Box<dyn Memory>, MemoryError>;

    /// Runs `body` and returns the calling thread's heap use.
    fn watched(&self, body: &mut dyn FnMut()) -> HeapUse;
}

/// Returns memory of the host after checking its size and alignment.
pub(crate) fn allocated(
    host: &dyn Host,
    role: Role,
    len: usize,
    align: usize,
) -> Result<Box<dyn Memory>, MemoryError> {
    let memory = host.memory(role, len, align)?;
    let bytes = memory.bytes();
    if bytes.len() == len && bytes.as_ptr().addr().is_multiple_of(align.max(1)) {
        return Ok(memory);
    }
    let actual_len = bytes.len();
    Err(MemoryError::new(format!(
        "the host has {actual_len} bytes at {:p} for {role}, expected {len} bytes aligned to {align}",
        bytes.as_ptr()
    )))
}

/// The host of a [`Bench`](crate::Bench): heap memory with a pattern after it, and the allocator's count of the thread,
/// which needs [`udo_api::GuardAlloc`].
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Host for Plain {
    fn memory(&self, role: Role, len: usize, _: usize) -> Result<Box<dyn Memory>, MemoryError> {
        let memory = Padded::new(role, len);
        Ok(Box::new(memory.map_err(|error| MemoryError::new(format!("a tensor {error}")))?))
    }

    fn watched(&self, body: &mut dyn FnMut()) -> HeapUse {
        // Other threads of the program, such as other tests, use the heap concurrently.
        let previous_calls = thread_heap_calls();
        body();
        HeapUse { calls: thread_heap_calls() - previous_calls, first_bytes: 0 }
    }
}

/// Bytes aligned as the runtime aligns tensors and scratch, followed by a pattern.
#[derive(Debug)]
struct Padded {
    role: Role,
    buffer: Buffer,
    len: usize,
}

impl Padded {
    fn new(role: Role, len: usize) -> Result<Self, OutOfMemory> {
        let mut buffer = Buffer::zeroed(len + GUARD_BYTES)?;
        buffer.bytes_mut()[len..].fill(UNTOUCHED);
        Ok(Self { role, buffer, len })
    }
}

impl Memory for Padded {
    fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes_mut()[..self.len]
    }

    fn stray(&self) -> Option<String> {
        let is_intact = self.buffer.bytes()[self.len..].iter().all(|&byte| byte == UNTOUCHED);
        let article = if self.role.port().is_some() { "" } else { "its " };
        (!is_intact).then(|| format!("the kernel writes beyond {article}{}", self.role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_after_the_end_of_memory_are_reported() {
        let mut memory = Padded::new(Role::Output(1), 3).unwrap();
        memory.bytes_mut().fill(1);
        assert_eq!(memory.stray(), None);
        memory.buffer.bytes_mut()[3] = 0;
        assert_eq!(memory.stray().unwrap(), "the kernel writes beyond output 1");
        let mut memory = Padded::new(Role::Scratch, 0).unwrap();
        memory.buffer.bytes_mut()[GUARD_BYTES - 1] = 0;
        assert_eq!(memory.stray().unwrap(), "the kernel writes beyond its scratch");
    }
}
