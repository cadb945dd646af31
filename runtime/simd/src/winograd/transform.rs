//! The input and output transforms of a block of tiles, over vectors of channels.

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

/// The input pixels of a tile.
struct InputTile {
    /// The first pixel, which may be outside the image.
    corner: *const f32,
    /// Elements between rows, and between pixels.
    row: usize,
    pixel: usize,
    /// Start and end of the tile's rows and columns that are inside the image.
    rows: [usize; 2],
    cols: [usize; 2],
}

impl SimdOp for Input<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        match self.plan.tile {
            Tile::F2x2 => self.each_tile::<S, 2, 4>(simd),
            Tile::F4x4 => self.each_tile::<S, 4, 6>(simd),
        }
    }
}

impl Input<'_> {
    #[inline(always)]
    fn each_tile<S: Vector, const M: usize, const A: usize>(&self, simd: S)
    where
        Filter<M, A>: Transform<M, A>,
    {
        let plan = self.plan;
        let channels = plan.layer.channels[0];
        let whole_vectors = channels - channels % S::LANES;
        for i in 0..self.tiles {
            let tile = self.input_tile(plan.origin(self.first + i));
            let to = self.to.wrapping_add(i * plan.inputs.row);
            let stride = plan.inputs.point;
            let is_inside = tile.rows == [0, A] && tile.cols == [0, A];
            // SAFETY: the pixels of the window are inside the image, `x` has all their channels,
            // and `to` has space for whole vectors up to the last channel at each point.
            unsafe {
                if is_inside {
                    for c in (0..whole_vectors).step_by(S::LANES) {
                        let load = |i: usize, j: usize| simd.load(tile.address(i, j, c));
                        transform_input::<S, M, A>(simd, load, to.add(c), stride);
                    }
                } else {
                    for c in (0..whole_vectors).step_by(S::LANES) {
                        let load = |i: usize, j: usize| {
                            if tile.has(i, j) {
                                simd.load(tile.address(i, j, c))
                            } else {
                                simd.splat(0.0)
                            }
                        };
                        transform_input::<S, M, A>(simd, load, to.add(c), stride);
                    }
                }
                if whole_vectors < channels {
                    let load = |i: usize, j: usize| {
                        let zero = simd.splat(0.0);
                        if tile.has(i, j) {
                            simd.load_tail(
                                tile.address(i, j, whole_vectors),
                                channels - whole_vectors,
                                zero,
                            )
                        } else {
                            zero
                        }
                    };
                    transform_input::<S, M, A>(simd, load, to.add(whole_vectors), stride);
                }
            }
        }
    }

    fn input_tile(&self, origin: TileOrigin) -> InputTile {
        let layer = &self.plan.layer;
        let extent = self.plan.tile.extent();
        let axis = |axis: usize, position: usize| {
            let (pad, input) = (layer.pads[axis], layer.input[axis]);
            let from = pad.saturating_sub(position).min(extent);
            [from, (input + pad).saturating_sub(position).clamp(from, extent)]
        };
        let (rows, cols) = (axis(0, origin.row), axis(1, origin.col));
        let pixel = layer.pixel_strides[0];
        let row = layer.input[1] * pixel;
        let image = self.x.wrapping_add(origin.image * layer.input[0] * row);
        let corner = image
            .wrapping_add(origin.row * row + origin.col * pixel)
            .wrapping_sub(layer.pads[0] * row + layer.pads[1] * pixel);
        InputTile { corner, row, pixel, rows, cols }
    }
}

impl InputTile {
    /// Returns whether a pixel of the tile is inside the image.
    #[inline(always)]
    fn has(&self, i: usize, j: usize) -> bool {
        self.rows[0] <= i && i < self.rows[1] && self.cols[0] <= j && j < self.cols[1]
    }

    /// Returns the address of a channel of a pixel of the tile.
    #[inline(always)]
    fn address(&self, i: usize, j: usize, channel: usize) -> *const f32 {
        self.corner.wrapping_add(i * self.row + j * self.pixel + channel)
    }
}

/// Transforms one tile of a vector of channels.
///
/// # Safety
///
/// A vector at each point is writable, from `to` on and `stride` elements apart.
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
            // SAFETY: a vector is writable at each of the `A * A` points from `to` on, `stride` apart.
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

/// The output pixels of a tile.
struct Target {
    /// The first pixel.
    y: *mut f32,
    /// Elements between rows, and between pixels.
    row: usize,
    pixel: usize,
    /// The first pixel of the residual, and the elements between its rows and pixels.
    residual: Option<(*const f32, usize, usize)>,
    bias: Option<*const f32>,
    /// Rows and columns of the tile that are inside the image.
    rows: usize,
    cols: usize,
}

impl SimdOp for Output<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Vector>(self, simd: S) {
        match self.plan.tile {
            Tile::F2x2 => self.each_tile::<S, 2, 4>(simd),
            Tile::F4x4 => self.each_tile::<S, 4, 6>(simd),
        }
    }
}

impl Output<'_> {
    #[inline(always)]
    fn each_tile<S: Vector, const M: usize, const A: usize>(&self, simd: S)
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
        let pixel_index =
            (origin.image * layer.output[0] + origin.row - self.top) * layer.output[1] + origin.col;
        let pixel = layer.pixel_strides[1];
        Target {
            y: self.y.wrapping_add(pixel_index * pixel),
            row: layer.output[1] * pixel,
            pixel,
            residual: self.epilogue.residual.map(|(data, pixel)| {
                (data.as_ptr().wrapping_add(pixel_index * pixel), layer.output[1] * pixel, pixel)
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
    /// Each pixel of the target and of the residual, and the bias, have `count` channels from `channel` on.
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
        let load = |address: *const f32| {
            if count == S::LANES {
                // SAFETY: `count` channels are readable at `address`, a whole vector.
                unsafe { simd.load(address) }
            } else {
                // SAFETY: `count` channels are readable at `address`, less than a vector.
                unsafe { simd.load_tail(address, count, zero) }
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
                    let address = data.wrapping_add(i * row + j * pixel + channel);
                    *sum = simd.add(*sum, load(address));
                }
            }
        }
        self.epilogue.activation.apply(simd, sums.as_flattened_mut());
        for (i, sums) in sums.iter().enumerate() {
            for (j, &sum) in sums.iter().enumerate() {
                if i < target.rows && j < target.cols {
                    let address =
                        target.y.wrapping_add(i * target.row + j * target.pixel + channel);
                    if count == S::LANES {
                        // SAFETY: `count` channels of the pixel are writable at `address`, a whole vector.
                        unsafe { simd.store(address, sum) }
                    } else {
                        // SAFETY: `count` channels of the pixel are writable at `address`, less than a vector.
                        unsafe { simd.store_tail(address, count, sum) }
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
/// A vector at each point is readable, from `from` on and `stride` elements apart.
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
            // SAFETY: a vector is readable at each of the `A * A` points from `from` on, `stride` apart.
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
