//! Emits the instructions that compute one tile of a layer. The tile's input and output rows are on the chip; loads and
//! stores around them are the caller's.

use std::ops::Range;

use super::pool::{Filter, Pool};
use super::rows::Job;
use crate::bytecode::{
    At, AveragePool, Convolution, Instruction, Lines, Lookup, MaxPool, Pair, Resize, Softmax,
    Window,
};
use crate::network::{self, Divisor, Encoding, Op};
use crate::soc::Soc;

/// A layer divided by output channels has a multiple of this many channels per instruction, if possible, so that
/// vectors of the interpreter's kernels are full.
const LANES: u32 = 16;

/// Offsets of a layer's constants in the pool.
#[derive(Debug, Default)]
pub(super) struct Constants {
    filter: Option<Filter>,
    /// The table of a lookup, or the requantization table of each input of a concatenation; `None` for an input that
    /// needs none.
    tables: Vec<Option<u32>>,
}

impl Constants {
    /// Appends the layer's constants to the pool.
    pub(super) fn collect(job: &Job<'_, '_>, pool: &mut Pool) -> Option<Self> {
        let mut constants = Self::default();
        if let Some(weights) = job.layer.op.weights() {
            constants.filter = Some(pool.filter(weights, job.x(0)?, job.y)?);
        }
        match job.layer.op {
            Op::Lookup { table } => constants.tables.push(Some(pool.put(*table)?)),
            Op::Concat => {
                for input in 0..job.layer.inputs.len() {
                    let (from, to) = (job.x(input)?.encoding, job.y.encoding);
                    let differs = from != to;
                    let table = differs.then(|| pool.put(requantized(from, to)));
                    constants.tables.push(match table {
                        Some(at) => Some(at?),
                        None => None,
                    });
                }
            }
            _ => {}
        }
        Some(constants)
    }
}

/// Returns the table that requantizes from one encoding to another: one value for each byte.
fn requantized(from: Encoding, to: Encoding) -> impl Iterator<Item = u8> {
    (0..=u8::MAX).map(move |value| {
        let real = f32::from(i16::from(value) - i16::from(from.zero_point)) * from.scale;
        saturated((real / to.scale).round_ties_even() + f32::from(to.zero_point))
    })
}

/// Converts a rounded value to a byte, saturating; NaN becomes 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn saturated(rounded: f32) -> u8 {
    rounded as u8
}

/// Appends to `code` the instructions that compute `rows` of the output at address `to`. `inputs` has the address of
/// the tile's first row of each input.
pub(super) fn tile(
    job: &Job<'_, '_>,
    constants: &Constants,
    soc: &Soc,
    rows: &Range<usize>,
    inputs: &[u32],
    to: u32,
    code: &mut Vec<Instruction>,
) -> Option<()> {
    let (&from, x, y) = (inputs.first()?, job.x(0)?, job.y);
    let pixels = u32::try_from(rows.len() * y.shape[2]).ok()?;
    let len = u32::try_from(rows.len() * job.lines(job.layer.output).bytes).ok()?;
    let channels = |depthwise, channels| Channels { depthwise, channels, outputs: y.shape[3] };
    match &job.layer.op {
        Op::Conv { window, .. } => {
            let window = tile_window(job, window, rows)?;
            let channels = channels(false, x.shape[3]);
            convolutions(channels, constants.filter?, window, soc, [from, to], code)?;
        }
        Op::Depthwise { window, .. } => {
            let window = tile_window(job, window, rows)?;
            let channels = channels(true, x.shape[3]);
            convolutions(channels, constants.filter?, window, soc, [from, to], code)?;
        }
        // A 1x1 convolution of a single pixel that has all input values as channels.
        Op::FullyConnected { .. } => {
            let window = sized_window(&network::Window::ONE, [1, 1], [1, 1], 0)?;
            let channels = channels(false, x.len());
            convolutions(channels, constants.filter?, window, soc, [from, to], code)?;
        }
        Op::Add => code.push(Instruction::Add(pair(job, inputs, to, len)?)),
        Op::Mul => code.push(Instruction::Mul(pair(job, inputs, to, len)?)),
        Op::Concat => concat(job, constants, pixels, inputs, to, code)?,
        Op::MaxPool { window } => code.push(Instruction::MaxPool(MaxPool {
            from: At::fixed(from),
            to: At::fixed(to),
            window: tile_window(job, window, rows)?,
            channels: u32::try_from(x.shape[3]).ok()?,
        })),
        Op::AveragePool { window, divisor } => {
            let window = tile_window(job, window, rows)?;
            code.push(Instruction::AveragePool(average(job, window, *divisor, [from, to])?));
        }
        Op::Lookup { .. } => {
            let table = (*constants.tables.first()?)?;
            code.push(Instruction::Lookup(Lookup { lines: Lines::one(from, to, len), table }));
        }
        Op::Reshape => code.push(Instruction::Copy(Lines::one(from, to, len))),
        Op::Resize => {
            let [_, x_height, x_width, channels] = x.shape;
            let times = [y.shape[1] / x_height, y.shape[2] / x_width];
            code.push(Instruction::Resize(Resize {
                from: At::fixed(from),
                to: At::fixed(to),
                input: words([rows.len() / times[0], x_width])?,
                times: words(times)?,
                channels: u32::try_from(channels).ok()?,
            }));
        }
        Op::Softmax => code.push(Instruction::Softmax(Softmax {
            from: At::fixed(from),
            to: At::fixed(to),
            rows: pixels,
            width: u32::try_from(x.shape[3]).ok()?,
            from_scale: x.encoding.scale,
            to_scale: y.encoding.scale,
            to_zero: y.encoding.zero_point.into(),
        })),
    }
    Some(())
}

