//! Emits the instructions of a layer's tile, whose rows are on the chip.

use std::ops::Range;

use super::pool::{Filter, Pool};
use super::rows::Job;
use crate::bytecode::{
    At, AveragePool, Convolution, Instruction, Lines, Lookup, MaxPool, Pair, Resize, Softmax,
    Window,
};
use crate::network::{self, Divisor, Encoding, Op};
use crate::soc::Soc;

/// Output channels of an instruction are a multiple of this, if possible.
const LANES: u32 = 16;

/// Offsets of a layer's constants.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    filter: Option<Filter>,
    /// By input; `None` if it needs no table.
    tables: Vec<Option<u32>>,
}

impl Numbers {
    pub(super) fn gather(job: &Job<'_, '_>, pool: &mut Pool) -> Option<Self> {
        let mut numbers = Self::default();
        if let Some(weights) = job.layer.op.weights() {
            numbers.filter = Some(pool.filter(weights, job.x(0)?, job.y)?);
        }
        match job.layer.op {
            Op::Lookup { table } => numbers.tables.push(Some(pool.put(*table)?)),
            Op::Concat => {
                for input in 0..job.layer.inputs.len() {
                    let (from, to) = (job.x(input)?.encoding, job.y.encoding);
                    let is_other = from != to;
                    let table = is_other.then(|| pool.put(requantized(from, to)));
                    numbers.tables.push(match table {
                        Some(at) => Some(at?),
                        None => None,
                    });
                }
            }
            _ => {}
        }
        Some(numbers)
    }
}

/// Returns the requantization table from one encoding to another.
fn requantized(from: Encoding, to: Encoding) -> impl Iterator<Item = u8> {
    (0..=u8::MAX).map(move |value| {
        let number = f32::from(i16::from(value) - i16::from(from.zero_point)) * from.scale;
        saturated((number / to.scale).round_ties_even() + f32::from(to.zero_point))
    })
}

/// Rounds to the nearest byte, saturating; NaN becomes 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn saturated(number: f32) -> u8 {
    number as u8
}

