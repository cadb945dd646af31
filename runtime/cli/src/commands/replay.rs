//! `udo replay`

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use udo_api::Core;
use udo_check::{Program, ReplayOptions, Replayed, Verdict};
use udo_compile::place::core_named;

use super::Run;
use super::check::{TIMEOUT, refused};
use crate::output::Column::{Left, Right};
use crate::output::{Failure, Outcome, note, print_json, table};

/// Repeat a captured kernel call
///
/// A capture is a file with one kernel call: its tensors, and how the call failed. `udo check` and
/// `udo run --capture` write captures.
///
/// This command makes the call again in a separate process, with the current build of the package,
/// and runs the case that failed. It exits with 0 if the case passes and with 1 if it fails
/// (docs/check.md).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo replay target/captures/Blend-cpu-numbers-random.capture
  udo replay Blend-cpu-numbers-random.capture --diff
  udo replay Blend-cpu-numbers-random.capture --core dsp   the same inputs on another core")]
pub(crate) struct Replay {
    /// Capture to repeat
    file: PathBuf,
    /// Run on this core instead of the captured one
    #[arg(long, value_name = "CORE", value_parser = core_named)]
    core: Option<Core>,
    /// Use this package instead of the one that was captured
    #[arg(long, value_name = "PACKAGE")]
    package: Option<PathBuf>,
    /// Open another package first, in the same process
    ///
    /// May be given several times.
    #[arg(long, value_name = "PACKAGE")]
    beside: Vec<PathBuf>,
    /// Show which elements differ, and by how much
    #[arg(long)]
    diff: bool,
    /// Stop the call after this time and count it as failed
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT)]
    timeout: NonZero<u32>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Run for Replay {
    fn run(self) -> Outcome {
        let program = Program { path: std::env::current_exe().map_err(Failure::new)? };
        let options = ReplayOptions {
            file: self.file,
            core: self.core,
            package: self.package,
            beside: self.beside,
            timeout: Duration::from_secs(u64::from(self.timeout.get())),
        };
        let (capture, replayed) = udo_check::replay(&program, &options).map_err(refused)?;
        let Replayed { case, is_another, diff } = replayed;
        let core = options.core.map_or(capture.core, |core| core.to_string());
        if self.json {
            print_json(&json!({
                "op": capture.op, "core": core, "package": capture.package, "case": case.case,
                "verdict": case.verdict.name(), "why": case.why, "was": capture.why, "is_another_build": is_another,
                "diff": diff,
            }));
        } else {
            let why = if case.why.is_empty() { String::new() } else { format!(": {}", case.why) };
            outln!("{} on {core}: {} {}{why}", capture.op, case.verdict.name(), case.case);
            if self.diff {
                say(&diff);
            }
        }
        if case.verdict == Verdict::Passed {
            return Ok(());
        }
        if is_another {
            note("the package was rebuilt after the call was captured");
        }
        Err(Failure::new(format!("the call does not pass {}", case.case)))
    }
}

/// The outputs next to what is wanted of them.
fn say(diff: &Value) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for output in diff["outputs"].as_array().into_iter().flatten() {
        let (port, dims) = (&output["port"], &output["dims"]);
        if output["compared"].is_null() {
            let same = match output["is_as_captured"].as_bool() {
                Some(true) => ", with the bits that were captured",
                Some(false) => ", with other bits than were captured",
                None => "",
            };
            outln!("output {port} is {dims}{same}; no expected values to compare with");
            continue;
        }
        if !output["wanted_dims"].is_null() && output["wanted_dims"] != *dims {
            outln!("output {port}: shape {dims}, expected {}", output["wanted_dims"]);
            continue;
        }
        let by = text(&diff["by"]);
        let (off, elements) = (&output["off"], &output["elements"]);
        if *off == 0 {
            outln!("output {port}: all {elements} elements agree with {by}");
            continue;
        }
        let largest = text(&output["largest"]);
        outln!(
            "output {port}: {off} of {elements} elements differ from {by}, largest difference {largest}"
        );
        let first = output["first"].as_array().into_iter().flatten();
        let rows = first
            .map(|element| ["at", "found", "wanted", "allowed"].map(|key| text(&element[key])));
        let columns =
            [Left("element"), Right("actual"), Right("expected"), Right("allowed difference")];
        outln!("{}", table(columns, rows.collect()));
    }
    if let Some(why) = diff["refused"].as_str() {
        outln!("the call makes no outputs: {why}");
    }
}
