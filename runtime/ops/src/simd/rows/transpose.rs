//! Transposes of any rank, by tiles in registers.

use udo_api::Element;

use super::super::math::vector::{Simd, Task, on};
use super::super::{Isa, isa};

/// The most axes.
const MAX_RANK: usize = 8;

/// Rows and columns of a block: its pages stay in the translation buffer, its lines in the second
/// cache.
const BLOCK: usize = 256;

const PAGE_BYTES: usize = 4096;

/// Bytes of a line: who has read some of them reads the others as well before they are gone.
const LINE_BYTES: usize = 64;

/// Bytes of a matrix that the second cache holds, and its transpose.
const NEAR_BYTES: usize = 512 << 10;

/// An axis of the result: how long it is, and how far apart its elements lie on either side.
#[derive(Clone, Copy, Debug, Default)]
struct Axis {
    extent: usize,
    from: usize,
    to: usize,
}

/// `y[i0, i1, ..]` is the element of `x: shape` with `perm[k]`th index `ik`, as `Transpose` of ONNX.
///
/// `perm` holds every axis once; there are 8 at most, and both slices have as many elements as
/// `shape`. Otherwise `y` is left as it was.
pub fn transpose<T: Element>(x: &[T], shape: &[usize], perm: &[usize], y: &mut [T]) {
    transpose_on(isa(), x, shape, perm, y);
}

pub(super) fn transpose_on<T: Element>(
    isa: Isa,
    x: &[T],
    shape: &[usize],
    perm: &[usize],
    y: &mut [T],
) {
    let plan = plan(shape, perm);
    let len = shape.iter().try_fold(1usize, |len, &extent| len.checked_mul(extent));
    let fits = len == Some(x.len()) && x.len() == y.len();
    debug_assert!(fits && plan.is_some(), "a permutation of a shape of as many elements");
    let (Some((axes, rank)), true) = (plan, fits && !x.is_empty()) else { return };
    let (from, to) = (x.as_ptr(), y.as_mut_ptr());
    match size_of::<T>() {
        1 => on(isa, Permute { axes, rank, x: from.cast::<u8>(), y: to.cast::<u8>() }),
        2 => on(isa, Permute { axes, rank, x: from.cast::<u16>(), y: to.cast::<u16>() }),
        4 => on(isa, Permute { axes, rank, x: from.cast::<u32>(), y: to.cast::<u32>() }),
        8 => on(isa, Permute { axes, rank, x: from.cast::<u64>(), y: to.cast::<u64>() }),
        _ => {}
    }
}

/// The axes of the result, outermost first, without those of one element and with neighbours that
/// stay neighbours made one; and how many there are.
fn plan(shape: &[usize], perm: &[usize]) -> Option<([Axis; MAX_RANK], usize)> {
    if shape.len() != perm.len() || shape.len() > MAX_RANK {
        return None;
    }
    let mut seen = 0u32;
    for &axis in perm {
        seen |= 1u32.checked_shl(u32::try_from(axis).ok()?)?;
    }
    if seen != (1 << shape.len()) - 1 {
        return None;
    }
    let mut axes = [Axis::default(); MAX_RANK];
    let mut rank = 0;
    for &axis in perm {
        let extent = shape[axis];
        let from = shape[axis + 1..].iter().fold(1usize, |len, &extent| len.wrapping_mul(extent));
        if extent == 1 {
            continue;
        }
        match axes[..rank].last_mut() {
            Some(last) if last.from == from.wrapping_mul(extent) => {
                *last = Axis { extent: last.extent.wrapping_mul(extent), from, to: 1 };
            }
            _ => {
                axes[rank] = Axis { extent, from, to: 1 };
                rank += 1;
            }
        }
    }
    let mut to = 1usize;
    for axis in axes[..rank].iter_mut().rev() {
        axis.to = to;
        to = to.wrapping_mul(axis.extent);
    }
    Some((axes, rank))
}

/// The axes reach over all of `x` and `y`, each element once; the products do not overflow.
struct Permute<T> {
    axes: [Axis; MAX_RANK],
    rank: usize,
    x: *const T,
    y: *mut T,
}

impl<T: Copy> Task for Permute<T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { mut axes, rank, x, y } = self;
        let one = Axis { extent: 1, from: 0, to: 0 };
        let last = if rank == 0 { one } else { axes[rank - 1] };
        let mut outer = rank.saturating_sub(1);
        // The other axis of the planes: the one along which `x` is contiguous.
        let mut inner = one;
        if last.from != 1 && outer != 0 {
            let at = axes[..outer].iter().position(|axis| axis.from == 1).unwrap_or(outer - 1);
            inner = axes[at];
            axes.copy_within(at + 1..outer, at);
            outer -= 1;
        }
        let mut index = [0; MAX_RANK];
        let (mut from, mut to) = (0, 0);
        loop {
            // SAFETY: the offset of an element, as every index is below its extent.
            let (x, y) = unsafe { (x.add(from), y.add(to)) };
            if last.from == 1 || rank == 0 {
                // SAFETY: the elements of the last axis, contiguous on both sides, which share none.
                unsafe { y.copy_from_nonoverlapping(x, last.extent) }
            } else {
                // SAFETY: the elements of the plane of the two axes.
                unsafe { plane(simd, x, y, last, inner) }
            }
            let mut k = outer;
            loop {
                if k == 0 {
                    return;
                }
                k -= 1;
                index[k] += 1;
                from += axes[k].from;
                to += axes[k].to;
                if index[k] < axes[k].extent {
                    break;
                }
                index[k] = 0;
                from -= axes[k].from * axes[k].extent;
                to -= axes[k].to * axes[k].extent;
            }
        }
    }
}

