//! What needs unsafe code: memory between guard pages, the heap that is watched, time, and the state of the process that calls
//! must leave alone.

pub(crate) mod clock;
pub(crate) mod fault;
pub(crate) mod heap;
pub(crate) mod memory;
pub(crate) mod surroundings;
pub(crate) mod transfers;