fn average(
    job: &Job<'_, '_>,
    window: Window,
    divisor: Divisor,
    [from, to]: [u32; 2],
) -> Option<AveragePool> {
    let (x, y) = (job.x(0)?, job.y);
    Some(AveragePool {
        from: At::fixed(from),
        to: At::fixed(to),
        window,
        channels: u32::try_from(x.shape[3]).ok()?,
        counts_padding: u32::from(divisor == Divisor::Kernel),
        from_scale: x.encoding.scale,
        from_zero: x.encoding.zero_point.into(),
        to_scale: y.encoding.scale,
        to_zero: y.encoding.zero_point.into(),
    })
}

fn words(constants: [usize; 2]) -> Option<[u32; 2]> {
    Some([u32::try_from(constants[0]).ok()?, u32::try_from(constants[1]).ok()?])
}

/// Returns the window of a tile that computes `rows`: over the input rows that it needs, with the part of the padding
/// that lies above them.
fn tile_window(job: &Job<'_, '_>, window: &network::Window, rows: &Range<usize>) -> Option<Window> {
    let height = job.rows(0, rows).len();
    let top_padding = window.pads[0].saturating_sub(rows.start * window.strides[0]);
    sized_window(window, [height, job.x(0)?.shape[2]], [rows.len(), job.y.shape[2]], top_padding)
}

/// Returns a window over an input and an output of these heights and widths.
fn sized_window(
    window: &network::Window,
    input: [usize; 2],
    output: [usize; 2],
    top_padding: usize,
) -> Option<Window> {
    Some(Window {
        input: words(input)?,
        output: words(output)?,
        kernel: words(window.kernel)?,
        strides: words(window.strides)?,
        dilations: words(window.dilations)?,
        pads: words([top_padding, window.pads[1]])?,
    })
}

/// The channels of a layer with weights.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_field_names,
    reason = "the input channels are what the instructions call channels"
)]
struct Channels {
    /// Whether the layer is depthwise.
    depthwise: bool,
    /// Input channels.
    channels: usize,
    /// Output channels.
    outputs: usize,
}

/// Emits a convolution, divided by output channels so that each instruction's weights fit the weight memory.
fn convolutions(
    layer: Channels,
    filter: Filter,
    window: Window,
    soc: &Soc,
    [from, to]: [u32; 2],
    code: &mut Vec<Instruction>,
) -> Option<()> {
    let channels = u32::try_from(layer.channels).ok()?;
    let outputs = u32::try_from(layer.outputs).ok()?;
    // All outputs of a depthwise layer's channel stay in one instruction.
    let multiplier = if layer.depthwise { outputs / channels } else { 1 };
    // The most outputs whose weights fit the weight memory.
    let limit = soc.weight_bytes / filter.depth.max(1);
    let lanes = LANES.checked_mul(multiplier)?;
    let unit = if limit >= lanes { lanes } else { multiplier };
    let most = (limit / unit).max(1).checked_mul(unit)?;
    let mut first = 0;
    while first < outputs {
        let count = most.min(outputs - first);
        // Depthwise outputs read only their own channels.
        let (skipped, read) =
            if layer.depthwise { (first / multiplier, count / multiplier) } else { (0, channels) };
        let convolution = Convolution {
            from: At::fixed(from.checked_add(skipped)?),
            from_pitch: channels,
            to: At::fixed(to.checked_add(first)?),
            to_pitch: outputs,
            channels: read,
            outputs: count,
            ..filter.convolution(window, first)
        };
        code.push(if layer.depthwise {
            Instruction::Depthwise(convolution)
        } else {
            Instruction::Conv(convolution)
        });
        first = first.checked_add(count)?;
    }
    Some(())
}

fn pair(job: &Job<'_, '_>, inputs: &[u32], to: u32, len: u32) -> Option<Pair> {
    let (&[a, b], first, second) = (inputs, job.x(0)?, job.x(1)?) else { return None };
    // A second operand of another shape has one value per channel, and is repeated.
    let b_len = if second.shape == first.shape { len } else { u32::try_from(second.len()).ok()? };
    Some(Pair {
        a: At::fixed(a),
        b: At::fixed(b),
        to: At::fixed(to),
        len,
        b_len,
        a_scale: first.encoding.scale,
        a_zero: first.encoding.zero_point.into(),
        b_scale: second.encoding.scale,
        b_zero: second.encoding.zero_point.into(),
        to_scale: job.y.encoding.scale,
        to_zero: job.y.encoding.zero_point.into(),
    })
}

/// Emits a concatenation: copies the channels of each input to their offset in the output's pixels, through a table if
/// the encodings differ.
fn concat(
    job: &Job<'_, '_>,
    constants: &Constants,
    pixels: u32,
    inputs: &[u32],
    mut to: u32,
    code: &mut Vec<Instruction>,
) -> Option<()> {
    let to_pitch = u32::try_from(job.y.shape[3]).ok()?;
    for (input, (&from, table)) in inputs.iter().zip(&constants.tables).enumerate() {
        let width = u32::try_from(job.x(input)?.shape[3]).ok()?;
        let lines = Lines {
            from: At::fixed(from),
            from_pitch: width,
            to: At::fixed(to),
            to_pitch,
            rows: pixels,
            width,
        };
        code.push(match *table {
            None => Instruction::Copy(lines),
            Some(table) => Instruction::Lookup(Lookup { lines, table }),
        });
        to = to.checked_add(width)?;
    }
    Some(())
}
