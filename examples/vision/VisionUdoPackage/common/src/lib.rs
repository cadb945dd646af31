//! auto-generated once by `udo new`: yours to edit, never overwritten.
//!
//! What the kernels of VisionUdoPackage share on every core. It has no `std`, as crates for the DSP have none.
#![no_std]
#![forbid(unsafe_code)]
