//! The input and output transforms of tiles, over vectors of channels.

use super::points::{Filter, Transform};
use super::{Plan, Tile, TileOrigin};
use crate::gemm_f32::Epilogue;
use crate::isa::{SimdOp, Vector};

/// Transforms tiles of the input; each point has a matrix with one row per tile.
pub(super) struct Input<'a> {
    pub(super) plan: &'a Plan,
    /// The first tile, and the number of tiles.
    pub(super) first: usize,
    pub(super) tiles: usize,
    /// All images.
    pub(super) x: *const f32,
    /// Memory for [`Plan::inputs`] at each point.
    pub(super) to: *mut f32,
}

/// The input of a tile: its corner pixel, which may be outside the image, and its pixels inside the image.
struct Window {
    corner: *const f32,
    row: usize,
    pixel: usize,
    rows: [usize; 2],
    cols: [usize; 2],
}

impl SimdOp for Input<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        match self.plan.tile {
            Tile::F2x2 => self.each::<S, 2, 4>(simd),
            Tile::F4x4 => self.each::<S, 4, 6>(simd),
        }
    }
}

impl Input<'_> {
    #[inline(always)]
    fn each<S: Vector, const M: usize, const A: usize>(&self, simd: S)
    where
        Filter<M, A>: Transform<M, A>,
    {
        let plan = self.plan;
        let channels = plan.layer.channels[0];
        let whole = channels - channels % S::LANES;
        for i in 0..self.tiles {
            let window = self.window(plan.origin(self.first + i));
            let to = self.to.wrapping_add(i * plan.inputs.row);
            let stride = plan.inputs.point;
            let inside = window.rows == [0, A] && window.cols == [0, A];
            // SAFETY: the pixels of the window are inside the image, `x` has all their channels,
            // and `to` has space for whole vectors up to the last channel at each point.
            unsafe {
                if inside {
                    for c in (0..whole).step_by(S::LANES) {
                        let load = |i: usize, j: usize| simd.load(window.at(i, j, c));
                        transform_input::<S, M, A>(simd, load, to.add(c), stride);
                    }
                } else {
                    for c in (0..whole).step_by(S::LANES) {
                        let load = |i: usize, j: usize| {
                            if window.has(i, j) {
                                simd.load(window.at(i, j, c))
                            } else {
                                simd.splat(0.0)
                            }
                        };
                        transform_input::<S, M, A>(simd, load, to.add(c), stride);
                    }
                }
                if whole < channels {
                    let load = |i: usize, j: usize| {
                        let zero = simd.splat(0.0);
                        if window.has(i, j) {
                            simd.load_tail(window.at(i, j, whole), channels - whole, zero)
                        } else {
                            zero
                        }
                    };
                    transform_input::<S, M, A>(simd, load, to.add(whole), stride);
                }
            }
        }
    }

    fn window(&self, origin: TileOrigin) -> Window {
        let layer = &self.plan.layer;
        let extent = self.plan.tile.extent();
        let axis = |axis: usize, at: usize| {
            let (pad, input) = (layer.pads[axis], layer.input[axis]);
            let from = pad.saturating_sub(at).min(extent);
            [from, (input + pad).saturating_sub(at).clamp(from, extent)]
        };
        let (rows, cols) = (axis(0, origin.row), axis(1, origin.col));
        let pixel = layer.pixel_strides[0];
        let row = layer.input[1] * pixel;
        let image = self.x.wrapping_add(origin.image * layer.input[0] * row);
        let corner = image
            .wrapping_add(origin.row * row + origin.col * pixel)
            .wrapping_sub(layer.pads[0] * row + layer.pads[1] * pixel);
        Window { corner, row, pixel, rows, cols }
    }
}

impl Window {
    #[inline(always)]
    fn has(&self, i: usize, j: usize) -> bool {
        self.rows[0] <= i && i < self.rows[1] && self.cols[0] <= j && j < self.cols[1]
    }

    #[inline(always)]
    fn at(&self, i: usize, j: usize, channel: usize) -> *const f32 {
        self.corner.wrapping_add(i * self.row + j * self.pixel + channel)
    }
}

/// Transforms one tile of a vector of channels.
///
/// # Safety
///
/// `to` must have room for a vector at each point.
#[inline(always)]
unsafe fn transform_input<S: Vector, const M: usize, const A: usize>(
    simd: S,
    load: impl Fn(usize, usize) -> S::F,
    to: *mut f32,
    stride: usize,
) where
    Filter<M, A>: Transform<M, A>,
{
    let mut rows = [[simd.splat(0.0); A]; A];
    for j in 0..A {
        let mut col = [simd.splat(0.0); A];
        for (i, x) in col.iter_mut().enumerate() {
            *x = load(i, j);
        }
        let col = Filter::<M, A>::input(simd, col);
        for i in 0..A {
            rows[i][j] = col[i];
        }
    }
    for i in 0..A {
        let row = Filter::<M, A>::input(simd, rows[i]);
        for j in 0..A {
            // SAFETY: there is room for a vector at each of the `A * A` points from `to` on, `stride`
            // apart.
            unsafe { simd.store(to.add((i * A + j) * stride), row[j]) }
        }
    }
}

/// Transforms products back to tiles of the output, from one row per tile in each point's matrix.
pub(super) struct Output<'a> {
    pub(super) plan: &'a Plan,
    /// The first tile, and the number of tiles.
    pub(super) first: usize,
    pub(super) tiles: usize,
    /// The sums of [`Plan::outputs`] at each point.
    pub(super) from: *const f32,
    /// The row of pixels that `y` and the residual start at, counted over all images.
    pub(super) top: usize,
    pub(super) y: *mut f32,
    pub(super) epilogue: &'a Epilogue<'a>,
}

