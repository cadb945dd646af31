//! Runs the instructions without weights: copies, lookups, pooling, element-wise arithmetic, resizing and softmax.
//!
//! They compute on tiles in on-chip memory. `from` is always the source of an instruction, and `to` its destination.

use std::ops::Range;

use udo_simd::pooling::{Image, max_pool_u8};
use udo_simd::rows::{self, Arithmetic, Operand};

use super::RunError;
use super::memory::{Memory, broken, range, span};
use super::prepare::pixels;
use crate::bytecode::{AveragePool, Lines, MaxPool, Pair, Resize, Softmax, Transfer};

type RunResult = Result<(), RunError>;

/// Channels whose sums an average pool accumulates at once, so that the sums fit an array of fixed size.
const CHANNELS_PER_PASS: usize = 64;

/// The address ranges of source and destination rows in one iteration.
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
    fn each_row(
        &self,
        from: &[u8],
        to: &mut [u8],
        compute: impl Fn(&[u8], &mut [u8]),
    ) -> RunResult {
        for (from, to) in from.chunks(self.from_pitch).zip(to.chunks_mut(self.to_pitch)) {
            compute(broken(from.get(..self.width))?, broken(to.get_mut(..self.width))?);
        }
        Ok(())
    }
}

fn copy_row(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

pub(super) fn load(
    transfer: &Transfer,
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> RunResult {
    let places = Places::new(&transfer.lines, iteration)?;
    let (from, to) = memory.incoming(transfer.space, places.from.clone(), places.to.clone())?;
    places.each_row(from, to, copy_row)
}

pub(super) fn store(
    transfer: &Transfer,
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> RunResult {
    let places = Places::new(&transfer.lines, iteration)?;
    let (from, to) = memory.outgoing(transfer.space, places.from.clone(), places.to.clone())?;
    places.each_row(from, to, copy_row)
}

pub(super) fn copy(lines: &Lines, iteration: u32, memory: &mut Memory<'_, '_, '_>) -> RunResult {
    let places = Places::new(lines, iteration)?;
    let (others, to) = memory.on_chip(places.to.clone())?;
    places.each_row(others.get(places.from.clone())?, to, copy_row)
}

pub(super) fn lookup(
    lines: &Lines,
    table: &[u8; 256],
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> RunResult {
    let places = Places::new(lines, iteration)?;
    let (others, to) = memory.on_chip(places.to.clone())?;
    let from = others.get(places.from.clone())?;
    places.each_row(from, to, |from, to| rows::lookup(from, table, to))
}

pub(super) fn max_pool(
    pool: &MaxPool,
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> RunResult {
    let window = pixels(&pool.window);
    let channels = pool.channels as usize;
    let [from_len, to_len] =
        [window.input, window.output].map(|extents| extents.iter().product::<usize>() * channels);
    let (others, to) = memory.on_chip(range(pool.to, iteration, to_len)?)?;
    let data = others.get(range(pool.from, iteration, from_len)?)?;
    max_pool_u8(
        &window,
        channels,
        Image { data, stride: channels },
        0..window.output[1],
        to,
        channels,
    );
    Ok(())
}

/// Averages dequantized values, and quantizes once.
pub(super) fn average_pool(
    pool: &AveragePool,
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> RunResult {
    let window = pixels(&pool.window);
    let channels = pool.channels as usize;
    let [from_len, to_len] =
        [window.input, window.output].map(|extents| extents.iter().product::<usize>() * channels);
    let (others, to) = memory.on_chip(range(pool.to, iteration, to_len)?)?;
    let from = others.get(range(pool.from, iteration, from_len)?)?;
    // Yields the input positions along an axis under the taps of the window at an output position, without padding.
    let inside = |axis: usize, position: usize| {
        let tap = move |tap: usize| {
            let pixel = position * window.strides[axis] + tap * window.dilations[axis];
            pixel.checked_sub(window.pads[axis]).filter(|pixel| *pixel < window.input[axis])
        };
        (0..window.kernel[axis]).filter_map(tap)
    };
    let width = window.output[2];
    for (pixel, to) in to.chunks_exact_mut(channels).enumerate() {
        let (row, column) = (pixel / width, pixel % width);
        let taps = inside(1, row).count() * inside(2, column).count();
        let count =
            if pool.counts_padding == 1 { window.kernel[1] * window.kernel[2] } else { taps };
        // The sum of the zero points of all summed values.
        let zeros = taps as i64 * i64::from(pool.from_zero);
        for (chunk, to) in to.chunks_mut(CHANNELS_PER_PASS).enumerate() {
            let mut sums = [0u32; CHANNELS_PER_PASS];
            for y in inside(1, row) {
                for x in inside(2, column) {
                    let first = (y * window.input[2] + x) * channels + chunk * CHANNELS_PER_PASS;
                    let values = broken(from.get(first..).and_then(|rest| rest.get(..to.len())))?;
                    for (sum, &value) in sums.iter_mut().zip(values) {
                        *sum += u32::from(value);
                    }
                }
            }
            for (to, &sum) in to.iter_mut().zip(&sums) {
                let mean = (i64::from(sum) - zeros) as f32 * pool.from_scale / count.max(1) as f32;
                *to = quantized(mean, pool.to_scale, pool.to_zero);
            }
        }
    }
    Ok(())
}

/// Divides by the scale, rounds half to even, adds the zero point and saturates.
fn quantized(real: f32, scale: f32, zero_point: u32) -> u8 {
    ((real / scale).round_ties_even() + zero_point as f32) as u8
}

/// Adds or multiplies `a` and `b`. `b` has the length of `a`, or is shorter and repeated.
pub(super) fn pair(
    operation: Arithmetic,
    pair: &Pair,
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> RunResult {
    let (len, b_len) = (pair.len as usize, pair.b_len as usize);
    let (others, to) = memory.on_chip(range(pair.to, iteration, len)?)?;
    let (a, b) = (
        others.get(range(pair.a, iteration, len)?)?,
        others.get(range(pair.b, iteration, b_len)?)?,
    );
    // A single value is combined with the whole other operand in one call.
    let chunk = if b_len == 1 { len } else { b_len };
    let side = |values, scale, zero: u32| Operand { values, scale, zero_point: zero as u8 };
    for (a, to) in a.chunks(chunk).zip(to.chunks_mut(chunk)) {
        let (a, b) = (side(a, pair.a_scale, pair.a_zero), side(b, pair.b_scale, pair.b_zero));
        rows::combine(operation, a, b, pair.to_scale, pair.to_zero as u8, to);
    }
    Ok(())
}

/// Repeats each pixel `times` down and across: builds the first output row of each input row, and copies it.
pub(super) fn resize(op: &Resize, iteration: u32, memory: &mut Memory<'_, '_, '_>) -> RunResult {
    let [height, width] = op.input.map(|n| n as usize);
    let [down, across] = op.times.map(|n| n as usize);
    let channels = op.channels as usize;
    let (row, to_row) = (width * channels, width * across * channels);
    let (others, to) = memory.on_chip(range(op.to, iteration, height * down * to_row)?)?;
    let from = others.get(range(op.from, iteration, height * row)?)?;
    for (from, to) in from.chunks_exact(row).zip(to.chunks_exact_mut(down * to_row)) {
        let (first, copies) = broken(to.split_at_mut_checked(to_row))?;
        for (from, to) in from.chunks_exact(channels).zip(first.chunks_exact_mut(across * channels))
        {
            to.chunks_exact_mut(channels).for_each(|to| to.copy_from_slice(from));
        }
        copies.chunks_exact_mut(to_row).for_each(|to| to.copy_from_slice(first));
    }
    Ok(())
}

/// Computes the softmax of each row. `powers[d]` is `exp(-scale * d)` for a value `d` below its row's maximum.
pub(super) fn softmax(
    op: &Softmax,
    powers: &[f32; 256],
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
) -> RunResult {
    let (count, width) = (op.rows as usize, op.width as usize);
    let (others, to) = memory.on_chip(range(op.to, iteration, count * width)?)?;
    let from = others.get(range(op.from, iteration, count * width)?)?;
    for (from, to) in from.chunks_exact(width).zip(to.chunks_exact_mut(width)) {
        let max = from.iter().copied().max().unwrap_or(0);
        let power = |value: &u8| powers[usize::from(max - *value)];
        let sum: f32 = from.iter().map(power).sum();
        for (from, to) in from.iter().zip(to) {
            *to = quantized(power(from) / sum, op.to_scale, op.to_zero);
        }
    }
    Ok(())
}
