//! Deformable convolution. For a block of positions, computes sampling positions, then samples each channel, then
//! multiplies the samples by the weights.

use std::marker::PhantomData;

use udo_api::{
    Arithmetic, Element, Error, ExecError, FinalizeCx, Inputs, Io, Kernel, Node, Parallel, Work,
    Workspace,
};
use udo_simd::gemm_f32::{Epilogue, Layout, gemm, pack_b, packed_len};

use crate::family::argument::count;
use crate::family::partition;
use crate::family::window::{Rounding, Spatial, Window, sizes};
use crate::number::Number;

const X: usize = 0;
const WEIGHTS: usize = 1;
const OFFSETS: usize = 2;
const BIAS: usize = 3;
const MASK: usize = 4;

/// The sizes of a deformable convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub(crate) window: Window,
    /// Number of spatial axes.
    rank: usize,
    batch: usize,
    channels: usize,
    pub(crate) outputs: usize,
    groups: usize,
    /// Groups of channels that share offsets.
    offset_groups: usize,
}

impl Problem {
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (x, weights) = (node.input(X)?, node.input(WEIGHTS)?);
        let (&[outputs, per_group, ref kernel @ ..], &[batch, channels, ..]) =
            (weights.shape(), x.shape())
        else {
            let expected = "expected images and weights of rank 3 to 5";
            return Err(Error::new(format!("inputs are {x} and {weights}, {expected}")));
        };
        let window = Window::read(node, &x, kernel, Rounding::Floor)?;
        if node.has_param("kernel_shape") {
            let stated = sizes(node, "kernel_shape", kernel.len(), 1)?;
            if stated != kernel {
                return Err(Error::new(format!(
                    "parameter \"kernel_shape\" is {stated:?}, and input {WEIGHTS} is {weights}"
                )));
            }
        }
        let (groups, offset_groups) = (count(node, "group")?, count(node, "offset_group")?);
        let fits = per_group.checked_mul(groups) == Some(channels)
            && outputs.is_multiple_of(groups)
            && channels.is_multiple_of(offset_groups);
        if !fits {
            let expected = format!("expected {groups} groups, and {offset_groups} of offsets");
            return Err(Error::new(format!("inputs are {x} and {weights}, {expected}")));
        }
        if u32::try_from(window.input_len()).is_err() {
            return Err(Error::new(format!("input {X} is {x}, expected smaller images")));
        }
        let rank = kernel.len();
        let problem = Self { window, rank, batch, channels, outputs, groups, offset_groups };
        problem.check(node)?;
        Ok(problem)
    }

    /// Checks the extents of offsets, bias and mask.
    fn check(&self, node: &Node<'_>) -> Result<(), Error> {
        let rows = self.tap_rows();
        let of_positions = |rows: usize| {
            let mut dims = vec![self.batch, rows];
            dims.extend(&self.window.output[3 - self.rank..]);
            dims
        };
        let offsets = of_positions(rows.saturating_mul(self.rank));
        for (port, expected) in
            [(OFFSETS, offsets), (BIAS, vec![self.outputs]), (MASK, of_positions(rows))]
        {
            if node.has_input(port) && node.input(port)?.shape() != expected {
                let found = node.input(port)?;
                return Err(Error::new(format!("input {port} is {found}, expected {expected:?}")));
            }
        }
        Ok(())
    }

    fn taps(&self) -> usize {
        self.window.kernel.iter().product()
    }

    /// Returns the number of taps in all offset groups.
    fn tap_rows(&self) -> usize {
        self.offset_groups.saturating_mul(self.taps())
    }

    /// Returns the number of elements around a sampling position.
    fn corners(&self) -> usize {
        1 << self.rank
    }

    /// Returns the number of taps in the channels of a group.
    fn depth(&self) -> usize {
        self.channels / self.groups * self.taps()
    }
}

/// A type with a matrix product.
pub(crate) trait Product: Number + Element {
    const ARITHMETIC: Arithmetic;

    fn packed_len(k: usize, n: usize) -> usize;
    fn pack(columns: &[Self], n: usize, packed: &mut [Self]);
    /// Computes the product of `m` rows of weights and `n` columns, into rows with a stride of `stride`.
    fn multiply(weights: &[Self], packed: &[Self], size: [usize; 3], y: &mut [Self], stride: usize);
}

impl Product for f32 {
    const ARITHMETIC: Arithmetic = Arithmetic::F32;

    fn packed_len(k: usize, n: usize) -> usize {
        packed_len(k, n)
    }

    fn pack(columns: &[Self], n: usize, packed: &mut [Self]) {
        pack_b(columns, n, Layout::Rows, columns.len() / n, n, packed);
    }

    fn multiply(
        weights: &[Self],
        packed: &[Self],
        [m, k, n]: [usize; 3],
        y: &mut [Self],
        stride: usize,
    ) {
        gemm(weights, k, m, k, packed, n, y, stride, &Epilogue::default());
    }
}

