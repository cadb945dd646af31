//! Combining updates with elements (parameter `reduction` of the Scatter operators). Functions work on the bits of
//! elements, so one kernel per width serves all types.

use udo_api::{Bf16, Bits, DType, Error, F16, Node};

use crate::number::{Number, refuse_type};

/// The effect of an update on an element, as a function of the bits of both.
#[derive(Clone, Copy)]
pub(crate) enum Combine {
    /// The update overwrites the element.
    Replace,
    /// A function of the bits of the element and the update, of 1 byte each. The next variants are for 2, 4 and 8
    /// bytes.
    By1(fn(u8, u8) -> u8),
    By2(fn(u16, u16) -> u16),
    By4(fn(u32, u32) -> u32),
    By8(fn(u64, u64) -> u64),
}

/// An unsigned integer that holds the bits of an element.
pub(crate) trait Width: Bits {
    /// Returns the function for elements of this width, or `None` for overwriting.
    fn function(combine: Combine) -> Option<fn(Self, Self) -> Self>;
}

macro_rules! widths {
    ($($bits:ty => $variant:ident),*) => {$(
        impl Width for $bits {
            fn function(combine: Combine) -> Option<fn(Self, Self) -> Self> {
                match combine {
                    Combine::$variant(function) => Some(function),
                    _ => None,
                }
            }
        }
    )*};
}

widths!(u8 => By1, u16 => By2, u32 => By4, u64 => By8);

/// A reduction of two values.
#[derive(Clone, Copy)]
enum Reduction {
    Add,
    Mul,
    Max,
    Min,
}

/// Returns the larger value, or NaN if either is NaN.
fn larger<T: Number>(a: T, b: T) -> T {
    if a > b || is_nan(a) { a } else { b }
}

/// Returns the smaller value, or NaN if either is NaN.
fn smaller<T: Number>(a: T, b: T) -> T {
    if a < b || is_nan(a) { a } else { b }
}

#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_nan<T: Number>(a: T) -> bool {
    a != a
}

/// Wraps functions of two values of `$number` as functions of their bits, using `$from_bits` and `$to_bits`.
macro_rules! of_bits {
    ($reduction:expr, $variant:ident, $from_bits:expr, $to_bits:expr) => {
        Combine::$variant(match $reduction {
            Reduction::Add => |a, b| $to_bits(Number::add($from_bits(a), $from_bits(b))),
            Reduction::Mul => |a, b| $to_bits(Number::mul($from_bits(a), $from_bits(b))),
            Reduction::Max => |a, b| $to_bits(larger($from_bits(a), $from_bits(b))),
            Reduction::Min => |a, b| $to_bits(smaller($from_bits(a), $from_bits(b))),
        })
    };
}

impl Combine {
    /// Reads the parameter `reduction`, if the operator has it.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Error> {
        if !node.has_param("reduction") {
            return Ok(Self::Replace);
        }
        let reduction = match node.text("reduction")? {
            "none" => return Ok(Self::Replace),
            "add" => Reduction::Add,
            "mul" => Reduction::Mul,
            "max" => Reduction::Max,
            "min" => Reduction::Min,
            found => {
                return Err(Error::new(format!(
                    "parameter \"reduction\" is {found:?}, expected none, add, mul, max or min"
                )));
            }
        };
        let dtype = node.input(0)?.dtype().ok_or_else(|| refuse_type(None))?;
        Self::for_type(dtype, reduction).ok_or_else(|| refuse_type(Some(dtype)))
    }

    /// Returns the function that reduces elements of a type, or `None` for strings.
    fn for_type(dtype: DType, reduction: Reduction) -> Option<Self> {
        Some(match dtype {
            DType::F32 => of_bits!(reduction, By4, f32::from_bits, f32::to_bits),
            DType::F64 => of_bits!(reduction, By8, f64::from_bits, f64::to_bits),
            DType::F16 => of_bits!(reduction, By2, |x| F16(x).to_f32(), |x| F16::from_f32(x).0),
            DType::Bf16 => of_bits!(reduction, By2, |x| Bf16(x).to_f32(), |x| Bf16::from_f32(x).0),
            DType::I8 => of_bits!(reduction, By1, u8::cast_signed, i8::cast_unsigned),
            DType::I16 => of_bits!(reduction, By2, u16::cast_signed, i16::cast_unsigned),
            DType::I32 => of_bits!(reduction, By4, u32::cast_signed, i32::cast_unsigned),
            DType::I64 => of_bits!(reduction, By8, u64::cast_signed, i64::cast_unsigned),
            DType::U8 => of_bits!(reduction, By1, u8::from, u8::from),
            DType::U16 => of_bits!(reduction, By2, u16::from, u16::from),
            DType::U32 => of_bits!(reduction, By4, u32::from, u32::from),
            DType::U64 => of_bits!(reduction, By8, u64::from, u64::from),
            // For bools, a sum or maximum is a logical or, a product or minimum a logical and.
            DType::Bool => Self::By1(match reduction {
                Reduction::Add | Reduction::Max => |a, b| u8::from(a | b != 0),
                Reduction::Mul | Reduction::Min => |a, b| u8::from(a != 0 && b != 0),
            }),
            DType::Str => return None,
        })
    }
}

/// Combines each element with the update at the same index.
#[inline]
pub(crate) fn combine_all<B: Width>(combine: Combine, y: &mut [B], updates: &[B]) {
    match B::function(combine) {
        None => y.copy_from_slice(updates),
        Some(function) => {
            y.iter_mut().zip(updates).for_each(|(y, &update)| *y = function(*y, update));
        }
    }
}
