//! Operations on sums before they are stored.

use crate::math::Activation;

/// The operations applied to sums before they are stored: `activation(sum + bias + residual)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// One element per column.
    pub bias: Option<&'a [f32]>,
    /// A matrix of the size of `C`, and its row stride.
    pub residual: Option<(&'a [f32], usize)>,
    /// The activation.
    pub activation: Activation,
}
