//! Convolution of 8- or 16-bit unsigned values with i8 weights and exact integer sums, for images with channels last.
//!
//! The convolution is the product of [`gemm_u8`](super::gemm_u8) with rows gathered through a table of
//! [`indirect`](super::indirect): one row per output pixel, with one input pixel per tap (Dukhan, "The Indirect
//! Convolution Algorithm", 2019). Tiles, sums, scales and [`Output`] are those of the product. A tap outside the image
//! reads a row of padding from the caller, which for ONNX holds the input's zero point.
//!
//! Every table entry is checked, so that no table reads outside the input. A caller with several threads gives each
//! thread some rows of the table, and the output pixels that belong to them.
//!
//! A 1x1 kernel with stride 1 and without padding needs no table: use `gemm_u8` with the same packed weights, since
//! those of one tap and one group are packed like the matrix `[channels, outputs]`. Depthwise convolution gives correct
//! results but is slow, because its groups are narrower than a vector. [`Transposed`] handles transposed convolutions.
//!
//! # Few channels
//!
//! Each tap takes its channels in groups of 4, so 3 channels cost as much as 4, and each tap looks up its pixel again.
//! If the image has no padding, or was padded by [`pad`], the taps along the last axis are contiguous in memory, and
//! [`Shape::run`] reads them as one. The first layer of ResNet-50 then takes 42 groups per pixel instead of 49, and
//! less than half the time including the copy.

// The tests' memory with protected pages needs Linux.
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
    /// Number of groups.
    pub groups: usize,
    /// Input channels per group.
    pub channels: usize,
    /// Output channels per group.
    pub outputs: usize,
    /// Taps of the kernel, over all axes.
    pub taps: usize,
    /// Number of taps along the last axis that are read as one run; the table has an entry for the first tap of each
    /// run. It is 1, or a divisor of `taps` if there is one group and the channels of these taps are contiguous.
    pub run: usize,
}

impl Shape {
    /// Returns the table entries per output pixel; `None` if the shape is inconsistent.
    pub fn columns(&self) -> Option<usize> {
        let whole = self.run > 0 && self.taps > 0 && self.taps.is_multiple_of(self.run);
        (whole && (self.run == 1 || self.groups == 1)).then(|| self.taps / self.run)
    }

    /// Returns the depth of the product: a run counts as one tap.
    fn depth(&self) -> Option<Depth> {
        Some(Depth { taps: self.columns()?, channels: self.channels.checked_mul(self.run)? })
    }

    /// Returns the elements of a row of padding: the channels of a tap or run, and up to 3 more.
    pub fn padding_len(&self) -> Option<usize> {
        self.depth()?.channels.checked_next_multiple_of(4)
    }

    /// Returns the elements that [`pack`] writes; `None` if the shape is inconsistent or its size overflows.
    pub fn packed_len(&self) -> Option<usize> {
        let len = panels_len(self.depth()?, self.outputs)?.checked_mul(self.groups)?;
        (isize::try_from(len).is_ok()).then_some(len)
    }
}

/// Packs `weights` `[groups * outputs, channels, taps]`, in ONNX's order, for [`conv`]. Returns false if a slice does
/// not have the length that the shape requires.
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
        pack_panels(depth, outputs, to, |output, column, depth_index| {
            let (tap_of_run, channel) = (depth_index / channels, depth_index % channels);
            let filter = (group * outputs + output) * channels + channel;
            weights[filter * taps + column * run + tap_of_run]
        });
    }
    true
}

/// Weights packed by [`pack`].
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Their shape.
    pub shape: Shape,
    /// [`Shape::packed_len`] elements; fastest if aligned to 64 bytes.
    pub packed: &'a [i8],
    /// Zero points: empty if all are 0, one for all outputs, or one per output.
    pub zero_points: &'a [i8],
}

/// The pixels that a table refers to.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a, T> {
    /// The pixels, each with contiguous channels, group after group.
    pub data: &'a [T],
    /// Elements between pixels.
    pub stride: usize,
    /// The zero point.
    pub zero_point: T,
    /// The row that taps outside the image read, [`Shape::padding_len`] elements; may be empty if no tap is outside.
    pub padding: &'a [T],
}

