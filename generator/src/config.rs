//! A checked config as plain data, independent of the input format and of the printed files. Everything in it has
//! passed every check, so templates do not check.

use std::{fmt, path::PathBuf};

/// Everything that the config files of one call define.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// The packages, in the order of their first mention; names are unique.
    pub packages: Vec<Package>,
}

/// One package: a registration library and one library per core.
#[derive(Debug, Clone, PartialEq)]
pub struct Package {
    /// The package's name, an identifier.
    pub name: String,
    /// Its version (`UDO_PACKAGE_VERSION`), if the config sets it; otherwise the author writes it into `Cargo.toml`.
    pub version: Option<String>,
    /// The domain of its operators (`UDO_PACKAGE_DOMAIN`), if the config sets it; otherwise the package's name.
    pub domain: Option<String>,
    /// The parent of the package's folder (`UDO_PACKAGE_PATH`), if the config sets it.
    pub path: Option<PathBuf>,
    /// The path of the UDO API (`SNPE_UDO_ROOT`), if the config sets it.
    pub udo_root: Option<PathBuf>,
    /// The operators, at least one, in config order.
    pub ops: Vec<Op>,
    /// The cores that the package is built for, sorted: the union over its operators, or the larger set that the
    /// package lists.
    pub cores: Vec<Core>,
    /// The config files that define it, in the order given.
    pub sources: Vec<PathBuf>,
}

/// One operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// The operator type, as in models.
    pub name: String,
    /// Inputs in order, at least one.
    pub inputs: Vec<Tensor>,
    /// Outputs in order, at least one.
    pub outputs: Vec<Tensor>,
    /// Scalar and string attributes.
    pub scalar_params: Vec<ScalarParam>,
    /// Tensor attributes.
    pub tensor_params: Vec<Tensor>,
    /// The operator's cores, sorted, at least one.
    pub cores: Vec<Core>,
    /// The operator's reference, if the config has one; it is valid for the operator.
    pub reference: Option<String>,
}

/// An input, an output or a tensor attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name, unique in its operator.
    pub name: String,
    /// Its element type on each core of the operator, in the order of [`Op::cores`].
    pub types: Vec<CoreType>,
    /// Whether the model file contains its data.
    pub is_static: bool,
    /// The layout, if the config sets it; otherwise the model's order.
    pub layout: Option<Layout>,
    /// The quantization mode, if the config sets it.
    pub quantization: Option<QuantizationMode>,
    /// Its value if the model omits it.
    pub default: Option<DefaultValue>,
    /// Whether it stands for any number of tensors; only the last tensor of a list may.
    pub repeated: bool,
    /// Whether a node may omit it although it has no default.
    pub is_optional: bool,
    /// The attribute of a parameter, if it has another name.
    pub attribute: Option<String>,
}

impl Tensor {
    /// Returns the element type on one core; `None` if the operator does not run on that core.
    pub fn type_on(&self, core: Core) -> Option<DataType> {
        self.types.iter().find(|entry| entry.core == core).map(|entry| entry.dtype)
    }

    /// Whether an omitted tensor is absent: it is optional without a default, or the default is an empty list.
    pub(crate) fn may_be_absent(&self) -> bool {
        match &self.default {
            Some(value) => value.values().is_empty(),
            None => self.is_optional,
        }
    }

    /// Whether its default contains floats.
    pub(crate) fn has_real_default(&self) -> bool {
        let values = self.default.as_ref().map_or(&[][..], DefaultValue::values);
        values.iter().any(|value| matches!(value, Scalar::Float(_)))
    }
}

/// The element type of a tensor on one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CoreType {
    /// The core.
    pub core: Core,
    /// The element type on the core.
    pub dtype: DataType,
}

/// A scalar or string attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalarParam {
    /// Its name, unique in its operator.
    pub name: String,
    /// Its type.
    pub dtype: DataType,
    /// Its value if the model omits it; without one it is absent or required.
    pub default: Option<Scalar>,
    /// Whether a node may omit it although it has no default.
    pub is_optional: bool,
    /// The attribute of the parameter, if it has another name.
    pub attribute: Option<String>,
}

