//! Transposes of any rank. They are divided into matrices of two axes, and these into tiles that are transposed in
//! registers.

use crate::bits::Bits;
use crate::isa::{Isa, SimdOp, Vector, dispatch, isa};

/// The most axes.
const MAX_RANK: usize = 8;

/// Rows and columns of a block of tiles. Its pages fit the TLB (the cache of page addresses), and its cache lines fit
/// the second-level cache.
const BLOCK: usize = 256;

const PAGE_BYTES: usize = 4096;

/// Outputs of this size use non-temporal stores, because caches would evict them before they are read. Smaller in
/// tests.
const STREAM_BYTES: usize = if cfg!(test) { 1 << 20 } else { 32_000_000 };

/// Bytes of a cache line, which should be read completely before it is evicted.
const LINE_BYTES: usize = 64;

/// Fewer elements are not worth a second thread.
const SMALL: usize = 1 << 14;

/// A matrix of this many bytes fits the second-level cache together with its transpose.
const L2_BYTES: usize = 512 << 10;

/// An axis of the output: its extent, and its strides in input and output.
#[derive(Clone, Copy, Debug, Default)]
struct Axis {
    extent: usize,
    /// Input elements between positions.
    from: usize,
    /// Output elements between positions.
    to: usize,
}

/// Writes `y[i0, i1, ..]`, the element of `x: shape` whose index `perm[k]` is `ik`, as ONNX's `Transpose`.
///
/// `perm` must hold every axis once, at most 8 axes, and both slices must have the elements of `shape`. Otherwise `y`
/// stays unchanged.
pub fn transpose<T: Bits>(x: &[T], shape: &[usize], perm: &[usize], y: &mut [T]) {
    transpose_on(isa(), x, shape, perm, y);
}

pub(super) fn transpose_on<T: Bits>(
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
    permute(isa, axes, rank, x, y);
}

/// Dispatches by element size. The axes must stay inside `x` and `y`, and reach each element of `y` at most once.
fn permute<T: Bits>(isa: Isa, axes: [Axis; MAX_RANK], rank: usize, x: &[T], y: &mut [T]) {
    let (from, to) = (x.as_ptr(), y.as_mut_ptr());
    match size_of::<T>() {
        // Byte arrays have no alignment that elements of the same size might lack.
        1 => dispatch(isa, Permute { axes, rank, x: from.cast::<u8>(), y: to.cast::<u8>() }),
        2 => dispatch(
            isa,
            Permute { axes, rank, x: from.cast::<[u8; 2]>(), y: to.cast::<[u8; 2]>() },
        ),
        4 => dispatch(
            isa,
            Permute { axes, rank, x: from.cast::<[u8; 4]>(), y: to.cast::<[u8; 4]>() },
        ),
        8 => dispatch(
            isa,
            Permute { axes, rank, x: from.cast::<[u8; 8]>(), y: to.cast::<[u8; 8]>() },
        ),
        _ => dispatch(isa, Permute { axes, rank, x: from, y: to }),
    }
}

/// `y[j, i] = x[i, j]` for `rows` rows of `cols` elements of `x`, with row strides of `x_stride` and `y_stride`: a part
/// of a transpose, for callers with several threads.
///
/// Both slices must reach the last of those elements, and rows of `y` must not overlap. Otherwise `y` stays unchanged.
pub fn transpose_part<T: Bits>(
    x: &[T],
    x_stride: usize,
    [rows, cols]: [usize; 2],
    y: &mut [T],
    y_stride: usize,
) {
    transpose_part_on(isa(), x, x_stride, [rows, cols], y, y_stride);
}

pub(super) fn transpose_part_on<T: Bits>(
    isa: Isa,
    x: &[T],
    x_stride: usize,
    [rows, cols]: [usize; 2],
    y: &mut [T],
    y_stride: usize,
) {
    if rows == 0 || cols == 0 {
        return;
    }
    let matrix_len = |rows: usize, stride: usize, cols: usize| {
        (rows - 1).checked_mul(stride).and_then(|start| start.checked_add(cols))
    };
    let fits = matrix_len(rows, x_stride, cols).is_some_and(|matrix_len| matrix_len <= x.len())
        && matrix_len(cols, y_stride, rows).is_some_and(|matrix_len| matrix_len <= y.len())
        && (y_stride >= rows || cols == 1);
    debug_assert!(fits, "parts that lie in their slices");
    if fits {
        let mut axes = [Axis::default(); MAX_RANK];
        axes[0] = Axis { extent: cols, from: 1, to: y_stride };
        axes[1] = Axis { extent: rows, from: x_stride, to: 1 };
        permute(isa, axes, 2, x, y);
    }
}

