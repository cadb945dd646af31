//! Convolutions of 8-bit (or u16) quantized values with i8 weights and exact integer sums, over pixels whose
//! channels are adjacent.
//!
//! A convolution is the product of [`gemm_u8`](super::gemm_u8) with rows that a table of
//! [`indirect`](super::indirect) gathers: a row for each output pixel, of an input pixel for each tap
//! (Dukhan, "The Indirect Convolution Algorithm", 2019). Tiles, sums, scales and [`Output`] are those of
//! the product. A tap outside reads a row of padding that the caller lends, for which ONNX wants the
//! input's zero point throughout.
//!
//! Each entry of a table is checked, so that no table reads beyond the input. A caller with several
//! threads gives each some rows of the table, and the output pixels that belong to them.
//!
//! A kernel of 1 with stride 1 and no padding needs no table: `gemm_u8` computes it from the same
//! packed weights, as those of one tap and one group are those of the matrix `[channels, outputs]`.
//! A depthwise convolution comes out right but slow, for its groups are narrower than a vector.
//! [`Transposed`] is the same for transposed convolutions.
//!
//! # Few channels
//!
//! Each tap takes its channels in groups of 4, so that 3 channels take a third more time than they need,
//! and each tap looks its pixels up again. Where the input has no padding within the image, or was padded
//! by [`pad`], the taps along the last axis lie behind each other in memory, and [`Shape::run`] reads
//! them as one: then the first layer of ResNet-50 does 42 groups per pixel instead of 49, and the copy
//! included takes less than half the time.

// The tests' fences are Linux's.
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod transposed;

use std::fmt;

pub use crate::gemm_u8::{Activation, MAX_K, MAX_K_U16_SUMS, Output};
use crate::gemm_u8::{Depth, MicroKernels, Product, Rows, holds, kernels, pack_panels, panels_len};
use crate::isa::isa;
pub use transposed::Transposed;

/// The shape of a convolution's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Parts of the channels, each with outputs of its own.
    pub groups: usize,
    /// Input channels of a group.
    pub channels: usize,
    /// Output channels of a group.
    pub outputs: usize,
    /// Taps of the kernel, over all axes.
    pub taps: usize,
    /// How many taps of the last axis are read as one, which the table names by the first of them: 1, or
    /// a divisor of `taps` if there is one group and the channels of those taps are adjacent.
    pub run: usize,
}

impl Shape {
    /// Entries that a table has for each output pixel; none if the shape contradicts itself.
    pub fn columns(&self) -> Option<usize> {
        let whole = self.run > 0 && self.taps > 0 && self.taps.is_multiple_of(self.run);
        (whole && (self.run == 1 || self.groups == 1)).then(|| self.taps / self.run)
    }

    fn depth(&self) -> Option<Depth> {
        Some(Depth { taps: self.columns()?, channels: self.channels.checked_mul(self.run)? })
    }

    /// Elements that a row of padding needs: the channels of a tap or run, and up to 3 more.
    pub fn padding_len(&self) -> Option<usize> {
        self.depth()?.channels.checked_next_multiple_of(4)
    }

    /// Elements that [`pack`] writes; none if the shape contradicts itself or is beyond memory.
    pub fn packed_len(&self) -> Option<usize> {
        let len = panels_len(self.depth()?, self.outputs)?.checked_mul(self.groups)?;
        (isize::try_from(len).is_ok()).then_some(len)
    }
}

/// Packs `weights` `[groups * outputs, channels, taps]`, in ONNX order, for [`conv`]. Returns whether it
/// could: both slices must be as long as the shape says.
#[must_use]
pub fn pack(weights: &[i8], shape: &Shape, to: &mut [i8]) -> bool {
    let Shape { groups, channels, outputs, taps, run } = *shape;
    let len = groups.checked_mul(outputs).and_then(|len| len.checked_mul(channels));
    let len = len.and_then(|len| len.checked_mul(taps));
    let (Some(depth), Some(packed_len)) = (shape.depth(), shape.packed_len()) else { return false };
    if len != Some(weights.len()) || packed_len != to.len() {
        return false;
    }
    for (group, to) in to.chunks_exact_mut((packed_len / groups.max(1)).max(1)).enumerate() {
        pack_panels(depth, outputs, to, |output, column, place| {
            let (within, channel) = (place / channels, place % channels);
            let filter = (group * outputs + output) * channels + channel;
            weights[filter * taps + column * run + within]
        });
    }
    true
}

/// Weights as [`pack`] wrote them.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Their shape.
    pub shape: Shape,
    /// [`Shape::packed_len`] elements; fastest if they begin at a multiple of 64 bytes.
    pub packed: &'a [i8],
    /// The values that stand for zero: none where all are 0, one for all outputs, or one for each.
    pub zero_points: &'a [i8],
}

/// The pixels that a table names.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a, T> {
    /// Pixel by pixel, each pixel's channels adjacent, the groups behind each other.
    pub data: &'a [T],
    /// From a pixel to the next, in elements.
    pub stride: usize,
    /// The value that stands for zero.
    pub zero_point: T,
    /// What a tap outside reads, [`Shape::padding_len`] elements; may be empty if no tap is outside.
    pub padding: &'a [T],
}

