//! f32 convolution by the primitives of `udo_simd`: choice of algorithm, memory and threads. The primitives take
//! channels last; images with channels second are converted before and after.

use udo_api::{Arithmetic, ExecError, Parallel, Work};
use udo_simd::conv_f32::{self, Plan, Shape, Transposed};
use udo_simd::depthwise::{self, Image};
use udo_simd::gemm_f32::Epilogue;
use udo_simd::indirect::Window;
use udo_simd::winograd::{self, Layer, Tile};

use super::{Conv, Direction, F32Packing, Images};
use crate::family::layout::LayoutPorts;
use crate::family::matmul::Factors;
use crate::family::partition;
use crate::family::results::{Cut, Results, Strip, strip_rows};

/// The most threads for an image in Winograd's algorithm; each needs a workspace.
const WINOGRAD_THREADS: usize = 4;

/// The fewest outputs per group for which rounding the inputs of each window to bf16 pays off.
const MIN_BF16_OUTPUTS: usize = 16;

/// The fewest pixels of a strip (outputs that are computed and then quantized). Products of fewer rows add their terms
/// in another order, and would differ from those without quantization.
const MIN_STRIP_PIXELS: usize = 64;

/// The fewest pixels per grain, unless threads would idle: each grain reads all weights.
const MIN_GRAIN_PIXELS: usize = 24;

/// The fewest rows of a strip: input rows that overlapping windows share are read again for each strip.
const MIN_STRIP_LINES: usize = 4;

/// The image size used to choose an algorithm that must serve all sizes; Winograd pays off from 14 by 14 pixels.
const ANY_SIZE: [usize; 2] = [28; 2];

/// An f32 convolution without its weights.
pub(crate) struct ConvPlan {
    algorithm: Algorithm,
    images: Images,
    ports: LayoutPorts,
}

/// Weights and tables of a convolution.
#[derive(Clone, Copy)]
pub(crate) struct Weights<'a> {
    pub(crate) packed: &'a [f32],
    /// Offsets of each tap, from [`ConvPlan::fill`].
    pub(crate) table: &'a [u32],
    pub(crate) epilogue: Epilogue<'a>,
}

/// The algorithm of a convolution, with its sizes.
enum Algorithm {
    /// A matrix product whose rows are gathered through a table.
    Indirect {
        factors: Factors,
        plan: Box<Plan>,
        /// Groups, outputs and channels of a group, taps.
        shape: [usize; 4],
    },
    /// A transposed convolution: a gathered product for each phase (output position modulo stride).
    Transposed { plan: Box<Transposed>, shape: Shape },
    /// Winograd's minimal filtering (Lavin and Gray, arXiv 1509.09308), for windows of 3 by 3 without strides.
    Winograd { tile: Tile, layer: Layer },
    /// One filter per channel.
    Depthwise(depthwise::Shape),
}

impl ConvPlan {
    /// Returns the plan for a shape; `None` if sizes overflow. A byte of packed weights costs as much as `memory_price`
    /// multiply-adds. Weights that are not constant have no `memory_price`; for them Winograd's transform does not pay
    /// off.
    pub(crate) fn new(
        conv: &Conv,
        memory_price: Option<u32>,
        factors: Factors,
        ports: LayoutPorts,
    ) -> Option<Self> {
        let mut images = conv.images()?;
        let Conv { groups, inputs, outputs, .. } = *conv;
        if conv.direction == Direction::Transposed {
            lines_of_one_pixel(&mut images);
            let shape = Shape { window: images.window, channels: inputs, outputs, groups };
            let plan = Box::new(Transposed::new(&shape)?);
            let algorithm = Algorithm::Transposed { plan, shape };
            return Some(Self { algorithm, images, ports });
        }
        let Images { window, channels, .. } = images;
        let algorithm = if conv.is_depthwise() {
            let shape = depthwise::Shape { window, channels: groups, multiplier: outputs };
            depthwise::packed_len(window.taps()?, channels[1])?;
            Algorithm::Depthwise(shape)
        } else if let Some(algorithm) =
            memory_price.and_then(|memory_price| winograd(&images, conv, memory_price))
        {
            algorithm
        } else {
            let shape = Shape { window, channels: inputs, outputs, groups };
            let plan = Box::new(Plan::new(&shape)?);
            let factors = if outputs < MIN_BF16_OUTPUTS { Factors::F32 } else { factors };
            Algorithm::Indirect { factors, plan, shape: [groups, outputs, inputs, window.taps()?] }
        };
        Some(Self { algorithm, images, ports })
    }

