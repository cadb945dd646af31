//! Shapes in the HTA's order, and layers that only change the shape: reshapes, and resizes that repeat pixels.

use udo_api::{DType, TensorDesc};
use udo_hta::Op;

use super::{LayerNode, LayerParts, Lowering};

/// A shape in the HTA's order, channels last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaped {
    /// Batch, height, width and channels.
    pub(super) nhwc: [usize; 4],
    /// Whether the tensor has four dimensions, which ONNX orders as batch, channels, height, width.
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

pub(super) fn reshape<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    let (x, y) = (lowering.shaped(layer, 0)?, lowering.output(layer)?);
    if x.nhwc != y.nhwc && !(x.has_same_bytes() && y.has_same_bytes()) {
        return Err("reshapes an image, whose bytes have another order on the HTA (channels last)"
            .to_owned());
    }
    Ok(LayerParts { op: Op::Reshape, reads: vec![0] })
}

/// Resizes to the nearest pixel by integer factors, if that repeats each pixel.
pub(super) fn resize<'a>(
    lowering: &Lowering<'a>,
    layer: &LayerNode<'a>,
) -> Result<LayerParts<'a>, String> {
    let (x, y) = (lowering.shaped(layer, 0)?, lowering.output(layer)?);
    let has_integer_factors = (1..3).all(|axis| {
        let (from, to) = (x.nhwc.get(axis), y.nhwc.get(axis));
        from.zip(to).is_some_and(|(from, to)| to.is_multiple_of(*from))
    });
    let coordinates = layer.text("coordinate_transformation_mode").unwrap_or("half_pixel");
    let rounding = layer.text("nearest_mode").unwrap_or("round_prefer_floor");
    let is_repeated =
        layer.text("mode") == Some("nearest") && repeats_pixels(coordinates, rounding);
    if !is_repeated || !has_integer_factors || !x.is_image {
        return Err("resizes other than by repeating pixels".to_owned());
    }
    Ok(LayerParts { op: Op::Resize, reads: vec![0] })
}

/// Returns whether a nearest resize by any integer factor repeats each pixel that many times (ONNX, Resize,
/// `coordinate_transformation_mode` and `nearest_mode`). With half pixels no coordinate is halfway between two pixels.
fn repeats_pixels(coordinates: &str, rounding: &str) -> bool {
    match coordinates {
        "asymmetric" => rounding == "floor",
        "half_pixel" => matches!(rounding, "round_prefer_floor" | "round_prefer_ceil"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::repeats_pixels;

    type Rounding = fn(f64) -> f64;
    /// The input coordinate of an output index and a factor.
    type Coordinate = fn(f64, f64) -> f64;

    #[test]
    fn repeated_pixels_follow_the_coordinates_of_onnx() {
        let roundings: [(&str, Rounding); 4] = [
            ("floor", f64::floor),
            ("ceil", f64::ceil),
            ("round_prefer_floor", |x| (x - 0.5).ceil()),
            ("round_prefer_ceil", |x| (x + 0.5).floor()),
        ];
        let coordinates: [(&str, Coordinate); 2] = [
            ("asymmetric", |i, factor| i / factor),
            ("half_pixel", |i, factor| (i + 0.5) / factor - 0.5),
        ];
        for (mode, source) in coordinates {
            for (rounding, round) in roundings {
                let is_repeated = (1..=4).all(|factor: u8| {
                    (0..4 * factor).all(|i| {
                        let index = round(source(f64::from(i), f64::from(factor))).clamp(0.0, 3.0);
                        (index - f64::from(i / factor)).abs() < 0.5
                    })
                });
                assert_eq!(repeats_pixels(mode, rounding), is_repeated, "{mode}, {rounding}");
            }
        }
    }
}