/// Returns how many columns of a matrix (rows of its transpose) each thread should take at a time: all if a second
/// thread is not worth it, else whole cache lines of `f32`.
pub fn transpose_grain([rows, cols]: [usize; 2], threads: usize) -> usize {
    let chunks = if rows.saturating_mul(cols) < SMALL { 1 } else { threads.max(1) };
    cols.div_ceil(chunks).next_multiple_of(LINE_BYTES / size_of::<f32>())
}

/// Returns the axes of the output, outermost first, and their count; axes of extent 1 are dropped, and axes that stay
/// adjacent are merged.
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

/// The loop over planes, which are the matrices of the last two axes in the order of the loop. The axes stay inside `x`
/// and `y`, and reach each element once; products do not overflow.
struct Permute<T> {
    axes: [Axis; MAX_RANK],
    rank: usize,
    x: *const T,
    y: *mut T,
}

impl<T: Copy> SimdOp for Permute<T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        let Self { mut axes, rank, x, y } = self;
        let unit_axis = Axis { extent: 1, from: 0, to: 0 };
        let last = if rank == 0 { unit_axis } else { axes[rank - 1] };
        let mut outer = rank.saturating_sub(1);
        // The other axis of the planes, along which `x` is contiguous.
        let mut inner = unit_axis;
        if last.from != 1 && outer != 0 {
            let position =
                axes[..outer].iter().position(|axis| axis.from == 1).unwrap_or(outer - 1);
            inner = axes[position];
            axes.copy_within(position + 1..outer, position);
            outer -= 1;
        }
        let bytes = axes[..outer]
            .iter()
            .chain([&last, &inner])
            .fold(size_of::<T>(), |bytes, axis| bytes.wrapping_mul(axis.extent));
        let stream = bytes >= STREAM_BYTES;
        let plane = Plane { rows: last, cols: inner, stream };
        // The hardware does not prefetch small planes.
        let prefetches =
            bytes > L2_BYTES && last.extent * inner.extent * size_of::<T>() <= PAGE_BYTES;
        let mut index = [0; MAX_RANK];
        let (mut from, mut to) = (0, 0);
        loop {
            // SAFETY: the offset of an element, as every index is below its extent.
            let (plane_x, plane_y) = unsafe { (x.add(from), y.add(to)) };
            let mut axis = outer;
            let mut has_next = false;
            while axis != 0 && !has_next {
                axis -= 1;
                index[axis] += 1;
                from += axes[axis].from;
                to += axes[axis].to;
                has_next = index[axis] < axes[axis].extent;
                if !has_next {
                    index[axis] = 0;
                    from -= axes[axis].from * axes[axis].extent;
                    to -= axes[axis].to * axes[axis].extent;
                }
            }
            if last.from == 1 || rank == 0 {
                // SAFETY: the elements of the last axis, contiguous on both sides, which share none.
                unsafe { plane_y.copy_from_nonoverlapping(plane_x, last.extent) }
            } else {
                if prefetches && has_next {
                    plane.prefetch(simd, x.wrapping_add(from), y.wrapping_add(to));
                }
                // SAFETY: the elements of the plane of the two axes.
                unsafe { plane.transpose(simd, plane_x, plane_y) }
            }
            if !has_next {
                break;
            }
        }
        if stream {
            simd.fence();
        }
    }
}

/// A matrix to transpose: `rows` are contiguous in `y`, `cols` in `x`.
#[derive(Clone, Copy, Debug)]
struct Plane {
    rows: Axis,
    cols: Axis,
    /// Whether to use non-temporal stores.
    stream: bool,
}

