//! Runs a convolution instruction on one tile, with the primitives that the runtime's kernels use.
//!
//! The input and the output lie in on-chip memory. The output's pixels are divided into chunks, one grain of work each,
//! that threads compute independently.

use udo_simd::conv_u8::{self, Batch, Input};
use udo_simd::depthwise::{self, Image, QuantizedWeights};
use udo_simd::gemm_u8::{self, Lhs, Output, Rhs};

use super::memory::{Memory, broken, range, span, split_at_range};
use super::prepare::{Algorithm, Filter};
use super::{Parallel, RunError};

/// The fewest multiply-adds that are worth a thread.
const GRAIN: usize = 1 << 20;

/// Computes one call of `filter`. `packed` are its packed weights, and `tables` the tap tables of all convolutions of
/// the program, which `Algorithm::Indirect` refers to by index.
pub(super) fn run(
    filter: &Filter,
    packed: &[i8],
    tables: &[Vec<u32>],
    iteration: u32,
    memory: &mut Memory<'_, '_, '_>,
    parallel: &dyn Parallel,
) -> Result<(), RunError> {
    let Filter { conv, algorithm, zero_points, bias, ratios, .. } = filter;
    let [from_pixels, to_pixels] = [conv.window.input, conv.window.output]
        .map(|[height, width]| height as usize * width as usize);
    let (channels, outputs) = (conv.channels as usize, conv.outputs as usize);
    // Bytes between pixels of the input and of the output.
    let (stride, pitch) = (conv.from_pitch as usize, conv.to_pitch as usize);
    let (from_zero, to_zero) = (conv.from_zero as u8, conv.to_zero as u8);
    let to = range(conv.to, iteration, span(to_pixels, pitch, outputs))?;
    let from = range(conv.from, iteration, span(from_pixels, stride, channels))?;
    let Memory { chip, bordered, padding, .. } = memory;
    let (readable, to) = split_at_range(chip, to)?;
    let values = readable.get(from)?;
    let parts = (filter.products / GRAIN).clamp(1, parallel.threads().max(1));
    // Output pixels per chunk.
    let grain = to_pixels.div_ceil(parts);
    match algorithm {
        Algorithm::Pointwise(shape) => parallel.chunks(to, grain * pitch, &|chunk, to| {
            let data = broken(values.get(chunk * grain * stride..))?;
            let lhs = Lhs { data, rows: to.len().div_ceil(pitch), stride, zero_point: from_zero };
            let rhs = Rhs { packed, k: shape.channels, n: shape.outputs, zero_points };
            let output = Output::U8 { to, scales: ratios, zero_point: to_zero };
            gemm_u8::gemm(&lhs, &rhs, bias, output, pitch).map_err(|_| RunError::Broken)
        }),
        Algorithm::Indirect { shape, table, border } => {
            let table = broken(tables.get(*table))?;
            let (data, stride) = match border {
                Some(border) => {
                    let to = broken(bordered.get_mut(..border.pixels() * channels))?;
                    let (before, after) = (border.before, border.after);
                    let fits =
                        conv_u8::pad(values, border.size, channels, before, after, from_zero, to);
                    (broken(fits.then_some(&*to))?, channels)
                }
                None => (values, stride),
            };
            let padding = broken(padding.get_mut(..shape.padding_len().unwrap_or(0)))?;
            padding.fill(from_zero);
            let input = Input { data, stride, zero_point: from_zero, padding };
            let weights = conv_u8::Weights { shape: *shape, packed, zero_points };
            // Entries of the table per output pixel.
            let columns = shape.taps / shape.run;
            parallel.chunks(to, grain * pitch, &|chunk, to| {
                let rows = to.len().div_ceil(pitch) * columns;
                let following = broken(table.get(chunk * grain * columns..))?;
                let table = broken(following.get(..rows))?;
                let output = Output::U8 { to, scales: ratios, zero_point: to_zero };
                let computed =
                    conv_u8::conv(&Batch::ONE, &input, &weights, table, bias, output, pitch);
                computed.map_err(|_| RunError::Broken)
            })
        }
        Algorithm::Depthwise(shape) => {
            let [_, height, width] = shape.window.output;
            let (rows_per_chunk, row_bytes) = (height.div_ceil(parts), width * pitch);
            let weights = QuantizedWeights {
                packed,
                zero_point: from_zero,
                zero_points,
                bias,
                scales: ratios,
            };
            parallel.chunks(to, rows_per_chunk * row_bytes, &|chunk, to| {
                let first = chunk * rows_per_chunk;
                let rows = first..first + to.len().div_ceil(row_bytes);
                let input = Image { data: values, stride };
                let output = depthwise::Output::U8 { to, zero_point: to_zero };
                depthwise::depthwise_u8(shape, input, &weights, rows, output, pitch);
                Ok(())
            })
        }
    }
}
