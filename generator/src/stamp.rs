//! Stamps: the part of the config that a file of the package's author depends on. A file contains the hash of its
//! stamp, the fingerprint, so that `udo new` can report files that were written for another config.

use std::fmt::Write as _;

use udo_reference::Class;

use crate::{
    config::{Core, DefaultValue, Op, Scalar, Tensor},
    reference,
};

/// The part of an operator's config that one file depends on, one line per port and parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Lines such as `input x: FLOAT_32`.
    pub lines: Vec<String>,
}

/// The word before the fingerprint in an author's file, after the comment sign.
pub(crate) const STAMP_WORD: &str = "config ";

impl Stamp {
    /// Returns the stamp of an operator's file on one core, or of its shape inference without a core.
    pub(crate) fn for_op(op: &Op, core: Option<Core>) -> Self {
        let mut lines = vec![format!("operator {}", op.name)];
        for (kind, tensors) in [("input", &op.inputs), ("output", &op.outputs)] {
            lines.extend(tensors.iter().map(|tensor| port(kind, tensor, core)));
        }
        for param in &op.scalar_params {
            let mut line = format!("parameter {}: {}", param.name, param.dtype);
            if let Some(value) = &param.default {
                let _ = write!(line, " = {}", scalar(value));
            }
            close(&mut line, param.is_optional, param.attribute.as_deref());
            lines.push(line);
        }
        lines.extend(op.tensor_params.iter().map(|tensor| port("parameter", tensor, core)));
        let source = op.reference.iter().flat_map(|source| source.lines());
        lines.extend(source.map(|line| format!("reference {line}")));
        Self { lines }
    }

    /// Returns the stamp of an operator's formula, which depends on classes of elements, not on their
    /// storage.
    pub(crate) fn for_formula(op: &Op) -> Self {
        let mut stamp = Self::for_op(op, None);
        let tensors = op.inputs.iter().chain(&op.outputs).chain(&op.tensor_params);
        stamp.lines.extend(tensors.map(|tensor| {
            let class = match reference::class(tensor) {
                // Must not change: existing files contain hashes of these words.
                Class::Float => "real numbers",
                Class::Int => "integers",
                Class::Bool => "bools",
            };
            format!("elements of {}: {class}", tensor.name)
        }));
        stamp
    }

    /// Returns a hash of the lines, as sixteen hexadecimal digits.
    pub(crate) fn fingerprint(&self) -> String {
        digest(&self.lines.join("\n"))
    }
}

/// Returns the line of a port or tensor parameter.
fn port(kind: &str, tensor: &Tensor, core: Option<Core>) -> String {
    let mut line = format!("{kind} {}", tensor.name);
    let dtype = match core {
        Some(core) => tensor.type_on(core).or(tensor.types.first().map(|entry| entry.dtype)),
        // Shapes do not depend on types.
        None => None,
    };
    if let Some(dtype) = dtype {
        let _ = write!(line, ": {dtype}");
    }
    if tensor.is_static {
        line.push_str(", static");
    }
    if tensor.repeated {
        line.push_str(", repeated");
    }
    if let Some(layout) = tensor.layout {
        let _ = write!(line, ", {}", layout.as_str());
    }
    if let Some(mode) = tensor.quantization.filter(|_| matches!(core, Some(Core::Dsp(_)))) {
        let _ = write!(line, ", {}", mode.as_str());
    }
    match &tensor.default {
        Some(DefaultValue::Scalar(value)) => {
            let _ = write!(line, " = {}", scalar(value));
        }
        Some(DefaultValue::List(values)) => {
            let values: Vec<String> = values.iter().map(scalar).collect();
            let _ = write!(line, " = [{}]", values.join(", "));
        }
        None => {}
    }
    close(&mut line, tensor.is_optional, tensor.attribute.as_deref());
    line
}

/// Appends the optional marks to a line.
fn close(line: &mut String, is_optional: bool, attribute: Option<&str>) {
    if is_optional {
        line.push_str(", optional");
    }
    if let Some(attribute) = attribute {
        let _ = write!(line, ", attribute {attribute:?}");
    }
}

fn scalar(value: &Scalar) -> String {
    match value {
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => format!("{value:?}"),
        Scalar::Text(value) => format!("{value:?}"),
    }
}

/// Returns the 64-bit FNV-1a hash of a text, which is the same on every machine.
pub(crate) fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Returns the stamp's fingerprint if one of the first eight lines of a file contains it.
pub(crate) fn read_fingerprint(text: &str) -> Option<&str> {
    text.lines().take(8).find_map(|line| {
        let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("//"))?;
        let word = comment.trim().strip_prefix(STAMP_WORD)?;
        (word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit())).then_some(word)
    })
}

/// Replaces the fingerprint of a file; `None` if the file has no fingerprint.
pub(crate) fn replace_fingerprint(text: &str, fingerprint: &str) -> Option<String> {
    let old = format!("{STAMP_WORD}{}", read_fingerprint(text)?);
    Some(text.replacen(&old, &format!("{STAMP_WORD}{fingerprint}"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_fnv_1a() {
        assert_eq!(digest(""), "cbf29ce484222325");
        assert_eq!(digest("a"), "af63dc4c8601ec8c");
    }

    #[test]
    fn fingerprints_are_read_from_comments() {
        let cases = [
            ("//! yours\n//! config 0123456789abcdef\n", Some("0123456789abcdef")),
            ("// config 0123456789abcdef\n", Some("0123456789abcdef")),
            ("//! config later\n", None),
            ("fn main() {}\n", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read_fingerprint(text), expected, "{text:?}");
        }
    }
}
