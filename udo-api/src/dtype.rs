//! Element types, sets of them, and the plain-old-data element newtypes.

use std::fmt;

/// The type of one element of a tensor, or of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// IEEE 754 binary32.
    F32 = 1,
    /// IEEE 754 binary64.
    F64 = 2,
    /// IEEE 754 binary16.
    F16 = 3,
    /// The upper half of a binary32.
    Bf16 = 4,
    /// Signed 8-bit integer.
    I8 = 5,
    /// Signed 16-bit integer.
    I16 = 6,
    /// Signed 32-bit integer.
    I32 = 7,
    /// Signed 64-bit integer.
    I64 = 8,
    /// Unsigned 8-bit integer.
    U8 = 9,
    /// Unsigned 16-bit integer.
    U16 = 10,
    /// Unsigned 32-bit integer.
    U32 = 11,
    /// Unsigned 64-bit integer.
    U64 = 12,
    /// One byte, 0 or 1.
    Bool = 13,
    /// UTF-8 text; parameters only.
    Str = 14,
}

impl DType {
    /// Every type, in the order of their codes.
    pub const ALL: [Self; 14] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::Bf16,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bool,
        Self::Str,
    ];

    /// The number that stands for this type in ABI tables.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The type that `code` stands for, or nothing if no type has it.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code == 0 || code as usize > Self::ALL.len() {
            return None;
        }
        Some(Self::ALL[code as usize - 1])
    }

    /// Bytes of one element; 0 for text, which no tensor holds.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::Str => 0,
        }
    }

    /// Whether the type is a floating-point type.
    pub const fn is_float(self) -> bool {
        types::FLOATS.has(self)
    }

    /// The lower-case name, as in `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
            Self::Str => "str",
        }
    }

    /// The type called `name`, the inverse of [`DType::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// The set that holds this type alone.
    pub const fn set(self) -> TypeSet {
        TypeSet(1 << self.code())
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of element types, one bit each; bit n stands for the type with code n.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct TypeSet(u32);

impl TypeSet {
    /// The set with nothing in it.
    pub const EMPTY: Self = Self(0);

    /// The types of either set.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The types of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether `dtype` is in the set.
    pub const fn has(self, dtype: DType) -> bool {
        self.0 & dtype.set().0 != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bit mask; bits without a type are possible in a foreign table.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set with this mask; bits that stand for no type are dropped.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & types::ANY.or(types::STR).0)
    }

    /// The types in the set, in the order of their codes.
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |&t| self.has(t))
    }
}

impl fmt::Display for TypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for dtype in self.iter() {
            write!(f, "{separator}{dtype}")?;
            separator = "|";
        }
        if self.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for TypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeSet({self})")
    }
}

/// One set per type, and the unions that schemas ask for most.
pub mod types {
    use super::{DType, TypeSet};

    /// `f32`.
    pub const F32: TypeSet = DType::F32.set();
    /// `f64`.
    pub const F64: TypeSet = DType::F64.set();
    /// `f16`.
    pub const F16: TypeSet = DType::F16.set();
    /// `bf16`.
    pub const BF16: TypeSet = DType::Bf16.set();
    /// `i8`.
    pub const I8: TypeSet = DType::I8.set();
    /// `i16`.
    pub const I16: TypeSet = DType::I16.set();
    /// `i32`.
    pub const I32: TypeSet = DType::I32.set();
    /// `i64`.
    pub const I64: TypeSet = DType::I64.set();
    /// `u8`.
    pub const U8: TypeSet = DType::U8.set();
    /// `u16`.
    pub const U16: TypeSet = DType::U16.set();
    /// `u32`.
    pub const U32: TypeSet = DType::U32.set();
    /// `u64`.
    pub const U64: TypeSet = DType::U64.set();
    /// `bool`.
    pub const BOOL: TypeSet = DType::Bool.set();
    /// Text, for parameters.
    pub const STR: TypeSet = DType::Str.set();
    /// Every floating-point type.
    pub const FLOATS: TypeSet = F32.or(F64).or(F16).or(BF16);
    /// Every signed integer type.
    pub const SIGNED: TypeSet = I8.or(I16).or(I32).or(I64);
    /// Every unsigned integer type.
    pub const UNSIGNED: TypeSet = U8.or(U16).or(U32).or(U64);
    /// Every integer type.
    pub const INTS: TypeSet = SIGNED.or(UNSIGNED);
    /// The types that ONNX uses for indices.
    pub const INDEX: TypeSet = I32.or(I64);
    /// Every type that has an arithmetic.
    pub const NUMBERS: TypeSet = FLOATS.or(INTS);
    /// Every type that a tensor can hold.
    pub const ANY: TypeSet = NUMBERS.or(BOOL);
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that tensors may hold: plain old data, every bit pattern valid.
///
/// Sealed: typed views over foreign memory rest on it.
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + Send + Sync + fmt::Debug + 'static
{
    /// The element type that this Rust type stands for.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
        const _: () = assert!(size_of::<$rust>() == DType::$dtype.size_bytes());
    )*};
}

