//! Judges a value by a JSON Schema, as far as the schema of configs goes: a keyword that is not known here
//! is a fault of the schema.

use serde_json::{Map, Value};

/// Keywords that say nothing, or nothing about values of another type.
const SILENT: &[&str] = &[
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
    let mut judge = Judge { root: schema, faults: Vec::new() };
    judge.judge(schema, value, "$");
    judge.faults
}

struct Judge<'s> {
    root: &'s Value,
    faults: Vec<String>,
}

impl<'s> Judge<'s> {
    fn judge(&mut self, schema: &'s Value, value: &Value, at: &str) {
        let Some(keywords) = schema.as_object() else {
            return self.say(*schema == Value::Bool(true), at, "nothing may be here");
        };
        for (keyword, rule) in keywords {
            self.keyword(keywords, keyword, rule, value, at);
        }
    }

    fn say(&mut self, holds: bool, at: &str, what: &str) {
        if !holds {
            self.faults.push(format!("{at}: {what}"));
        }
    }

    fn holds(&self, schema: &'s Value, value: &Value) -> bool {
        let mut inner = Judge { root: self.root, faults: Vec::new() };
        inner.judge(schema, value, "");
        inner.faults.is_empty()
    }

    fn keyword(
        &mut self,
        all: &'s Map<String, Value>,
        keyword: &str,
        rule: &'s Value,
        value: &Value,
        at: &str,
    ) {
        let list = || rule.as_array().unwrap();
        let is_valid = match (keyword, value) {
            ("$ref", _) => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                return self.judge(&self.root["$defs"][name], value, at);
            }
            ("type", _) => match rule {
                Value::Array(types) => types.iter().any(|of| is_of(value, of)),
                of => is_of(value, of),
            },
            ("enum", _) => list().contains(value),
            ("const", _) => rule == value,
            ("not", _) => !self.holds(rule, value),
            ("anyOf", _) => list().iter().any(|schema| self.holds(schema, value)),
            ("oneOf", _) => list().iter().filter(|schema| self.holds(schema, value)).count() == 1,
            ("allOf", _) => return list().iter().for_each(|schema| self.judge(schema, value, at)),
            ("if", _) => !self.holds(rule, value) || self.holds(&all["then"], value),
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
                    self.judge(rule, item, &format!("{at}[{index}]"));
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
                        self.judge(schema, member, &format!("{at}.{key}"));
                    }
                }
                return;
            }
            ("additionalProperties", Value::Object(members)) => {
                let known = all.get("properties").and_then(Value::as_object);
                for (key, member) in members {
                    if !known.is_some_and(|known| known.contains_key(key)) {
                        self.judge(rule, member, &format!("{at}.{key}"));
                    }
                }
                return;
            }
            (other, _) => {
                assert!(SILENT.contains(&other), "the schema has {other:?}, not known here");
                true
            }
        };
        self.say(is_valid, at, &format!("{value} breaks {keyword}: {rule}"));
    }
}

fn count(rule: &Value) -> usize {
    usize::try_from(rule.as_u64().unwrap()).unwrap()
}

fn is_of(value: &Value, of: &Value) -> bool {
    match (of.as_str().unwrap(), value) {
        ("object", Value::Object(_))
        | ("array", Value::Array(_))
        | ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => number.is_i64() || number.is_u64(),
        _ => false,
    }
}
