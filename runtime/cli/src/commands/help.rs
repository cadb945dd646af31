//! How help is arranged: the groups of commands, the headings of flags, and which flags `-h` leaves out.
//!
//! The help text is in the doc comments of commands and flags. Their first paragraph is for `-h`.

use std::fmt::Write;

use clap::{Arg, Command};

/// A group of commands in `udo --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Packages,
    Models,
    Machine,
    /// Commands that are not listed.
    Hidden,
}

/// The groups and their headings, in the order of `udo --help`.
pub(super) const GROUPS: [(Group, &str); 3] =
    [(Group::Packages, "Packages"), (Group::Models, "Models"), (Group::Machine, "Machine")];

/// Flags with a common heading, in the order in which they are listed.
struct Section {
    commands: &'static [&'static str],
    heading: &'static str,
    /// Flags that `-h` and `--help` list.
    common: &'static [&'static str],
    /// Flags that only `--help` lists.
    rare: &'static [&'static str],
}

/// Commands that run or compile a model.
const COMPILING: &[&str] = &["run", "verify", "bench", "explain", "view", "model plan"];

/// Commands that open packages.
const OPENING: &[&str] = &[
    "run",
    "verify",
    "bench",
    "explain",
    "view",
    "convert",
    "quantize",
    "prepare",
    "ops",
    "model info",
    "model plan",
];

const MODEL: &str = "Model";
const INPUTS: &str = "Inputs";
const OUTPUT: &str = "Output";
const CORES: &str = "Cores";
const PACKAGES: &str = "Packages";
const PERFORMANCE: &str = "Performance";
const MEASUREMENT: &str = "Measurement";
const COMPARISON: &str = "Comparison";
const CALIBRATION: &str = "Calibration data";
const QUANTIZATION: &str = "Quantization";
const EXECUTION: &str = "Execution";