impl Plane {
    /// Prefetches a small plane.
    #[inline(always)]
    fn prefetch<S: Vector, T>(self, simd: S, x: *const T, y: *mut T) {
        let Self { rows, cols, stream } = self;
        let per_line = LINE_BYTES / size_of::<T>();
        for i in 0..rows.extent {
            for j in (0..cols.extent).step_by(per_line) {
                simd.prefetch(x.wrapping_add(i * rows.from + j * cols.from).cast());
            }
        }
        for j in 0..if stream { 0 } else { cols.extent } {
            for i in (0..rows.extent).step_by(per_line) {
                simd.prefetch(y.wrapping_add(j * cols.to + i).cast_const().cast());
            }
        }
    }

    /// Transposes the matrix.
    ///
    /// # Safety
    /// The elements that the axes reach are readable at `x` and writable at `y`.
    #[inline(always)]
    unsafe fn transpose<S: Vector, T: Copy>(self, simd: S, x: *const T, y: *mut T) {
        let Self { rows, cols, stream } = self;
        let is_tiled = rows.to == 1 && cols.from == 1;
        let (tile_rows, tile_cols) = match size_of::<T>() {
            1 if is_tiled => (S::LONG1, LINE_BYTES),
            4 if is_tiled => (S::TILE4, S::TILE4),
            _ => (usize::MAX, usize::MAX),
        };
        if size_of::<T>() == 1 && is_tiled && cols.to == rows.extent {
            let (x, y) = (x.cast(), y.cast());
            // SAFETY: `rows.extent` rows of bytes are readable at `x`, and as many next to each other writable at `y`
            // for each column.
            if unsafe { interleave(x, [rows.extent, rows.from], y, cols.extent) } {
                return;
            }
        }
        if rows.extent < tile_rows || cols.extent < tile_cols {
            let all = [0, rows.extent, 0, cols.extent];
            // SAFETY: the elements that `rows` and `cols` reach are readable at `x` and writable at `y`.
            unsafe { area(simd, x, y, rows, cols, all) }
            return;
        }
        let whole_tiles = size_of::<T>() == 1;
        let bytes = rows.extent.saturating_mul(cols.extent).saturating_mul(size_of::<T>());
        let y_stride_bytes = cols.to.wrapping_mul(size_of::<T>());
        let exceeds_l2 = bytes > L2_BYTES;
        // In the second-level cache, lines of either side must not be page multiples apart: the order is two columns of
        // tiles at a time, downwards. Beyond it, tiles go along the rows of `x`, which the hardware then prefetches,
        // unless the rows of `y` are page multiples apart.
        let order = match (exceeds_l2, y_stride_bytes.is_multiple_of(PAGE_BYTES)) {
            (false, _) => Order::Pairs,
            (true, true) => Order::Down,
            (true, false) => Order::Across,
        };
        // Rows that are page multiples apart share so few sets of the first-level cache that prefetched lines are
        // evicted before use.
        let x_stride_bytes = rows.from.wrapping_mul(size_of::<T>());
        let conflicts = !exceeds_l2 && (y_stride_bytes | x_stride_bytes).is_multiple_of(PAGE_BYTES);
        let distance = match (exceeds_l2, size_of::<T>()) {
            (true, 4) => 4,
            (true, _) => 1,
            (false, 4) if !conflicts => 1,
            (false, _) => usize::MAX,
        };
        let mut i0 = 0;
        while i0 < rows.extent {
            let i1 = rows.extent.min(i0 + BLOCK);
            let tiles_down =
                if whole_tiles { (i1 - i0) / tile_rows } else { (i1 - i0).div_ceil(tile_rows) };
            let mut j0 = 0;
            while j0 < cols.extent {
                let j1 = cols.extent.min(j0 + BLOCK);
                let tiles_across =
                    if whole_tiles { (j1 - j0) / tile_cols } else { (j1 - j0).div_ceil(tile_cols) };
                // The last tiles overlap those before them.
                let start = |(i, j): (usize, usize)| {
                    let i = (i0 + i * tile_rows).min(rows.extent - tile_rows);
                    (i, (j0 + j * tile_cols).min(cols.extent - tile_cols))
                };
                let (mut current, mut prefetched) = ((0, 0), (0, 0));
                let mut index = 0;
                while index < distance.min(tiles_down * tiles_across) {
                    prefetched = order.next(prefetched, tiles_down, tiles_across);
                    index += 1;
                }
                index = 0;
                while index < tiles_down * tiles_across {
                    // The last tiles of a block have no next one, and prefetch themselves.
                    let next = if distance < tiles_down * tiles_across - index {
                        prefetched
                    } else {
                        current
                    };
                    prefetched = order.next(prefetched, tiles_down, tiles_across);
                    let (i, j) = start(next);
                    let next = Tile {
                        x: x.wrapping_add(i * rows.from + j),
                        y: y.wrapping_add(j * cols.to + i),
                        strides: [rows.from, cols.to],
                    };
                    let (i, j) = start(current);
                    current = order.next(current, tiles_down, tiles_across);
                    // SAFETY: a tile from `i` and `j` on is within the matrix.
                    let (x, y) = unsafe { (x.add(i * rows.from + j), y.add(j * cols.to + i)) };
                    let is_aligned = y.addr().is_multiple_of(LINE_BYTES)
                        && y_stride_bytes.is_multiple_of(LINE_BYTES);
                    let next = if distance == usize::MAX { None } else { Some(next) };
                    let tile = Tile { x, y, strides: [rows.from, cols.to] };
                    // SAFETY: so do the tile and its transpose, as `strides` are those of the matrix.
                    unsafe { tile.transpose(simd, next, stream && is_aligned) }
                    index += 1;
                }
                let (i_done, j_done) =
                    (i1.min(i0 + tiles_down * tile_rows), j1.min(j0 + tiles_across * tile_cols));
                // SAFETY: the rest of the block, below the tiles and right of them, is within the
                // matrix.
                unsafe {
                    area(simd, x, y, rows, cols, [i_done, i1, j0, j1]);
                    area(simd, x, y, rows, cols, [i0, i_done, j_done, j1]);
                }
                j0 = j1;
            }
            i0 = i1;
        }
    }
}

