//! The author's areas of generated files, whose contents are preserved byte for byte.
//!
//! An area begins below the line `# yours from here` and ends above `# yours until here`, or at the end of the file.
//! The last `[table]` above it identifies the area. The package's version, the line with the key `version` in
//! `[workspace.package]`, is an area too, unless the config sets the version.

const AREA_BEGIN: &str = "# yours from here";
const AREA_END: &str = "# yours until here";

/// A text split into the author's areas and the rest.
#[derive(Debug, Default, PartialEq, Eq)]
struct Areas<'t> {
    /// The text before each area, and the area with its table.
    pieces: Vec<(&'t str, Area<'t>)>,
    /// The text after the last area.
    rest: &'t str,
}

/// An area, and the header of the table above it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Area<'t> {
    table: &'t str,
    text: &'t str,
}

/// A generated text with the author's areas.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) text: String,
    /// Whether the existing text has a nonempty area that the generated text lacks, so that its content is left out.
    pub(super) leaves_out: bool,
}

/// Returns the generated text with the author's areas of the existing text.
pub(super) fn merge(generated: &str, existing: &str) -> Merged {
    let generated = match (authors_version_line(generated), authors_version_line(existing)) {
        (Some(line), Some(authors_version)) => generated.replacen(line, authors_version, 1),
        _ => generated.to_owned(),
    };
    let (generated, existing) = (Areas::parse(&generated), Areas::parse(existing));
    let mut text = String::new();
    for (generated_part, area) in &generated.pieces {
        text.push_str(generated_part);
        let content = existing.area(area.table).unwrap_or(area.text);
        text.push_str(content);
        if !content.is_empty() && !content.ends_with('\n') && !generated.rest.is_empty() {
            text.push('\n');
        }
    }
    text.push_str(generated.rest);
    let is_discarded =
        |area: &Area<'_>| !area.text.trim().is_empty() && generated.area(area.table).is_none();
    let leaves_out = existing.pieces.iter().any(|(_, area)| is_discarded(area));
    Merged { text, leaves_out }
}

/// Returns the text without the author's lines: the generator's part.
pub(super) fn without_areas(text: &str) -> String {
    let areas = Areas::parse(text);
    let pieces = areas.pieces.iter().map(|(generated_part, _)| *generated_part);
    let text: String = pieces.chain([areas.rest]).collect();
    match authors_version_line(&text) {
        Some(line) => text.replacen(line, FIRST_VERSION, 1),
        None => text,
    }
}

/// The generated version line if the version belongs to the author.
const FIRST_VERSION: &str = "version = \"0.1.0\"";

/// The comment that marks a version line as set by the config.
const CONFIG_VERSION_MARK: &str = "# of the config";

/// Returns the version line of a workspace's manifest, if it belongs to the author.
fn authors_version_line(text: &str) -> Option<&str> {
    let is_table = |line: &&str| line.trim_start().starts_with('[');
    let mut lines = text.lines().skip_while(|line| line.trim() != "[workspace.package]").skip(1);
    let is_version = |line: &str| {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        key == Some("version") && !line.trim_end().ends_with(CONFIG_VERSION_MARK)
    };
    lines.by_ref().take_while(|line| !is_table(line)).find(|line| is_version(line))
}

impl<'t> Areas<'t> {
    fn parse(text: &'t str) -> Self {
        let mut areas = Self::default();
        let mut table = "";
        let mut start = 0;
        // The start of the open area.
        let mut area_start = None;
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            let end = offset + line.len();
            match (line.trim(), area_start) {
                (AREA_BEGIN, None) => area_start = Some(end),
                (AREA_END, Some(begin)) => {
                    areas.push(text, table, start..begin, begin..offset);
                    (start, area_start) = (offset, None);
                }
                (word, None) if word.starts_with('[') => table = word,
                _ => {}
            }
            offset = end;
        }
        if let Some(begin) = area_start {
            areas.push(text, table, start..begin, begin..offset);
            start = offset;
        }
        areas.rest = text.get(start..).unwrap_or_default();
        areas
    }

    fn push(
        &mut self,
        text: &'t str,
        table: &'t str,
        generated_part: std::ops::Range<usize>,
        area: std::ops::Range<usize>,
    ) {
        let slice = |range| text.get(range).unwrap_or_default();
        self.pieces.push((slice(generated_part), Area { table, text: slice(area) }));
    }

    fn area(&self, table: &str) -> Option<&'t str> {
        self.pieces.iter().find(|(_, area)| area.table == table).map(|(_, area)| area.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATED: &str = "# ours\n\n[dev]\na = 1\n# yours from here\n# yours until here\n\n[dep]\nb = 2\n\
                         # yours from here\n";

    #[test]
    fn areas_of_the_author_are_preserved() {
        let existing =
            GENERATED.replace("# yours until", "mine = 3\n# yours until").replace("a = 1", "a = 0")
                + "libm = \"0.2\"\n\n[features]\nfast = []";
        let expected = GENERATED.replace("# yours until", "mine = 3\n# yours until")
            + "libm = \"0.2\"\n\n[features]\nfast = []";
        assert_eq!(merge(GENERATED, &existing), Merged { text: expected, leaves_out: false });
        assert_eq!(without_areas(&existing), GENERATED.replace("a = 1", "a = 0"));
    }

    #[test]
    fn a_version_is_preserved_unless_the_config_sets_it() {
        let manifest = |version: &str| {
            format!(
                "[workspace]\nversion = 1\n\n[workspace.package]\nedition = \"2024\"\n{version}\n\n[dep]\nversion = 3\n"
            )
        };
        let generated = manifest(FIRST_VERSION);
        for own in ["version = \"0.2.0\"", "version=\"1.0.0-rc.1\"   # next week's"] {
            let existing = manifest(own);
            assert_eq!(
                merge(&generated, &existing),
                Merged { text: existing.clone(), leaves_out: false }
            );
            assert_eq!(without_areas(&existing), generated, "it is not an edit");
        }
        let config_version = manifest("version = \"2.0.0\" # of the config");
        assert_eq!(merge(&config_version, &generated).text, config_version);
        assert_eq!(
            merge(&generated, &config_version).text,
            generated,
            "the config has no version any more"
        );
        assert_eq!(without_areas(&config_version), config_version);
        let edited = manifest("version = \"2.0.1\"");
        assert_eq!(merge(&config_version, &edited).text, config_version);
    }

    #[test]
    fn areas_are_matched_by_table_in_any_order() {
        let existing =
            "[dep]\n# yours from here\nx\n# yours until here\n[dev]\n# yours from here\ny\n";
        let merged = merge(GENERATED, existing);
        let expected = GENERATED.replace("# yours until", "y\n# yours until") + "x\n";
        assert_eq!(merged, Merged { text: expected, leaves_out: false });
    }

    #[test]
    fn texts_without_areas_are_replaced() {
        let cases = [
            ("a\n", "b\n", false),
            (GENERATED, "b\n", false),
            ("a\n", "[old]\n# yours from here\nx\n", true),
            ("a\n", "[old]\n# yours from here\n\n", false),
        ];
        for (generated, existing, leaves_out) in cases {
            let expected = Merged { text: generated.to_owned(), leaves_out };
            assert_eq!(merge(generated, existing), expected, "{existing:?}");
        }
        for text in ["", "a", "a\r\n# yours until here\r\n"] {
            assert_eq!(without_areas(text), text);
        }
    }
}
