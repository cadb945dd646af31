//! Shapes, and layers that only change the shape.

use udo_api::{DType, TensorDesc};
use udo_hta::Op;

use super::{LayerParts, Lowering, Use};

/// A shape in the HTA's form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaped {
    /// Batch, height, width and channels.
    pub(super) nhwc: [usize; 4],
    /// Whether ONNX has its channels second.
    pub(super) is_image: bool,
}

impl Shaped {
    pub(super) fn from_desc(desc: &TensorDesc) -> Result<Self, String> {
        if desc.dtype() != Some(DType::U8) {
            return Err(format!("has a tensor {desc}, expected u8"));
        }
        if !desc.full_shape().is_fixed() {
            return Err(format!("has a tensor {desc}, expected fixed extents"));
        }
        let nhwc = match *desc.shape() {
            [] => [1; 4],
            [channels] => [1, 1, 1, channels],
            [batch, channels] => [batch, 1, 1, channels],
            [batch, width, channels] => [batch, 1, width, channels],
            [batch, channels, height, width] => [batch, height, width, channels],
            _ => return Err(format!("has a tensor {desc}, expected four dimensions at most")),
        };
        Ok(Self { nhwc, is_image: desc.rank() == 4 })
    }

    /// Returns the ONNX axis of the channels.
    pub(super) fn channel_axis(self, rank: usize) -> usize {
        if self.is_image { 1 } else { rank.saturating_sub(1) }
    }

    /// Returns whether the byte order is that of ONNX.
    pub(super) fn has_same_bytes(self) -> bool {
        let [_, height, width, channels] = self.nhwc;
        !self.is_image || channels == 1 || height * width == 1
    }
}

pub(super) fn reshape<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    let (x, y) = (lowering.shaped(of, 0)?, lowering.output(of)?);
    if x.nhwc != y.nhwc && !(x.has_same_bytes() && y.has_same_bytes()) {
        return Err("reshapes an image, whose channels are last on the HTA".to_owned());
    }
    Ok(LayerParts { op: Op::Reshape, reads: vec![0] })
}

/// Resizes to the nearest pixel. With integer factors this repeats each pixel, in all coordinate modes.
pub(super) fn resize<'a>(lowering: &Lowering<'a>, of: &Use<'a>) -> Result<LayerParts<'a>, String> {
    let (x, y) = (lowering.shaped(of, 0)?, lowering.output(of)?);
    let is_whole = (1..3).all(|axis| {
        let (from, to) = (x.nhwc.get(axis), y.nhwc.get(axis));
        from.zip(to).is_some_and(|(from, to)| to.is_multiple_of(*from))
    });
    let places = of.text("coordinate_transformation_mode").unwrap_or("half_pixel");
    let is_repeated = match places {
        "asymmetric" => of.text("nearest_mode") == Some("floor"),
        "half_pixel" => true,
        _ => false,
    };
    if of.text("mode") != Some("nearest") || !is_repeated || !is_whole || !x.is_image {
        return Err("resizes other than by repeating pixels".to_owned());
    }
    Ok(LayerParts { op: Op::Resize, reads: vec![0] })
}
