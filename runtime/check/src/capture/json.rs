//! Tensor descriptions and parameters as JSON. Floats are strings, since JSON has no infinities and its readers may
//! round.

use std::str::FromStr;

use serde_json::{Map, Value, json};
use udo_api::{AxisEncoding, DType, Dim, Encoding, Shape, TensorDesc};
use udo_host::ParamSetting;

/// A mismatch: the found value and the expected one.
pub(super) type Wrong = String;

/// Converts a tensor description to JSON.
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
        of["scales"] = strings(axis.scales());
        of["zero_points"] = json!(axis.zero_points());
    } else if let Some(encoding) = desc.encoding() {
        of["scale"] = json!(encoding.scale.to_string());
        of["zero_point"] = json!(encoding.zero_point);
    }
    of
}

/// Parses a tensor description.
pub(super) fn desc(value: &Value) -> Result<TensorDesc, Wrong> {
    if value.is_null() {
        return Ok(TensorDesc::ABSENT);
    }
    let name = value["type"].as_str().unwrap_or_default();
    let dtype = DType::from_name(name).ok_or_else(|| format!("unknown type {name:?}"))?;
    if dtype == DType::Str {
        return Err("found a tensor of strings, expected numbers".to_owned());
    }
    let dims: Result<Vec<Dim>, Wrong> = list(&value["dims"])?.iter().map(dim).collect();
    let shape = Shape::from_dims(&dims?).map_err(|error| error.to_string())?;
    // Later code multiplies the dimensions without checks.
    let bytes = shape.dims().iter().try_fold(dtype.size_bytes(), |n, dim| n.checked_mul(*dim));
    if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(format!("a tensor has too many elements: {shape}"));
    }
    let of = TensorDesc::new(dtype, shape);
    let zero_point = |value: &Value| {
        let zero = value.as_i64().and_then(|zero| i32::try_from(zero).ok());
        zero.ok_or_else(|| format!("found {value}, expected a zero point"))
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
            let encoding = AxisEncoding::intern(length(axis)?, &scales?, &zeros?);
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

/// Converts a parameter that is not a tensor to JSON.
pub(super) fn of_setting(setting: &ParamSetting) -> Value {
    match setting {
        ParamSetting::Absent | ParamSetting::Tensor(_) => Value::Null,
        ParamSetting::Int(value) => json!({ "int": value }),
        ParamSetting::Float(value) => json!({ "float": value.to_string() }),
        ParamSetting::Text(text) => json!({ "text": text }),
        ParamSetting::Ints(values) => json!({ "ints": values }),
        ParamSetting::Floats(values) => json!({ "floats": strings(values) }),
        ParamSetting::Texts(values) => json!({ "texts": values }),
    }
}

/// Parses a parameter.
pub(super) fn setting(value: &Value) -> Result<ParamSetting, Wrong> {
    if value.is_null() {
        return Ok(ParamSetting::Absent);
    }
    let empty = Map::new();
    let one = value.as_object().unwrap_or(&empty).iter().next();
    let (kind, value) = one.ok_or_else(|| format!("found {value}, expected a parameter"))?;
    let int =
        |value: &Value| value.as_i64().ok_or_else(|| format!("found {value}, expected an integer"));
    match kind.as_str() {
        "int" => int(value).map(ParamSetting::Int),
        "float" => number(value).map(ParamSetting::Float),
        "text" => text(value).map(ParamSetting::Text),
        "ints" => list(value)?.iter().map(int).collect::<Result<_, _>>().map(ParamSetting::Ints),
        "floats" => {
            list(value)?.iter().map(number).collect::<Result<_, _>>().map(ParamSetting::Floats)
        }
        "texts" => list(value)?.iter().map(text).collect::<Result<_, _>>().map(ParamSetting::Texts),
        kind => Err(format!("unknown parameter kind {kind:?}")),
    }
}

fn strings<T: ToString>(values: &[T]) -> Value {
    Value::from(values.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Parses a float, which is stored as a string.
fn number<T: FromStr>(value: &Value) -> Result<T, Wrong> {
    let number = value.as_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("found {value}, expected a number in quotes"))
}

pub(super) fn text(value: &Value) -> Result<String, Wrong> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("found {value}, expected a string"))
}

pub(super) fn list(value: &Value) -> Result<&[Value], Wrong> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| format!("found {value}, expected a list"))
}

pub(super) fn length(value: &Value) -> Result<usize, Wrong> {
    let length = value.as_u64().and_then(|length| usize::try_from(length).ok());
    length.ok_or_else(|| format!("found {value}, expected a length"))
}

pub(super) fn lengths(value: &Value) -> Result<Vec<usize>, Wrong> {
    list(value)?.iter().map(length).collect()
}
