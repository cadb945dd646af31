//! Descriptions of tensors before a run.

use std::fmt;

use crate::dtype::{DType, TypeSet};
use crate::encoding::{AxisEncoding, Encoding, Encodings};
use crate::error::Error;
use crate::shape::Shape;

abi_struct! {
    /// The properties of a tensor that are known before a run: type, shape, and encoding if it is quantized.
    #[derive(Clone, Copy, PartialEq)]
    pub struct TensorDesc {
        shape: Shape,
        dtype: u8,
        has_encoding: u8,
        reserved: [u8; 6],
        encoding: Encoding,
        axis_encoding: Option<&'static AxisEncoding>,
        reserved_words: [u64; 3],
    }
}

impl TensorDesc {
    const NO_ENCODING: Encoding = Encoding { scale: 0.0, zero_point: 0 };

    /// The description of an omitted input or output.
    pub const ABSENT: Self = Self {
        shape: Shape::SCALAR,
        dtype: 0,
        has_encoding: 0,
        reserved: [0; 6],
        encoding: Self::NO_ENCODING,
        axis_encoding: None,
        reserved_words: [0; 3],
    };

    /// Creates a description without an encoding.
    pub const fn new(dtype: DType, shape: Shape) -> Self {
        Self { shape, dtype: dtype.code(), ..Self::ABSENT }
    }

    /// Sets one encoding for all elements.
    #[must_use]
    pub const fn with_encoding(mut self, encoding: Encoding) -> Self {
        (self.has_encoding, self.encoding, self.axis_encoding) = (1, encoding, None);
        self
    }

    /// Sets an encoding for each position of an axis.
    #[must_use]
    pub const fn with_axis_encoding(mut self, encoding: &'static AxisEncoding) -> Self {
        (self.has_encoding, self.encoding) = (0, Self::NO_ENCODING);
        self.axis_encoding = Some(encoding);
        self
    }

    /// Replaces the element type and removes the encoding.
    #[must_use]
    pub const fn with_dtype(self, dtype: DType) -> Self {
        Self::new(dtype, self.shape)
    }

    /// Replaces the shape. An encoding for all elements stays; one per axis is removed, since only the producer knows
    /// the new axis, which it sets with [`TensorDesc::with_axis_encoding`].
    #[must_use]
    pub const fn with_shape(mut self, shape: Shape) -> Self {
        (self.shape, self.axis_encoding) = (shape, None);
        self
    }

    /// Replaces bounded dimensions with their sizes in one run.
    #[must_use]
    pub const fn with_extents(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Returns the tensor whose axis `i` is axis `order[i]` of this one, with its encoding; `None` if `order` is not a
    /// permutation.
    pub fn transposed(&self, order: &[usize]) -> Option<Self> {
        let dims = order.iter().map(|&axis| self.shape.dim(axis)).collect::<Option<Vec<_>>>()?;
        let names_all = (0..self.rank()).all(|axis| order.contains(&axis));
        let shape =
            Shape::from_dims(&dims).ok().filter(|_| names_all && dims.len() == self.rank())?;
        let mut permuted = self.with_shape(shape);
        if let Some(encoding) = self.axis_encoding {
            let axis = order.iter().position(|&axis| axis == encoding.axis())?;
            let (scales, zero_points) = (encoding.scales(), encoding.zero_points());
            permuted.axis_encoding = Some(AxisEncoding::intern(axis, scales, zero_points).ok()?);
        }
        Some(permuted)
    }

    /// Returns the element type; `None` for an absent tensor.
    pub const fn dtype(&self) -> Option<DType> {
        DType::from_code(self.dtype)
    }

    /// Whether the fields of a foreign description are valid.
    pub fn is_sound(&self) -> bool {
        let typed = self.dtype == 0 || self.dtype().is_some_and(|t| t.size_bytes() > 0);
        let plain = self.reserved == [0; 6] && self.reserved_words == [0; 3];
        typed
            && plain
            && self.has_encoding <= 1
            && self.shape.is_sound()
            && self.check_encoding().is_ok()
    }

    /// Checks that an encoding per axis fits the tensor.
    ///
    /// # Errors
    /// It does not fit; the message says why.
    pub fn check_encoding(&self) -> Result<(), Error> {
        match self.axis_encoding {
            Some(_) if self.has_encoding != 0 => {
                Err(Error::new("a tensor has both an encoding and one per axis"))
            }
            Some(encoding) => encoding.check(self.dtype(), &self.shape),
            None => Ok(()),
        }
    }

    /// Whether the node omits this port.
    pub const fn is_absent(&self) -> bool {
        self.dtype == 0
    }

    /// Whether the tensor is present with a type in `types`.
    pub fn is_in(&self, types: TypeSet) -> bool {
        self.dtype().is_some_and(|t| types.has(t))
    }

    /// Returns the dimensions; bounded ones as their upper bounds.
    pub fn shape(&self) -> &[usize] {
        self.shape.dims()
    }

    /// Returns the shape with its bounds.
    pub const fn full_shape(&self) -> Shape {
        self.shape
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// Returns the number of elements, or its upper bound.
    pub fn len(&self) -> usize {
        self.shape.len()
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.is_empty()
    }

    /// Returns the size of the elements in bytes, or its upper bound.
    pub fn size_bytes(&self) -> usize {
        self.dtype().map_or(0, |t| self.len().saturating_mul(t.size_bytes()))
    }

    /// Returns the encoding of a fixed-point tensor, if all elements have the same one.
    pub fn encoding(&self) -> Option<Encoding> {
        (self.has_encoding != 0).then_some(self.encoding)
    }

    /// Returns the encoding for each position of an axis, if the tensor has one. Kernels get such tensors only on ports
    /// whose rules say [`per_axis`](crate::PortRule::per_axis).
    pub const fn axis_encoding(&self) -> Option<&'static AxisEncoding> {
        self.axis_encoding
    }

    /// Replaces the encodings.
    #[must_use]
    pub const fn with_encodings(self, encodings: Encodings) -> Self {
        match encodings {
            Encodings::PerTensor(encoding) => self.with_encoding(encoding),
            Encodings::PerAxis(encoding) => self.with_axis_encoding(encoding),
        }
    }

    /// Returns the encodings of a fixed-point tensor, per tensor or per axis.
    pub fn encodings(&self) -> Option<Encodings> {
        match self.axis_encoding() {
            Some(encoding) => Some(Encodings::PerAxis(encoding)),
            None => self.encoding().map(Encodings::PerTensor),
        }
    }
}

impl fmt::Display for TensorDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype() {
            None => f.write_str("absent"),
            Some(dtype) => write!(f, "{dtype}{}", self.shape),
        }
    }
}

