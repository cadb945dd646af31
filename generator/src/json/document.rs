//! JSON values with their places, for the JSON front end. `serde_json` parses the text; a raw value is a slice of it,
//! so the slice's address gives the value's offset.

use std::{collections::HashMap, fmt};

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::{
    diagnostic::Kind,
    draft::{At, Field, FileId, Spot},
    report::{Report, problem},
    spelling::{did_you_mean, one_of, quote},
};

/// The state of the front end for one file.
pub(super) struct Reader<'r, 's, 't> {
    pub(super) text: &'t str,
    pub(super) file: FileId,
    pub(super) report: &'r mut Report<'s>,
}

/// A value and its path in the document.
#[derive(Debug, Clone)]
pub(super) struct Node<'t> {
    pub(super) raw: &'t RawValue,
    pub(super) path: String,
}

/// An object's members in order, each key once.
#[derive(Debug)]
pub(super) struct Object<'t> {
    pub(super) spot: Spot,
    pub(super) members: Vec<Member<'t>>,
}

/// A member of an object.
#[derive(Debug)]
pub(super) struct Member<'t> {
    pub(super) key: String,
    pub(super) key_spot: Spot,
    pub(super) value: Node<'t>,
}

impl<'t> Object<'t> {
    pub(super) fn get(&self, key: &str) -> Option<&Member<'t>> {
        self.members.iter().find(|member| member.key == key)
    }
}

/// A function that reads a value; `None` means that it was refused and reported.
pub(super) type Read<'r, 's, 't, T> = fn(&mut Reader<'r, 's, 't>, &Node<'t>) -> Option<T>;

impl<'r, 's, 't> Reader<'r, 's, 't> {
    pub(super) fn spot(&self, node: &Node<'_>) -> Spot {
        self.spot_of(node.raw, &node.path)
    }

    fn spot_of(&self, raw: &RawValue, path: &str) -> Spot {
        let offset = raw.get().as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        Spot { file: self.file, offset: offset.min(self.text.len()), path: path.to_owned() }
    }

