//! Compares the tables of `docs/config.md` with the reader's; `UDO_BLESS=1` writes them.

use std::{fs, path::Path, sync::Mutex};

/// Serializes concurrent tests, which write the same file.
static PAGE: Mutex<()> = Mutex::new(());

/// Compares the rows of the table under a heading.
#[track_caller]
pub(crate) fn hold(title: &str, rows: &[String]) {
    let _alone = PAGE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
    let page = fs::read_to_string(&path).unwrap();
    let heading = format!("\n### {title}\n");
    let Some((before, section)) = page.split_once(&heading) else {
        panic!("docs/config.md has no section {title:?}");
    };
    let (section, after) = section.split_at(section.find("\n#").unwrap_or(section.len()));
    // The line of dashes is above the rows.
    let (head, body) = section.split_at(section.find("---|\n").unwrap() + "---|\n".len());
    let len = body.find("\n\n").map_or(body.len(), |end| end + 1);
    let (found, rest) = body.split_at(if body.starts_with('|') { len } else { 0 });
    let wanted: String = rows.iter().flat_map(|row| [row.as_str(), "\n"]).collect();
    if std::env::var_os("UDO_BLESS").is_some() {
        let text = [before, &heading, head, &wanted, rest, after].concat();
        fs::write(&path, text).unwrap();
        return;
    }
    assert_eq!(found, wanted, "docs/config.md, {title}; UDO_BLESS=1 writes it");
}