impl ScalarParam {
    /// Whether an omitted parameter has no value.
    pub(crate) fn may_be_absent(&self) -> bool {
        self.is_optional && self.default.is_none()
    }
}

/// One value, whose kind matches its data type.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// An integer or a bool; `true` and `false` are 1 and 0.
    Int(i64),
    /// A float; for fixed-point tensors the dequantized value.
    Float(f64),
    /// A string.
    Text(String),
}

/// The default of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub enum DefaultValue {
    /// A single value, without dimensions.
    Scalar(Scalar),
    /// A flat list of values, possibly empty.
    List(Vec<Scalar>),
}

impl DefaultValue {
    /// Returns its values.
    pub(crate) fn values(&self) -> &[Scalar] {
        match self {
            Self::Scalar(value) => std::slice::from_ref(value),
            Self::List(values) => values,
        }
    }
}

/// The core of an implementation library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Core {
    /// The host.
    Cpu,
    /// An OpenCL device.
    Gpu,
    /// A DSP of one architecture: `Dsp(68)` is V68.
    Dsp(u16),
}

/// Prints `CPU`, `GPU` or `DSP_V68`, the name of the library's folder.
impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("CPU"),
            Self::Gpu => f.write_str("GPU"),
            Self::Dsp(arch) => write!(f, "DSP_V{arch}"),
        }
    }
}

/// The architectures of the DSP that packages can be made for, ascending.
pub const DSP_ARCHS: &[u16] = &[65, 66, 68, 69, 73, 75, 79, 81];

/// The first DSP architecture whose libraries hold any number of operators.
pub const FIRST_MULTI_OP_DSP: u16 = 68;

impl Core {
    /// Whether one library holds one operator only: DSP V65 and V66.
    pub fn is_one_op_per_library(self) -> bool {
        match self {
            Self::Cpu | Self::Gpu => false,
            Self::Dsp(arch) => arch < FIRST_MULTI_OP_DSP,
        }
    }

    /// Returns the element types of inputs and outputs on this core.
    pub fn tensor_types(self) -> &'static [DataType] {
        use DataType::{
            Bool8, Fixed8, Fixed16, Fixed32, Float16, Float32, Int8, Int16, Int32, Int64, Uint8,
            Uint16, Uint32,
        };
        match self {
            Self::Cpu => &[
                Float16, Float32, Fixed8, Fixed16, Fixed32, Uint8, Uint16, Uint32, Int8, Int16,
                Int32, Int64, Bool8,
            ],
            Self::Gpu => &[Float16, Float32, Uint8, Uint32, Int32, Int64, Bool8],
            Self::Dsp(arch) if arch < FIRST_MULTI_OP_DSP => &[Float32, Uint8, Int32],
            Self::Dsp(_) => &[
                Float16, Float32, Fixed8, Fixed16, Fixed32, Uint8, Uint16, Int8, Int16, Int32,
                Int64, Bool8,
            ],
        }
    }
}

/// The layout of a tensor of rank 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Channels last.
    Nhwc,
    /// Channels first.
    Nchw,
}

impl Layout {
    /// Every layout.
    pub const ALL: &'static [Self] = &[Self::Nhwc, Self::Nchw];

    /// The spelling in a config.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nhwc => "NHWC",
            Self::Nchw => "NCHW",
        }
    }
}

/// How fixed-point data is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuantizationMode {
    /// TensorFlow style: asymmetric, a scale and a zero point, 0 exact.
    Tf,
}

impl QuantizationMode {
    /// Every mode.
    pub const ALL: &'static [Self] = &[Self::Tf];

    /// The spelling in a config.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tf => "TF",
        }
    }
}

