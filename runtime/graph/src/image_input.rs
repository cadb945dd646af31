//! Images in camera formats as inputs of a model: nodes at the start of the graph convert them to the channels that the
//! model was trained on.
//!
//! The nodes are ordinary operators (Gather, Slice, Resize, Conv), so they run on every core and are quantized with the
//! model. YUV images follow JFIF: full range, the coefficients of ITU-T T.871, and one chroma sample per 2x2 pixels.

use std::fmt;
use std::str::FromStr;

use udo_api::{DType, Shape};

use crate::graph::{Attr, DimSpec, Graph, NEWEST, Node, Source, TensorType, ValueId};
use crate::memory::Tensor;

/// A pixel format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorEncoding {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Red, green, blue, alpha; alpha is ignored.
    Rgba,
    /// 32-bit words of alpha, red, green, blue on a little-endian machine: blue, green, red, alpha in memory. Alpha is
    /// ignored.
    Argb32,
    /// YUV 4:2:0: a plane of luma, then rows of interleaved chroma at half the resolution, V before U.
    Nv21,
    /// The same with U before V.
    Nv12,
}

/// The order of the three channels that a model expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorOrder {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red.
    Bgr,
}

const ENCODINGS: &[(&str, ColorEncoding)] = &[
    ("rgb", ColorEncoding::Rgb),
    ("bgr", ColorEncoding::Bgr),
    ("rgba", ColorEncoding::Rgba),
    ("argb32", ColorEncoding::Argb32),
    ("nv21", ColorEncoding::Nv21),
    ("nv12", ColorEncoding::Nv12),
];

/// An alias of [`ColorEncoding::Argb32`].
const ARGB: &str = "argb";

/// An image input: its name, the pixel format of its images, and the channel order that the model expects. Written `x=nv21` or
/// `x=rgba:bgr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageInput {
    /// The input's name.
    pub name: String,
    /// The pixel format of the images that the caller of a run passes.
    pub from: ColorEncoding,
    /// The channel order that the model expects.
    pub to: ColorOrder,
}

/// The reason why an input cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageInputError {
    /// The model has no such input.
    #[error("the model has no input {name:?}, expected one of {}", .known.join(", "))]
    NoSuchInput {
        /// The requested name.
        name: String,
        /// The model's inputs.
        known: Vec<String>,
    },
    /// The input is not an image of three channels.
    #[error(
        "input {name:?} is {found}, expected an image of 3 channels as f32[1,3,224,224] or u8[1,224,224,3]"
    )]
    NoImage {
        /// The input.
        name: String,
        /// Its type.
        found: String,
    },
    /// The input's height or width is dynamic or odd.
    #[error(
        "input {name:?} is {found}, expected an even height and width for an image of {encoding}"
    )]
    OddExtents {
        /// The input.
        name: String,
        /// Its type.
        found: String,
        /// The pixel format.
        encoding: ColorEncoding,
    },
    /// The input is also an output, or shares memory with one.
    #[error("input {name:?} is also an output, expected an input that only nodes read")]
    IsOutput {
        /// The input.
        name: String,
    },
    /// The input was converted before.
    #[error("the model already has a value {name:?}, expected an input without a conversion")]
    IsConverted {
        /// The name of the converted value.
        name: String,
    },
}

impl fmt::Display for ColorEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = ENCODINGS.iter().find(|(_, encoding)| encoding == self);
        f.write_str(row.map_or("", |(name, _)| name))
    }
}

impl fmt::Display for ColorOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rgb => "rgb",
            Self::Bgr => "bgr",
        })
    }
}

impl fmt::Display for ImageInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}:{}", self.name, self.from, self.to)
    }
}

