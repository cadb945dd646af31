//! Quantizes constants: weights, biases and operands.

use udo_api::{DType, Element, Encoding, Shape};

use super::range::{Bits, Levels, Range, to_single};
use udo_graph::memory::{Tensor, TensorError};

/// The largest bias in units of the product's scales, so that 32-bit sums do not overflow.
const MOST_BIAS: f64 = (1u32 << 30) as f64;

/// The smallest step of weights for which products of scales are normal numbers.
const LEAST_STEP: f32 = 1e-12;

/// A quantized constant.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// The values.
    pub(super) values: Tensor,
    /// The integers that may stand for numbers.
    pub(super) levels: Levels,
    /// An encoding for all, or one for each position of the axis.
    pub(super) encodings: Vec<Encoding>,
    /// The axis; none where there is one encoding for all.
    pub(super) axis: Option<usize>,
}

/// How constants are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// From 0 on, with the integer that stands for 0 anywhere.
    Asymmetric(Bits),
    /// Signed and symmetric, with zero point 0.
    Symmetric(Bits),
}

impl Scheme {
    /// The integers that stand for numbers.
    pub(super) fn levels(self) -> Levels {
        match self {
            Self::Asymmetric(bits) => Levels::unsigned(bits),
            Self::Symmetric(bits) => Levels::signed(bits),
        }
    }

    /// Returns the encoding of a range, with a smallest width for asymmetric encodings.
    pub(super) fn encoding(self, range: Range, least_width: f64) -> Encoding {
        match self {
            Self::Asymmetric(_) => self.levels().asymmetric(range, least_width),
            Self::Symmetric(_) => self.levels().symmetric(range),
        }
    }
}

/// Maps elements of a tensor to positions along an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Along {
    /// The number of positions.
    pub(super) count: usize,
    inner: usize,
}

impl Along {
    /// Returns the mapping for a tensor with these extents; without an axis there is one position.
    pub(super) fn new(dims: &[usize], axis: Option<usize>) -> Self {
        match axis {
            None => Self { count: 1, inner: usize::MAX },
            Some(axis) => {
                let inner = dims.iter().skip(axis + 1).product::<usize>().max(1);
                Self { count: dims.get(axis).copied().unwrap_or(1).max(1), inner }
            }
        }
    }

    /// Returns the position of the element at `index`.
    pub(super) fn at(self, index: usize) -> usize {
        index / self.inner % self.count
    }

    /// Returns the range of the elements at each position.
    pub(super) fn ranges(self, numbers: &[f32]) -> Vec<Range> {
        let mut ranges = vec![Range::EMPTY; self.count];
        for (row, numbers) in numbers.chunks(self.inner.min(numbers.len().max(1))).enumerate() {
            if let Some(range) = ranges.get_mut(row % self.count) {
                *range = range.with(Range::from_numbers(numbers));
            }
        }
        ranges
    }
}

/// Returns the encodings of a constant, one for each position.
pub(super) fn encodings(
    numbers: &[f32],
    along: Along,
    (scheme, least_width): (Scheme, f64),
) -> Vec<Encoding> {
    let ranges = along.ranges(numbers).into_iter();
    ranges.map(|range| scheme.encoding(range, least_width)).collect()
}

/// Enlarges steps of weights so that the bias is representable in units of their products with `scale`.
pub(super) fn fit_bias(encodings: &mut [Encoding], bias: &[f32], scale: f32) {
    let count = encodings.len();
    for (at, encoding) in encodings.iter_mut().enumerate() {
        let own = bias.iter().enumerate().filter(|(index, _)| count == 1 || *index == at);
        let most = own.map(|(_, bias)| f64::from(*bias).abs()).fold(0.0, f64::max);
        let least = to_single(most / (MOST_BIAS * f64::from(scale))) * (1.0 + f32::EPSILON);
        encoding.scale = encoding.scale.max(least).max(LEAST_STEP);
    }
}

/// Quantizes a tensor with these encodings.
///
/// # Errors
/// There is not enough memory.
pub(super) fn store(
    tensor: &Tensor,
    levels: Levels,
    encodings: Vec<Encoding>,
    axis: Option<usize>,
) -> Result<Stored, TensorError> {
    let numbers = tensor.get::<f32>().unwrap_or_default();
    let along = Along::new(tensor.dims(), axis);
    let stored = |index: usize, number: f32| {
        let encoding = encodings.get(along.at(index)).or(encodings.first());
        encoding.map_or(0, |encoding| levels.stored(*encoding, number))
    };
    let stored = numbers.iter().enumerate().map(|(index, &number)| stored(index, number));
    let values = of_ints(levels.dtype, tensor.desc().full_shape(), stored)?;
    Ok(Stored { values, levels, encodings, axis })
}

/// Quantizes a bias in units of the operand's scale times the weights' scales.
///
/// # Errors
/// There is not enough memory.
pub(super) fn store_bias(
    tensor: &Tensor,
    scale: f32,
    weights: &[Encoding],
) -> Result<Stored, TensorError> {
    let levels = Levels { dtype: DType::I32, least: i32::MIN + 1, most: i32::MAX };
    let of = |weights: &Encoding| Encoding { scale: weights.scale * scale, zero_point: 0 };
    let encodings: Vec<Encoding> = weights.iter().map(of).collect();
    let axis = (encodings.len() > 1).then_some(0);
    let numbers = tensor.get::<f32>().unwrap_or_default();
    let stored = numbers.iter().zip(encodings.iter().cycle()).map(|(&number, encoding)| {
        let steps = (f64::from(number) / f64::from(encoding.scale)).round_ties_even();
        #[expect(clippy::cast_possible_truncation, reason = "it is in the range of sums")]
        let steps = steps.clamp(-MOST_BIAS, MOST_BIAS) as i32;
        steps
    });
    let values = of_ints(DType::I32, tensor.desc().full_shape(), stored)?;
    Ok(Stored { values, levels, encodings, axis })
}

