//! Drafts: the parts of configs as read, with their places, before any check of their values. The JSON and XML front
//! ends create drafts; `check` turns drafts into a [`crate::config::Config`].

use crate::config::{Core, DataType, Layout, QuantizationMode};

/// A config file, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) usize);

/// A place in a config file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) file: FileId,
    /// The offset in bytes.
    pub(crate) offset: usize,
    /// The path in the document, such as `$.P.Operators[0]`.
    pub(crate) path: String,
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) spot: Spot,
}

/// An optional part. A refused part had a fault, which is reported, so that later checks must not report it as missing.
#[derive(Debug, Clone)]
pub(crate) enum Field<T> {
    Absent,
    Refused,
    Given(T),
}

impl<T> Field<T> {
    pub(crate) fn value(&self) -> Option<&T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Absent | Self::Refused => None,
        }
    }
}

/// A package as read. A required part is `None` if it was missing or refused, which is then reported.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) spot: Spot,
    pub(crate) name: Option<At<String>>,
    pub(crate) version: Field<At<String>>,
    pub(crate) domain: Field<At<String>>,
    pub(crate) path: Field<At<String>>,
    pub(crate) udo_root: Field<At<String>>,
    pub(crate) ops: Vec<Op>,
    pub(crate) cores: Field<At<Vec<At<CoreKind>>>>,
    pub(crate) archs: Field<At<Vec<At<u16>>>>,
}

/// An operator as read.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) name: Option<At<String>>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) outputs: Vec<Tensor>,
    pub(crate) scalar_params: Vec<ScalarParam>,
    pub(crate) tensor_params: Vec<Tensor>,
    pub(crate) cores: Option<At<Vec<At<CoreKind>>>>,
    pub(crate) archs: Field<At<Vec<At<u16>>>>,
    /// The source of the reference, as one string or as its lines.
    pub(crate) reference: Field<Vec<At<String>>>,
}

/// A core as in configs: the DSP without its architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoreKind {
    Cpu,
    Gpu,
    Dsp,
}

impl CoreKind {
    pub(crate) const ALL: &'static [Self] = &[Self::Cpu, Self::Gpu, Self::Dsp];

    pub(crate) fn of_core(core: Core) -> Self {
        match core {
            Core::Cpu => Self::Cpu,
            Core::Gpu => Self::Gpu,
            Core::Dsp(_) => Self::Dsp,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
            Self::Dsp => "DSP",
        }
    }
}

/// An input, output or tensor parameter as read.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) spot: Spot,
    pub(crate) name: Field<At<String>>,
    pub(crate) types: Option<Types>,
    pub(crate) is_static: Field<At<bool>>,
    pub(crate) layout: Field<Layout>,
    pub(crate) quantization: Field<QuantizationMode>,
    pub(crate) default: Field<At<Literal>>,
    pub(crate) repeated: Field<At<bool>>,
    pub(crate) is_optional: Field<At<bool>>,
    pub(crate) attribute: Field<At<String>>,
}

/// The data types of a tensor.
#[derive(Debug)]
pub(crate) enum Types {
    /// The same type on every core.
    One(At<DataType>),
    PerCore(At<Vec<(CoreKind, At<DataType>)>>),
}

/// A scalar parameter as read.
#[derive(Debug)]
pub(crate) struct ScalarParam {
    pub(crate) name: Option<At<String>>,
    pub(crate) dtype: Option<At<DataType>>,
    pub(crate) default: Field<At<Literal>>,
    pub(crate) is_optional: Field<At<bool>>,
    pub(crate) attribute: Field<At<String>>,
}

/// A default as written, before its data type is known.
#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<At<Literal>>),
}