impl FromStr for ImageInput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = ENCODINGS.iter().map(|(name, _)| *name).collect();
        let expected = || {
            format!(
                "expected NAME=FORMAT or NAME=FORMAT:rgb|bgr, with a format of {}",
                names.join(", ")
            )
        };
        let (name, formats) = text.rsplit_once('=').ok_or_else(expected)?;
        let (from, to) = match formats.split_once(':') {
            Some((from, to)) => (from, Some(to)),
            None => (formats, None),
        };
        let from = if from == ARGB { "argb32" } else { from };
        let from = ENCODINGS.iter().find(|(known, _)| *known == from).ok_or_else(expected)?.1;
        let to = match to {
            Some("rgb") => ColorOrder::Rgb,
            Some("bgr") => ColorOrder::Bgr,
            Some(_) => return Err(expected()),
            // RGB images for a model that expects RGB need no conversion, so the model must expect BGR.
            None if from == ColorEncoding::Rgb => ColorOrder::Bgr,
            None => ColorOrder::Rgb,
        };
        let name = Some(name).filter(|name| !name.is_empty()).ok_or_else(expected)?;
        Ok(Self { name: name.to_owned(), from, to })
    }
}

impl ColorEncoding {
    /// Returns, for each channel of the order `to`, its index in a pixel of this format; `None` for YUV.
    fn channels(self, to: ColorOrder) -> Option<[i64; 3]> {
        let rgb = match self {
            Self::Rgb | Self::Rgba => [0, 1, 2],
            Self::Bgr | Self::Argb32 => [2, 1, 0],
            Self::Nv21 | Self::Nv12 => return None,
        };
        Some(match to {
            ColorOrder::Rgb => rgb,
            ColorOrder::Bgr => [rgb[2], rgb[1], rgb[0]],
        })
    }

    /// Returns the extent of the channel dimension of an encoded image. YUV planes share one channel.
    fn channel_count(self) -> usize {
        match self {
            Self::Rgb | Self::Bgr => 3,
            Self::Rgba | Self::Argb32 => 4,
            Self::Nv21 | Self::Nv12 => 1,
        }
    }
}

/// The positions of an image's dimensions in an input.
struct Layout {
    channels: usize,
    height: usize,
}

impl Layout {
    /// Finds the channel dimension of an image with three channels. If both dimensions fit, the image is NCHW, as is usual in
    /// ONNX.
    fn find(dims: &[DimSpec]) -> Option<Self> {
        let is_three = |axis: usize| dims.get(axis) == Some(&DimSpec::Fixed(3));
        match dims.len() {
            4 if is_three(1) => Some(Self { channels: 1, height: 2 }),
            4 if is_three(3) => Some(Self { channels: 3, height: 1 }),
            _ => None,
        }
    }

    /// Whether the channels are the last dimension.
    fn is_last(&self) -> bool {
        self.channels == 3
    }
}

/// Returns the shape of the encoded image for a model input with these dimensions. `None` if the input is not such an image.
pub fn encoded_shape(dims: &[DimSpec], from: ColorEncoding) -> Option<Vec<DimSpec>> {
    let layout = Layout::find(dims)?;
    let mut encoded = dims.to_vec();
    *encoded.get_mut(layout.channels)? = DimSpec::Fixed(from.channel_count());
    if from.channel_count() == 1 {
        let (height, width) = even_extents(dims, &layout)?;
        *encoded.get_mut(layout.height)? = DimSpec::Fixed(height.checked_add(height / 2)?);
        *encoded.get_mut(layout.height + 1)? = DimSpec::Fixed(width);
    }
    Some(encoded)
}

/// Returns height and width if both are fixed and even: chroma has half the resolution.
fn even_extents(dims: &[DimSpec], layout: &Layout) -> Option<(usize, usize)> {
    let extent = |axis: usize| match dims.get(axis) {
        Some(DimSpec::Fixed(extent)) if extent % 2 == 0 && *extent > 0 => Some(*extent),
        _ => None,
    };
    Some((extent(layout.height)?, extent(layout.height + 1)?))
}

