//! What becomes of a sum before it is stored.

use crate::math::Activation;

/// What is done to the sums before they are stored: `activation(sum + bias + residual)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// A number per column.
    pub bias: Option<&'a [f32]>,
    /// A matrix as large as `C`, and how many elements its rows lie apart.
    pub residual: Option<(&'a [f32], usize)>,
    /// The last step.
    pub activation: Activation,
}
