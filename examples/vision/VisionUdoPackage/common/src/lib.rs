//! auto-generated once by `udo new`: yours to edit, never overwritten.
//!
//! What the kernels of VisionUdoPackage share on every core. It has no `std`, as crates for the DSP have none.
#![no_std]
#![forbid(unsafe_code)]

use core::f32::consts::FRAC_1_SQRT_2;

/// The Gaussian error linear unit: `x` times the share of a normal distribution that is below it.
pub fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))
}

/// Abramowitz and Stegun, 7.1.28, which wants no exponential.
fn erf(x: f32) -> f32 {
    let p = [
        0.0705230784,
        0.0422820123,
        0.0092705272,
        0.0001520143,
        0.0002765672,
        0.0000430638,
    ];
    let sum = 1.0 + p.iter().rev().fold(0.0, |sum, p| (sum + p) * x.abs());
    let fourth = sum * sum * sum * sum;
    (1.0 - 1.0 / (fourth * fourth * fourth * fourth)).copysign(x)
}
