//! Matrix products of quantized values with exact integer sums. The left side has u8 or u16 values, which are read in
//! place; the right side has i8 values and is packed once. Sums are converted to the output's type in registers.
//!
//! With left values `a` of zero point `za`, and right values `b` of zero point `zb` per column, `sum[i][j] = bias[j] +
//! Σ (a[i][k] - za) * (b[k][j] - zb[j])`. The sum is exact while it fits an i32, and modulo 2^32 if it exceeds that
//! only because of the bias. [`Output`] selects the type of the output. Every instruction set gives the same bits.
//! Nothing allocates.
//!
//! For unsigned weights, callers subtract 128 from values and zero points.
//!
//! A caller with several threads divides the rows; to divide the columns, it packs each part separately.

#![expect(
    clippy::inline_always,
    reason = "plain code is compiled anew with each instruction set's features"
)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "an address and the access to it are one step"
)]

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod driver;
mod pack;
mod portable;
mod product;
mod requant;
// The tests' memory with protected pages needs Linux.
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod wide;

use std::fmt;

use crate::indirect::PADDING;
use crate::isa::{Isa, isa};
pub use pack::{Strides, pack_b, packed_len};
pub(super) use pack::{pack_panels, panels_len};
pub(super) use product::{Depth, Product, Rows};
use requant::Columns;
pub(crate) use requant::MAX_I32;
pub use wide::gemm_u16;

/// The greatest depth: beyond it a sum of products of 255 and 255 may overflow an i32.
pub const MAX_K: usize = 33_025;

/// The greatest depth of products of u16 values with i32 sums as output.
pub const MAX_K_U16_SUMS: usize = 128;

/// The left side: `rows` rows, each of the depth of the right side.
#[derive(Clone, Copy, Debug)]
pub struct Lhs<'a, T> {
    /// The values, row by row, each row contiguous.
    pub data: &'a [T],
    /// Number of rows.
    pub rows: usize,
    /// Elements between rows; at least the depth.
    pub stride: usize,
    /// The zero point.
    pub zero_point: T,
}

/// The right side, `[k, n]`.
#[derive(Clone, Copy, Debug)]
pub struct Rhs<'a> {
    /// Packed by [`pack_b`], [`packed_len`] elements; fastest if aligned to 64 bytes.
    pub packed: &'a [i8],
    /// The depth.
    pub k: usize,
    /// Number of columns.
    pub n: usize,
    /// Zero points: empty if all are 0, one for all columns, or one per column.
    pub zero_points: &'a [i8],
}

/// The type of the output, and its memory: rows of `n` elements, at a stride of `stride`.
///
/// `scales` has one element for all columns, or one per column.
#[derive(Debug)]
pub enum Output<'a> {
    /// The sums.
    I32(&'a mut [i32]),
    /// `sum * scale + bias`, rounded twice; `bias` is empty, one for all, or one per column.
    F32 {
        /// The output memory.
        to: &'a mut [f32],
        /// The scale of the left side times the scale of the right side.
        scales: &'a [f32],
        /// In units of the output.
        bias: &'a [f32],
        /// The activation.
        activation: Activation,
    },
    /// `sum * scale`, rounded half to even, plus the zero point, saturated; NaN gives 0.
    U8 {
        /// The output memory.
        to: &'a mut [u8],
        /// The product of both sides' scales, over the output's scale.
        scales: &'a [f32],
        /// The zero point.
        zero_point: u8,
    },
    /// Like `U8`, signed; NaN gives -128.
    I8 {
        /// The output memory.
        to: &'a mut [i8],
        /// The product of both sides' scales, over the output's scale.
        scales: &'a [f32],
        /// The zero point.
        zero_point: i8,
    },
    /// Like `U8`, with 16 bits; NaN gives 0.
    U16 {
        /// The output memory.
        to: &'a mut [u16],
        /// The product of both sides' scales, over the output's scale.
        scales: &'a [f32],
        /// The zero point.
        zero_point: u16,
    },
}

