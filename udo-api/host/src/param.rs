//! Parameter values that the host owns.

use std::sync::Arc;

use udo_api::abi::{ParamValue, Span, ValueKind, param_kinds};
use udo_api::{Param, TensorDesc};

use crate::Buffer;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamSetting {
    /// The node does not set the parameter, and the schema has no default.
    Absent,
    /// An integer or a bool.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Text(String),
    /// Integers.
    Ints(Vec<i64>),
    /// Floating-point numbers.
    Floats(Vec<f64>),
    /// A tensor with the type and shape of the model.
    Tensor(TensorSetting),
    /// Strings.
    Texts(Vec<String>),
}

/// A tensor value of a parameter; clones share its elements.
#[derive(Clone, Debug)]
pub struct TensorSetting {
    desc: TensorDesc,
    data: Arc<Buffer>,
}

impl TensorSetting {
    /// Combines `desc` with its elements in `data`; `None` if the sizes differ.
    pub fn new(desc: TensorDesc, data: Arc<Buffer>) -> Option<Self> {
        let fits = !desc.is_absent() && desc.size_bytes() == data.len();
        fits.then_some(Self { desc, data })
    }

    /// Returns the description of the tensor.
    pub fn desc(&self) -> TensorDesc {
        self.desc
    }

    /// Returns its elements.
    pub fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }
}

impl PartialEq for TensorSetting {
    fn eq(&self, other: &Self) -> bool {
        self.desc == other.desc && self.data.bytes() == other.data.bytes()
    }
}

impl ParamSetting {
    /// Returns the value of `param` for a node that does not set it.
    pub fn default_of(param: &Param) -> Self {
        match param.default_value() {
            ValueKind::None => Self::Absent,
            ValueKind::Int(int) => Self::Int(int),
            ValueKind::Float(float) => Self::Float(float),
            ValueKind::Str(text) => Self::Text(text.to_owned()),
            ValueKind::Ints(ints) => Self::Ints(ints.to_vec()),
            ValueKind::Floats(floats) => Self::Floats(floats.to_vec()),
            ValueKind::Strs(texts) => {
                Self::Texts(texts.iter().map(|text| text.get().to_owned()).collect())
            }
        }
    }

    /// Converts the value for the ABI. Its pointers are valid while the setting and the spans it adds to `lists` stay
    /// in place.
    pub(crate) fn to_abi(&self, name: &'static str, lists: &mut Vec<Vec<Span>>) -> ParamValue {
        let none = ParamValue {
            name: span(name.as_bytes()),
            kind: param_kinds::ABSENT,
            reserved: 0,
            int: 0,
            float: 0.0,
            data: Span::NONE,
            desc: std::ptr::null(),
        };
        match self {
            Self::Absent => none,
            Self::Int(int) => ParamValue { kind: param_kinds::INT, int: *int, ..none },
            Self::Float(float) => ParamValue { kind: param_kinds::FLOAT, float: *float, ..none },
            Self::Text(text) => {
                ParamValue { kind: param_kinds::TEXT, data: span(text.as_bytes()), ..none }
            }
            Self::Ints(ints) => ParamValue { kind: param_kinds::INTS, data: span(ints), ..none },
            Self::Floats(floats) => {
                ParamValue { kind: param_kinds::FLOATS, data: span(floats), ..none }
            }
            Self::Tensor(TensorSetting { desc, data }) => ParamValue {
                kind: param_kinds::TENSOR,
                data: span(data.bytes()),
                desc: &raw const *desc,
                ..none
            },
            Self::Texts(texts) => {
                let texts: Vec<Span> = texts.iter().map(|text| span(text.as_bytes())).collect();
                let data = span(&texts);
                lists.push(texts);
                ParamValue { kind: param_kinds::TEXTS, data, ..none }
            }
        }
    }
}

fn span<T>(items: &[T]) -> Span {
    Span { ptr: items.as_ptr().cast(), bytes: size_of_val(items) }
}
