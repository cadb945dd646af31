//! Reads default values and the words of the grammar: data types, cores, architectures, layouts,
//! modes.

use super::document::{Node, Reader};
use crate::{
    config::{DSP_ARCHS, DataType, Layout, QuantizationMode},
    diagnostic::Kind,
    draft::{At, CoreKind, Literal},
    report::problem,
    spelling::{did_you_mean, nearest, one_of, quote},
};

/// Names of processors that are not cores for user operators, with help.
const OTHER_CORES: &[(&str, &str)] = &[
    ("HTA", "user operators do not run on the HTA; declare \"DSP\" or \"CPU\""),
    ("AIP", "the AIP runtime runs user operators on the DSP; declare \"DSP\""),
    ("HTP", "the HTP is the DSP from V68 on; declare \"DSP\" with \"dsp_arch_types\": [\"v68\"]"),
    ("NPU", "the NPU is the DSP from V68 on; declare \"DSP\" with \"dsp_arch_types\": [\"v68\"]"),
];

pub(super) fn data_type<'t>(
    reader: &mut Reader<'_, '_, 't>,
    node: &Node<'t>,
) -> Option<At<DataType>> {
    let word = reader.string(node)?;
    if let Some(dtype) = DataType::ALL.iter().find(|dtype| dtype.as_str() == word.value) {
        return Some(At { value: *dtype, spot: word.spot });
    }
    let names: Vec<&str> = DataType::ALL.iter().map(|dtype| dtype.as_str()).collect();
    let help = did_you_mean(&word.value, &names, "use one of the data types of the grammar");
    reader.report.error(
        &word.spot,
        problem(Kind::UnknownDataType, quote(&word.value), one_of(&names), help),
    );
    None
}

pub(super) fn core<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<At<CoreKind>> {
    let word = reader.string(node)?;
    core_of(reader, word)
}

/// Reads a core, as an entry of a list or as a key.
pub(super) fn core_of(reader: &mut Reader<'_, '_, '_>, word: At<String>) -> Option<At<CoreKind>> {
    if let Some(core) = CoreKind::ALL.iter().find(|core| core.as_str() == word.value) {
        return Some(At { value: *core, spot: word.spot });
    }
    let names: Vec<&str> = CoreKind::ALL.iter().map(|core| core.as_str()).collect();
    let other = OTHER_CORES.iter().find(|(name, _)| word.value.eq_ignore_ascii_case(name));
    let help = match other {
        Some((_, help)) => (*help).to_owned(),
        None => did_you_mean(&word.value, &names, "user operators run on these cores only"),
    };
    reader
        .report
        .error(&word.spot, problem(Kind::UnknownCore, quote(&word.value), one_of(&names), help));
    None
}

pub(super) fn arch<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<At<u16>> {
    let At { value: word, spot } = reader.string(node)?;
    if let Some(value) = arch_number(&word) {
        return Some(At { value, spot });
    }
    let names: Vec<String> = DSP_ARCHS.iter().map(|arch| format!("v{arch}")).collect();
    let lower = word.to_lowercase().replace('_', "");
    let guess = format!("v{}", lower.trim_start_matches(|c: char| !c.is_ascii_digit()));
    let help = if names.contains(&guess) {
        format!("did you mean \"{guess}\"?")
    } else {
        "a library runs on its architecture and on later ones; name the first".to_owned()
    };
    reader.report.error(&spot, problem(Kind::UnknownArch, quote(&word), one_of(&names), help));
    None
}

fn arch_number(word: &str) -> Option<u16> {
    DSP_ARCHS.iter().copied().find(|arch| word.strip_prefix('v') == Some(&arch.to_string()))
}

pub(super) fn layout<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<Layout> {
    let word = reader.string(node)?;
    let found = Layout::ALL.iter().find(|layout| layout.as_str() == word.value);
    if found.is_none() {
        let names: Vec<&str> = Layout::ALL.iter().map(|layout| layout.as_str()).collect();
        // The vendor's document contains this misprint of NCHW. It is also one edit away from NHWC, which `nearest`
        // could suggest.
        let near = if word.value == "NHCW" { Some("NCHW") } else { nearest(&word.value, &names) };
        let help = match near {
            Some(name) => format!("did you mean \"{name}\"?"),
            None => "leave the field out to keep the model's own order".to_owned(),
        };
        reader.report.error(
            &word.spot,
            problem(Kind::UnknownLayout, quote(&word.value), one_of(&names), help),
        );
    }
    found.copied()
}

pub(super) fn quantization<'t>(
    reader: &mut Reader<'_, '_, 't>,
    node: &Node<'t>,
) -> Option<QuantizationMode> {
    let word = reader.string(node)?;
    let found = QuantizationMode::ALL.iter().find(|mode| mode.as_str() == word.value);
    if found.is_none() {
        let names: Vec<&str> = QuantizationMode::ALL.iter().map(|mode| mode.as_str()).collect();
        let help =
            did_you_mean(&word.value, &names, "\"TF\" is the only mode; leave the field out");
        reader.report.error(
            &word.spot,
            problem(Kind::UnknownQuantization, quote(&word.value), one_of(&names), help),
        );
    }
    found.copied()
}

/// Reads a default value: a bool, a number, a string, or a flat list of them.
pub(super) fn default<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<At<Literal>> {
    if !node.raw.get().starts_with('[') {
        return single(reader, node);
    }
    let At { value, spot } = reader.list_of(node, single)?;
    Some(At { value: Literal::List(value), spot })
}

fn single<'t>(reader: &mut Reader<'_, '_, 't>, node: &Node<'t>) -> Option<At<Literal>> {
    let text = node.raw.get();
    let spot = reader.spot(node);
    let value = match text.bytes().next() {
        Some(b'"') => Literal::Text(reader.string(node)?.value),
        Some(b't' | b'f') => Literal::Bool(reader.boolean(node)?.value),
        Some(b'-' | b'0'..=b'9') => match (text.parse(), text.parse::<f64>()) {
            (Ok(int), _) => Literal::Int(int),
            (Err(_), Ok(float)) if float.is_finite() => Literal::Float(float),
            (Err(_), _) => {
                let help = "no data type can represent this number";
                reader.report.error(
                    &spot,
                    problem(Kind::DefaultRange, text, "a number that fits 64 bits", help),
                );
                return None;
            }
        },
        _ => return reader.wrong_type(node, "a number, a string, true, false or a flat list"),
    };
    Some(At { value, spot })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_existing_architectures_are_read() {
        let cases = [
            ("v65", Some(65)),
            ("v68", Some(68)),
            ("v81", Some(81)),
            ("v64", None),
            ("v67", None),
            ("v99", None),
            ("v1000", None),
            ("v068", None),
            ("v+68", None),
            ("V68", None),
            ("68", None),
            ("v", None),
            ("v99999999999999999999", None),
        ];
        for (word, expected) in cases {
            assert_eq!(arch_number(word), expected, "{word}");
        }
    }
}
