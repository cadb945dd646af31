//! Options for binding nodes to operators and inputs to shapes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Options for binding.
#[derive(Clone, Debug, Default)]
pub struct BindOptions {
    /// Maps operator types to the packages that implement them. Needed for a type that several packages have, and for
    /// nodes whose domain differs from the package's. A key may start with a domain, for example `com.acme:Blur`; it
    /// then applies only to nodes of that domain.
    pub bind: BTreeMap<String, String>,
    /// Shapes of graph inputs whose dimensions the model leaves open.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// Extents of dimensions that the model only names.
    pub dims: BTreeMap<String, usize>,
    /// Ranges of named dimensions, inclusive: one plan runs all extents in a range.
    pub ranges: Ranges,
    /// The inputs that runs set although the model has a default for them. Other inputs with a default are constants.
    pub overridden: BTreeSet<String>,
}

/// Ranges of dimensions, by name.
pub type Ranges = BTreeMap<String, RangeInclusive<usize>>;
