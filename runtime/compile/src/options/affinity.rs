//! Nodes that run on a core, whichever are preferred, as the user or the model's file says.

use std::fmt;
use std::str::FromStr;

use udo_api::{Core, CoreKind};

use udo_graph::graph::{NoSelector, NoSuchNodes, Selector};

/// The architectures of DSPs that are known, oldest first. One between two of them is as the older.
pub const DSP_ARCHS: &[u16] = &[65, 66, 68, 69, 73, 75, 79, 81];

/// Nodes of the model, and the core that they run on: they are pinned to it. What one core has is never made one node with what
/// another one has, nor with what none is said of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// The nodes.
    pub of: Selector,
    /// The core.
    pub core: Core,
}

/// Why nodes cannot be pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AffinityError {
    /// Nothing says which nodes.
    #[error("affinity: {0}")]
    NoSelector(#[from] NoSelector),
    /// There is no such core.
    #[error("affinity {found:?}: {wanted}")]
    NoCore {
        /// The text.
        found: String,
        /// What it might have been.
        wanted: String,
    },
    /// There are no such nodes.
    #[error("affinity: {0}")]
    NoSuchNodes(#[from] NoSuchNodes),
}

/// The core with this name: `cpu`, `gpu`, `dsp`, `dsp:v69` and so on.
///
/// # Errors
/// There is none, and what there is.
pub fn core_named(text: &str) -> Result<Core, String> {
    let core = Core::from_name(text).ok_or_else(|| format!("wanted {}", Core::NAMES))?;
    if core.kind() == Some(CoreKind::Dsp) && !DSP_ARCHS.contains(&core.arch()) {
        let known: Vec<String> = DSP_ARCHS.iter().map(|arch| format!("v{arch}")).collect();
        return Err(format!("there is no such DSP; wanted {}", known.join(", ")));
    }
    Ok(core)
}

impl FromStr for Affinity {
    type Err = AffinityError;

    /// `0-11,177=dsp`, `Conv=gpu`, `*=cpu`; a node's name may have a `=` in it.
    fn from_str(text: &str) -> Result<Self, AffinityError> {
        let no_core = |wanted: String| AffinityError::NoCore { found: text.to_owned(), wanted };
        let pair = text.rsplit_once('=');
        let (of, core) = pair.ok_or_else(|| no_core("wanted NODES=CORE".to_owned()))?;
        Ok(Self { of: of.parse()?, core: core_named(core).map_err(no_core)? })
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
    fn texts_say_nodes_and_their_core() {
        for text in ["0-11,177=dsp:v68", "a=b=gpu", "*=cpu"] {
            assert_eq!(text.parse::<Affinity>().unwrap().to_string(), text);
        }
        let error = |text: &str| text.parse::<Affinity>().unwrap_err().to_string();
        assert_eq!(error("Conv"), "affinity \"Conv\": wanted NODES=CORE");
        assert!(error("Conv=npu").starts_with("affinity \"Conv=npu\": wanted cpu"));
        assert!(error("Conv=dsp:v12").contains("no such DSP; wanted v65"));
        assert!(error("3-1=cpu").contains("\"3-1\" chooses no nodes"));
    }
}
