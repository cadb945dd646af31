//! Prepares a verified program once, so that runs need no allocation: packs weights for the host's vector instructions,
//! and computes for each convolution a table with the offset of every tap of every output pixel.

use std::collections::BTreeMap;

use udo_simd::rows::Arithmetic;
use udo_simd::{conv_u8, depthwise, indirect};

use super::{PrepareError, Prepared};
use crate::bytecode::{
    AveragePool, Convolution, Instruction, Lines, MaxPool, Pair, Resize, Softmax, Transfer, Window,
};
use crate::verify::{Program, slice};

/// From this many channels on, each tap of a kernel is gathered separately. With fewer, copies of single taps are too
/// short to be fast, so the taps of a kernel row are gathered together from a padded copy of the image ([`Border`]).
const WIDE: usize = 16;
/// Alignment of packed weights in bytes.
const ALIGNMENT: usize = 64;

/// Prepared instructions with a repeat count; 1 outside of loops.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) iterations: u32,
    pub(super) steps: Vec<Step>,
}

/// An instruction with its prepared data.
#[derive(Debug)]
pub(super) enum Step {
    Load(Transfer),
    Store(Transfer),
    Copy(Lines),
    Filter(Box<Filter>),
    MaxPool(MaxPool),
    AveragePool(AveragePool),
    Pair(Arithmetic, Pair),
    Lookup(Lines, Box<[u8; 256]>),
    Resize(Resize),
    /// The instruction, and `exp(-scale * d)` for each distance `d` of a value below the row's maximum.
    Softmax(Softmax, Box<[f32; 256]>),
}

/// A convolution with its parameters and the index of its packed weights.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) conv: Convolution,
    pub(super) algorithm: Algorithm,
    /// Multiply-adds per call.
    pub(super) products: usize,
    /// Index into [`Prepared::packed`](Prepared).
    pub(super) packed: usize,
    /// Zero points of the weights, one per output; empty if all are 0.
    pub(super) zero_points: Vec<i8>,
    pub(super) bias: Vec<i32>,
    pub(super) ratios: Vec<f32>,
}

/// The algorithm of a convolution.
#[derive(Debug)]
pub(super) enum Algorithm {
    /// A matrix product on the pixels in place.
    Pointwise(conv_u8::Shape),
    /// A matrix product whose rows are gathered through a table, from the image or from a padded copy.
    Indirect {
        shape: conv_u8::Shape,
        /// Index of the table.
        table: usize,
        /// The padded copy, if the table refers to one.
        border: Option<Border>,
    },
    Depthwise(depthwise::Shape),
}

/// Padding around a copy of an image, so that the taps of a kernel row are contiguous. Each pair is vertical, then
/// horizontal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Border {
    pub(super) before: [usize; 2],
    /// Height and width of the image.
    pub(super) size: [usize; 2],
    pub(super) after: [usize; 2],
}

/// Packed weights, aligned for vector loads.
#[derive(Debug)]
pub(super) struct Packed {
    memory: Vec<i8>,
    /// Index of the first aligned byte.
    start: usize,
    len: usize,
}

