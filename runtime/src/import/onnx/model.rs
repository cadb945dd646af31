//! The model of an ONNX file: what all graphs in it have in common.

use std::collections::{HashMap, HashSet};
use std::fmt::Arguments;

use prost::Message;

use super::graph::Import;
use super::proto::{ModelProto, OperatorSetIdProto};
use super::{ImportError, ImportOptions};
use crate::graph::Graph;

pub(super) fn graph(
    bytes: &[u8],
    name: &str,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    let not_onnx = |reason: String| ImportError::WrongBytes {
        name: format!("{name:?}"),
        wanted: "an ONNX ModelProto",
        reason,
    };
    let mut model = ModelProto::decode(bytes).map_err(|e| not_onnx(e.to_string()))?;
    let Some(graph) = model.graph.take() else {
        return Err(not_onnx("it has no graph".to_owned()));
    };
    let functions = model.functions.iter().map(|f| (domain(&f.domain), f.name.as_str())).collect();
    let opsets = Opsets::of(model.ir_version, &model.opset_import)?;
    let graph = Import::new(name, &Model { options, opsets, functions }).whole(graph)?;
    graph.verify()?;
    Ok(graph)
}

/// What all graphs of a model have in common.
pub(super) struct Model<'a> {
    pub(super) options: &'a ImportOptions,
    pub(super) opsets: Opsets<'a>,
    pub(super) functions: Functions<'a>,
}

/// The version of each operator set that a model uses.
pub(super) struct Opsets<'a> {
    versions: HashMap<&'a str, u32>,
}

/// Operators that the model defines itself, by domain and name.
type Functions<'a> = HashSet<(&'a str, &'a str)>;

/// ONNX's own operators have a domain with two names.
pub(super) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

impl<'a> Opsets<'a> {
    fn of(ir_version: i64, imports: &'a [OperatorSetIdProto]) -> Result<Self, ImportError> {
        let mut versions = HashMap::new();
        // Files of the first two formats may leave the list out.
        if ir_version < 3 && imports.is_empty() {
            versions.insert("", 1);
        }
        for import in imports {
            let place = format_args!("opset import {:?}", import.domain);
            let version =
                u32::try_from(import.version).ok().filter(|&v| v > 0).ok_or_else(|| {
                    ImportError::malformed(
                        place,
                        format!("version {}", import.version),
                        "a positive number",
                    )
                })?;
            let before = versions.insert(domain(&import.domain), version);
            if before.is_some_and(|before| before != version) {
                let found = format!("version {version} after another");
                return Err(ImportError::malformed(place, found, "one version for a domain"));
            }
        }
        Ok(Self { versions })
    }

    pub(super) fn version(&self, place: Arguments<'_>, domain: &str) -> Result<u32, ImportError> {
        self.versions.get(domain).copied().ok_or_else(|| {
            let found = format!("domain {domain:?}, which the model does not import");
            ImportError::malformed(place, found, "an opset import for it")
        })
    }
}