/// Transposes a matrix: `rows` are contiguous in `y`, `cols` in `x`.
///
/// # Safety
/// The elements that the axes reach are readable at `x` and writable at `y`.
#[inline(always)]
unsafe fn plane<S: Simd, T: Copy>(simd: S, x: *const T, y: *mut T, rows: Axis, cols: Axis) {
    let tiled = rows.to == 1 && cols.from == 1;
    let (tall, wide) = match size_of::<T>() {
        1 if tiled => (S::LONG1, LINE_BYTES),
        4 if tiled => (S::TILE4, S::TILE4),
        _ => (usize::MAX, usize::MAX),
    };
    // Along the rows of `x`, which are read ahead that way. But in the second cache that is of no
    // use; and rows of `y` that are whole pages apart share few places of the caches.
    let bytes = rows.extent.saturating_mul(cols.extent).saturating_mul(size_of::<T>());
    let apart = cols.to.wrapping_mul(size_of::<T>());
    let far = bytes > NEAR_BYTES;
    let ahead = if size_of::<T>() == 1 { 1 } else { 4 };
    let by_cols = !far || apart.is_multiple_of(PAGE_BYTES);
    let mut i0 = 0;
    while i0 < rows.extent {
        let i1 = rows.extent.min(i0 + BLOCK);
        let i_done = i1 - (i1 - i0) % tall;
        let mut j0 = 0;
        while j0 < cols.extent {
            let j1 = cols.extent.min(j0 + BLOCK);
            let j_done = j1 - (j1 - j0) % wide;
            let (down, across) = ((i_done - i0) / tall, (j_done - j0) / wide);
            let mut at = 0;
            while at < down * across {
                let (i, j) = place(at, down, across, by_cols);
                let (i, j) = (i0 + i * tall, j0 + j * wide);
                if far && at + ahead < down * across {
                    let (i, j) = place(at + ahead, down, across, by_cols);
                    let (i, j) = (i0 + i * tall, j0 + j * wide);
                    let mut k = 0;
                    while k < tall.max(wide) {
                        let from = x.wrapping_add((i + k.min(tall - 1)) * rows.from + j);
                        let to = y.wrapping_add((j + k.min(wide - 1)) * cols.to + i);
                        simd.prefetch(from.cast());
                        simd.prefetch(to.cast_const().cast());
                        k += 1;
                    }
                }
                // SAFETY: a tile from `i` and `j` on lies within the matrix.
                let (x, y) = unsafe { (x.add(i * rows.from + j), y.add(j * cols.to + i)) };
                if size_of::<T>() == 4 {
                    // SAFETY: as above; elements have 4 bytes.
                    unsafe { simd.tile4(x.cast(), rows.from, y.cast(), cols.to) }
                } else {
                    let mut k = 0;
                    while k < LINE_BYTES {
                        // SAFETY: as above; elements have 1 byte, and a tile some times 16 columns.
                        unsafe {
                            simd.long1(
                                x.add(k).cast(),
                                rows.from,
                                y.add(k * cols.to).cast(),
                                cols.to,
                            );
                        }
                        k += 16;
                    }
                }
                at += 1;
            }
            // SAFETY: what is left of the block: below the tiles, and beside them.
            unsafe {
                area(simd, x, y, rows, cols, [i_done, i1, j0, j1]);
                area(simd, x, y, rows, cols, [i0, i_done, j_done, j1]);
            }
            j0 = j1;
        }
        i0 = i1;
    }
}

/// The row and the column of a tile of a block of `down` times `across`.
#[inline(always)]
fn place(at: usize, down: usize, across: usize, by_cols: bool) -> (usize, usize) {
    if by_cols { (at % down, at / down) } else { (at / across, at % across) }
}

/// Transposes what is too small for tiles, by smaller ones and singly: rows `i0..i1` and columns
/// `j0..j1` of the matrix.
///
/// # Safety
/// As for [`plane`]; the ranges lie within the extents.
#[inline(always)]
unsafe fn area<S: Simd, T: Copy>(
    simd: S,
    x: *const T,
    y: *mut T,
    rows: Axis,
    cols: Axis,
    [i0, i1, j0, j1]: [usize; 4],
) {
    let tiled = rows.to == 1 && cols.from == 1;
    let tile = match size_of::<T>() {
        1 if tiled => S::TILE1,
        4 if tiled => 4,
        _ => usize::MAX,
    };
    let (i_done, j_done) = (i1 - (i1 - i0) % tile, j1 - (j1 - j0) % tile);
    let mut i = i0;
    while i < i_done {
        let mut j = j0;
        while j < j_done {
            // SAFETY: a tile from `i` and `j` on lies within the matrix.
            let (x, y) = unsafe { (x.add(i * rows.from + j), y.add(j * cols.to + i)) };
            if size_of::<T>() == 4 {
                // SAFETY: as above; elements have 4 bytes.
                unsafe { simd.quad4(x.cast(), rows.from, y.cast(), cols.to) }
            } else {
                // SAFETY: as above; elements have 1 byte.
                unsafe { simd.tile1(x.cast(), rows.from, y.cast(), cols.to) }
            }
            j += tile;
        }
        i += tile;
    }
    let mut j = j0;
    while j < j1 {
        let mut i = if j < j_done { i_done } else { i0 };
        while i < i1 {
            let (from, to) = (i * rows.from + j * cols.from, j * cols.to + i * rows.to);
            // SAFETY: `i` and `j` lie within the matrix.
            unsafe { *y.add(to) = *x.add(from) }
            i += 1;
        }
        j += 1;
    }
}
