//! The result of a check: as text, as JSON and as `JUnit` XML.

use crate::Setup;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The package meets the requirement.
    Passed,
    /// The package violates the requirement.
    Failed,
    /// The process ended during the case.
    Crashed,
    /// The case exceeded its time limit.
    TimedOut,
    /// The package may violate the requirement.
    Warning,
    /// The case applies, but this machine cannot run it.
    Unchecked,
    /// The case applies but did not run: it is switched off, or there is no input to run it with.
    Skipped,
    /// The case does not apply: the operator does not have such a core, type or port.
    NotApplicable,
}

impl Verdict {
    /// Every verdict, in the order of summaries.
    pub const ALL: [Self; 8] = [
        Self::Passed,
        Self::Failed,
        Self::Crashed,
        Self::TimedOut,
        Self::Warning,
        Self::Unchecked,
        Self::Skipped,
        Self::NotApplicable,
    ];

    /// Returns the verdict in one or two words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed out",
            Self::Warning => "warning",
            Self::Unchecked => "unchecked",
            Self::Skipped => "skipped",
            Self::NotApplicable => "not applicable",
        }
    }

    /// The verdict's key in JSON summaries.
    const fn key(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Warning => "warnings",
            Self::NotApplicable => "not_applicable",
            other => other.name(),
        }
    }

    /// Returns the verdict with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.name() == name)
    }

    /// Whether the verdict means that the check failed.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::Crashed | Self::TimedOut)
    }
}

/// The case reported for a package that prints. It is not in the table of cases.
pub(crate) const PRINTS: &str = "behaviour/prints";

/// The result of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseReport {
    /// The full name of the case.
    pub case: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason, unless the case passed.
    pub why: String,
    /// The duration.
    pub seconds: f64,
    /// The capture of the failed call, for `udo replay`.
    pub capture: Option<PathBuf>,
}

/// The results of an operator on a core, or of a package as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectReport {
    /// The operator; empty for the package.
    pub op: String,
    /// The core; empty for the package.
    pub core: String,
    /// The results of the cases.
    pub cases: Vec<CaseReport>,
    /// The total duration.
    pub seconds: f64,
}

impl SubjectReport {
    /// Returns the name for messages.
    pub fn name(&self) -> String {
        if self.op.is_empty() {
            "package".to_owned()
        } else {
            format!("{} on {}", self.op, self.core)
        }
    }

    /// Returns the number of cases with the verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict == verdict).count()
    }

    /// Groups the cases with the verdict by reason, in order of first appearance.
    pub fn by_reason(&self, verdict: Verdict) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for case in self.cases.iter().filter(|case| case.verdict == verdict) {
            match reasons.iter_mut().find(|(why, _)| *why == case.why) {
                Some((_, cases)) => cases.push(&case.case),
                None => reasons.push((&case.why, vec![&case.case])),
            }
        }
        reasons
    }

    /// Returns the nonzero counts as text.
    pub fn counts(&self) -> String {
        let of = |verdict: Verdict| match self.count(verdict) {
            0 => None,
            count => Some(format!("{count} {}", verdict.name())),
        };
        Verdict::ALL.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The package, as on the command line.
    pub package: String,
    /// The settings of the check.
    pub setup: Setup,
    /// The results per operator and core.
    pub subjects: Vec<SubjectReport>,
}

impl Report {
    /// Returns the number of cases with the verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.subjects.iter().map(|subject| subject.count(verdict)).sum()
    }

    /// Whether no case failed and at least one ran.
    pub fn is_good(&self) -> bool {
        let bad: usize =
            Verdict::ALL.into_iter().filter(|v| v.is_bad()).map(|v| self.count(v)).sum();
        let cases = || self.subjects.iter().flat_map(|subject| &subject.cases);
        let has_run = |case: &CaseReport| {
            matches!(case.verdict, Verdict::Passed | Verdict::Warning) && case.case != PRINTS
        };
        bad == 0 && cases().any(has_run)
    }

    /// Returns the command that runs only this case again.
    pub fn again(&self, subject: &SubjectReport, case: &CaseReport) -> String {
        again(&self.package, &self.setup, subject, case)
    }

    /// Returns the report as one JSON object.
    pub fn to_json(&self) -> Value {
        let summary: serde_json::Map<String, Value> =
            Verdict::ALL.into_iter().map(|v| (v.key().to_owned(), json!(self.count(v)))).collect();
        let cases = self.subjects.iter().flat_map(|subject| {
            subject.cases.iter().map(move |case| {
                let again = case.verdict.is_bad().then(|| self.again(subject, case));
                json!({
                    "op": subject.op, "core": subject.core, "case": case.case, "verdict": case.verdict.name(),
                    "why": case.why, "seconds": case.seconds, "again": again, "capture": case.capture,
                })
            })
        });
        let beside: Vec<_> =
            self.setup.beside.iter().map(|other| other.to_string_lossy()).collect();
        json!({
            "package": self.package, "level": self.setup.level, "seed": self.setup.seed, "beside": beside,
            "summary": summary,
            "cases": cases.collect::<Vec<_>>(),
        })
    }

    /// Returns the report as `JUnit` XML.
    pub fn to_junit(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        for subject in &self.subjects {
            let (failures, errors) = (
                subject.count(Verdict::Failed),
                subject.count(Verdict::Crashed) + subject.count(Verdict::TimedOut),
            );
            let name = escaped(&format!("{} {}", self.package, subject.name()));
            // Writing to a string cannot fail.
            let _ = writeln!(
                xml,
                "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{}\" time=\"{:.3}\">",
                subject.cases.len(),
                subject.count(Verdict::Skipped)
                    + subject.count(Verdict::Unchecked)
                    + subject.count(Verdict::NotApplicable),
                subject.seconds
            );
            for case in &subject.cases {
                let head = format!(
                    "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
                    escaped(&subject.name()),
                    escaped(&case.case),
                    case.seconds
                );
                let why = escaped(&case.why);
                let _ = match case.verdict {
                    Verdict::Passed => writeln!(xml, "{head}/>"),
                    Verdict::Failed => {
                        writeln!(xml, "{head}><failure message=\"{why}\"/></testcase>")
                    }
                    Verdict::Crashed | Verdict::TimedOut => {
                        writeln!(xml, "{head}><error message=\"{why}\"/></testcase>")
                    }
                    Verdict::Unchecked | Verdict::Skipped | Verdict::NotApplicable => {
                        let why = format!("{}: {why}", case.verdict.name());
                        writeln!(xml, "{head}><skipped message=\"{why}\"/></testcase>")
                    }
                    Verdict::Warning => {
                        writeln!(xml, "{head}><system-out>{why}</system-out></testcase>")
                    }
                };
            }
            xml.push_str("  </testsuite>\n");
        }
        xml.push_str("</testsuites>\n");
        xml
    }
}

