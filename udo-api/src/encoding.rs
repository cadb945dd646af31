//! Quantization parameters: one scale and zero point per tensor, or one for each position of an axis.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;

use crate::dtype::DType;
use crate::error::Error;
use crate::shape::{Dim, Shape};
use crate::span::Slice;

abi_struct! {
    /// The quantization parameters of a fixed-point tensor: `real = scale * (q - zero_point)`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Encoding {
        /// The real width of one step.
        pub scale: f32,
        /// The quantized value of 0.
        pub zero_point: i32,
    }
}

abi_struct! {
    /// A scale and a zero point for each position of one axis, in memory that lives as long as the process.
    #[derive(Clone, Copy, Debug)]
    pub struct AxisEncoding {
        axis: u32,
        reserved: u32,
        scales: Slice<f32>,
        zero_points: Slice<i32>,
        reserved_words: [u64; 3],
    }
}

/// All encodings that [`AxisEncoding::intern`] created, by a hash of their numbers.
static SHARED: Mutex<BTreeMap<u64, Vec<&'static AxisEncoding>>> = Mutex::new(BTreeMap::new());

/// The number of attempts to take the lock, which is held for a few look-ups at a time.
const LOCK_ATTEMPTS: u32 = 100_000;

/// Locks the table of encodings. Returns `None` if the lock stays taken, as in a process that was forked while another
/// thread held it; encodings created then are not shared, and compare by their numbers.
fn lock_shared() -> Option<MutexGuard<'static, BTreeMap<u64, Vec<&'static AxisEncoding>>>> {
    for _ in 0..LOCK_ATTEMPTS {
        match SHARED.try_lock() {
            Ok(table) => return Some(table),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    }
    None
}

impl PartialEq for AxisEncoding {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || self.has_numbers(other.axis, other.scales(), other.zero_points())
    }
}

impl AxisEncoding {
    /// The former name of [`AxisEncoding::intern`].
    #[doc(hidden)]
    pub fn of(axis: usize, scales: &[f32], zero_points: &[i32]) -> Result<&'static Self, Error> {
        Self::intern(axis, scales, zero_points)
    }

    /// Returns the encoding with these scales and zero points along `axis`. It lives as long as the process, and equal
    /// encodings are stored once, so that descriptions that refer to it stay plain data. Do not call it in execute: it
    /// allocates.
    ///
    /// # Errors
    /// The numbers of scales and zero points differ, or a scale is not finite and above 0.
    pub fn intern(
        axis: usize,
        scales: &[f32],
        zero_points: &[i32],
    ) -> Result<&'static Self, Error> {
        check_numbers(scales, zero_points)?;
        let axis = u32::try_from(axis)
            .map_err(|_| Error::new(format!("an encoding is along axis {axis}")))?;
        let mut hasher = DefaultHasher::new();
        axis.hash(&mut hasher);
        for scale in scales {
            scale.to_bits().hash(&mut hasher);
        }
        zero_points.hash(&mut hasher);
        let Some(mut table) = lock_shared() else {
            return Ok(Self::new(axis, scales, zero_points));
        };
        let same_hash = table.entry(hasher.finish()).or_default();
        if let Some(known) =
            same_hash.iter().find(|known| known.has_numbers(axis, scales, zero_points))
        {
            return Ok(known);
        }
        let encoding = Self::new(axis, scales, zero_points);
        same_hash.push(encoding);
        Ok(encoding)
    }

    fn new(axis: u32, scales: &[f32], zero_points: &[i32]) -> &'static Self {
        Box::leak(Box::new(Self {
            axis,
            reserved: 0,
            scales: Slice::new(Box::leak(scales.into())),
            zero_points: Slice::new(Box::leak(zero_points.into())),
            reserved_words: [0; 3],
        }))
    }

    fn has_numbers(&self, axis: u32, scales: &[f32], zero_points: &[i32]) -> bool {
        self.axis == axis && self.scales() == scales && self.zero_points() == zero_points
    }

    /// Returns the axis.
    pub const fn axis(&self) -> usize {
        self.axis as usize
    }

    /// Returns the scale for each position of the axis.
    pub const fn scales(&self) -> &'static [f32] {
        self.scales.get()
    }

    /// Returns the zero point for each position of the axis.
    pub const fn zero_points(&self) -> &'static [i32] {
        self.zero_points.get()
    }

    /// Returns the number of positions of the axis.
    pub const fn count(&self) -> usize {
        self.scales().len()
    }

    /// Returns the encoding of the elements at one position of the axis.
    pub fn at(&self, position: usize) -> Option<Encoding> {
        let (&scale, &zero_point) =
            (self.scales().get(position)?, self.zero_points().get(position)?);
        Some(Encoding { scale, zero_point })
    }

    /// Checks that the encoding fits a tensor of this type and shape.
    pub(crate) fn check(&self, dtype: Option<DType>, shape: &Shape) -> Result<(), Error> {
        let name = dtype.map_or("absent", DType::name);
        let refusal = |fault: String| Err(Error::new(format!("an encoding per axis {fault}")));
        if (self.reserved, self.reserved_words) != (0, [0; 3]) {
            return refusal("sets reserved fields".to_owned());
        }
        let (axis, count) = (self.axis(), self.count());
        match shape.dim(axis) {
            None => return refusal(format!("is along axis {axis} of {name}{shape}")),
            Some(Dim::UpTo(_)) => {
                return refusal(format!("is along axis {axis} of {name}{shape}, which is bounded"));
            }
            Some(Dim::Fixed(extent) | Dim::Open(extent)) if extent != count => {
                return refusal(format!(
                    "has {count} scales for axis {axis} of {name}{shape}, expected {extent}"
                ));
            }
            Some(Dim::Fixed(_) | Dim::Open(_)) => {}
        }
        check_numbers(self.scales(), self.zero_points())?;
        let Some((low, high)) = dtype.and_then(range) else {
            return refusal(format!("is on {name}{shape}, expected u8, i8, u16, i16 or i32"));
        };
        let mut zero_points = self.zero_points().iter();
        match zero_points.position(|zero| !(low..=high).contains(zero)) {
            None => Ok(()),
            Some(position) => {
                let zero = self.zero_points().get(position).copied().unwrap_or_default();
                refusal(format!(
                    "of {name}{shape} has zero point {zero} at {position}, which {name} cannot hold"
                ))
            }
        }
    }
}