impl fmt::Debug for TensorDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Dim;

    fn shape(dims: &[Dim]) -> Shape {
        Shape::from_dims(dims).unwrap()
    }

    #[test]
    fn descriptions_print_type_and_shape() {
        let bounded = shape(&[Dim::Fixed(2), Dim::UpTo(6)]);
        assert_eq!(TensorDesc::new(DType::I64, bounded).to_string(), "i64[2,<=6]");
        assert_eq!(TensorDesc::ABSENT.to_string(), "absent");
    }

    #[test]
    fn an_encoding_per_axis_must_fit_the_tensor() {
        use Dim::{Fixed, UpTo};
        let dims = shape(&[UpTo(2), Fixed(3)]);
        let cases = [
            (DType::I8, 1, [0, -128, 127], None),
            (
                DType::U8,
                1,
                [0, -1, 0],
                Some("of u8[<=2,3] has zero point -1 at 1, which u8 cannot hold"),
            ),
            (
                DType::I16,
                1,
                [0, 0, 1 << 15],
                Some("of i16[<=2,3] has zero point 32768 at 2, which i16 cannot hold"),
            ),
            (DType::F32, 1, [0; 3], Some("is on f32[<=2,3], expected u8, i8, u16, i16 or i32")),
            (DType::I8, 2, [0; 3], Some("is along axis 2 of i8[<=2,3]")),
            (DType::I8, 0, [0; 3], Some("is along axis 0 of i8[<=2,3], which is bounded")),
        ];
        for (dtype, axis, zero_points, expected) in cases {
            let encoding = AxisEncoding::intern(axis, &[1.0; 3], &zero_points).unwrap();
            let desc = TensorDesc::new(dtype, dims).with_axis_encoding(encoding);
            let message = desc.check_encoding().err().map(|error| error.to_string());
            assert_eq!(message, expected.map(|fault| format!("an encoding per axis {fault}")));
            assert_eq!(desc.is_sound(), expected.is_none());
        }
        let desc = TensorDesc::new(DType::I8, shape(&[Fixed(2), Fixed(2)]));
        let desc = desc.with_axis_encoding(AxisEncoding::intern(1, &[1.0; 3], &[0; 3]).unwrap());
        let error = desc.check_encoding().unwrap_err().to_string();
        assert_eq!(error, "an encoding per axis has 3 scales for axis 1 of i8[2,2], expected 2");
    }

    #[test]
    fn setting_an_encoding_replaces_the_other_kind() {
        let plain = TensorDesc::new(DType::U8, Shape::new(&[2, 3, 4]).unwrap());
        let encoding = Encoding { scale: 0.5, zero_point: 7 };
        let axis = AxisEncoding::intern(1, &[1.0, 2.0, 4.0], &[1, 2, 3]).unwrap();
        assert_eq!(plain.encodings(), None);
        let per_tensor = plain.with_axis_encoding(axis).with_encoding(encoding);
        assert_eq!((per_tensor.encoding(), per_tensor.axis_encoding()), (Some(encoding), None));
        let per_axis = plain.with_encoding(encoding).with_axis_encoding(axis);
        assert_eq!((per_axis.encoding(), per_axis.axis_encoding()), (None, Some(axis)));
        assert_ne!(per_axis, plain, "another encoding is another description");
        assert_eq!(plain.with_encodings(Encodings::PerAxis(axis)), per_axis);
        assert_eq!(plain.with_encodings(Encodings::PerTensor(encoding)), per_tensor);
        // Only the producer of the other tensor knows its axis.
        assert_eq!(per_axis.with_shape(Shape::new(&[4, 3, 2]).unwrap()).encodings(), None);
        assert_eq!(per_axis.with_dtype(DType::I8).encodings(), None);
        let permuted = per_axis.transposed(&[2, 0, 1]).unwrap();
        assert_eq!(
            (permuted.shape(), permuted.axis_encoding().unwrap().axis()),
            (&[4, 2, 3][..], 2)
        );
        assert_eq!(permuted.transposed(&[1, 2, 0]), Some(per_axis));
        for order in [&[0, 1][..], &[0, 1, 3], &[0, 1, 1]] {
            assert_eq!(per_axis.transposed(order), None, "{order:?}");
        }
    }

    #[test]
    fn setting_extents_keeps_the_encoding() {
        let bounded = shape(&[Dim::UpTo(5), Dim::Fixed(2)]);
        let axis = AxisEncoding::intern(1, &[1.0, 2.0], &[0, 0]).unwrap();
        let desc = TensorDesc::new(DType::I8, bounded).with_axis_encoding(axis);
        let resized = desc.with_extents(Shape::new(&[3, 2]).unwrap());
        assert_eq!((resized.shape(), resized.axis_encoding()), (&[3, 2][..], Some(axis)));
    }
}
