//! Compares tables of `docs/config.md` with the tables in the code that they describe; tests of those modules call
//! this. `UDO_BLESS=1` updates the page instead.

use std::{fs, path::Path, sync::Mutex};

/// Serializes concurrent tests, which write the same file.
static PAGE: Mutex<()> = Mutex::new(());

/// Asserts that the table under the heading `title` has these rows.
#[track_caller]
pub(crate) fn assert_table(title: &str, rows: &[String]) {
    let _guard = PAGE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
    let page = fs::read_to_string(&path).unwrap();
    let heading = format!("\n### {title}\n");
    let Some((before_section, section)) = page.split_once(&heading) else {
        panic!("docs/config.md has no section {title:?}");
    };
    let (section, after_section) = section.split_at(section.find("\n#").unwrap_or(section.len()));
    // The rows follow the table's line of dashes.
    let (table_header, body) = section.split_at(section.find("---|\n").unwrap() + "---|\n".len());
    let table_len = body.find("\n\n").map_or(body.len(), |end| end + 1);
    let (actual, after_table) = body.split_at(if body.starts_with('|') { table_len } else { 0 });
    let expected: String = rows.iter().flat_map(|row| [row.as_str(), "\n"]).collect();
    if std::env::var_os("UDO_BLESS").is_some() {
        let text = [before_section, &heading, table_header, &expected, after_table, after_section]
            .concat();
        fs::write(&path, text).unwrap();
        return;
    }
    assert_eq!(actual, expected, "docs/config.md, {title}; UDO_BLESS=1 writes it");
}