impl Packed {
    fn new(len: usize, fill: impl FnOnce(&mut [i8])) -> Self {
        let mut memory = vec![0; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        if let Some(aligned) = memory.get_mut(start..start + len) {
            fill(aligned);
        }
        Self { memory, start, len }
    }

    pub(super) fn get(&self) -> &[i8] {
        self.memory.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl Border {
    pub(super) fn pixels(&self) -> usize {
        [0, 1].map(|axis| self.before[axis] + self.size[axis] + self.after[axis]).iter().product()
    }
}

impl Program<'_> {
    /// Prepares the program. Allocates; runs do not.
    ///
    /// # Errors
    /// Returns an error if sizes exceed this machine's address space.
    pub fn prepare(&self) -> Result<Prepared, PrepareError> {
        let mut preparer = Preparer {
            constants: self.image.constants,
            packed: Vec::new(),
            tables: Vec::new(),
            known_packed: BTreeMap::new(),
            known_tables: BTreeMap::new(),
            bordered: 0,
            padding: 0,
        };
        let mut blocks = Vec::new();
        for block in &self.blocks {
            let steps =
                block.body.iter().map(|instruction| preparer.step(instruction).ok_or(PrepareError));
            let steps = steps.collect::<Result<Vec<_>, _>>()?;
            blocks.push(Block { iterations: block.iterations, steps });
        }
        let sizes = |sizes: &[u32]| sizes.iter().map(|&size| size as usize).collect();
        let [start, end] = self.loaded;
        Ok(Prepared {
            blocks,
            packed: preparer.packed,
            tables: preparer.tables,
            inputs: sizes(&self.image.inputs),
            outputs: sizes(&self.image.outputs),
            constants: self.image.constants.get(start..end).ok_or(PrepareError)?.to_vec(),
            constants_at: start,
            lens: [
                self.image.ddr_bytes as usize,
                self.image.sram_bytes as usize,
                preparer.bordered,
                preparer.padding,
            ],
        })
    }
}

/// The prepared data of the instructions so far. Instructions with equal weights or windows share one entry.
struct Preparer<'a> {
    constants: &'a [u8],
    packed: Vec<Packed>,
    tables: Vec<Vec<u32>>,
    /// Indices of packed weights, by their offset and everything that determines packing.
    known_packed: BTreeMap<[usize; 6], usize>,
    /// Indices of tables, by the words of the window.
    known_tables: BTreeMap<Vec<u32>, usize>,
    /// Bytes of the largest padded copy of an image.
    bordered: usize,
    /// Bytes of the longest row of padding.
    padding: usize,
}

impl Preparer<'_> {
    /// Returns `None` if sizes overflow.
    fn step(&mut self, instruction: &Instruction) -> Option<Step> {
        Some(match *instruction {
            // Blocks contain neither.
            Instruction::Loop(_) | Instruction::End(_) => return None,
            Instruction::Load(op) => Step::Load(op),
            Instruction::Store(op) => Step::Store(op),
            Instruction::Copy(op) => Step::Copy(op),
            Instruction::Conv(conv) => {
                let (shape, algorithm) = self.indirect(&conv)?;
                let packed = self.pack(&conv, shape)?;
                Step::Filter(Box::new(self.filter(conv, algorithm, packed)?))
            }
            Instruction::Depthwise(conv) => {
                let algorithm = Algorithm::Depthwise(depthwise::Shape {
                    window: pixels(&conv.window),
                    channels: conv.channels as usize,
                    multiplier: (conv.outputs / conv.channels) as usize,
                });
                let packed = self.pack_depthwise(&conv)?;
                Step::Filter(Box::new(self.filter(conv, algorithm, packed)?))
            }
            Instruction::MaxPool(op) => Step::MaxPool(op),
            Instruction::AveragePool(op) => Step::AveragePool(op),
            Instruction::Add(op) => Step::Pair(Arithmetic::Sum, op),
            Instruction::Mul(op) => Step::Pair(Arithmetic::Product, op),
            Instruction::Lookup(op) => {
                let table = slice(self.constants, op.table, 256)?;
                Step::Lookup(op.lines, Box::new(*table.first_chunk()?))
            }
            Instruction::Resize(op) => Step::Resize(op),
            Instruction::Softmax(op) => {
                let power = |distance: usize| (-(distance as f32) * op.from_scale).exp();
                Step::Softmax(op, Box::new(std::array::from_fn(power)))
            }
        })
    }

    fn filter(&self, conv: Convolution, algorithm: Algorithm, packed: usize) -> Option<Filter> {
        let count = u64::from(conv.outputs);
        let zero_points = slice(self.constants, conv.zero_points, count)?;
        let are_zero = zero_points.iter().all(|&zero| zero == 0);
        let zero_points = if are_zero { &[] } else { zero_points };
        let words =
            |address| Some(slice(self.constants, address, 4 * count)?.as_chunks::<4>().0.iter());
        let depth = match &algorithm {
            Algorithm::Pointwise(shape) | Algorithm::Indirect { shape, .. } => shape.channels,
            Algorithm::Depthwise(_) => 1,
        };
        let window = pixels(&conv.window);
        let sums = window.rows()?.saturating_mul(conv.outputs as usize);
        Some(Filter {
            conv,
            algorithm,
            products: sums.saturating_mul(window.taps()?).saturating_mul(depth),
            packed,
            zero_points: zero_points.iter().map(|zero| zero.cast_signed()).collect(),
            bias: words(conv.bias)?.map(|word| i32::from_le_bytes(*word)).collect(),
            ratios: words(conv.ratios)?.map(|word| f32::from_le_bytes(*word)).collect(),
        })
    }