/// Makes an input accept images of another pixel format. The input keeps its name and position and gets the shape of the
/// format. New nodes convert it to the value that the model reads.
///
/// # Errors
/// Fails without a change if the input does not exist or is not an image of three channels.
pub fn convert_input(graph: &mut Graph, image: &ImageInput) -> Result<(), ImageInputError> {
    let name = || image.name.clone();
    let value_name = |id: &ValueId| graph.value(*id).map(|value| value.name.clone());
    let known: Vec<String> = graph.inputs.iter().filter_map(|id| value_name(id).ok()).collect();
    let Some(index) = known.iter().position(|known| *known == image.name) else {
        return Err(ImageInputError::NoSuchInput { name: name(), known });
    };
    let Some(&old) = graph.inputs.get(index) else {
        return Err(ImageInputError::NoSuchInput { name: name(), known });
    };
    let model_type = match graph.value(old).map(|value| &value.source) {
        Ok(Source::Input(tensor_type)) => tensor_type.clone(),
        _ => return Err(ImageInputError::NoSuchInput { name: name(), known }),
    };
    let found = model_type.to_string();
    let is_pixel_type = matches!(model_type.dtype, DType::F32 | DType::F16 | DType::U8);
    let Some(layout) = Layout::find(&model_type.dims).filter(|_| is_pixel_type) else {
        return Err(ImageInputError::NoImage { name: name(), found });
    };
    let Some(dims) = encoded_shape(&model_type.dims, image.from) else {
        return Err(ImageInputError::OddExtents { name: name(), found, encoding: image.from });
    };
    let has_name =
        |(input, output): &(String, String)| *input == image.name || *output == image.name;
    if graph.outputs.contains(&old) || graph.in_place.iter().any(has_name) {
        return Err(ImageInputError::IsOutput { name: name() });
    }
    let colors = format!("{}/{}", image.name, image.to);
    if graph.value_named(&colors).is_some() {
        return Err(ImageInputError::IsConverted { name: colors });
    }
    // The new input replaces the old one in the list, instead of being the last.
    let new = graph.add_input(&image.name, model_type.dtype, dims);
    graph.inputs.pop();
    if let Some(input) = graph.inputs.get_mut(index) {
        *input = new;
    }
    let mut conversion = Conversion { graph, nodes: Vec::new(), image };
    match image.from.channels(image.to) {
        Some(channels) => conversion.reorder_channels(new, old, &channels, layout.channels),
        None => conversion.convert_yuv((new, old), &model_type, &layout),
    }
    let nodes = conversion.nodes;
    if let Some(value) = graph.values.get_mut(old.index()) {
        value.name = colors;
        value.source = Source::Computed;
        value.declared = Some(model_type);
    }
    graph.nodes.splice(..0, nodes);
    Ok(())
}

/// The state of building the nodes of a conversion.
struct Conversion<'a> {
    graph: &'a mut Graph,
    nodes: Vec<Node>,
    image: &'a ImageInput,
}

/// The matrix of ITU-T T.871, section 7, from Y, U and V to red, green and blue.
const MATRIX: [[f32; 3]; 3] = [[1.0, 0.0, 1.402], [1.0, -0.344_136, -0.714_136], [1.0, 1.772, 0.0]];

/// The chroma value of grey.
const GREY: f32 = 128.0;