/// The headings of all flags.
const SECTIONS: &[Section] = &[
    // Packages.
    Section {
        commands: &["init"],
        heading: "Operator",
        common: &["op", "input", "output", "cores", "types"],
        rare: &[],
    },
    Section { commands: &["init"], heading: OUTPUT, common: &["file"], rare: &[] },
    Section {
        commands: &["new"],
        heading: "Config",
        common: &["config", "compat", "schema"],
        rare: &[],
    },
    Section {
        commands: &["new"],
        heading: "Generated files",
        common: &["output", "force", "accept", "templates", "print-templates"],
        rare: &[],
    },
    Section {
        commands: &["new"],
        heading: "Checks",
        common: &["check", "allow-unchecked"],
        rare: &[],
    },
    Section { commands: &["new"], heading: OUTPUT, common: &["dry-run", "json"], rare: &[] },
    Section { commands: &["build", "test"], heading: CORES, common: &["cores"], rare: &[] },
    Section { commands: &["build"], heading: "Build", common: &["debug", "locked"], rare: &[] },
    Section { commands: &["test"], heading: "Checks", common: &["allow-unchecked"], rare: &[] },
    Section {
        commands: &["check"],
        heading: "Cases",
        common: &["op", "core", "filter", "level", "seed", "cases", "allow-unchecked"],
        rare: &[],
    },
    Section {
        commands: &["check"],
        heading: EXECUTION,
        common: &["beside", "jobs", "timeout"],
        rare: &[],
    },
    Section {
        commands: &["check"],
        heading: OUTPUT,
        common: &["junit", "captures", "json"],
        rare: &[],
    },
    Section {
        commands: &["replay"],
        heading: EXECUTION,
        common: &["core", "package", "beside", "timeout"],
        rare: &[],
    },
    Section { commands: &["replay"], heading: OUTPUT, common: &["diff", "json"], rare: &[] },
    Section { commands: &["sign"], heading: "Keys", common: &["key", "new-key"], rare: &[] },
    Section { commands: &["lock"], heading: OUTPUT, common: &["lock", "json"], rare: &[] },
    // Models.
    Section {
        commands: &["run"],
        heading: INPUTS,
        common: &["input", "input-list"],
        rare: &["native-input"],
    },
    Section { commands: COMPILING, heading: INPUTS, common: &["shape"], rare: &["dim"] },
    Section {
        commands: &["run"],
        heading: OUTPUT,
        common: &["output-dir", "output-format", "set-output-tensors", "profile", "json"],
        rare: &["native-output", "debug", "profiling-level", "trace", "capture"],
    },
    Section {
        commands: COMPILING,
        heading: MODEL,
        common: &[],
        rare: &["network", "stage", "skip-pass"],
    },
    Section {
        commands: COMPILING,
        heading: CORES,
        common: &["cores", "fallback", "require"],
        rare: &[
            "affinity",
            "min-subnet",
            "costs",
            "soc",
            "gpu-storage",
            "vtcm",
            "strict-device",
            "memory",
        ],
    },
    Section {
        commands: OPENING,
        heading: PACKAGES,
        common: &["package"],
        rare: &["trust", "lock", "contain", "contain-unsigned", "timeout"],
    },
    Section { commands: COMPILING, heading: PACKAGES, common: &[], rare: &["bind"] },
    Section { commands: &["convert"], heading: PACKAGES, common: &["config"], rare: &[] },
    Section {
        commands: COMPILING,
        heading: PERFORMANCE,
        common: &["threads", "cache"],
        rare: &["cache-version", "copy-weights", "perf-profile", "max-memory", "fast-math"],
    },
    Section { commands: &["run"], heading: PERFORMANCE, common: &[], rare: &["async", "streams"] },
    Section {
        commands: &["verify"],
        heading: COMPARISON,
        common: &["data", "against", "random", "per-layer", "rtol", "atol"],
        rare: &["seed", "allow-unchecked"],
    },
    Section {
        commands: &["bench"],
        heading: MEASUREMENT,
        common: &["iterations", "warmup", "data", "in-flight"],
        rare: &["seed", "streams"],
    },
    Section {
        commands: &["explain", "view"],
        heading: MEASUREMENT,
        common: &["measured", "data"],
        rare: &["iterations"],
    },
    Section {
        commands: &["run", "bench", "explain", "view"],
        heading: QUANTIZATION,
        common: &[],
        rare: &["random"],
    },
    Section {
        commands: &["bench"],
        heading: OUTPUT,
        common: &["profile", "json"],
        rare: &["trace"],
    },
    Section { commands: &["verify"], heading: OUTPUT, common: &["json"], rare: &[] },
    Section { commands: &["explain"], heading: OUTPUT, common: &["passes", "json"], rare: &[] },
    Section { commands: &["view"], heading: OUTPUT, common: &["output", "open"], rare: &[] },
    Section {
        commands: &["convert"],
        heading: INPUTS,
        common: &["input-shape", "input-encoding"],
        rare: &[],
    },
    Section {
        commands: &["convert"],
        heading: MODEL,
        common: &["name", "out-node"],
        rare: &["in-place"],
    },
    Section { commands: &["convert"], heading: CORES, common: &["affinity"], rare: &[] },
    Section {
        commands: &["convert"],
        heading: OUTPUT,
        common: &["output", "prepare", "dry-run", "json"],
        rare: &[],
    },
    Section {
        commands: &["quantize"],
        heading: CALIBRATION,
        common: &["input-list", "calibration", "random"],
        rare: &["shape", "native-input", "threads"],
    },
    Section {
        commands: &["quantize"],
        heading: QUANTIZATION,
        common: &["weights-bitwidth", "act-bitwidth", "per-channel", "cle", "bias-correction"],
        rare: &[
            "bias-bitwidth",
            "symmetric-weights",
            "act-range",
            "min-range",
            "float-fallback",
            "store-all",
            "encodings",
        ],
    },
    Section {
        commands: &["quantize"],
        heading: OUTPUT,
        common: &["output", "report", "json"],
        rare: &["export-encodings"],
    },
    Section {
        commands: &["prepare"],
        heading: "HTA",
        common: &["hta", "soc", "hta-partitions"],
        rare: &[],
    },
    Section { commands: &["prepare"], heading: INPUTS, common: &["shape"], rare: &[] },
    Section { commands: &["prepare"], heading: OUTPUT, common: &["output", "json"], rare: &[] },
    Section { commands: &["model info"], heading: MODEL, common: &["network"], rare: &[] },
    Section { commands: &["model info"], heading: INPUTS, common: &["shape", "dim"], rare: &[] },
    Section { commands: &["model info"], heading: OUTPUT, common: &["json", "csv"], rare: &[] },
    Section {
        commands: &["model extract"],
        heading: MODEL,
        common: &["network", "stage"],
        rare: &[],
    },
    Section {
        commands: &["model combine", "model extract"],
        heading: OUTPUT,
        common: &["output", "json"],
        rare: &[],
    },
    // The machine.
    Section {
        commands: &["doctor", "platform"],
        heading: CORES,
        common: &["runtime", "measure", "threads"],
        rare: &[],
    },
    Section { commands: &["ops"], heading: "Selection", common: &["core", "type"], rare: &[] },
    Section { commands: &["ops"], heading: OUTPUT, common: &["json", "markdown"], rare: &[] },
    Section {
        commands: &[
            "build",
            "test",
            "inspect",
            "model plan",
            "model diff",
            "doctor",
            "platform",
            "devices",
            "demo",
        ],
        heading: OUTPUT,
        common: &["json"],
        rare: &[],
    },
];

