//! Values of parameters, owned by the host.

use udo_api::Param;
use udo_api::abi::{ParamValue, Span, ValueKind};

/// One parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamSetting {
    /// The node gives none, and the schema has no default.
    Absent,
    /// An integer or truth value.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Text.
    Text(String),
    /// Integers.
    Ints(Vec<i64>),
    /// Real numbers.
    Floats(Vec<f64>),
}

impl ParamSetting {
    /// What a node that does not set `param` gets.
    pub fn default_of(param: &Param) -> Self {
        match param.default_value() {
            ValueKind::None => Self::Absent,
            ValueKind::Int(int) => Self::Int(int),
            ValueKind::Float(float) => Self::Float(float),
            ValueKind::Str(text) => Self::Text(text.to_owned()),
            ValueKind::Ints(ints) => Self::Ints(ints.to_vec()),
            ValueKind::Floats(floats) => Self::Floats(floats.to_vec()),
        }
    }

    /// The form that crosses the ABI; its spans are valid while the setting is.
    pub(crate) fn to_abi(&self, name: &'static str) -> ParamValue {
        let name = Span { ptr: name.as_ptr(), bytes: name.len() };
        let none = ParamValue { name, kind: 0, reserved: 0, int: 0, float: 0.0, data: Span::NONE };
        match self {
            Self::Absent => none,
            Self::Int(int) => ParamValue { kind: 1, int: *int, ..none },
            Self::Float(float) => ParamValue { kind: 2, float: *float, ..none },
            Self::Text(text) => {
                ParamValue { kind: 3, data: Span { ptr: text.as_ptr(), bytes: text.len() }, ..none }
            }
            Self::Ints(ints) => ParamValue {
                kind: 4,
                data: Span { ptr: ints.as_ptr().cast(), bytes: size_of_val(&**ints) },
                ..none
            },
            Self::Floats(floats) => ParamValue {
                kind: 5,
                data: Span { ptr: floats.as_ptr().cast(), bytes: size_of_val(&**floats) },
                ..none
            },
        }
    }
}
