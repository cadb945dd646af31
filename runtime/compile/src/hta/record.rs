//! The section of a model file with the programs for one SoC: a header's length (4 bytes, little-endian), the header as
//! JSON, then the programs. Reading checks all of it, because files are untrusted.

use serde::{Deserialize, Serialize};
use udo_api::{DType, Shape};

use udo_graph::container::{COMPILED, ContainerError, Section};
use udo_graph::graph::{Compiled, NoSelector, Origin, Selector};
use udo_graph::memory::Tensor;

/// The version of the section's format.
const VERSION: u32 = 1;

/// The largest header in bytes.
const MAX_HEADER_BYTES: usize = 1 << 24;

/// The header of a section; the programs follow it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u32,
    parts: Vec<PartHeader>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartHeader {
    /// The index of the network's stage.
    stage: usize,
    /// The ids of its nodes, for example `0-11,177`.
    nodes: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// The size of the program in bytes.
    bytes: usize,
    /// The digest that ties it to its nodes, weights and encodings.
    digest: String,
}

/// An input or output of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    /// Its extents, in the model's order.
    pub(super) shape: Vec<usize>,
    /// Its scale; 0 if the model states none.
    pub(super) scale: f32,
    /// Its zero point.
    pub(super) zero_point: i32,
}

/// A program with its description.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) stage: usize,
    pub(super) ids: Origin,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) program: Vec<u8>,
    pub(super) digest: String,
}

/// Writes the section with a network's programs for a SoC.
pub(super) fn section(soc: &str, network: &str, parts: &[Part]) -> Result<Section, ContainerError> {
    let refused = |error: &dyn std::fmt::Display| {
        ContainerError::malformed("HTA programs", error, "a smaller model")
    };
    let header = Header {
        version: VERSION,
        parts: parts
            .iter()
            .map(|part| PartHeader {
                stage: part.stage,
                nodes: part.ids.to_string(),
                inputs: part.inputs.clone(),
                outputs: part.outputs.clone(),
                bytes: part.program.len(),
                digest: part.digest.clone(),
            })
            .collect(),
    };
    let text = serde_json::to_vec(&header).map_err(|error| refused(&error))?;
    let len = u32::try_from(text.len()).map_err(|error| refused(&error))?;
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.extend(text);
    for part in parts {
        bytes.extend(&part.program);
    }
    let shape = Shape::new(&[bytes.len()]).map_err(|error| refused(&error))?;
    let bytes = Tensor::from_bytes(DType::U8, shape, &bytes).map_err(|error| refused(&error))?;
    Ok(Section { name: format!("{COMPILED}{soc}"), network: Some(network.to_owned()), bytes })
}

/// Damage of a section.
#[derive(Debug, thiserror::Error)]
pub(super) enum Damage {
    #[error("ends after {bytes} bytes")]
    Short { bytes: usize },
    #[error("has a header of {len} bytes, expected at most {MAX_HEADER_BYTES}")]
    Large { len: usize },
    #[error(transparent)]
    Header(#[from] serde_json::Error),
    #[error("is of version {found}, expected {VERSION}")]
    Version { found: u32 },
    #[error(transparent)]
    Selector(#[from] NoSelector),
    #[error("has nodes {0:?}")]
    Nodes(String),
    #[error("has {bytes} bytes too many")]
    Long { bytes: usize },
}

/// Reads the programs of a section for its stage.
pub(super) fn parts(section: &Compiled) -> Result<Vec<Part>, Damage> {
    let bytes = section.bytes.as_ref();
    let short = || Damage::Short { bytes: bytes.len() };
    let (len, after_len) = bytes.split_first_chunk().ok_or_else(short)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
    if len > MAX_HEADER_BYTES {
        return Err(Damage::Large { len });
    }
    let (text, mut programs) = after_len.split_at_checked(len).ok_or_else(short)?;
    let header: Header = serde_json::from_slice(text)?;
    if header.version != VERSION {
        return Err(Damage::Version { found: header.version });
    }
    let mut parts = Vec::new();
    for part in header.parts {
        let (program, remaining) = programs.split_at_checked(part.bytes).ok_or_else(short)?;
        programs = remaining;
        if part.stage != section.stage {
            continue;
        }
        let ids: Selector = part.nodes.parse()?;
        parts.push(Part {
            stage: part.stage,
            ids: origin(&ids).ok_or(Damage::Nodes(part.nodes))?,
            inputs: part.inputs,
            outputs: part.outputs,
            program: program.to_vec(),
            digest: part.digest,
        });
    }
    if programs.is_empty() { Ok(parts) } else { Err(Damage::Long { bytes: programs.len() }) }
}

/// The largest number of nodes in a part.
const MOST_NODES: usize = 1 << 20;

/// Returns the ids that a selector lists; `None` for another kind of selector or too many ids.
pub(super) fn origin(selector: &Selector) -> Option<Origin> {
    let Selector::Ids(ranges) = selector else { return None };
    let ids: Vec<u32> = ranges.iter().cloned().flatten().take(MOST_NODES + 1).collect();
    (ids.len() <= MOST_NODES).then(|| ids.into_iter().collect())
}