/// Quotes a word for a command line if necessary.
fn word(word: &str) -> String {
    let is_plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-:+@%".contains(&b));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Returns the command that repeats the call of a capture with the same other packages open.
pub fn replay_command(capture: &Path, beside: &[PathBuf]) -> String {
    format!("udo replay {}{}", word(&capture.to_string_lossy()), opening(beside))
}

/// Returns the flags that open other packages.
fn opening(beside: &[PathBuf]) -> String {
    let flags =
        beside.iter().flat_map(|other| [" --beside ".to_owned(), word(&other.to_string_lossy())]);
    flags.collect()
}

/// Returns the command that runs only this case of `package` again.
pub fn again(
    package: &str,
    Setup { level, seed, beside }: &Setup,
    subject: &SubjectReport,
    case: &CaseReport,
) -> String {
    let mut command = format!("udo check {}", word(package));
    if !subject.op.is_empty() {
        let _ = write!(command, " --op {} --core {}", word(&subject.op), subject.core);
    }
    let _ = write!(command, " --filter {} --level {level} --seed {seed}", case.case);
    command.push_str(&opening(beside));
    command
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(' '),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let case = |case: &str, verdict, why: &str| CaseReport {
            case: case.to_owned(),
            verdict,
            why: why.to_owned(),
            seconds: 0.5,
            capture: None,
        };
        let cases = vec![
            case("memory/heap", Verdict::Failed, "the first call uses the \"heap\" <3>"),
            case("memory/guards", Verdict::Crashed, "touches byte 0 behind input 0"),
            case("behaviour/time", Verdict::Passed, ""),
        ];
        let subjects = vec![SubjectReport {
            op: "Selu".to_owned(),
            core: "dsp:v68".to_owned(),
            cases,
            seconds: 1.0,
        }];
        let setup = Setup { level: 3, seed: 7, beside: vec!["other".into()] };
        Report { package: "my package".to_owned(), setup, subjects }
    }

    #[test]
    fn a_failure_comes_with_the_command_that_tries_it_again() {
        let report = report();
        let subject = &report.subjects[0];
        assert_eq!(
            report.again(subject, &subject.cases[0]),
            "udo check 'my package' --op Selu --core dsp:v68 --filter memory/heap --level 3 --seed 7 --beside other"
        );
        assert_eq!(subject.counts(), "1 passed, 1 failed, 1 crashed");
        assert!(!report.is_good());
    }

    #[test]
    fn summaries_count_by_verdict() {
        let json = report().to_json();
        assert_eq!(json["summary"]["failed"], 1);
        assert_eq!(json["summary"]["timed_out"], 0);
        assert_eq!(json["cases"][2]["again"], Value::Null);
        assert_eq!(json["cases"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn junit_reports_contain_escaped_failures() {
        let xml = report().to_junit();
        assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{xml}");
        assert!(xml.contains("uses the &quot;heap&quot; &lt;3&gt;"), "{xml}");
    }

    #[test]
    fn nothing_tried_is_not_good() {
        assert!(!Report { subjects: Vec::new(), ..report() }.is_good());
        let alone = |verdict| {
            let mut report = report();
            report.subjects[0].cases.truncate(1);
            report.subjects[0].cases[0].verdict = verdict;
            report
        };
        assert!(alone(Verdict::Warning).is_good());
        for verdict in [Verdict::Unchecked, Verdict::Skipped, Verdict::NotApplicable] {
            assert!(!alone(verdict).is_good(), "{verdict:?}");
            assert_eq!(Verdict::from_name(verdict.name()), Some(verdict));
        }
    }

    #[test]
    fn cases_that_were_left_out_are_grouped_by_reason() {
        let case = |case: &str, why: &str| CaseReport {
            case: case.to_owned(),
            verdict: Verdict::Skipped,
            why: why.to_owned(),
            seconds: 0.0,
            capture: None,
        };
        let cases = vec![case("a/1", "off"), case("a/2", "no node"), case("b/1", "off")];
        let subject = SubjectReport { cases, ..report().subjects.remove(0) };
        let reasons = subject.by_reason(Verdict::Skipped);
        assert_eq!(reasons, [("off", vec!["a/1", "b/1"]), ("no node", vec!["a/2"])]);
        assert!(subject.by_reason(Verdict::Unchecked).is_empty());
    }
}
