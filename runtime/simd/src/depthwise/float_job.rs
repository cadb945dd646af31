//! `f32`: what the loops work on.

use std::ops::Range;

use super::{Activation, Shape};

/// Channels whose packed weights lie together, the lanes of the widest vector.
pub(super) const STRIP: usize = 16;

/// The first channel of a strip. The last strip overlaps the one before rather than be less than
/// whole, unless it is the only one.
pub(super) fn first_channel(strip: usize, channels: usize) -> usize {
    (strip * STRIP).min(channels.saturating_sub(STRIP))
}

/// What the loops work on. `depthwise` has checked that all pixels of the input and of the rows, the
/// weights and the bias lie where the pointers say.
pub(super) struct Job<'a> {
    pub(super) shape: &'a Shape,
    pub(super) x: *const f32,
    pub(super) x_stride: usize,
    /// Whether input and output are beyond the second-level cache.
    pub(super) exceeds_l2: bool,
    /// Strip after strip, each with its lanes for each tap.
    pub(super) weights: *const f32,
    /// A number per channel, or null.
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
    /// The first channel of a strip.
    #[inline(always)]
    pub(super) fn channel(&self, strip: usize) -> usize {
        first_channel(strip, self.channels)
    }
}
