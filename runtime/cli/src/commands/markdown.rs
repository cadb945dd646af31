//! `udo markdown`: prints `docs/command-line.md`.

use clap::{Arg, Args, Command};

use super::help::{self, GROUPS, Group};
use super::{COMMANDS, Run};
use crate::output::Outcome;

/// Print the page docs/command-line.md
///
/// A table for each command, with its flags and the first line of their help.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo markdown
  udo markdown > docs/command-line.md")]
pub(crate) struct Markdown {}

impl Run for Markdown {
    fn run(self) -> Outcome {
        let mut udo = super::parser();
        udo.build();
        let sections = sections(&udo);
        outln!("# Command line\n");
        outln!("The commands of `udo` and their flags. `udo markdown` prints this page.");
        outln!("`udo COMMAND --help` explains each flag in full and shows examples.\n");
        outln!("Exit codes: 0 success, 1 failure, 2 wrong usage,");
        outln!("3 a package is out of date (`udo build --locked`).\n");
        let common = common(&sections);
        for (group, heading) in GROUPS {
            outln!("## {heading}\n");
            for section in sections.iter().filter(|section| section.group == group) {
                say(section, &common);
            }
        }
        outln!("## Common flags\n");
        outln!("Flags that several commands have in common.\n");
        for Shared { heading, commands, rows } in &common {
            outln!("### Flags: {heading}\n");
            let names: Vec<String> = commands.iter().map(|name| format!("`{name}`")).collect();
            outln!("{}\n", help::lines(&format!("For {}:", names.join(", "))));
            table(rows.iter());
        }
        Ok(())
    }
}

/// A command and its flags.
struct Section {
    group: Group,
    /// The command as users call it, without `udo`.
    path: String,
    usage: String,
    about: String,
    rows: Vec<Row>,
}

/// An argument or a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    heading: String,
    name: String,
    value: String,
    help: String,
}

/// Flags with the same heading and meaning in the same commands.
struct Shared {
    heading: String,
    commands: Vec<String>,
    rows: Vec<Row>,
}

/// Flags are listed once if at least so many commands have at least so many of them in common.
const SHARED_BY: usize = 4;
const SHARED_ROWS: usize = 3;

/// A flag with more possible values is listed without them.
const MOST_CHOICES: usize = 5;

fn sections(udo: &Command) -> Vec<Section> {
    let mut sections = Vec::new();
    for entry in COMMANDS.iter().filter(|entry| entry.group != Group::Hidden) {
        let Some(command) = udo.find_subcommand(entry.name) else { continue };
        sections.push(section(entry.group, entry.name.to_owned(), command));
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            sections.push(section(entry.group, format!("{} {}", entry.name, sub.get_name()), sub));
        }
    }
    sections
}

fn section(group: Group, path: String, command: &Command) -> Section {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut flags: Vec<&Arg> = command
        .get_arguments()
        .filter(|flag| !flag.is_hide_set() && flag.get_long() != Some("help"))
        .collect();
    flags.sort_by_key(|flag| (flag.get_long().is_some(), position(command, flag)));
    Section { group, path, usage, about, rows: flags.into_iter().map(row).collect() }
}

/// Where `--help` lists a flag: by its heading, then by its place below it.
fn position(command: &Command, flag: &Arg) -> (usize, usize) {
    let heading = flag.get_help_heading();
    let same = |other: &Arg| other.get_help_heading() == heading;
    let index = command.get_arguments().position(same).unwrap_or_default();
    (index, flag.get_display_order())
}

fn row(flag: &Arg) -> Row {
    let metavariable = || {
        let names = flag.get_value_names().unwrap_or_default();
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
    };
    let heading = flag.get_help_heading().unwrap_or_default().to_owned();
    let mut help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let (name, value) = match flag.get_long() {
        Some(long) => {
            let short = flag.get_short().map_or_else(String::new, |short| format!("`-{short}`, "));
            let takes_value = flag.get_action().takes_values();
            let value = if takes_value { metavariable() } else { String::new() };
            (format!("{short}`--{long}`"), value)
        }
        None => (metavariable(), String::new()),
    };
    if flag.get_action().takes_values() {
        let choices: Vec<String> = flag
            .get_possible_values()
            .iter()
            .map(|choice| format!("`{}`", choice.get_name()))
            .collect();
        if !choices.is_empty() && choices.len() <= MOST_CHOICES {
            let end = help.find(" [default").unwrap_or(help.len());
            help.insert_str(end, &format!(": {}", choices.join(", ")));
        }
        let defaults: Vec<String> =
            flag.get_default_values().iter().map(|of| of.to_string_lossy().into_owned()).collect();
        if !defaults.is_empty() && !flag.is_hide_default_value_set() {
            help = format!("{help} [default: {}]", defaults.join(" "));
        }
    }
    Row { heading, name, value, help }
}

/// The flags that many commands have in common.
fn common(sections: &[Section]) -> Vec<Shared> {
    let mut shared: Vec<Shared> = Vec::new();
    for row in sections.iter().flat_map(|section| &section.rows) {
        if shared.iter().any(|of| of.rows.contains(row)) {
            continue;
        }
        let having = sections.iter().filter(|section| section.rows.contains(row));
        let commands: Vec<String> = having.map(|section| section.path.clone()).collect();
        let same = |of: &&mut Shared| of.heading == row.heading && of.commands == commands;
        if let Some(of) = shared.iter_mut().find(same) {
            of.rows.push(row.clone());
        } else {
            let heading = row.heading.clone();
            shared.push(Shared { heading, commands, rows: vec![row.clone()] });
        }
    }
    shared.retain(|of| of.commands.len() >= SHARED_BY && of.rows.len() >= SHARED_ROWS);
    shared
}

fn say(section: &Section, common: &[Shared]) {
    outln!("### udo {}\n", section.path);
    outln!("{}.\n", section.about);
    outln!("```text\n{}\n```\n", section.usage);
    let is_own = |row: &&Row| !common.iter().any(|of| of.rows.contains(row));
    let own: Vec<&Row> = section.rows.iter().filter(is_own).collect();
    if !own.is_empty() {
        table(own.into_iter());
    }
    let shared = common.iter().filter(|of| of.commands.contains(&section.path));
    let links: Vec<String> = shared
        .map(|of| format!("[{}](#flags-{})", of.heading, of.heading.to_lowercase()))
        .collect();
    if !links.is_empty() {
        outln!("{}\n", help::lines(&format!("Common flags: {}.", links.join(", "))));
    }
}

fn table<'a>(rows: impl Iterator<Item = &'a Row>) {
    outln!("| flag | value | meaning |\n|---|---|---|");
    for Row { name, value, help, .. } in rows {
        outln!("| {name} | {value} | {} |", help.replace('|', r"\|"));
    }
    outln!("");
}
