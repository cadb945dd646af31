//! Specifications of inputs and outputs: tensor descriptions with dynamic dimensions.

use std::fmt;

use udo_api::{DType, Dim, Encodings, Layout, Shape, TensorDesc, types};

use super::packing::Packing;
use udo_graph::error::{Error, ErrorCode, Result, invalid};

/// The highest rank that a tensor may have.
const MAX_RANK: usize = 8;

/// One dimension of a [`TensorSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// This many elements.
    Fixed(usize),
    /// Between two numbers of elements, both included.
    Range {
        /// The least.
        min: usize,
        /// The most.
        max: usize,
    },
    /// Any number of elements.
    Open,
}

impl Extent {
    /// The least and the most.
    const fn bounds(self) -> (usize, usize) {
        match self {
            Self::Fixed(n) => (n, n),
            Self::Range { min, max } => (min, max),
            Self::Open => (0, usize::MAX),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Range { min, max } => write!(f, "{min}..={max}"),
            Self::Open => f.write_str("?"),
        }
    }
}

/// The tensors that an input or output accepts: a [`TensorDesc`] whose dimensions may be dynamic, with or without ranges,
/// a layout and a packing.
///
/// ```
/// use udo_api::DType;
/// use udo_engine::device::{ErrorCode, Extent, Packing, SpecDetails, TensorSpec};
///
/// let spec = TensorSpec::new(DType::U8, &[Extent::Range { min: 1, max: 8 }, Extent::Fixed(2)])?;
/// let spec = spec.with_packing(Packing::N4)?;
/// assert_eq!(spec.byte_size().unwrap_err().code(), ErrorCode::DynamicShape);
/// let five = TensorSpec::fixed(DType::U8, &[5, 2])?.with_packing(Packing::N4)?;
/// assert_eq!((five.byte_size()?, five.storage_size()?), (10, 16));
/// assert_eq!(spec.to_string(), "u8[1..=8,2] 4n");
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq)]
pub struct TensorSpec {
    /// Dimensions that are not fixed are bounded in it, by 0 where nothing bounds them.
    desc: TensorDesc,
    /// The least extent of each dimension that is not fixed.
    least: [usize; MAX_RANK],
    /// A bit per dimension that nothing bounds.
    unbounded: u8,
    layout: Layout,
    packing: Packing,
}

impl TensorSpec {
    /// Tensors of this type and these dimensions.
    ///
    /// # Errors
    /// Text, more than eight dimensions, a range that ends before it starts, or more elements than can be counted.
    pub fn new(dtype: DType, extents: &[Extent]) -> Result<Self> {
        if !types::ANY.has(dtype) {
            return Err(invalid(format!("a tensor of {dtype}; expected one of {}", types::ANY)));
        }
        let mut least = [0; MAX_RANK];
        let mut unbounded = 0;
        let mut dims = Vec::with_capacity(extents.len());
        for (axis, extent) in extents.iter().enumerate() {
            dims.push(match *extent {
                Extent::Fixed(n) => Dim::Fixed(n),
                Extent::Range { min, max } if min > max => {
                    return Err(invalid(format!(
                        "dimension {axis} is {min} to {max}; expected the least first"
                    )));
                }
                Extent::Range { max, .. } => Dim::UpTo(max),
                Extent::Open => Dim::UpTo(0),
            });
            if let (Extent::Range { min, .. }, Some(least)) = (extent, least.get_mut(axis)) {
                *least = *min;
            }
            unbounded |= u8::from(*extent == Extent::Open).checked_shl(shift(axis)).unwrap_or(0);
        }
        let shape =
            Shape::from_dims(&dims).map_err(|error| invalid(format!("a tensor's {error}")))?;
        let desc = TensorDesc::new(dtype, shape);
        Ok(Self { desc, least, unbounded, layout: Layout::AsGiven, packing: Packing::N1 })
    }

    /// Tensors of this type and shape.
    ///
    /// # Errors
    /// As for [`TensorSpec::new`].
    pub fn fixed(dtype: DType, dims: &[usize]) -> Result<Self> {
        Self::new(dtype, &dims.iter().map(|&n| Extent::Fixed(n)).collect::<Vec<_>>())
    }