/// The output of a tile: its first pixel, and how many pixels exist.
struct Target {
    y: *mut f32,
    row: usize,
    pixel: usize,
    residual: Option<(*const f32, usize, usize)>,
    bias: Option<*const f32>,
    rows: usize,
    cols: usize,
}

impl SimdOp for Output<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        match self.plan.tile {
            Tile::F2x2 => self.each::<S, 2, 4>(simd),
            Tile::F4x4 => self.each::<S, 4, 6>(simd),
        }
    }
}

impl Output<'_> {
    #[inline(always)]
    fn each<S: Vector, const M: usize, const A: usize>(&self, simd: S)
    where
        Filter<M, A>: Transform<M, A>,
    {
        let plan = self.plan;
        let channels = plan.layer.channels[1];
        for i in 0..self.tiles {
            let target = self.target(plan.origin(self.first + i));
            let from = self.from.wrapping_add(i * plan.outputs.row);
            for c in (0..channels).step_by(S::LANES) {
                let count = S::LANES.min(channels - c);
                // SAFETY: `outputs` has whole vectors up to the last channel of each tile.
                let mut sums =
                    unsafe { transform_output::<S, M, A>(simd, from.add(c), plan.outputs.point) };
                // SAFETY: the target has its pixels with all channels.
                unsafe { self.finish(simd, &target, c, count, &mut sums) };
            }
        }
    }

    fn target(&self, origin: TileOrigin) -> Target {
        let layer = &self.plan.layer;
        let size = self.plan.tile.size();
        let at =
            (origin.image * layer.output[0] + origin.row - self.top) * layer.output[1] + origin.col;
        let pixel = layer.pixel_strides[1];
        Target {
            y: self.y.wrapping_add(at * pixel),
            row: layer.output[1] * pixel,
            pixel,
            residual: self.epilogue.residual.map(|(data, pixel)| {
                (data.as_ptr().wrapping_add(at * pixel), layer.output[1] * pixel, pixel)
            }),
            bias: self.epilogue.bias.map(<[f32]>::as_ptr),
            rows: size.min(layer.output[0] - origin.row),
            cols: size.min(layer.output[1] - origin.col),
        }
    }

    /// Adds bias and residual, activates and stores a vector of channels.
    ///
    /// # Safety
    ///
    /// `count` channels from `channel` on must be there, of each pixel of the target, of those to add
    /// and of the bias.
    #[inline(always)]
    unsafe fn finish<S: Vector, const M: usize>(
        &self,
        simd: S,
        target: &Target,
        channel: usize,
        count: usize,
        sums: &mut [[S::F; M]; M],
    ) {
        let zero = simd.splat(0.0);
        let load = |at: *const f32| {
            if count == S::LANES {
                // SAFETY: `count` channels are readable at `at`, a whole vector.
                unsafe { simd.load(at) }
            } else {
                // SAFETY: `count` channels are readable at `at`, less than a vector.
                unsafe { simd.load_tail(at, count, zero) }
            }
        };
        if let Some(bias) = target.bias {
            let bias = load(bias.wrapping_add(channel));
            for sum in sums.as_flattened_mut() {
                *sum = simd.add(*sum, bias);
            }
        }
        if let Some((data, row, pixel)) = target.residual {
            for (i, sums) in sums.iter_mut().enumerate().take(target.rows) {
                for (j, sum) in sums.iter_mut().enumerate().take(target.cols) {
                    let at = data.wrapping_add(i * row + j * pixel + channel);
                    *sum = simd.add(*sum, load(at));
                }
            }
        }
        self.epilogue.activation.apply(simd, sums.as_flattened_mut());
        for (i, sums) in sums.iter().enumerate() {
            for (j, &sum) in sums.iter().enumerate() {
                if i < target.rows && j < target.cols {
                    let at = target.y.wrapping_add(i * target.row + j * target.pixel + channel);
                    if count == S::LANES {
                        // SAFETY: `count` channels of the pixel are writable at `at`, a whole vector.
                        unsafe { simd.store(at, sum) }
                    } else {
                        // SAFETY: `count` channels of the pixel are writable at `at`, less than a vector.
                        unsafe { simd.store_tail(at, count, sum) }
                    }
                }
            }
        }
    }
}

/// Transforms one tile of a vector of channels.
///
/// # Safety
///
/// `from` must have a vector at each point.
#[inline(always)]
unsafe fn transform_output<S: Vector, const M: usize, const A: usize>(
    simd: S,
    from: *const f32,
    stride: usize,
) -> [[S::F; M]; M]
where
    Filter<M, A>: Transform<M, A>,
{
    let mut rows = [[simd.splat(0.0); A]; M];
    for j in 0..A {
        let mut col = [simd.splat(0.0); A];
        for (i, x) in col.iter_mut().enumerate() {
            // SAFETY: there is a vector at each of the `A * A` points from `from` on, `stride` apart.
            *x = unsafe { simd.load(from.add((i * A + j) * stride)) };
        }
        let col = Filter::<M, A>::output(simd, col);
        for i in 0..M {
            rows[i][j] = col[i];
        }
    }
    let mut sums = [[simd.splat(0.0); M]; M];
    for i in 0..M {
        sums[i] = Filter::<M, A>::output(simd, rows[i]);
    }
    sums
}
