//! Model files (`.udm`), as `udo convert` writes them.

use super::{ImportError, ImportOptions, ModelBytes};
use crate::container::{Container, ContainerError};
use crate::graph::Graph;

/// Imports the network and stage that the options name; without options, the only network and the
/// stage that fits without given shapes.
///
/// Ranges of dimensions stay open: see [`Container::bound`].
///
/// # Errors
/// Fails if the bytes are not a model file, or it does not have the network or stage.
pub(super) fn import(
    bytes: &ModelBytes,
    name: &str,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    let graph = Container::read(bytes).and_then(|container| {
        let network = container.network(options.network.as_deref())?;
        let stage = options.stage.map_or_else(|| container.stage_for(network, &[]), Ok)?;
        Ok(container.bound(network.stage(stage)?, name)?.graph)
    });
    graph.map_err(|reason: ContainerError| ImportError::Container { name: name.to_owned(), reason })
}