    /// The same tensors in this layout.
    ///
    /// # Errors
    /// A layout of images and not four dimensions.
    pub fn with_layout(self, layout: Layout) -> Result<Self> {
        let is_of_images = match layout {
            Layout::AsGiven => false,
            Layout::Nchw | Layout::Nhwc => true,
        };
        if is_of_images && self.rank() != 4 {
            let name = layout_name(layout);
            return Err(invalid(format!(
                "{self} cannot be {name}: it has {} dimensions, expected 4",
                self.rank()
            )));
        }
        Ok(Self { layout, ..self })
    }

    /// The same tensors, whose elements stand for real numbers so.
    ///
    /// # Errors
    /// Encodings that are not for this type or shape.
    pub fn with_encodings(self, encodings: Encodings) -> Result<Self> {
        let desc = self.desc.with_encodings(encodings);
        check_encoding(&desc).map_err(|why| invalid(format!("{self}: {why}")))?;
        Ok(Self { desc, ..self })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        // A spec is never of a tensor that is left out.
        self.desc.dtype().unwrap_or(DType::U8)
    }

    fn element_bytes(&self) -> usize {
        self.dtype().size_bytes()
    }

    /// All dimensions, outermost first.
    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        (0..self.rank()).filter_map(|axis| self.extent(axis))
    }

    /// The order of the dimensions.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the quantization parameters of quantized elements.
    pub fn encodings(&self) -> Option<Encodings> {
        self.desc.encodings()
    }

    /// The extents.
    ///
    /// # Errors
    /// A dimension is open.
    pub fn dims(&self) -> Result<&[usize]> {
        self.check_fixed("its shape")?;
        Ok(self.desc.shape())
    }

    /// Bytes of a tensor's elements.
    ///
    /// # Errors
    /// A dimension is open.
    pub fn byte_size(&self) -> Result<u64> {
        self.check_fixed("bytes to count")?;
        Ok(bytes(self.desc.size_bytes()))
    }

    fn most_stored(&self) -> Result<u64> {
        let (batches, per_batch) = self.batches();
        let elements = self.packing.stored_elements(batches, per_batch);
        let stored = elements.and_then(|elements| elements.checked_mul(self.element_bytes()));
        let stored = stored.filter(|&stored| stored <= isize::MAX.cast_unsigned());
        stored
            .map(bytes)
            .ok_or_else(|| invalid(format!("{self} is stored in more bytes than can be counted")))
    }

    /// How many batches there are, and elements of each. Counted with ranges at their ends.
    fn batches(&self) -> (usize, usize) {
        match self.desc.shape() {
            [] => (1, 1),
            // Of an empty tensor the product of the others may be too large to count.
            _ if self.desc.is_empty() => (0, 0),
            [batches, per_batch @ ..] => (*batches, per_batch.iter().product()),
        }
    }

    fn check_fixed(&self, what: &str) -> Result<()> {
        if self.is_open() { Err(self.open(what)) } else { Ok(()) }
    }

    fn open(&self, what: &str) -> Error {
        let axis = self.extents().position(|extent| !matches!(extent, Extent::Fixed(_)));
        let axis = axis.unwrap_or(0);
        Error::new(
            ErrorCode::DynamicShape,
            format!("{self} does not say {what}: dimension {axis} is open; give it a shape first"),
        )
    }

    /// The same tensors of this shape alone.
    ///
    /// # Errors
    /// Another rank, or an extent that the spec does not allow.
    pub(crate) fn with_shape(&self, dims: &[usize]) -> Result<Self> {
        let wrong =
            |what: String| Error::new(ErrorCode::ShapeMismatch, format!("{what}; expected {self}"));
        if dims.len() != self.rank() {
            return Err(wrong(format!("shape {dims:?} has {} dimensions", dims.len())));
        }
        for (axis, (&found, extent)) in dims.iter().zip(self.extents()).enumerate() {
            let (min, max) = extent.bounds();
            if !(min..=max).contains(&found) {
                return Err(wrong(format!(
                    "dimension {axis} of shape {dims:?} is {found}, expected {extent}"
                )));
            }
        }
        self.reshaped(dims)
    }

    /// Tensors of the same type and encoding, stored alike, and of this shape.
    ///
    /// # Errors
    /// A shape that the layout, packing or encoding is not for, or that has too many elements.
    pub(crate) fn reshaped(&self, dims: &[usize]) -> Result<Self> {
        let shape = Shape::new(dims).map_err(|error| invalid(format!("a tensor's {error}")))?;
        let desc = self.desc.with_extents(shape);
        check_encoding(&desc).map_err(|why| invalid(format!("{desc}: {why}")))?;
        let spec = Self { desc, least: [0; MAX_RANK], unbounded: 0, ..*self };
        let spec = spec.with_layout(self.layout)?.with_packing(self.packing)?;
        spec.storage_size().map(|_| spec)
    }

    /// Stores a tensor's elements as its packing has them; lanes without a batch become 0.
    ///
    /// # Errors
    /// Not as many bytes as its elements have, or as they take in memory; an open dimension.
    pub(crate) fn pack(&self, logical: &[u8], stored: &mut [u8]) -> Result<()> {
        self.check_sizes(logical.len(), stored.len())?;
        self.packing.pack(logical, stored, self.batches().1, self.element_bytes());
        Ok(())
    }

    /// A tensor's elements one batch behind the other, of what is stored as its packing has it.
    ///
    /// # Errors
    /// Not as many bytes as it takes in memory, or as its elements have; an open dimension.
    pub(crate) fn unpack(&self, stored: &[u8], logical: &mut [u8]) -> Result<()> {
        self.check_sizes(logical.len(), stored.len())?;
        self.packing.unpack(stored, logical, self.batches().1, self.element_bytes());
        Ok(())
    }

    fn check_sizes(&self, logical: usize, stored: usize) -> Result<()> {
        let sizes = [
            ("elements", logical, self.byte_size()?),
            ("stored elements", stored, self.storage_size()?),
        ];
        match sizes.into_iter().find(|&(_, found, wanted)| bytes(found) != wanted) {
            None => Ok(()),
            Some((what, found, wanted)) => {
                Err(invalid(format!("{found} bytes of {what} of {self}, expected {wanted}")))
            }
        }
    }
}