impl Product for f64 {
    const ARITHMETIC: Arithmetic = Arithmetic::F64;

    fn packed_len(k: usize, n: usize) -> usize {
        k.saturating_mul(n)
    }

    fn pack(columns: &[Self], _: usize, packed: &mut [Self]) {
        packed[..columns.len()].copy_from_slice(columns);
    }

    fn multiply(
        weights: &[Self],
        packed: &[Self],
        [_, k, n]: [usize; 3],
        y: &mut [Self],
        stride: usize,
    ) {
        for (weights, y) in weights.chunks_exact(k).zip(y.chunks_mut(stride)) {
            y[..n].fill(0.0);
            for (weight, x) in weights.iter().zip(packed.chunks_exact(n)) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y += weight * x);
            }
        }
    }
}

/// The most elements of a block's intermediate data.
const AT_HAND: usize = 1 << 20;
/// The position count of a block is a multiple of this, a vector register of any instruction set.
const POSITIONS: usize = 16;

/// The kernel for one element type.
pub(crate) struct Deformed<T> {
    problem: Problem,
    /// Positions per block.
    block: usize,
    marker: PhantomData<fn() -> T>,
}

/// Lengths of a block's scratch memory.
struct Lens {
    corners: usize,
    columns: usize,
    packed: usize,
}

impl<T: Product> Kernel for Deformed<T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let problem = Problem::read(cx)?;
        let places = [problem.batch, problem.outputs, problem.window.output_len()];
        let work = Work::products(&[places[0], places[1], places[2], problem.depth()]);
        cx.work(work.with(T::ARITHMETIC))?;
        let columns = problem.channels.saturating_mul(problem.taps());
        let corners = problem.tap_rows().saturating_mul(2 * problem.corners());
        let each = columns.saturating_add(corners).saturating_add(problem.depth()).max(1);
        let block = (AT_HAND / each).next_multiple_of(POSITIONS).max(POSITIONS);
        let block = block.min(problem.window.output_len());
        Ok(Self { problem, block, marker: PhantomData })
    }

    fn workspace(&self) -> Workspace {
        let Lens { corners, columns, packed } = self.lens();
        Workspace::for_elements::<T>(corners).and::<u32>(corners).and::<T>(columns).and::<T>(packed)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let problem = &self.problem;
        let arguments = Arguments::<T>::take(&inputs)?;
        let y = outputs.take::<T>(0)?;
        let lens = self.lens();
        let shares = scratch.take::<T>(lens.corners)?;
        let places = scratch.take::<u32>(lens.corners)?;
        let columns = scratch.take::<T>(lens.columns)?;
        let packed = scratch.take::<T>(lens.packed)?;
        let all = problem.window.output_len();
        let image_len = problem.outputs * all;
        if y.is_empty() {
            return Ok(());
        }
        for (image, y) in y.chunks_exact_mut(image_len).enumerate() {
            for first in (0..all).step_by(self.block) {
                let len = self.block.min(all - first);
                let block = Block { problem, parallel, image, first, len };
                block.place(&arguments, shares, places)?;
                block.gather(&arguments, shares, places, columns)?;
                block.multiply(&arguments, columns, packed, y)?;
            }
        }
        Ok(())
    }
}

impl<T: Product> Deformed<T> {
    fn lens(&self) -> Lens {
        let Self { problem, block, .. } = self;
        Lens {
            corners: problem.tap_rows().saturating_mul(problem.corners()).saturating_mul(*block),
            columns: problem.channels.saturating_mul(problem.taps()).saturating_mul(*block),
            packed: T::packed_len(problem.depth(), *block),
        }
    }
}

/// The inputs of a call.
struct Arguments<'a, T> {
    x: &'a [T],
    weights: &'a [T],
    offsets: &'a [T],
    bias: Option<&'a [T]>,
    mask: Option<&'a [T]>,
}

impl<'a, T: Element> Arguments<'a, T> {
    fn take(inputs: &Inputs<'a>) -> Result<Self, ExecError> {
        let arguments = |port| inputs.has(port).then(|| inputs.get::<T>(port)).transpose();
        Ok(Self {
            x: inputs.get(X)?,
            weights: inputs.get(WEIGHTS)?,
            offsets: inputs.get(OFFSETS)?,
            bias: arguments(BIAS)?,
            mask: arguments(MASK)?,
        })
    }
}

/// Some positions of an image.
struct Block<'a> {
    problem: &'a Problem,
    parallel: Parallel<'a>,
    image: usize,
    first: usize,
    len: usize,
}

