//! What surrounds the calls of a kernel: their memory, and what watches the heap meanwhile.

use std::fmt;

use udo_api::guard::thread_heap_calls;
use udo_host::{Buffer, OutOfMemory};

/// The pattern behind the bytes of [`Plain`] memory.
const UNTOUCHED: u8 = 0xa5;

/// How many bytes of the pattern there are.
const BEHIND: usize = 64;

/// What a piece of memory is for in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The elements of an input.
    Input(usize),
    /// The elements of an output.
    Output(usize),
    /// The elements of a constant input, as finalize sees them.
    Constant(usize),
    /// The scratch of the call.
    Scratch,
    /// The geometry of the call.
    Geometry,
}

impl Role {
    /// The word for it in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Output(_) => "output",
            Self::Constant(_) => "constant input",
            Self::Scratch => "scratch",
            Self::Geometry => "geometry",
        }
    }

    /// Its port, for tensors.
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

/// Bytes that a call uses. They stay at one address for as long as the memory lives.
pub trait Memory: fmt::Debug + Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// The bytes, to be changed; a call gets their address from here.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Makes the bytes read-only from now on, where the host can.
    ///
    /// # Errors
    /// The system refuses.
    fn seal(&self) -> Result<(), MemoryError> {
        Ok(())
    }

    /// Describes what was written around the bytes; nothing if that is untouched.
    fn stray(&self) -> Option<String>;
}

/// Why there is no memory for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryError(String);

impl MemoryError {
    /// An error with this message.
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

/// What a call did with the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapUse {
    /// Calls of the allocator.
    pub calls: u64,
    /// The bytes that the first of them asked for; 0 where the host does not know.
    pub first_bytes: usize,
}

impl HeapUse {
    /// Adds what happened later.
    pub(crate) fn add(&mut self, later: Self) {
        if self.calls == 0 {
            self.first_bytes = later.first_bytes;
        }
        self.calls += later.calls;
    }
}

/// Gives the calls of a kernel their memory, and watches the heap during them. Threads of a call share it.
pub trait Host: Sync {
    /// Allocates `len` bytes, aligned to at least `align`.
    ///
    /// # Errors
    /// The system has no such memory.
    fn memory(&self, role: Role, len: usize, align: usize) -> Result<Box<dyn Memory>, MemoryError>;

    /// Runs `body` and returns what the calling thread did with the heap meanwhile.
    fn watched(&self, body: &mut dyn FnMut()) -> HeapUse;
}

/// Memory of the host, which is as it should be.
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
    let found = bytes.len();
    Err(MemoryError::new(format!(
        "the host has {found} bytes at {:p} for {role}, expected {len} bytes aligned to {align}",
        bytes.as_ptr()
    )))
}

/// The host of a [`Bench`](crate::Bench): memory of the heap with a pattern behind it, and the allocator's count of the
/// thread, which needs [`udo_api::GuardAlloc`].
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Host for Plain {
    fn memory(&self, role: Role, len: usize, _: usize) -> Result<Box<dyn Memory>, MemoryError> {
        let memory = Padded::new(role, len);
        Ok(Box::new(memory.map_err(|error| MemoryError::new(format!("a tensor {error}")))?))
    }

    fn watched(&self, body: &mut dyn FnMut()) -> HeapUse {
        // Other threads of the program, such as other tests, use the heap meanwhile.
        let before = thread_heap_calls();
        body();
        HeapUse { calls: thread_heap_calls() - before, first_bytes: 0 }
    }
}

/// Bytes aligned as the runtime aligns tensors and scratch, with a pattern behind them.
#[derive(Debug)]
struct Padded {
    role: Role,
    buffer: Buffer,
    len: usize,
}

impl Padded {
    fn new(role: Role, len: usize) -> Result<Self, OutOfMemory> {
        let mut buffer = Buffer::zeroed(len + BEHIND)?;
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
        let is_whole = self.buffer.bytes()[self.len..].iter().all(|&byte| byte == UNTOUCHED);
        let whose = if self.role.port().is_some() { "" } else { "its " };
        (!is_whole).then(|| format!("the kernel writes beyond {whose}{}", self.role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_behind_a_tensor_are_watched() {
        let mut memory = Padded::new(Role::Output(1), 3).unwrap();
        memory.bytes_mut().fill(1);
        assert_eq!(memory.stray(), None);
        memory.buffer.bytes_mut()[3] = 0;
        assert_eq!(memory.stray().unwrap(), "the kernel writes beyond output 1");
        let mut memory = Padded::new(Role::Scratch, 0).unwrap();
        memory.buffer.bytes_mut()[BEHIND - 1] = 0;
        assert_eq!(memory.stray().unwrap(), "the kernel writes beyond its scratch");
    }
}
