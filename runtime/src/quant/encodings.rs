//! Reads and writes encodings in AIMET's JSON format: objects with the encodings of activations and parameters by name,
//! or from version 2 on a list of both in ONNX's terms.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde_json::{Map, Value, json};
use udo_api::{DType, Encoding};

use super::encoded::{Encoded, Kind};
use super::range::{Bits, LEAST_WIDTH, Levels, Range, to_single};

/// The format version that is written. Versions from 1 on, with lists instead of objects, can be read as well.
const VERSION: &str = "0.6.1";

/// Integers that stand for numbers, and an encoding for all or for each channel.
pub(super) type StatedEncodings = (Levels, Vec<Encoding>);

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encodings {
    /// Encodings of inputs and computed values.
    pub activations: BTreeMap<String, StatedEncodings>,
    /// Encodings of constants.
    pub params: BTreeMap<String, StatedEncodings>,
    /// The axes of constants with several encodings, where the file states them.
    pub axes: BTreeMap<String, i64>,
}

/// The reason why a text is not a valid encodings file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: found {found}, expected {wanted}")]
pub struct EncodingsError {
    /// The place in the file.
    pub place: String,
    /// The contents at that place.
    pub found: String,
    /// The expected contents.
    pub wanted: String,
}

fn error(place: &str, found: impl Into<String>, wanted: &str) -> EncodingsError {
    let (place, wanted) = (place.to_owned(), wanted.to_owned());
    EncodingsError { place, found: found.into(), wanted }
}

/// The keys of the two parts.
const ACTIVATIONS: &str = "activation_encodings";
const PARAMS: &str = "param_encodings";

/// The key of the list with both parts.
const BOTH: &str = "encodings";

impl FromStr for Encodings {
    type Err = EncodingsError;

    /// Reads the text of a file: JSON with encodings. An error says where it is not.
    fn from_str(text: &str) -> Result<Self, EncodingsError> {
        let root: Value =
            serde_json::from_str(text).map_err(|e| error("encodings", e.to_string(), "JSON"))?;
        let root = root.as_object().ok_or_else(|| error("encodings", "no object", "an object"))?;
        if let Some(list) = root.get(BOTH).and_then(Value::as_array) {
            return in_onnx_terms(list);
        }
        if !root.contains_key(ACTIVATIONS) && !root.contains_key(PARAMS) {
            let keys: Vec<&str> = root.keys().map(String::as_str).collect();
            let wanted = "activation_encodings or param_encodings, or a list of encodings";
            return Err(error("encodings", format!("keys {}", keys.join(", ")), wanted));
        }
        let part =
            |key, sign| root.get(key).map_or_else(|| Ok(BTreeMap::new()), |of| part(key, of, sign));
        let (activations, params) = (part(ACTIVATIONS, Sign::Never)?, part(PARAMS, Sign::AsSaid)?);
        Ok(Self { activations, params, axes: BTreeMap::new() })
    }
}

impl Encodings {
    /// All names that the file has, in order.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.activations.keys().chain(self.params.keys()).map(String::as_str).collect()
    }

    /// Returns the text of a file with a model's encodings.
    pub fn text(encoded: &[Encoded]) -> String {
        let (mut activations, mut params) = (Map::new(), Map::new());
        for of in encoded {
            let list: Vec<Value> =
                of.encodings.iter().map(|encoding| encoding_json(of.levels, *encoding)).collect();
            match of.kind {
                Kind::Activation => activations.insert(of.name.clone(), list.into()),
                Kind::Weights => params.insert(of.name.clone(), list.into()),
                // The encoding of a bias follows from those of its product.
                Kind::Bias => continue,
            };
        }
        let all = json!({ "version": VERSION, ACTIVATIONS: activations, PARAMS: params });
        format!("{all:#}\n")
    }
}

/// Returns an encoding as JSON.
fn encoding_json(levels: Levels, Encoding { scale, zero_point }: Encoding) -> Value {
    let bits = u32::from(bits(levels));
    let is_signed = levels.least < 0;
    // Offsets in files count from 0.
    let first = if is_signed { -(1i64 << (bits - 1)) } else { 0 };
    let offset = first - i64::from(zero_point);
    let end = |steps: i64| {
        #[expect(clippy::cast_precision_loss, reason = "it is small")]
        let steps = steps as f64;
        steps * f64::from(scale)
    };
    json!({
        "bitwidth": bits, "dtype": "int", "is_symmetric": if is_signed { "True" } else { "False" },
        "min": end(offset), "max": end(offset + (1i64 << bits) - 1), "offset": offset, "scale": f64::from(scale),
    })
}

fn bits(levels: Levels) -> Bits {
    match (levels.dtype, levels.most) {
        (DType::U8 | DType::I8, most) if most < 16 => Bits::Four,
        (DType::U8 | DType::I8, _) => Bits::Eight,
        _ => Bits::Sixteen,
    }
}

