//! Sliding windows over up to three spatial axes, as convolutions and pools use them.

use udo_api::{Dim, Error, Node, Shape, TensorDesc};
use udo_simd::indirect;

/// A number per spatial axis; where a tensor has fewer than three, the first ones are of extent 1.
pub(crate) type Spatial = [usize; 3];

/// What becomes of a last window that hangs over the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Floor,
    Ceil,
}

/// Where windows lie over an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) input: Spatial,
    pub(crate) output: Spatial,
    pub(crate) kernel: Spatial,
    pub(crate) strides: Spatial,
    pub(crate) dilations: Spatial,
    pub(crate) pads: Spatial,
    pub(crate) end_pads: Spatial,
}

/// The part of one window along one axis that lies inside the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taps {
    /// The input position of the first tap inside.
    pub(crate) first: usize,
    /// How many taps are inside.
    pub(crate) len: usize,
}

impl Window {
    /// Reads `strides`, `dilations`, `pads` and `auto_pad` of a node over `x`, batch and channels first.
    pub(crate) fn read(
        node: &Node<'_>,
        x: &TensorDesc,
        kernel: &[usize],
        rounding: Rounding,
    ) -> Result<Self, Error> {
        let spatial = match x.shape() {
            [_, _, spatial @ ..] if (1..=3).contains(&spatial.len()) => spatial,
            _ => return Err(Error::new(format!("input 0 is {x}, wanted rank 3 to 5"))),
        };
        let rank = spatial.len();
        if kernel.len() != rank {
            let found = kernel.len();
            return Err(Error::new(format!("the kernel has {found} axes, wanted {rank}")));
        }
        if kernel.contains(&0) {
            return Err(Error::new(format!("the kernel's shape is {kernel:?}, wanted no 0")));
        }
        let strides = per_axis(node, "strides", rank)?;
        let dilations = per_axis(node, "dilations", rank)?;
        let mut window = Self {
            input: place(spatial),
            output: [1; 3],
            kernel: place(kernel),
            strides: place(&strides),
            dilations: place(&dilations),
            pads: [0; 3],
            end_pads: [0; 3],
        };
        let mode = if node.has_param("auto_pad") { node.text("auto_pad")? } else { "NOTSET" };
        let first = 3 - rank;
        if mode == "NOTSET" && node.has_param("pads") {
            let pads = sizes(node, "pads", 2 * rank, 0)?;
            let (begin, end) = pads.split_at(rank);
            window.pads[first..].copy_from_slice(begin);
            window.end_pads[first..].copy_from_slice(end);
        }
        for axis in first..3 {
            match mode {
                "NOTSET" | "VALID" => window.place_windows(axis, rounding)?,
                "SAME_UPPER" | "SAME_LOWER" => window.pad_to_same(axis, mode == "SAME_LOWER")?,
                _ => return Err(Error::new(format!("parameter \"auto_pad\" is {mode:?}"))),
            }
        }
        Ok(window)
    }

    /// Taps from the first to the last of a window, with the gaps between them.
    fn span(&self, axis: usize) -> Result<usize, Error> {
        (self.kernel[axis] - 1)
            .checked_mul(self.dilations[axis])
            .and_then(|n| n.checked_add(1))
            .ok_or_else(|| Error::new("the kernel is too large"))
    }

    fn place_windows(&mut self, axis: usize, rounding: Rounding) -> Result<(), Error> {
        let padded = self.pads[axis]
            .checked_add(self.end_pads[axis])
            .and_then(|n| n.checked_add(self.input[axis]));
        let free = padded.and_then(|n| n.checked_sub(self.span(axis).ok()?)).ok_or_else(|| {
            Error::new(format!(
                "the kernel {:?} is larger than the padded input {:?}",
                self.kernel, self.input
            ))
        })?;
        let stride = self.strides[axis];
        self.output[axis] = match rounding {
            Rounding::Floor => free / stride + 1,
            Rounding::Ceil => {
                let count = free.div_ceil(stride) + 1;
                // A window that starts in the padding behind the input is none.
                let starts_behind = (count - 1) * stride >= self.input[axis] + self.pads[axis];
                count - usize::from(starts_behind)
            }
        };
        Ok(())
    }

