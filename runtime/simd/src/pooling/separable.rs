//! Separable pooling: down the columns of the input first, then across.
//!
//! Column results under a row of windows are kept in a buffer that fits the first-level cache. Each input element is
//! read once per row of windows, or once per two rows for stride 1. Vectors run over channels; the last vector of a
//! pixel overlaps the one before rather than being partial.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::{Divisor, Job, bounds};

/// Vectors of a pixel pooled at the same time.
const VECTORS: usize = 4;
/// Bytes of the buffer of a row.
const BUFFER: usize = 1 << 14;
/// Bytes of an input row of a tile.
const TILE: usize = 6 << 10;
/// Bytes that fit the second-level cache, with room for other data.
const NEAR: usize = 7 << 18;

/// The reduction of vectors of channels.
///
/// # Safety
///
/// Callers must run on a machine with the instruction set; pointers must be valid for `LEN` items.
pub(super) trait Fold: Copy {
    /// An element of input and output.
    type Item: Copy;
    /// An accumulator of taps.
    type Acc: Copy;
    /// The final scale of a window's accumulator.
    type Scale: Copy;

    /// Items per vector.
    const LEN: usize;
    /// Whether there are enough registers for several vectors at a time.
    const IS_WIDE: bool;
    /// Whether `combine` gives the same bits in any grouping.
    const ASSOCIATIVE: bool;

    /// Returns the neutral accumulator.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn identity(self) -> Self::Acc;
    /// # Safety
    /// See the trait.
    unsafe fn load(self, from: *const Self::Item) -> Self::Acc;
    /// # Safety
    /// See the trait.
    unsafe fn combine(self, one: Self::Acc, next: Self::Acc) -> Self::Acc;
    /// Returns the divisor of windows, if any.
    fn divisor(self) -> Divisor;
    /// Returns the scale of a window with this divisor and `inside` taps inside the image.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn scale(self, divisor: usize, inside: usize) -> Self::Scale;
    /// # Safety
    /// See the trait.
    unsafe fn store(self, whole: Self::Acc, end: Self::Scale, to: *mut Self::Item);
}

/// Whether this algorithm suits a job's windows.
pub(super) fn suits<F: Fold>(_: F, job: &Job<'_>) -> bool {
    let window = job.window;
    let buffer = BUFFER / (VECTORS * size_of::<F::Acc>());
    let span = span(job);
    job.channels >= F::LEN
        && window.kernel[2] > 0
        // Strides that skip many columns would make their reduction useless work.
        && (1..=span.saturating_mul(2)).contains(&window.strides[2])
        && span <= buffer
}

/// Returns the input columns that a window spans.
fn span(job: &Job<'_>) -> usize {
    (job.window.kernel[2].saturating_sub(1) * job.window.dilations[2]).saturating_add(1)
}

/// Aligned to cache lines: loads and stores that straddle lines take twice as long.
#[repr(C, align(64))]
struct Buffer([MaybeUninit<u8>; 2 * BUFFER]);

/// A job on images `x` and `y`.
#[derive(Clone, Copy)]
pub(super) struct Separable<'a, F: Fold> {
    pub(super) fold: F,
    pub(super) job: &'a Job<'a>,
    pub(super) x: *const F::Item,
    pub(super) y: *mut F::Item,
}

/// One or two consecutive output rows: the taps of the first, their first element, and the strides between taps.
struct Band {
    at: [usize; 2],
    taps: [Range<usize>; 3],
    first: usize,
    steps: [usize; 2],
    rows: usize,
}

/// Output columns, and the input columns that they need.
struct ColumnBlock {
    outputs: Range<usize>,
    inputs: Range<usize>,
}

