//! The trait of elements that primitives such as transposes move without interpreting them.

mod sealed {
    pub trait Sealed {}
}

/// An element without padding bytes, which may be moved through vectors.
///
/// Move elements of other types as byte arrays, such as `[u8; 2]`.
pub trait Bits: sealed::Sealed + Copy + Send + Sync + 'static {}

macro_rules! bits {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}
        impl Bits for $type {}
    )*};
}

bits!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl<const N: usize> sealed::Sealed for [u8; N] {}
impl<const N: usize> Bits for [u8; N] {}
