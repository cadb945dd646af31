//! How nodes find their operators, and inputs their shapes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// What the user decides about binding.
#[derive(Clone, Debug, Default)]
pub struct BindOptions {
    /// Operator type to package name: which package takes the nodes of a type that several claim, or whose domain is another
    /// one's. A type may have its domain before it, as in `com.acme:Blur`; then it is that of nodes of this domain.
    pub bind: BTreeMap<String, String>,
    /// Shapes of graph inputs whose dimensions the model leaves open.
    pub shapes: BTreeMap<String, Vec<usize>>,
    /// Extents of dimensions that the model only names.
    pub dims: BTreeMap<String, usize>,
    /// Ranges of such dimensions, least and most: one plan runs every extent in between.
    pub ranges: Ranges,
    /// The inputs that runs give although the model has a default for them; others with a default are constants.
    pub given: BTreeSet<String>,
}

/// The range of each dimension's name.
pub type Ranges = BTreeMap<String, RangeInclusive<usize>>;
