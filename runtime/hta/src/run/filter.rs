//! Convolution of tiles, on the primitives that the runtime's kernels use.

use udo_simd::conv_u8::{self, Batch, Input};
use udo_simd::depthwise::{self, Image, QuantizedWeights};
use udo_simd::gemm_u8::{self, Lhs, Output, Rhs};

use super::memory::{Memory, broken, range, span, split_at_range};
use super::prepare::{Algorithm, Filter};
use super::{Parallel, RunError};

/// Products per grain; fewer are not worth a thread.
const GRAIN: usize = 1 << 20;

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
        .map(|[down, across]| down as usize * across as usize);
    let (channels, outputs) = (conv.channels as usize, conv.outputs as usize);
    let (stride, pitch) = (conv.from_pitch as usize, conv.to_pitch as usize);
    let (from_zero, to_zero) = (conv.from_zero as u8, conv.to_zero as u8);
    let to = range(conv.to, iteration, span(to_pixels, pitch, outputs))?;
    let from = range(conv.from, iteration, span(from_pixels, stride, channels))?;
    let Memory { chip, bordered, padding, .. } = memory;
    let (others, to) = split_at_range(chip, to)?;
    let values = others.get(from)?;
    let parts = (filter.products / GRAIN).clamp(1, parallel.threads().max(1));
    // Pixels per grain.
    let grain = to_pixels.div_ceil(parts);
    match algorithm {
        Algorithm::Pointwise(shape) => parallel.chunks(to, grain * pitch, &|part, to| {
            let data = broken(values.get(part * grain * stride..))?;
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
            let columns = shape.taps / shape.run;
            parallel.chunks(to, grain * pitch, &|part, to| {
                let rows = to.len().div_ceil(pitch) * columns;
                let rest = broken(table.get(part * grain * columns..))?;
                let table = broken(rest.get(..rows))?;
                let output = Output::U8 { to, scales: ratios, zero_point: to_zero };
                let done = conv_u8::conv(&Batch::ONE, &input, &weights, table, bias, output, pitch);
                done.map_err(|_| RunError::Broken)
            })
        }
        Algorithm::Depthwise(shape) => {
            let [_, height, width] = shape.window.output;
            let (lines, line) = (height.div_ceil(parts), width * pitch);
            let weights = QuantizedWeights {
                packed,
                zero_point: from_zero,
                zero_points,
                bias,
                scales: ratios,
            };
            parallel.chunks(to, lines * line, &|part, to| {
                let rows = part * lines..part * lines + to.len().div_ceil(line);
                let x = Image { data: values, stride };
                let y = depthwise::Output::U8 { to, zero_point: to_zero };
                depthwise::depthwise_u8(shape, x, &weights, rows, y, pitch);
                Ok(())
            })
        }
    }
}
