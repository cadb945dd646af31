//! Attention: `softmax(scale q k' + mask) v` for every head, of a tile of queries and keys at a time, so that the scores
//! of all of them are nowhere at once.

mod exact;
mod given;
mod sizes;
#[cfg(test)]
mod tests;
mod tiles;

use udo_api::{Error, Node};

pub(crate) use exact::Exact;
pub(crate) use sizes::Sizes;
use sizes::{Counts, Mask};
pub(crate) use tiles::Tiled;

/// The inputs.
pub(crate) const Q: usize = 0;
pub(crate) const K: usize = 1;
pub(crate) const V: usize = 2;
pub(crate) const MASK: usize = 3;
pub(crate) const PAST_KEY: usize = 4;
pub(crate) const PAST_VALUE: usize = 5;
pub(crate) const VALID_LENGTHS: usize = 6;

/// The outputs behind the result.
pub(crate) const PRESENT_KEY: usize = 1;
pub(crate) const PRESENT_VALUE: usize = 2;
pub(crate) const SCORES: usize = 3;

/// What is done to scores before they are an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Scaled,
    Capped,
    Masked,
    Normalized,
}

/// What is computed of which extents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    counts: Counts,
    mask: Option<Mask>,
    scale: f64,
    /// Scores are bent to lie below it; 0 for none.
    softcap: f64,
    is_causal: bool,
    /// The scores that an output would be.
    stage: Stage,
}

impl Problem {
    pub(crate) fn read(node: &Node<'_>, sizes: &Sizes) -> Result<Self, Error> {
        let (counts, mask) = (sizes.counts(), Mask::read(node, sizes)?);
        let scale = if node.has_param("scale") {
            node.float("scale")?
        } else {
            1.0 / (counts.depth as f64).sqrt()
        };
        let stage = match node.int("qk_matmul_output_mode")? {
            0 => Stage::Scaled,
            1 => Stage::Capped,
            2 => Stage::Masked,
            3 => Stage::Normalized,
            mode => {
                let wanted = "wanted 0, 1, 2 or 3";
                let name = "qk_matmul_output_mode";
                return Err(Error::new(format!("parameter {name:?} is {mode}, {wanted}")));
            }
        };
        let (softcap, is_causal) = (node.float("softcap")?, node.flag("is_causal")?);
        Ok(Self { counts, mask, scale, softcap, is_causal, stage })
    }

    /// Keys that take part for a query, of so many that are valid; all of them are before those that do not.
    fn visible(&self, valid: usize, query: usize) -> usize {
        let seen = self.mask.map_or(valid, |mask| valid.min(mask.len));
        if self.is_causal { seen.min(self.counts.past + query + 1) } else { seen }
    }
}
