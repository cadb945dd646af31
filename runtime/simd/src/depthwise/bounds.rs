//! The taps of a window that are inside the image, and the checks of sizes that all loops rely on.

use std::ops::Range;

use crate::indirect::Window;

/// Returns the taps along an axis that are inside the image, for the window at output position `output`.
///
/// The window must satisfy [`is_sound`].
pub(crate) fn inside(window: &Window, axis: usize, output: usize) -> Range<usize> {
    let from = output * window.strides[axis];
    let (pad, dilation) = (window.pads[axis], window.dilations[axis]);
    // Avoids a division, which takes longer than the loads of a small window.
    let taps = |pixels: usize| if dilation == 1 { pixels } else { pixels.div_ceil(dilation) };
    let end = taps((window.input[axis] + pad).saturating_sub(from)).min(window.kernel[axis]);
    taps(pad.saturating_sub(from)).min(end)..end
}

/// Returns the input position along an axis of a tap that is inside the image, for the window at output position
/// `output`.
pub(crate) fn pixel(window: &Window, axis: usize, output: usize, tap: usize) -> usize {
    output * window.strides[axis] + tap * window.dilations[axis] - window.pads[axis]
}

/// Returns the number of output rows of a window, over all planes.
pub(crate) fn rows(window: &Window) -> Option<usize> {
    window.output[0].checked_mul(window.output[1])
}

/// Returns whether the positions of all taps fit `usize`, and the taps of a window have distinct positions.
pub(crate) fn is_sound(window: &Window) -> bool {
    (0..3).all(|axis| {
        let last = window.output[axis].saturating_sub(1).checked_mul(window.strides[axis]);
        let last_tap = window.kernel[axis].saturating_sub(1).checked_mul(window.dilations[axis]);
        let position = last.and_then(|last| last.checked_add(last_tap?));
        let end = window.input[axis].checked_add(window.pads[axis]);
        window.dilations[axis] > 0 && position.is_some() && end.is_some()
    })
}

/// Returns whether `count` pixels of `channels` elements, at a stride of `stride`, fit `len` elements without overlap.
pub(crate) fn holds(len: usize, count: Option<usize>, stride: usize, channels: usize) -> bool {
    let Some(count) = count else { return false };
    let Some(gaps) = count.checked_sub(1) else { return true };
    let end = gaps.checked_mul(stride).and_then(|start| start.checked_add(channels));
    (gaps == 0 || stride >= channels) && end.is_some_and(|end| end <= len)
}