/// The width of help text in columns.
const WIDTH: usize = 100;

/// The columns before the text of a flag in `--help`.
const INDENT: usize = 10;

/// Puts the flags of a command and its subcommands under their headings, and shortens its `-h`.
/// `path` is the command as users call it, without `udo`.
pub(super) fn arranged(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        arranged(command, &path)
    });
    let command = command.mut_args(|flag| placed(flag, path));
    let command = match command.get_long_about().map(ToString::to_string) {
        Some(about) => command.long_about(wrapped(&about, WIDTH)),
        None => command,
    };
    with_endings(command, path)
}

/// A flag with its heading, and its long help in lines of at most `WIDTH`.
fn placed(flag: Arg, path: &str) -> Arg {
    let flag = match place_of(&flag, path) {
        Some(Place { heading, order, is_rare }) => {
            flag.help_heading(heading).display_order(order).hide_short_help(is_rare)
        }
        None => flag,
    };
    match flag.get_long_help().map(ToString::to_string) {
        Some(help) => flag.long_help(wrapped(&help, WIDTH - INDENT)),
        None => flag,
    }
}

/// Where help lists a flag.
struct Place {
    heading: &'static str,
    /// The position among the command's flags that have a heading.
    order: usize,
    is_rare: bool,
}

/// Where `SECTIONS` lists a flag of a command, if it does.
fn place_of(flag: &Arg, path: &str) -> Option<Place> {
    let name = flag.get_long()?;
    let mut order = 0;
    for section in SECTIONS.iter().filter(|section| section.commands.contains(&path)) {
        let mut names = section.common.iter().chain(section.rare);
        if let Some(index) = names.position(|&listed| listed == name) {
            let is_rare = index >= section.common.len();
            return Some(Place { heading: section.heading, order: order + index, is_rare });
        }
        order += section.common.len() + section.rare.len();
    }
    None
}

/// Moves the examples to `--help`, and has `-h` point to them.
fn with_endings(command: Command, path: &str) -> Command {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    command
        .after_help(format!("`udo {path} --help` explains all flags and shows examples."))
        .after_long_help(examples)
}

/// Wraps the text to the width of help text.
pub(super) fn lines(text: &str) -> String {
    wrapped(text, WIDTH)
}

