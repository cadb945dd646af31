//! Checks the reference of an operator, a source in the language of `udo-reference`, against its ports and parameters.

use udo_reference::{Fault, Program};

use crate::{
    config::Op,
    diagnostic::Kind,
    draft::{At, Spot},
    reference,
    report::{Problem, Report, problem},
};

/// Returns the source if it fits the operator. Each of `lines` is one or more lines of the source, as in the config.
pub(super) fn check(lines: &[At<String>], op: &Op, report: &mut Report<'_>) -> Option<String> {
    let first_line = lines.first()?;
    if let Some(problem) = unsupported(op) {
        report.error(&first_line.spot, problem);
        return None;
    }
    let source = lines.iter().map(|line| line.value.as_str()).collect::<Vec<_>>().join("\n");
    match Program::read(&source, &reference::signature(op)) {
        Ok(program) => {
            for warning in program.warnings() {
                report.warn(spot(lines, warning, &first_line.spot), described(warning));
            }
            Some(source)
        }
        Err(faults) => {
            for fault in &faults.0 {
                report.error(spot(lines, fault, &first_line.spot), described(fault));
            }
            None
        }
    }
}

/// Returns a problem if the operator has a port or parameter that the language does not support.
fn unsupported(op: &Op) -> Option<Problem> {
    let ports = || op.inputs.iter().chain(&op.outputs);
    let refused = |subject: &str, expected: &str, help: &str| {
        Some(problem(Kind::BeyondReference, subject.to_owned(), expected, help))
    };
    if let Some(port) = ports().find(|port| port.repeated) {
        let subject = format!("\"{}\", which stands for any number of tensors", port.name);
        return refused(&subject, "ports of one tensor each", "remove \"reference\"");
    }
    let scalars = op.scalar_params.iter().filter(|param| param.may_be_absent());
    let lists = op.tensor_params.iter().filter(|p| p.is_optional && p.default.is_none());
    let mut absent = scalars.map(|param| &param.name).chain(lists.map(|param| &param.name));
    if let Some(name) = absent.next() {
        let subject = format!("parameter \"{name}\", which may have no value");
        return refused(&subject, "parameters with a value", "give it a \"default_value\"");
    }
    None
}

fn described(fault: &Fault) -> Problem {
    let Fault { at, found, expected, help, .. } = fault;
    let expected = expected.as_deref().unwrap_or("a source that fits the operator");
    let help = help.as_deref().unwrap_or("correct the source");
    let help = format!("{help}; docs/reference-language.md describes the language");
    problem(Kind::Reference, format!("at {at}: {found}"), expected, help)
}

/// Returns the entry of the config that contains a fault's line.
fn spot<'l>(lines: &'l [At<String>], fault: &Fault, first: &'l Spot) -> &'l Spot {
    let expected = usize::try_from(fault.at.line).unwrap_or(usize::MAX);
    let mut count = 0;
    let entry = lines.iter().find(|entry| {
        count += entry.value.split('\n').count();
        count >= expected
    });
    entry.or(lines.last()).map_or(first, |entry| &entry.spot)
}

#[cfg(test)]
mod tests {
    use crate::{
        Diagnostic,
        Kind::{self, BeyondReference, Empty, JsonType, Reference},
        Mode, Severity,
        read::testing::{edited, faults},
    };

    const BASE: &str = r#"{"P": {"UDO_PACKAGE_NAME": "P", "Operators": [{"type": "Leaky",
        "inputs": [{"name": "x", "quantization_mode": "TF", "per_core_data_types": {"CPU": "FLOAT_32", "DSP": "UINT_8"}}],
        "outputs": [{"name": "y", "quantization_mode": "TF", "per_core_data_types": {"CPU": "FLOAT_32", "DSP": "UINT_8"}}],
        "scalar_params": [{"name": "alpha", "data_type": "FLOAT_32", "default_value": 0.1},
                          {"name": "mode", "data_type": "STRING", "default_value": "a"}],
        "tensor_params": [{"name": "axes", "data_type": "INT_32", "default_value": [0]}],
        "core_types": ["CPU", "DSP"], "dsp_arch_types": ["v68"],
        "reference": ["let z = if mode == \"a\" then alpha * x else sum(x, axis = axes)",
                      "y = if x < 0 then z else x"]}]}}"#;

    const OP: &str = "$.P.Operators[0]";

    #[test]
    fn faults_of_a_source_are_reported_at_its_lines() {
        assert_eq!(faults(BASE, Mode::Strict), []);
        let line = |number: u32| format!("op.reference[{number}]");
        let source_path = "op.reference".to_owned();
        let cases: &[(&str, &str, Kind, String, &str)] = &[
            ("then z else x\"", "then w else x\"", Reference, line(1), "at 2:19: "),
            ("y = if x", "yy = if x", Reference, line(1), "at 2:1: "),
            ("if mode", "iff mode", Reference, line(0), "at 1:"),
            ("y = if x < 0 then z else x\"", "\"", Reference, line(0), "at "),
            (", \"default_value\": 0.1", ", \"optional\": true", BeyondReference, line(0), "alpha"),
            (
                "\"name\": \"y\"",
                "\"repeated\": true, \"name\": \"y\"",
                Kind::RepeatedOnDsp,
                "op.outputs[0].repeated".into(),
                "",
            ),
        ];
        for (from, to, kind, path, found) in cases {
            let diagnostics = faults(&edited(BASE, &[(from, to)]), Mode::Strict);
            let is_expected = |diagnostic: &&Diagnostic| {
                (diagnostic.severity, diagnostic.kind) == (Severity::Error, *kind)
                    && diagnostic.path.replace(OP, "op") == *path
                    && diagnostic.found.contains(found)
            };
            assert!(
                diagnostics.iter().any(|diagnostic| is_expected(&diagnostic)),
                "{to}: {diagnostics:?}"
            );
        }
        for (source, kind) in
            [("1", JsonType), ("[]", Empty), ("[1]", JsonType), ("\"y = q\"", Reference)]
        {
            let source_offset = BASE.find("[\"let z").unwrap();
            let text = format!("{}{source}}}]}}}}", &BASE[..source_offset]);
            let diagnostics = faults(&text, Mode::Strict);
            assert_eq!(
                diagnostics.first().map(|diagnostic| diagnostic.kind),
                Some(kind),
                "{source}"
            );
            assert!(diagnostics[0].path.replace(OP, "op").starts_with(&source_path));
        }
    }

    #[test]
    fn unused_names_of_a_source_are_warnings() {
        let text = edited(BASE, &[("y = if x", "let odd = x y = if x")]);
        let diagnostics: Vec<_> = faults(&text, Mode::Strict)
            .into_iter()
            .map(|diagnostic| (diagnostic.severity, diagnostic.to_string()))
            .collect();
        let [(Severity::Warning, message)] = diagnostics.as_slice() else {
            panic!("{diagnostics:?}")
        };
        assert!(
            message.contains("$.P.Operators[0].reference[1]: reference: found at 2:"),
            "{message}"
        );
    }
}