/// The order of the tiles of a block.
#[derive(Clone, Copy, Debug)]
enum Order {
    Down,
    Across,
    /// Two columns at a time, downwards.
    Pairs,
}

impl Order {
    /// Returns the row and column of the tile after `(i, j)` in a block of `down` by `across`.
    #[inline(always)]
    fn next(self, (i, j): (usize, usize), down: usize, across: usize) -> (usize, usize) {
        match self {
            Self::Across if j + 1 < across => (i, j + 1),
            Self::Across => (i + 1, 0),
            Self::Pairs if j.is_multiple_of(2) && j + 1 < across => (i, j + 1),
            Self::Pairs if i + 1 < down => (i + 1, j / 2 * 2),
            Self::Down if i + 1 < down => (i + 1, j),
            Self::Pairs | Self::Down => (0, j + 1),
        }
    }
}

/// The largest tile: `TILE4` rows and columns of 4-byte elements, or `LONG1` rows of `LINE_BYTES` 1-byte elements.
#[derive(Clone, Copy, Debug)]
struct Tile<T> {
    x: *const T,
    y: *mut T,
    /// Strides of `x` and `y` in elements.
    strides: [usize; 2],
}

impl<T: Copy> Tile<T> {
    /// Transposes the tile, and prefetches the tile `next`.
    ///
    /// # Safety
    /// The tile is readable at `x` and writable at `y`; with `stream`, rows of `y` start at cache lines.
    #[inline(always)]
    unsafe fn transpose<S: Vector>(self, simd: S, next: Option<Self>, stream: bool) {
        let Self { x, y, strides: [x_stride, y_stride] } = self;
        if size_of::<T>() == 4 {
            let (x, y) = (x.cast(), y.cast());
            // SAFETY: a tile of 4-byte elements is readable at `x` and writable at `y`.
            unsafe {
                match next {
                    _ if stream => {
                        let next = next.map_or(x, |next| next.x.cast());
                        simd.tile4_stream(x, x_stride, y, y_stride, next);
                    }
                    Some(next) => {
                        let next = [next.x.cast(), next.y.cast_const().cast()];
                        simd.tile4_prefetch(x, x_stride, y, y_stride, next);
                    }
                    None => simd.tile4(x, x_stride, y, y_stride),
                }
            }
            return;
        }
        if let Some(next) = next {
            let mut column = 0;
            while column < S::LONG1.max(LINE_BYTES) {
                let row = column.min(S::LONG1 - 1) * x_stride;
                simd.prefetch(next.x.wrapping_add(row).cast());
                if !stream {
                    let row = column.min(LINE_BYTES - 1) * y_stride;
                    simd.prefetch(next.y.wrapping_add(row).cast_const().cast());
                }
                column += 1;
            }
        }
        let mut column = 0;
        while column < LINE_BYTES {
            // SAFETY: a tile is readable at `x` and writable at `y`; it is some times 16 columns.
            unsafe {
                let (x, y) = (x.add(column).cast(), y.add(column * y_stride).cast());
                if stream {
                    simd.long1_stream(x, x_stride, y, y_stride);
                } else {
                    simd.long1(x, x_stride, y, y_stride);
                }
            }
            column += 16;
        }
    }
}

