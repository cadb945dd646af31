//! The model of an ONNX file: what all graphs in it have in common.

use std::collections::HashMap;
use std::fmt::Arguments;

use prost::Message;

use super::external::Files;
use super::function::Functions;
use super::graph::Import;
use super::proto::{FunctionProto, ModelProto, NodeProto, OperatorSetIdProto};
use super::{ImportError, ImportOptions, ModelBytes, PackagedOp};
pub(super) use crate::graph::domain_of as domain;
use crate::graph::{Graph, NEWEST};

/// The domain that ONNX Runtime's tools put nodes of into models that do not import it, as it does without that itself.
const UNIMPORTED: &str = "com.microsoft";

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

/// What all graphs of a model have in common.
pub(super) struct Model<'a> {
    pub(super) files: Files<'a>,
    pub(super) opsets: Opsets<'a>,
    functions: Functions<'a>,
    packaged: &'a [PackagedOp],
    /// Whether an initializer of an input's name is the input's default.
    pub(super) has_defaults: bool,
}

impl<'a> Model<'a> {
    /// The function that a node calls, unless a package has the operator.
    pub(super) fn function_of(&self, node: &NodeProto) -> Option<&'a FunctionProto> {
        let domain = domain(&node.domain);
        let function = self.functions.called_by(node);
        function.filter(|_| !self.packaged.iter().any(|op| op.takes(domain, &node.op_type)))
    }
}

/// The version of each operator set that a model, or a function, uses.
#[derive(Default)]
pub(super) struct Opsets<'a> {
    versions: HashMap<&'a str, u32>,
}

impl<'a> Opsets<'a> {
    pub(super) fn of(imports: &'a [OperatorSetIdProto]) -> Result<Self, ImportError> {
        let mut versions = HashMap::new();
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
            if domain(&import.domain).is_empty() && version > NEWEST {
                let next =
                    "export the model for one of these, or convert it with onnx.version_converter";
                let wanted = format!("{NEWEST} at most: {next}");
                return Err(ImportError::unsupported(place, format!("version {version}"), wanted));
            }
            let before = versions.insert(domain(&import.domain), version);
            if before.is_some_and(|before| before != version) {
                let found = format!("version {version} after another");
                return Err(ImportError::malformed(place, found, "one version for a domain"));
            }
        }
        Ok(Self { versions })
    }

    pub(super) fn get(&self, domain: &str) -> Option<u32> {
        self.versions.get(domain).copied()
    }

    pub(super) fn version(&self, place: Arguments<'_>, domain: &str) -> Result<u32, ImportError> {
        let version = self.get(domain).or_else(|| (domain == UNIMPORTED).then_some(1));
        version.ok_or_else(|| {
            let found = format!("domain {domain:?}, which the model does not import");
            ImportError::malformed(place, found, "an opset import for it")
        })
    }
}
