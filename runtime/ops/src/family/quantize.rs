//! Code shared by `QuantizeLinear`, `DequantizeLinear` and similar operators: the layout of scales and zero points (for a
//! tensor, along an axis, or per block of an axis), and iteration over the elements under each scale.

use udo_api::{DType, Element, Error, ExecError, Io, Node, Parallel, Param, TypeSet, Value, types};
use udo_simd::rows;

use crate::family::axes::AxisSplit;
use crate::family::partition::{GRAIN, row_grain};

/// The quantized types that have an encoding.
pub(crate) const TYPES: TypeSet = types::U8.or(types::I8).or(types::U16).or(types::I16);

/// The axis of the scales.
pub(crate) const AXIS: Param = Param::scalar("axis", DType::I64).default(Value::int(1));
/// Consecutive elements along the axis that share a scale.
pub(crate) const BLOCK_SIZE: Param = Param::scalar("block_size", DType::I64).default(Value::int(0));
/// The type of the output.
pub(crate) const OUTPUT_DTYPE: Param =
    Param::scalar("output_dtype", DType::I64).default(Value::int(0));

/// The scales and zero points of a node with inputs `x`, scale and zero point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scales {
    granularity: Granularity,
    has_zero: bool,
    /// Whether scales are integers.
    is_integer: bool,
    /// Whether the number of elements is known only in the run.
    is_bounded: bool,
}

/// The granularity of scales and zero points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Granularity {
    /// One per position of an axis, or one for all elements.
    PerAxis(AxisSplit),
    /// One per block of consecutive elements along an axis.
    PerBlock(AxisSplit, usize),
}

impl Scales {
    /// Reads the layout of the node's scales.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Error> {
        let (x, scale) = (node.input(0)?, node.input(1)?);
        let is_bounded = !x.full_shape().is_fixed();
        if is_bounded && scale.len() != 1 {
            return Err(Error::new(format!(
                "the scale is {scale}, expected one for the bounded {x}"
            )));
        }
        let is_integer = scale.dtype() == Some(DType::I32);
        let has_zero = node.has_input(2);
        Ok(Self { granularity: granularity(node)?, has_zero, is_integer, is_bounded })
    }

    /// Calls `body` for each run of elements under one scale, with scale and zero point, on several threads if there
    /// are many elements.
    pub(crate) fn each_run<X: Element, Z: Element, Y: Element>(
        self,
        io: Io<'_>,
        body: impl Fn(&[X], f32, Z, &mut [Y]) + Sync,
    ) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let x = inputs.get::<X>(0)?;
        let scales = if self.is_integer { &[] } else { inputs.get::<f32>(1)? };
        let int_scales = if self.is_integer { inputs.get::<i32>(1)? } else { &[] };
        let zeros = if self.has_zero { inputs.get::<Z>(2)? } else { &[] };
        if self.is_bounded {
            outputs.set_shape(0, inputs.shape(0)?)?;
        }
        let y = &mut outputs.take::<Y>(0)?[..x.len()];
        let run = |at: usize, x: &[X], y: &mut [Y]| {
            let scale = if self.is_integer { int_scales[at] as f32 } else { scales[at] };
            body(x, scale, zeros.get(at).copied().unwrap_or_default(), y);
        };
        let inner = self.granularity.inner();
        if inner >= y.len() && matches!(self.granularity, Granularity::PerAxis(_)) {
            return parallel.chunks_mut(y, GRAIN, |chunk, y| {
                run(0, &x[chunk * GRAIN..][..y.len()], y);
                Ok(())
            });
        }
        let grain = row_grain(inner);
        parallel.chunks_mut(y, grain, |chunk, y| {
            let rows = x[chunk * grain..].chunks_exact(inner).zip(y.chunks_exact_mut(inner));
            for ((x, y), row) in rows.zip(chunk * grain / inner..) {
                self.granularity.each_scale(row, x, y, run);
            }
            Ok(())
        })
    }
}

impl Granularity {
    /// Returns the elements after the axis.
    fn inner(self) -> usize {
        let (Self::PerAxis(split) | Self::PerBlock(split, _)) = self;
        split.inner
    }