/// The text with lines of at most `width` columns, except for longer words.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// Lists the subcommands of `udo` in their groups, where clap has one list of them.
pub(super) fn with_groups(udo: Command, group_of: impl Fn(&str) -> Group) -> Command {
    let (header, name) = (*udo.get_styles().get_header(), *udo.get_styles().get_literal());
    let names = udo.get_subcommands().map(|command| command.get_name().len());
    let width = names.max().unwrap_or_default();
    let mut list = String::new();
    for (group, heading) in GROUPS {
        // A string takes what is written to it.
        let _ = writeln!(list, "{header}{heading}:{header:#}");
        for command in udo.get_subcommands().filter(|of| group_of(of.get_name()) == group) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(list, "  {name}{:<width$}{name:#}  {about}", command.get_name());
        }
        list.push('\n');
    }
    udo.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::parser;

    /// The most lines of a `-h`.
    const LINES: usize = 40;

    /// Every command with its path, as `udo` has it.
    fn all() -> Vec<(String, Command)> {
        fn add(command: &Command, path: &str, all: &mut Vec<(String, Command)>) {
            for command in command.get_subcommands().filter(|of| of.get_name() != "help") {
                let path = format!("{path}{}", command.get_name());
                add(command, &format!("{path} "), all);
                all.push((path, command.clone()));
            }
        }
        let mut udo = parser();
        udo.build();
        let mut commands = Vec::new();
        add(&udo, "", &mut commands);
        commands
    }

    fn short(command: &Command) -> String {
        command.clone().render_help().to_string()
    }

    fn long(command: &Command) -> String {
        command.clone().render_long_help().to_string()
    }

    #[test]
    fn every_command_is_listed_once_in_its_group() {
        let udo = parser();
        assert!(short(&udo).lines().count() <= LINES);
        for help in [short(&udo), long(&udo)] {
            let lists = |name: &str| {
                let line = |line: &&str| {
                    line.strip_prefix("  ").is_some_and(|line| line.split(' ').next() == Some(name))
                };
                help.lines().filter(line).count()
            };
            for command in udo.get_subcommands() {
                let count = usize::from(!command.is_hide_set());
                assert_eq!(lists(command.get_name()), count, "{}: {help}", command.get_name());
            }
            for (_, heading) in GROUPS {
                assert_eq!(help.matches(&format!("\n{heading}:\n")).count(), 1, "{help}");
            }
            assert!(help.lines().all(|line| line.chars().count() <= WIDTH), "{help}");
        }
    }

    #[test]
    fn summaries_of_commands_fit_on_a_line() {
        for (path, command) in all() {
            let about = command.get_about().unwrap().to_string();
            assert!(about.chars().count() <= 80 && !about.ends_with('.'), "{path}: {about}");
        }
    }

    #[test]
    fn sections_name_flags_that_exist() {
        let commands = all();
        for section in SECTIONS {
            for path in section.commands {
                let (_, command) = commands.iter().find(|(name, _)| name == path).unwrap();
                for name in section.common.iter().chain(section.rare) {
                    let flag = command.get_arguments().find(|of| of.get_long() == Some(name));
                    let flag = flag.unwrap_or_else(|| panic!("{path} has no --{name}"));
                    assert_eq!(flag.get_help_heading(), Some(section.heading), "{path} --{name}");
                }
            }
        }
    }

    #[test]
    fn short_help_fits_on_a_screen_and_points_to_the_rest() {
        for (path, command) in all() {
            let help = short(&command);
            assert!(help.lines().count() <= LINES, "{path}:\n{help}");
            for line in help.lines() {
                assert!(line.chars().count() <= WIDTH, "{path}: {line}");
            }
            let pointer = format!("`udo {path} --help` explains all flags and shows examples.");
            assert_eq!(help.trim_end().lines().last(), Some(pointer.as_str()), "{help}");
            assert!(help.contains("see more with '--help'"), "{help}");
            assert!(!long(&command).contains(&pointer), "{path}");
        }
    }

    #[test]
    fn long_help_has_every_flag_and_two_or_three_examples() {
        for (path, command) in all() {
            let help = long(&command);
            for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
                let Some(name) = flag.get_long() else { continue };
                assert!(help.contains(&format!("--{name}")), "{path} --{name}");
                let summary = flag.get_help().unwrap().to_string();
                assert!(
                    !summary.ends_with('.') && summary.len() <= 80,
                    "{path} --{name}: {summary}"
                );
                assert!(name == "help" || flag.get_help_heading().is_some(), "{path} --{name}");
            }
            let examples =
                |help: &str| help.lines().filter(|line| line.starts_with("  udo ")).count();
            assert_eq!(examples(&short(&command)), 0, "{path}");
            assert!((2..=3).contains(&examples(&help)), "{path}:\n{help}");
        }
    }

    #[test]
    fn texts_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three\n\nfour", 8), "one two\nthree\n\nfour");
        assert_eq!(wrapped("a-very-long-word b", 4), "a-very-long-word\nb");
    }
}