    /// Returns the work of all images.
    pub(crate) fn work(&self) -> Work {
        let Images { batch, work, .. } = self.images;
        match &self.algorithm {
            Algorithm::Indirect { factors: Factors::F32, .. } => {
                Work::products(&[batch, work]).by("indirect product")
            }
            Algorithm::Indirect { factors: Factors::Bf16, .. } => {
                Work::products(&[batch, work]).with(Arithmetic::Bf16).by("bf16 product")
            }
            Algorithm::Transposed { .. } => Work::products(&[batch, work]).by("transposed product"),
            Algorithm::Depthwise(_) => Work::products(&[batch, work]).by("depthwise"),
            Algorithm::Winograd { tile, layer } => {
                let work = Work::products(&[batch, winograd::products(*tile, layer)]);
                work.by(match tile {
                    Tile::F2x2 => "Winograd's 2x2",
                    Tile::F4x4 => "Winograd's 4x4",
                })
            }
        }
    }

    /// Returns the elements of the packed weights.
    pub(crate) fn packed_len(&self) -> usize {
        match &self.algorithm {
            Algorithm::Indirect { factors: Factors::F32, plan, .. } => plan.packed_len(),
            Algorithm::Indirect { shape, .. } => Plan::packed_len_bf16(*shape),
            Algorithm::Transposed { plan, .. } => plan.packed_len(),
            Algorithm::Winograd { tile, layer } => winograd::packed_len(*tile, layer.channels),
            Algorithm::Depthwise(shape) => packed_len(shape),
        }
    }

    /// Returns the recipe: a description of the layout of packed weights.
    pub(crate) fn recipe(&self) -> F32Packing {
        match &self.algorithm {
            Algorithm::Indirect { factors: Factors::F32, shape, .. } => {
                F32Packing::Indirect(*shape)
            }
            Algorithm::Indirect { shape, .. } => F32Packing::IndirectBf16(*shape),
            Algorithm::Transposed { shape, .. } => F32Packing::transposed(shape),
            Algorithm::Winograd { tile, layer } => F32Packing::Winograd(*tile, layer.channels),
            Algorithm::Depthwise(shape) => {
                F32Packing::Depthwise { taps: taps(shape), channels: self.images.channels[1] }
            }
        }
    }

    /// Returns the scratch elements of [`Self::run`]: input and output image with channels last, and workspace.
    pub(crate) fn scratch_lens(&self) -> [usize; 3] {
        let [input, output] = self.images.lens();
        let input = match &self.algorithm {
            Algorithm::Indirect { plan, .. }
                if plan.algorithm() == conv_f32::Algorithm::IndirectRows =>
            {
                plan.workspace_len()
            }
            _ if self.ports.input => 0,
            _ => input,
        };
        let workspace = match &self.algorithm {
            Algorithm::Winograd { tile, layer } => {
                WINOGRAD_THREADS * winograd::workspace_len(*tile, layer)
            }
            Algorithm::Indirect { .. } | Algorithm::Transposed { .. } | Algorithm::Depthwise(_) => {
                0
            }
        };
        [input, if self.ports.output { 0 } else { output }, workspace]
    }

    /// Returns the entries of the table of tap offsets.
    pub(crate) fn table_len(&self) -> usize {
        match &self.algorithm {
            Algorithm::Indirect { plan, .. } => plan.table_len(),
            Algorithm::Transposed { plan, .. } => plan.table_len(),
            Algorithm::Winograd { .. } | Algorithm::Depthwise(_) => 0,
        }
    }

    /// Fills the table; returns false if an offset overflows.
    pub(crate) fn fill(&self, table: &mut [u32]) -> bool {
        match &self.algorithm {
            Algorithm::Indirect { plan, .. } => plan.fill(table),
            Algorithm::Transposed { plan, .. } => plan.fill(table),
            Algorithm::Winograd { .. } | Algorithm::Depthwise(_) => true,
        }
    }

    /// Returns the workspace elements for sums that are quantized, on this many threads.
    pub(crate) fn strips_len(&self, threads: usize) -> usize {
        let cut = self.cut(1, 1);
        match &self.algorithm {
            Algorithm::Indirect { .. } | Algorithm::Transposed { .. } | Algorithm::Depthwise(_) => {
                cut.strips_len(cut.height, partition::most_grains(threads))
            }
            Algorithm::Winograd { .. } => {
                cut.row().saturating_mul(cut.height.saturating_add(WINOGRAD_THREADS))
            }
        }
    }

