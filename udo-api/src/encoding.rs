//! How stored integers stand for real numbers: one scale and zero point per tensor, or one for each position of an axis.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;

use crate::dtype::DType;
use crate::error::Error;
use crate::shape::{Dim, Shape};
use crate::span::Slice;

abi_struct! {
    /// How a fixed-point tensor stands for real numbers: `real = scale * (q - zero_point)`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Encoding {
        /// The real width of one step.
        pub scale: f32,
        /// The quantized value that stands for 0.
        pub zero_point: i32,
    }
}

abi_struct! {
    /// A scale and a zero point for each position of one axis, in memory that stays as it is for the life of the process.
    #[derive(Clone, Copy, Debug)]
    pub struct AxisEncoding {
        axis: u32,
        reserved: u32,
        scales: Slice<f32>,
        zero_points: Slice<i32>,
        reserved_words: [u64; 3],
    }
}

/// Every encoding that [`AxisEncoding::of`] made, by a hash of its numbers.
static KEPT: Mutex<BTreeMap<u64, Vec<&'static AxisEncoding>>> = Mutex::new(BTreeMap::new());

/// How often one who finds it locked looks again: it is locked for a few look-ups at a time.
const LOOKS: u32 = 100_000;

/// What was kept so far. Nothing where it stays locked, as in a process that was forked while another thread was at it: what is made then is
/// not kept once, and compares by its numbers.
fn kept() -> Option<MutexGuard<'static, BTreeMap<u64, Vec<&'static AxisEncoding>>>> {
    for _ in 0..LOOKS {
        match KEPT.try_lock() {
            Ok(kept) => return Some(kept),
            Err(TryLockError::Poisoned(kept)) => return Some(kept.into_inner()),
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    }
    None
}

impl PartialEq for AxisEncoding {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.is(other.axis, other.scales(), other.zero_points())
    }
}

impl AxisEncoding {
    /// The encoding with these scales and zero points along `axis`. It is kept for the life of the process, and equal ones
    /// are kept once, so that descriptions that name it stay plain data. Not for execute: it allocates.
    ///
    /// # Errors
    /// Not one zero point per scale, or a scale that is not finite or not above 0.
    pub fn of(axis: usize, scales: &[f32], zero_points: &[i32]) -> Result<&'static Self, Error> {
        check_numbers(scales, zero_points)?;
        let axis = u32::try_from(axis)
            .map_err(|_| Error::new(format!("an encoding is along axis {axis}")))?;
        let mut hasher = DefaultHasher::new();
        axis.hash(&mut hasher);
        for scale in scales {
            scale.to_bits().hash(&mut hasher);
        }
        zero_points.hash(&mut hasher);
        let Some(mut kept) = kept() else { return Ok(Self::new(axis, scales, zero_points)) };
        let alike = kept.entry(hasher.finish()).or_default();
        if let Some(found) = alike.iter().find(|known| known.is(axis, scales, zero_points)) {
            return Ok(found);
        }
        let made = Self::new(axis, scales, zero_points);
        alike.push(made);
        Ok(made)
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

    fn is(&self, axis: u32, scales: &[f32], zero_points: &[i32]) -> bool {
        self.axis == axis && self.scales() == scales && self.zero_points() == zero_points
    }

    /// The axis.
    pub const fn axis(&self) -> usize {
        self.axis as usize
    }