    /// Chooses the algorithm of a convolution over all channels.
    fn indirect(&mut self, conv: &Convolution) -> Option<(conv_u8::Shape, Algorithm)> {
        let (channels, outputs) = (conv.channels as usize, conv.outputs as usize);
        let window = pixels(&conv.window);
        let taps = window.taps()?;
        let shape = conv_u8::Shape { groups: 1, channels, outputs, taps, run: 1 };
        let ones = [1; 3];
        let maps_pixels_in_place = window.input == window.output && window.pads == [0; 3];
        if (window.kernel, window.strides) == (ones, ones) && maps_pixels_in_place {
            return Some((shape, Algorithm::Pointwise(shape)));
        }
        let is_dense = conv.from_pitch == conv.channels && channels < WIDE;
        let border = if is_dense { bordered(&window) } else { None };
        let (shape, border, table_window) = match border {
            Some((border, table_window)) => {
                self.bordered = self.bordered.max(border.pixels().checked_mul(channels)?);
                (conv_u8::Shape { run: window.kernel[2], ..shape }, Some(border), table_window)
            }
            None => (shape, None, window),
        };
        self.padding = self.padding.max(shape.padding_len()?);
        let table = self.table(&table_window)?;
        Some((shape, Algorithm::Indirect { shape, table, border }))
    }

    fn table(&mut self, window: &indirect::Window) -> Option<usize> {
        let indirect::Window { input, output, kernel, strides, dilations, pads } = *window;
        let key = [input, output, kernel, strides, dilations, pads];
        let key: Vec<_> = key.as_flattened().iter().map(|&extent| extent as u32).collect();
        if let Some(known) = self.known_tables.get(&key) {
            return Some(*known);
        }
        let mut table = vec![0; window.table_len()?];
        window.fill(&mut table).then_some(())?;
        self.tables.push(table);
        self.known_tables.insert(key, self.tables.len() - 1);
        Some(self.tables.len() - 1)
    }

    fn pack(&mut self, conv: &Convolution, shape: conv_u8::Shape) -> Option<usize> {
        let conv_u8::Shape { channels, outputs, taps, run, .. } = shape;
        // The 0 stands for a convolution over all channels, 1 for a depthwise one.
        let key = [conv.weights as usize, 0, channels, outputs, taps, run];
        if let Some(known) = self.known_packed.get(&key) {
            return Some(*known);
        }
        let weights = self.weights(conv, channels * taps)?;
        let mut fits = false;
        let packed =
            Packed::new(shape.packed_len()?, |to| fits = conv_u8::pack(&weights, &shape, to));
        fits.then(|| self.insert_packed(key, packed))
    }

    fn pack_depthwise(&mut self, conv: &Convolution) -> Option<usize> {
        let kernel = pixels(&conv.window).kernel;
        let (outputs, taps) = (conv.outputs as usize, kernel[1] * kernel[2]);
        let key = [conv.weights as usize, 1, outputs, kernel[1], kernel[2], 0];
        if let Some(known) = self.known_packed.get(&key) {
            return Some(*known);
        }
        let weights = self.weights(conv, taps)?;
        let len = depthwise::packed_len_u8(kernel, outputs)?;
        let packed = Packed::new(len, |to| depthwise::pack_u8(&weights, kernel, outputs, to));
        Some(self.insert_packed(key, packed))
    }

    fn insert_packed(&mut self, key: [usize; 6], packed: Packed) -> usize {
        self.packed.push(packed);
        self.known_packed.insert(key, self.packed.len() - 1);
        self.packed.len() - 1
    }

    fn weights(&self, conv: &Convolution, depth: usize) -> Option<Vec<i8>> {
        let len = u64::from(conv.outputs).checked_mul(u64::try_from(depth).ok()?)?;
        Some(
            slice(self.constants, conv.weights, len)?
                .iter()
                .map(|bits| bits.cast_signed())
                .collect(),
        )
    }
}

/// Converts a window of two axes to the primitives' window of three, with a first axis of extent 1.
pub(super) fn pixels(window: &Window) -> indirect::Window {
    let along = |first: usize, pair: [u32; 2]| [first, pair[0] as usize, pair[1] as usize];
    indirect::Window {
        input: along(1, window.input),
        output: along(1, window.output),
        kernel: along(1, window.kernel),
        strides: along(1, window.strides),
        dilations: along(1, window.dilations),
        pads: along(0, window.pads),
    }
}

/// Returns the border that makes the taps of a kernel row contiguous, and the window over the padded image; `None` for
/// a single tap or dilated rows.
fn bordered(window: &indirect::Window) -> Option<(Border, indirect::Window)> {
    let indirect::Window { input, output, kernel, strides, dilations, pads } = *window;
    if kernel[2] < 2 || dilations[2] != 1 {
        return None;
    }
    let mut border =
        Border { before: [pads[1], pads[2]], size: [input[1], input[2]], after: [0; 2] };
    let mut padded = input;
    for axis in [1, 2] {
        let needed = (output[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1;
        let available = pads[axis] + input[axis];
        border.after[axis - 1] = needed.saturating_sub(available);
        padded[axis] = available.max(needed);
    }
    let table_window =
        indirect::Window { input: padded, kernel: [1, kernel[1], 1], pads: [0; 3], ..*window };
    Some((border, table_window))
}
