//! How results and errors look.

use std::{
    error::Error,
    fmt::{self, Write as _},
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    path::Path,
    process::{self, ExitCode},
    sync::{Mutex, OnceLock, PoisonError},
};

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};
use console::style;
use indicatif::{ProgressBar, ProgressStyle};

/// Prints a line to standard output, as `println!` does, but ends the program quietly when
/// nobody reads it any more.
macro_rules! outln {
    ($($text:tt)*) => {
        $crate::output::line(format_args!($($text)*))
    };
}

pub(crate) fn line(text: fmt::Arguments<'_>) {
    print(&printable(&text.to_string()));
}

/// Prints a line that contains no control characters except those of styles.
fn print(text: &str) {
    let written = beside_bar(|| match RESULTS.get() {
        Some(mut results) => writeln!(results, "{text}"),
        None => writeln!(io::stdout().lock(), "{text}"),
    });
    let Err(error) = written else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        process::exit(0);
    }
    eprintln!("error: cannot write to standard output: {error}");
    process::exit(1);
}

/// Where results go, if standard output is kept for them.
static RESULTS: OnceLock<File> = OnceLock::new();

/// Keeps standard output for the results of this command: what else is printed there, such as by the code of a package, goes to standard
/// error from now on.
pub(crate) fn keep_stdout() -> io::Result<()> {
    let results = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdout(io::stderr())?;
    // It is called once; a second descriptor would be the same.
    let _ = RESULTS.set(results);
    Ok(())
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

    /// A package is not what its config says, where that was asked for: exit code 3.
    pub(crate) fn drift(error: impl Into<Box<dyn Error>>) -> Self {
        Self { code: 3, ..Self::new(error) }
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

    /// Says where it is, before all else.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        let what = match self.what {
            What::Error(error) => What::Error(format!("{place}: {}", chain(error.as_ref())).into()),
            What::Report(text) => What::Report(text),
            What::Told => What::Told,
        };
        Self { what, ..self }
    }

    /// The exit code of the command.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl Failure {
    /// Prints it to standard error for programs, as one line of JSON; nothing where somebody else has said it.
    pub(crate) fn say_json(&self) {
        let error = match &self.what {
            What::Error(error) => chain(error.as_ref()),
            What::Report(text) => text.trim_end().to_owned(),
            What::Told => return,
        };
        let report =
            serde_json::json!({ "error": error, "help": self.help, "exit_code": self.code });
        eprintln!("{}", printable_json(&report.to_string()));
    }

    /// Prints it to standard error, in colours on a terminal.
    pub(crate) fn say(&self) {
        for line in self.to_string().lines() {
            match line.split_once(": ") {
                Some(("error", what)) => {
                    eprintln!("{}: {what}", style("error").red().bold().for_stderr());
                }
                Some(("help", what)) => {
                    eprintln!("{}: {what}", style("help").cyan().bold().for_stderr());
                }
                _ => eprintln!("{line}"),
            }
        }
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
            What::Error(error) => writeln!(f, "error: {}", printable(&chain(error.as_ref())))?,
            What::Report(text) => writeln!(f, "{}", printable(text.trim_end()))?,
            What::Told => {}
        }
        match &self.help {
            Some(help) => writeln!(f, "help: {}", printable(help)),
            None => Ok(()),
        }
    }
}

/// The styles of table heads on a terminal.
const STYLES: [&str; 2] = ["\x1b[1m", "\x1b[0m"];

/// Escapes control characters, except line breaks, tabs and our own styles: names of files, models and packages must not control
/// the terminal.
fn printable(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let style = STYLES.iter().find(|style| rest.starts_with(**style));
        let taken = style.map_or(c.len_utf8(), |style| style.len());
        let (part, others) = rest.split_at(taken);
        if style.is_some() || !is_control(c) || c == '\n' || c == '\t' {
            plain.push_str(part);
        } else {
            plain.extend(c.escape_default());
        }
        rest = others;
    }
    plain
}

/// Whether terminals act upon a character instead of showing it: controls, and marks that reorder a line.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes what JSON allows in strings and terminals act upon.
fn printable_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) && c != '\n' {
            // All of these characters are one UTF-16 unit.
            let _ = write!(plain, "\\u{:04x}", u32::from(c));
        } else {
            plain.push(c);
        }
    }
    plain
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

