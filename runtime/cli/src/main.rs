//! The `udo` command.
fn main() {}