/// Whether integers may be negative.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Never,
    /// If the encoding is declared symmetric.
    AsSaid,
}

/// Reads one part: an object by name, or a list of members with names.
fn part(
    key: &str,
    of: &Value,
    sign: Sign,
) -> Result<BTreeMap<String, StatedEncodings>, EncodingsError> {
    let mut all = BTreeMap::new();
    match of {
        Value::Object(by_name) => {
            for (name, list) in by_name {
                let place = format!("{key}.{name}");
                let list = list.as_array().filter(|list| !list.is_empty());
                let list = list.ok_or_else(|| error(&place, "no list", "a list of encodings"))?;
                all.extend(parse_encodings(&place, list, sign)?.map(|given| (name.clone(), given)));
            }
        }
        Value::Array(members) => {
            for (at, member) in members.iter().enumerate() {
                let place = format!("{key}[{at}]");
                let name = member.get("name").and_then(Value::as_str);
                let name = name.ok_or_else(|| error(&place, "no name", "\"name\": a text"))?;
                let list = spread(&place, member)?;
                all.extend(
                    parse_encodings(&place, &list, sign)?.map(|given| (name.to_owned(), given)),
                );
            }
        }
        _ => return Err(error(key, "neither object nor list", "encodings by name")),
    }
    Ok(all)
}

/// Returns the encodings of a member with lists of scales and offsets.
fn spread(place: &str, member: &Value) -> Result<Vec<Value>, EncodingsError> {
    let list = |key: &str| member.get(key).and_then(Value::as_array);
    let scales = list("scale").ok_or_else(|| error(place, "no scale", "a list of scales"))?;
    let offsets = list("offset");
    let one = |(at, scale): (usize, &Value)| {
        let offset = offsets.and_then(|offsets| offsets.get(at));
        json!({
            "bitwidth": member.get("bw"), "dtype": member.get("dtype").and_then(Value::as_str).map(str::to_lowercase),
            "is_symmetric": member.get("is_sym"), "scale": scale, "offset": offset,
        })
    };
    Ok(scales.iter().enumerate().map(one).collect())
}

/// Returns the encodings of a value; `None` if it stays in floating point.
fn parse_encodings(
    place: &str,
    list: &[Value],
    sign: Sign,
) -> Result<Option<StatedEncodings>, EncodingsError> {
    let mut encodings = Vec::new();
    let mut common = None;
    for (at, of) in list.iter().enumerate() {
        let place = format!("{place}[{at}]");
        if of.get("dtype").and_then(Value::as_str) == Some("float") {
            return Ok(None);
        }
        let (levels, encoding) = one(&place, of)?;
        if *common.get_or_insert(levels) != levels {
            return Err(error(&place, "other bits than before", "those of all channels alike"));
        }
        encodings.push(encoding);
    }
    let mut given = common.map(|levels| (levels, encodings));
    if sign == Sign::AsSaid && list.iter().all(is_symmetric) {
        given.iter_mut().for_each(signed);
    }
    Ok(given)
}

/// Returns whether an encoding is declared symmetric.
fn is_symmetric(of: &Value) -> bool {
    match of.get("is_symmetric") {
        Some(Value::Bool(is)) => *is,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    }
}

/// ONNX types of quantized values, with their numbers of bits and signs.
const TYPES: &[(&str, Bits, bool)] = &[
    ("int16", Bits::Sixteen, true),
    ("int4", Bits::Four, true),
    ("int8", Bits::Eight, true),
    ("uint16", Bits::Sixteen, false),
    ("uint4", Bits::Four, false),
    ("uint8", Bits::Eight, false),
];

/// Types of values that stay in floating point.
const REAL_TYPES: &[&str] = &["bfloat16", "float", "float16", "float32"];

/// Reads a file whose members are in terms of `QuantizeLinear` inputs. It does not distinguish constants, so each name
/// counts as both.
fn in_onnx_terms(list: &[Value]) -> Result<Encodings, EncodingsError> {
    let mut all = Encodings::default();
    for (at, member) in list.iter().enumerate() {
        let name = member.get("name").and_then(Value::as_str);
        let name =
            name.ok_or_else(|| error(&format!("{BOTH}[{at}]"), "no name", "\"name\": a text"))?;
        let place = format!("{BOTH}[{at}] {name:?}");
        let Some((activation, param)) = of_member(&place, member)? else { continue };
        if let Some(axis) = member.get("axis").and_then(Value::as_i64) {
            all.axes.insert(name.to_owned(), axis);
        }
        all.activations.insert(name.to_owned(), activation);
        all.params.insert(name.to_owned(), param);
    }
    Ok(all)
}