    fn pad_to_same(&mut self, axis: usize, lower: bool) -> Result<(), Error> {
        let (extent, stride) = (self.input[axis], self.strides[axis]);
        let count = extent.div_ceil(stride);
        let needed = (count.saturating_sub(1) * stride).checked_add(self.span(axis)?);
        let total = needed.map_or(0, |n| n.saturating_sub(extent));
        let (less, more) = (total / 2, total - total / 2);
        self.output[axis] = count;
        (self.pads[axis], self.end_pads[axis]) = if lower { (more, less) } else { (less, more) };
        Ok(())
    }

    /// The output's shape: the batch of `x`, `channels`, and a position per window.
    pub(crate) fn output_shape(&self, x: &TensorDesc, channels: Dim) -> Result<Shape, Error> {
        let full = x.full_shape();
        let rank = x.rank().saturating_sub(2).min(3);
        let mut dims = vec![full.dim(0).unwrap_or(Dim::Fixed(1)), channels];
        for (axis, &extent) in self.output[3 - rank..].iter().enumerate() {
            dims.push(full.dim(axis + 2).unwrap_or(Dim::Fixed(1)).with(extent));
        }
        Shape::of_dims(&dims)
    }

    /// The part of window `at` along `axis` that lies inside the input.
    #[inline]
    pub(crate) fn taps(&self, axis: usize, at: usize) -> Taps {
        let (start, dilation) = (at * self.strides[axis], self.dilations[axis]);
        let span = self.kernel[axis].saturating_sub(1) * dilation;
        if let Some(first) =
            start.checked_sub(self.pads[axis]).filter(|first| first + span < self.input[axis])
        {
            return Taps { first, len: self.kernel[axis] };
        }
        let skipped = self.pads[axis].saturating_sub(start).div_ceil(dilation);
        let first = (start + skipped * dilation).saturating_sub(self.pads[axis]);
        let left = self.input[axis].saturating_sub(first).div_ceil(dilation);
        Taps { first, len: self.kernel[axis].saturating_sub(skipped).min(left) }
    }

    /// How many taps of window `at` along `axis` lie inside the padded input.
    #[inline]
    pub(crate) fn padded_taps(&self, axis: usize, at: usize) -> usize {
        let padded = self.pads[axis] + self.input[axis] + self.end_pads[axis];
        let left = padded.saturating_sub(at * self.strides[axis]);
        left.div_ceil(self.dilations[axis]).min(self.kernel[axis])
    }

    /// Elements of one channel of the input.
    pub(crate) fn input_len(&self) -> usize {
        self.input.iter().product()
    }

    /// Elements of one channel of the output.
    pub(crate) fn output_len(&self) -> usize {
        self.output.iter().product()
    }

    /// As the primitives take it.
    pub(crate) fn on_pixels(&self) -> indirect::Window {
        let Self { input, output, kernel, strides, dilations, pads, .. } = *self;
        indirect::Window { input, output, kernel, strides, dilations, pads }
    }
}

fn place(values: &[usize]) -> Spatial {
    let mut all = [1; 3];
    for (to, from) in all.iter_mut().rev().zip(values.iter().rev()) {
        *to = *from;
    }
    all
}

fn per_axis(node: &Node<'_>, name: &str, rank: usize) -> Result<Vec<usize>, Error> {
    if node.has_param(name) { sizes(node, name, rank, 1) } else { Ok(vec![1; rank]) }
}

/// The parameter `name` as `len` sizes, each at least `least`.
pub(crate) fn sizes(
    node: &Node<'_>,
    name: &str,
    len: usize,
    least: usize,
) -> Result<Vec<usize>, Error> {
    let found = node.ints(name)?;
    let sizes: Option<Vec<usize>> = found
        .iter()
        .map(|&n| usize::try_from(n).ok().filter(|&n| n >= least && u32::try_from(n).is_ok()))
        .collect();
    sizes.filter(|s| s.len() == len).ok_or_else(|| {
        Error::new(format!("parameter {name:?} is {found:?}, wanted {len} numbers from {least}"))
    })
}