    /// The real width of one step, for each position of the axis.
    pub const fn scales(&self) -> &'static [f32] {
        self.scales.get()
    }

    /// The stored integer that stands for 0, for each position of the axis.
    pub const fn zero_points(&self) -> &'static [i32] {
        self.zero_points.get()
    }

    /// How many positions the axis has.
    pub const fn count(&self) -> usize {
        self.scales().len()
    }

    /// The encoding of the elements at one position of the axis.
    pub fn at(&self, position: usize) -> Option<Encoding> {
        let (&scale, &zero_point) =
            (self.scales().get(position)?, self.zero_points().get(position)?);
        Some(Encoding { scale, zero_point })
    }

    /// Whether it can be that of a tensor of this type and shape, and if not, why.
    pub(crate) fn check(&self, dtype: Option<DType>, shape: &Shape) -> Result<(), Error> {
        let name = dtype.map_or("absent", DType::name);
        let wrong = |what: String| Err(Error::new(format!("an encoding per axis {what}")));
        if (self.reserved, self.reserved_words) != (0, [0; 3]) {
            return wrong("sets reserved fields".to_owned());
        }
        let (axis, count) = (self.axis(), self.count());
        match shape.dim(axis) {
            None => return wrong(format!("is along axis {axis} of {name}{shape}")),
            Some(Dim::UpTo(_)) => {
                return wrong(format!("is along axis {axis} of {name}{shape}, which is bounded"));
            }
            Some(Dim::Fixed(extent) | Dim::Open(extent)) if extent != count => {
                return wrong(format!(
                    "has {count} scales for axis {axis} of {name}{shape}, wanted {extent}"
                ));
            }
            Some(Dim::Fixed(_) | Dim::Open(_)) => {}
        }
        check_numbers(self.scales(), self.zero_points())?;
        let Some((low, high)) = dtype.and_then(range) else {
            return wrong(format!("is that of {name}{shape}, wanted u8, i8, u16, i16 or i32"));
        };
        let mut zero_points = self.zero_points().iter();
        match zero_points.position(|zero| !(low..=high).contains(zero)) {
            None => Ok(()),
            Some(at) => {
                let zero = self.zero_points().get(at).copied().unwrap_or_default();
                wrong(format!(
                    "of {name}{shape} has zero point {zero} at {at}, which {name} cannot hold"
                ))
            }
        }
    }
}

/// Whether these are the numbers of an encoding, and if not, why.
fn check_numbers(scales: &[f32], zero_points: &[i32]) -> Result<(), Error> {
    let (count, zeros) = (scales.len(), zero_points.len());
    if count != zeros {
        return Err(Error::new(format!(
            "an encoding per axis has {count} scales and {zeros} zero points, wanted as many"
        )));
    }
    match scales.iter().enumerate().find(|(_, scale)| !scale.is_finite() || **scale <= 0.0) {
        None => Ok(()),
        Some((at, scale)) => Err(Error::new(format!(
            "an encoding per axis has scale {scale} at {at}, wanted a finite one above 0"
        ))),
    }
}

/// The least and the largest element of a type that has encodings.
fn range(dtype: DType) -> Option<(i32, i32)> {
    let of = |low: i16, high: u16| Some((i32::from(low), i32::from(high)));
    match dtype {
        DType::U8 => of(0, 0xff),
        DType::I8 => of(-0x80, 0x7f),
        DType::U16 => of(0, 0xffff),
        DType::I16 => of(i16::MIN, 0x7fff),
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

/// What the stored integers of a tensor stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Encodings {
    /// All of them by one scale and zero point.
    PerTensor(Encoding),
    /// Those at each position of an axis by a scale and a zero point of their own.
    PerAxis(&'static AxisEncoding),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_encodings_are_kept_once() {
        let made = AxisEncoding::of(1, &[0.5, 0.25], &[3, -4]).unwrap();
        assert!(std::ptr::eq(made, AxisEncoding::of(1, &[0.5, 0.25], &[3, -4]).unwrap()));
        assert_eq!(
            (made.axis(), made.scales(), made.zero_points()),
            (1, &[0.5, 0.25][..], &[3, -4][..])
        );
        assert_eq!(made.at(1), Some(Encoding { scale: 0.25, zero_point: -4 }));
        assert_eq!(made.at(2), None);
        for other in [(0, [0.5, 0.25], [3, -4]), (1, [0.5, 0.5], [3, -4]), (1, [0.5, 0.25], [3, 4])]
        {
            assert_ne!(made, AxisEncoding::of(other.0, &other.1, &other.2).unwrap(), "{other:?}");
        }
    }

    #[test]
    fn numbers_that_are_no_encoding_are_refused() {
        let cases: [(&[f32], &[i32], &str); 4] = [
            (&[1.0, 2.0], &[0], "has 2 scales and 1 zero points, wanted as many"),
            (&[1.0, 0.0], &[0, 0], "has scale 0 at 1, wanted a finite one above 0"),
            (&[f32::NAN], &[0], "has scale NaN at 0, wanted a finite one above 0"),
            (&[f32::INFINITY], &[0], "has scale inf at 0, wanted a finite one above 0"),
        ];
        for (scales, zero_points, wanted) in cases {
            let error = AxisEncoding::of(0, scales, zero_points).unwrap_err();
            assert_eq!(error.to_string(), format!("an encoding per axis {wanted}"));
        }
    }
}
