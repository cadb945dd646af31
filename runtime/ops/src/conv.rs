//! Convolution as a product of packed weights and gathered input pixels, over any number type.

use udo_api::{DType, Dim, Error, InferCx, Node, Shape, TensorDesc};

use crate::number::{Number, pack_version};
use crate::walk::Walk;
use crate::window::{Rounding, Window};

/// Output channels that are computed together.
const BLOCK: usize = 4;
/// Output pixels that are computed together.
const TILE: usize = 32;

/// The shapes of a convolution; channels are per group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conv {
    pub(crate) window: Window,
    pub(crate) batch: usize,
    pub(crate) groups: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// The output's shape for input `x` and weights `w`.
pub(crate) fn infer_shape(cx: &InferCx<'_>, x: usize, w: usize) -> Result<Shape, Error> {
    let (x, w) = (cx.input(x)?, cx.input(w)?);
    let conv = Conv::read(cx, &x, &w)?;
    conv.window.output_shape(&x, Dim::Fixed(conv.groups * conv.outputs))
}

impl Conv {
    /// Reads the parameters of a convolution of `x` with weights `w`.
    pub(crate) fn read(node: &Node<'_>, x: &TensorDesc, w: &TensorDesc) -> Result<Self, Error> {
        let wrong = |what: &str| Error::new(format!("input is {x}, weights are {w}: {what}"));
        let (&[batch, channels, ..], &[outputs, inputs, ref kernel @ ..]) = (x.shape(), w.shape())
        else {
            return Err(wrong("wanted rank 3 to 5"));
        };
        if node.has_param("kernel_shape") {
            let declared = node.ints("kernel_shape")?;
            if !declared.iter().copied().eq(kernel.iter().map(|&k| k as i64)) {
                return Err(wrong(&format!("parameter \"kernel_shape\" is {declared:?}")));
            }
        }
        let groups = usize::try_from(node.int("group")?).unwrap_or(0);
        if groups == 0 || outputs % groups != 0 || inputs.checked_mul(groups) != Some(channels) {
            return Err(wrong(&format!("the channels do not fit {groups} groups")));
        }
        let window = Window::read(node, x, kernel, Rounding::Floor)?;
        Ok(Self { window, batch, groups, inputs, outputs: outputs / groups })
    }

    /// Products per output element.
    fn depth(&self) -> usize {
        self.inputs * self.window.kernel_len()
    }

    fn blocks(&self) -> usize {
        self.outputs.div_ceil(BLOCK)
    }

    /// Elements of the packed weights.
    pub(crate) fn packed_len(&self) -> usize {
        self.groups * self.blocks() * self.depth() * BLOCK
    }

    /// Elements of the scratch that [`Conv::run`] gathers pixels in.
    pub(crate) fn tile_len(&self) -> usize {
        self.depth() * TILE
    }

    /// The version of the packed weights: what [`Conv::pack`] makes of such elements, and of `more`.
    pub(crate) fn version(&self, from: DType, more: impl IntoIterator<Item = usize>) -> u64 {
        let code = usize::from(from.code());
        let own = [1, code, BLOCK, self.groups, self.outputs, self.depth()];
        pack_version(own.into_iter().chain(more))
    }

    /// Lays the weights of four output channels side by side: group, block, depth, channel.
    pub(crate) fn pack<S: Copy, T: Number>(
        &self,
        weights: &[S],
        packed: &mut [T],
        convert: impl Fn(usize, S) -> T,
    ) {
        let depth = self.depth();
        if depth == 0 {
            return;
        }
        packed.fill(T::ZERO);
        for (channel, row) in weights.chunks_exact(depth).enumerate() {
            let (group, output) = (channel / self.outputs, channel % self.outputs);
            let block = group * self.blocks() + output / BLOCK;
            let to = &mut packed[block * depth * BLOCK..][..depth * BLOCK];
            for (to, &w) in to.chunks_exact_mut(BLOCK).zip(row) {
                to[output % BLOCK] = convert(channel, w);
            }
        }
    }

