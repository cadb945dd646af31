//! Checks of an instruction by itself: fields in range, constants present.
//!
//! Each error continues the sentence "instruction N (NAME) ..".

use udo_simd::conv_u8::MAX_K;

use crate::bytecode::{Convolution, Instruction, Lines, Window};
use crate::soc::Soc;

/// The largest extent of an image, stride, dilation and padding.
const MAX_EXTENT: u32 = 1 << 16;
/// The most taps of a kernel along an axis.
const MAX_KERNEL: u32 = 1 << 10;

type Checked = Result<(), String>;

/// Checks an instruction.
pub(super) fn check(instruction: &Instruction, constants: &[u8], soc: &Soc) -> Checked {
    match instruction {
        Instruction::Loop(op) => at_least("iterations", op.iterations, 1),
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
        Instruction::MaxPool(pool) => {
            window(&pool.window).and(at_least("channels", pool.channels, 1))
        }
        Instruction::AveragePool(pool) => {
            window(&pool.window)?;
            at_least("channels", pool.channels, 1)?;
            at_most("counts_padding", pool.counts_padding, 1)?;
            scales(&[pool.from_scale, pool.to_scale])?;
            zero_points(&[pool.from_zero, pool.to_zero])
        }
        Instruction::Add(pair) | Instruction::Mul(pair) => {
            at_least("len", pair.len, 1)?;
            if pair.b_len == 0 || !pair.len.is_multiple_of(pair.b_len) {
                return Err(format!("has {} values for {}", pair.b_len, pair.len));
            }
            scales(&[pair.a_scale, pair.b_scale, pair.to_scale])?;
            zero_points(&[pair.a_zero, pair.b_zero, pair.to_zero])
        }
        Instruction::Lookup(op) => {
            lines(&op.lines)?;
            constant("table", constants, op.table, 256).map(|_| ())
        }
        Instruction::Resize(op) => {
            pair_within("input", op.input, 1, MAX_EXTENT)?;
            pair_within("times", op.times, 1, MAX_EXTENT)?;
            at_least("channels", op.channels, 1)
        }
        Instruction::Softmax(op) => {
            at_least("rows", op.rows, 1)?;
            at_least("width", op.width, 1)?;
            scales(&[op.from_scale, op.to_scale])?;
            zero_points(&[op.to_zero])
        }
    }
}

fn at_least(name: &str, value: u32, minimum: u32) -> Checked {
    if value >= minimum {
        return Ok(());
    }
    Err(format!("has {name} of {value}, expected at least {minimum}"))
}

fn at_most(name: &str, value: u32, maximum: u32) -> Checked {
    if value <= maximum {
        return Ok(());
    }
    Err(format!("has {name} of {value}, expected at most {maximum}"))
}

/// Checks that both values, height and width, are within inclusive limits.
fn pair_within(name: &str, pair: [u32; 2], minimum: u32, maximum: u32) -> Checked {
    pair.into_iter()
        .try_for_each(|value| at_least(name, value, minimum).and(at_most(name, value, maximum)))
}

fn zero_points(zeros: &[u32]) -> Checked {
    zeros.iter().try_for_each(|&zero| at_most("a zero point", zero, u32::from(u8::MAX)))
}

fn scales(scales: &[f32]) -> Checked {
    match scales.iter().find(|scale| !scale.is_finite() || **scale <= 0.0) {
        None => Ok(()),
        Some(scale) => Err(format!("has a scale of {scale}, expected a finite value above 0")),
    }
}

fn lines(lines: &Lines) -> Checked {
    at_least("rows", lines.rows, 1)?;
    at_least("width", lines.width, 1)?;
    let pitches = [lines.from_pitch, lines.to_pitch];
    pitches.into_iter().try_for_each(|pitch| at_least("a pitch", pitch, lines.width))
}

fn window(window: &Window) -> Checked {
    let Window { input, output, kernel, strides, dilations, pads } = *window;
    for (name, pair) in
        [("input", input), ("output", output), ("strides", strides), ("dilations", dilations)]
    {
        pair_within(name, pair, 1, MAX_EXTENT)?;
    }
    pair_within("kernel", kernel, 1, MAX_KERNEL)?;
    pair_within("pads", pads, 0, MAX_EXTENT)?;
    match usize::try_from(kernel[0] * kernel[1]) {
        Ok(taps) if taps <= MAX_K => Ok(()),
        _ => Err(format!("has {} taps, expected at most {MAX_K}", kernel[0] * kernel[1])),
    }
}

/// Checks a convolution; `depth` is the number of input channels that each output sums.
fn convolution(conv: &Convolution, depth: u32, constants: &[u8], soc: &Soc) -> Checked {
    window(&conv.window)?;
    at_least("channels", conv.channels, 1)?;
    at_least("outputs", conv.outputs, 1)?;
    at_least("from_pitch", conv.from_pitch, conv.channels)?;
    at_least("to_pitch", conv.to_pitch, conv.outputs)?;
    zero_points(&[conv.from_zero, conv.to_zero])?;
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
    let outputs = u64::from(conv.outputs);
    constant("weights", constants, conv.weights, len)?;
    constant("zero_points", constants, conv.zero_points, outputs)?;
    constant("bias", constants, conv.bias, 4 * outputs)?;
    let ratios = constant("ratios", constants, conv.ratios, 4 * outputs)?;
    ratios.as_chunks::<4>().0.iter().try_for_each(|bytes| scales(&[f32::from_le_bytes(*bytes)]))
}

/// Returns `len` bytes of constants at an address, or an error that names the field with that address.
fn constant<'a>(name: &str, constants: &'a [u8], at: u32, len: u64) -> Result<&'a [u8], String> {
    slice(constants, at, len)
        .ok_or_else(|| format!("has {name} at {at}, {len} bytes of {} constants", constants.len()))
}

/// Returns `len` bytes of constants at an address, or `None` if the constants end before.
pub(crate) fn slice(constants: &[u8], at: u32, len: u64) -> Option<&[u8]> {
    let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
    constants.get(at..at.checked_add(len)?)
}
