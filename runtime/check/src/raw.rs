//! What needs unsafe code: memory between guard pages, the heap that is watched, time, and the state of the process that calls
//! must leave alone.

pub(crate) mod clock;
pub(crate) mod fault;
pub(crate) mod heap;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod interposed;
pub(crate) mod memory;
pub(crate) mod surroundings;
pub(crate) mod transfers;
