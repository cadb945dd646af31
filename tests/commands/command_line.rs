//! The page on the command line is the one that the program prints.

use std::fs;
use std::path::Path;

use udo_test_support::command::udo;

#[test]
fn the_page_agrees_with_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-line.md");
    let (code, page, error) = udo(&dir, &["markdown"]);
    assert_eq!(code, Some(0), "{error}");
    if std::env::var_os("UDO_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let help = "UDO_BLESS=1 writes docs/command-line.md";
    assert!(fs::read_to_string(path).unwrap() == page, "{help}");
}

#[test]
fn the_page_has_every_command_that_help_lists() {
    let dir = tempfile::tempdir().unwrap();
    let (_, page, _) = udo(&dir, &["markdown"]);
    let (_, help, _) = udo(&dir, &["--help"]);
    let groups = help.split_once("Packages:\n").unwrap().1.split_once("\nOptions:").unwrap().0;
    let commands: Vec<&str> = groups
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        assert!(page.contains(&format!("\n### udo {command}\n")), "{command}");
    }
    assert!(!page.contains("udo platform"), "hidden commands are not on the page");
}
