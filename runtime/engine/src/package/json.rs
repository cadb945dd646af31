//! Typed access to JSON from outside. Errors state where in the document the problem is.

use serde_json::Value;
use udo_api::Core;

/// The reason why a document is not as expected.
#[derive(Debug, thiserror::Error)]
pub(super) enum JsonError {
    /// The text is not JSON.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
    /// A value has the wrong type or an unknown value. An empty `at` stands for the whole document.
    #[error("{} is {found}, expected {expected}", if at.is_empty() { "it".to_owned() } else { format!("`{at}`") })]
    Value { at: String, found: String, expected: &'static str },
    /// A member is missing.
    #[error("`{at}` is missing")]
    Missing { at: String },
    /// The document has another format version.
    #[error("it has format version {found}, expected {expected}")]
    Format { found: u64, expected: u64 },
}

/// A value and its path in the document, such as `ops[1].inputs[0]`.
pub(super) struct Node<'a> {
    value: &'a Value,
    at: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, at: String::new() }
    }

    /// Creates an error about this value: `ops[1].name` is 3, expected a string.
    pub(super) fn unexpected(&self, expected: &'static str) -> JsonError {
        let found = match self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(truth) => truth.to_string(),
            Value::Number(number) => number.to_string(),
            Value::String(text) => format!("{:?}", shortened(text)),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        };
        JsonError::Value { at: self.at.clone(), found, expected }
    }

    fn path_to(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    /// Returns member `key`, if it exists.
    pub(super) fn optional(&self, key: &str) -> Result<Option<Node<'a>>, JsonError> {
        let Value::Object(members) = self.value else {
            return Err(self.unexpected("an object"));
        };
        Ok(members.get(key).map(|value| Node { value, at: self.path_to(key) }))
    }

    pub(super) fn member(&self, key: &str) -> Result<Node<'a>, JsonError> {
        self.optional(key)?.ok_or_else(|| JsonError::Missing { at: self.path_to(key) })
    }

    pub(super) fn text(&self, key: &str) -> Result<&'a str, JsonError> {
        let node = self.member(key)?;
        match node.value {
            Value::String(text) => Ok(text),
            _ => Err(node.unexpected("a string")),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<u64, JsonError> {
        let node = self.member(key)?;
        node.value.as_u64().ok_or_else(|| node.unexpected("a non-negative integer"))
    }

    pub(super) fn boolean(&self, key: &str) -> Result<bool, JsonError> {
        let node = self.member(key)?;
        node.value.as_bool().ok_or_else(|| node.unexpected("true or false"))
    }

    /// Returns the core that member `key` names.
    pub(super) fn core(&self, key: &str) -> Result<Core, JsonError> {
        let node = self.member(key)?;
        let found = node.value.as_str().and_then(Core::from_name);
        found.ok_or_else(|| node.unexpected("a core, such as \"cpu\" or \"dsp:v68\""))
    }

    pub(super) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// Parses member `key`, a list, item by item.
    pub(super) fn list<T>(
        &self,
        key: &str,
        read: impl Fn(&Node<'a>) -> Result<T, JsonError>,
    ) -> Result<Vec<T>, JsonError> {
        let node = self.member(key)?;
        let Value::Array(items) = node.value else {
            return Err(node.unexpected("a list"));
        };
        let numbered = items.iter().enumerate();
        numbered.map(|(i, value)| read(&Node { value, at: format!("{}[{i}]", node.at) })).collect()
    }

    pub(super) fn as_text(&self) -> Option<&'a str> {
        self.value.as_str()
    }
}

fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(40)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_say_where_what_and_what_was_wanted() {
        let document: Value = serde_json::from_str(
            r#"{"a": {"b": 7}, "list": [{"n": "x"}, {"n": -1}], "core": "npu"}"#,
        )
        .unwrap();
        let root = Node::root(&document);
        let cases = [
            (root.text("gone").unwrap_err(), "`gone` is missing"),
            (root.member("a").unwrap().text("b").unwrap_err(), "`a.b` is 7, expected a string"),
            (
                root.list("list", |n| n.number("n")).unwrap_err(),
                "`list[0].n` is \"x\", expected a non-negative integer",
            ),
            (
                root.core("core").unwrap_err(),
                "`core` is \"npu\", expected a core, such as \"cpu\" or \"dsp:v68\"",
            ),
            (root.list("a", |n| n.boolean("b")).unwrap_err(), "`a` is an object, expected a list"),
        ];
        for (found, expected) in cases {
            assert_eq!(found.to_string(), expected);
        }
        let list = Value::Array(Vec::new());
        let found = Node::root(&list).text("x").unwrap_err();
        assert_eq!(found.to_string(), "it is a list, expected an object");
    }
}
