//! Checks of an instruction by itself: fields in range, constants present.

use udo_simd::conv_u8::MAX_K;

use crate::bytecode::{Convolution, Instruction, Lines, Window};
use crate::soc::Soc;

/// The largest extent of an image, stride and dilation.
const MAX_EXTENT: u32 = 1 << 16;
/// The most taps of a kernel along an axis.
const MAX_KERNEL: u32 = 1 << 10;

type Checked = Result<(), String>;

/// Checks an instruction.
pub(super) fn check(instruction: &Instruction, constants: &[u8], soc: &Soc) -> Checked {
    match instruction {
        Instruction::Loop(op) => least("iterations", op.iterations, 1),
        Instruction::End(_) => Ok(()),
        Instruction::Load(transfer) | Instruction::Store(transfer) => lines(&transfer.lines),
        Instruction::Copy(copied) => lines(copied),
        Instruction::Conv(conv) => convolution(conv, conv.channels, constants, soc),
        Instruction::Depthwise(conv) => {
            if conv.channels == 0 || !conv.outputs.is_multiple_of(conv.channels) {
                return Err(format!("computes {} channels from {}", conv.outputs, conv.channels));
            }
            convolution(conv, 1, constants, soc)
        }
        Instruction::MaxPool(pool) => window(&pool.window).and(least("channels", pool.channels, 1)),
        Instruction::AveragePool(pool) => {
            window(&pool.window)?;
            least("channels", pool.channels, 1)?;
            most("counts_padding", pool.counts_padding, 1)?;
            scales(&[pool.from_scale, pool.to_scale])?;
            bytes(&[pool.from_zero, pool.to_zero])
        }
        Instruction::Add(pair) | Instruction::Mul(pair) => {
            least("len", pair.len, 1)?;
            if pair.b_len == 0 || !pair.len.is_multiple_of(pair.b_len) {
                return Err(format!("has {} values for {}", pair.b_len, pair.len));
            }
            scales(&[pair.a_scale, pair.b_scale, pair.to_scale])?;
            bytes(&[pair.a_zero, pair.b_zero, pair.to_zero])
        }
        Instruction::Lookup(op) => {
            lines(&op.lines)?;
            constant("table", constants, op.table, 256).map(|_| ())
        }
        Instruction::Resize(op) => {
            pairs("input", op.input, 1, MAX_EXTENT)?;
            pairs("times", op.times, 1, MAX_EXTENT)?;
            least("channels", op.channels, 1)
        }
        Instruction::Softmax(op) => {
            least("rows", op.rows, 1)?;
            least("width", op.width, 1)?;
            scales(&[op.from_scale, op.to_scale])?;
            bytes(&[op.to_zero])
        }
    }
}

fn least(name: &str, found: u32, least: u32) -> Checked {
    if found >= least {
        return Ok(());
    }
    Err(format!("has {name} of {found}, expected at least {least}"))
}

fn most(name: &str, found: u32, most: u32) -> Checked {
    if found <= most {
        return Ok(());
    }
    Err(format!("has {name} of {found}, expected at most {most}"))
}

fn pairs(name: &str, found: [u32; 2], from: u32, to: u32) -> Checked {
    found.into_iter().try_for_each(|found| least(name, found, from).and(most(name, found, to)))
}

fn bytes(zeros: &[u32]) -> Checked {
    zeros.iter().try_for_each(|&zero| most("a zero point", zero, u32::from(u8::MAX)))
}

fn scales(scales: &[f32]) -> Checked {
    match scales.iter().find(|scale| !scale.is_finite() || **scale <= 0.0) {
        None => Ok(()),
        Some(scale) => Err(format!("has a scale of {scale}, expected a finite value above 0")),
    }
}

fn lines(lines: &Lines) -> Checked {
    least("rows", lines.rows, 1)?;
    least("width", lines.width, 1)?;
    let pitches = [lines.from_pitch, lines.to_pitch];
    pitches.into_iter().try_for_each(|pitch| least("a pitch", pitch, lines.width))
}

fn window(window: &Window) -> Checked {
    let Window { input, output, kernel, strides, dilations, pads } = *window;
    for (name, found) in
        [("input", input), ("output", output), ("strides", strides), ("dilations", dilations)]
    {
        pairs(name, found, 1, MAX_EXTENT)?;
    }
    pairs("kernel", kernel, 1, MAX_KERNEL)?;
    pairs("pads", pads, 0, MAX_EXTENT)?;
    match usize::try_from(kernel[0] * kernel[1]) {
        Ok(taps) if taps <= MAX_K => Ok(()),
        _ => Err(format!("has {} taps, expected at most {MAX_K}", kernel[0] * kernel[1])),
    }
}

/// `depth` is the number of input channels per output.
fn convolution(conv: &Convolution, depth: u32, constants: &[u8], soc: &Soc) -> Checked {
    window(&conv.window)?;
    least("channels", conv.channels, 1)?;
    least("outputs", conv.outputs, 1)?;
    least("from_pitch", conv.from_pitch, conv.channels)?;
    least("to_pitch", conv.to_pitch, conv.outputs)?;
    bytes(&[conv.from_zero, conv.to_zero])?;
    let taps = u64::from(conv.window.kernel[0]) * u64::from(conv.window.kernel[1]);
    let products = taps * u64::from(depth);
    if usize::try_from(products).map_or(true, |products| products > MAX_K) {
        return Err(format!("sums {products} products, expected at most {MAX_K}"));
    }
    let len = products * u64::from(conv.outputs);
    if len > u64::from(soc.weight_bytes) {
        let limit = soc.weight_bytes;
        return Err(format!("has {len} weights, {} has memory for {limit}", soc.name));
    }
    let each = u64::from(conv.outputs);
    constant("weights", constants, conv.weights, len)?;
    constant("zero_points", constants, conv.zero_points, each)?;
    constant("bias", constants, conv.bias, 4 * each)?;
    let ratios = constant("ratios", constants, conv.ratios, 4 * each)?;
    ratios.as_chunks::<4>().0.iter().try_for_each(|bytes| scales(&[f32::from_le_bytes(*bytes)]))
}

fn constant<'a>(name: &str, constants: &'a [u8], at: u32, len: u64) -> Result<&'a [u8], String> {
    slice(constants, at, len)
        .ok_or_else(|| format!("has {name} at {at}, {len} bytes of {} constants", constants.len()))
}

/// Returns `len` bytes of constants from an address on.
pub(crate) fn slice(constants: &[u8], at: u32, len: u64) -> Option<&[u8]> {
    let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
    constants.get(at..at.checked_add(len)?)
}
