//! Sliding windows over up to three spatial axes, for convolution and pooling.

use udo_api::{Dim, Error, Node, Shape, TensorDesc};
use udo_simd::indirect;

/// One value per spatial axis; if a tensor has fewer than three, the first ones have extent 1.
pub(crate) type Spatial = [usize; 3];

/// How the number of windows is rounded if the last one exceeds the padded input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// The last window does not count.
    Floor,
    /// The last window counts.
    Ceil,
}

/// How the padding is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    /// By the parameter `pads`.
    Explicit,
    /// Enough for `output = ceil(input / stride)`; an odd element goes to the end.
    SameUpper,
    /// Enough for `output = ceil(input / stride)`; an odd element goes to the start.
    SameLower,
}

/// The position of windows over an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) input: Spatial,
    pub(crate) output: Spatial,
    /// Extents of a window; its elements are called taps.
    pub(crate) kernel: Spatial,
    pub(crate) strides: Spatial,
    pub(crate) dilations: Spatial,
    /// Padding before the input, and after it.
    pub(crate) pads: Spatial,
    pub(crate) end_pads: Spatial,
}

/// The part of a window inside the input, along one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taps {
    /// Input position of the first tap inside.
    pub(crate) first: usize,
    /// Number of taps inside.
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
        let (mut window, mode) = Self::read_parameters(node, x, kernel)?;
        for axis in 3 - kernel.len()..3 {
            match mode {
                Padding::Explicit => window.place_windows(axis, rounding)?,
                Padding::SameUpper | Padding::SameLower => window.pad_to_same(axis, mode)?,
            }
        }
        Ok(window)
    }

    /// Reads the windows of a transposed convolution, which slide over its output; reads `output_padding` and
    /// `output_shape` as well. Its pads crop the output.
    pub(crate) fn transposed(
        node: &Node<'_>,
        x: &TensorDesc,
        kernel: &[usize],
    ) -> Result<Self, Error> {
        let (mut window, mode) = Self::read_parameters(node, x, kernel)?;
        let rank = kernel.len();
        let extra = if node.has_param("output_padding") {
            sizes(node, "output_padding", rank, 0)?
        } else {
            vec![0; rank]
        };
        let requested = output_shape(node, rank)?;
        for (index, axis) in (3 - rank..3).enumerate() {
            let output = requested.as_ref().map(|requested| requested[index]);
            window.place_output(axis, mode, extra[index], output)?;
        }
        Ok(window)
    }

    /// Reads the node's parameters; output extents are not yet set.
    fn read_parameters(
        node: &Node<'_>,
        x: &TensorDesc,
        kernel: &[usize],
    ) -> Result<(Self, Padding), Error> {
        let spatial = match x.shape() {
            [_, _, spatial @ ..] if (1..=3).contains(&spatial.len()) => spatial,
            _ => return Err(Error::new(format!("input 0 is {x}, expected rank 3 to 5"))),
        };
        let rank = spatial.len();
        if kernel.len() != rank {
            let found = kernel.len();
            return Err(Error::new(format!("the kernel has {found} axes, expected {rank}")));
        }
        if kernel.contains(&0) {
            return Err(Error::new(format!("the kernel's shape is {kernel:?}, expected no 0")));
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
        let auto_pad = if node.has_param("auto_pad") { node.text("auto_pad")? } else { "NOTSET" };
        if auto_pad == "NOTSET" && node.has_param("pads") {
            let pads = sizes(node, "pads", 2 * rank, 0)?;
            let (begin, end) = pads.split_at(rank);
            window.pads[3 - rank..].copy_from_slice(begin);
            window.end_pads[3 - rank..].copy_from_slice(end);
        }
        match auto_pad {
            "NOTSET" | "VALID" => Ok((window, Padding::Explicit)),
            "SAME_UPPER" => Ok((window, Padding::SameUpper)),
            "SAME_LOWER" => Ok((window, Padding::SameLower)),
            _ => Err(Error::new(format!("parameter \"auto_pad\" is {auto_pad:?}"))),
        }
    }

    /// Returns the extent of a window including dilation gaps.
    fn span(&self, axis: usize) -> Result<usize, Error> {
        (self.kernel[axis] - 1)
            .checked_mul(self.dilations[axis])
            .and_then(|n| n.checked_add(1))
            .ok_or_else(|| Error::new("the kernel is too large"))
    }

    /// Sets the number of windows along an axis with explicit padding.
    fn place_windows(&mut self, axis: usize, rounding: Rounding) -> Result<(), Error> {
        let padded = self.pads[axis]
            .checked_add(self.end_pads[axis])
            .and_then(|n| n.checked_add(self.input[axis]));
        let (span, stride) = (self.span(axis)?, self.strides[axis]);
        let excess = padded.and_then(|padded| span.checked_sub(padded));
        // When rounding up, a window that starts inside the input counts, unless it starts a whole stride past the
        // padded end.
        let ends_beyond =
            rounding == Rounding::Ceil && excess.is_some_and(|excess| excess < stride);
        let free = padded.and_then(|padded| padded.checked_sub(span));
        let free = free.or(ends_beyond.then_some(0)).ok_or_else(|| {
            Error::new(format!(
                "the kernel {:?} is larger than the padded input {:?}",
                self.kernel, self.input
            ))
        })?;
        self.output[axis] = match rounding {
            Rounding::Floor => free / stride + 1,
            Rounding::Ceil => {
                let count = free.div_ceil(stride) + 1;
                // A window that starts in the padding after the input does not count.
                let starts_in_end_padding =
                    (count - 1) * stride >= self.input[axis] + self.pads[axis];
                count - usize::from(starts_in_end_padding)
            }
        };
        Ok(())
    }

    /// Sets the output extent of a transposed convolution along an axis. `extra` is its `output_padding`, `requested`
    /// its `output_shape`.
    fn place_output(
        &mut self,
        axis: usize,
        mode: Padding,
        extra: usize,
        requested: Option<usize>,
    ) -> Result<(), Error> {
        let too_large = || Error::new("the output exceeds the address space");
        let full = self.input[axis].saturating_sub(1).checked_mul(self.strides[axis]);
        let full = full.and_then(|n| n.checked_add(self.span(axis).ok()?));
        let full = full.and_then(|n| n.checked_add(extra)).ok_or_else(too_large)?;
        let requested = match (requested, mode) {
            (None, Padding::SameUpper | Padding::SameLower) => {
                Some(self.input[axis].checked_mul(self.strides[axis]).ok_or_else(too_large)?)
            }
            (requested, _) => requested,
        };
        if let Some(requested) = requested {
            let total = full.saturating_sub(requested);
            let (less, rest) = (total / 2, total - total / 2);
            let (begin, end) = if mode == Padding::SameUpper { (less, rest) } else { (rest, less) };
            (self.pads[axis], self.end_pads[axis], self.output[axis]) = (begin, end, requested);
            return Ok(());
        }
        let padding = self.pads[axis].checked_add(self.end_pads[axis]);
        let output = padding.and_then(|padding| full.checked_sub(padding));
        self.output[axis] = output.filter(|&output| output > 0).ok_or_else(|| {
            Error::new(format!(
                "the pads {:?} and {:?} cut off all of an output of {full}",
                self.pads, self.end_pads
            ))
        })?;
        Ok(())
    }

    /// Pads an axis so that the output has `extent / stride` positions, rounded up (ONNX's `auto_pad`).
    fn pad_to_same(&mut self, axis: usize, padding: Padding) -> Result<(), Error> {
        let (extent, stride) = (self.input[axis], self.strides[axis]);
        let count = extent.div_ceil(stride);
        let padded_extent = (count.saturating_sub(1) * stride).checked_add(self.span(axis)?);
        let total = padded_extent.map_or(0, |n| n.saturating_sub(extent));
        let (less, more) = (total / 2, total - total / 2);
        self.output[axis] = count;
        (self.pads[axis], self.end_pads[axis]) =
            if padding == Padding::SameLower { (more, less) } else { (less, more) };
        Ok(())
    }

    /// Returns the output's shape: the batch of `x`, `channels`, and one position per window.
    pub(crate) fn output_shape(&self, x: &TensorDesc, channels: Dim) -> Result<Shape, Error> {
        let full = x.full_shape();
        let rank = x.rank().saturating_sub(2).min(3);
        let mut dims = vec![full.dim(0).unwrap_or(Dim::Fixed(1)), channels];
        for (axis, &extent) in self.output[3 - rank..].iter().enumerate() {
            dims.push(full.dim(axis + 2).unwrap_or(Dim::Fixed(1)).with(extent));
        }
        Shape::from_dims(&dims)
    }

    /// Returns the part of window `at` along `axis` that is inside the input.
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
        let inside = self.input[axis].saturating_sub(first).div_ceil(dilation);
        Taps { first, len: self.kernel[axis].saturating_sub(skipped).min(inside) }
    }

    /// Returns the number of taps of window `at` along `axis` inside the padded input.
    #[inline]
    pub(crate) fn padded_taps(&self, axis: usize, at: usize) -> usize {
        let padded = self.pads[axis] + self.input[axis] + self.end_pads[axis];
        let remaining = padded.saturating_sub(at * self.strides[axis]);
        remaining.div_ceil(self.dilations[axis]).min(self.kernel[axis])
    }

    /// Returns the elements of one input channel.
    pub(crate) fn input_len(&self) -> usize {
        self.input.iter().product()
    }

    /// Returns the elements of one output channel.
    pub(crate) fn output_len(&self) -> usize {
        self.output.iter().product()
    }

    /// Converts to the primitives' window.
    pub(crate) fn on_pixels(&self) -> indirect::Window {
        let Self { input, output, kernel, strides, dilations, pads, .. } = *self;
        indirect::Window { input, output, kernel, strides, dilations, pads }
    }
}

/// Reads the parameter `output_shape`, which may include batch and channels.
fn output_shape(node: &Node<'_>, rank: usize) -> Result<Option<Vec<usize>>, Error> {
    if !node.has_param("output_shape") {
        return Ok(None);
    }
    let len = node.ints("output_shape")?.len();
    let expected = if len == rank + 2 { len } else { rank };
    let mut shape = sizes(node, "output_shape", expected, 1)?;
    Ok(Some(shape.split_off(shape.len() - rank)))
}

/// Extends values of the last axes to three axes, with 1 for the first ones.
fn place(values: &[usize]) -> Spatial {
    let mut spatial = [1; 3];
    for (axis, value) in spatial.iter_mut().rev().zip(values.iter().rev()) {
        *axis = *value;
    }
    spatial
}

/// Reads a parameter with one size per axis; 1 by default.
fn per_axis(node: &Node<'_>, name: &str, rank: usize) -> Result<Vec<usize>, Error> {
    if node.has_param(name) { sizes(node, name, rank, 1) } else { Ok(vec![1; rank]) }
}

/// Reads the parameter `name` as `len` sizes of at least `least`.
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
        Error::new(format!("parameter {name:?} is {found:?}, expected {len} numbers from {least}"))
    })
}
