//! The format of a value that a kernel receives: its description and its layout.
//!
//! Models use NCHW. Kernels that work pixel by pixel use NHWC. The planner converts values between kernels that
//! disagree.

use std::fmt;

use udo_api::{Layout, TensorDesc};

/// The format of a value that a kernel receives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// The type, encoding, and dimensions in memory order.
    pub desc: TensorDesc,
    /// The order of dimensions: the model's, or NHWC for a value that is NCHW in the model.
    layout: Layout,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.desc.fmt(f)?;
        if self.layout == Layout::Nhwc { f.write_str(" nhwc") } else { Ok(()) }
    }
}

impl Format {
    /// The format of a port that is left out.
    pub const ABSENT: Self = Self::from_desc(TensorDesc::ABSENT);

    /// Creates a format in the model's layout.
    pub const fn from_desc(desc: TensorDesc) -> Self {
        Self { desc, layout: Layout::AsGiven }
    }

    /// Returns the order of dimensions: [`Layout::AsGiven`] or [`Layout::Nhwc`].
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Creates a format in `layout`.
    pub const fn with_layout(desc: TensorDesc, layout: Layout) -> Self {
        Self { desc, layout }
    }

    /// Converts the format to another layout. `None` unless the value has four fixed dimensions, or already has
    /// that layout.
    pub fn in_layout(&self, layout: Layout) -> Option<Self> {
        let (layout, axes) = match layout {
            Layout::Nhwc => (Layout::Nhwc, Layout::NHWC_AXES),
            Layout::AsGiven | Layout::Nchw => (Layout::AsGiven, Layout::NCHW_AXES),
        };
        if self.layout == layout {
            return Some(*self);
        }
        let desc = self.desc.transposed(&axes).filter(|desc| desc.full_shape().is_fixed())?;
        Some(Self { desc, layout })
    }

    /// Returns whether the value has the same bytes in both layouts.
    pub fn has_same_bytes(&self) -> bool {
        let [_, rows, cols] = self.images();
        rows <= 1 || cols <= 1
    }

    /// Returns the number of images, and the rows and columns of the matrix that is transposed per image to
    /// convert to the other layout.
    pub(super) fn images(&self) -> [usize; 3] {
        images(self.desc.shape(), self.layout)
    }
}

/// Returns the number of images of a tensor, and the rows and columns of the matrix that is transposed per image
/// to convert to the other layout.
pub(super) fn images(dims: &[usize], layout: Layout) -> [usize; 3] {
    match (dims, layout) {
        (&[batch, a, b, c], Layout::Nhwc) => [batch, a * b, c],
        (&[batch, a, b, c], Layout::AsGiven | Layout::Nchw) => [batch, a, b * c],
        _ => [0; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_api::{AxisEncoding, DType, Dim, Shape};

    fn format(dims: &[usize]) -> Format {
        Format::from_desc(TensorDesc::new(DType::F32, Shape::new(dims).unwrap()))
    }

    #[test]
    fn channels_go_last_and_back() {
        let image = format(&[2, 3, 5, 7]);
        let last = image.in_layout(Layout::Nhwc).unwrap();
        assert_eq!(last.to_string(), "f32[2,5,7,3] nhwc");
        assert_eq!(last.in_layout(Layout::AsGiven), Some(image));
        assert_eq!(last.in_layout(Layout::Nchw), Some(image));
        assert_eq!((image.images(), last.images()), ([2, 3, 35], [2, 35, 3]));
        let axes: Vec<_> = (0..5).map(|axis| Layout::Nhwc.axis(axis)).collect();
        assert_eq!(axes, [Some(0), Some(3), Some(1), Some(2), None]);
        assert!(!image.has_same_bytes() && format(&[2, 1, 5, 7]).has_same_bytes());
    }

    #[test]
    fn an_encoding_follows_its_axis() {
        let encoding = AxisEncoding::intern(1, &[1.0, 2.0, 4.0], &[0, 1, 2]).unwrap();
        let desc = format(&[2, 3, 5, 7]).desc.with_dtype(DType::U8).with_axis_encoding(encoding);
        let last = Format::from_desc(desc).in_layout(Layout::Nhwc).unwrap();
        let found = last.desc.axis_encoding().unwrap();
        assert_eq!((found.axis(), found.scales()), (3, encoding.scales()));
        assert_eq!(last.in_layout(Layout::AsGiven), Some(Format::from_desc(desc)));
    }

    #[test]
    fn only_what_has_four_fixed_dimensions_has_another_layout() {
        assert_eq!(format(&[2, 3, 5]).in_layout(Layout::Nhwc), None);
        assert_eq!(format(&[2, 3]).in_layout(Layout::Nchw), Some(format(&[2, 3])));
        let dims = [Dim::UpTo(2), Dim::Fixed(3), Dim::Fixed(5), Dim::Fixed(7)];
        let shape = Shape::from_dims(&dims).unwrap();
        let bounded = Format::from_desc(TensorDesc::new(DType::F32, shape));
        assert_eq!(bounded.in_layout(Layout::Nhwc), None);
    }
}