    /// Divides the rows of an image among grains or threads.
    fn cut(&self, grains: usize, threads: usize) -> Cut {
        let (channels, line) = (self.images.channels[1], self.images.line_pixels());
        match &self.algorithm {
            Algorithm::Indirect { plan, .. } => {
                let grains = grains.min((plan.rows() / MIN_GRAIN_PIXELS).max(threads));
                let height = plan.rows().div_ceil(grains);
                let strip = strip_rows(channels, MIN_STRIP_PIXELS);
                Cut { pixels: 1, channels, height, strip, workspace: 0 }
            }
            Algorithm::Transposed { plan, .. } => {
                // Phases of the strides share output rows, which a strip must not split.
                let height = plan.lines().div_ceil(grains);
                Cut { pixels: line, channels, height, strip: height, workspace: 0 }
            }
            Algorithm::Depthwise(_) => {
                let height = self.images.lines.div_ceil(grains);
                let strip = strip_rows(line.saturating_mul(channels), MIN_STRIP_LINES);
                Cut { pixels: line, channels, height, strip, workspace: 0 }
            }
            Algorithm::Winograd { tile, layer } => {
                let rows = winograd::tile_rows(*tile, layer);
                let height = rows.div_ceil(threads.min(WINOGRAD_THREADS));
                // Tiles are computed in blocks, which a strip must not split.
                Cut {
                    pixels: tile.size().saturating_mul(line),
                    channels,
                    height,
                    strip: height,
                    workspace: winograd::workspace_len(*tile, layer),
                }
            }
        }
    }

    /// Returns the channels of an output image.
    pub(crate) fn outputs(&self) -> usize {
        self.images.channels[1]
    }

    /// Whether [`Self::run`] can add a residual, which needs the output's layout.
    pub(crate) fn takes_residual(conv: &Conv, ports: LayoutPorts) -> bool {
        ports.output && !conv.is_depthwise()
    }

    /// Convolves all images of `x`; with channels last, its pixels have a stride of `pitch`.
    pub(crate) fn run(
        &self,
        parallel: Parallel<'_>,
        (x, pitch): (&[f32], usize),
        weights: Weights<'_>,
        [converted, unconverted, workspace]: [&mut [f32]; 3],
        mut y: Results<'_>,
    ) -> Result<(), ExecError> {
        let Weights { epilogue, .. } = weights;
        let Images { batch, channels: [inputs, outputs], pixels: [x_pixels, y_pixels], .. } =
            self.images;
        if outputs * y_pixels == 0 {
            return Ok(());
        }
        for image in 0..batch {
            let mut y = y.part(image * y_pixels, y_pixels);
            let (x, step) = if self.ports.input {
                (pixels(x, image, x_pixels, [inputs, pitch]), pitch)
            } else {
                (&x[image * inputs * x_pixels..][..inputs * x_pixels], inputs)
            };
            let residual =
                epilogue.residual.map(|(data, pixel)| (&data[image * outputs * y_pixels..], pixel));
            let weights = Weights { epilogue: Epilogue { residual, ..epilogue }, ..weights };
            let x = match &self.algorithm {
                Algorithm::Indirect { plan, .. }
                    if plan.algorithm() == conv_f32::Algorithm::IndirectRows =>
                {
                    let strides = if self.ports.input { [step, 1] } else { [1, x_pixels] };
                    let line = plan.padded_line_len();
                    let lines = partition::GRAIN.div_ceil(line.max(1));
                    parallel.chunks_mut(converted, lines * line, |chunk, padded| {
                        plan.pad_lines(x, strides, chunk * lines, padded);
                        Ok(())
                    })?;
                    &*converted
                }
                _ if self.ports.input => x,
                _ => {
                    self.images.put_channels_last(parallel, x, converted)?;
                    &*converted
                }
            };
            match y.as_numbers() {
                Some((y, _)) if !self.ports.output => {
                    let results = Results::numbers(unconverted, outputs);
                    self.image(parallel, (x, step), weights, results, workspace)?;
                    self.images.put_channels_second(parallel, unconverted, y)?;
                }
                _ => self.image(parallel, (x, step), weights, y, workspace)?,
            }
        }
        Ok(())
    }

