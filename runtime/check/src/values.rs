//! Test data: filling tensors and reading their elements as numbers.

use udo_api::{Bf16, DType, Encoding, F16, TensorDesc};
use udo_testing::Output;

/// A deterministic random generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// Returns a number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 32).unwrap_or(0);
        f64::from(bits) / f64::from(u32::MAX)
    }
}

/// How to fill a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Numbers from -2 to 2; all quantized values; small integers that may be indices.
    Random,
    /// Zeros and ones.
    Small,
    /// Numbers far from 0 and close to it, and both zeros; integers of all sizes.
    Large,
    /// Negative numbers.
    Negative,
    /// Multiples of a quarter, which include ties of rounding.
    Halves,
    /// Zeros.
    Zero,
    /// The same number everywhere.
    Equal,
    /// Numbers from 0 to 1.
    Positive,
    /// All quantized values in order.
    Ramp,
    /// Denormal numbers.
    Denormal,
    /// Infinities among numbers.
    Infinite,
    /// NaN among numbers.
    Nan,
}

impl Fill {
    /// Returns the name for messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Random => "random elements",
            Self::Small => "zeros and ones",
            Self::Large => "large and small elements",
            Self::Negative => "elements far below 0",
            Self::Halves => "multiples of a quarter",
            Self::Zero => "zeros",
            Self::Equal => "equal elements",
            Self::Positive => "elements between 0 and 1",
            Self::Ramp => "every quantized value",
            Self::Denormal => "denormal numbers",
            Self::Infinite => "infinities",
            Self::Nan => "NaN",
        }
    }

    fn number(self, random: &mut Random, at: usize) -> f64 {
        const LARGE: [f64; 8] = [1e4, -1e4, 1e-4, 0.0, -0.0, 88.0, -104.0, 1.0];
        let noise = 4.0 * random.unit() - 2.0;
        let is_marked = random.below(5) == 0 || at == 1;
        match self {
            Self::Small => {
                if noise > 0.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Self::Large => {
                LARGE.get(usize::try_from(random.below(8)).unwrap_or(0)).copied().unwrap_or(0.0)
            }
            Self::Negative => noise - 150.0,
            Self::Halves => (8.0 * noise).round() / 4.0,
            Self::Zero => 0.0,
            Self::Equal => 0.75,
            Self::Positive => random.unit(),
            Self::Denormal => noise * 5e-39,
            Self::Infinite if is_marked => {
                if noise > 0.0 {
                    f64::INFINITY
                } else {
                    f64::NEG_INFINITY
                }
            }
            Self::Nan if is_marked => f64::NAN,
            Self::Random | Self::Ramp | Self::Infinite | Self::Nan => noise,
        }
    }

    fn integer(self, random: &mut Random, at: usize, desc: &TensorDesc) -> u64 {
        let is_quantized = desc.encoding().is_some() || desc.axis_encoding().is_some();
        match self {
            Self::Ramp => at as u64,
            Self::Small | Self::Denormal | Self::Infinite | Self::Nan => random.below(2),
            Self::Zero => 0,
            Self::Equal => 1,
            Self::Random | Self::Large | Self::Positive | Self::Negative | Self::Halves
                if is_quantized || desc.dtype() == Some(DType::U8) =>
            {
                random.next()
            }
            Self::Negative if desc.dtype().is_some_and(is_signed) => {
                random.below(100).wrapping_neg()
            }
            Self::Random | Self::Positive | Self::Negative | Self::Halves => random.below(3),
            Self::Large => wide(desc.dtype().unwrap_or(DType::U8), random),
        }
    }
}

const fn is_signed(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64)
}

/// Draws an integer of the type: small ones, ones of all sizes, and the limits.
fn wide(dtype: DType, random: &mut Random) -> u64 {
    let bits = u32::try_from(8 * dtype.size_bytes()).unwrap_or(u32::BITS);
    let most = 1_u64 << (bits - u32::from(is_signed(dtype))).min(63);
    let is_below = is_signed(dtype) && random.below(2) == 1;
    let magnitude = match random.below(3) {
        0 => random.below(100),
        1 => random.below(most),
        _ if is_below => most,
        _ => most - 1,
    };
    if is_below { magnitude.wrapping_neg() } else { magnitude }
}