impl Block<'_> {
    /// Computes the elements around each tap and their weights: a row of positions per corner.
    fn place<T: Product>(
        &self,
        arguments: &Arguments<'_, T>,
        shares: &mut [T],
        places: &mut [u32],
    ) -> Result<(), ExecError> {
        let &Self { problem, image, first, len, .. } = self;
        let &Problem { rank, window, .. } = problem;
        let (rows, all, corners) = (problem.tap_rows(), window.output_len(), problem.corners());
        let row = corners * len;
        let (shares, places) = (&mut shares[..rows * row], &mut places[..rows * row]);
        self.parallel.chunks_mut_with(shares, row, places, row, |tap, shares, places| {
            let from = image * rows + tap;
            let offsets = &arguments.offsets[from * rank * all..][..rank * all];
            let mask = arguments.mask.map(|mask| &mask[from * all..][..all]);
            let tap = unravel(tap % problem.taps(), window.kernel);
            for at in 0..len {
                let position = first + at;
                let output = unravel(position, window.output);
                let mut place = [0.0; 3];
                for (axis, place) in place.iter_mut().enumerate().skip(3 - rank) {
                    let offset = offsets[(axis + rank - 3) * all + position].to_f64();
                    let start = (output[axis] * window.strides[axis]) as f64;
                    let tap = (tap[axis] * window.dilations[axis]) as f64;
                    *place = start - window.pads[axis] as f64 + tap + offset;
                }
                let mask = mask.map_or(1.0, |mask| mask[position].to_f64());
                for corner in 0..corners {
                    let found = corner_at(place, corner, window.input);
                    let (element, share) = found.unwrap_or((0, 0.0));
                    let share = if share > 0.0 { share * mask } else { 0.0 };
                    // Images have fewer elements than u32 can count.
                    places[corner * len + at] = element as u32;
                    shares[corner * len + at] = T::from_f64(share);
                }
            }
            Ok(())
        })
    }

    /// Interpolates the samples: a row of positions per tap and channel.
    fn gather<T: Product>(
        &self,
        arguments: &Arguments<'_, T>,
        shares: &[T],
        places: &[u32],
        columns: &mut [T],
    ) -> Result<(), ExecError> {
        let &Self { problem, image, len, .. } = self;
        let &Problem { channels, offset_groups, window, .. } = problem;
        let (taps, area) = (problem.taps(), window.input_len());
        let corners = problem.corners() * len;
        let columns = &mut columns[..channels * taps * len];
        self.parallel.chunks_mut(columns, taps * len, |channel, columns| {
            let x = &arguments.x[(image * channels + channel) * area..][..area];
            let group = channel / (channels / offset_groups);
            for (tap, y) in columns.chunks_exact_mut(len).enumerate() {
                let from = (group * taps + tap) * corners;
                let shares = shares[from..][..corners].chunks_exact(len);
                let places = places[from..][..corners].chunks_exact(len);
                y.fill(T::ZERO);
                for (shares, places) in shares.zip(places) {
                    for (y, (&share, &place)) in y.iter_mut().zip(shares.iter().zip(places)) {
                        // An element of weight 0 must not contribute NaN.
                        if share != T::ZERO {
                            let x = x.get(place as usize).copied().unwrap_or(T::ZERO);
                            *y = y.add(share.mul(x));
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Computes the outputs of an image at these positions.
    fn multiply<T: Product>(
        &self,
        arguments: &Arguments<'_, T>,
        columns: &[T],
        packed: &mut [T],
        y: &mut [T],
    ) -> Result<(), ExecError> {
        let &Self { problem, first, len, .. } = self;
        let (all, k) = (problem.window.output_len(), problem.depth());
        let outputs = problem.outputs / problem.groups;
        let grains = partition::grains(self.parallel, outputs * k * len, partition::F32_PRODUCTS);
        let rows = outputs.div_ceil(grains).max(1);
        for (group, y) in y.chunks_exact_mut(outputs * all).enumerate() {
            T::pack(&columns[group * k * len..][..k * len], len, packed);
            let packed = &*packed;
            self.parallel.chunks_mut(y, rows * all, |chunk, y| {
                let output = group * outputs + chunk * rows;
                let m = y.len() / all;
                let weights = &arguments.weights[output * k..][..m * k];
                T::multiply(weights, packed, [m, k, len], &mut y[first..], all);
                let Some(bias) = arguments.bias else { return Ok(()) };
                for (y, &bias) in y.chunks_exact_mut(all).zip(&bias[output..]) {
                    y[first..][..len].iter_mut().for_each(|y| *y = y.add(bias));
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Splits an offset into coordinates.
fn unravel(at: usize, [_, rows, cols]: Spatial) -> Spatial {
    [at / cols / rows, at / cols % rows, at % cols]
}

/// Returns one of the elements around a position and its weight, or `None` outside the image.
fn corner_at(place: [f64; 3], corner: usize, extents: Spatial) -> Option<(usize, f64)> {
    let (mut element, mut share) = (0, 1.0);
    for (axis, (place, extent)) in place.into_iter().zip(extents).enumerate() {
        let low = place.floor();
        let is_high = corner >> (2 - axis) & 1 == 1;
        let (at, part) =
            if is_high { (low + 1.0, place - low) } else { (low, 1.0 - (place - low)) };
        if !(0.0..extent as f64).contains(&at) {
            return None;
        }
        element = element * extent + at as usize;
        share *= part;
    }
    Some((element, share))
}
