//! Matrix products of 8-bit quantized values with exact integer sums: u8 (or u16) times i8, the left side row
//! by row as it lies in memory, the right side packed beforehand, the sums finished on the way out.
//!
//! With left values `a` of zero point `za`, right values `b` with a zero point `zb` for each column,
//! `sum[i][j] = bias[j] + Σ (a[i][k] - za) * (b[k][j] - zb[j])`, exact while it fits an i32 and
//! modulo 2^32 if only the bias takes it beyond. [`Output`] says what becomes of the sums. Every
//! instruction set gives the same bits. Nothing allocates.
//!
//! Unsigned weights are the same product with 128 taken off the values and off their zero points.
//!
//! A caller with several threads splits the rows; to split the columns, it packs each part by itself.

#![expect(
    clippy::inline_always,
    reason = "plain code is compiled anew with each instruction set's features"
)]
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "a place is computed where it is read")]

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
// The tests' fences are Linux's.
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

/// The deepest product, in elements of k: beyond it a sum of products of 255 and 255 may not fit an
/// i32.
pub const MAX_K: usize = 33_025;

/// The deepest product of u16 values that may give its sums as i32, in elements of k.
pub const MAX_K_U16_SUMS: usize = 128;

/// The left side: `rows` rows of as many values as the right side is deep.
#[derive(Clone, Copy, Debug)]
pub struct Lhs<'a, T> {
    /// Row by row, each row's values adjacent.
    pub data: &'a [T],
    /// How many rows.
    pub rows: usize,
    /// From a row to the next, in elements; at least the depth.
    pub stride: usize,
    /// The value that stands for zero.
    pub zero_point: T,
}

/// The right side, `[k, n]`.
#[derive(Clone, Copy, Debug)]
pub struct Rhs<'a> {
    /// What [`pack_b`] wrote, [`packed_len`] elements; fastest if it begins at a multiple of 64
    /// bytes.
    pub packed: &'a [i8],
    /// The depth, in elements.
    pub k: usize,
    /// How many columns.
    pub n: usize,
    /// The values that stand for zero: none where all are 0, one for all columns, or one for each.
    pub zero_points: &'a [i8],
}

/// What becomes of the sums, and where it goes: rows of n elements, `stride` elements apart.
///
/// `scales` has one element for all columns or one for each.
#[derive(Debug)]
pub enum Output<'a> {
    /// The sums as they are.
    I32(&'a mut [i32]),
    /// `sum * scale + bias`, in two rounded steps; `bias` has no element, one, or one per column.
    F32 {
        /// Where the numbers go.
        to: &'a mut [f32],
        /// The scale of the left side times the scale of the right side.
        scales: &'a [f32],
        /// In the unit of the result.
        bias: &'a [f32],
        /// What is done after that.
        activation: Activation,
    },
    /// `sum * scale`, rounded half to even, plus the zero point, saturated; NaN gives 0.
    U8 {
        /// Where the values go.
        to: &'a mut [u8],
        /// The scales of both sides multiplied, over the scale of the result.
        scales: &'a [f32],
        /// The value that stands for zero.
        zero_point: u8,
    },
    /// The same, signed; NaN gives -128.
    I8 {
        /// Where the values go.
        to: &'a mut [i8],
        /// The scales of both sides multiplied, over the scale of the result.
        scales: &'a [f32],
        /// The value that stands for zero.
        zero_point: i8,
    },
    /// The same, 16 bits wide; NaN gives 0.
    U16 {
        /// Where the values go.
        to: &'a mut [u16],
        /// The scales of both sides multiplied, over the scale of the result.
        scales: &'a [f32],
        /// The value that stands for zero.
        zero_point: u16,
    },
}

/// What is done to a number before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    None,
    /// Negative numbers become 0.
    Relu,
}

/// Why a product was not computed: its arguments contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GemmError {
    /// The depth is beyond [`MAX_K`], or beyond [`MAX_K_U16_SUMS`] where that holds.
    TooDeep,
    /// The left side has fewer values than its rows need, or its rows overlap.
    Lhs,
    /// The right side has another length than [`packed_len`] of its shape.
    Rhs,
    /// Scales, zero points or a bias are neither for all columns nor for each.
    Columns,
    /// The output has fewer elements than its rows need, or its rows overlap.
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

/// How many lanes a vector of sums has.
const LANES: usize = 16;
/// The widest tile, in vectors.
const MAX_VECTORS: usize = 4;
/// Rows of the tallest tile, by its width in vectors less 1: 24 sums stay in registers.
const MR: [usize; MAX_VECTORS] = [8, 8, 8, 6];
const MAX_MR: usize = 8;
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

/// What a kernel multiplies: `count` times `rows` rows of `taps` times `4 * groups + tail` values with `vectors`
/// times 16 columns.
///
/// The values of a tap begin at `a` plus the row times `stride`, or plus the tap's entry in `table`
/// times `stride` unless that is null; a tap outside reads `padding`. So many values are readable there.
/// `b` is good for 64 bytes for each vector of each group, tails included.
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
    /// What to fetch while at it, and where that ends; any address, for it is never read.
    prefetch: *const i8,
    prefetch_end: *const i8,
    /// The sum of the values of each row, if the columns have zero points.
    row_sums: *const i32,
}

/// Where a tile goes, and as what.
#[derive(Clone, Copy)]
enum Out {
    I32(*mut i32),
    F32(*mut f32, Activation),
    /// With the zero point as of u8, and what to flip in the values afterwards.
    U8(*mut u8, i16, u8),
}

