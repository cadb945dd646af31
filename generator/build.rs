//! Embeds the templates of generated packages into the crate.
//!
//! Writes `templates.rs`, a table of (name, text) sorted by name, which `src/templates.rs` includes.

use std::{env, fmt::Write as _, fs, io, path::Path};

use walkdir::WalkDir;

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../templates").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut table = String::from("&[\n");
    for entry in WalkDir::new(&root).sort_by_file_name() {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type().is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        let is_template = path.extension().is_some_and(|extension| extension == "jinja");
        if !is_template {
            continue;
        }
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.strip_prefix(&root).map_err(io::Error::other)?;
        let name = name.to_string_lossy().replace('\\', "/");
        let path = path.to_string_lossy();
        writeln!(table, "    ({name:?}, include_str!({path:?})),").map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    let out_dir = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out_dir).join("templates.rs"), table)
}
