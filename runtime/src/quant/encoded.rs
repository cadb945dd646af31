//! What a quantized model says of each value that it stores.

use udo_api::Encoding;

use super::noise::Noise;
use super::range::{Levels, Range};

/// How a value of the graph is stored.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The integers that may stand for numbers.
    pub levels: Levels,
    /// An encoding for all, or one for each position of an axis.
    pub encodings: Vec<Encoding>,
    /// The value that has the numbers which are made of what is stored.
    pub back: String,
    /// How far the numbers of a constant are from what they were.
    pub noise: Option<Noise>,
    /// How wide the range of a constant's numbers is, with 0 in it: the narrowest, where several have an encoding each.
    pub width: Option<f64>,
    /// The range of the numbers of a value whose others are of no matter: they only mask, or the node that reads them cuts them off.
    pub unmasked: Option<Range>,
}

impl Encoded {
    /// Returns the range of the numbers that can be stored, over all of its encodings.
    pub fn stored_range(&self) -> Range {
        let ranges = self.encodings.iter().map(|encoding| self.levels.range(*encoding));
        ranges.reduce(Range::with).unwrap_or(Range::EMPTY)
    }
}

/// What is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What nodes compute, and inputs.
    Activation,
    /// Weights, and other constants that nodes compute with.
    Weights,
    /// What is added to sums of products.
    Bias,
}
