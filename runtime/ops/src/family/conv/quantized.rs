//! 8-bit quantized convolution on the primitives, as `plan.rs` does for f32. The primitives take unsigned inputs and
//! signed weights; other types are shifted by 128 together with their zero points.

use udo_api::{Arithmetic, Element, ExecError, Parallel, QuantizedType, Status, Work};
use udo_simd::Bits;
use udo_simd::conv_u8::{self, Batch, Input, MAX_K, Shape, Transposed};
use udo_simd::depthwise::{self, Image, QuantizedWeights};
use udo_simd::gemm_u8;
use udo_simd::indirect::Window;
use udo_simd::rows;

use super::{Conv, Direction, Images, QuantizedPacking};
use crate::family::layout::LayoutPorts;
use crate::family::partition;

/// Difference between an unsigned value and the signed value with the same bits but the highest inverted.
const MIDDLE: i32 = 128;

/// A quantized convolution without its weights.
pub(crate) struct QuantizedConvPlan {
    algorithm: Algorithm,
    images: Images,
    ports: LayoutPorts,
    /// Whether values are copied to convert their sign.
    flips: bool,
}

enum Algorithm {
    /// A matrix product on the pixels in place, for 1x1 kernels without strides.
    Pointwise(Shape),
    /// A matrix product whose rows are gathered through a table, from the image or from a padded copy.
    Indirect {
        shape: Shape,
        /// The window of the gathered runs.
        gathered: Window,
        border: Option<Border>,
    },
    Depthwise(depthwise::Shape),
    /// A matrix product per phase of the strides: groups, channels and outputs of a group.
    Transposed {
        plan: Transposed,
        counts: [usize; 3],
    },
}

/// Padding around a copy of the image, so that the taps of a kernel row are contiguous.
#[derive(Clone, Copy)]
struct Border {
    before: [usize; 2],
    size: [usize; 2],
    after: [usize; 2],
}

/// With this many channels, single taps are wide enough to be gathered.
const WIDE: usize = 16;

/// The operands and scratch memory of a run.
pub(crate) struct Operands<'a, A, C> {
    pub(crate) x: &'a [A],
    pub(crate) x_zero: A,
    pub(crate) packed: &'a [i8],
    /// Offsets of each run of taps, from [`QuantizedConvPlan::fill`].
    pub(crate) table: &'a [u32],
    /// One per output channel.
    pub(crate) w_zeros: &'a [i8],
    pub(crate) bias: &'a [i32],
    /// One per output channel; empty if outputs are sums.
    pub(crate) scales: &'a [f32],
    /// The output and, with channels last, its pixel stride.
    pub(crate) y: (&'a mut [C], usize),
    pub(crate) y_zero: C,
    pub(crate) scratch: Scratch<'a, C>,
}

/// Scratch memory of the lengths [`QuantizedConvPlan::scratch_lens`].
pub(crate) struct Scratch<'a, C> {
    /// An unsigned input image with channels last.
    pub(crate) values: &'a mut [u8],
    /// The same with its border.
    pub(crate) bordered: &'a mut [u8],
    /// A row of padding.
    pub(crate) padding: &'a mut [u8],
    /// Output of an image, phase by phase.
    pub(crate) phases: &'a mut [C],
    /// An output image with channels last.
    pub(crate) unconverted: &'a mut [C],
}

impl<C> Scratch<'_, C> {
    /// Reborrows the memory.
    pub(crate) fn again(&mut self) -> Scratch<'_, C> {
        let Self { values, bordered, padding, phases, unconverted } = self;
        Scratch { values, bordered, padding, phases, unconverted }
    }
}

/// Elements of each part of [`Scratch`].
#[derive(Clone, Copy)]
pub(crate) struct ScratchLens {
    pub(crate) values: usize,
    pub(crate) bordered: usize,
    pub(crate) padding: usize,
    pub(crate) phases: usize,
    pub(crate) unconverted: usize,
}

/// A quantized input type, possibly with its sign converted.
pub(crate) trait QuantizedInput: QuantizedType {
    /// Returns the values as bytes.
    fn bits(values: &[Self]) -> &[u8];
    /// The bits to invert to make a value unsigned.
    const FLIP: u8;
}

impl QuantizedInput for u8 {
    const FLIP: u8 = 0;

    fn bits(values: &[Self]) -> &[u8] {
        values
    }
}

