//! The operands of the `f32` loops, which `float` checks and all algorithms share.

use std::ops::Range;

use super::{Activation, Shape};

/// Channels whose packed weights are adjacent: the lanes of the widest vector.
pub(super) const STRIP: usize = 16;

/// Returns the first channel of a strip. The last strip overlaps the previous one instead of being partial, unless it
/// is the only strip.
pub(super) fn first_channel(strip: usize, channels: usize) -> usize {
    (strip * STRIP).min(channels.saturating_sub(STRIP))
}

/// The operands of the loops. `depthwise` has checked that the pointers are valid for all pixels of the input and of
/// the output rows, for the weights and for the bias.
pub(super) struct Job<'a> {
    pub(super) shape: &'a Shape,
    pub(super) x: *const f32,
    pub(super) x_stride: usize,
    /// Whether input and output exceed the second-level cache.
    pub(super) exceeds_l2: bool,
    /// Packed weights: for each strip, the weights of its channels tap by tap.
    pub(super) weights: *const f32,
    /// One element per channel, or null.
    pub(super) bias: *const f32,
    pub(super) activation: Activation,
    pub(super) clamp: Option<(f32, f32)>,
    /// Output rows to compute.
    pub(super) rows: Range<usize>,
    /// The first pixel of these rows.
    pub(super) y: *mut f32,
    pub(super) y_stride: usize,
    /// Output channels.
    pub(super) channels: usize,
}

impl Job<'_> {
    /// Returns the first channel of a strip.
    #[inline(always)]
    pub(super) fn channel(&self, strip: usize) -> usize {
        first_channel(strip, self.channels)
    }
}
