//! The table of commands. A new one is a file, its `mod` line, and its line in the table.

mod bench;
mod build;
mod check;
mod completions;
mod convert;
mod demo;
mod doctor;
mod explain;
mod init;
mod inspect;
mod lock;
mod model;
mod new;
mod ops;
mod own;
mod prepare;
pub(crate) mod quantize;
mod replay;
mod run;
mod sign;
mod test;
mod verify;
mod view;

use std::path::Path;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::output::{Failure, Outcome};

/// Every command, in the order of `udo --help`.
const COMMANDS: &[Entry] = &[
    Entry::of::<init::Init>("init"),
    Entry::of::<new::New>("new"),
    Entry::of::<build::Build>("build"),
    Entry::of::<test::TestPackage>("test"),
    Entry::of::<check::Check>("check"),
    Entry::of::<replay::Replay>("replay"),
    Entry::of::<inspect::Inspect>("inspect"),
    Entry::of::<run::RunModel>("run"),
    Entry::of::<verify::Verify>("verify"),
    Entry::of::<explain::Explain>("explain"),
    Entry::of::<view::View>("view"),
    Entry::of::<bench::Bench>("bench"),
    Entry::of::<convert::Convert>("convert"),
    Entry::of::<quantize::Quantize>("quantize"),
    Entry::of::<prepare::Prepare>("prepare"),
    Entry::of::<model::ModelFile>("model"),
    Entry::of::<ops::Ops>("ops"),
    Entry::of::<sign::Sign>("sign"),
    Entry::of::<lock::LockPackages>("lock"),
    Entry::of::<doctor::Doctor>("doctor"),
    Entry::of::<completions::Completions>("completions"),
    Entry::of::<demo::Demo>("demo"),
    // Older names for parts of `udo doctor`.
    Entry::of::<doctor::Platform>("platform").hidden(),
    Entry::of::<doctor::Devices>("devices").hidden(),
];

/// A command's flags, and what it does with them. Its doc comment is its help.
pub(crate) trait Run: Args + FromArgMatches {
    /// Does it.
    ///
    /// # Errors
    /// Whatever stops it.
    fn run(self) -> Outcome;
}

/// A line of the table.
struct Entry {
    name: &'static str,
    is_hidden: bool,
    flags: fn(Command) -> Command,
    run: fn(&ArgMatches) -> Outcome,
}

impl Entry {
    const fn of<R: Run>(name: &'static str) -> Self {
        Self {
            name,
            is_hidden: false,
            flags: R::augment_args,
            run: |matches| R::from_arg_matches(matches).map_err(Failure::usage)?.run(),
        }
    }

    /// The same without a line in `udo --help`.
    const fn hidden(self) -> Self {
        Self { is_hidden: true, ..self }
    }
}

/// The parser of the whole command line.
pub(crate) fn parser() -> Command {
    let udo = Command::new("udo")
        .version(udo_api::SDK_VERSION)
        .long_version(format!("{}\n{}", udo_api::SDK_VERSION, doctor::versions()))
        .about("Makes, builds and runs operators of your own, and models that use them")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "A first package:\n  udo init SoftmaxUdoPackage --op Softmax\n  udo new -p SoftmaxUdoPackage.json\n  udo build SoftmaxUdoPackage\n\n\
             Exit codes: 0 success, 1 the thing asked for failed, 2 wrong usage, 3 a package is out of step (build --locked).",
        );
    COMMANDS.iter().fold(udo, |udo, entry| {
        udo.subcommand((entry.flags)(Command::new(entry.name)).hide(entry.is_hidden))
    })
}

/// Runs the command that was asked for.
pub(crate) fn run(matches: &ArgMatches) -> Outcome {
    let Some((name, matches)) = matches.subcommand() else {
        return Err(Failure::usage("no command given").help("see `udo --help`"));
    };
    let entry = COMMANDS.iter().find(|entry| entry.name == name);
    let Some(entry) = entry else {
        return Err(Failure::usage(format!("no command is called {name}")).help("see `udo --help`"));
    };
    (entry.run)(matches)
}

/// The path as a shell takes it.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(shell_word(Path::new("./a/B_1")), "./a/B_1");
        assert_eq!(shell_word(Path::new("a b'c")), r"'a b'\''c'");
    }

    #[test]
    fn the_parser_holds_together() {
        parser().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_example() {
        for entry in COMMANDS {
            let help = (entry.flags)(Command::new(entry.name)).render_long_help().to_string();
            assert!(help.contains(&format!("udo {}", entry.name)), "{}: {help}", entry.name);
        }
    }
}
