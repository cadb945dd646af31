//! The author's areas of generated files, whose contents are preserved byte for byte.
//!
//! An area begins below the line `# yours from here` and ends above `# yours until here`, or at the end of the file.
//! The last `[table]` above identifies it. The package's version is an area too, unless the config sets it: the line
//! with the key `version` in `[workspace.package]`.

const FROM: &str = "# yours from here";
const UNTIL: &str = "# yours until here";

/// A text split into the author's areas and the rest.
#[derive(Debug, Default, PartialEq, Eq)]
struct Areas<'t> {
    /// The text before each area, and the area with its table.
    pieces: Vec<(&'t str, Area<'t>)>,
    /// The text after the last area.
    rest: &'t str,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Area<'t> {
    table: &'t str,
    text: &'t str,
}

/// A generated text with the author's areas.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) text: String,
    /// Whether a nonempty area no longer exists.
    pub(super) leaves_out: bool,
}

/// Returns the generated text with the author's areas of the existing text.
pub(super) fn merge(fresh: &str, found: &str) -> Merged {
    let fresh = match (own_version(fresh), own_version(found)) {
        (Some(line), Some(own)) => fresh.replacen(line, own, 1),
        _ => fresh.to_owned(),
    };
    let (fresh, found) = (Areas::parse(&fresh), Areas::parse(found));
    let mut text = String::new();
    for (before, area) in &fresh.pieces {
        text.push_str(before);
        let kept = found.area(area.table).unwrap_or(area.text);
        text.push_str(kept);
        if !kept.is_empty() && !kept.ends_with('\n') && !fresh.rest.is_empty() {
            text.push('\n');
        }
    }
    text.push_str(fresh.rest);
    let is_lost =
        |area: &Area<'_>| !area.text.trim().is_empty() && fresh.area(area.table).is_none();
    let leaves_out = found.pieces.iter().any(|(_, area)| is_lost(area));
    Merged { text, leaves_out }
}

/// Returns the text without the author's lines: the generator's part.
pub(super) fn without_areas(text: &str) -> String {
    let areas = Areas::parse(text);
    let pieces = areas.pieces.iter().map(|(before, _)| *before);
    let text: String = pieces.chain([areas.rest]).collect();
    match own_version(&text) {
        Some(line) => text.replacen(line, FIRST_VERSION, 1),
        None => text,
    }
}

/// The generated line of a version that belongs to the author.
const FIRST_VERSION: &str = "version = \"0.1.0\"";

/// The mark of a version from the config.
const OF_CONFIG: &str = "# of the config";

/// Returns the version line of a workspace's manifest, if it belongs to the author.
fn own_version(text: &str) -> Option<&str> {
    let is_table = |line: &&str| line.trim_start().starts_with('[');
    let mut lines = text.lines().skip_while(|line| line.trim() != "[workspace.package]").skip(1);
    let is_version = |line: &str| {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        key == Some("version") && !line.trim_end().ends_with(OF_CONFIG)
    };
    lines.by_ref().take_while(|line| !is_table(line)).find(|line| is_version(line))
}

impl<'t> Areas<'t> {
    fn parse(text: &'t str) -> Self {
        let mut areas = Self::default();
        let mut table = "";
        let mut start = 0;
        // The start of the open area.
        let mut open = None;
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            let end = offset + line.len();
            match (line.trim(), open) {
                (FROM, None) => open = Some(end),
                (UNTIL, Some(from)) => {
                    areas.push(text, table, start..from, from..offset);
                    (start, open) = (offset, None);
                }
                (word, None) if word.starts_with('[') => table = word,
                _ => {}
            }
            offset = end;
        }
        if let Some(from) = open {
            areas.push(text, table, start..from, from..offset);
            start = offset;
        }
        areas.rest = text.get(start..).unwrap_or_default();
        areas
    }

    fn push(
        &mut self,
        text: &'t str,
        table: &'t str,
        before: std::ops::Range<usize>,
        area: std::ops::Range<usize>,
    ) {
        let piece = |range| text.get(range).unwrap_or_default();
        self.pieces.push((piece(before), Area { table, text: piece(area) }));
    }

    fn area(&self, table: &str) -> Option<&'t str> {
        self.pieces.iter().find(|(_, area)| area.table == table).map(|(_, area)| area.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: &str = "# ours\n\n[dev]\na = 1\n# yours from here\n# yours until here\n\n[dep]\nb = 2\n\
                         # yours from here\n";

    #[test]
    fn what_is_the_authors_is_carried_over() {
        let found =
            FRESH.replace("# yours until", "mine = 3\n# yours until").replace("a = 1", "a = 0")
                + "libm = \"0.2\"\n\n[features]\nfast = []";
        let want = FRESH.replace("# yours until", "mine = 3\n# yours until")
            + "libm = \"0.2\"\n\n[features]\nfast = []";
        assert_eq!(merge(FRESH, &found), Merged { text: want, leaves_out: false });
        assert_eq!(without_areas(&found), FRESH.replace("a = 1", "a = 0"));
    }

    #[test]
    fn a_version_is_the_authors_unless_it_is_the_configs() {
        let manifest = |version: &str| {
            format!(
                "[workspace]\nversion = 1\n\n[workspace.package]\nedition = \"2024\"\n{version}\n\n[dep]\nversion = 3\n"
            )
        };
        let fresh = manifest(FIRST_VERSION);
        for own in ["version = \"0.2.0\"", "version=\"1.0.0-rc.1\"   # next week's"] {
            let found = manifest(own);
            assert_eq!(merge(&fresh, &found), Merged { text: found.clone(), leaves_out: false });
            assert_eq!(without_areas(&found), fresh, "it is not an edit");
        }
        let of_config = manifest("version = \"2.0.0\" # of the config");
        assert_eq!(merge(&of_config, &fresh).text, of_config);
        assert_eq!(merge(&fresh, &of_config).text, fresh, "the config has no version any more");
        assert_eq!(without_areas(&of_config), of_config);
        let edited = manifest("version = \"2.0.1\"");
        assert_eq!(merge(&of_config, &edited).text, of_config);
    }

    #[test]
    fn tables_find_their_places_in_another_order() {
        let found =
            "[dep]\n# yours from here\nx\n# yours until here\n[dev]\n# yours from here\ny\n";
        let merged = merge(FRESH, found);
        let want = FRESH.replace("# yours until", "y\n# yours until") + "x\n";
        assert_eq!(merged, Merged { text: want, leaves_out: false });
    }

    #[test]
    fn texts_without_places_are_as_they_are_generated() {
        let cases = [
            ("a\n", "b\n", false),
            (FRESH, "b\n", false),
            ("a\n", "[old]\n# yours from here\nx\n", true),
            ("a\n", "[old]\n# yours from here\n\n", false),
        ];
        for (fresh, found, leaves_out) in cases {
            let want = Merged { text: fresh.to_owned(), leaves_out };
            assert_eq!(merge(fresh, found), want, "{found:?}");
        }
        for text in ["", "a", "a\r\n# yours until here\r\n"] {
            assert_eq!(without_areas(text), text);
        }
    }
}