/// Transposes 2 to 4 rows of `count` bytes by interleaving them. Returns false for other numbers of rows.
///
/// # Safety
/// `rows` rows with a stride of `stride` are readable at `x`, and `rows * count` bytes writable at `y`, without
/// overlap.
#[inline(always)]
unsafe fn interleave(x: *const u8, [rows, stride]: [usize; 2], y: *mut u8, count: usize) -> bool {
    // SAFETY: `N` equals `rows` here, so the caller's guarantee for `rows` rows applies.
    unsafe {
        match rows {
            2 => interleave_rows::<2>(x, stride, y, count),
            3 => interleave_rows::<3>(x, stride, y, count),
            4 => interleave_rows::<4>(x, stride, y, count),
            _ => return false,
        }
    }
    true
}

/// Like [`interleave`] for `N` rows, few enough for the compiler to turn the loop into shuffles.
///
/// # Safety
/// As of [`interleave`].
#[inline(always)]
unsafe fn interleave_rows<const N: usize>(x: *const u8, stride: usize, y: *mut u8, count: usize) {
    for j in 0..count {
        for i in 0..N {
            // SAFETY: row `i` has byte `j`, and `y` has `count * N` bytes.
            unsafe { *y.add(j * N + i) = *x.add(i * stride + j) }
        }
    }
}

/// Transposes an area that is too small for large tiles, by smaller tiles or single elements: rows `i0..i1` and columns
/// `j0..j1` of the matrix.
///
/// # Safety
/// The elements that the axes reach are readable at `x` and writable at `y`; the ranges are inside the extents.
#[inline(always)]
unsafe fn area<S: Vector, T: Copy>(
    simd: S,
    x: *const T,
    y: *mut T,
    rows: Axis,
    cols: Axis,
    [i0, i1, j0, j1]: [usize; 4],
) {
    let is_tiled = rows.to == 1 && cols.from == 1;
    let tile = match size_of::<T>() {
        1 if is_tiled && rows.extent.min(cols.extent) >= S::TILE1 => S::TILE1,
        4 if is_tiled => S::TILE4,
        _ => 0,
    };
    if i0 == i1 || j0 == j1 {
        return;
    }
    if tile == 0 {
        for j in j0..j1 {
            for i in i0..i1 {
                let (from, to) = (i * rows.from + j * cols.from, j * cols.to + i * rows.to);
                // SAFETY: `i` and `j` are within the matrix.
                unsafe { *y.add(to) = *x.add(from) }
            }
        }
        return;
    }
    let mut j = j0;
    while j < j1 {
        let mut i = i0;
        while i < i1 {
            if size_of::<T>() == 4 {
                let (height, width) = (tile.min(i1 - i), tile.min(j1 - j));
                // SAFETY: a part from `i` and `j` on is within the matrix; elements have 4 bytes.
                unsafe {
                    let (x, y) = (x.add(i * rows.from + j), y.add(j * cols.to + i));
                    simd.part4(x.cast(), rows.from, y.cast(), cols.to, height, width);
                }
            } else {
                // Tiles that would exceed the range overlap others.
                let (i, j) = (i.min(rows.extent - tile), j.min(cols.extent - tile));
                // SAFETY: a tile from `i` and `j` on is within the matrix; elements have 1 byte.
                unsafe {
                    let (x, y) = (x.add(i * rows.from + j), y.add(j * cols.to + i));
                    simd.tile1(x.cast(), rows.from, y.cast(), cols.to);
                }
            }
            i += tile;
        }
        j += tile;
    }
}