    /// Reads an object of the grammar; reports unknown keys.
    pub(super) fn object(&mut self, node: &Node<'t>, known: &[&str]) -> Option<Object<'t>> {
        let object = self.any_object(node)?;
        self.refuse_unknown(&object, known);
        Some(object)
    }

    pub(super) fn refuse_unknown(&mut self, object: &Object<'t>, known: &[&str]) {
        for member in object.members.iter().filter(|m| !known.contains(&m.key.as_str())) {
            let help = did_you_mean(&member.key, known, "remove the field");
            self.report.error(
                &member.key_spot,
                problem(Kind::UnknownField, quote(&member.key), one_of(known), help),
            );
        }
    }

    /// Reads an object with arbitrary keys.
    pub(super) fn any_object(&mut self, node: &Node<'t>) -> Option<Object<'t>> {
        if !node.raw.get().starts_with('{') {
            return self.wrong_type(node, "an object");
        }
        let entries = serde_json::Deserializer::from_str(node.raw.get()).deserialize_map(Entries);
        let Ok(entries) = entries else { return self.wrong_type(node, "an object") };
        let spot = self.spot(node);
        let mut members: Vec<Member<'t>> = Vec::with_capacity(entries.len());
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (raw_key, raw) in entries {
            let Some(key) = self.text_of(&Node { raw: raw_key, path: node.path.clone() }) else {
                continue;
            };
            let path = member_path(&node.path, &key);
            let key_spot = self.spot_of(raw_key, &path);
            let first = seen.get(&key).and_then(|index| members.get(*index));
            if let Some(first) = first {
                let help = format!(
                    "keep one of the two; the first is at {}",
                    self.report.place(&first.key_spot)
                );
                let found = format!("{} again", quote(&key));
                self.report
                    .error(&key_spot, problem(Kind::DuplicateKey, found, "each key once", help));
                continue;
            }
            seen.insert(key.clone(), members.len());
            members.push(Member { key, key_spot, value: Node { raw, path } });
        }
        Some(Object { spot, members })
    }

    pub(super) fn list(&mut self, node: &Node<'t>) -> Option<Vec<Node<'t>>> {
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(node.raw.get()) else {
            return self.wrong_type(node, "a list");
        };
        let item = |(i, raw)| Node { raw, path: format!("{}[{i}]", node.path) };
        Some(items.into_iter().enumerate().map(item).collect())
    }

    /// Reads each entry of a list. Returns `None` if one was refused, since checks of the whole
    /// list need all entries.
    pub(super) fn list_of<T>(
        &mut self,
        node: &Node<'t>,
        read: Read<'r, 's, 't, T>,
    ) -> Option<At<Vec<T>>> {
        let spot = self.spot(node);
        let items: Vec<Option<T>> = self.list(node)?.iter().map(|item| read(self, item)).collect();
        items.into_iter().collect::<Option<Vec<T>>>().map(|value| At { value, spot })
    }

    pub(super) fn string(&mut self, node: &Node<'t>) -> Option<At<String>> {
        if !node.raw.get().starts_with('"') {
            return self.wrong_type(node, "a string");
        }
        let value = self.text_of(node)?;
        Some(At { value, spot: self.spot(node) })
    }

    pub(super) fn boolean(&mut self, node: &Node<'t>) -> Option<At<bool>> {
        let Ok(value) = serde_json::from_str(node.raw.get()) else {
            return self.wrong_type(node, "true or false");
        };
        Some(At { value, spot: self.spot(node) })
    }

    pub(super) fn optional<T>(
        &mut self,
        object: &Object<'t>,
        key: &str,
        read: Read<'r, 's, 't, T>,
    ) -> Field<T> {
        match object.get(key) {
            None => Field::Absent,
            Some(member) => match read(self, &member.value) {
                None => Field::Refused,
                Some(value) => Field::Given(value),
            },
        }
    }

    pub(super) fn required<T>(
        &mut self,
        object: &Object<'t>,
        key: &str,
        read: Read<'r, 's, 't, T>,
    ) -> Option<T> {
        if let Some(member) = object.get(key) {
            return read(self, &member.value);
        }
        let spot = Spot { path: member_path(&object.spot.path, key), ..object.spot.clone() };
        let help = format!("add \"{key}\" to this object");
        let expected = format!("\"{key}\"");
        self.report.error(&spot, problem(Kind::MissingField, "no such field", expected, help));
        None
    }

    pub(super) fn wrong_type<T>(&mut self, node: &Node<'t>, expected: &str) -> Option<T> {
        let help = format!("write {expected} here");
        let spot = self.spot(node);
        self.report.error(&spot, problem(Kind::JsonType, describe(node.raw), expected, help));
        None
    }

    /// Returns the text of a JSON string, or reports an invalid `\u` escape.
    fn text_of(&mut self, node: &Node<'_>) -> Option<String> {
        if let Ok(text) = serde_json::from_str(node.raw.get()) {
            return Some(text);
        }
        let spot = self.spot(node);
        self.report.error(
            &spot,
            problem(
                Kind::Syntax,
                "an invalid escape",
                "a Unicode string",
                "write the character itself",
            ),
        );
        None
    }
}

/// Returns `$.UdoPackage_0`, or `$["a key"]` if the key is not a word.
fn member_path(path: &str, key: &str) -> String {
    let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_word { format!("{path}.{key}") } else { format!("{path}[{}]", quote(key)) }
}

/// Describes the value.
pub(super) fn describe(raw: &RawValue) -> String {
    let text = raw.get();
    match text.bytes().next() {
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "a list".to_owned(),
        Some(b'"') => match serde_json::from_str::<String>(text) {
            Ok(word) => format!("the string {}", quote(&word)),
            Err(_) => "a string".to_owned(),
        },
        Some(b't' | b'f' | b'n') => text.to_owned(),
        _ if text.len() > 40 => "a long number".to_owned(),
        _ => format!("the number {text}"),
    }
}

/// Collects an object's members in order, duplicates included.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(&'de RawValue, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Mode, Source};

    #[test]
    fn members_have_their_offsets_in_the_text() {
        let text = " { \"a\" : [1, {\"b c\": true}], \"a\": 2 }";
        let files = [Source { path: Path::new("c.json"), text }];
        let mut report = Report::new(&files, Mode::Strict);
        let mut reader = Reader { text, file: FileId(0), report: &mut report };
        let raw = serde_json::from_str(text).unwrap();
        let root = reader.any_object(&Node { raw, path: "$".into() }).unwrap();
        assert_eq!(root.spot.offset, 1);
        assert_eq!(root.members.len(), 1);
        let list = reader.list(&root.members[0].value).unwrap();
        let inner = reader.any_object(&list[1]).unwrap();
        let member = &inner.members[0];
        assert_eq!(text.get(member.key_spot.offset..), Some("\"b c\": true}], \"a\": 2 }"));
        assert_eq!(member.key_spot.path, "$.a[1][\"b c\"]");
        assert_eq!(reader.boolean(&member.value).map(|at| at.value), Some(true));
        let faults = report.finish().unwrap_err().diagnostics;
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].kind, Kind::DuplicateKey);
        assert_eq!(faults[0].position.column, 30);
    }

    #[test]
    fn values_are_described_in_words() {
        let cases = [
            ("{}", "an object"),
            ("[1]", "a list"),
            ("\"x\"", "the string \"x\""),
            ("-1.5e3", "the number -1.5e3"),
            ("null", "null"),
            ("false", "false"),
        ];
        for (text, expected) in cases {
            assert_eq!(describe(serde_json::from_str(text).unwrap()), expected);
        }
    }
}