/// Details of a specification for kernels, plans and the C API.
pub trait SpecDetails: Sized {
    /// Returns the specification of tensors with this description. Bounded dimensions become ranges from 0 on.
    ///
    /// # Errors
    /// The description is of an input or output that is left out, or is not valid.
    fn from_desc(desc: TensorDesc) -> Result<Self>;

    /// Returns the number of dimensions.
    fn rank(&self) -> usize;

    /// Returns a dimension.
    fn extent(&self, axis: usize) -> Option<Extent>;

    /// Whether a dimension is not fixed.
    fn is_open(&self) -> bool;

    /// Returns the type, shape and encoding, as kernels get them.
    ///
    /// # Errors
    /// A dimension is open.
    fn desc(&self) -> Result<TensorDesc>;

    /// Returns the number of elements of a tensor; 1 if it has no dimensions.
    ///
    /// # Errors
    /// A dimension is open.
    fn element_count(&self) -> Result<u64>;

    /// Returns the maximum number of bytes that a tensor takes in memory: with all ranges at their ends.
    ///
    /// # Errors
    /// A dimension has no bound, or there are too many bytes to count.
    fn max_storage_size(&self) -> Result<u64>;

    /// Returns a specification of these dimensions; -1 is an open one, as in C and ONNX.
    ///
    /// # Errors
    /// As for [`TensorSpec::new`], or a dimension is below -1.
    fn from_dims(dtype: DType, dims: &[i64]) -> Result<Self>;

    /// Returns the specification with another packing of batches.
    ///
    /// # Errors
    /// The packing is for elements of another size, or there is no dimension to count batches by.
    fn with_packing(self, packing: Packing) -> Result<Self>;

    /// Returns how batches are stored.
    fn packing(&self) -> Packing;

    /// Returns the number of bytes that a tensor takes in memory: its elements, and the padding of its last group of batches.
    ///
    /// # Errors
    /// A dimension is open, or there are too many bytes to count.
    fn storage_size(&self) -> Result<u64>;
}

impl SpecDetails for TensorSpec {
    fn from_desc(desc: TensorDesc) -> Result<Self> {
        if desc.is_absent() || !desc.is_sound() {
            return Err(invalid(format!(
                "a tensor is described as {desc}; expected type, shape and encoding"
            )));
        }
        check_encoding(&desc).map_err(|why| invalid(format!("{desc}: {why}")))?;
        let (layout, packing) = (Layout::AsGiven, Packing::N1);
        Ok(Self { desc, least: [0; MAX_RANK], unbounded: 0, layout, packing })
    }

    fn rank(&self) -> usize {
        self.desc.rank()
    }

