//! Affinities: pins of nodes to a core, stated by the user (`--affinity NODES=CORE`) or in the model's file.
//! `crate::place` applies them.

use std::fmt;
use std::str::FromStr;

use udo_api::{Core, CoreKind};

use udo_graph::graph::{NoSelector, NoSuchNodes, Selector};

/// The known DSP architectures, oldest first. An architecture between two of them behaves like the older one.
pub const DSP_ARCHS: &[u16] = &[65, 66, 68, 69, 73, 75, 79, 81];

/// Pins nodes of the model to a core. Nodes with different pins are never fused, nor are a pinned and an unpinned node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// The nodes to pin.
    pub of: Selector,
    /// The core.
    pub core: Core,
}

/// The reason why nodes cannot be pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AffinityError {
    /// The selector is invalid.
    #[error("affinity: {0}")]
    NoSelector(#[from] NoSelector),
    /// The core does not exist.
    #[error("affinity {text:?}: {expected}")]
    NoCore {
        /// The affinity's text, or the core's name.
        text: String,
        /// The expected names.
        expected: String,
    },
    /// The selector matches no node.
    #[error("affinity: {0}")]
    NoSuchNodes(#[from] NoSuchNodes),
}

/// Returns the core with this name: `cpu`, `gpu`, `dsp`, `dsp:v69` and so on.
///
/// # Errors
/// No core has the name; the error lists the names.
pub fn core_named(text: &str) -> Result<Core, String> {
    let core = Core::from_name(text).ok_or_else(|| format!("expected {}", Core::NAMES))?;
    if core.kind() == Some(CoreKind::Dsp) && !DSP_ARCHS.contains(&core.arch()) {
        let known: Vec<String> = DSP_ARCHS.iter().map(|arch| format!("v{arch}")).collect();
        return Err(format!("there is no such DSP, expected {}", known.join(", ")));
    }
    Ok(core)
}

impl FromStr for Affinity {
    type Err = AffinityError;

    /// Parses `0-11,177=dsp`, `Conv=gpu` or `*=cpu`. A node's name may contain `=`.
    fn from_str(text: &str) -> Result<Self, AffinityError> {
        let no_core = |expected: String| AffinityError::NoCore { text: text.to_owned(), expected };
        let pair = text.rsplit_once('=');
        let (nodes, core) = pair.ok_or_else(|| no_core("expected NODES=CORE".to_owned()))?;
        Ok(Self { of: nodes.parse()?, core: core_named(core).map_err(no_core)? })
    }
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.of, self.core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinities_are_parsed_and_displayed() {
        for text in ["0-11,177=dsp:v68", "a=b=gpu", "*=cpu"] {
            assert_eq!(text.parse::<Affinity>().unwrap().to_string(), text);
        }
        let error = |text: &str| text.parse::<Affinity>().unwrap_err().to_string();
        assert_eq!(error("Conv"), "affinity \"Conv\": expected NODES=CORE");
        assert!(error("Conv=npu").starts_with("affinity \"Conv=npu\": expected cpu"));
        assert!(error("Conv=dsp:v12").contains("no such DSP, expected v65"));
        assert!(error("3-1=cpu").contains("\"3-1\" chooses no nodes"));
    }
}
