//! Reads the words of XML op definitions: data types, backends, layouts and default values.

use super::document::Reader;
use crate::{
    config::{DataType, Layout},
    diagnostic::Kind,
    draft::{At, CoreKind, Literal, Spot},
    report::problem,
    spelling::{did_you_mean, one_of, quote},
};

/// The data type of a tensor whose types are in a supplemental list.
pub(super) const BACKEND_SPECIFIC: &str = "BACKEND_SPECIFIC";

/// A data type of op definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) name: &'static str,
    /// The data type of a config, if there is an equivalent.
    pub(super) dtype: Option<DataType>,
    /// Whether its integers are quantized values.
    pub(super) is_encoded: bool,
}

const fn plain(name: &'static str, dtype: DataType) -> Type {
    Type { name, dtype: Some(dtype), is_encoded: false }
}

const fn encoded(name: &'static str, dtype: DataType) -> Type {
    Type { name, dtype: Some(dtype), is_encoded: true }
}

/// A type without an equivalent.
const fn missing(name: &'static str) -> Type {
    Type { name, dtype: None, is_encoded: false }
}

/// Every data type of op definitions.
pub(super) const TYPES: &[Type] = &[
    plain("QNN_DATATYPE_FLOAT_16", DataType::Float16),
    plain("QNN_DATATYPE_FLOAT_32", DataType::Float32),
    plain("QNN_DATATYPE_INT_8", DataType::Int8),
    plain("QNN_DATATYPE_INT_16", DataType::Int16),
    plain("QNN_DATATYPE_INT_32", DataType::Int32),
    plain("QNN_DATATYPE_INT_64", DataType::Int64),
    plain("QNN_DATATYPE_UINT_8", DataType::Uint8),
    plain("QNN_DATATYPE_UINT_16", DataType::Uint16),
    plain("QNN_DATATYPE_UINT_32", DataType::Uint32),
    plain("QNN_DATATYPE_BOOL_8", DataType::Bool8),
    plain("QNN_DATATYPE_STRING", DataType::String),
    encoded("QNN_DATATYPE_UFIXED_POINT_8", DataType::Uint8),
    encoded("QNN_DATATYPE_UFIXED_POINT_16", DataType::Uint16),
    encoded("QNN_DATATYPE_SFIXED_POINT_8", DataType::Int8),
    encoded("QNN_DATATYPE_SFIXED_POINT_16", DataType::Int16),
    encoded("QNN_DATATYPE_SFIXED_POINT_32", DataType::Int32),
    missing("QNN_DATATYPE_UINT_64"),
    missing("QNN_DATATYPE_FLOAT_64"),
    missing("QNN_DATATYPE_BFLOAT_16"),
    missing("QNN_DATATYPE_UFIXED_POINT_4"),
    missing("QNN_DATATYPE_UFIXED_POINT_32"),
    missing("QNN_DATATYPE_SFIXED_POINT_4"),
    missing("QNN_DATATYPE_UNDEFINED"),
];

/// The backends: the name, the core, and the DSP architecture.
pub(super) const BACKENDS: &[(&str, CoreKind, Option<u16>)] = &[
    ("CPU", CoreKind::Cpu, None),
    ("GPU", CoreKind::Gpu, None),
    ("DSP", CoreKind::Dsp, Some(66)),
    ("HTP", CoreKind::Dsp, Some(68)),
];

/// A supported backend.
#[derive(Debug, Clone)]
pub(super) struct Backend {
    pub(super) core: CoreKind,
    pub(super) arch: Option<u16>,
    pub(super) spot: Spot,
}

impl Reader<'_, '_> {
    pub(super) fn backend(&mut self, word: At<String>) -> Option<Backend> {
        let At { value, spot } = word;
        let found = BACKENDS.iter().find(|(name, ..)| *name == value);
        let Some((_, core, arch)) = found else {
            let names: Vec<&str> = BACKENDS.iter().map(|(name, ..)| *name).collect();
            let help = did_you_mean(&value, &names, "user operators run on these backends only");
            self.error(&spot, problem(Kind::UnknownCore, quote(&value), one_of(&names), help));
            return None;
        };
        Some(Backend { core: *core, arch: *arch, spot })
    }

    /// Reads a type; `None` for `BACKEND_SPECIFIC`.
    pub(super) fn data_type(&mut self, word: &At<String>) -> Option<At<Type>> {
        let At { value, spot } = word;
        if let Some(found) = TYPES.iter().find(|known| known.name == value) {
            return Some(At { value: *found, spot: spot.clone() });
        }
        let mut names: Vec<&str> =
            TYPES.iter().filter(|known| known.dtype.is_some()).map(|known| known.name).collect();
        names.push(BACKEND_SPECIFIC);
        let help = did_you_mean(value, &names, "use one of the data types of the format");
        self.error(spot, problem(Kind::UnknownDataType, quote(value), one_of(&names), help));
        None
    }

    /// Reads a layout, if the word names one.
    pub(super) fn layout(&mut self, word: &At<String>) -> Option<Layout> {
        let At { value, spot } = word;
        match value.as_str() {
            "NHWC" => Some(Layout::Nhwc),
            // The vendor's own document has this misprint.
            "NCHW" | "NHCW" => Some(Layout::Nchw),
            "UNDEFINED" | BACKEND_SPECIFIC | "" => None,
            _ => {
                let names = ["NHWC", "NCHW", "UNDEFINED", BACKEND_SPECIFIC];
                let help = did_you_mean(value, &names, "leave the element out");
                self.error(spot, problem(Kind::UnknownLayout, quote(value), one_of(&names), help));
                None
            }
        }
    }
}

/// Reads a default value: a list in braces, a number, true or false, or a string otherwise.
pub(super) fn default(word: At<String>) -> At<Literal> {
    let At { value, spot } = word;
    let literal = match value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) => {
            // Inner braces, the rows of a table, are ignored: the list is flat.
            let items = inner.split([',', '{', '}']).map(str::trim).filter(|item| !item.is_empty());
            let items = items.map(|item| At { value: single(item), spot: spot.clone() });
            Literal::List(items.collect())
        }
        None => single(&value),
    };
    At { value: literal, spot }
}

/// Reads a value that is not a list.
fn single(word: &str) -> Literal {
    if let Ok(int) = word.parse() {
        return Literal::Int(int);
    }
    match (word.to_ascii_lowercase().as_str(), word.parse::<f64>()) {
        ("true", _) => Literal::Bool(true),
        ("false", _) => Literal::Bool(false),
        (_, Ok(float)) if float.is_finite() => Literal::Float(float),
        _ => Literal::Text(word.to_owned()),
    }
}
