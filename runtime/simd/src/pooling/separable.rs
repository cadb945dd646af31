//! Separable pooling: reduces each input column under a row of windows first, then the columns of each window.
//!
//! The column results are kept in a buffer that fits the first-level cache. Each input element is read once per row of
//! windows, or once per two rows for stride 1. Vectors run over channels; the last vector of a pixel overlaps the
//! previous one instead of being partial.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::{Divisor, Job, bounds};

/// Vectors of a pixel that are pooled at the same time.
const VECTORS: usize = 4;
/// Bytes of the buffer for the column results of one row of windows.
const BUFFER_BYTES: usize = 1 << 14;
/// Bytes of an input row of a tile.
const TILE_BYTES: usize = 6 << 10;
/// Bytes that fit a 2 MiB second-level cache, with space for other data.
const L2_BYTES: usize = 7 << 18;

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
    /// Loads a vector as an accumulator.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn load(self, from: *const Self::Item) -> Self::Acc;
    /// Combines an accumulator with the next one.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn combine(self, accumulator: Self::Acc, next: Self::Acc) -> Self::Acc;
    /// Returns the divisor of windows, if any.
    fn divisor(self) -> Divisor;
    /// Returns the scale of a window with this divisor and `inside` taps inside the image.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn scale(self, divisor: usize, inside: usize) -> Self::Scale;
    /// Scales the accumulator of a window and stores it.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn store(self, accumulator: Self::Acc, scale: Self::Scale, to: *mut Self::Item);
}

/// Returns whether this algorithm suits a job's windows and channels.
pub(super) fn suits<F: Fold>(_: F, job: &Job<'_>) -> bool {
    let window = job.window;
    let max_columns = BUFFER_BYTES / (VECTORS * size_of::<F::Acc>());
    let span = span(job);
    job.channels >= F::LEN
        && window.kernel[2] > 0
        // With larger strides, many columns would be reduced that no window contains.
        && (1..=span.saturating_mul(2)).contains(&window.strides[2])
        && span <= max_columns
}

/// Returns the input columns that a window spans.
fn span(job: &Job<'_>) -> usize {
    (job.window.kernel[2].saturating_sub(1) * job.window.dilations[2]).saturating_add(1)
}

/// The column results of two rows of windows. Aligned to cache lines, because loads and stores that straddle lines take
/// twice as long.
#[repr(C, align(64))]
struct Buffer([MaybeUninit<u8>; 2 * BUFFER_BYTES]);

/// A pooling from image `x` to image `y`.
#[derive(Clone, Copy)]
pub(super) struct Separable<'a, F: Fold> {
    pub(super) fold: F,
    pub(super) job: &'a Job<'a>,
    pub(super) x: *const F::Item,
    pub(super) y: *mut F::Item,
}

/// One or two consecutive output rows, which share loads.
struct Band {
    /// Plane and row of the first output row.
    position: [usize; 2],
    /// The taps of the first row's windows that are inside the image.
    taps: [Range<usize>; 3],
    /// The first element of the first tap.
    first: usize,
    /// Strides between taps along the planes and the rows.
    steps: [usize; 2],
    /// Number of output rows.
    rows: usize,
}

/// Output columns, and the input columns that they need.
struct ColumnBlock {
    outputs: Range<usize>,
    inputs: Range<usize>,
}

