//! The Rust types of tensor elements, and elements as bytes.

use std::fmt;

use crate::dtype::DType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that tensors may hold: plain old data whose bit patterns are all valid.
///
/// Sealed, since typed views over foreign memory rely on it.
///
/// ```
/// use udo_api::{DType, Element, ExecError, Io};
///
/// /// Reverses a tensor; `execute` of a kernel for several types calls it for each.
/// fn reversed<T: Element>(io: Io<'_>) -> Result<(), ExecError> {
///     let Io { inputs, mut outputs, .. } = io;
///     let x = inputs.get::<T>(0)?;
///     for (y, x) in outputs.take::<T>(0)?.iter_mut().zip(x.iter().rev()) {
///         *y = *x;
///     }
///     Ok(())
/// }
///
/// assert_eq!(<f32 as Element>::DTYPE, DType::F32);
/// ```
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + Send + Sync + fmt::Debug + 'static
{
    /// The element type of this Rust type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident as $bits:ty),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
        const _: () = assert!(size_of::<$rust>() == DType::$dtype.size_bytes());
        // Views of elements as bits rely on equal sizes.
        const _: () = assert!(size_of::<$rust>() == size_of::<$bits>());
        const _: () = assert!(align_of::<$rust>() == align_of::<$bits>());
    )*};
}

elements! {
    f32 => F32 as u32, f64 => F64 as u64, F16 => F16 as u16, Bf16 => Bf16 as u16,
    i8 => I8 as u8, i16 => I16 as u16, i32 => I32 as u32, i64 => I64 as u64,
    u8 => U8 as u8, u16 => U16 as u16, u32 => U32 as u32, u64 => U64 as u64,
    Bool => Bool as u8,
}

/// An unsigned integer type for moving elements of any type of its size. A kernel that only moves elements needs four
/// instances instead of one per element type.
///
/// ```
/// use udo_api::{Bits, Buffers, ExecError};
///
/// /// A work item that moves an element of any type.
/// fn moved<B: Bits>(buffers: &Buffers<'_>, from: usize, to: usize) -> Result<(), ExecError> {
///     buffers.set_bits::<B>(0, to, buffers.get_bits::<B>(0, from)?)
/// }
/// ```
pub trait Bits: Element {}

impl Bits for u8 {}
impl Bits for u16 {}
impl Bits for u32 {}
impl Bits for u64 {}

/// An IEEE 754 binary16 number, stored as its bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

impl F16 {
    /// Rounds to the nearest binary16 number, ties to even; values out of range become infinity.
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

    /// Converts to binary32, exactly.
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

/// A bfloat16 number, stored as its bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl Bf16 {
    /// Rounds to the nearest bfloat16 number, ties to even.
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = if value.is_nan() {
            (bits >> 16) | 0x40
        } else {
            bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16
        };
        Self(u16::try_from(rounded & 0xffff).unwrap_or(0x7fc0))
    }

    /// Converts to binary32, exactly.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

impl fmt::Debug for Bf16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_f32())
    }
}

/// A bool in one byte; any byte but 0 is true.
///
/// Not a `bool`, for which foreign bytes other than 0 and 1 would be undefined behaviour.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// Returns the value as a `bool`.
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

/// Returns the bytes of `elements`, in the machine's order.
pub fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: `Element` is sealed, and its types are numbers without padding, so all `size_of_val(elements)`
    // bytes from `elements.as_ptr()` on have values; they are borrowed as long as `elements`.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Returns the bytes of `elements`, in the machine's order; any bytes may be written.
pub fn bytes_of_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    let len = size_of_val(elements);
    // SAFETY: as in `bytes_of` for the `len` bytes from `elements.as_mut_ptr()` on, which are borrowed
    // mutably as long as `elements`; every element type takes any bits.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), len) }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn bytes_are_those_of_the_elements() {
        assert_eq!(
            bytes_of(&[1.0f32, -2.0]),
            [1.0f32.to_ne_bytes(), (-2.0f32).to_ne_bytes()].concat()
        );
        assert_eq!(bytes_of(&[Bool::from(true), Bool::from(false)]), [1, 0]);
        assert_eq!(bytes_of::<u64>(&[]), [0; 0]);
        let mut halves = [F16::from_f32(1.0); 2];
        bytes_of_mut(&mut halves)[2..].copy_from_slice(&F16::from_f32(-0.5).0.to_ne_bytes());
        assert_eq!(halves.map(|half| half.to_f32().to_bits()), [1.0f32, -0.5].map(f32::to_bits));
    }
}
