//! Input lists, in the grammar of the vendors' tools: a run per line.

use std::path::{Path, PathBuf};

use crate::output::Failure;

/// The files of one run, by input.
pub(crate) type Feeds = Vec<(String, PathBuf)>;

/// The contents of an input list.
#[derive(Debug, PartialEq)]
pub(crate) struct List {
    path: PathBuf,
    /// The outputs that its heading requests, with their line numbers; empty to request the model's outputs.
    pub(crate) wanted: Vec<(usize, String)>,
    /// The number of its line, and the items, of each run.
    lines: Vec<(usize, Vec<String>)>,
}

impl List {
    /// Reads a list.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = udo_files::read_to_string(path, udo_files::TEXT_BYTES)
            .map_err(|e| Failure::new(format!("cannot read input list {}: {e}", path.display())))?;
        // Some editors write a byte order mark first, which does not belong to a name.
        let list = Self::parse(path, text.strip_prefix('\u{feff}').unwrap_or(&text));
        match list.lines.len() {
            0 => Err(Failure::new(format!("input list {} has no line with files", path.display()))
                .help("write a line for each run, as x:=x0.raw mask:=m0.raw")),
            _ => Ok(list),
        }
    }

    fn parse(path: &Path, text: &str) -> Self {
        let mut list = Self { path: path.to_owned(), wanted: Vec::new(), lines: Vec::new() };
        for (number, line) in (1..).zip(text.lines()) {
            let items = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            match line.strip_prefix(['#', '%']) {
                // Names follow at once, and stand before all runs; anything else is a remark.
                Some(names) if list.lines.is_empty() && !names.starts_with(char::is_whitespace) => {
                    list.wanted.extend(items(names).into_iter().map(|name| (number, name)));
                }
                Some(_) => {}
                None if line.trim().is_empty() => {}
                None => list.lines.push((number, items(line))),
            }
        }
        list
    }

    /// The inputs that its lines name.
    pub(crate) fn named(&self) -> impl Iterator<Item = &str> {
        let items = self.lines.iter().flat_map(|(_, items)| items);
        items.filter_map(|item| Some(item.split_once(":=")?.0))
    }

    /// The number of its line, and the files, of each run of a model with these inputs.
    pub(crate) fn runs(&self, inputs: &[String]) -> Result<Vec<(usize, Feeds)>, Failure> {
        let of = |(number, items): &(usize, Vec<String>)| {
            let feeds = feeds(items, inputs);
            Ok((*number, feeds.map_err(|text| Failure::new(text).at(place(&self.path, *number)))?))
        };
        self.lines.iter().map(of).collect()
    }
}

/// Where a line of a list is, for errors.
pub(crate) fn place(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

/// The files of a line: all named, or all by the places of the inputs.
fn feeds(items: &[String], inputs: &[String]) -> Result<Feeds, String> {
    if items.iter().all(|item| item.contains(":=")) {
        let pairs = items.iter().filter_map(|item| item.split_once(":="));
        let feeds: Feeds = pairs.map(|(name, file)| (name.to_owned(), file.into())).collect();
        let is_twice = |at: usize, name: &str| feeds.iter().take(at).any(|(of, _)| of == name);
        let twice = feeds.iter().enumerate().find(|(at, (name, _))| is_twice(*at, name));
        return match twice {
            Some((_, (name, _))) => Err(format!("input {name:?} has two files, expected one")),
            None => Ok(feeds),
        };
    }
    if items.iter().any(|item| item.contains(":=")) {
        return Err("some files are named and some are not, expected one way".to_owned());
    }
    if items.len() != inputs.len() {
        return Err(format!(
            "{} files, expected {} for {}",
            items.len(),
            inputs.len(),
            inputs.join(", ")
        ));
    }
    Ok(inputs.iter().zip(items).map(|(name, file)| (name.clone(), file.into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, inputs: &[&str]) -> Result<Feeds, String> {
        let items: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        feeds(&items, &inputs.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn list_lines_are_named_or_positional() {
        let named = line("x:=a.raw y:=b.raw", &["x", "y"]).unwrap();
        assert_eq!(named, line("a.raw b.raw", &["x", "y"]).unwrap());
        assert_eq!(line("a.raw", &["x", "y"]).unwrap_err(), "1 files, expected 2 for x, y");
        assert!(line("x:=a.raw b.raw", &["x", "y"]).is_err());
        assert_eq!(line("x:=d/a:0#1.raw", &["x"]).unwrap()[0].1, Path::new("d/a:0#1.raw"));
        let odd = line("x:0:=d/#a:=.raw", &["x:0"]).unwrap();
        assert_eq!(odd, [("x:0".to_owned(), PathBuf::from("d/#a:=.raw"))]);
        let twice = line("x:=a.raw x:=b.raw", &["x"]).unwrap_err();
        assert_eq!(twice, "input \"x\" has two files, expected one");
    }

    #[test]
    fn a_heading_names_outputs_and_a_remark_nothing() {
        let text = "# of monday\n#z:0\n%y w\n\n  \na.raw\r\n#b.raw\n# c.raw\nc.raw\n";
        let list = List::parse(Path::new("list.txt"), text);
        let wanted = [(2, "z:0"), (3, "y"), (3, "w")].map(|(at, name)| (at, name.to_owned()));
        assert_eq!(list.wanted, wanted);
        let runs = list.runs(&["x".to_owned()]).unwrap();
        let file = |at: usize, file: &str| (at, vec![("x".to_owned(), PathBuf::from(file))]);
        assert_eq!(runs, [file(6, "a.raw"), file(9, "c.raw")]);
        let failure = list.runs(&[]).unwrap_err().to_string();
        assert!(failure.starts_with("error: list.txt:6: 1 files, expected 0"), "{failure}");
    }
}