impl<F: Fold> Separable<'_, F> {
    /// Pools the job.
    ///
    /// # Safety
    ///
    /// The machine has the instructions of the fold, the job suits it, and the pixels of its windows are inside `x` and
    /// `y`.
    #[inline(always)]
    pub(super) unsafe fn run(&self) {
        let job = self.job;
        #[expect(clippy::large_stack_arrays, reason = "the first cache holds it")]
        let mut buffer = const { Buffer([MaybeUninit::uninit(); 2 * BUFFER_BYTES]) };
        let buffers = buffer.0.as_mut_ptr().cast();
        let across = job.window.output[2];
        let max_columns = self.tile();
        let tiles = across.div_ceil(max_columns);
        for tile in 0..tiles {
            let cols = across * tile / tiles..across * (tile + 1) / tiles;
            let mut row = job.rows.0;
            while row < job.rows.1 {
                let band = self.band(row);
                let to = self.y.wrapping_add((row - job.rows.0) * across * job.y_stride);
                let mut c = 0;
                // SAFETY: the pixels of the band and of the row at `to` have `job.channels`
                // channels, which the strips cover exactly; `buffers` are two separate buffers.
                unsafe {
                    while F::IS_WIDE && c + VECTORS * F::LEN <= job.channels {
                        self.strip::<VECTORS>(&band, &cols, c, to, buffers);
                        c += VECTORS * F::LEN;
                    }
                    while c < job.channels {
                        let first_channel = c.min(job.channels - F::LEN);
                        self.strip::<1>(&band, &cols, first_channel, to, buffers);
                        c += F::LEN;
                    }
                }
                row += band.rows;
            }
        }
    }

    /// Returns the output columns of a tile, at least 1. For stride 1, and images that fit the second-level cache,
    /// tiles are so narrow that the input of a row is still in the first-level cache for the next row. Larger images
    /// are best read sequentially, in one tile.
    fn tile(&self) -> usize {
        let (job, window) = (self.job, self.job.window);
        let pixels = |axes: [usize; 3]| axes.into_iter().fold(1, usize::saturating_mul);
        let pixel = job.channels * size_of::<F::Item>();
        let pixels = pixels(window.input).saturating_add(pixels(window.output));
        if window.strides[1..] == [1, 1] && pixels.saturating_mul(pixel) <= L2_BYTES {
            (TILE_BYTES / pixel).max(2 * span(job))
        } else {
            window.output[2]
        }
    }

    /// Returns the band that starts at output row `row`. It has two rows if both have all taps inside the image, and
    /// their windows overlap.
    #[inline(always)]
    fn band(&self, row: usize) -> Band {
        let (job, window) = (self.job, self.job.window);
        let (position, mut taps) = job.row(row);
        // `ColumnBlock` has the taps along the row.
        taps[2] = 0..usize::from(window.input[2] > 0);
        let has_all_taps =
            |position: usize| bounds::inside(window, 1, position) == (0..window.kernel[1]);
        let has_two_rows = row + 1 < job.rows.1
            && position[1] + 1 < window.output[1]
            && (2..=3).contains(&window.kernel[1])
            && taps[0].len() == 1
            && (window.strides[1], window.dilations[1]) == (1, 1)
            && has_all_taps(position[1])
            && has_all_taps(position[1] + 1);
        let row_stride = window.input[2].wrapping_mul(job.x_stride);
        let plane_stride = row_stride.wrapping_mul(window.input[1]);
        let mut first = 0;
        if taps.iter().all(|taps| !taps.is_empty()) {
            let [i, j] =
                [0, 1].map(|axis| bounds::pixel(window, axis, position[axis], taps[axis].start));
            first = i * plane_stride + j * row_stride;
        }
        let steps = [
            window.dilations[0].wrapping_mul(plane_stride),
            window.dilations[1].wrapping_mul(row_stride),
        ];
        Band { position, taps, first, steps, rows: 1 + usize::from(has_two_rows) }
    }

    /// Computes `V` vectors of a band, from channel `c` on. `to` is the band's first output row.
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
        buffers: *mut F::Acc,
    ) {
        let (job, window) = (self.job, self.job.window);
        let (stride, pad, width) = (window.strides[2], window.pads[2], window.input[2]);
        let across = window.output[2];
        let (span, max_columns) = (span(job), BUFFER_BYTES / (V * size_of::<F::Acc>()));
        let to = to.wrapping_add(c);
        let mut col = cols.start;
        while col < cols.end {
            let count = (cols.end - col).min((max_columns - span) / stride + 1);
            let start = (col * stride).saturating_sub(pad).min(width);
            let end = ((col + count - 1) * stride).saturating_add(span);
            let block = ColumnBlock {
                outputs: col..col + count,
                inputs: start..end.saturating_sub(pad).min(width),
            };
            // A window outside the image has no columns, so its position does not matter.
            let first = band.first.wrapping_add(start.wrapping_mul(job.x_stride));
            let from = self.x.wrapping_add(first).wrapping_add(c);
            let buffers = [buffers, buffers.wrapping_add(block.inputs.len() * V)];
            // SAFETY: the rows of the band have `block.inputs.len()` pixels with `V` vectors from `from` on,
            // which each buffer of `buffers` holds.
            unsafe {
                match (band.rows, band.taps[0].len(), band.taps[1].len()) {
                    (2, _, 2) => self.down_twice::<V, 2>(band, from, block.inputs.len(), buffers),
                    (2, _, _) => self.down_twice::<V, 3>(band, from, block.inputs.len(), buffers),
                    (_, 1, 2) => self.down::<V, 2>(band, from, block.inputs.len(), buffers[0]),
                    (_, 1, 3) => self.down::<V, 3>(band, from, block.inputs.len(), buffers[0]),
                    _ => self.down_any::<V>(band, from, block.inputs.len(), buffers[0]),
                }
                for (row, from) in buffers.into_iter().enumerate().take(band.rows) {
                    let position = [band.position[0], band.position[1] + row];
                    let to = to.wrapping_add(row * across * job.y_stride);
                    self.across::<V>(band, position, &block, from, to);
                }
            }
            col += count;
        }
    }

    /// Reduces `count` columns of `N` input rows from `from` on.
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
                    let address = from.add(v * F::LEN);
                    let mut accumulator = self.fold.load(address);
                    for row in 1..N {
                        accumulator = self
                            .fold
                            .combine(accumulator, self.fold.load(address.wrapping_add(row * step)));
                    }
                    to.add(v).write(accumulator);
                }
            }
            from = from.wrapping_add(self.job.x_stride);
            to = to.wrapping_add(V);
        }
    }

    /// Like [`Self::down`], for two rows of windows, of which the second starts one input row further down.
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
                    let address = from.add(v * F::LEN);
                    let load = |row: usize| fold.load(address.wrapping_add(row * step));
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

    /// Like [`Self::down`], for any taps of the band.
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
                let mut accumulators = [self.fold.identity(); V];
                for i in 0..band.taps[0].len() {
                    for j in 0..band.taps[1].len() {
                        let address = from.wrapping_add(i * band.steps[0] + j * band.steps[1]);
                        for (v, accumulator) in accumulators.iter_mut().enumerate() {
                            *accumulator = self
                                .fold
                                .combine(*accumulator, self.fold.load(address.add(v * F::LEN)));
                        }
                    }
                }
                for (v, accumulator) in accumulators.into_iter().enumerate() {
                    to.add(v).write(accumulator);
                }
            }
            from = from.wrapping_add(self.job.x_stride);
            to = to.wrapping_add(V);
        }
    }

    /// Computes the outputs of a block from its column results.
    ///
    /// # Safety
    ///
    /// `from` has the columns of the block, and the pixels of the row at `to` have `V` vectors.
    #[inline(always)]
    unsafe fn across<const V: usize>(
        &self,
        band: &Band,
        position: [usize; 2],
        block: &ColumnBlock,
        from: *const F::Acc,
        to: *mut F::Item,
    ) {
        let window = self.job.window;
        let (stride, pad) = (window.strides[2], window.pads[2]);
        // The windows from output column `first` to `last` have all their taps inside the image.
        let first = pad.div_ceil(stride);
        let limit = (window.input[2] + pad).checked_sub(span(self.job));
        let last = limit.map_or(0, |limit| limit / stride + 1);
        let Range { start, end } = block.outputs;
        let inner_columns = first.clamp(start, end)..last.clamp(start, end);
        let inner_columns = if inner_columns.is_empty() { end..end } else { inner_columns };
        let columns = Columns { band, position, inputs: block.inputs.start, from, to };
        // SAFETY: `from` holds the columns `block.inputs`, and the pixels of the row at `to` have `V`
        // vectors.
        unsafe {
            for col in start..inner_columns.start {
                self.edge::<V>(&columns, col);
            }
            match window.kernel[2] {
                2 => self.inner::<V, 2>(&columns, &inner_columns),
                3 => self.inner::<V, 3>(&columns, &inner_columns),
                _ => self.inner::<V, 0>(&columns, &inner_columns),
            }
            for col in inner_columns.end..end {
                self.edge::<V>(&columns, col);
            }
        }
    }

    /// Computes windows whose taps along the row are all inside the image. `K` is their number, or 0 for any number.
    ///
    /// # Safety
    ///
    /// As for [`Self::across`]; the taps of the windows are inside the image.
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
        let [plane, row] = columns.position;
        let taps = if K == 0 { window.kernel[2] } else { K };
        // Not used for a single tap, so it may wrap around.
        let step = window.dilations[2].wrapping_mul(V);
        // SAFETY: the caller has the instruction set; no memory is accessed.
        let scale = unsafe { self.window_scale(&columns.band.taps[0], [plane, row, cols.start]) };
        let start = cols.start * window.strides[2] - window.pads[2] - columns.inputs;
        let mut from = columns.from.wrapping_add(start * V);
        let mut to = columns.to.wrapping_add(cols.start * job.y_stride);
        for _ in cols.clone() {
            for v in 0..V {
                // SAFETY: all `taps` taps of the window are inside the columns at `from`, and the
                // pixel at `to` has `V` vectors.
                unsafe {
                    let address = from.add(v);
                    let mut accumulator = address.read();
                    for k in 1..taps {
                        accumulator = self.fold.combine(accumulator, address.add(k * step).read());
                    }
                    self.fold.store(accumulator, scale, to.add(v * F::LEN));
                }
            }
            from = from.wrapping_add(window.strides[2] * V);
            to = to.wrapping_add(job.y_stride);
        }
    }

    /// Computes one window, whose taps may be outside the image.
    ///
    /// # Safety
    ///
    /// As for [`Self::across`].
    #[inline(always)]
    unsafe fn edge<const V: usize>(&self, columns: &Columns<'_, F>, col: usize) {
        let window = self.job.window;
        let [plane, row] = columns.position;
        let to = columns.to.wrapping_add(col * self.job.y_stride);
        // SAFETY: the taps that are inside the image are among the columns at `from`, and the pixel
        // at `to` has `V` vectors.
        unsafe {
            let scale = self.window_scale(&columns.band.taps[0], [plane, row, col]);
            for v in 0..V {
                let mut accumulator = self.fold.identity();
                for k in self.job.taps_along_row(col) {
                    let column = bounds::pixel(window, 2, col, k) - columns.inputs;
                    accumulator =
                        self.fold.combine(accumulator, columns.from.add(column * V + v).read());
                }
                self.fold.store(accumulator, scale, to.add(v * F::LEN));
            }
        }
    }

    /// Returns the scale of a window with the taps `planes` along the first axis.
    ///
    /// # Safety
    ///
    /// The machine has the instructions of the fold.
    #[inline(always)]
    unsafe fn window_scale(&self, planes: &Range<usize>, position: [usize; 3]) -> F::Scale {
        let rows = bounds::inside(self.job.window, 1, position[1]);
        let taps = [planes.clone(), rows, self.job.taps_along_row(position[2])];
        let divisor = self.fold.divisor().count(self.job.window, position, &taps);
        // SAFETY: the caller has the instruction set; no memory is accessed.
        unsafe { self.fold.scale(divisor, taps.iter().map(Range::len).product()) }
    }
}

/// Column results of a row, from input column `inputs` on, and the destination of the row's outputs.
struct Columns<'a, F: Fold> {
    band: &'a Band,
    position: [usize; 2],
    inputs: usize,
    from: *const F::Acc,
    to: *mut F::Item,
}
