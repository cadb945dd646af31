//! The JSON schema of a model file's metadata: networks, stages, graphs, and where the tensors of the file are used.
//! `docs/model-format.md` describes each key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Extent;

/// A network of the file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkJson {
    pub(super) name: String,
    pub(super) stages: Vec<StageJson>,
}

/// A stage of a network.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StageJson {
    /// The index of the graph in the file.
    pub(super) graph: usize,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) shapes: BTreeMap<String, Vec<Option<ExtentJson>>>,
    pub(super) source: SourceJson,
}

/// One extent of a stage's input shape; `null` if it is not restricted.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum ExtentJson {
    Fixed(usize),
    Range(RangeJson),
}

/// The allowed extents of a dimension, and the one to optimize for.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RangeJson {
    min: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opt: Option<usize>,
    max: usize,
}

impl ExtentJson {
    pub(super) fn from_extent(extent: Extent) -> Option<Self> {
        match extent {
            Extent::Fixed(extent) => Some(Self::Fixed(extent)),
            Extent::Range { min, opt, max } => Some(Self::Range(RangeJson { min, opt, max })),
            Extent::Any => None,
        }
    }

    pub(super) fn extent(json: Option<&Self>) -> Extent {
        match json {
            Some(Self::Fixed(extent)) => Extent::Fixed(*extent),
            Some(&Self::Range(RangeJson { min, opt, max })) => Extent::Range { min, opt, max },
            None => Extent::Any,
        }
    }
}

/// The origin of a stage.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceJson {
    pub(super) file: String,
    pub(super) sha256: String,
    pub(super) tool: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) flags: Vec<String>,
}

/// A section of the file: additional data, stored as a tensor.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SectionJson {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<String>,
    pub(super) tensor: String,
}

/// A graph.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphJson {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    pub(super) values: Vec<ValueJson>,
    pub(super) inputs: Vec<u32>,
    /// Pairs of a value of this graph and a value of the outer graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) captures: Vec<[u32; 2]>,
    pub(super) nodes: Vec<NodeJson>,
    pub(super) outputs: Vec<u32>,
    /// Inputs with a default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) defaults: Vec<DefaultJson>,
    /// Pairs of an input's and an output's name that share memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) in_place: Vec<(String, String)>,
    /// Pinned nodes and their cores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) affinity: Vec<String>,
}

/// An input with a default.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DefaultJson {
    /// The index of the constant among the values.
    pub(super) value: u32,
    #[serde(rename = "type")]
    pub(super) tensor_type: TypeJson,
    /// The number of inputs before it in the model.
    pub(super) before: usize,
}

/// A value of a graph.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValueJson {
    pub(super) name: String,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub(super) tensor_type: Option<TypeJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) constant: Option<TensorJson>,
}

/// The type of a value: element type and dimensions.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TypeJson {
    pub(super) dtype: String,
    /// `null` for an unknown extent.
    pub(super) dims: Vec<Option<DimJson>>,
}

/// A dimension: a fixed extent, or a name that stands for equal extents.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum DimJson {
    Fixed(usize),
    Named(String),
}

/// A tensor of the file by name, with a shape.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TensorJson {
    pub(super) tensor: String,
    pub(super) shape: Vec<usize>,
}

/// A node of a graph.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeJson {
    /// The permanent id, which does not change when nodes move.
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) op: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) domain: String,
    pub(super) opset: u32,
    pub(super) inputs: Vec<Option<u32>>,
    pub(super) outputs: Vec<Option<u32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) attrs: Vec<(String, AttrJson)>,
}

/// The value of an attribute. Floats are strings: JSON cannot represent infinities and NaN, and few JSON readers keep every digit.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AttrJson {
    Int(i64),
    Float(String),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<String>),
    Texts(Vec<String>),
    Tensor(TensorJson),
    Graph(Box<GraphJson>),
    Graphs(Vec<GraphJson>),
}
