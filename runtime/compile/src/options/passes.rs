//! Options for graph passes.

use std::collections::BTreeSet;

/// Options for graph passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassOptions {
    /// The names of the passes to skip; unknown names are ignored.
    pub skip: BTreeSet<String>,
}