/// Returns the encodings of a member as an activation and as a constant; `None` if it stays in floating point.
fn of_member(
    place: &str,
    member: &Value,
) -> Result<Option<(StatedEncodings, StatedEncodings)>, EncodingsError> {
    let dtype = member.get("output_dtype").and_then(Value::as_str).unwrap_or("uint8");
    if REAL_TYPES.contains(&dtype) {
        return Ok(None);
    }
    let known = TYPES.iter().find(|(name, ..)| *name == dtype);
    let &(_, bits, is_signed) = known.ok_or_else(|| {
        let names: Vec<&str> = TYPES.iter().map(|(name, ..)| *name).collect();
        error(place, format!("output_dtype {dtype}"), &format!("one of {}", names.join(", ")))
    })?;
    let has_blocks = ["block_size", "per_block_int_scale", "per_channel_float_scale"]
        .into_iter()
        .find(|key| !matches!(member.get(*key), None | Some(Value::Null)));
    if let Some(key) = has_blocks {
        return Err(error(place, key, "a scale for all, or one for each position of an axis"));
    }
    let scales = numbers(place, member.get("y_scale"), "y_scale")?;
    let zeros = match member.get("y_zero_point") {
        None | Some(Value::Null) => vec![0.0; scales.len()],
        zeros => numbers(place, zeros, "y_zero_point")?,
    };
    if scales.is_empty() || zeros.len() != scales.len() {
        let found = format!("{} scales and {} zero points", scales.len(), zeros.len());
        return Err(error(place, found, "as many of both"));
    }
    let levels = Levels::unsigned(bits);
    let middle = i32::midpoint(levels.most, 1);
    let first = if is_signed { middle } else { 0 };
    let mut encodings = Vec::new();
    for (scale, zero) in scales.iter().zip(&zeros) {
        #[expect(clippy::cast_possible_truncation, reason = "it saturates, and is checked")]
        let zero_point = (*zero as i32).saturating_add(first);
        let encoding = Encoding { scale: to_single(*scale), zero_point };
        let is_whole = zero.fract().abs() < f64::EPSILON;
        if !is_whole || !is_fit(levels, encoding) {
            let found = format!("y_scale {scale} and y_zero_point {zero}");
            let wanted = format!(
                "a scale above 0 and a whole zero point from {} to {}",
                -first,
                levels.most - first
            );
            return Err(error(place, found, &wanted));
        }
        encodings.push(encoding);
    }
    let activation = (levels, encodings);
    let mut param = activation.clone();
    if param.1.iter().all(|of| is_signed && of.zero_point == middle) {
        signed(&mut param);
    }
    Ok(Some((activation, param)))
}

/// Returns a number or a list of numbers.
fn numbers(place: &str, of: Option<&Value>, key: &str) -> Result<Vec<f64>, EncodingsError> {
    let list = match of {
        Some(Value::Array(list)) => list.iter().map(Value::as_f64).collect(),
        Some(one) => one.as_f64().map(|one| vec![one]),
        None => None,
    };
    list.ok_or_else(|| {
        error(place, format!("no {key}"), &format!("{key}: a number or a list of them"))
    })
}

/// Returns whether an encoding has a valid scale and zero point.
fn is_fit(levels: Levels, Encoding { scale, zero_point }: Encoding) -> bool {
    scale.is_normal() && scale > 0.0 && (0..=levels.most).contains(&zero_point)
}

fn one(place: &str, of: &Value) -> Result<(Levels, Encoding), EncodingsError> {
    let bits = of.get("bitwidth").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let bits = bits.and_then(Bits::with_count).ok_or_else(|| {
        error(
            place,
            format!("bitwidth {}", of.get("bitwidth").unwrap_or(&Value::Null)),
            "4, 8 or 16",
        )
    })?;
    let number = |key: &str| of.get(key).and_then(Value::as_f64);
    let levels = Levels::unsigned(bits);
    let encoding = match (number("scale"), number("offset"), number("min"), number("max")) {
        (Some(scale), offset, ..) => {
            let middle = -f64::from(1u32 << (u32::from(bits) - 1));
            let offset = offset.or(is_symmetric(of).then_some(middle));
            let offset =
                offset.ok_or_else(|| error(place, "no offset", "one, as scale is given"))?;
            #[expect(clippy::cast_possible_truncation, reason = "it is checked below")]
            let zero_point = -offset as i32;
            Encoding { scale: to_single(scale), zero_point }
        }
        (None, _, Some(min), Some(max)) if min <= max => {
            let range = Range { min, max };
            // A given range is used unchanged, unless it contains only 0.
            let width = if range.width() > 0.0 { range.width() } else { LEAST_WIDTH };
            levels.asymmetric(range, width)
        }
        _ => return Err(error(place, "neither scale nor min and max", "one of both")),
    };
    if !is_fit(levels, encoding) {
        let Encoding { scale, zero_point } = encoding;
        let found = format!("scale {scale} and offset {}", -i64::from(zero_point));
        let wanted = format!("a scale above 0 and an offset from {} to 0", -levels.most);
        return Err(error(place, found, &wanted));
    }
    Ok((levels, encoding))
}

