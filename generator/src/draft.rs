//! The parts that a front end read, with their places, before any check. Front ends create drafts;
//! `check` turns drafts into a config.

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
    pub(crate) path: String,
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) spot: Spot,
}

/// An optional part. A refused part is reported, and must not be reported as missing too.
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

/// `None` in a required part means that it was refused or is missing, and reported.
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

#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) name: Option<At<String>>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) outputs: Vec<Tensor>,
    pub(crate) scalar_params: Vec<ScalarParam>,
    pub(crate) tensor_params: Vec<Tensor>,
    pub(crate) cores: Option<At<Vec<At<CoreKind>>>>,
    pub(crate) archs: Field<At<Vec<At<u16>>>>,
    /// The source as one string, or as its lines.
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

#[derive(Debug)]
pub(crate) enum Types {
    /// The same type on every core.
    One(At<DataType>),
    PerCore(At<Vec<(CoreKind, At<DataType>)>>),
}

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
