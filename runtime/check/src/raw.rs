//! The unsafe code of the suite: memory between guard pages, the watched heap, thread time, and the process state that
//! calls must not change.

pub(crate) mod clock;
pub(crate) mod fault;
pub(crate) mod heap;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod interposed;
pub(crate) mod memory;
pub(crate) mod surroundings;
pub(crate) mod transfers;
