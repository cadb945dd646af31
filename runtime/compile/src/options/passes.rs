//! Which passes run.

use std::collections::BTreeSet;

/// Which passes run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassOptions {
    /// The names of those that do not; a name of no pass is ignored.
    pub skip: BTreeSet<String>,
}
