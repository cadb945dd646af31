//! The table of commands. A new one is a file, its `mod` line, and its line in the table.

mod bench;
mod build;
mod check;
mod completions;
mod convert;
mod demo;
mod doctor;
mod explain;
mod help;
mod init;
mod inspect;
mod lock;
mod markdown;
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
use help::Group::{self, Hidden, Machine, Models, Packages};

/// Every command, in the order of `udo --help`.
const COMMANDS: &[Entry] = &[
    Entry::new::<init::Init>(Packages, "init"),
    Entry::new::<new::New>(Packages, "new"),
    Entry::new::<build::Build>(Packages, "build"),
    Entry::new::<test::TestPackage>(Packages, "test"),
    Entry::new::<check::Check>(Packages, "check"),
    Entry::new::<replay::Replay>(Packages, "replay"),
    Entry::new::<inspect::Inspect>(Packages, "inspect"),
    Entry::new::<sign::Sign>(Packages, "sign"),
    Entry::new::<lock::LockPackages>(Packages, "lock"),
    Entry::new::<run::RunModel>(Models, "run"),
    Entry::new::<verify::Verify>(Models, "verify"),
    Entry::new::<bench::Bench>(Models, "bench"),
    Entry::new::<explain::Explain>(Models, "explain"),
    Entry::new::<view::View>(Models, "view"),
    Entry::new::<convert::Convert>(Models, "convert"),
    Entry::new::<quantize::Quantize>(Models, "quantize"),
    Entry::new::<prepare::Prepare>(Models, "prepare"),
    Entry::new::<model::ModelFile>(Models, "model"),
    Entry::new::<doctor::Doctor>(Machine, "doctor"),
    Entry::new::<ops::Ops>(Machine, "ops"),
    Entry::new::<completions::Completions>(Machine, "completions"),
    Entry::new::<demo::Demo>(Machine, "demo"),
    // The page docs/command-line.md.
    Entry::new::<markdown::Markdown>(Hidden, "markdown"),
    // Older names for parts of `udo doctor`.
    Entry::new::<doctor::Platform>(Hidden, "platform"),
    Entry::new::<doctor::Devices>(Hidden, "devices"),
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
    group: Group,
    name: &'static str,
    flags: fn(Command) -> Command,
    run: fn(&ArgMatches) -> Outcome,
}

impl Entry {
    const fn new<R: Run>(group: Group, name: &'static str) -> Self {
        Self {
            group,
            name,
            flags: R::augment_args,
            run: |matches| R::from_arg_matches(matches).map_err(Failure::usage)?.run(),
        }
    }

    /// The command's parser and help.
    fn command(&self) -> Command {
        let command = (self.flags)(Command::new(self.name)).hide(self.group == Hidden);
        help::arranged(command, self.name)
    }
}

/// The parser of the whole command line.
pub(crate) fn parser() -> Command {
    let udo = Command::new("udo")
        .version(udo_api::SDK_VERSION)
        .long_version(format!("{}\n{}", udo_api::SDK_VERSION, doctor::versions()))
        .about("Build and test custom operators, and run and quantize models")
        .long_about(help::lines(
            "Build and test custom operators, and run and quantize models\n\n\
             A UDO (user-defined operation) is an operator that an inference engine does not have. udo \
             generates a package for it from a JSON config, builds and tests the package on emulated CPU, \
             GPU and DSP cores, and runs ONNX models with it.",
        ))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help("`udo COMMAND -h` lists the common flags of a command.\n`udo --help` also shows how to make a first package, and the exit codes.")
        .after_long_help(
            "Create a first package:\n  udo init SoftmaxUdoPackage --op Softmax\n  udo new SoftmaxUdoPackage.json\n  udo build SoftmaxUdoPackage\n\n\
             Exit codes: 0 success, 1 failure, 2 wrong usage, 3 a package is out of date (build --locked).\n\
             `udo COMMAND -h` lists the common flags of a command, `udo COMMAND --help` explains all of them.",
        );
    let udo = COMMANDS.iter().fold(udo, |udo, entry| udo.subcommand(entry.command()));
    help::with_groups(udo, |name| {
        COMMANDS.iter().find(|entry| entry.name == name).map_or(Hidden, |entry| entry.group)
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
            let help = entry.command().render_long_help().to_string();
            assert!(help.contains(&format!("udo {}", entry.name)), "{}: {help}", entry.name);
        }
    }
}