/// An activation of dequantized sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The identity.
    None,
    /// `max(0, x)`.
    Relu,
}

/// Inconsistent arguments of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GemmError {
    /// The depth exceeds [`MAX_K`], or [`MAX_K_U16_SUMS`] where that applies.
    TooDeep,
    /// The left side is too short for its rows, or its rows overlap.
    Lhs,
    /// The right side does not have the [`packed_len`] of its shape.
    Rhs,
    /// Scales, zero points or biases are neither one for all columns nor one per column.
    Columns,
    /// The output is too short, or its rows overlap.
    Output,
}

impl fmt::Display for GemmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooDeep => "the depth is beyond what i32 sums hold",
            Self::Lhs => "the left side is shorter than its rows",
            Self::Rhs => "the right side is not as long as its shape says",
            Self::Columns => "scales, zero points or bias fit neither all columns nor each",
            Self::Output => "the output is shorter than its rows",
        })
    }
}

impl std::error::Error for GemmError {}

/// Lanes per vector of sums.
const LANES: usize = 16;
/// The widest tile, in vectors.
const MAX_VECTORS: usize = 4;
/// Rows of the tallest tile, by its width in vectors minus 1: 24 accumulators fit the registers.
const MR: [usize; MAX_VECTORS] = [8, 8, 8, 6];
/// The most rows of a tile.
const MAX_MR: usize = 8;
/// The most columns of a tile.
const MAX_NR: usize = MAX_VECTORS * LANES;

/// The sums of a row of a tile.
type Row = [i32; MAX_NR];

/// The sums of a tile.
#[repr(align(64))]
struct Accumulators([[i32; MAX_NR]; MAX_MR]);

impl Accumulators {
    fn new() -> Self {
        Self([[0; MAX_NR]; MAX_MR])
    }
}

/// The operands of a kernel: `count` tiles below each other, each of `rows` rows and `vectors` times 16 columns. A row
/// has `taps` taps of `4 * groups + tail` values.
///
/// The values of a tap start at `a` plus the row times `stride`; or, if `table` is not null, at `a` plus the tap's
/// entry times `stride`. A tap outside the image reads `padding`. All these values are readable, and `b` has 64 bytes
/// for each vector of each group, tails included.
#[derive(Clone, Copy)]
struct Tile {
    a: *const u8,
    stride: usize,
    table: *const u32,
    padding: *const u8,
    taps: usize,
    groups: usize,
    tail: usize,
    count: usize,
    rows: usize,
    vectors: usize,
    b: *const i8,
    /// Address to prefetch, and the end of the range; never dereferenced.
    prefetch: *const i8,
    prefetch_end: *const i8,
    /// The sum of each row's values, if columns have zero points.
    row_sums: *const i32,
}

/// The output of a tile, by type.
#[derive(Clone, Copy)]
enum Out {
    I32(*mut i32),
    F32(*mut f32, Activation),
    /// Signed and unsigned bytes: with the zero point as an unsigned value, and the bits to invert afterwards.
    U8(*mut u8, i16, u8),
}

impl Out {
    /// Returns the output `by` elements further.
    #[inline(always)]
    fn skip(self, by: usize) -> Self {
        match self {
            Self::I32(to) => Self::I32(to.wrapping_add(by)),
            Self::F32(to, activation) => Self::F32(to.wrapping_add(by), activation),
            Self::U8(to, zero_point, flip) => Self::U8(to.wrapping_add(by), zero_point, flip),
        }
    }
}

/// The micro-kernels of one instruction set; unsafe to call because of its CPU features.
pub(crate) struct MicroKernels {
    /// Computes tiles below each other and writes them, with a row stride.
    tiles: unsafe fn(&Tile, &Columns, Out, usize),
    /// Sums values.
    sum: unsafe fn(&[u8]) -> i32,
    /// Returns the largest entry of a table plus 1, where [`PADDING`] entries count as 0, and whether there are such
    /// entries.
    reach: unsafe fn(&[u32]) -> (u32, bool),
    /// Called by a thread before and after its tiles.
    configure: unsafe fn(),
    release: unsafe fn(),
    /// Rows of the tallest tile, by its width in vectors minus 1.
    mr: [usize; MAX_VECTORS],
    fallback: Option<Fallback>,
}