elements! {
    f32 => F32, f64 => F64, F16 => F16, Bf16 => Bf16,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, Bool => Bool,
}

/// An IEEE 754 binary16 number, held as its bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

impl F16 {
    /// The nearest binary16 number, ties to even; too large becomes infinity.
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        let half = if magnitude > 0x7f80_0000 {
            0x7e00
        } else if magnitude >= 0x4780_0000 {
            0x7c00
        } else if magnitude >= 0x3880_0000 {
            // Normal: rebias the exponent, then round the 13 bits that fall off.
            let rebiased = magnitude - 0x3800_0000;
            (rebiased + 0x0fff + ((rebiased >> 13) & 1)) >> 13
        } else {
            // Subnormal: adding 0.5 aligns the mantissa so that the sum's low bits are the result.
            let aligned = f32::from_bits(magnitude) + 0.5;
            aligned.to_bits() - 0x3f00_0000
        };
        Self(u16::try_from(sign | half).unwrap_or(0x7c00))
    }

    /// The same number as binary32, exactly.
    pub fn to_f32(self) -> f32 {
        let sign = u32::from(self.0 & 0x8000) << 16;
        let exponent = u32::from(self.0 >> 10) & 0x1f;
        let mantissa = u32::from(self.0 & 0x03ff);
        let magnitude = match exponent {
            0 => {
                let tiny = f32::from(self.0 & 0x03ff) * 2.0_f32.powi(-24);
                tiny.to_bits()
            }
            0x1f => 0x7f80_0000 | (mantissa << 13),
            _ => ((exponent + 112) << 23) | (mantissa << 13),
        };
        f32::from_bits(sign | magnitude)
    }
}

impl fmt::Debug for F16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_f32())
    }
}

/// A bfloat16 number, held as its bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl Bf16 {
    /// The nearest bfloat16 number, ties to even.
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = if value.is_nan() {
            (bits >> 16) | 0x40
        } else {
            bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16
        };
        Self(u16::try_from(rounded & 0xffff).unwrap_or(0x7fc0))
    }

    /// The same number as binary32, exactly.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

impl fmt::Debug for Bf16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_f32())
    }
}

/// A truth value in one byte; any byte but 0 counts as true.
///
/// Never a `bool`: foreign bytes other than 0 and 1 would be undefined behaviour there.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// The value as Rust's own type.
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl fmt::Debug for Bool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_lead_back_to_their_type() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_code(dtype.code()), Some(dtype));
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_code(0), None);
        assert_eq!(DType::from_code(15), None);
    }

    #[test]
    fn sets_print_their_members() {
        assert_eq!(types::F32.or(types::U8).to_string(), "f32|u8");
        assert_eq!(TypeSet::EMPTY.to_string(), "none");
        assert!(!types::ANY.has(DType::Str));
    }

    #[test]
    fn every_half_survives_the_way_to_f32_and_back() {
        for bits in 0..=u16::MAX {
            let half = F16(bits);
            let wide = half.to_f32();
            if wide.is_nan() {
                assert!(F16::from_f32(wide).to_f32().is_nan());
            } else {
                assert_eq!(F16::from_f32(wide), half, "bits {bits:#06x}");
            }
        }
    }

    #[test]
    fn halves_round_to_nearest_even() {
        let cases = [
            (1.0 + 2f32.powi(-11), 0x3c00),
            (1.0 + 3.0 * 2f32.powi(-11), 0x3c02),
            (65519.0, 0x7bff),
            (65520.0, 0x7c00),
            (2f32.powi(-25), 0x0000),
            (3.0 * 2f32.powi(-25), 0x0002),
            (-0.0, 0x8000),
        ];
        for (value, bits) in cases {
            assert_eq!(F16::from_f32(value).0, bits, "{value}");
        }
    }

    #[test]
    fn bfloats_round_to_nearest_even() {
        assert_eq!(Bf16::from_f32(1.0).0, 0x3f80);
        assert_eq!(Bf16::from_f32(f32::from_bits(0x3f80_8000)).0, 0x3f80);
        assert_eq!(Bf16::from_f32(f32::from_bits(0x3f81_8000)).0, 0x3f82);
        assert!(Bf16::from_f32(f32::NAN).to_f32().is_nan());
    }
}
