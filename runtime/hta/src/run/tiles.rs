//! Instructions without weights, on tiles.

use std::ops::Range;

use udo_simd::pooling::{Image, max_pool_u8};
use udo_simd::rows::{self, Arithmetic, Operand};

use super::RunError;
use super::memory::{Memory, broken, range, span};
use super::prepare::pixels;
use crate::bytecode::{AveragePool, Lines, MaxPool, Pair, Resize, Softmax, Transfer};

type Done = Result<(), RunError>;

/// Channels that are summed together.
const TOGETHER: usize = 64;

/// Rows of bytes and their destination, in one iteration.
struct Places {
    from: Range<usize>,
    to: Range<usize>,
    from_pitch: usize,
    to_pitch: usize,
    width: usize,
}

impl Places {
    fn new(lines: &Lines, iteration: u32) -> Result<Self, RunError> {
        let [count, width, from_pitch, to_pitch] =
            [lines.rows, lines.width, lines.from_pitch, lines.to_pitch].map(|n| n as usize);
        let from = range(lines.from, iteration, span(count, from_pitch, width))?;
        let to = range(lines.to, iteration, span(count, to_pitch, width))?;
        Ok(Self { from, to, from_pitch, to_pitch, width })
    }

    /// Computes each destination row from its source row.
    fn each(&self, from: &[u8], to: &mut [u8], make: impl Fn(&[u8], &mut [u8])) -> Done {
        for (from, to) in from.chunks(self.from_pitch).zip(to.chunks_mut(self.to_pitch)) {
            make(broken(from.get(..self.width))?, broken(to.get_mut(..self.width))?);
        }
        Ok(())
    }
}