/// Images that share a table, each so many elements behind the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// How many images.
    pub count: usize,
    /// Elements from an input image to the next.
    pub input: usize,
    /// Elements from an output image to the next; at least what an image takes.
    pub output: usize,
}

impl Batch {
    /// One image.
    pub const ONE: Self = Self { count: 1, input: 0, output: 0 };
}

/// Why a convolution was not computed: its arguments contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConvError {
    /// A sum has more products than [`MAX_K`], or than [`MAX_K_U16_SUMS`] where that holds.
    TooDeep,
    /// The weights have another length than their shape says, or the shape contradicts itself.
    Weights,
    /// The table has no whole rows, or names a pixel that the input does not have.
    Table,
    /// A tap is outside, and the row of padding is too short.
    Padding,
    /// Scales, zero points or a bias are neither for all outputs nor for each.
    Columns,
    /// The output has fewer elements than its pixels need, or its pixels overlap.
    Output,
}

impl fmt::Display for ConvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooDeep => "a window has more products than its sums hold",
            Self::Weights => "the weights are not as long as their shape says",
            Self::Table => "the table names pixels that the input does not have",
            Self::Padding => "the row of padding is too short",
            Self::Columns => "scales, zero points or bias fit neither all outputs nor each",
            Self::Output => "the output is shorter than its pixels",
        })
    }
}

impl std::error::Error for ConvError {}

/// Convolves each image of the batch: for each row of `table`, a pixel of `groups * outputs` channels,
/// `stride` elements behind the one before. `bias` has no element, one, or one for each output channel.
///
/// With input values `x` of zero point `zx`, weights `w` of zero point `zw` for each output, the sum is
/// `bias + Σ (x - zx) * (w - zw)` over the taps and channels, exact as for
/// [`gemm`](super::gemm_u8::gemm()).
///
/// # Errors
///
/// Refuses arguments that contradict each other; nothing is written then.
pub fn conv(
    batch: &Batch,
    input: &Input<'_, u8>,
    weights: &Weights<'_>,
    table: &[u32],
    bias: &[i32],
    output: Output<'_>,
    stride: usize,
) -> Result<(), ConvError> {
    conv_by(kernels(isa()), batch, input, weights, table, bias, output, stride)
}

/// As [`conv`] for u16 values; slower.
///
/// # Errors
///
/// As `conv`, and if the sums are wanted and have more than [`MAX_K_U16_SUMS`] products.
pub fn conv_u16(
    batch: &Batch,
    input: &Input<'_, u16>,
    weights: &Weights<'_>,
    table: &[u32],
    bias: &[i32],
    output: Output<'_>,
    stride: usize,
) -> Result<(), ConvError> {
    conv_u16_by(kernels(isa()), batch, input, weights, table, bias, output, stride)
}

#[expect(clippy::too_many_arguments, reason = "those of `conv`, and the kernels")]
fn conv_by(
    kernels: &'static MicroKernels,
    batch: &Batch,
    input: &Input<'_, u8>,
    weights: &Weights<'_>,
    table: &[u32],
    bias: &[i32],
    mut output: Output<'_>,
    stride: usize,
) -> Result<(), ConvError> {
    let checked = check(kernels, batch, input, weights, table, bias, &output, stride)?;
    checked.each(kernels, batch, input, weights, table, bias, |product, at| {
        // SAFETY: `kernels` hands out only what this machine has; `check` made sure that the pixels of the
        // table lie in the image, and that the weights are as long as their shape says.
        unsafe { product.run(checked.rows, &mut output, at, stride) }
    });
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "those of `conv_u16`, and the kernels")]
fn conv_u16_by(
    kernels: &'static MicroKernels,
    batch: &Batch,
    input: &Input<'_, u16>,
    weights: &Weights<'_>,
    table: &[u32],
    bias: &[i32],
    mut output: Output<'_>,
    stride: usize,
) -> Result<(), ConvError> {
    let checked = check(kernels, batch, input, weights, table, bias, &output, stride)?;
    let depth = checked.depth.taps * checked.depth.channels;
    if matches!(output, Output::I32(_)) && depth > MAX_K_U16_SUMS {
        return Err(ConvError::TooDeep);
    }
    checked.each(kernels, batch, input, weights, table, bias, |product, at| {
        // SAFETY: `kernels` hands out only what this machine has; `check` made sure that the pixels of the
        // table lie in the image, and that the weights are as long as their shape says.
        unsafe { product.run_wide(checked.rows, &mut output, at, stride) }
    });
    Ok(())
}

/// What the check of the arguments found out.
#[derive(Clone, Copy)]
struct Checked {
    depth: Depth,
    /// Output pixels of an image.
    rows: usize,
}

