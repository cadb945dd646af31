//! The description of a quantized model's values.

use udo_api::Encoding;

use super::noise::Noise;
use super::range::{Levels, Range};

/// A quantized value of the graph.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The integers that represent it.
    pub levels: Levels,
    /// One encoding, or one for each position of an axis.
    pub encodings: Vec<Encoding>,
    /// The name of the dequantized value.
    pub back: String,
    /// The rounding error of a constant.
    pub noise: Option<Noise>,
    /// The width of a constant's range including 0; the smallest one if it has several encodings.
    pub width: Option<f64>,
    /// The range outside which elements do not matter, because they are masks or because the consumer clips them.
    pub unmasked: Option<Range>,
}

impl Encoded {
    /// Returns the range of the numbers that can be stored, over all of its encodings.
    pub fn stored_range(&self) -> Range {
        let ranges = self.encodings.iter().map(|encoding| self.levels.range(*encoding));
        ranges.reduce(Range::with).unwrap_or(Range::EMPTY)
    }
}

/// The stored type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Inputs and computed values.
    Activation,
    /// Weights and other constants.
    Weights,
    /// Addends of products.
    Bias,
}