fn copied(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

pub(super) fn load(transfer: &Transfer, iteration: u32, memory: &mut Memory<'_, '_, '_>) -> Done {
    let places = Places::new(&transfer.lines, iteration)?;
    let (from, to) = memory.incoming(transfer.space, places.from.clone(), places.to.clone())?;
    places.each(from, to, copied)
}

pub(super) fn store(transfer: &Transfer, iteration: u32, memory: &mut Memory<'_, '_, '_>) -> Done {
    let places = Places::new(&transfer.lines, iteration)?;
    let (from, to) = memory.outgoing(transfer.space, places.from.clone(), places.to.clone())?;
    places.each(from, to, copied)
}

pub(super) fn copy(lines: &Lines, iteration: u32, memory: &mut Memory<'_, '_, '_>) -> Done {
    let places = Places::new(lines, iteration)?;
    let (others, to) = memory.on_chip(places.to.clone())?;
    places.each(others.get(places.from.clone())?, to, copied)
}

pub(super) fn lookup(
    lines: &Lines,
    table: &[u8; 256],
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> Done {
    let places = Places::new(lines, iteration)?;
    let (others, to) = memory.on_chip(places.to.clone())?;
    let from = others.get(places.from.clone())?;
    places.each(from, to, |from, to| rows::lookup(from, table, to))
}

pub(super) fn max_pool(pool: &MaxPool, iteration: u32, memory: &mut Memory<'_, '_, '_>) -> Done {
    let window = pixels(&pool.window);
    let channels = pool.channels as usize;
    let [from, to] =
        [window.input, window.output].map(|extents| extents.iter().product::<usize>() * channels);
    let (others, to) = memory.on_chip(range(pool.to, iteration, to)?)?;
    let x = Image { data: others.get(range(pool.from, iteration, from)?)?, stride: channels };
    max_pool_u8(&window, channels, x, 0..window.output[1], to, channels);
    Ok(())
}

/// Averages dequantized values, and quantizes once.
pub(super) fn average_pool(
    pool: &AveragePool,
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> Done {
    let window = pixels(&pool.window);
    let channels = pool.channels as usize;
    let [from, to] =
        [window.input, window.output].map(|extents| extents.iter().product::<usize>() * channels);
    let (others, to) = memory.on_chip(range(pool.to, iteration, to)?)?;
    let from = others.get(range(pool.from, iteration, from)?)?;
    let inside = |axis: usize, at: usize| {
        let tap = move |tap: usize| {
            let place = at * window.strides[axis] + tap * window.dilations[axis];
            place.checked_sub(window.pads[axis]).filter(|place| *place < window.input[axis])
        };
        (0..window.kernel[axis]).filter_map(tap)
    };
    let width = window.output[2];
    for (pixel, to) in to.chunks_exact_mut(channels).enumerate() {
        let (row, column) = (pixel / width, pixel % width);
        let taps = inside(1, row).count() * inside(2, column).count();
        let count =
            if pool.counts_padding == 1 { window.kernel[1] * window.kernel[2] } else { taps };
        let zeros = taps as i64 * i64::from(pool.from_zero);
        for (part, to) in to.chunks_mut(TOGETHER).enumerate() {
            let mut sums = [0u32; TOGETHER];
            for y in inside(1, row) {
                for x in inside(2, column) {
                    let first = (y * window.input[2] + x) * channels + part * TOGETHER;
                    let values = broken(from.get(first..).and_then(|rest| rest.get(..to.len())))?;
                    for (sum, &value) in sums.iter_mut().zip(values) {
                        *sum += u32::from(value);
                    }
                }
            }
            for (to, &sum) in to.iter_mut().zip(&sums) {
                let number =
                    (i64::from(sum) - zeros) as f32 * pool.from_scale / count.max(1) as f32;
                *to = quantized(number, pool.to_scale, pool.to_zero);
            }
        }
    }
    Ok(())
}

/// Divides by the scale, rounds half to even, adds the zero point and saturates.
fn quantized(number: f32, scale: f32, zero_point: u32) -> u8 {
    ((number / scale).round_ties_even() + zero_point as f32) as u8
}

pub(super) fn pair(
    operation: Arithmetic,
    pair: &Pair,
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> Done {
    let (len, b_len) = (pair.len as usize, pair.b_len as usize);
    let (others, to) = memory.on_chip(range(pair.to, iteration, len)?)?;
    let (a, b) = (
        others.get(range(pair.a, iteration, len)?)?,
        others.get(range(pair.b, iteration, b_len)?)?,
    );
    // A single value is combined with the whole other operand in one call.
    let at_once = if b_len == 1 { len } else { b_len };
    let side = |values, scale, zero: u32| Operand { values, scale, zero_point: zero as u8 };
    for (a, to) in a.chunks(at_once).zip(to.chunks_mut(at_once)) {
        let (a, b) = (side(a, pair.a_scale, pair.a_zero), side(b, pair.b_scale, pair.b_zero));
        rows::combine(operation, a, b, pair.to_scale, pair.to_zero as u8, to);
    }
    Ok(())
}

pub(super) fn resize(op: &Resize, iteration: u32, memory: &mut Memory<'_, '_, '_>) -> Done {
    let [height, width] = op.input.map(|n| n as usize);
    let [down, across] = op.times.map(|n| n as usize);
    let channels = op.channels as usize;
    let (line, to_line) = (width * channels, width * across * channels);
    let (others, to) = memory.on_chip(range(op.to, iteration, height * down * to_line)?)?;
    let from = others.get(range(op.from, iteration, height * line)?)?;
    for (from, to) in from.chunks_exact(line).zip(to.chunks_exact_mut(down * to_line)) {
        let (first, others) = broken(to.split_at_mut_checked(to_line))?;
        for (from, to) in from.chunks_exact(channels).zip(first.chunks_exact_mut(across * channels))
        {
            to.chunks_exact_mut(channels).for_each(|to| to.copy_from_slice(from));
        }
        others.chunks_exact_mut(to_line).for_each(|to| to.copy_from_slice(first));
    }
    Ok(())
}

/// `powers[d]` is `exp(-scale * d)` for a value `d` below its row's maximum.
pub(super) fn softmax(
    op: &Softmax,
    powers: &[f32; 256],
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> Done {
    let (count, width) = (op.rows as usize, op.width as usize);
    let (others, to) = memory.on_chip(range(op.to, iteration, count * width)?)?;
    let from = others.get(range(op.from, iteration, count * width)?)?;
    for (from, to) in from.chunks_exact(width).zip(to.chunks_exact_mut(width)) {
        let most = from.iter().copied().max().unwrap_or(0);
        let power = |value: &u8| powers[usize::from(most - *value)];
        let sum: f32 = from.iter().map(power).sum();
        for (from, to) in from.iter().zip(to) {
            *to = quantized(power(from) / sum, op.to_scale, op.to_zero);
        }
    }
    Ok(())
}
