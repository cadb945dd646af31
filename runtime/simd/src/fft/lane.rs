//! The element types of transforms.

use std::ops::{Add, Mul, Sub};

mod sealed {
    /// Restricts implementations to the types of this file.
    pub trait Sealed {}
}

/// A type of real values.
pub trait Lane:
    sealed::Sealed
    + Copy
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + 'static
{
    /// Converts to the nearest value.
    fn of_f64(number: f64) -> Self;
}

impl sealed::Sealed for f32 {}
impl sealed::Sealed for f64 {}

impl Lane for f32 {
    #[inline]
    fn of_f64(number: f64) -> Self {
        number as Self
    }
}

impl Lane for f64 {
    #[inline]
    fn of_f64(number: f64) -> Self {
        number
    }
}
