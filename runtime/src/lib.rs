//! Model in, results out: runs graphs of built-in and user operators on emulated cores.

pub mod memory;
