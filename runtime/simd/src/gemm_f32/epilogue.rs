//! The operations that a matrix product applies to its sums while they are in registers, before it stores them.

use crate::math::Activation;

/// The operations applied to the sums of a matrix product `C = A B`: each element becomes `activation(sum + bias +
/// residual)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// One summand per column of `C`.
    pub bias: Option<&'a [f32]>,
    /// A matrix with one summand per element of `C`, and its row stride in elements.
    pub residual: Option<(&'a [f32], usize)>,
    /// The activation.
    pub activation: Activation,
}