/// Checks that these are the numbers of a valid encoding.
fn check_numbers(scales: &[f32], zero_points: &[i32]) -> Result<(), Error> {
    let (count, zeros) = (scales.len(), zero_points.len());
    if count != zeros {
        return Err(Error::new(format!(
            "an encoding per axis has {count} scales and {zeros} zero points, expected equal numbers"
        )));
    }
    match scales.iter().enumerate().find(|(_, scale)| !scale.is_finite() || **scale <= 0.0) {
        None => Ok(()),
        Some((at, scale)) => Err(Error::new(format!(
            "an encoding per axis has scale {scale} at {at}, expected a finite one above 0"
        ))),
    }
}

/// Returns the lowest and highest element of a quantized type.
fn range(dtype: DType) -> Option<(i32, i32)> {
    let bounds = |low: i16, high: u16| Some((i32::from(low), i32::from(high)));
    match dtype {
        DType::U8 => bounds(0, 0xff),
        DType::I8 => bounds(-0x80, 0x7f),
        DType::U16 => bounds(0, 0xffff),
        DType::I16 => bounds(i16::MIN, 0x7fff),
        DType::I32 => Some((i32::MIN, i32::MAX)),
        DType::F32
        | DType::F64
        | DType::F16
        | DType::Bf16
        | DType::I64
        | DType::U32
        | DType::U64
        | DType::Bool
        | DType::Str => None,
    }
}

/// The quantization parameters of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Encodings {
    /// One scale and zero point for all elements.
    PerTensor(Encoding),
    /// A scale and a zero point for each position of an axis.
    PerAxis(&'static AxisEncoding),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_encodings_are_stored_once() {
        let interned = AxisEncoding::intern(1, &[0.5, 0.25], &[3, -4]).unwrap();
        assert!(std::ptr::eq(interned, AxisEncoding::intern(1, &[0.5, 0.25], &[3, -4]).unwrap()));
        assert_eq!(
            (interned.axis(), interned.scales(), interned.zero_points()),
            (1, &[0.5, 0.25][..], &[3, -4][..])
        );
        assert_eq!(interned.at(1), Some(Encoding { scale: 0.25, zero_point: -4 }));
        assert_eq!(interned.at(2), None);
        for other in [(0, [0.5, 0.25], [3, -4]), (1, [0.5, 0.5], [3, -4]), (1, [0.5, 0.25], [3, 4])]
        {
            assert_ne!(
                interned,
                AxisEncoding::intern(other.0, &other.1, &other.2).unwrap(),
                "{other:?}"
            );
        }
    }

    #[test]
    fn invalid_scales_and_zero_points_are_refused() {
        let cases: [(&[f32], &[i32], &str); 4] = [
            (&[1.0, 2.0], &[0], "has 2 scales and 1 zero points, expected equal numbers"),
            (&[1.0, 0.0], &[0, 0], "has scale 0 at 1, expected a finite one above 0"),
            (&[f32::NAN], &[0], "has scale NaN at 0, expected a finite one above 0"),
            (&[f32::INFINITY], &[0], "has scale inf at 0, expected a finite one above 0"),
        ];
        for (scales, zero_points, expected) in cases {
            let error = AxisEncoding::intern(0, scales, zero_points).unwrap_err();
            assert_eq!(error.to_string(), format!("an encoding per axis {expected}"));
        }
    }
}
