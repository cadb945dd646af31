//! The operands of the `f32` loops.

use std::ops::Range;

use super::{Activation, Shape};

/// Channels whose packed weights are adjacent: the lanes of the widest vector.
pub(super) const STRIP: usize = 16;

/// Returns the first channel of a strip. The last strip overlaps the one before instead of being partial, unless it is
/// the only one.
pub(super) fn first_channel(strip: usize, channels: usize) -> usize {
    (strip * STRIP).min(channels.saturating_sub(STRIP))
}

/// The operands of the loops. `depthwise` has checked that all pixels of the input and of the rows, the weights and the
/// bias are where the pointers say.
pub(super) struct Job<'a> {
    pub(super) shape: &'a Shape,
    pub(super) x: *const f32,
    pub(super) x_stride: usize,
    /// Whether input and output exceed the second-level cache.
    pub(super) exceeds_l2: bool,
    /// Strip by strip, each with its lanes for each tap.
    pub(super) weights: *const f32,
    /// One element per channel, or null.
    pub(super) bias: *const f32,
    pub(super) activation: Activation,
    pub(super) clamp: Option<(f32, f32)>,
    pub(super) rows: Range<usize>,
    /// The first of the rows.
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
