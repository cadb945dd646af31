//! Model files, as `udo convert` writes them.

use super::{ImportError, ImportOptions, ModelBytes};
use crate::container::{Container, ContainerError};
use crate::graph::Graph;

/// The graph of the network and stage that the options name, or of the only ones there are.
///
/// Ranges of extents stay open: [`Container::bound`] says them.
///
/// # Errors
/// Bytes that are no model file, and a network or stage that it does not have.
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
