//! Matrix products of 8-bit codes with exact integer sums: u8 (or u16) times i8, the left side row
//! by row as it lies in memory, the right side packed beforehand, the sums finished on the way out.
//!
//! With left codes `a` of zero point `za`, right codes `b` with a zero point `zb` for each column,
//! `sum[i][j] = bias[j] + Σ (a[i][k] - za) * (b[k][j] - zb[j])`, exact while it fits an i32 and
//! modulo 2^32 if only the bias takes it beyond. [`Output`] says what becomes of the sums. Every
//! instruction set gives the same bits. Nothing allocates.
//!
//! Unsigned weights are the same product with 128 taken off the codes and off their zero points.

#![expect(
    clippy::inline_always,
    reason = "plain code is compiled anew with each instruction set's features"
)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "what a tile's end borrows is its own to use up"
)]
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "a place is computed where it is read")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod pack;
mod portable;
mod requant;
// The tests' fences are Linux's.
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod wide;

use std::fmt;

use super::{Isa, isa};
pub use pack::{PANEL, Strides, pack_b, packed_len};
use requant::{Columns, Finish};
pub use wide::gemm_u16;

/// The deepest product, in elements of k: beyond it a sum of products of 255 and 255 may not fit an
/// i32.
pub const MAX_K: usize = 33_025;

/// The deepest product of u16 codes that may give its sums as i32, in elements of k.
pub const MAX_K_U16_SUMS: usize = 128;

/// Codes on the left: `rows` rows of as many codes as the right side is deep.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a, T> {
    /// Row by row, each row's codes adjacent.
    pub codes: &'a [T],
    /// How many rows.
    pub rows: usize,
    /// From a row to the next, in elements; at least the depth.
    pub stride: usize,
    /// The code that stands for zero.
    pub zero_point: T,
}

/// Codes on the right, `[k, n]`.
#[derive(Clone, Copy, Debug)]
pub struct Right<'a> {
    /// What [`pack_b`] wrote, [`packed_len`] elements; fastest if it begins at a multiple of 64
    /// bytes.
    pub packed: &'a [i8],
    /// The depth, in elements.
    pub k: usize,
    /// How many columns.
    pub n: usize,
    /// The codes that stand for zero: none where all are 0, one for all columns, or one for each.
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
        /// What happens after that.
        then: Then,
    },
    /// `sum * scale`, rounded half to even, plus the zero point, saturated; NaN gives 0.
    U8 {
        /// Where the codes go.
        to: &'a mut [u8],
        /// The scales of both sides multiplied, over the scale of the result.
        scales: &'a [f32],
        /// The code that stands for zero.
        zero_point: u8,
    },
    /// The same, signed; NaN gives -128.
    I8 {
        /// Where the codes go.
        to: &'a mut [i8],
        /// The scales of both sides multiplied, over the scale of the result.
        scales: &'a [f32],
        /// The code that stands for zero.
        zero_point: i8,
    },
    /// The same, 16 bits wide; NaN gives 0.
    U16 {
        /// Where the codes go.
        to: &'a mut [u16],
        /// The scales of both sides multiplied, over the scale of the result.
        scales: &'a [f32],
        /// The code that stands for zero.
        zero_point: u16,
    },
}

/// What happens to a number before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Write,
    /// Negative numbers become 0.
    Relu,
}

/// Why a product was not computed: its arguments contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GemmError {
    /// The depth is beyond [`MAX_K`], or beyond [`MAX_K_U16_SUMS`] where that holds.
    TooDeep,
    /// The left side has fewer codes than its rows need, or its rows overlap.
    Left,
    /// The right side has another length than [`packed_len`] of its shape.
    Right,
    /// Scales, zero points or a bias are neither for all columns nor for each.
    Columns,
    /// The output has fewer elements than its rows need, or its rows overlap.
    Output,
}

impl fmt::Display for GemmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooDeep => "the depth is beyond what i32 sums hold",
            Self::Left => "the left side is shorter than its rows",
            Self::Right => "the right side is not as long as its shape says",
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
/// The tallest tile, by its width in vectors less 1: 24 sums stay in registers.
const TALLEST: [usize; MAX_VECTORS] = [12, 12, 8, 6];
const MAX_ROWS: usize = 12;
const WIDTH: usize = MAX_VECTORS * LANES;
/// Rows are taken in blocks of at most so many, and so many bytes of the left side.
const BLOCK_ROWS: usize = 512;
const BLOCK_BYTES: usize = 512 << 10;