impl<F: Fold> Separable<'_, F> {
    /// # Safety
    ///
    /// The machine has the instructions of the fold, the job suits it, and the pixels of its windows are inside `x` and
    /// `y`.
    #[inline(always)]
    pub(super) unsafe fn run(&self) {
        let job = self.job;
        #[expect(clippy::large_stack_arrays, reason = "the first cache holds it")]
        let mut buffer = const { Buffer([MaybeUninit::uninit(); 2 * BUFFER]) };
        let parts = buffer.0.as_mut_ptr().cast();
        let across = job.window.output[2];
        let most = self.tile();
        let tiles = across.div_ceil(most);
        for tile in 0..tiles {
            let cols = across * tile / tiles..across * (tile + 1) / tiles;
            let mut row = job.rows.0;
            while row < job.rows.1 {
                let band = self.band(row);
                let to = self.y.wrapping_add((row - job.rows.0) * across * job.y_stride);
                let mut c = 0;
                // SAFETY: the pixels of the band and of the row at `to` have `job.channels`
                // channels, which the strips cover exactly; `parts` are two separate buffers.
                unsafe {
                    while F::IS_WIDE && c + VECTORS * F::LEN <= job.channels {
                        self.strip::<VECTORS>(&band, &cols, c, to, parts);
                        c += VECTORS * F::LEN;
                    }
                    while c < job.channels {
                        let last = c.min(job.channels - F::LEN);
                        self.strip::<1>(&band, &cols, last, to, parts);
                        c += F::LEN;
                    }
                }
                row += band.rows;
            }
        }
    }

    /// Returns the output columns of a tile, at least 1. For stride 1, and images that fit the second-level cache,
    /// tiles keep the input of a row in the first-level cache for the next row. Larger images are best read
    /// sequentially.
    fn tile(&self) -> usize {
        let (job, window) = (self.job, self.job.window);
        let pixels = |axes: [usize; 3]| axes.into_iter().fold(1, usize::saturating_mul);
        let pixel = job.channels * size_of::<F::Item>();
        let pixels = pixels(window.input).saturating_add(pixels(window.output));
        if window.strides[1..] == [1, 1] && pixels.saturating_mul(pixel) <= NEAR {
            (TILE / pixel).max(2 * span(job))
        } else {
            window.output[2]
        }
    }

    #[inline(always)]
    fn band(&self, row: usize) -> Band {
        let (job, window) = (self.job, self.job.window);
        let (at, mut taps) = job.row(row);
        // The taps along the row are `ColumnBlock`'s.
        taps[2] = 0..usize::from(window.input[2] > 0);
        let full = |at: usize| bounds::inside(window, 1, at) == (0..window.kernel[1]);
        let two = row + 1 < job.rows.1
            && at[1] + 1 < window.output[1]
            && (2..=3).contains(&window.kernel[1])
            && taps[0].len() == 1
            && (window.strides[1], window.dilations[1]) == (1, 1)
            && full(at[1])
            && full(at[1] + 1);
        let line = window.input[2].wrapping_mul(job.x_stride);
        let plane = line.wrapping_mul(window.input[1]);
        let mut first = 0;
        if taps.iter().all(|taps| !taps.is_empty()) {
            let [i, j] = [0, 1].map(|axis| bounds::pixel(window, axis, at[axis], taps[axis].start));
            first = i * plane + j * line;
        }
        let steps =
            [window.dilations[0].wrapping_mul(plane), window.dilations[1].wrapping_mul(line)];
        Band { at, taps, first, steps, rows: 1 + usize::from(two) }
    }

    /// Computes `V` vectors from channel `c` on of a band's rows, of which the first is at `to`.
    ///
    /// # Safety
    ///
    /// As for [`Self::run`]; the job has those channels. `parts` has two buffers.
    #[inline(always)]
    unsafe fn strip<const V: usize>(
        &self,
        band: &Band,
        cols: &Range<usize>,
        c: usize,
        to: *mut F::Item,
        parts: *mut F::Acc,
    ) {
        let (job, window) = (self.job, self.job.window);
        let (stride, pad, width) = (window.strides[2], window.pads[2], window.input[2]);
        let across = window.output[2];
        let (span, most) = (span(job), BUFFER / (V * size_of::<F::Acc>()));
        let to = to.wrapping_add(c);
        let mut col = cols.start;
        while col < cols.end {
            let count = (cols.end - col).min((most - span) / stride + 1);
            let start = (col * stride).saturating_sub(pad).min(width);
            let end = ((col + count - 1) * stride).saturating_add(span);
            let part = ColumnBlock {
                outputs: col..col + count,
                inputs: start..end.saturating_sub(pad).min(width),
            };
            // A window outside the image has no columns, so its position does not matter.
            let first = band.first.wrapping_add(start.wrapping_mul(job.x_stride));
            let from = self.x.wrapping_add(first).wrapping_add(c);
            let parts = [parts, parts.wrapping_add(part.inputs.len() * V)];
            // SAFETY: the rows of the band have `part.inputs.len()` pixels with `V` vectors from `from` on,
            // which each buffer of `parts` holds.
            unsafe {
                match (band.rows, band.taps[0].len(), band.taps[1].len()) {
                    (2, _, 2) => self.down_twice::<V, 2>(band, from, part.inputs.len(), parts),
                    (2, _, _) => self.down_twice::<V, 3>(band, from, part.inputs.len(), parts),
                    (_, 1, 2) => self.down::<V, 2>(band, from, part.inputs.len(), parts[0]),
                    (_, 1, 3) => self.down::<V, 3>(band, from, part.inputs.len(), parts[0]),
                    _ => self.down_any::<V>(band, from, part.inputs.len(), parts[0]),
                }
                for (row, from) in parts.into_iter().enumerate().take(band.rows) {
                    let at = [band.at[0], band.at[1] + row];
                    let to = to.wrapping_add(row * across * job.y_stride);
                    self.across::<V>(band, at, &part, from, to);
                }
            }
            col += count;
        }
    }

    /// Reduces `N` rows of `count` columns from `from` on.
    ///
    /// # Safety
    ///
    /// The rows have so many pixels with `V` vectors, and `to` is a buffer that holds them.
    #[inline(always)]
    unsafe fn down<const V: usize, const N: usize>(
        &self,
        band: &Band,
        mut from: *const F::Item,
        count: usize,
        mut to: *mut F::Acc,
    ) {
        let step = band.steps[1];
        for _ in 0..count {
            for v in 0..V {
                // SAFETY: a pixel at `from` has `V` vectors in each of the band's rows, and the buffer at
                // `to` holds them.
                unsafe {
                    let at = from.add(v * F::LEN);
                    let mut part = self.fold.load(at);
                    for row in 1..N {
                        part = self.fold.combine(part, self.fold.load(at.wrapping_add(row * step)));
                    }
                    to.add(v).write(part);
                }
            }
            from = from.wrapping_add(self.job.x_stride);
            to = to.wrapping_add(V);
        }
    }

    /// Like [`Self::down`], for two rows of windows, the second one pixel further down.
    ///
    /// # Safety
    ///
    /// As for [`Self::down`], for `N + 1` rows and two buffers.
    #[inline(always)]
    unsafe fn down_twice<const V: usize, const N: usize>(
        &self,
        band: &Band,
        mut from: *const F::Item,
        count: usize,
        mut to: [*mut F::Acc; 2],
    ) {
        let (fold, step) = (self.fold, band.steps[1]);
        for _ in 0..count {
            for v in 0..V {
                // SAFETY: a pixel at `from` has `V` vectors in each of the `N + 1` rows, and both buffers
                // hold them.
                unsafe {
                    let at = from.add(v * F::LEN);
                    let load = |row: usize| fold.load(at.wrapping_add(row * step));
                    let (first, mut second) = (load(0), load(1));
                    let mut upper = fold.combine(first, second);
                    for row in 2..N {
                        let next = load(row);
                        second = fold.combine(second, next);
                        upper = fold.combine(if F::ASSOCIATIVE { first } else { upper }, {
                            if F::ASSOCIATIVE { second } else { next }
                        });
                    }
                    to[0].add(v).write(upper);
                    to[1].add(v).write(fold.combine(second, load(N)));
                }
            }
            from = from.wrapping_add(self.job.x_stride);
            to = to.map(|to| to.wrapping_add(V));
        }
    }

    /// Like [`Self::down`], for any taps.
    ///
    /// # Safety
    ///
    /// As for [`Self::down`].
    #[inline(always)]
    unsafe fn down_any<const V: usize>(
        &self,
        band: &Band,
        mut from: *const F::Item,
        count: usize,
        mut to: *mut F::Acc,
    ) {
        for _ in 0..count {
            // SAFETY: a pixel at `from` has `V` vectors at every tap of the band, and the buffer at `to`
            // holds them.
            unsafe {
                let mut parts = [self.fold.identity(); V];
                for i in 0..band.taps[0].len() {
                    for j in 0..band.taps[1].len() {
                        let at = from.wrapping_add(i * band.steps[0] + j * band.steps[1]);
                        for (v, part) in parts.iter_mut().enumerate() {
                            *part = self.fold.combine(*part, self.fold.load(at.add(v * F::LEN)));
                        }
                    }
                }
                for (v, part) in parts.into_iter().enumerate() {
                    to.add(v).write(part);
                }
            }
            from = from.wrapping_add(self.job.x_stride);
            to = to.wrapping_add(V);
        }
    }

    /// Computes the outputs of a part from its columns.
    ///
    /// # Safety
    ///
    /// `from` holds the columns of the part, and the pixels of the row at `to` have `V` vectors.
    #[inline(always)]
    unsafe fn across<const V: usize>(
        &self,
        band: &Band,
        at: [usize; 2],
        part: &ColumnBlock,
        from: *const F::Acc,
        to: *mut F::Item,
    ) {
        let window = self.job.window;
        let (stride, pad) = (window.strides[2], window.pads[2]);
        // All taps of these windows are inside the image.
        let first = pad.div_ceil(stride);
        let limit = (window.input[2] + pad).checked_sub(span(self.job));
        let last = limit.map_or(0, |limit| limit / stride + 1);
        let Range { start, end } = part.outputs;
        let whole = first.clamp(start, end)..last.clamp(start, end);
        let whole = if whole.is_empty() { end..end } else { whole };
        let columns = Columns { band, at, inputs: part.inputs.start, from, to };
        // SAFETY: `from` holds the columns `part.inputs`, and the pixels of the row at `to` have `V`
        // vectors.
        unsafe {
            for col in start..whole.start {
                self.edge::<V>(&columns, col);
            }
            match window.kernel[2] {
                2 => self.inner::<V, 2>(&columns, &whole),
                3 => self.inner::<V, 3>(&columns, &whole),
                _ => self.inner::<V, 0>(&columns, &whole),
            }
            for col in whole.end..end {
                self.edge::<V>(&columns, col);
            }
        }
    }

    /// Computes windows whose taps along the row are all inside the image: `K` taps, or the kernel's number for 0.
    ///
    /// # Safety
    ///
    /// As for [`Self::across`]; the windows are such.
    #[inline(always)]
    unsafe fn inner<const V: usize, const K: usize>(
        &self,
        columns: &Columns<'_, F>,
        cols: &Range<usize>,
    ) {
        if cols.is_empty() {
            return;
        }
        let (job, window) = (self.job, self.job.window);
        let [plane, row] = columns.at;
        let taps = if K == 0 { window.kernel[2] } else { K };
        // A single tap has no next one.
        let step = window.dilations[2].wrapping_mul(V);
        // SAFETY: the caller has the instruction set; no memory is accessed.
        let end = unsafe { self.end(&columns.band.taps[0], [plane, row, cols.start]) };
        let start = cols.start * window.strides[2] - window.pads[2] - columns.inputs;
        let mut from = columns.from.wrapping_add(start * V);
        let mut to = columns.to.wrapping_add(cols.start * job.y_stride);
        for _ in cols.clone() {
            for v in 0..V {
                // SAFETY: all `taps` taps of the window are inside the columns at `from`, and the
                // pixel at `to` has `V` vectors.
                unsafe {
                    let at = from.add(v);
                    let mut whole = at.read();
                    for k in 1..taps {
                        whole = self.fold.combine(whole, at.add(k * step).read());
                    }
                    self.fold.store(whole, end, to.add(v * F::LEN));
                }
            }
            from = from.wrapping_add(window.strides[2] * V);
            to = to.wrapping_add(job.y_stride);
        }
    }

    /// Computes any window.
    ///
    /// # Safety
    ///
    /// As for [`Self::across`].
    #[inline(always)]
    unsafe fn edge<const V: usize>(&self, columns: &Columns<'_, F>, col: usize) {
        let window = self.job.window;
        let [plane, row] = columns.at;
        let to = columns.to.wrapping_add(col * self.job.y_stride);
        // SAFETY: the taps that are inside the image are among the columns at `from`, and the pixel
        // at `to` has `V` vectors.
        unsafe {
            let end = self.end(&columns.band.taps[0], [plane, row, col]);
            for v in 0..V {
                let mut whole = self.fold.identity();
                for k in self.job.along(col) {
                    let column = bounds::pixel(window, 2, col, k) - columns.inputs;
                    whole = self.fold.combine(whole, columns.from.add(column * V + v).read());
                }
                self.fold.store(whole, end, to.add(v * F::LEN));
            }
        }
    }

    /// Returns the scale of a window with the taps `planes` along the first axis.
    ///
    /// # Safety
    ///
    /// The machine has the instructions of the fold.
    #[inline(always)]
    unsafe fn end(&self, planes: &Range<usize>, at: [usize; 3]) -> F::Scale {
        let rows = bounds::inside(self.job.window, 1, at[1]);
        let taps = [planes.clone(), rows, self.job.along(at[2])];
        let divisor = self.fold.divisor().at(self.job.window, at, &taps);
        // SAFETY: the caller has the instruction set; no memory is accessed.
        unsafe { self.fold.scale(divisor, taps.iter().map(Range::len).product()) }
    }
}

/// Column results of a row, from input column `inputs` on, and the destination of the row's outputs.
struct Columns<'a, F: Fold> {
    band: &'a Band,
    at: [usize; 2],
    inputs: usize,
    from: *const F::Acc,
    to: *mut F::Item,
}
