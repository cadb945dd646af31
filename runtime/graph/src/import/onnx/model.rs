//! The model of an ONNX file: its graph, functions and operator sets.

use prost::Message;

use super::external::Files;
use super::opsets::Opsets;
use super::proto::ModelProto;
use super::scope::Functions;
use super::state::{Import, Model};
use super::{ImportError, ImportOptions, ModelBytes};
use crate::graph::Graph;

/// The newest supported IR version (`ir_version`, the version of the file format). A later one may have fields that this
/// importer would ignore silently.
const NEWEST_IR: i64 = 13;

/// The first IR version in which an initializer with an input's name is the input's default. In older versions the
/// initializer is a constant.
const FIRST_IR_WITH_DEFAULTS: i64 = 4;

/// Decodes the bytes of an ONNX file and reads its graph.
pub(super) fn graph(
    bytes: &ModelBytes,
    name: &str,
    options: &ImportOptions,
) -> Result<Graph, ImportError> {
    let not_onnx = |reason: String| ImportError::WrongBytes {
        name: format!("{name:?}"),
        expected: "an ONNX ModelProto",
        reason,
    };
    let mut model = ModelProto::decode(bytes.0.clone()).map_err(|e| not_onnx(e.to_string()))?;
    let Some(graph) = model.graph.take() else {
        return Err(not_onnx("it has no graph".to_owned()));
    };
    if model.ir_version > NEWEST_IR {
        let found = format!("format {} (ir_version)", model.ir_version);
        let expected = format!("at most {NEWEST_IR}: export it with an older release of ONNX");
        return Err(ImportError::unsupported(format_args!("{name:?}"), found, expected));
    }
    let functions = Functions::new(&model.functions)?;
    let mut opsets = Opsets::from_imports(&model.opset_import)?;
    // Files of IR versions 1 and 2 may leave the list out: they use version 1 of ONNX's own operators.
    if model.ir_version < 3 && model.opset_import.is_empty() {
        opsets.versions.insert("", 1);
    }
    let files = Files::new(options);
    let has_defaults = model.ir_version >= FIRST_IR_WITH_DEFAULTS;
    let shared = Model { files, opsets, functions, packaged: &options.packaged, has_defaults };
    let graph = Import::new(name, &shared).read_model(graph)?;
    graph.verify()?;
    Ok(graph)
}
