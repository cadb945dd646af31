//! What a check found, for people, for programs and for systems that collect tests.

use crate::Setup;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not.
    Failed,
    /// The process ended while it was tried.
    Crashed,
    /// It took too long.
    TimedOut,
    /// Something may be wrong.
    Warning,
    /// It applies, and this machine cannot try it.
    Unchecked,
    /// It applies, and was left out: it is switched off, or nothing is there to try it with.
    Skipped,
    /// It does not apply: the operator has no such core, type or port.
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

    /// The word for it.
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

    /// As a key of summaries.
    const fn key(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Warning => "warnings",
            Self::NotApplicable => "not_applicable",
            other => other.name(),
        }
    }

    /// The verdict that `name` is the word for.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.name() == name)
    }

    /// Whether a package with it is not as it should be.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::Crashed | Self::TimedOut)
    }
}

/// What is said of a package that prints, which is no case that is tried.
pub(crate) const PRINTS: &str = "behaviour/prints";

/// One case that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseReport {
    /// Its full name.
    pub case: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Why, where it has not passed.
    pub why: String,
    /// How long it took.
    pub seconds: f64,
    /// The file with the call that shows what is wrong, for `udo replay`.
    pub capture: Option<PathBuf>,
}

/// The cases of an operator on a core, or of a package as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectReport {
    /// The operator; empty for the package.
    pub op: String,
    /// The core; empty for the package.
    pub core: String,
    /// Its cases.
    pub cases: Vec<CaseReport>,
    /// How long they took.
    pub seconds: f64,
}

impl SubjectReport {
    /// What it is about, in words.
    pub fn name(&self) -> String {
        if self.op.is_empty() {
            "package".to_owned()
        } else {
            format!("{} on {}", self.op, self.core)
        }
    }

    /// How many cases have the verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict == verdict).count()
    }

    /// The cases with the verdict by their reason, in the order in which the reasons come.
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

    /// The counts in words, without those that are 0.
    pub fn counts(&self) -> String {
        let of = |verdict: Verdict| match self.count(verdict) {
            0 => None,
            count => Some(format!("{count} {}", verdict.name())),
        };
        Verdict::ALL.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The package, as the command line calls it.
    pub package: String,
    /// How it was tried.
    pub setup: Setup,
    /// What was checked.
    pub subjects: Vec<SubjectReport>,
}

impl Report {
    /// How many cases have the verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.subjects.iter().map(|subject| subject.count(verdict)).sum()
    }

    /// Whether nothing is wrong, and something was tried.
    pub fn is_good(&self) -> bool {
        let bad: usize =
            Verdict::ALL.into_iter().filter(|v| v.is_bad()).map(|v| self.count(v)).sum();
        let cases = || self.subjects.iter().flat_map(|subject| &subject.cases);
        let has_run = |case: &CaseReport| {
            matches!(case.verdict, Verdict::Passed | Verdict::Warning) && case.case != PRINTS
        };
        bad == 0 && cases().any(has_run)
    }

    /// The command that tries a case again, alone.
    pub fn again(&self, subject: &SubjectReport, case: &CaseReport) -> String {
        again(&self.package, &self.setup, subject, case)
    }

    /// One JSON object.
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

    /// XML as `JUnit` writes it.
    pub fn to_junit(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        for subject in &self.subjects {
            let (failures, errors) = (
                subject.count(Verdict::Failed),
                subject.count(Verdict::Crashed) + subject.count(Verdict::TimedOut),
            );
            let name = escaped(&format!("{} {}", self.package, subject.name()));
            // A text takes all that is written to it.
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

/// A word of a command line, in quotes where it has to be.
fn word(word: &str) -> String {
    let is_plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-:+@%".contains(&b));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// The command that makes the call of a capture again, with the other packages open that were.
pub fn replay_command(capture: &Path, beside: &[PathBuf]) -> String {
    format!("udo replay {}{}", word(&capture.to_string_lossy()), opening(beside))
}

/// The flags that open other packages.
fn opening(beside: &[PathBuf]) -> String {
    let flags =
        beside.iter().flat_map(|other| [" --beside ".to_owned(), word(&other.to_string_lossy())]);
    flags.collect()
}

/// The command that tries a case of `package` again, alone.
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
    fn junit_has_what_failed_and_escapes_it() {
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
