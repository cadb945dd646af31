//! auto-generated once by `udo new`: yours to edit, never overwritten.
//!
//! Code that the kernels of TopKUdoPackage share on all cores. It is `no_std`, like the crates for the DSP.
#![no_std]
#![forbid(unsafe_code)]