impl Conversion<'_> {
    /// Returns the full name of a node or value of the conversion.
    fn name_of(&self, name: &str) -> String {
        format!("{}/{}/{name}", self.image.name, self.image.from)
    }

    fn constant<T: udo_api::Element>(
        &mut self,
        name: &str,
        dims: &[usize],
        values: &[T],
    ) -> ValueId {
        let tensor = Shape::new(dims).ok().and_then(|shape| Tensor::from_slice(shape, values).ok());
        let name = self.name_of(name);
        match tensor {
            Some(tensor) => self.graph.add_constant(&name, tensor),
            // Unreachable: the elements fit the shape.
            None => self.graph.add_value(&name),
        }
    }

    /// Adds a node with one output: `output`, or else a new value.
    fn node(
        &mut self,
        name: &str,
        op: &str,
        inputs: &[ValueId],
        output: Option<ValueId>,
    ) -> ValueId {
        let name = self.name_of(name);
        let output = output.unwrap_or_else(|| self.graph.add_value(&name));
        let mut node = Node::new(op, NEWEST, inputs, &[output]);
        node.name = name;
        self.nodes.push(node);
        output
    }

    /// Sets an attribute of the last node.
    fn set(&mut self, name: &str, value: Attr) {
        if let Some(node) = self.nodes.last_mut() {
            node.attrs.push((name.to_owned(), value));
        }
    }

    /// Selects channels by index.
    fn reorder_channels(&mut self, from: ValueId, to: ValueId, channels: &[i64; 3], axis: usize) {
        let order = self.constant("order", &[3], channels);
        self.node("channels", "Gather", &[from, order], Some(to));
        self.set("axis", Attr::Int(if axis == 1 { 1 } else { 3 }));
    }

    /// Converts a YUV image to colours of the type `model_type`: computes in f32 and NCHW, and clips to 0..255.
    fn convert_yuv(
        &mut self,
        (from, to): (ValueId, ValueId),
        model_type: &TensorType,
        layout: &Layout,
    ) {
        let Some((height, width)) = even_extents(&model_type.dims, layout) else { return };
        let is_f32 = model_type.dtype == DType::F32;
        let mut pixels = from;
        if layout.is_last() {
            pixels = self.transpose("planes", pixels, [0, 3, 1, 2], None);
        }
        if !is_f32 {
            pixels = self.cast("real", pixels, DType::F32, None);
        }
        let luma = self.rows("luma", pixels, (0, height));
        let chroma = self.rows("chroma", pixels, (height, height + height / 2));
        let extents = [0, signed(height / 2), signed(width / 2), 2];
        let shape = self.constant("chroma_shape", &[4], &extents);
        let chroma = self.node("chroma_pairs", "Reshape", &[chroma, shape], None);
        let chroma = self.transpose("chroma_planes", chroma, [0, 3, 1, 2], None);
        let chroma = self.upsample_chroma(chroma);
        let yuv = self.node("yuv", "Concat", &[luma, chroma], None);
        self.set("axis", Attr::Int(1));
        let colors = self.yuv_to_rgb(yuv);
        let (low, high) =
            (self.constant("low", &[], &[0.0f32]), self.constant("high", &[], &[255.0f32]));
        let is_final = is_f32 && !layout.is_last();
        let clipped = self.node("clip", "Clip", &[colors, low, high], is_final.then_some(to));
        let mut last = clipped;
        if model_type.dtype == DType::U8 {
            last = self.node("round", "Round", &[last], None);
        }
        if !is_f32 {
            let output = (!layout.is_last()).then_some(to);
            last = self.cast("narrow", last, model_type.dtype, output);
        }
        if layout.is_last() {
            self.transpose("pixels", last, [0, 2, 3, 1], Some(to));
        }
    }

    fn transpose(
        &mut self,
        name: &str,
        from: ValueId,
        perm: [i64; 4],
        to: Option<ValueId>,
    ) -> ValueId {
        let to = self.node(name, "Transpose", &[from], to);
        self.set("perm", Attr::Ints(perm.to_vec()));
        to
    }

    fn cast(&mut self, name: &str, from: ValueId, dtype: DType, to: Option<ValueId>) -> ValueId {
        let to = self.node(name, "Cast", &[from], to);
        self.set("to", Attr::Int(i64::from(dtype.onnx())));
        to
    }

    /// Slices the rows from `start` to `end`.
    fn rows(&mut self, name: &str, from: ValueId, (start, end): (usize, usize)) -> ValueId {
        let start = self.constant(&format!("{name}_start"), &[1], &[signed(start)]);
        let end = self.constant(&format!("{name}_end"), &[1], &[signed(end)]);
        let axis = self.constant(&format!("{name}_axis"), &[1], &[2i64]);
        self.node(name, "Slice", &[from, start, end, axis], None)
    }

    /// Repeats each chroma sample for 2x2 pixels.
    fn upsample_chroma(&mut self, chroma: ValueId) -> ValueId {
        let scales = self.constant("scales", &[4], &[1.0f32, 1.0, 2.0, 2.0]);
        // `node` cannot add it: the second input, the region of interest, is omitted.
        let name = self.name_of("chroma_pixels");
        let output = self.graph.add_value(&name);
        let mut node = Node::new("Resize", NEWEST, &[chroma], &[output]);
        node.inputs.extend([None, Some(scales)]);
        node.name = name;
        self.nodes.push(node);
        for (attribute, text) in [
            ("mode", "nearest"),
            ("coordinate_transformation_mode", "asymmetric"),
            ("nearest_mode", "floor"),
        ] {
            self.set(attribute, Attr::Text(text.to_owned()));
        }
        output
    }

    /// Converts Y and the two chroma planes, in the order of the image, to colours: a 1x1 convolution with [`MATRIX`].
    fn yuv_to_rgb(&mut self, yuv: ValueId) -> ValueId {
        let mut weights = Vec::with_capacity(9);
        let mut biases = Vec::with_capacity(3);
        let order = match self.image.to {
            ColorOrder::Rgb => [0usize, 1, 2],
            ColorOrder::Bgr => [2, 1, 0],
        };
        for [y, u, v] in order.iter().filter_map(|&row| MATRIX.get(row)).copied() {
            let is_v_first = self.image.from == ColorEncoding::Nv21;
            weights.extend(if is_v_first { [y, v, u] } else { [y, u, v] });
            biases.push(-GREY * (u + v));
        }
        let weights = self.constant("matrix", &[3, 3, 1, 1], &weights);
        let biases = self.constant("bias", &[3], &biases);
        self.node("colors", "Conv", &[yuv, weights, biases], None)
    }
}