/// The sums of a row of a tile.
type Row = [i32; WIDTH];

/// The sums of a tile.
#[repr(align(64))]
struct Sums([[i32; WIDTH]; MAX_ROWS]);

impl Sums {
    fn new() -> Self {
        Self([[0; WIDTH]; MAX_ROWS])
    }
}

/// What a kernel multiplies: `rows` rows of `groups` times 4 codes and `tail` more with `vectors`
/// times 16 columns.
///
/// `a` is good for reading `4 * groups + tail` bytes at each row, each pointer of `b` for 64 bytes
/// at every [`pack::GROUP_BYTES`] for all groups and the tail's.
struct Tile {
    a: *const u8,
    stride: usize,
    rows: usize,
    groups: usize,
    tail: usize,
    vectors: usize,
    b: [*const i8; MAX_VECTORS],
    /// What to fetch while at it; any address, for it is never read.
    ahead: *const i8,
}

/// One instruction set's functions; what they need of the machine makes them unsafe to call.
struct Forms {
    /// Sums over a tile, beginning with the numbers of `start`.
    multiply: unsafe fn(tile: &Tile, start: &Row, sums: &mut Sums),
    /// Finishes rows of sums, the first `columns.count` of each.
    finish_i32: unsafe fn(&[Row], &Columns, Finish<'_, i32>),
    finish_f32: unsafe fn(&[Row], &Columns, Finish<'_, f32>, Then),
    /// With the zero point as of u8, and with what to flip in the codes afterwards.
    finish_u8: unsafe fn(&[Row], &Columns, Finish<'_, u8>, i16, u8),
}

/// The functions for `isa`, or for the best that this machine has where that is less.
fn forms(isa: Isa) -> &'static Forms {
    let best = Isa::available().last().copied().unwrap_or(Isa::Portable);
    match isa.min(best) {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &avx512::FORMS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &avx2::FORMS,
        _ => &portable::FORMS,
    }
}

/// Multiplies `left` `[rows, k]` by `right` `[k, n]`, adds `bias` (none, one or n elements) and
/// writes `[rows, n]` to `output`, whose rows are `stride` elements apart.
///
/// # Errors
///
/// Refuses arguments that contradict each other; nothing is written then.
pub fn gemm(
    left: &Left<'_, u8>,
    right: &Right<'_>,
    bias: &[i32],
    output: Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    gemm_by(forms(isa()), left, right, bias, output, stride)
}

fn gemm_by(
    forms: &Forms,
    left: &Left<'_, u8>,
    right: &Right<'_>,
    bias: &[i32],
    mut output: Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    check(left, right, bias, &output, stride)?;
    if left.rows == 0 || right.n == 0 {
        return Ok(());
    }
    let block = (BLOCK_BYTES / right.k.max(1)).clamp(4 * MAX_ROWS, BLOCK_ROWS);
    let mut row_sums = [0; BLOCK_ROWS];
    let mut sums = Sums::new();
    for first in (0..left.rows).step_by(block) {
        let rows = block.min(left.rows - first);
        let codes = &left.codes[first * left.stride..];
        if !right.zero_points.is_empty() {
            for (sum, row) in row_sums[..rows].iter_mut().zip(codes.chunks(left.stride.max(1))) {
                *sum = row[..right.k].iter().map(|&a| i32::from(a)).sum();
            }
        }
        let vectors = right.n.div_ceil(LANES);
        let mut vector = 0;
        while vector < vectors {
            let width = width(vectors - vector);
            let columns = Columns::new(right, vector, i32::from(left.zero_point), bias, &output);
            let mut done = 0;
            let tiles = rows.div_ceil(TALLEST[width - 1]);
            for index in 0..tiles {
                // Tiles of a block differ by one row at most.
                let height = (rows - done).div_ceil(tiles - index);
                let next = (vector + width) % vectors + index.min(width - 1);
                let tile = Tile {
                    a: codes[done * left.stride..].as_ptr(),
                    stride: left.stride,
                    rows: height,
                    groups: right.k / 4,
                    tail: right.k % 4,
                    vectors: width,
                    b: right.vectors(vector, width),
                    ahead: right.packed.as_ptr().wrapping_add(pack::offset(right.k, next)),
                };
                // SAFETY: `forms` names only what this machine has; `check` made sure that the
                // rows and the columns lie in their slices.
                unsafe { (forms.multiply)(&tile, &columns.start, &mut sums) };
                let sums = &mut sums.0[..height];
                if !right.zero_points.is_empty() {
                    columns.correct(sums, &row_sums[done..done + height]);
                }
                let at = (first + done) * stride + vector * LANES;
                finish(forms, sums, &columns, &mut output, at, stride);
                done += height;
            }
            vector += width;
        }
    }
    Ok(())
}

/// How many of the vectors left the next tiles take: 4 where that comes out even, else 3.
fn width(left: usize) -> usize {
    if left.is_multiple_of(4) { 4 } else { left.min(3) }
}

fn finish(
    forms: &Forms,
    sums: &[Row],
    columns: &Columns,
    output: &mut Output<'_>,
    at: usize,
    stride: usize,
) {
    match output {
        Output::I32(to) => {
            let to = Finish { to: &mut to[at..], stride };
            // SAFETY: `forms` names only what this machine has.
            unsafe { (forms.finish_i32)(sums, columns, to) }
        }
        Output::F32 { to, then, .. } => {
            let to = Finish { to: &mut to[at..], stride };
            // SAFETY: as above.
            unsafe { (forms.finish_f32)(sums, columns, to, *then) }
        }
        Output::U8 { to, zero_point, .. } => {
            let to = Finish { to: &mut to[at..], stride };
            // SAFETY: as above.
            unsafe { (forms.finish_u8)(sums, columns, to, i16::from(*zero_point), 0) }
        }
        Output::I8 { to, zero_point, .. } => {
            let to = Finish { to: requant::as_unsigned(&mut to[at..]), stride };
            // SAFETY: as above.
            unsafe { (forms.finish_u8)(sums, columns, to, i16::from(*zero_point) + 128, 128) }
        }
        Output::U16 { to, zero_point, .. } => {
            let to = Finish { to: &mut to[at..], stride };
            requant::finish_u16(sums, columns, to, *zero_point);
        }
    }
}

fn check<T>(
    left: &Left<'_, T>,
    right: &Right<'_>,
    bias: &[i32],
    output: &Output<'_>,
    stride: usize,
) -> Result<(), GemmError> {
    let (n, k) = (right.n, right.k);
    if k > MAX_K {
        return Err(GemmError::TooDeep);
    }
    let fits = |len: usize| len == 1 || len == n;
    let (len, scales) = match output {
        Output::I32(to) => (to.len(), None),
        Output::F32 { to, scales, bias, .. } => {
            if !(bias.is_empty() || fits(bias.len())) {
                return Err(GemmError::Columns);
            }
            (to.len(), Some(*scales))
        }
        Output::U8 { to, scales, .. } => (to.len(), Some(*scales)),
        Output::I8 { to, scales, .. } => (to.len(), Some(*scales)),
        Output::U16 { to, scales, .. } => (to.len(), Some(*scales)),
    };
    let zeros = right.zero_points.len();
    if !(scales.is_none_or(|scales| fits(scales.len()))
        && (bias.is_empty() || fits(bias.len()))
        && (zeros == 0 || fits(zeros)))
    {
        return Err(GemmError::Columns);
    }
    if packed_len(k, n) != Some(right.packed.len()) {
        return Err(GemmError::Right);
    }
    if !holds(left.codes.len(), left.rows, left.stride, k) {
        return Err(GemmError::Left);
    }
    if holds(len, left.rows, stride, n) { Ok(()) } else { Err(GemmError::Output) }
}

/// Whether `rows` rows of `width` elements, `stride` apart, lie in `len` elements.
fn holds(len: usize, rows: usize, stride: usize, width: usize) -> bool {
    let Some(gaps) = rows.checked_sub(1) else { return true };
    let end = gaps.checked_mul(stride).and_then(|start| start.checked_add(width));
    (gaps == 0 || stride >= width) && end.is_some_and(|end| end <= len)
}
