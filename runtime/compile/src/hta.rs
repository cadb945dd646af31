//! Compiles parts of quantized models for the HTA offline, and installs the programs when the model is loaded.
//!
//! | step | module | what it does |
//! |---|---|---|
//! | choose | `choose` | selects the nodes that the SoC supports, in parts as large as possible |
//! | cut | `piece` | cuts the nodes of a part into a graph with quantized inputs and outputs |
//! | lower | `lower` | converts quantized operators to layers |
//! | compile | `compile` | compiles the layers to bytecode (`udo_hta`), for all stages of a model file |
//! | store | `record`, `digest` | writes the section of the file, with a digest that ties each program to its nodes |
//! | install | `install` | checks the programs at load, and replaces each part by one node |

mod choose;
mod compile;
mod digest;
mod install;
mod lower;
mod piece;
mod record;
pub mod subnet;
#[cfg(test)]
mod tests;

use crate::pass::PassError;
use crate::resolve::ResolveError;
use udo_graph::container::ContainerError;

pub use compile::compile;
pub use compile::{HtaPart, HtaReport, PrepareHta};
pub use install::{Installed, install};
pub use piece::PieceError;

/// The reason why a model has no HTA programs, or cannot run with those that it has.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HtaError {
    /// The model file has no programs for the SoC.
    #[error("the model has no programs for the HTA of {soc}{}", others(.known))]
    None {
        /// The SoC.
        soc: &'static str,
        /// The SoCs for which it has programs.
        known: Vec<String>,
    },
    /// A section is damaged.
    #[error("the programs for the HTA of {soc} are damaged: their section {why}")]
    Damaged {
        /// The SoC.
        soc: &'static str,
        /// The damage.
        why: String,
    },
    /// A program does not belong to these nodes, weights and encodings, or is invalid.
    #[error("the HTA program of nodes {nodes} {why}")]
    Stale {
        /// The ids of the nodes.
        nodes: String,
        /// The mismatch.
        why: String,
    },
    /// AIP was requested for a float model.
    #[error("the model is a float model, and AIP runs only quantized models")]
    Numbers,
    /// Nodes cannot become one program.
    #[error("HTA partition {nodes}: {why}")]
    Part {
        /// The requested nodes.
        nodes: String,
        /// The reason.
        why: String,
    },
    /// Two partitions share a node.
    #[error("HTA partitions {one} and {other} share nodes")]
    Shared {
        /// One of them.
        one: String,
        /// The other one.
        other: String,
    },
    /// No part of the model can run on the SoC.
    #[error("{soc} supports no part of the model{}", first(.why))]
    Nothing {
        /// The SoC.
        soc: &'static str,
        /// The refused nodes, with reasons.
        why: Vec<String>,
    },
    /// The graph cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A pass broke the graph.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// The file cannot store the programs.
    #[error(transparent)]
    File(#[from] ContainerError),
}

fn others(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(", but for {}", known.join(", ")) }
}

fn first(why: &[String]) -> String {
    why.first().map_or_else(String::new, |why| format!(": {why}"))
}

impl HtaError {
    /// Returns the next step for the user, where one is known.
    pub fn help(&self) -> Option<String> {
        let help = match self {
            Self::None { .. } | Self::Damaged { .. } | Self::Stale { .. } => Some(
                "`udo prepare MODEL.udm --hta` recompiles them; with `--cores aip` nodes without a program run on the DSP",
            ),
            Self::Numbers => Some(
                "make a quantized model first: `udo quantize MODEL --calibration DIR -o QUANTIZED.udm`, then `udo prepare QUANTIZED.udm --hta`",
            ),
            Self::Part { .. } | Self::Nothing { .. } => Some(
                "`udo explain MODEL --cores dsp` lists nodes by their ids; docs/hta-bytecode.md has what each SoC takes",
            ),
            Self::Resolve(error) => return error.help(),
            Self::Shared { .. } | Self::Pass(_) | Self::File(_) => None,
        };
        help.map(str::to_owned)
    }
}