/// Returns a tensor of integers.
///
/// # Errors
/// There is not enough memory.
pub(super) fn of_ints(
    dtype: DType,
    shape: Shape,
    ints: impl Iterator<Item = i32>,
) -> Result<Tensor, TensorError> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "they are in range"
    )]
    match dtype {
        DType::U8 => Tensor::from_slice(shape, &ints.map(|int| int as u8).collect::<Vec<_>>()),
        DType::I8 => Tensor::from_slice(shape, &ints.map(|int| int as i8).collect::<Vec<_>>()),
        DType::U16 => Tensor::from_slice(shape, &ints.map(|int| int as u16).collect::<Vec<_>>()),
        DType::I16 => Tensor::from_slice(shape, &ints.map(|int| int as i16).collect::<Vec<_>>()),
        _ => Tensor::from_slice(shape, &ints.collect::<Vec<i32>>()),
    }
}

impl Stored {
    /// Returns the dequantized values.
    pub(crate) fn numbers(&self) -> Vec<f32> {
        numbers(&self.values, &self.encodings, self.axis)
    }
}

/// Dequantizes integers with one encoding, or one for each position of an axis; empty for other element types.
pub(super) fn numbers(values: &Tensor, encodings: &[Encoding], axis: Option<usize>) -> Vec<f32> {
    let along = Along::new(values.dims(), axis);
    let number = |(index, stored): (usize, i32)| {
        let encoding = encodings.get(along.at(index)).or(encodings.first());
        let Encoding { scale, zero_point } =
            encoding.copied().unwrap_or(Encoding { scale: 1.0, zero_point: 0 });
        to_single(f64::from(scale) * (f64::from(stored) - f64::from(zero_point)))
    };
    whole(values).unwrap_or_default().into_iter().enumerate().map(number).collect()
}

/// Returns the elements of a tensor of 8-, 16- or 32-bit integers.
pub(super) fn whole(tensor: &Tensor) -> Option<Vec<i32>> {
    fn of<T: Element>(tensor: &Tensor) -> Option<Vec<i32>>
    where
        i32: From<T>,
    {
        tensor.get::<T>().map(|values| values.iter().copied().map(i32::from).collect())
    }
    match tensor.dtype() {
        DType::U8 => of::<u8>(tensor),
        DType::I8 => of::<i8>(tensor),
        DType::U16 => of::<u16>(tensor),
        DType::I16 => of::<i16>(tensor),
        DType::I32 => of::<i32>(tensor),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::range::LEAST_WIDTH;

    fn tensor(dims: &[usize], numbers: &[f32]) -> Tensor {
        Tensor::from_slice(Shape::new(dims).unwrap(), numbers).unwrap()
    }

    #[test]
    fn each_channel_has_steps_of_its_own() {
        let weights = tensor(&[2, 2, 2], &[1.27, 0.5, -0.01, 0.0, 254.0, 2.0, -2.0, 1.0]);
        let scheme = Scheme::Symmetric(Bits::Eight);
        for (axis, scales) in [(Some(0), vec![0.01, 2.0]), (None, vec![2.0])] {
            let along = Along::new(weights.dims(), axis);
            let encodings = encodings(weights.get().unwrap(), along, (scheme, LEAST_WIDTH));
            let found: Vec<f32> = encodings.iter().map(|encoding| encoding.scale).collect();
            assert!(found.iter().zip(&scales).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
            let stored = store(&weights, scheme.levels(), encodings, axis).unwrap();
            let values = stored.values.get::<i8>().unwrap();
            let wanted: &[i8] = match axis {
                Some(_) => &[127, 50, -1, 0, 127, 1, -1, 0],
                None => &[1, 0, 0, 0, 127, 1, -1, 0],
            };
            assert_eq!(values, wanted);
            let back = stored.numbers();
            assert!((back[4] - 254.0).abs() < 1e-4 && back[3].abs() < 1e-9, "{back:?}");
        }
        let inner = Along::new(&[2, 2, 2], Some(1)).ranges(weights.get().unwrap());
        assert_eq!(inner[1], Range { min: -2.0, max: 1.0 });
    }

    #[test]
    fn asymmetric_values_of_four_bits_are_stored_in_eight() {
        let weights = tensor(&[4], &[-1.0, 0.0, 1.0, 2.0]);
        let scheme = Scheme::Asymmetric(Bits::Four);
        let along = Along::new(&[4], None);
        let encodings = encodings(weights.get().unwrap(), along, (scheme, LEAST_WIDTH));
        let stored = store(&weights, scheme.levels(), encodings, None).unwrap();
        assert_eq!(stored.values.get::<u8>(), Some(&[0, 5, 10, 15][..]));
        assert_eq!(stored.numbers(), [-1.0, 0.0, 1.0, 2.0]);
    }

    #[test]
    fn steps_grow_until_a_bias_fits_sums() {
        let mut encodings = vec![Encoding { scale: 1e-9, zero_point: 0 }; 2];
        fit_bias(&mut encodings, &[100.0, 0.0], 1e-3);
        let stored = store_bias(&tensor(&[2], &[100.0, 0.0]), 1e-3, &encodings).unwrap();
        let steps = stored.values.get::<i32>().unwrap();
        assert!(steps[0] > (1 << 30) - 1000 && steps[0] <= 1 << 30, "{steps:?}");
        assert!((stored.numbers()[0] - 100.0).abs() < 1e-3, "{:?}", stored.numbers());
        assert!(encodings[1].scale < 1e-8);
    }
}
