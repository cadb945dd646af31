//! Element types, and sets of them.

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
    /// The upper 16 bits of a binary32.
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
    /// UTF-8 strings; parameters only.
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

    /// Returns the number of the type in ABI tables.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the type with this number, if there is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code == 0 || code as usize > Self::ALL.len() {
            return None;
        }
        Some(Self::ALL[code as usize - 1])
    }

    /// The types by their numbers in ONNX's `TensorProto.DataType`, from 1 on; `None` for complex numbers.
    const ONNX: [Option<Self>; 16] = [
        Some(Self::F32),
        Some(Self::U8),
        Some(Self::I8),
        Some(Self::U16),
        Some(Self::I16),
        Some(Self::I32),
        Some(Self::I64),
        Some(Self::Str),
        Some(Self::Bool),
        Some(Self::F16),
        Some(Self::F64),
        Some(Self::U32),
        Some(Self::U64),
        None,
        None,
        Some(Self::Bf16),
    ];

    /// Returns the element type with this number in ONNX files and in attributes such as `to`; `None` if tensors do not
    /// support it.
    pub fn from_onnx(number: i64) -> Option<Self> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ONNX.get(index).copied().flatten().filter(|dtype| dtype.size_bytes() > 0)
    }

    /// Returns the number of the type in ONNX files.
    pub fn onnx(self) -> i32 {
        let index = Self::ONNX.iter().take_while(|dtype| **dtype != Some(self)).count();
        i32::try_from(index + 1).unwrap_or(0)
    }

    /// Returns the bytes of one element; 0 for strings, which tensors do not hold.
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

    /// Returns the lower-case name, such as `f32`.
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

    /// Returns the type with this name, the inverse of [`DType::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Returns the set that contains only this type.
    pub const fn set(self) -> TypeSet {
        TypeSet(1 << self.code())
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of element types; bit n stands for the type with code n.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct TypeSet(u32);

impl TypeSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Returns the union of both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection of both sets.
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

    /// Returns the bit mask; a package's table may have bits without a type.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the set with this mask, without bits that do not stand for a type.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & types::ANY.or(types::STR).0)
    }

    /// Iterates over the types in the set, in the order of their codes.
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |&dtype| self.has(dtype))
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

/// One set per type, and common unions.
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
    /// Strings, for parameters.
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
    /// All numeric types.
    pub const NUMBERS: TypeSet = FLOATS.or(INTS);
    /// All types that a tensor can hold.
    pub const ANY: TypeSet = NUMBERS.or(BOOL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_parsed_to_their_type() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_code(dtype.code()), Some(dtype));
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Str) {
            assert_eq!(DType::from_onnx(dtype.onnx().into()), Some(dtype));
        }
        for number in [-1, 0, 8, 14, 15, 17, 99] {
            assert_eq!(DType::from_onnx(number), None);
        }
        assert_eq!((DType::F32.onnx(), DType::Str.onnx(), DType::Bf16.onnx()), (1, 8, 16));
        assert_eq!(DType::from_code(0), None);
        assert_eq!(DType::from_code(15), None);
    }

    #[test]
    fn sets_print_their_members() {
        assert_eq!(types::F32.or(types::U8).to_string(), "f32|u8");
        assert_eq!(TypeSet::EMPTY.to_string(), "none");
        assert!(!types::ANY.has(DType::Str));
    }
}