/// Converts unsigned encodings with a zero point in the middle to signed ones.
fn signed(given: &mut StatedEncodings) {
    let (levels, encodings) = given;
    let middle = i32::midpoint(levels.most, 1);
    let is_middle = |of: &Encoding| of.zero_point == middle || of.zero_point == middle - 1;
    if encodings.iter().all(is_middle) {
        let dtype = if levels.dtype == DType::U8 { DType::I8 } else { DType::I16 };
        *levels = Levels { dtype, least: -middle, most: middle - 1 };
        for encoding in encodings {
            encoding.zero_point = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &str, kind: Kind, levels: Levels, encodings: &[(f32, i32)]) -> Encoded {
        let encodings = encodings.iter();
        let encodings = encodings.map(|&(scale, zero_point)| Encoding { scale, zero_point });
        let (name, encodings) = (name.to_owned(), encodings.collect());
        let back = String::new();
        Encoded { name, kind, levels, encodings, back, noise: None, width: None, unmasked: None }
    }

    #[test]
    fn files_survive_a_round_trip() {
        let u8s = Levels::unsigned(Bits::Eight);
        let all = [
            encoded("x", Kind::Activation, u8s, &[(0.5, 128)]),
            encoded("y", Kind::Activation, Levels::unsigned(Bits::Sixteen), &[(0.25, 7)]),
            encoded("w", Kind::Weights, Levels::signed(Bits::Eight), &[(0.5, 0), (2.0, 0)]),
            encoded("v", Kind::Weights, u8s, &[(0.5, 3)]),
            encoded("b", Kind::Bias, Levels::signed(Bits::Eight), &[(0.5, 0)]),
        ];
        let text = Encodings::text(&all);
        let read = Encodings::from_str(&text).unwrap();
        assert_eq!(read.activations["x"], (u8s, all[0].encodings.clone()));
        assert_eq!(read.activations["y"].1, all[1].encodings);
        assert_eq!(read.params["w"].0.dtype, DType::I8);
        assert_eq!(read.params["w"].1, all[2].encodings);
        assert_eq!(read.params["v"], (u8s, all[3].encodings.clone()));
        assert_eq!(read.params.len(), 2);
        assert!(text.contains("\"offset\": -128") && text.contains("\"min\": -64.0"), "{text}");
    }

    #[test]
    fn both_forms_are_read_and_floats_stay() {
        let text = r#"{"activation_encodings": [
            {"name": "x", "bw": 8, "dtype": "INT", "is_sym": false, "scale": [0.5], "offset": [-3]},
            {"name": "f", "bw": 16, "dtype": "FLOAT", "scale": [1.0], "offset": [0]}]}"#;
        let read = Encodings::from_str(text).unwrap();
        assert_eq!(read.activations.len(), 1);
        assert_eq!(read.activations["x"].1, [Encoding { scale: 0.5, zero_point: 3 }]);
        for (said, dtype) in [("", DType::U8), (r#""is_symmetric": true, "#, DType::I8)] {
            let text = format!(
                r#"{{"param_encodings": {{"w": [{{{said}"bitwidth": 8, "min": -5.1, "max": 5.1}}]}}}}"#
            );
            let read = Encodings::from_str(&text).unwrap();
            assert_eq!(read.params["w"].0.dtype, dtype, "{said}");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_the_place() {
        let cases = [
            ("{", "encodings: "),
            ("[]", "encodings: found no object"),
            (r#"{"x": 1}"#, "encodings: found keys x, expected activation_encodings"),
            (r#"{"activation_encodings": {"x": 1}}"#, "activation_encodings.x: found no list"),
            (
                r#"{"activation_encodings": {"x": [{"bitwidth": 5}]}}"#,
                "activation_encodings.x[0]: found bitwidth 5, expected 4, 8 or 16",
            ),
            (
                r#"{"activation_encodings": {"x": [{"bitwidth": 8, "scale": 0.0, "offset": 0}]}}"#,
                "activation_encodings.x[0]: found scale 0 and offset 0",
            ),
            (
                r#"{"activation_encodings": {"x": [{"bitwidth": 8, "scale": 1.0, "offset": -300}]}}"#,
                "activation_encodings.x[0]: found scale 1 and offset -300",
            ),
            (
                r#"{"param_encodings": {"w": [{"bitwidth": 8}]}}"#,
                "param_encodings.w[0]: found neither",
            ),
        ];
        for (text, wanted) in cases {
            let found = Encodings::from_str(text).unwrap_err().to_string();
            assert!(found.starts_with(wanted), "{found}");
        }
    }
}