/// Appends the instructions that compute rows `rows` of the output at `to`.
pub(super) fn tile(
    job: &Job<'_, '_>,
    numbers: &Numbers,
    soc: &Soc,
    rows: &Range<usize>,
    inputs: &[u32],
    to: u32,
    code: &mut Vec<Instruction>,
) -> Option<()> {
    let (&from, x, y) = (inputs.first()?, job.x(0)?, job.y);
    let pixels = u32::try_from(rows.len() * y.shape[2]).ok()?;
    let len = u32::try_from(rows.len() * job.lines(job.layer.output).bytes).ok()?;
    let cut = |depthwise, channels| Cut { depthwise, channels, outputs: y.shape[3] };
    match &job.layer.op {
        Op::Conv { window, .. } => {
            let window = self::window(job, window, rows)?;
            convolutions(cut(false, x.shape[3]), numbers.filter?, window, soc, [from, to], code)?;
        }
        Op::Depthwise { window, .. } => {
            let window = self::window(job, window, rows)?;
            convolutions(cut(true, x.shape[3]), numbers.filter?, window, soc, [from, to], code)?;
        }
        Op::FullyConnected { .. } => {
            let window = window_of(&network::Window::ONE, [1, 1], [1, 1], 0)?;
            convolutions(cut(false, x.len()), numbers.filter?, window, soc, [from, to], code)?;
        }
        Op::Add => code.push(Instruction::Add(pair(job, inputs, to, len)?)),
        Op::Mul => code.push(Instruction::Mul(pair(job, inputs, to, len)?)),
        Op::Concat => parts(job, numbers, pixels, inputs, to, code)?,
        Op::MaxPool { window } => code.push(Instruction::MaxPool(MaxPool {
            from: At::fixed(from),
            to: At::fixed(to),
            window: self::window(job, window, rows)?,
            channels: u32::try_from(x.shape[3]).ok()?,
        })),
        Op::AveragePool { window, divisor } => {
            let window = self::window(job, window, rows)?;
            code.push(Instruction::AveragePool(average(job, window, *divisor, [from, to])?));
        }
        Op::Lookup { .. } => {
            let table = (*numbers.tables.first()?)?;
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

fn words(numbers: [usize; 2]) -> Option<[u32; 2]> {
    Some([u32::try_from(numbers[0]).ok()?, u32::try_from(numbers[1]).ok()?])
}

/// Returns the window of a tile: the input rows that it has, and the remaining padding at the top.
fn window(job: &Job<'_, '_>, window: &network::Window, rows: &Range<usize>) -> Option<Window> {
    let height = job.rows(0, rows).len();
    let above = window.pads[0].saturating_sub(rows.start * window.strides[0]);
    window_of(window, [height, job.x(0)?.shape[2]], [rows.len(), job.y.shape[2]], above)
}

fn window_of(
    window: &network::Window,
    input: [usize; 2],
    output: [usize; 2],
    above: usize,
) -> Option<Window> {
    Some(Window {
        input: words(input)?,
        output: words(output)?,
        kernel: words(window.kernel)?,
        strides: words(window.strides)?,
        dilations: words(window.dilations)?,
        pads: words([above, window.pads[1]])?,
    })
}

/// The output channels of a layer with weights, which may be divided.
#[derive(Clone, Copy)]
struct Cut {
    /// Whether the layer is depthwise.
    depthwise: bool,
    channels: usize,
    outputs: usize,
}

/// Emits a convolution, divided by output channels so that each instruction's weights fit the weight memory.
fn convolutions(
    cut: Cut,
    filter: Filter,
    window: Window,
    soc: &Soc,
    [from, to]: [u32; 2],
    code: &mut Vec<Instruction>,
) -> Option<()> {
    let (channels, outputs) = (u32::try_from(cut.channels).ok()?, u32::try_from(cut.outputs).ok()?);
    // Outputs of the same channel stay in one instruction.
    let multiplier = if cut.depthwise { outputs / channels } else { 1 };
    let limit = soc.weight_bytes / filter.depth.max(1);
    let lanes = LANES.checked_mul(multiplier)?;
    let unit = if limit >= lanes { lanes } else { multiplier };
    let most = (limit / unit).max(1).checked_mul(unit)?;
    let mut first = 0;
    while first < outputs {
        let count = most.min(outputs - first);
        let (skipped, read) =
            if cut.depthwise { (first / multiplier, count / multiplier) } else { (0, channels) };
        let convolution = Convolution {
            from: At::fixed(from.checked_add(skipped)?),
            from_pitch: channels,
            to: At::fixed(to.checked_add(first)?),
            to_pitch: outputs,
            channels: read,
            outputs: count,
            ..filter.convolution(window, first)
        };
        code.push(if cut.depthwise {
            Instruction::Depthwise(convolution)
        } else {
            Instruction::Conv(convolution)
        });
        first = first.checked_add(count)?;
    }
    Some(())
}

fn pair(job: &Job<'_, '_>, inputs: &[u32], to: u32, len: u32) -> Option<Pair> {
    let (&[a, b], x, other) = (inputs, job.x(0)?, job.x(1)?) else { return None };
    let b_len = if other.shape == x.shape { len } else { u32::try_from(other.len()).ok()? };
    Some(Pair {
        a: At::fixed(a),
        b: At::fixed(b),
        to: At::fixed(to),
        len,
        b_len,
        a_scale: x.encoding.scale,
        a_zero: x.encoding.zero_point.into(),
        b_scale: other.encoding.scale,
        b_zero: other.encoding.zero_point.into(),
        to_scale: job.y.encoding.scale,
        to_zero: job.y.encoding.zero_point.into(),
    })
}

/// Returns the channel offset of each input of a concatenation.
fn parts(
    job: &Job<'_, '_>,
    numbers: &Numbers,
    pixels: u32,
    inputs: &[u32],
    mut to: u32,
    code: &mut Vec<Instruction>,
) -> Option<()> {
    let to_pitch = u32::try_from(job.y.shape[3]).ok()?;
    for (input, (&from, table)) in inputs.iter().zip(&numbers.tables).enumerate() {
        let width = u32::try_from(job.x(input)?.shape[3]).ok()?;
        let (at, to_at) = (At::fixed(from), At::fixed(to));
        let (from_pitch, rows) = (width, pixels);
        let lines = Lines { from: at, from_pitch, to: to_at, to_pitch, rows, width };
        code.push(match *table {
            None => Instruction::Copy(lines),
            Some(table) => Instruction::Lookup(Lookup { lines, table }),
        });
        to = to.checked_add(width)?;
    }
    Some(())
}
