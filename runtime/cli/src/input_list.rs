//! Input lists, in the grammar of the vendors' tools: a run per line.

use std::path::{Path, PathBuf};

use udo_runtime::session::PortError;

use crate::output::Failure;

/// The files of one run, by input.
pub(crate) type Feeds = Vec<(String, PathBuf)>;

/// What a list asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct List {
    /// The outputs that are wanted; empty for all.
    pub(crate) outputs: Vec<String>,
    /// The number of its line, and the files, of each run.
    pub(crate) runs: Vec<(usize, Feeds)>,
}

/// Reads a list for a model with these inputs and outputs.
pub(crate) fn read(path: &Path, inputs: &[String], outputs: &[String]) -> Result<List, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::new(format!("cannot read input list {}: {e}", path.display())))?;
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let list = parse(&text, &inputs, outputs);
    let list = list.map_err(|(line, failure)| failure.at(place(path, line)))?;
    match list.runs.len() {
        0 => Err(Failure::new(format!("input list {} has no line with files", path.display()))
            .help("write a line for each run, as x:=x0.raw mask:=m0.raw")),
        _ => Ok(list),
    }
}

/// Where a line of a list is, for errors.
pub(crate) fn place(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

fn parse(text: &str, inputs: &[&str], outputs: &[String]) -> Result<List, (usize, Failure)> {
    let mut list = List { outputs: Vec::new(), runs: Vec::new() };
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        if let Some(names) = line.strip_prefix(['#', '%']) {
            // Names follow at once, and stand before all runs; anything else is a remark.
            if list.runs.is_empty() && names.starts_with(|c: char| !c.is_whitespace()) {
                list.outputs.extend(known(names, outputs).map_err(|failure| (number, failure))?);
            }
            continue;
        }
        let feeds = parse_line(line, inputs).map_err(|text| (number, Failure::new(text)))?;
        list.runs.push((number, feeds));
    }
    Ok(list)
}

/// The outputs that a heading names.
fn known(names: &str, outputs: &[String]) -> Result<Vec<String>, Failure> {
    let names = names.split_whitespace().map(|name| match outputs.iter().find(|o| *o == name) {
        Some(output) => Ok(output.clone()),
        None => Err(PortError::NoSuchPort {
            side: "output",
            name: name.to_owned(),
            known: outputs.iter().map(|name| format!("{name:?}")).collect(),
        }),
    });
    names.collect::<Result<_, _>>().map_err(|error| {
        Failure::new(error).help("a remark has a blank behind its #; without one, outputs follow")
    })
}

fn parse_line(line: &str, names: &[&str]) -> Result<Feeds, String> {
    let items: Vec<&str> = line.split_whitespace().collect();
    if items.iter().all(|i| i.contains(":=")) {
        let pairs = items.iter().filter_map(|i| i.split_once(":="));
        let feeds: Feeds = pairs.map(|(name, file)| (name.to_owned(), file.into())).collect();
        let is_twice = |at: usize, name: &str| feeds.iter().take(at).any(|(of, _)| of == name);
        let twice = feeds.iter().enumerate().find(|(at, (name, _))| is_twice(*at, name));
        return match twice {
            Some((_, (name, _))) => Err(format!("input {name:?} has two files, wanted one")),
            None => Ok(feeds),
        };
    }
    if items.iter().any(|i| i.contains(":=")) {
        return Err("some files are named and some are not, wanted one way".to_owned());
    }
    if items.len() != names.len() {
        return Err(format!(
            "{} files, wanted {} for {}",
            items.len(),
            names.len(),
            names.join(", ")
        ));
    }
    Ok(names.iter().zip(items).map(|(name, file)| ((*name).to_owned(), file.into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_lines_are_named_or_positional() {
        let named = parse_line("x:=a.raw y:=b.raw", &["x", "y"]).unwrap();
        assert_eq!(named, parse_line("a.raw b.raw", &["x", "y"]).unwrap());
        assert_eq!(parse_line("a.raw", &["x", "y"]).unwrap_err(), "1 files, wanted 2 for x, y");
        assert!(parse_line("x:=a.raw b.raw", &["x", "y"]).is_err());
        assert_eq!(parse_line("x:=d/a:0#1.raw", &["x"]).unwrap()[0].1, Path::new("d/a:0#1.raw"));
        let twice = parse_line("x:=a.raw x:=b.raw", &["x"]).unwrap_err();
        assert_eq!(twice, "input \"x\" has two files, wanted one");
    }

    #[test]
    fn a_heading_names_outputs_and_a_remark_nothing() {
        let outputs = ["y", "z:0"].map(str::to_owned);
        let parse = |text: &str| parse(text, &["x"], &outputs);
        let list = parse("# of monday\n#z:0\n%y\n\na.raw\n#b.raw\nc.raw\n").unwrap();
        assert_eq!(list.outputs, ["z:0", "y"]);
        let lines: Vec<usize> = list.runs.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [5, 7]);
        let (line, failure) = parse("\n#y w\na.raw\n").unwrap_err();
        let failure = failure.to_string();
        assert!(
            line == 2 && failure.contains("no output \"w\", it has \"y\", \"z:0\""),
            "{failure}"
        );
    }
}