/// A data type of the config grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataType {
    /// `FLOAT_16`
    Float16,
    /// `FLOAT_32`
    Float32,
    /// `FIXED_4`: known to the grammar, refused by the checks, never in a [`Config`].
    Fixed4,
    /// `FIXED_8`
    Fixed8,
    /// `FIXED_16`
    Fixed16,
    /// `FIXED_32`
    Fixed32,
    /// `UINT_8`
    Uint8,
    /// `UINT_16`
    Uint16,
    /// `UINT_32`
    Uint32,
    /// `INT_8`
    Int8,
    /// `INT_16`
    Int16,
    /// `INT_32`
    Int32,
    /// `INT_64`
    Int64,
    /// `BOOL_8`: a bool in one byte.
    Bool8,
    /// `STRING`: scalar parameters only.
    String,
}

/// The values of a data type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Family {
    /// Floating point, with the largest finite value.
    Float(f64),
    /// Integers, with the smallest and the largest value.
    Integer(i64, i64),
    /// True or false.
    Truth,
    /// Quantized floats.
    Fixed,
    /// Text.
    Text,
}

impl DataType {
    /// Every data type, in the order of the grammar.
    pub const ALL: &'static [Self] = &[
        Self::Float16,
        Self::Float32,
        Self::Fixed4,
        Self::Fixed8,
        Self::Fixed16,
        Self::Fixed32,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Bool8,
        Self::String,
    ];

    /// The spelling in a config.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Float16 => "FLOAT_16",
            Self::Float32 => "FLOAT_32",
            Self::Fixed4 => "FIXED_4",
            Self::Fixed8 => "FIXED_8",
            Self::Fixed16 => "FIXED_16",
            Self::Fixed32 => "FIXED_32",
            Self::Uint8 => "UINT_8",
            Self::Uint16 => "UINT_16",
            Self::Uint32 => "UINT_32",
            Self::Int8 => "INT_8",
            Self::Int16 => "INT_16",
            Self::Int32 => "INT_32",
            Self::Int64 => "INT_64",
            Self::Bool8 => "BOOL_8",
            Self::String => "STRING",
        }
    }

    /// Returns the values of the type.
    pub fn family(self) -> Family {
        match self {
            Self::Float16 => Family::Float(65504.0),
            Self::Float32 => Family::Float(f64::from(f32::MAX)),
            Self::Fixed4 | Self::Fixed8 | Self::Fixed16 | Self::Fixed32 => Family::Fixed,
            Self::Uint8 => Family::Integer(0, i64::from(u8::MAX)),
            Self::Uint16 => Family::Integer(0, i64::from(u16::MAX)),
            Self::Uint32 => Family::Integer(0, i64::from(u32::MAX)),
            Self::Int8 => Family::Integer(i64::from(i8::MIN), i64::from(i8::MAX)),
            Self::Int16 => Family::Integer(i64::from(i16::MIN), i64::from(i16::MAX)),
            Self::Int32 => Family::Integer(i64::from(i32::MIN), i64::from(i32::MAX)),
            Self::Int64 => Family::Integer(i64::MIN, i64::MAX),
            Self::Bool8 => Family::Truth,
            Self::String => Family::Text,
        }
    }
}

/// Prints the spelling in a config.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_types_have_fifteen_distinct_spellings() {
        let mut names: Vec<&str> = DataType::ALL.iter().map(|dtype| dtype.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 15);
    }

    #[test]
    fn no_core_takes_text_or_four_bit_tensors() {
        for core in [Core::Cpu, Core::Gpu, Core::Dsp(65), Core::Dsp(68), Core::Dsp(999)] {
            assert!(!core.tensor_types().contains(&DataType::Fixed4), "{core}");
            assert!(!core.tensor_types().contains(&DataType::String), "{core}");
        }
    }

    #[test]
    fn cores_sort_and_print_as_folders() {
        let mut cores = [Core::Dsp(73), Core::Gpu, Core::Dsp(68), Core::Cpu];
        cores.sort_unstable();
        let names: Vec<String> = cores.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["CPU", "GPU", "DSP_V68", "DSP_V73"]);
    }

    #[test]
    fn only_old_dsps_hold_one_op_per_library() {
        let cases =
            [(Core::Cpu, false), (Core::Gpu, false), (Core::Dsp(66), true), (Core::Dsp(68), false)];
        for (core, want) in cases {
            assert_eq!(core.is_one_op_per_library(), want, "{core}");
        }
    }
}