    /// Convolves: `load` makes a number of an input element, `store` an output element of the sum
    /// for a channel.
    pub(crate) fn run<X: Copy, T: Number, Y>(
        &self,
        x: &[X],
        packed: &[T],
        tile: &mut [T],
        y: &mut [Y],
        load: impl Fn(X) -> T,
        store: impl Fn(usize, T) -> Y,
    ) {
        let (depth, pixels) = (self.depth(), self.window.output_len());
        let in_len = self.inputs * self.window.input_len();
        let out_len = self.outputs * pixels;
        if out_len == 0 {
            return;
        }
        for (at, y) in y[..self.batch * self.groups * out_len].chunks_exact_mut(out_len).enumerate()
        {
            let x = &x[at * in_len..][..in_len];
            let group = at % self.groups;
            for first in (0..pixels).step_by(TILE) {
                let width = TILE.min(pixels - first);
                self.gather(x, first, width, tile, &load);
                for block in 0..self.blocks() {
                    let start = (group * self.blocks() + block) * depth * BLOCK;
                    let sums = product(&packed[start..][..depth * BLOCK], tile);
                    let left = BLOCK.min(self.outputs - block * BLOCK);
                    for (lane, sums) in sums.iter().take(left).enumerate() {
                        let channel = block * BLOCK + lane;
                        let y = &mut y[channel * pixels + first..][..width];
                        for (y, &sum) in y.iter_mut().zip(sums) {
                            *y = store(group * self.outputs + channel, sum);
                        }
                    }
                }
            }
        }
    }

    /// Gathers what every tap of `width` output pixels sees; padding is 0.
    fn gather<X: Copy, T: Number>(
        &self,
        x: &[X],
        first: usize,
        width: usize,
        tile: &mut [T],
        load: impl Fn(X) -> T,
    ) {
        let window = &self.window;
        let [_, height, breadth] = window.output;
        let mut starts = [[0isize; 3]; TILE];
        for (pixel, start) in (first..first + width).zip(&mut starts) {
            let at = [pixel / (height * breadth), pixel / breadth % height, pixel % breadth];
            for axis in 0..3 {
                start[axis] =
                    (at[axis] * window.strides[axis]) as isize - window.pads[axis] as isize;
            }
        }
        let [depth, rows, cols] = window.input;
        let [front, top, left] = window.dilations;
        let taps = [self.inputs, window.kernel[0], window.kernel[1], window.kernel[2]];
        let steps = [
            [1, 0, 0, 0, 0, 0, 0, 0],
            [0, front, 0, 0, 0, 0, 0, 0],
            [0, 0, top, 0, 0, 0, 0, 0],
            [0, 0, 0, left, 0, 0, 0, 0],
        ];
        for ([channel, d, r, c], to) in Walk::new(&taps, steps).zip(tile.chunks_exact_mut(TILE)) {
            let plane = &x[channel * window.input_len()..][..window.input_len()];
            for (to, start) in to.iter_mut().zip(&starts[..width]) {
                // A position before the start is a huge one when unsigned.
                let z = (start[0] + d as isize) as usize;
                let row = (start[1] + r as isize) as usize;
                let col = (start[2] + c as isize) as usize;
                let inside = z < depth && row < rows && col < cols;
                *to = if inside { load(plane[(z * rows + row) * cols + col]) } else { T::ZERO };
            }
        }
    }
}

/// The sums for four channels of a tile.
#[inline]
fn product<T: Number>(weights: &[T], tile: &[T]) -> [[T; TILE]; BLOCK] {
    let mut sums = [[T::ZERO; TILE]; BLOCK];
    for (weights, pixels) in weights.chunks_exact(BLOCK).zip(tile.chunks_exact(TILE)) {
        for (sums, &w) in sums.iter_mut().zip(weights) {
            for (sum, &x) in sums.iter_mut().zip(pixels) {
                *sum = sum.plus(w.times(x));
            }
        }
    }
    sums
}
