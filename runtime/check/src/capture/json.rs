//! Descriptions of tensors and parameters as JSON. Numbers are texts, as JSON has no infinities and its readers round.

use std::str::FromStr;

use serde_json::{Map, Value, json};
use udo_api::{AxisEncoding, DType, Dim, Encoding, Shape, TensorDesc};
use udo_host::ParamSetting;

/// What a value should have been.
pub(super) type Wrong = String;

/// The description of a tensor.
pub(super) fn of_desc(desc: &TensorDesc) -> Value {
    let Some(dtype) = desc.dtype() else { return Value::Null };
    let shape = desc.full_shape();
    let dims = shape.iter().map(|dim| match dim {
        Dim::Fixed(extent) => json!(extent),
        Dim::UpTo(bound) => json!({ "up_to": bound }),
        Dim::Open(extent) => json!({ "open": extent }),
    });
    let dims: Vec<Value> = dims.collect();
    let mut of = json!({ "type": dtype.name(), "dims": dims });
    if let Some(axis) = desc.axis_encoding() {
        of["axis"] = json!(axis.axis());
        of["scales"] = texts(axis.scales());
        of["zero_points"] = json!(axis.zero_points());
    } else if let Some(encoding) = desc.encoding() {
        of["scale"] = json!(encoding.scale.to_string());
        of["zero_point"] = json!(encoding.zero_point);
    }
    of
}

/// The tensor that is described.
pub(super) fn desc(value: &Value) -> Result<TensorDesc, Wrong> {
    if value.is_null() {
        return Ok(TensorDesc::ABSENT);
    }
    let name = value["type"].as_str().unwrap_or_default();
    let dtype = DType::from_name(name).ok_or_else(|| format!("a type is called {name:?}"))?;
    if dtype == DType::Str {
        return Err("a tensor holds texts, wanted numbers".to_owned());
    }
    let dims: Result<Vec<Dim>, Wrong> = list(&value["dims"])?.iter().map(dim).collect();
    let shape = Shape::of_dims(&dims?).map_err(|error| error.to_string())?;
    // What follows multiplies the extents without a check.
    let bytes = shape.dims().iter().try_fold(dtype.size_bytes(), |n, dim| n.checked_mul(*dim));
    if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(format!("a tensor has more elements than can be: {shape}"));
    }
    let of = TensorDesc::new(dtype, shape);
    let zero_point = |value: &Value| {
        let zero = value.as_i64().and_then(|zero| i32::try_from(zero).ok());
        zero.ok_or_else(|| format!("a zero point is {value}"))
    };
    let of = match (value.get("scale"), value.get("axis")) {
        (Some(scale), _) => {
            let zero_point = zero_point(&value["zero_point"])?;
            of.with_encoding(Encoding { scale: number(scale)?, zero_point })
        }
        (None, Some(axis)) => {
            let scales: Result<Vec<f32>, Wrong> =
                list(&value["scales"])?.iter().map(number).collect();
            let zeros: Result<Vec<i32>, Wrong> =
                list(&value["zero_points"])?.iter().map(zero_point).collect();
            let encoding = AxisEncoding::of(length(axis)?, &scales?, &zeros?);
            of.with_axis_encoding(encoding.map_err(|error| error.to_string())?)
        }
        (None, None) => of,
    };
    of.check_encoding().map_err(|error| error.to_string())?;
    Ok(of)
}

fn dim(value: &Value) -> Result<Dim, Wrong> {
    match (value.get("up_to"), value.get("open")) {
        (Some(bound), _) => length(bound).map(Dim::UpTo),
        (None, Some(extent)) => length(extent).map(Dim::Open),
        (None, None) => length(value).map(Dim::Fixed),
    }
}

/// A parameter that is no tensor.
pub(super) fn of_setting(setting: &ParamSetting) -> Value {
    match setting {
        ParamSetting::Absent | ParamSetting::Tensor(_) => Value::Null,
        ParamSetting::Int(value) => json!({ "int": value }),
        ParamSetting::Float(value) => json!({ "float": value.to_string() }),
        ParamSetting::Text(text) => json!({ "text": text }),
        ParamSetting::Ints(values) => json!({ "ints": values }),
        ParamSetting::Floats(values) => json!({ "floats": texts(values) }),
        ParamSetting::Texts(values) => json!({ "texts": values }),
    }
}

/// The parameter.
pub(super) fn setting(value: &Value) -> Result<ParamSetting, Wrong> {
    if value.is_null() {
        return Ok(ParamSetting::Absent);
    }
    let empty = Map::new();
    let one = value.as_object().unwrap_or(&empty).iter().next();
    let (kind, value) = one.ok_or_else(|| format!("a parameter is {value}"))?;
    let int = |value: &Value| value.as_i64().ok_or_else(|| format!("an integer is {value}"));
    match kind.as_str() {
        "int" => int(value).map(ParamSetting::Int),
        "float" => number(value).map(ParamSetting::Float),
        "text" => text(value).map(ParamSetting::Text),
        "ints" => list(value)?.iter().map(int).collect::<Result<_, _>>().map(ParamSetting::Ints),
        "floats" => {
            list(value)?.iter().map(number).collect::<Result<_, _>>().map(ParamSetting::Floats)
        }
        "texts" => list(value)?.iter().map(text).collect::<Result<_, _>>().map(ParamSetting::Texts),
        kind => Err(format!("a parameter is of kind {kind:?}")),
    }
}

fn texts<T: ToString>(values: &[T]) -> Value {
    Value::from(values.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// A real number, which is written as a text.
fn number<T: FromStr>(value: &Value) -> Result<T, Wrong> {
    let number = value.as_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("a number is {value}"))
}

pub(super) fn text(value: &Value) -> Result<String, Wrong> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("a text is {value}"))
}

pub(super) fn list(value: &Value) -> Result<&[Value], Wrong> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| format!("a list is {value}"))
}

pub(super) fn length(value: &Value) -> Result<usize, Wrong> {
    let length = value.as_u64().and_then(|length| usize::try_from(length).ok());
    length.ok_or_else(|| format!("a length is {value}"))
}

pub(super) fn lengths(value: &Value) -> Result<Vec<usize>, Wrong> {
    list(value)?.iter().map(length).collect()
}
