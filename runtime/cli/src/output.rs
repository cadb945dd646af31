//! How results and errors look.

use std::{
    error::Error,
    fmt,
    io::{self, Write},
    process::{self, ExitCode},
};

/// Prints a line to standard output, as `println!` does, but ends the program quietly when
/// nobody reads it any more.
macro_rules! outln {
    ($($text:tt)*) => {
        $crate::output::line(format_args!($($text)*))
    };
}

pub(crate) fn line(text: fmt::Arguments<'_>) {
    let Err(error) = writeln!(io::stdout().lock(), "{text}") else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        process::exit(0);
    }
    eprintln!("error: cannot write to standard output: {error}");
    process::exit(1);
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    what: What,
    help: Option<String>,
    code: u8,
}

#[derive(Debug)]
enum What {
    Error(Box<dyn Error>),
    /// Text that says `error:` itself.
    Report(String),
    /// Somebody else has said it.
    Told,
}

/// The result of a command.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    /// The thing asked for failed: exit code 1.
    pub(crate) fn new(error: impl Into<Box<dyn Error>>) -> Self {
        Self { what: What::Error(error.into()), help: None, code: 1 }
    }

    /// It was asked for in a wrong way: exit code 2.
    pub(crate) fn usage(error: impl Into<Box<dyn Error>>) -> Self {
        Self { code: 2, ..Self::new(error) }
    }

    /// The thing asked for failed, as a finished text says.
    pub(crate) fn report(text: String) -> Self {
        Self { what: What::Report(text), help: None, code: 1 }
    }

    /// The thing asked for failed, and whoever did it has said so.
    pub(crate) fn told() -> Self {
        Self { what: What::Told, help: None, code: 1 }
    }

    /// The next step.
    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The exit code of the command.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Error(error) => writeln!(f, "error: {}", chain(error.as_ref()))?,
            What::Report(text) => writeln!(f, "{}", text.trim_end())?,
            What::Told => {}
        }
        match &self.help {
            Some(help) => writeln!(f, "help: {help}"),
            None => Ok(()),
        }
    }
}

/// An error and its sources in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// Prints a result for programs.
pub(crate) fn print_json(value: &serde_json::Value) {
    outln!("{value:#}");
}

/// Says something by the way.
pub(crate) fn note(text: impl fmt::Display) {
    eprintln!("note: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_its_help_another() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read a.json")]
        struct Outer(#[source] std::fmt::Error);
        let inner = std::fmt::Error;
        let want = format!("error: cannot read a.json: {inner}\nhelp: look again\n");
        assert_eq!(Failure::new(Outer(inner)).help("look again").to_string(), want);
    }
}