/// Converts an extent to ONNX's integer type.
fn signed(extent: usize) -> i64 {
    i64::try_from(extent).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(input_type: &str) -> Graph {
        Graph::parse(&format!(
            "graph g\n  input x: {input_type}\n  y = Neg@13(x) # y\n  output y\n"
        ))
        .unwrap()
    }

    #[test]
    fn formats_have_a_default_order() {
        let parsed = |text: &str| text.parse::<ImageInput>().map(|image| image.to_string());
        assert_eq!(parsed("x=nv21").unwrap(), "x=nv21:rgb");
        assert_eq!(parsed("a=b=argb").unwrap(), "a=b=argb32:rgb");
        assert_eq!(parsed("x=rgb").unwrap(), "x=rgb:bgr");
        assert_eq!(parsed("x=rgba:bgr").unwrap(), "x=rgba:bgr");
        for wrong in ["x", "=rgb", "x=yuv", "x=nv12:grey", "x="] {
            assert!(parsed(wrong).unwrap_err().starts_with("expected NAME=FORMAT"), "{wrong}");
        }
    }

    #[test]
    fn the_input_gets_the_shape_of_its_format() {
        let rows = [
            ("f32[n,3,6,4]", "x=nv21", "f32[n,1,9,4]"),
            ("u8[1,6,4,3]", "x=nv12", "u8[1,9,4,1]"),
            ("f32[1,3,h,w]", "x=rgba", "f32[1,4,h,w]"),
            ("f16[1,5,5,3]", "x=bgr", "f16[1,5,5,3]"),
        ];
        for (input_type, image, expected) in rows {
            let mut graph = model(input_type);
            convert_input(&mut graph, &image.parse().unwrap()).unwrap();
            graph.verify().unwrap();
            let Source::Input(found) = &graph.value(graph.inputs[0]).unwrap().source else {
                panic!("{input_type}: no input");
            };
            assert_eq!(found.to_string(), expected);
        }
    }

    #[test]
    fn inputs_other_than_images_are_refused() {
        let rows = [
            ("f32[1,3,4,4]", "z=nv21", "the model has no input \"z\", expected one of x"),
            (
                "f32[1,3,5,4]",
                "x=nv21",
                "input \"x\" is f32[1,3,5,4], expected an even height and width for an image of nv21",
            ),
            (
                "f32[1,3,h,4]",
                "x=nv12",
                "input \"x\" is f32[1,3,h,4], expected an even height and width for an image of nv12",
            ),
            (
                "f32[1,1,4,4]",
                "x=rgba",
                "input \"x\" is f32[1,1,4,4], expected an image of 3 channels as f32[1,3,224,224] or u8[1,224,224,3]",
            ),
            (
                "i64[1,3,4,4]",
                "x=rgba",
                "input \"x\" is i64[1,3,4,4], expected an image of 3 channels as f32[1,3,224,224] or u8[1,224,224,3]",
            ),
        ];
        for (input_type, image, expected) in rows {
            let mut graph = model(input_type);
            let error = convert_input(&mut graph, &image.parse().unwrap()).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert_eq!(graph.to_string(), model(input_type).to_string(), "unchanged");
        }
        let mut graph = model("f32[1,3,4,4]");
        let image: ImageInput = "x=bgr".parse().unwrap();
        convert_input(&mut graph, &image).unwrap();
        let error = convert_input(&mut graph, &image).unwrap_err().to_string();
        assert_eq!(
            error,
            "the model already has a value \"x/rgb\", expected an input without a conversion"
        );
    }
}
