//! Transposes of any rank, by tiles in registers.

use udo_api::Element;

use super::super::math::vector::{Simd, Task, on};
use super::super::{Isa, isa};

/// The most axes.
const MAX_RANK: usize = 8;

/// Rows and columns of a block: its pages stay in the translation buffer, its lines in the second
/// cache.
const BLOCK: usize = 256;

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
    let tile = match size_of::<T>() {
        1 => S::TILE1,
        4 => S::TILE4,
        _ => 0,
    };
    let tiled = tile != 0 && rows.to == 1 && cols.from == 1;
    let mut i0 = 0;
    while i0 < rows.extent {
        let i1 = rows.extent.min(i0 + BLOCK);
        let mut j0 = 0;
        while j0 < cols.extent {
            let j1 = cols.extent.min(j0 + BLOCK);
            let (mut i_done, mut j_done) = (i0, j0);
            if tiled {
                i_done = i1 - (i1 - i0) % tile;
                j_done = j1 - (j1 - j0) % tile;
                let mut j = j0;
                while j < j_done {
                    let mut i = i0;
                    while i < i_done {
                        // SAFETY: a tile from `i` and `j` on lies within the matrix.
                        let (x, y) = unsafe { (x.add(i * rows.from + j), y.add(j * cols.to + i)) };
                        if size_of::<T>() == 4 {
                            // SAFETY: as above; elements have 4 bytes.
                            unsafe { simd.tile4(x.cast(), rows.from, y.cast(), cols.to) }
                        } else {
                            // SAFETY: as above; elements have 1 byte.
                            unsafe { simd.tile1(x.cast(), rows.from, y.cast(), cols.to) }
                        }
                        i += tile;
                    }
                    j += tile;
                }
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
            j0 = j1;
        }
        i0 = i1;
    }
}