/// Returns the dense elements of a tensor with these dimensions.
pub(crate) fn fill(desc: &TensorDesc, dims: &[usize], fill: Fill, random: &mut Random) -> Vec<u8> {
    let Some(dtype) = desc.dtype() else { return Vec::new() };
    let len: usize = dims.iter().product();
    let mut bytes = Vec::with_capacity(len * dtype.size_bytes());
    for at in 0..len {
        if dtype.is_float() {
            push(&mut bytes, dtype, fill.number(random, at));
        } else if dtype == DType::Bool {
            bytes.push(u8::from(fill.integer(random, at, desc) & 1 == 1));
        } else {
            let element = fill.integer(random, at, desc).to_le_bytes();
            bytes.extend_from_slice(element.get(..dtype.size_bytes()).unwrap_or_default());
        }
    }
    bytes
}

/// Appends a number as an element of a float type.
#[expect(clippy::cast_possible_truncation, reason = "rounding to the element type is intended")]
pub(crate) fn push(bytes: &mut Vec<u8>, dtype: DType, number: f64) {
    match dtype {
        DType::F64 => bytes.extend(number.to_ne_bytes()),
        DType::F16 => bytes.extend(F16::from_f32(number as f32).0.to_ne_bytes()),
        DType::Bf16 => bytes.extend(Bf16::from_f32(number as f32).0.to_ne_bytes()),
        _ => bytes.extend((number as f32).to_ne_bytes()),
    }
}

/// Returns the dequantized values of the elements.
#[expect(clippy::cast_precision_loss, reason = "the comparison needs fewer digits")]
pub(crate) fn numbers(desc: &TensorDesc, bytes: &[u8]) -> Vec<f64> {
    let Some(dtype) = desc.dtype() else { return Vec::new() };
    let size = dtype.size_bytes().max(1);
    let number = |element: &[u8]| {
        let mut padded = [0; 8];
        padded.iter_mut().zip(element).for_each(|(to, from)| *to = *from);
        let bits = u64::from_le_bytes(padded);
        let low = |bits: u64| u32::try_from(bits & 0xffff_ffff).unwrap_or(0);
        let half = |bits: u64| u16::try_from(bits & 0xffff).unwrap_or(0);
        match dtype {
            DType::F32 => f64::from(f32::from_bits(low(bits))),
            DType::F64 => f64::from_bits(bits),
            DType::F16 => f64::from(F16(half(bits)).to_f32()),
            DType::Bf16 => f64::from(Bf16(half(bits)).to_f32()),
            DType::I8 => f64::from(u8::try_from(bits & 0xff).unwrap_or(0).cast_signed()),
            DType::I16 => f64::from(half(bits).cast_signed()),
            DType::I32 => f64::from(low(bits).cast_signed()),
            DType::I64 => bits.cast_signed() as f64,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool | DType::Str => {
                bits as f64
            }
        }
    };
    let stored = bytes.chunks_exact(size).map(number);
    let Some(Encoding { scale, zero_point }) = desc.encoding() else { return stored.collect() };
    stored.map(|q| (q - f64::from(zero_point)) * f64::from(scale)).collect()
}

/// Returns the stored elements of an integer or bool tensor.
pub(crate) fn integers(desc: &TensorDesc, bytes: &[u8]) -> Vec<i64> {
    let Some(dtype) = desc.dtype() else { return Vec::new() };
    let integer = |element: &[u8]| {
        let is_below = is_signed(dtype) && element.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut padded = [if is_below { 0xff } else { 0 }; 8];
        padded.iter_mut().zip(element).for_each(|(to, from)| *to = *from);
        i64::from_le_bytes(padded)
    };
    bytes.chunks_exact(dtype.size_bytes().max(1)).map(integer).collect()
}

/// An output of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) desc: &'a TensorDesc,
    pub(crate) dims: &'a [usize],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Seen<'a> {
    /// Combines an output of a call with its tensor description.
    pub(crate) fn new(output: &'a Output, desc: &'a TensorDesc) -> Self {
        Self { desc, dims: &output.dims, bytes: &output.bytes }
    }

    /// Whether results must match exactly: unquantized integers and bools.
    pub(crate) fn is_exact(&self) -> bool {
        self.desc.encoding().is_none() && !self.desc.dtype().is_some_and(DType::is_float)
    }
}