    /// Convolves one image with channels last and a pixel stride of `step`; `y` has channels last.
    fn image(
        &self,
        parallel: Parallel<'_>,
        (x, step): (&[f32], usize),
        Weights { packed, table, epilogue }: Weights<'_>,
        y: Results<'_>,
        workspace: &mut [f32],
    ) -> Result<(), ExecError> {
        let cut = self.cut(
            partition::grains(parallel, self.images.work, partition::F32_PRODUCTS),
            partition::threads(parallel, self.images.work),
        );
        match &self.algorithm {
            Algorithm::Indirect { factors, plan, .. } => {
                let run = match factors {
                    Factors::F32 => Plan::run,
                    Factors::Bf16 => Plan::run_bf16,
                };
                y.compute(parallel, cut, workspace, |Strip { first, rows, y, pitch }, _| {
                    let epilogue = from(epilogue, first);
                    run(plan, x, step, table, packed, first..first + rows, y, pitch, &epilogue);
                    Ok(())
                })
            }
            Algorithm::Transposed { plan, .. } => {
                y.compute(parallel, cut, workspace, |Strip { first, rows, y, pitch }, _| {
                    let epilogue = from(epilogue, first * cut.pixels);
                    plan.run(x, step, table, packed, first..first + rows, y, pitch, &epilogue);
                    Ok(())
                })
            }
            Algorithm::Depthwise(shape) => {
                y.compute(parallel, cut, workspace, |Strip { first, rows, y, pitch }, _| {
                    let Epilogue { bias, activation, .. } = epilogue;
                    let weights = depthwise::Weights { packed, bias, activation };
                    let x = Image { data: x, stride: step };
                    depthwise::depthwise(shape, x, &weights, first..first + rows, y, pitch);
                    Ok(())
                })
            }
            Algorithm::Winograd { tile, layer } => {
                y.compute(parallel, cut, workspace, |Strip { first, rows, y, pitch }, workspace| {
                    let layer = Layer { pixel_strides: [step, pitch], ..*layer };
                    let rows = first..first + rows;
                    let first = winograd::pixel_rows(*tile, &layer, rows.clone()).start;
                    let epilogue = from(epilogue, first * layer.output[1]);
                    winograd::conv(*tile, &layer, rows, x, packed, y, &epilogue, workspace);
                    Ok(())
                })
            }
        }
    }
}

/// Turns a 1-D signal into a column of pixels, so that threads can share its rows.
fn lines_of_one_pixel(images: &mut Images) {
    let Window { input, output, kernel, strides, dilations, pads } = &mut images.window;
    if [input[1], output[1], kernel[1]] == [1; 3] && pads[1] == 0 {
        for axes in [input, output, kernel, strides, dilations, pads] {
            axes.swap(1, 2);
        }
        images.lines = images.window.output[0] * images.window.output[1];
    }
}

/// Returns an image of `count` pixels with `channels` channels and a stride of `pitch`.
fn pixels(x: &[f32], image: usize, count: usize, [channels, pitch]: [usize; 2]) -> &[f32] {
    let len = count.checked_sub(1).map_or(0, |gaps| gaps * pitch + channels);
    &x[image * count * pitch..][..len]
}

/// Returns the epilogue from output pixel `first` on.
fn from(epilogue: Epilogue<'_>, first: usize) -> Epilogue<'_> {
    let residual = epilogue.residual.map(|(data, pixel)| (&data[first * pixel..], pixel));
    Epilogue { residual, ..epilogue }
}

fn taps(shape: &depthwise::Shape) -> usize {
    shape.window.kernel.iter().product()
}

fn packed_len(shape: &depthwise::Shape) -> usize {
    // Checked by `ConvPlan::new`.
    depthwise::packed_len(taps(shape), shape.channels * shape.multiplier).unwrap_or(0)
}

/// Returns Winograd's algorithm if it supports the shape and is faster. If images of several sizes share the weights,
/// one size decides for all.
fn winograd(
    images: &Images,
    &Conv { groups, has_open_images, .. }: &Conv,
    memory_price: u32,
) -> Option<Algorithm> {
    let Window { input, output, kernel, strides, dilations, pads } = images.window;
    let plain = kernel == [1, 3, 3] && strides == [1; 3] && dilations == [1; 3];
    let flat = input[0] == 1 && output[0] == 1 && pads[0] == 0;
    if !plain || !flat || groups != 1 {
        return None;
    }
    let layer = Layer {
        images: 1,
        input: [input[1], input[2]],
        output: [output[1], output[2]],
        pads: [pads[1], pads[2]],
        channels: images.channels,
        pixel_strides: images.channels,
    };
    let any = Layer { input: ANY_SIZE, output: ANY_SIZE, ..layer };
    match winograd::choose(if has_open_images { &any } else { &layer }, memory_price) {
        winograd::Algorithm::Direct => None,
        winograd::Algorithm::Winograd(tile) => Some(Algorithm::Winograd { tile, layer }),
    }
}
