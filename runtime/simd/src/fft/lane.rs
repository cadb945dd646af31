//! The element types of transforms: `f32` and `f64`.

use std::ops::{Add, Mul, Sub};

mod sealed {
    /// Restricts implementations to the types of this file.
    pub trait Sealed {}
}

/// A type of real values that transforms compute with.
pub trait Lane:
    sealed::Sealed
    + Copy
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + 'static
{
    /// Returns the nearest value.
    fn of_f64(value: f64) -> Self;
}

impl sealed::Sealed for f32 {}
impl sealed::Sealed for f64 {}

impl Lane for f32 {
    #[inline]
    fn of_f64(value: f64) -> Self {
        value as Self
    }
}

impl Lane for f64 {
    #[inline]
    fn of_f64(value: f64) -> Self {
        value
    }
}