    /// Calls `run` with the index of each scale for the elements after position `row` of the axis.
    fn each_scale<X, Y>(
        self,
        row: usize,
        x: &[X],
        y: &mut [Y],
        run: impl Fn(usize, &[X], &mut [Y]),
    ) {
        match self {
            Self::PerAxis(split) => run(row % split.len, x, y),
            Self::PerBlock(split, block) => {
                let blocks = split.len.div_ceil(block);
                let first = (row / split.len * blocks + row % split.len / block) * split.inner;
                for (i, (x, y)) in x.chunks(1).zip(y.chunks_mut(1)).enumerate() {
                    run(first + i, x, y);
                }
            }
        }
    }
}

/// Reads the granularity from the shape of the scale and the parameters `axis` and `block_size`.
fn granularity(node: &Node<'_>) -> Result<Granularity, Error> {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    if node.has_input(2) && node.input(2)?.len() != scale.len() {
        let zero = node.input(2)?;
        return Err(Error::new(format!(
            "the zero point is {zero}, the scale {scale}, expected one size"
        )));
    }
    let block = node.int("block_size")?;
    if block != 0 {
        return per_block(node, block);
    }
    if scale.rank() == 0 || scale.shape() == [1] {
        return Ok(Granularity::PerAxis(AxisSplit { outer: 1, len: 1, inner: x.len() }));
    }
    let axis = node.axis("axis", x.rank())?;
    let split = AxisSplit::at(x.shape(), axis);
    if scale.rank() != 1 || scale.len() != split.len {
        return Err(Error::new(format!(
            "the scale is {scale}, expected one per position of axis {axis} of {x}"
        )));
    }
    Ok(Granularity::PerAxis(split))
}

fn per_block(node: &Node<'_>, block: i64) -> Result<Granularity, Error> {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let block = usize::try_from(block).map_err(|_| {
        Error::new(format!("parameter \"block_size\" is {block}, expected 0 or more"))
    })?;
    let axis = node.axis("axis", x.rank())?;
    let mut expected = x.shape().to_vec();
    if let Some(extent) = expected.get_mut(axis) {
        *extent = extent.div_ceil(block);
    }
    let zero_fits = !node.has_input(2) || node.input(2)?.shape() == expected;
    if scale.shape() != expected || !zero_fits {
        return Err(Error::new(format!(
            "the scale is {scale}, expected scale and zero point of shape {expected:?}: one per {block} positions of axis {axis} of {x}"
        )));
    }
    Ok(Granularity::PerBlock(AxisSplit::at(x.shape(), axis), block))
}

/// Quantization to u8 by the elements' own range, extended to include 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DynamicRange {
    len: usize,
}

impl DynamicRange {
    /// Returns the range of `len` elements.
    pub(crate) fn new(len: usize) -> Self {
        Self { len }
    }

    /// Returns the scratch elements: minimum and maximum of each part.
    pub(crate) fn scratch_len(self) -> usize {
        2 * self.len.div_ceil(GRAIN)
    }