/// Quantizes the numbers to the nearest elements.
#[expect(clippy::cast_possible_truncation, reason = "clamped to the type's range")]
pub(crate) fn quantized(dtype: DType, encoding: Encoding, numbers: &[f64]) -> Option<Vec<u8>> {
    let (low, high) = range_of(dtype)?;
    let mut bytes = Vec::new();
    for number in numbers {
        let stored = (number / f64::from(encoding.scale)).round() as i64;
        let stored = stored.saturating_add(i64::from(encoding.zero_point)).clamp(low, high);
        bytes.extend_from_slice(stored.to_le_bytes().get(..dtype.size_bytes())?);
    }
    Some(bytes)
}

/// Returns the lowest and highest stored value of a quantized type.
pub(crate) fn range_of(dtype: DType) -> Option<(i64, i64)> {
    match dtype {
        DType::U8 => Some((0, 255)),
        DType::I8 => Some((-128, 127)),
        DType::U16 => Some((0, 65535)),
        DType::I16 => Some((-32768, 32767)),
        _ => None,
    }
}

/// Returns an encoding that covers these numbers and represents 0 exactly.
#[expect(clippy::cast_possible_truncation, reason = "a zero point is within its type")]
pub(crate) fn encoding_of(dtype: DType, numbers: &[f64]) -> Option<Encoding> {
    let (lowest, steps) = match dtype {
        DType::U8 => (0, 255.0),
        DType::I8 => (-128, 255.0),
        DType::U16 => (0, 65535.0),
        DType::I16 => (-32768, 65535.0),
        _ => return None,
    };
    let finite = numbers.iter().copied().filter(|number| number.is_finite());
    let (low, high) = finite.fold((0.0f64, 0.0f64), |(low, high), n| (low.min(n), high.max(n)));
    let scale = ((high - low).max(0.01) / steps) as f32;
    let zero = (-low / f64::from(scale)).round().clamp(0.0, steps) as i32;
    Some(Encoding { scale, zero_point: lowest + zero })
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::Shape;

    #[test]
    fn elements_convert_to_the_given_values() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
            let desc = TensorDesc::new(dtype, Shape::new(&[2]).unwrap());
            let mut bytes = Vec::new();
            push(&mut bytes, dtype, -1.5);
            push(&mut bytes, dtype, 0.25);
            assert_eq!(numbers(&desc, &bytes), [-1.5, 0.25], "{dtype}");
        }
        let desc = TensorDesc::new(DType::I8, Shape::new(&[2]).unwrap());
        assert_eq!(numbers(&desc, &[255, 3]), [-1.0, 3.0]);
        assert_eq!(integers(&desc, &[255, 3]), [-1, 3]);
        let wide = TensorDesc::new(DType::I64, Shape::new(&[1]).unwrap());
        assert_eq!(integers(&wide, &i64::MIN.to_le_bytes()), [i64::MIN]);
        let byte = TensorDesc::new(DType::U8, Shape::new(&[1]).unwrap());
        assert_eq!(integers(&byte, &[255]), [255]);
    }

    #[test]
    fn integers_have_all_sizes_and_signs_that_their_type_has() {
        for (dtype, low, high) in [
            (DType::I8, -128, 127),
            (DType::U16, 0, 65535),
            (DType::I32, i64::from(i32::MIN), i64::from(i32::MAX)),
            (DType::I64, i64::MIN, i64::MAX),
        ] {
            let desc = TensorDesc::new(dtype, Shape::new(&[64]).unwrap());
            let bytes = fill(&desc, &[64], Fill::Large, &mut Random::new(7));
            let values = integers(&desc, &bytes);
            let (least, most) = (values.iter().min().unwrap(), values.iter().max().unwrap());
            assert!(*most == high && (low..=99).contains(least), "{dtype}: {values:?}");
            assert!(low == 0 || *least == low, "{dtype}: {values:?}");
        }
    }

    #[test]
    fn an_encoding_holds_zero_and_the_range() {
        let encoding = encoding_of(DType::U8, &[-1.0, 4.1]).unwrap();
        assert_eq!(encoding.zero_point, 50);
        assert!((f64::from(encoding.scale) - 0.02).abs() < 1e-9);
        assert_eq!(encoding_of(DType::I8, &[2.55]).unwrap().zero_point, -128);
        assert_eq!(quantized(DType::U8, encoding, &[-1.0, 0.0, 9.0]).unwrap(), [0, 50, 255]);
        assert_eq!(encoding_of(DType::I32, &[2.55]), None);
    }
}