/// Images that share a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of images.
    pub count: usize,
    /// Elements between input images.
    pub input: usize,
    /// Elements between output images; at least the elements of one.
    pub output: usize,
}

impl Batch {
    /// A single image.
    pub const ONE: Self = Self { count: 1, input: 0, output: 0 };
}

/// Inconsistent arguments of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConvError {
    /// A sum has more products than [`MAX_K`], or than [`MAX_K_U16_SUMS`] where that applies.
    TooDeep,
    /// The weights do not have the length of their shape, or the shape is inconsistent.
    Weights,
    /// The table is not a whole number of rows, or refers to a pixel outside the input.
    Table,
    /// A tap is outside the image, and the row of padding is too short.
    Padding,
    /// Scales, zero points or biases are neither one for all outputs nor one per output.
    Columns,
    /// The output is too short, or its pixels overlap.
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

/// Convolves each image of the batch. Each row of `table` yields a pixel of `groups * outputs` channels, at a stride of
/// `stride`. `bias` is empty, one for all, or one per output channel.
///
/// With input values `x` of zero point `zx`, and weights `w` of zero point `zw` per output, a sum is
/// `bias + Σ (x - zx) * (w - zw)` over taps and channels, exact as in [`gemm`](super::gemm_u8::gemm()).
///
/// # Errors
///
/// Returns an error for inconsistent arguments; then nothing is written.
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

/// Like [`conv`] for u16 values; slower.
///
/// # Errors
///
/// Returns an error like `conv`, and if the output is sums with more than [`MAX_K_U16_SUMS`] products.
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
        // SAFETY: `kernels` returns only kernels that this machine supports; `check` made sure that
        // the pixels of the table are inside the image, and that the weights are as long as their
        // shape requires.
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
        // SAFETY: `kernels` returns only kernels that this machine supports; `check` made sure that
        // the pixels of the table are inside the image, and that the weights are as long as their
        // shape requires.
        unsafe { product.run_wide(checked.rows, &mut output, at, stride) }
    });
    Ok(())
}

/// The sizes of a convolution whose arguments have been checked.
#[derive(Clone, Copy)]
struct Checked {
    depth: Depth,
    /// Output pixels per image.
    rows: usize,
}

impl Checked {
    /// Calls a function with the product of each group of each image, and its output position.
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

/// Checks the arguments of a convolution.
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
    let previous_images = (batch.count - 1).checked_mul(batch.input).ok_or(ConvError::Table)?;
    let last_start =
        input.data.len().checked_sub(previous_images).and_then(|len| len.checked_sub(width));
    let pixels = last_start
        .map_or(0, |last_start| last_start.checked_div(input.stride).map_or(usize::MAX, |n| n + 1));
    let (end, has_padding) = kernels.reach(table);
    if usize::try_from(end).is_ok_and(|end| end > pixels) {
        return Err(ConvError::Table);
    }
    let padding_len = shape.padding_len().unwrap_or(usize::MAX);
    if has_padding && input.padding.len() < padding_len {
        return Err(ConvError::Padding);
    }
    let image_len = (rows - 1).checked_mul(stride).and_then(|start| start.checked_add(n));
    let image_len = image_len.ok_or(ConvError::Output)?;
    let previous_images = (batch.count - 1).checked_mul(batch.output).ok_or(ConvError::Output)?;
    let last_start = output.len().checked_sub(previous_images).ok_or(ConvError::Output)?;
    let is_separate = batch.count == 1 || batch.output >= image_len;
    if is_separate && holds(last_start, rows, stride, n) {
        Ok(Checked { depth, rows })
    } else {
        Err(ConvError::Output)
    }
}

/// Copies an image of `[rows, columns]` pixels with contiguous channels into one with a border of `fill`; `before` and
/// `after` are rows and columns of pixels. Returns false if a slice does not have the length of its image.
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