/// Prints a text as it is.
pub(crate) fn text(text: &str) {
    outln!("{}", text.trim_end_matches('\n'));
}

/// Prints a result for programs.
pub(crate) fn print_json(value: &serde_json::Value) {
    print(&printable_json(&format!("{value:#}")));
}

/// Says what is wrong and does not stop the command, and the next step.
pub(crate) fn warn(text: impl fmt::Display, help: &str) {
    beside_bar(|| {
        let text = printable(&text.to_string());
        let help = printable(help);
        eprintln!("{}: {text}\nhelp: {help}", style("warning").yellow().bold().for_stderr());
    });
}

/// Says something by the way.
pub(crate) fn note(text: impl fmt::Display) {
    beside_bar(|| eprintln!("note: {}", printable(&text.to_string())));
}

/// Says something about how results were computed: next to them, or on standard error if standard output is kept for JSON.
pub(crate) fn note_of_results(text: impl fmt::Display) {
    match RESULTS.get() {
        Some(_) => note(text),
        None => line(format_args!("note: {text}")),
    }
}

/// Writes a file whole or not at all, over any that was there.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    udo_files::write_output(path, bytes)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// Where the cells of a column lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// For words.
    Left(&'static str),
    /// For numbers.
    Right(&'static str),
}

/// Terminals that are less wide do not wrap cells.
const NARROWEST: u16 = 40;

/// A table without lines: as wide as what is in it, and on a terminal no wider than that.
pub(crate) fn table<const N: usize>(columns: [Column; N], rows: Vec<[String; N]>) -> String {
    let cell = |text: String, column: Column| {
        // A style in a name is not ours.
        let text = printable(&text.replace('\x1b', "\\u{1b}"));
        Cell::new(text).set_alignment(match column {
            Column::Left(_) => CellAlignment::Left,
            Column::Right(_) => CellAlignment::Right,
        })
    };
    let heads = columns.map(|column| {
        let (Column::Left(name) | Column::Right(name)) = column;
        cell(name.to_owned(), column).add_attribute(Attribute::Bold)
    });
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heads);
    // Some terminals do not know their width and say 0.
    if table.width().is_some_and(|width| width >= NARROWEST) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    for row in rows {
        table.add_row(row.into_iter().zip(columns).map(|(text, column)| cell(text, column)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((2, 0));
    }
    table.trim_fmt()
}

/// The bar that is shown, if there is one.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Prints by `print` while no bar is in the way.
fn beside_bar<R>(print: impl FnOnce() -> R) -> R {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

/// A bar on a terminal for work of so many parts, which goes when it is dropped; nothing in a pipe, and nothing for one part.
pub(crate) fn progress(what: &'static str, parts: usize) -> Progress {
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len}, {eta} left");
    let bar = if parts > 1 { ProgressBar::new(parts as u64) } else { ProgressBar::hidden() };
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = bar.with_message(what).with_style(style);
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    Progress(bar)
}

/// The progress bar that [`progress`] shows.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Advances the bar by `parts`.
    pub(crate) fn advance(&self, parts: usize) {
        self.0.inc(parts as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
        *BAR.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_as_wide_as_their_cells() {
        let rows = [["conv_1", "12.25"], ["a", "3.00"]].map(|row| row.map(str::to_owned));
        let text = table([Column::Left("node"), Column::Right("us")], rows.to_vec());
        assert_eq!(text, "  node       us\n  conv_1  12.25\n  a        3.00");
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        let name = "a\x1b]0;title\x07\u{9b}31m\u{202e}\tb\nc";
        assert_eq!(printable(name), "a\\u{1b}]0;title\\u{7}\\u{9b}31m\\u{202e}\tb\nc");
        let cells = table([Column::Left("name")], vec![["x\x1b[1my".to_owned()]]);
        assert!(cells.contains("x\\u{1b}[1my"), "{cells}");
        let value = serde_json::json!({ "name": "a\x1b\u{9b}\u{202e}\u{7f}" });
        let text = printable_json(&format!("{value:#}"));
        assert!(text.chars().all(|c| !is_control(c) || c == '\n'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

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
