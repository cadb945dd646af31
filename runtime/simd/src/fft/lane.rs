//! The types of numbers that are transformed.

use std::ops::{Add, Mul, Sub};

mod sealed {
    /// What only the types of this file are.
    pub trait Sealed {}
}

/// A type of real numbers.
pub trait Lane:
    sealed::Sealed
    + Copy
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + 'static
{
    /// The number nearest to it.
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