    /// Returns scale and zero point for the elements `x`, as ONNX's `DynamicQuantizeLinear` defines them. NaN is ignored,
    /// and an empty range has scale 1. `extremes` is scratch memory of [`DynamicRange::scratch_len`] elements.
    pub(crate) fn encoding(
        parallel: Parallel<'_>,
        x: &[f32],
        extremes: &mut [f32],
    ) -> Result<(f32, u8), ExecError> {
        parallel.chunks_mut(extremes, 2, |chunk, ends| {
            let first = (chunk * GRAIN).min(x.len());
            let x = &x[first..x.len().min(first + GRAIN)];
            ends.copy_from_slice(&[rows::min(x), rows::max(x)]);
            Ok(())
        })?;
        let [low, high] = extremes
            .chunks_exact(2)
            .fold([0f32; 2], |[low, high], ends| [low.min(ends[0]), high.max(ends[1])]);
        let scale = if low < high { (high - low) / 255.0 } else { 1.0 };
        let zero = (-low / scale).round_ties_even().clamp(0.0, 255.0);
        Ok((scale, zero as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::{Encoding, QuantizedType};

    use crate::family::numerics::{LENGTHS, SUBNORMAL, edges, settled_on_any_threads};
    use crate::testing::{bench, noise, tensor};

    #[test]
    fn runs_are_divided_among_threads() {
        let dims = [6, 5, GRAIN / 8 + 3];
        let x: Vec<f32> = noise(dims.iter().product()).iter().map(|x| x * 100.0).collect();
        let scales = [0.5f32, 1.0, 0.25, 2.0, 4.0];
        for count in [1, 5] {
            let zeros: Vec<i8> = (0..count as i8).collect();
            let run = bench("QuantizeLinear").threads(3).input(tensor(&dims, &x));
            let run = run.input(tensor(&[count], &scales[..count]));
            let y = run.input(tensor(&[count], &zeros)).one().values::<i8>();
            for (at, (x, y)) in x.iter().zip(y).enumerate() {
                let channel = at / dims[2] % dims[1] % count;
                let expected = (x / scales[channel]).round_ties_even() + f32::from(zeros[channel]);
                assert_eq!(y, expected.clamp(-128.0, 127.0) as i8, "{x} at {at}");
            }
        }
    }

    /// Returns `len` values, starting with number `from`: ties between quantized values, and the edge cases of f32.
    fn numbers(encoding: Encoding, from: usize, len: usize) -> Vec<f32> {
        let ties = (-300..300).map(|i| (i as f32 + 0.5) * encoding.scale);
        let ends = edges(0, 13).into_iter().chain([1e30, -1e30, SUBNORMAL]);
        ties.chain(ends).cycle().skip(from).take(len).collect()
    }

    fn check_quantize_matches_scalars<T: QuantizedType + PartialEq + std::fmt::Debug>(
        scale: f32,
        zero_point: T,
    ) {
        let encoding = Encoding { scale, zero_point: zero_point.to_i32() };
        for (len, from) in LENGTHS.into_iter().flat_map(|len| [0, 290, 590].map(|at| (len, at))) {
            let x = numbers(encoding, from, len);
            let run = bench("QuantizeLinear").input(tensor(&[len], &x));
            let run = run.input(tensor(&[], &[scale])).input(tensor(&[], &[zero_point]));
            let expected: Vec<T> = x.iter().map(|&x| encoding.quantize(x)).collect();
            let y = settled_on_any_threads(&run).values::<T>();
            assert_eq!(y, expected, "{x:?} by {encoding:?}");
        }
    }

    /// `Encoding::quantize` defines the results: half to even, saturating, NaN to the smallest value.
    #[test]
    fn vectors_quantize_extreme_values_like_scalars() {
        for scale in [0.5f32, 0.1, 3.0, 1e-38, 1e38] {
            check_quantize_matches_scalars(scale, 128u8);
            check_quantize_matches_scalars(scale, -3i8);
            check_quantize_matches_scalars(scale, 40_000u16);
            check_quantize_matches_scalars(scale, 0i16);
        }
        let encoding = Encoding { scale: 1.0, zero_point: 7 };
        let x = [0.5, 1.5, -0.5, 2.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, SUBNORMAL];
        assert_eq!(x.map(|x| encoding.quantize::<i8>(x)), [7, 9, 7, 9, -128, 127, -128, 7]);
    }

    #[test]
    fn dequantization_rounds_once() {
        let x: Vec<i8> = (i8::MIN..=i8::MAX).collect();
        for (scale, zero) in [(0.1f32, -128i8), (0.1, 127), (SUBNORMAL, 1), (f32::MAX, 0)] {
            let run = bench("DequantizeLinear").input(tensor(&[256], &x));
            let run = run.input(tensor(&[], &[scale])).input(tensor(&[], &[zero]));
            let exact = |x: i8| f64::from(i32::from(x) - i32::from(zero)) * f64::from(scale);
            let expected: Vec<f32> = x.iter().map(|&x| exact(x) as f32).collect();
            assert_eq!(settled_on_any_threads(&run).values::<f32>(), expected);
        }
    }
}
