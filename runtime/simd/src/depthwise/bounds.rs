//! Which taps of a window lie in the image.

use std::ops::Range;

use crate::indirect::Window;

/// The taps along an axis of the window at `at` that lie in the image.
///
/// The window is one that [`is_sound`] takes.
pub(crate) fn inside(window: &Window, axis: usize, at: usize) -> Range<usize> {
    let from = at * window.strides[axis];
    let (pad, dilation) = (window.pads[axis], window.dilations[axis]);
    // A division takes longer than the loads of a small window.
    let taps = |pixels: usize| if dilation == 1 { pixels } else { pixels.div_ceil(dilation) };
    let end = taps((window.input[axis] + pad).saturating_sub(from)).min(window.kernel[axis]);
    taps(pad.saturating_sub(from)).min(end)..end
}

/// The input pixel along an axis of a tap that lies in the image.
pub(crate) fn pixel(window: &Window, axis: usize, at: usize, tap: usize) -> usize {
    at * window.strides[axis] + tap * window.dilations[axis] - window.pads[axis]
}

/// The output rows of a window: those of all planes.
pub(crate) fn rows(window: &Window) -> Option<usize> {
    window.output[0].checked_mul(window.output[1])
}

/// Whether every tap of every window has a position, and taps differ in theirs.
pub(crate) fn is_sound(window: &Window) -> bool {
    (0..3).all(|axis| {
        let last = window.output[axis].saturating_sub(1).checked_mul(window.strides[axis]);
        let tap = window.kernel[axis].saturating_sub(1).checked_mul(window.dilations[axis]);
        let reach = last.and_then(|last| last.checked_add(tap?));
        let end = window.input[axis].checked_add(window.pads[axis]);
        window.dilations[axis] > 0 && reach.is_some() && end.is_some()
    })
}

/// Whether `count` pixels of `channels` elements, `stride` apart, lie in `len` elements.
pub(crate) fn holds(len: usize, count: Option<usize>, stride: usize, channels: usize) -> bool {
    let Some(count) = count else { return false };
    let Some(gaps) = count.checked_sub(1) else { return true };
    let end = gaps.checked_mul(stride).and_then(|start| start.checked_add(channels));
    (gaps == 0 || stride >= channels) && end.is_some_and(|end| end <= len)
}