impl QuantizedInput for i8 {
    const FLIP: u8 = 1 << 7;

    fn bits(values: &[Self]) -> &[u8] {
        rows::bits(values)
    }
}

/// An output type of the primitives: quantized, or i32 sums.
pub(crate) trait QuantizedOutput: QuantizedType + Bits {
    fn product(to: &mut [Self], scales: &[f32], zero: Self, run: impl FnOnce(gemm_u8::Output<'_>));
    fn depthwise(to: &mut [Self], zero: Self, run: impl FnOnce(depthwise::Output<'_>));
}

impl QuantizedOutput for u8 {
    fn product(to: &mut [Self], scales: &[f32], zero: Self, run: impl FnOnce(gemm_u8::Output<'_>)) {
        run(gemm_u8::Output::U8 { to, scales, zero_point: zero });
    }

    fn depthwise(to: &mut [Self], zero: Self, run: impl FnOnce(depthwise::Output<'_>)) {
        run(depthwise::Output::U8 { to, zero_point: zero });
    }
}

impl QuantizedOutput for i8 {
    fn product(to: &mut [Self], scales: &[f32], zero: Self, run: impl FnOnce(gemm_u8::Output<'_>)) {
        run(gemm_u8::Output::I8 { to, scales, zero_point: zero });
    }

    fn depthwise(to: &mut [Self], zero: Self, run: impl FnOnce(depthwise::Output<'_>)) {
        run(depthwise::Output::I8 { to, zero_point: zero });
    }
}

/// Returns the signed value that corresponds to `value` if zero points are shifted as well.
pub(crate) fn signed<B: QuantizedType>(value: B) -> i8 {
    let middle = if B::DTYPE == u8::DTYPE { MIDDLE } else { 0 };
    (value.to_i32() - middle) as i8
}

impl QuantizedOutput for i32 {
    fn product(to: &mut [Self], _: &[f32], _: Self, run: impl FnOnce(gemm_u8::Output<'_>)) {
        run(gemm_u8::Output::I32(to));
    }

    fn depthwise(to: &mut [Self], _: Self, run: impl FnOnce(depthwise::Output<'_>)) {
        run(depthwise::Output::I32(to));
    }
}

impl QuantizedConvPlan {
    /// Returns the plan for a shape; `None` if sizes overflow, or a window has more terms than i32 sums hold.
    pub(crate) fn new<A: QuantizedInput, C: QuantizedOutput>(
        conv: &Conv,
        ports: LayoutPorts,
    ) -> Option<Self> {
        let images = conv.images()?;
        let Images { window, channels, .. } = images;
        let Conv { groups, inputs, outputs, .. } = *conv;
        let taps = window.taps()?;
        inputs.checked_mul(taps).filter(|&depth| depth <= MAX_K)?;
        let algorithm = if conv.direction == Direction::Transposed {
            let plan = Transposed::new(window, groups, inputs, outputs)?;
            plan.rows().checked_mul(plan.columns())?;
            Algorithm::Transposed { plan, counts: [groups, inputs, outputs] }
        } else if inputs == 1 && groups > 1 {
            depthwise::packed_len_u8(window.kernel, channels[1])?;
            Algorithm::Depthwise(depthwise::Shape { window, channels: groups, multiplier: outputs })
        } else if groups == 1 && reads_each_pixel_once(&window) {
            let shape = Shape { groups, channels: inputs, outputs, taps, run: 1 };
            shape.packed_len()?;
            Algorithm::Pointwise(shape)
        } else {
            let (border, gathered) =
                match bordered(&window).filter(|_| groups == 1 && inputs < WIDE) {
                    Some((border, window)) => (Some(border), window),
                    None => (None, window),
                };
            let run = if border.is_some() { window.kernel[2] } else { 1 };
            let shape = Shape { groups, channels: inputs, outputs, taps, run };
            shape.packed_len()?;
            gathered.table_len()?;
            Algorithm::Indirect { shape, gathered, border }
        };
        Some(Self { algorithm, images, ports, flips: A::FLIP != 0 })
    }

    /// Returns the work of all images.
    pub(crate) fn work(&self) -> Work {
        let Images { batch, work, .. } = self.images;
        let work = Work::products(&[batch, work]).with(Arithmetic::Int8);
        work.by(match &self.algorithm {
            Algorithm::Pointwise(_) => "product",
            Algorithm::Indirect { .. } => "indirect product",
            Algorithm::Depthwise(_) => "depthwise",
            Algorithm::Transposed { .. } => "transposed product",
        })
    }

    /// Returns the elements of the packed weights.
    pub(crate) fn packed_len(&self) -> usize {
        // Checked by `of`.
        match &self.algorithm {
            Algorithm::Pointwise(shape) | Algorithm::Indirect { shape, .. } => shape.packed_len(),
            Algorithm::Depthwise(shape) => {
                depthwise::packed_len_u8(shape.window.kernel, self.images.channels[1])
            }
            Algorithm::Transposed { plan, .. } => Some(plan.packed_len()),
        }
        .unwrap_or(0)
    }

    /// Returns the recipe that determines how weights are packed, apart from their type.
    pub(crate) fn recipe(&self) -> QuantizedPacking {
        match &self.algorithm {
            Algorithm::Pointwise(shape) | Algorithm::Indirect { shape, .. } => {
                QuantizedPacking::Indirect(*shape)
            }
            Algorithm::Depthwise(shape) => QuantizedPacking::Depthwise {
                kernel: shape.window.kernel,
                channels: self.images.channels[1],
            },
            Algorithm::Transposed { plan, counts } => {
                QuantizedPacking::Transposed { window: plan.window_of_weights(), counts: *counts }
            }
        }
    }

    /// Returns how often the parameters of each output channel are repeated.
    pub(crate) fn repeats(&self) -> usize {
        match &self.algorithm {
            Algorithm::Transposed { plan, .. } => plan.repeats(),
            Algorithm::Pointwise(_) | Algorithm::Indirect { .. } | Algorithm::Depthwise(_) => 1,
        }
    }

    /// Returns the entries of the table of tap offsets.
    pub(crate) fn table_len(&self) -> usize {
        // Checked by `of`.
        match &self.algorithm {
            Algorithm::Indirect { gathered, .. } => gathered.table_len().unwrap_or(0),
            Algorithm::Transposed { plan, .. } => plan.table_len(),
            Algorithm::Pointwise(_) | Algorithm::Depthwise(_) => 0,
        }
    }

    /// Fills the table; returns false if an offset overflows.
    pub(crate) fn fill(&self, table: &mut [u32]) -> bool {
        match &self.algorithm {
            Algorithm::Indirect { gathered, .. } => gathered.fill(table),
            Algorithm::Transposed { plan, .. } => plan.fill(table),
            Algorithm::Pointwise(_) | Algorithm::Depthwise(_) => true,
        }
    }

    /// Returns the lengths of [`Scratch`].
    pub(crate) fn scratch_lens(&self) -> ScratchLens {
        let [values, unconverted] = self.images.lens();
        let (bordered, padding) = match &self.algorithm {
            Algorithm::Indirect { border: Some(border), .. } => {
                (border.pixels() * self.images.channels[0], 0)
            }
            Algorithm::Indirect { shape, .. } => (0, shape.padding_len().unwrap_or(0)),
            Algorithm::Transposed { plan, .. } => (0, plan.padding_len()),
            Algorithm::Pointwise(_) | Algorithm::Depthwise(_) => (0, 0),
        };
        let phases = match &self.algorithm {
            Algorithm::Transposed { plan, .. } if !plan.is_in_order() => {
                plan.rows() * plan.columns()
            }
            _ => 0,
        };
        let values = if self.ports.input && !self.flips { 0 } else { values };
        let unconverted = if self.ports.output { 0 } else { unconverted };
        ScratchLens { values, bordered, padding, phases, unconverted }
    }

    /// Convolves all images.
    pub(crate) fn run<A: QuantizedInput, C: QuantizedOutput>(
        &self,
        parallel: Parallel<'_>,
        operands: Operands<'_, A, C>,
    ) -> Result<(), ExecError> {
        let Operands {
            x,
            x_zero,
            packed,
            table,
            w_zeros,
            bias,
            scales,
            y: (y, pitch),
            y_zero,
            scratch,
        } = operands;
        let Scratch { values, bordered, padding, phases, unconverted } = scratch;
        let Images { batch, channels: [inputs, outputs], pixels: [from, to], .. } = self.images;
        if outputs * to == 0 {
            return Ok(());
        }
        let x_zero = x_zero.to_i32() as u8 ^ A::FLIP;
        padding.fill(x_zero);
        let w_zeros = if w_zeros.iter().all(|&zero| zero == 0) { &[] } else { w_zeros };
        let pitch = if self.ports.output { pitch } else { outputs };
        for (image, y) in (0..batch).zip(y.chunks_mut(pitch * to)) {
            let x = &A::bits(x)[image * inputs * from..][..inputs * from];
            let values = self.values::<A>(parallel, x, values)?;
            let values = match &self.algorithm {
                Algorithm::Indirect { border: Some(border), .. } => {
                    border.pad(values, inputs, x_zero, bordered)?;
                    &*bordered
                }
                _ => values,
            };
            let run = Run { values, padding, x_zero, packed, table, w_zeros, bias, scales, y_zero };
            if self.ports.output {
                self.image(parallel, &run, phases, (y, pitch))?;
            } else {
                self.image(parallel, &run, phases, (unconverted, outputs))?;
                self.images.put_channels_second(parallel, unconverted, y)?;
            }
        }
        Ok(())
    }

    /// Returns the unsigned values of an image with channels last, converted into `converted` if necessary.
    fn values<'a, A: QuantizedInput>(
        &self,
        parallel: Parallel<'_>,
        x: &'a [u8],
        converted: &'a mut [u8],
    ) -> Result<&'a [u8], ExecError> {
        match (self.ports.input, self.flips) {
            (true, false) => return Ok(x),
            (true, true) => converted.copy_from_slice(x),
            (false, _) => self.images.put_channels_last(parallel, x, converted)?,
        }
        if self.flips {
            for value in &mut *converted {
                *value ^= A::FLIP;
            }
        }
        Ok(converted)
    }

    /// Convolves one image; input and `y` have channels last.
    fn image<C: QuantizedOutput>(
        &self,
        parallel: Parallel<'_>,
        run: &Run<'_, C>,
        phases: &mut [C],
        (y, pitch): (&mut [C], usize),
    ) -> Result<(), ExecError> {
        let Run { values, padding, x_zero, packed, table, w_zeros, bias, scales, y_zero } = *run;
        let inputs = self.images.channels[0];
        let line = self.images.line_pixels() * pitch;
        let grains = partition::grains(parallel, self.images.work, partition::U8_PRODUCTS);
        let height = self.images.pixels[1].div_ceil(grains);
        match &self.algorithm {
            Algorithm::Pointwise(shape) => parallel.chunks_mut(y, height * pitch, |chunk, y| {
                let data = &values[chunk * height * inputs..];
                let rows = y.len().div_ceil(pitch);
                let lhs = gemm_u8::Lhs { data, rows, stride: inputs, zero_point: x_zero };
                let (k, n) = (shape.channels, shape.outputs);
                let rhs = gemm_u8::Rhs { packed, k, n, zero_points: w_zeros };
                let mut done = Ok(());
                C::product(y, scales, y_zero, |y| {
                    done = gemm_u8::gemm(&lhs, &rhs, bias, y, pitch);
                });
                done.map_err(|_| ExecError::new(Status::BAD_CALL))
            }),
            Algorithm::Indirect { shape, .. } => {
                let taps = shape.taps / shape.run;
                parallel.chunks_mut(y, height * pitch, |chunk, y| {
                    let rows = y.len().div_ceil(pitch);
                    let table = &table[chunk * height * taps..][..rows * taps];
                    let input = Input { data: values, stride: inputs, zero_point: x_zero, padding };
                    let filter = conv_u8::Weights { shape: *shape, packed, zero_points: w_zeros };
                    let mut done = Ok(());
                    C::product(y, scales, y_zero, |y| {
                        done = conv_u8::conv(&Batch::ONE, &input, &filter, table, bias, y, pitch);
                    });
                    done.map_err(|_| ExecError::new(Status::BAD_CALL))
                })
            }
            Algorithm::Depthwise(shape) => {
                let lines = self.images.lines.div_ceil(grains);
                parallel.chunks_mut(y, lines * line, |chunk, y| {
                    let rows = chunk * lines..chunk * lines + y.len().div_ceil(line);
                    let filter = QuantizedWeights {
                        packed,
                        zero_point: x_zero,
                        zero_points: w_zeros,
                        bias,
                        scales,
                    };
                    let x = Image { data: values, stride: inputs };
                    C::depthwise(y, y_zero, |y| {
                        depthwise::depthwise_u8(shape, x, &filter, rows, y, pitch);
                    });
                    Ok(())
                })
            }
            Algorithm::Transposed { plan, .. } if plan.is_in_order() => {
                self.phases(parallel, plan, run, (y, pitch))
            }
            Algorithm::Transposed { plan, .. } => {
                self.phases(parallel, plan, run, (phases, plan.columns()))?;
                let lines = partition::GRAIN.div_ceil(line);
                parallel.chunks_mut(y, lines * line, |chunk, y| {
                    let first = chunk * lines;
                    plan.arrange(phases, first..first + y.len().div_ceil(line), y, pitch);
                    Ok(())
                })
            }
        }
    }

    /// Computes the sums of all phases of one image.
    fn phases<C: QuantizedOutput>(
        &self,
        parallel: Parallel<'_>,
        plan: &Transposed,
        run: &Run<'_, C>,
        (to, pitch): (&mut [C], usize),
    ) -> Result<(), ExecError> {
        let Run { values, padding, x_zero, packed, table, w_zeros, bias, scales, y_zero } = *run;
        let input =
            Input { data: values, stride: self.images.channels[0], zero_point: x_zero, padding };
        let grains = partition::grains(parallel, self.images.work, partition::U8_PRODUCTS);
        let height = plan.rows().div_ceil(grains);
        parallel.chunks_mut(to, height * pitch, |chunk, to| {
            let rows = chunk * height..chunk * height + to.len().div_ceil(pitch);
            let mut done = Ok(());
            C::product(to, scales, y_zero, |to| {
                done = plan.run(rows, &input, (packed, w_zeros), table, bias, to, pitch);
            });
            done.map_err(|_| ExecError::new(Status::BAD_CALL))
        })
    }
}

/// Whether each output pixel depends on exactly the input pixel at its position.
fn reads_each_pixel_once(window: &Window) -> bool {
    let one = [1; 3];
    window.kernel == one
        && window.strides == one
        && window.pads == [0; 3]
        && window.input == window.output
}

/// Returns the border that makes the taps of a kernel row contiguous, and the window over the padded image, whose taps
/// are those rows. Only 2-D kernels without dilation along the row have one.
fn bordered(window: &Window) -> Option<(Border, Window)> {
    let Window { input, output, kernel, strides, dilations, pads } = *window;
    let flat = input[0] == 1 && output[0] == 1 && kernel[0] == 1 && pads[0] == 0;
    if !flat || kernel[2] < 2 || dilations[2] != 1 {
        return None;
    }
    let mut border =
        Border { before: [pads[1], pads[2]], size: [input[1], input[2]], after: [0; 2] };
    let mut padded = input;
    for axis in [1, 2] {
        let last = output[axis].checked_sub(1)?.checked_mul(strides[axis])?;
        let end =
            (kernel[axis] - 1).checked_mul(dilations[axis])?.checked_add(last)?.checked_add(1)?;
        let start = pads[axis].checked_add(input[axis])?;
        border.after[axis - 1] = end.saturating_sub(start);
        padded[axis] = start.max(end);
    }
    padded[1].checked_mul(padded[2])?.checked_mul(WIDE)?;
    let rows = Window { input: padded, kernel: [1, kernel[1], 1], pads: [0; 3], ..*window };
    Some((border, rows))
}

impl Border {
    /// Returns the pixels of a padded image.
    fn pixels(&self) -> usize {
        [0, 1].map(|axis| self.before[axis] + self.size[axis] + self.after[axis]).iter().product()
    }

    /// Copies an image into a padded buffer.
    fn pad(&self, image: &[u8], channels: usize, fill: u8, to: &mut [u8]) -> Result<(), ExecError> {
        let fits = conv_u8::pad(image, self.size, channels, self.before, self.after, fill, to);
        if fits { Ok(()) } else { Err(ExecError::new(Status::BAD_CALL)) }
    }
}

/// State shared by all grains of an image.
struct Run<'a, C> {
    values: &'a [u8],
    padding: &'a [u8],
    x_zero: u8,
    packed: &'a [i8],
    table: &'a [u32],
    w_zeros: &'a [i8],
    bias: &'a [i32],
    scales: &'a [f32],
    y_zero: C,
}
