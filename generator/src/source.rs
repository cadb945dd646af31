//! What is read: config files in memory, and how strictly.

use std::path::Path;

/// One config file, already in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source<'a> {
    /// Its path, for messages and for [`crate::config::Package::sources`].
    pub path: &'a Path,
    /// Its text.
    pub text: &'a str,
}

/// How to take what vendor configs do but the grammar does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// As an error.
    #[default]
    Strict,
    /// As a warning that names the assumption made.
    Compat,
}
