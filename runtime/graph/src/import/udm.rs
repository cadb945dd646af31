//! Model files (`.udm`), as `udo convert` writes them.

use super::{ImportError, ImportOptions, ModelBytes};
use crate::container::{Container, ContainerError};
use crate::graph::Graph;

/// Imports one stage of a network: a graph for certain input shapes.
///
/// The options name the network and the stage. Without options, the file must have a single network, and the stage is
/// chosen without knowing input shapes. A dimension that the stage allows to vary stays variable in the graph: see
/// [`Container::bound`].
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
