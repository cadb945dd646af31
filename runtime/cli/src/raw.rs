//! Files with elements alone: packed `f32`, whatever the tensor's type, or elements of that type.

use udo_api::{Bf16, DType, Encoding, F16};
use udo_runtime::Tensor;

use crate::values;

/// The type of the elements of such files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// `f32`, which encodings convert to integers.
    Float32,
    /// The tensor's own type.
    Native,
}

impl Packing {
    /// That of files whose elements are of the tensor's type if it is asked for.
    pub(crate) fn native_if(asked: bool) -> Self {
        if asked { Self::Native } else { Self::Float32 }
    }

    /// The type of an element in the file of a tensor of `dtype`.
    pub(crate) fn stored(self, dtype: DType) -> DType {
        match self {
            Self::Float32 => DType::F32,
            Self::Native => dtype,
        }
    }
}

/// A number that a type cannot represent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unfit {
    /// Its place in the file.
    pub(crate) at: usize,
    pub(crate) number: f32,
}

/// The bytes of a tensor of `dtype`, of a file's packed `f32`. Integers with an encoding are the nearest that stand for the
/// numbers, those at the ends of the type for what is beyond them; others have to be the numbers.
pub(crate) fn unpack(
    file: &[u8],
    dtype: DType,
    encoding: Option<Encoding>,
) -> Result<Vec<u8>, Unfit> {
    let mut bytes = Vec::with_capacity(file.len());
    for (at, element) in file.as_chunks::<4>().0.iter().enumerate() {
        let number = f32::from_le_bytes(*element);
        push(&mut bytes, dtype, number, encoding).ok_or(Unfit { at, number })?;
    }
    Ok(bytes)
}

/// Appends a number as an element of `dtype`; nothing where it is none.
fn push(bytes: &mut Vec<u8>, dtype: DType, number: f32, encoding: Option<Encoding>) -> Option<()> {
    macro_rules! whole {
        ($type:ty) => {{
            let whole = match encoding {
                Some(of) => encoded(number, of)?.clamp(<$type>::MIN.into(), <$type>::MAX.into()),
                None => exact(number)?,
            };
            bytes.extend(<$type>::try_from(whole).ok()?.to_le_bytes());
        }};
    }
    match dtype {
        DType::F32 => bytes.extend(number.to_le_bytes()),
        DType::F64 => bytes.extend(f64::from(number).to_le_bytes()),
        DType::F16 => bytes.extend(F16::from_f32(number).0.to_le_bytes()),
        DType::Bf16 => bytes.extend(Bf16::from_f32(number).0.to_le_bytes()),
        DType::I8 => whole!(i8),
        DType::I16 => whole!(i16),
        DType::I32 => whole!(i32),
        DType::I64 => whole!(i64),
        DType::U8 => whole!(u8),
        DType::U16 => whole!(u16),
        DType::U32 => whole!(u32),
        DType::U64 => whole!(u64),
        DType::Bool => bytes.push(u8::try_from(exact(number)?).ok().filter(|&bit| bit <= 1)?),
        DType::Str => return None,
    }
    Some(())
}

/// The integer that stands for a number, before it is cut to its type; none for a NaN.
fn encoded(number: f32, of: Encoding) -> Option<i128> {
    let steps = (number / of.scale).round_ties_even();
    (!steps.is_nan()).then(|| whole(steps).saturating_add(of.zero_point.into()))
}

/// The number, if it is a whole one.
fn exact(number: f32) -> Option<i128> {
    (number.fract() == 0.0).then(|| whole(number))
}

#[expect(clippy::cast_possible_truncation, reason = "whole numbers, or beyond all integer types")]
fn whole(number: f32) -> i128 {
    number as i128
}

/// The bytes of the file of a tensor; none of one with text.
pub(crate) fn pack(
    tensor: &Tensor,
    encoding: Option<Encoding>,
    packing: Packing,
) -> Option<Vec<u8>> {
    let dtype = tensor.dtype();
    if packing.stored(dtype) == dtype {
        return (dtype != DType::Str).then(|| tensor.bytes().to_vec());
    }
    let is_whole = !dtype.is_float() && dtype != DType::Bool;
    let encoding = encoding.filter(|_| is_whole);
    let real = |number: f64| match encoding {
        Some(Encoding { scale, zero_point }) => f64::from(scale) * (number - f64::from(zero_point)),
        None => number,
    };
    #[expect(clippy::cast_possible_truncation, reason = "the nearest number of the file's type")]
    let of = |number: f64| (real(number) as f32).to_le_bytes();
    let numbers = values::numbers(tensor);
    (dtype != DType::Str).then(|| numbers.into_iter().flat_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::Shape;

    fn floats(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    #[test]
    fn numbers_become_what_stands_for_them_and_numbers_again() {
        let encoding = Some(Encoding { scale: 0.5, zero_point: 10 });
        let numbers = floats(&[0.0, 0.5, 0.75, 1.25, -99.0, 500.0]);
        let codes = unpack(&numbers, DType::U8, encoding).unwrap();
        assert_eq!(codes, [10, 11, 12, 12, 0, 255]);
        let tensor = Tensor::from_slice(Shape::new(&[6]).unwrap(), &codes).unwrap();
        let back = pack(&tensor, encoding, Packing::Float32).unwrap();
        assert_eq!(back, floats(&[0.0, 0.5, 1.0, 1.0, -5.0, 122.5]));
        assert_eq!(pack(&tensor, encoding, Packing::Native).unwrap(), codes);
        let nan = unpack(&floats(&[0.0, f32::NAN]), DType::U8, encoding).unwrap_err();
        assert_eq!((nan.at, nan.number.is_nan()), (1, true));
    }

    #[test]
    fn integers_without_an_encoding_are_the_numbers_themselves() {
        let numbers = floats(&[-3.0, 7.0]);
        let ids = unpack(&numbers, DType::I64, None).unwrap();
        assert_eq!(ids, [(-3i64).to_le_bytes(), 7i64.to_le_bytes()].concat());
        assert_eq!(unpack(&floats(&[1.0, 0.0]), DType::Bool, None).unwrap(), [1, 0]);
        let half = F16::from_f32(1.5).0.to_le_bytes();
        assert_eq!(unpack(&floats(&[1.5]), DType::F16, None).unwrap(), half);
        for (dtype, number) in
            [(DType::U8, -1.0), (DType::I8, 128.0), (DType::I32, 1.5), (DType::Bool, 2.0)]
        {
            let unfit = unpack(&floats(&[0.0, number]), dtype, None).unwrap_err();
            assert_eq!(unfit, Unfit { at: 1, number }, "{dtype}");
        }
        for number in [f32::NAN, f32::INFINITY, 1e30] {
            assert!(unpack(&floats(&[number]), DType::I64, None).is_err(), "{number}");
        }
    }
}