/// Other kernels that are faster for small products.
struct Fallback {
    /// The most rows of such a product.
    rows: usize,
    /// The most groups of 4 along its depth, with any number of rows.
    groups: usize,
    /// The most groups if a table gathers the rows. It is larger, because AMX must copy such rows.
    gathered: usize,
    kernels: &'static MicroKernels,
}

impl MicroKernels {
    /// Returns the faster kernels for these rows and groups.
    fn pick(&'static self, rows: usize, groups: usize, is_gathered: bool) -> &'static Self {
        match &self.fallback {
            Some(Fallback { rows: max_rows, groups: max_groups, gathered, kernels })
                if rows <= *max_rows
                    || groups <= if is_gathered { *gathered } else { *max_groups } =>
            {
                kernels
            }
            _ => self,
        }
    }

    /// Returns the largest entry of a table plus 1, where [`PADDING`] entries count as 0, and whether there are such
    /// entries.
    pub(super) fn reach(&self, table: &[u32]) -> (u32, bool) {
        // SAFETY: `kernels` returns only kernels that this machine supports.
        unsafe { (self.reach)(table) }
    }

    /// Returns the kernels that store sums as [`Accumulators`].
    fn small(&'static self) -> &'static Self {
        self.pick(0, 0, false)
    }
}

/// A guard that configures the thread for tiles, and releases it when dropped.
struct Configured(&'static MicroKernels);

impl Configured {
    /// # Safety
    ///
    /// The kernels are those of an instruction set that this machine has.
    unsafe fn new(kernels: &'static MicroKernels) -> Self {
        // SAFETY: the kernels are those of an instruction set that this machine has.
        unsafe { (kernels.configure)() };
        Self(kernels)
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: `new` got kernels of an instruction set that this machine has, and has configured the thread.
        unsafe { (self.0.release)() }
    }
}

/// Does nothing, for kernels that need no configuration.
fn no_op() {}

/// The AMX part of [`peak_ops8`](super::peak_ops8).
///
/// # Safety
///
/// The machine supports [`Isa::Amx`].
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn amx_peak(steps: usize) -> f64 {
    // SAFETY: the machine has AMX, and the process may use it.
    unsafe { amx::peak(steps) }
}

/// Returns the micro-kernels for `isa`, or for the best that this machine has if that is less.
pub(super) fn kernels(isa: Isa) -> &'static MicroKernels {
    let best = Isa::available().last().copied().unwrap_or(Isa::Portable);
    match isa.min(best) {
        #[cfg(target_arch = "x86_64")]
        Isa::Amx => &amx::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &avx512::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &avx2::KERNELS,
        _ => &portable::KERNELS,
    }
}

/// Multiplies `lhs` `[rows, k]` by `rhs` `[k, n]`, adds `bias` (empty, one or n elements) and writes `[rows, n]` to
/// `output`, with a row stride of `stride`.
///
/// # Errors
///
/// Returns an error for inconsistent arguments; then nothing is written.
pub fn gemm(
    lhs: &Lhs<'_, u8>,
    rhs: &Rhs<'_>,
    bias: &[i32],
    output: Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    gemm_on(isa(), lhs, rhs, bias, output, stride)
}

/// Like [`gemm`] with an instruction set, or the best that this machine has if that is less.
///
/// # Errors
///
/// Returns an error like `gemm`.
pub fn gemm_on(
    isa: Isa,
    lhs: &Lhs<'_, u8>,
    rhs: &Rhs<'_>,
    bias: &[i32],
    mut output: Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    check(lhs, rhs, bias, &output, stride)?;
    let product = product(kernels(isa), lhs, rhs, bias);
    // SAFETY: `kernels` returns only kernels that this machine supports; `check` made sure that the
    // rows and the columns are inside their slices.
    unsafe { product.run(lhs.rows, &mut output, 0, stride) };
    Ok(())
}

/// Returns the product of two matrices, whose arguments have been checked.
fn product<'a, T: Copy>(
    kernels: &'static MicroKernels,
    lhs: &Lhs<'a, T>,
    rhs: &Rhs<'a>,
    bias: &'a [i32],
) -> Product<'a, T> {
    Product {
        kernels,
        data: lhs.data,
        zero_point: lhs.zero_point,
        rows: Rows::Strided(lhs.stride),
        depth: Depth { taps: 1, channels: rhs.k },
        packed: rhs.packed,
        n: rhs.n,
        column: 0,
        zero_points: rhs.zero_points,
        bias,
    }
}

