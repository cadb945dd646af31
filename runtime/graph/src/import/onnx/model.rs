//! The model of an ONNX file: its graph, read with what all graphs in it have in common.

use prost::Message;

use super::external::Files;
use super::opsets::Opsets;
use super::proto::ModelProto;
use super::scope::Functions;
use super::state::{Import, Model};
use super::{ImportError, ImportOptions, ModelBytes};
use crate::graph::Graph;

/// The newest version of the file format that is read: a later one may say what nobody here would look for.
const NEWEST_FORMAT: i64 = 13;

/// The first version of the file format in which an initializer of an input's name is the input's default.
const DEFAULTS: i64 = 4;

pub(super) fn graph(
    bytes: &ModelBytes,
    name: &str,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    let not_onnx = |reason: String| ImportError::WrongBytes {
        name: format!("{name:?}"),
        wanted: "an ONNX ModelProto",
        reason,
    };
    let mut model = ModelProto::decode(bytes.0.clone()).map_err(|e| not_onnx(e.to_string()))?;
    let Some(graph) = model.graph.take() else {
        return Err(not_onnx("it has no graph".to_owned()));
    };
    if model.ir_version > NEWEST_FORMAT {
        let found = format!("format {} (ir_version)", model.ir_version);
        let wanted = format!("{NEWEST_FORMAT} at most: export it with an older release of ONNX");
        return Err(ImportError::unsupported(format_args!("{name:?}"), found, wanted));
    }
    let functions = Functions::of(&model.functions)?;
    let mut opsets = Opsets::of(&model.opset_import)?;
    // Files of the first two formats may leave the list out.
    if model.ir_version < 3 && model.opset_import.is_empty() {
        opsets.versions.insert("", 1);
    }
    let files = Files::of(options);
    // Before that, an initializer of an input's name is a constant.
    let has_defaults = model.ir_version >= DEFAULTS;
    let of = Model { files, opsets, functions, packaged: &options.packaged, has_defaults };
    let graph = Import::new(name, &of).whole(graph)?;
    graph.verify()?;
    Ok(graph)
}