    fn extent(&self, axis: usize) -> Option<Extent> {
        let dim = self.desc.full_shape().dim(axis)?;
        let min = self.least.get(axis).copied().unwrap_or(0);
        Some(match dim {
            Dim::Fixed(n) | Dim::Open(n) => Extent::Fixed(n),
            Dim::UpTo(_) if self.unbounded >> axis & 1 == 1 => Extent::Open,
            Dim::UpTo(max) => Extent::Range { min, max },
        })
    }

    fn is_open(&self) -> bool {
        !self.desc.full_shape().is_fixed()
    }

    fn desc(&self) -> Result<TensorDesc> {
        self.check_fixed("its shape").map(|()| self.desc)
    }

    fn element_count(&self) -> Result<u64> {
        self.check_fixed("elements to count")?;
        Ok(bytes(self.desc.len()))
    }

    fn max_storage_size(&self) -> Result<u64> {
        match self.unbounded {
            0 => self.most_stored(),
            _ => Err(self.open("a bound on bytes to store")),
        }
    }

    fn from_dims(dtype: DType, dims: &[i64]) -> Result<Self> {
        let extent = |(axis, &dim): (usize, &i64)| {
            match dim {
            -1 => Ok(Extent::Open),
            _ => usize::try_from(dim).map(Extent::Fixed).map_err(|_| {
                invalid(format!(
                    "dimension {axis} is {dim}; expected a number of elements, or -1 for an open one"
                ))
            }),
        }
        };
        Self::new(dtype, &dims.iter().enumerate().map(extent).collect::<Result<Vec<_>>>()?)
    }

    fn with_packing(self, packing: Packing) -> Result<Self> {
        let (name, found) = (packing.name(), self.element_bytes());
        if let Some(wanted) = packing.element_bytes() {
            if found != wanted {
                return Err(invalid(format!(
                    "{self} cannot be {name}: its elements have {found} bytes, expected {wanted}"
                )));
            }
            if self.rank() == 0 {
                return Err(invalid(format!(
                    "{self} cannot be {name}: it has no dimension of batches"
                )));
            }
        }
        Ok(Self { packing, ..self })
    }

    fn packing(&self) -> Packing {
        self.packing
    }

    fn storage_size(&self) -> Result<u64> {
        self.check_fixed("bytes to store")?;
        self.most_stored()
    }
}

fn bytes(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn shift(axis: usize) -> u32 {
    u32::try_from(axis).unwrap_or(u32::MAX)
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::AsGiven => "as given",
        Layout::Nhwc => "nhwc",
        Layout::Nchw => "nchw",
    }
}

/// Whether a tensor can have its encodings, and if not, why.
fn check_encoding(desc: &TensorDesc) -> std::result::Result<(), udo_api::Error> {
    let Some(Encodings::PerTensor(encoding)) = desc.encodings() else {
        return desc.check_encoding();
    };
    let low_high = match desc.dtype() {
        Some(DType::U8) => (0, i32::from(u8::MAX)),
        Some(DType::I8) => (i32::from(i8::MIN), i32::from(i8::MAX)),
        Some(DType::U16) => (0, i32::from(u16::MAX)),
        Some(DType::I16) => (i32::from(i16::MIN), i32::from(i16::MAX)),
        Some(DType::I32) => (i32::MIN, i32::MAX),
        _ => {
            let why = "an encoding, expected elements u8, i8, u16, i16 or i32";
            return Err(udo_api::Error::new(why));
        }
    };
    let (low, high) = low_high;
    let (scale, zero_point) = (encoding.scale, encoding.zero_point);
    if !scale.is_finite() || scale <= 0.0 {
        let why = format!("an encoding has scale {scale}, expected a finite one above 0");
        return Err(udo_api::Error::new(why));
    }
    if !(low..=high).contains(&zero_point) {
        let why = format!("an encoding has zero point {zero_point}, expected {low} to {high}");
        return Err(udo_api::Error::new(why));
    }
    Ok(())
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype())?;
        for (axis, extent) in self.extents().enumerate() {
            let comma = if axis == 0 { "" } else { "," };
            write!(f, "{comma}{extent}")?;
        }
        f.write_str("]")?;
        if self.packing != Packing::N1 {
            write!(f, " {}", self.packing.name())?;
        }
        if self.layout != Layout::AsGiven {
            write!(f, " {}", layout_name(self.layout))?;
        }
        Ok(())
    }
}

impl fmt::Debug for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