/// Checks the arguments of a product.
fn check<T>(
    lhs: &Lhs<'_, T>,
    rhs: &Rhs<'_>,
    bias: &[i32],
    output: &Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    let (n, k) = (rhs.n, rhs.k);
    if k > MAX_K {
        return Err(GemmError::TooDeep);
    }
    if !output.fits(n, rhs.zero_points, bias) {
        return Err(GemmError::Columns);
    }
    if packed_len(k, n) != Some(rhs.packed.len()) {
        return Err(GemmError::Rhs);
    }
    if !holds(lhs.data.len(), lhs.rows, lhs.stride, k) {
        return Err(GemmError::Lhs);
    }
    if holds(output.len(), lhs.rows, stride, n) { Ok(()) } else { Err(GemmError::Output) }
}

impl Output<'_> {
    /// Returns the output `by` elements further; `None` past the end.
    pub(super) fn advanced(&mut self, by: usize) -> Option<Output<'_>> {
        Some(match self {
            Self::I32(to) => Output::I32(to.get_mut(by..)?),
            Self::F32 { to, scales, bias, activation } => {
                Output::F32 { to: to.get_mut(by..)?, scales, bias, activation: *activation }
            }
            Self::U8 { to, scales, zero_point } => {
                Output::U8 { to: to.get_mut(by..)?, scales, zero_point: *zero_point }
            }
            Self::I8 { to, scales, zero_point } => {
                Output::I8 { to: to.get_mut(by..)?, scales, zero_point: *zero_point }
            }
            Self::U16 { to, scales, zero_point } => {
                Output::U16 { to: to.get_mut(by..)?, scales, zero_point: *zero_point }
            }
        })
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::I32(to) => to.len(),
            Self::F32 { to, .. } => to.len(),
            Self::U8 { to, .. } => to.len(),
            Self::I8 { to, .. } => to.len(),
            Self::U16 { to, .. } => to.len(),
        }
    }

    /// Returns whether all parameters of `n` columns have one element for all columns or one per column.
    pub(super) fn fits(&self, n: usize, zero_points: &[i8], bias: &[i32]) -> bool {
        let fits = |len: usize| len == 1 || len == n;
        let fits_output = match self {
            Self::I32(_) => true,
            Self::F32 { scales, bias, .. } => {
                fits(scales.len()) && (bias.is_empty() || fits(bias.len()))
            }
            Self::U8 { scales, .. } | Self::I8 { scales, .. } | Self::U16 { scales, .. } => {
                fits(scales.len())
            }
        };
        let (zeros, biases) = (zero_points.len(), bias.len());
        fits_output && (zeros == 0 || fits(zeros)) && (biases == 0 || fits(biases))
    }
}

/// Returns whether `rows` rows of `width` elements, at a stride of `stride`, fit `len` elements without overlap.
pub(super) fn holds(len: usize, rows: usize, stride: usize, width: usize) -> bool {
    let Some(gaps) = rows.checked_sub(1) else { return true };
    let end = gaps.checked_mul(stride).and_then(|start| start.checked_add(width));
    (gaps == 0 || stride >= width) && end.is_some_and(|end| end <= len)
}