impl Checked {
    /// Does something for the product of each group of each image, and for where it goes.
    #[expect(clippy::too_many_arguments, reason = "a part of the functions above")]
    fn each<T: Copy>(
        self,
        kernels: &'static MicroKernels,
        batch: &Batch,
        input: &Input<'_, T>,
        weights: &Weights<'_>,
        table: &[u32],
        bias: &[i32],
        mut body: impl FnMut(&Product<'_, T>, usize),
    ) {
        let Shape { groups, channels, outputs, .. } = weights.shape;
        if self.rows == 0 {
            return;
        }
        for (group, packed) in
            (0..groups).zip(weights.packed.chunks((weights.packed.len() / groups.max(1)).max(1)))
        {
            for image in 0..batch.count {
                let product = Product {
                    kernels,
                    data: &input.data[(image * batch.input)
                        .saturating_add(group * channels)
                        .min(input.data.len())..],
                    zero_point: input.zero_point,
                    rows: Rows::Table { table, stride: input.stride, padding: input.padding },
                    depth: self.depth,
                    packed,
                    n: outputs,
                    column: group * outputs,
                    zero_points: weights.zero_points,
                    bias,
                };
                body(&product, image * batch.output + group * outputs);
            }
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "those of `conv_by`")]
fn check<T>(
    kernels: &'static MicroKernels,
    batch: &Batch,
    input: &Input<'_, T>,
    weights: &Weights<'_>,
    table: &[u32],
    bias: &[i32],
    output: &Output<'_>,
    stride: usize,
) -> Result<Checked, ConvError> {
    let shape = &weights.shape;
    let depth = shape.depth().ok_or(ConvError::Weights)?;
    if depth.taps.checked_mul(depth.channels).is_none_or(|depth| depth > MAX_K) {
        return Err(ConvError::TooDeep);
    }
    if shape.packed_len() != Some(weights.packed.len()) {
        return Err(ConvError::Weights);
    }
    let n = shape.groups.checked_mul(shape.outputs).ok_or(ConvError::Weights)?;
    if !output.fits(n, weights.zero_points, bias) {
        return Err(ConvError::Columns);
    }
    if !table.len().is_multiple_of(depth.taps) {
        return Err(ConvError::Table);
    }
    let rows = table.len() / depth.taps;
    if batch.count == 0 || rows == 0 {
        return Ok(Checked { depth, rows: 0 });
    }
    // The channels of a pixel, or of a run of pixels.
    let width = shape.groups.checked_mul(depth.channels).ok_or(ConvError::Weights)?;
    let before = (batch.count - 1).checked_mul(batch.input).ok_or(ConvError::Table)?;
    let room = input.data.len().checked_sub(before).and_then(|len| len.checked_sub(width));
    let pixels =
        room.map_or(0, |room| room.checked_div(input.stride).map_or(usize::MAX, |n| n + 1));
    let (inside, has_padding) = kernels.reach(table);
    if usize::try_from(inside).is_ok_and(|inside| inside > pixels) {
        return Err(ConvError::Table);
    }
    let padding_len = shape.padding_len().unwrap_or(usize::MAX);
    if has_padding && input.padding.len() < padding_len {
        return Err(ConvError::Padding);
    }
    let image = (rows - 1).checked_mul(stride).and_then(|start| start.checked_add(n));
    let image = image.ok_or(ConvError::Output)?;
    let before = (batch.count - 1).checked_mul(batch.output).ok_or(ConvError::Output)?;
    let room = output.len().checked_sub(before).ok_or(ConvError::Output)?;
    let apart = batch.count == 1 || batch.output >= image;
    if apart && holds(room, rows, stride, n) {
        Ok(Checked { depth, rows })
    } else {
        Err(ConvError::Output)
    }
}

/// Copies an image of `[rows, columns]` pixels with adjacent channels into one with a border of `fill`:
/// `before` and `after` are rows and columns of pixels. Returns whether it could: both slices must be as
/// long as their image.
#[must_use]
pub fn pad<T: Copy>(
    image: &[T],
    size: [usize; 2],
    channels: usize,
    before: [usize; 2],
    after: [usize; 2],
    fill: T,
    to: &mut [T],
) -> bool {
    let padded = |axis: usize| before[axis].checked_add(size[axis])?.checked_add(after[axis]);
    let area = |rows: usize, columns: usize| rows.checked_mul(columns)?.checked_mul(channels);
    let (Some(rows), Some(columns)) = (padded(0), padded(1)) else { return false };
    if area(size[0], size[1]) != Some(image.len()) || area(rows, columns) != Some(to.len()) {
        return false;
    }
    if to.is_empty() {
        return true;
    }
    let (inner, width) = (size[1] * channels, columns * channels);
    let (top, rest) = to.split_at_mut(before[0] * width);
    let (middle, bottom) = rest.split_at_mut(size[0] * width);
    top.fill(fill);
    bottom.fill(fill);
    for (row, to) in middle.chunks_exact_mut(width).enumerate() {
        let (left, rest) = to.split_at_mut(before[1] * channels);
        let (middle, right) = rest.split_at_mut(inner);
        left.fill(fill);
        middle.copy_from_slice(&image[row * inner..][..inner]);
        right.fill(fill);
    }
    true
}
