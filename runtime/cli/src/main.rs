//! The `udo` command: flags in, library calls, results and errors out.
#![expect(clippy::print_stderr, reason = "a command prints")]

#[macro_use]
mod output;
mod batches;
mod commands;
mod cores;
mod failures;
mod heaps;
mod input_list;
mod layers;
mod loaded;
mod model_flags;
mod package_flags;
mod page;
mod perf_profile;
mod queues;
mod ranges;
mod raw;
mod required;
mod roofline;
mod root;
mod stages;
mod tensors;
mod trace;
mod unchecked;
mod values;

use std::process::ExitCode;

#[global_allocator]
static GUARD: udo_api::GuardAlloc = udo_api::GuardAlloc;

fn main() -> ExitCode {
    udo_api::guard::install_panic_hook();
    if let Err(error) = udo_engine::exit_guard::install() {
        eprintln!("error: cannot watch for packages that exit: {error}");
        return ExitCode::FAILURE;
    }
    // Whoever reads results as JSON reads errors so, too; those of usage are told before flags are known.
    let is_json = std::env::args_os().any(|argument| argument == "--json");
    let outcome = match commands::parser().try_get_matches() {
        Ok(matches) => {
            if is_json && let Err(error) = output::keep_stdout() {
                eprintln!("error: cannot keep standard output for JSON: {error}");
                return ExitCode::FAILURE;
            }
            commands::run(&matches)
        }
        Err(error) if is_json && error.use_stderr() => {
            let text = error.to_string();
            Err(output::Failure::usage(text.trim_start_matches("error: ").trim_end()))
        }
        // Wrong usage leaves here with 2, `--help` and `--version` with 0.
        Err(error) => error.exit(),
    };
    // What went wrong where no call could tell, which no success may hide.
    let faults = udo_engine::exit_guard::take_faults();
    for fault in &faults {
        eprintln!("error: {fault}");
    }
    match outcome {
        Ok(()) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(failure) => {
            if is_json {
                failure.say_json();
            } else {
                failure.say();
            }
            failure.exit_code()
        }
    }
}