impl Out {
    /// So many elements further on.
    #[inline(always)]
    fn skip(self, by: usize) -> Self {
        match self {
            Self::I32(to) => Self::I32(to.wrapping_add(by)),
            Self::F32(to, activation) => Self::F32(to.wrapping_add(by), activation),
            Self::U8(to, zero_point, flip) => Self::U8(to.wrapping_add(by), zero_point, flip),
        }
    }
}

/// The micro-kernels of one instruction set; what they need of the machine makes them unsafe to call.
pub(crate) struct MicroKernels {
    /// Computes tiles below each other and writes them, with so many elements from a row to the next.
    tiles: unsafe fn(&Tile, &Columns, Out, usize),
    /// The sum of values.
    sum: unsafe fn(&[u8]) -> i32,
    /// The highest entry of a table with 1 added, in which one outside is 0, and whether there is one outside.
    reach: unsafe fn(&[u32]) -> (u32, bool),
    /// What a thread does before and after its tiles.
    configure: unsafe fn(),
    release: unsafe fn(),
    /// Rows of the tallest tile, by its width in vectors less 1.
    mr: [usize; MAX_VECTORS],
    fallback: Option<Fallback>,
}

/// What is faster for at most so many rows, or so many groups of 4 of the depth.
struct Fallback {
    rows: usize,
    groups: usize,
    /// Groups of the depth where a table gathers the rows, which have to be copied next to each other else.
    gathered: usize,
    kernels: &'static MicroKernels,
}

impl MicroKernels {
    /// The faster ones for so many rows and groups of a depth.
    fn pick(&'static self, rows: usize, groups: usize, is_gathered: bool) -> &'static Self {
        match &self.fallback {
            Some(Fallback { rows: least, groups: few, gathered, kernels })
                if rows <= *least || groups <= if is_gathered { *gathered } else { *few } =>
            {
                kernels
            }
            _ => self,
        }
    }

    /// The highest entry of a table with 1 added, in which one outside is 0, and whether there is one outside.
    pub(super) fn reach(&self, table: &[u32]) -> (u32, bool) {
        // SAFETY: `kernels` hands out only what this machine has.
        unsafe { (self.reach)(table) }
    }

    /// Those that hold sums as [`Accumulators`] does.
    fn small(&'static self) -> &'static Self {
        self.pick(0, 0, false)
    }
}

/// A thread that is configured for its tiles, until this is dropped.
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

/// Nothing to do before or after.
fn no_op() {}

/// What AMX does at most, as [`peak_ops8`](super::peak_ops8) says.
///
/// # Safety
///
/// The machine has what [`Isa::Amx`] says.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn amx_peak(steps: usize) -> f64 {
    // SAFETY: the machine has AMX, and the process may use it.
    unsafe { amx::peak(steps) }
}

/// The micro-kernels for `isa`, or for the best that this machine has where that is less.
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

/// Multiplies `lhs` `[rows, k]` by `rhs` `[k, n]`, adds `bias` (none, one or n elements) and
/// writes `[rows, n]` to `output`, whose rows are `stride` elements apart.
///
/// # Errors
///
/// Refuses arguments that contradict each other; nothing is written then.
pub fn gemm(
    lhs: &Lhs<'_, u8>,
    rhs: &Rhs<'_>,
    bias: &[i32],
    output: Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    gemm_on(isa(), lhs, rhs, bias, output, stride)
}

/// As [`gemm`] by an instruction set, or by the best that this machine has where that is less.
///
/// # Errors
///
/// As `gemm`.
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
    // SAFETY: `kernels` hands out only what this machine has; `check` made sure that the rows and the columns
    // lie in their slices.
    unsafe { product.run(lhs.rows, &mut output, 0, stride) };
    Ok(())
}

/// The product of two matrices.
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
        rows: Rows::Apart(lhs.stride),
        depth: Depth { taps: 1, channels: rhs.k },
        packed: rhs.packed,
        n: rhs.n,
        column: 0,
        zero_points: rhs.zero_points,
        bias,
    }
}

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
    /// What is so many elements further on; none beyond the end.
    pub(super) fn behind(&mut self, by: usize) -> Option<Output<'_>> {
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

    /// The elements that there is room for.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::I32(to) => to.len(),
            Self::F32 { to, .. } => to.len(),
            Self::U8 { to, .. } => to.len(),
            Self::I8 { to, .. } => to.len(),
            Self::U16 { to, .. } => to.len(),
        }
    }

    /// Whether what there is of numbers for `n` columns is for all of them or for each.
    pub(super) fn fits(&self, n: usize, zero_points: &[i8], bias: &[i32]) -> bool {
        let fits = |len: usize| len == 1 || len == n;
        let own = match self {
            Self::I32(_) => true,
            Self::F32 { scales, bias, .. } => {
                fits(scales.len()) && (bias.is_empty() || fits(bias.len()))
            }
            Self::U8 { scales, .. } | Self::I8 { scales, .. } | Self::U16 { scales, .. } => {
                fits(scales.len())
            }
        };
        let (zeros, biases) = (zero_points.len(), bias.len());
        own && (zeros == 0 || fits(zeros)) && (biases == 0 || fits(biases))
    }
}

/// Whether `rows` rows of `width` elements, `stride` apart, lie in `len` elements.
pub(super) fn holds(len: usize, rows: usize, stride: usize, width: usize) -> bool {
    let Some(gaps) = rows.checked_sub(1) else { return true };
    let end = gaps.checked_mul(stride).and_then(|start| start.checked_add(width));
    (gaps == 0 || stride >= width) && end.is_some_and(|end| end <= len)
}
