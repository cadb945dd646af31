//! The `udo-worker` program: runs the code of one package for a program that contains it, which starts it.
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a program prints")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let host = std::env::args().nth(1).and_then(|host| host.parse().ok()).unwrap_or_default();
    match udo_engine::contain::serve(host) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            eprintln!("help: run the model with `udo run MODEL --contain PACKAGE`");
            ExitCode::FAILURE
        }
    }
}
