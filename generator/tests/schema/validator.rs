//! A JSON Schema validator for tests, with the keywords that the schema of configs uses. Other keywords panic.

use serde_json::{Map, Value};

/// Keywords that do not constrain a value, or not a value of another type.
const IGNORED: &[&str] = &[
    "$schema",
    "$defs",
    "title",
    "description",
    "then",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "items",
    "minProperties",
    "required",
    "properties",
    "additionalProperties",
];

/// Lists the violations of `schema` in `value`, one line each with its place.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut validate = Validator { root: schema, faults: Vec::new() };
    validate.validate(schema, value, "$");
    validate.faults
}

struct Validator<'s> {
    root: &'s Value,
    faults: Vec<String>,
}

impl<'s> Validator<'s> {
    fn validate(&mut self, schema: &'s Value, value: &Value, path: &str) {
        let Some(keywords) = schema.as_object() else {
            return self.report_unless(*schema == Value::Bool(true), path, "nothing may be here");
        };
        for (keyword, rule) in keywords {
            self.keyword(keywords, keyword, rule, value, path);
        }
    }

    /// Records a violation unless `holds`.
    fn report_unless(&mut self, holds: bool, path: &str, what: &str) {
        if !holds {
            self.faults.push(format!("{path}: {what}"));
        }
    }

    fn holds(&self, schema: &'s Value, value: &Value) -> bool {
        let mut inner = Validator { root: self.root, faults: Vec::new() };
        inner.validate(schema, value, "");
        inner.faults.is_empty()
    }

    fn keyword(
        &mut self,
        keywords: &'s Map<String, Value>,
        keyword: &str,
        rule: &'s Value,
        value: &Value,
        path: &str,
    ) {
        let list = || rule.as_array().unwrap();
        let is_valid = match (keyword, value) {
            ("$ref", _) => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                return self.validate(&self.root["$defs"][name], value, path);
            }
            ("type", _) => match rule {
                Value::Array(types) => types.iter().any(|type_name| has_type(value, type_name)),
                type_name => has_type(value, type_name),
            },
            ("enum", _) => list().contains(value),
            ("const", _) => rule == value,
            ("not", _) => !self.holds(rule, value),
            ("anyOf", _) => list().iter().any(|schema| self.holds(schema, value)),
            ("oneOf", _) => list().iter().filter(|schema| self.holds(schema, value)).count() == 1,
            ("allOf", _) => {
                return list().iter().for_each(|schema| self.validate(schema, value, path));
            }
            ("if", _) => !self.holds(rule, value) || self.holds(&keywords["then"], value),
            ("minimum", Value::Number(number)) => number.as_f64() >= rule.as_f64(),
            ("maximum", Value::Number(number)) => number.as_f64() <= rule.as_f64(),
            ("minLength", Value::String(text)) => text.chars().count() >= count(rule),
            ("maxLength", Value::String(text)) => text.chars().count() <= count(rule),
            ("pattern", Value::String(text)) => {
                assert_eq!(rule, "^[A-Za-z_][A-Za-z0-9_]*$", "this pattern is not known here");
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                text.starts_with(|c: char| is_word(c) && !c.is_ascii_digit())
                    && text.chars().all(is_word)
            }
            ("minItems", Value::Array(items)) => items.len() >= count(rule),
            ("maxItems", Value::Array(items)) => items.len() <= count(rule),
            ("items", Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.validate(rule, item, &format!("{path}[{index}]"));
                }
                return;
            }
            ("minProperties", Value::Object(members)) => members.len() >= count(rule),
            ("required", Value::Object(members)) => {
                list().iter().all(|key| members.contains_key(key.as_str().unwrap()))
            }
            ("properties", Value::Object(members)) => {
                for (key, member) in members {
                    if let Some(schema) = rule.get(key) {
                        self.validate(schema, member, &format!("{path}.{key}"));
                    }
                }
                return;
            }
            ("additionalProperties", Value::Object(members)) => {
                let known = keywords.get("properties").and_then(Value::as_object);
                for (key, member) in members {
                    if !known.is_some_and(|known| known.contains_key(key)) {
                        self.validate(rule, member, &format!("{path}.{key}"));
                    }
                }
                return;
            }
            (unknown, _) => {
                assert!(IGNORED.contains(&unknown), "the schema has {unknown:?}, not known here");
                true
            }
        };
        self.report_unless(is_valid, path, &format!("{value} breaks {keyword}: {rule}"));
    }
}

fn count(rule: &Value) -> usize {
    usize::try_from(rule.as_u64().unwrap()).unwrap()
}

fn has_type(value: &Value, type_name: &Value) -> bool {
    match (type_name.as_str().unwrap(), value) {
        ("object", Value::Object(_))
        | ("array", Value::Array(_))
        | ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => number.is_i64() || number.is_u64(),
        _ => false,
    }
}
