//! The operator sets that a model and its functions import.

use std::collections::HashMap;
use std::fmt::Arguments;

use super::ImportError;
use super::proto::OperatorSetIdProto;
use crate::graph::NEWEST;
pub(super) use crate::graph::domain_of as domain;

/// A domain that models may use without importing it: ONNX Runtime's own tools write such models.
const UNIMPORTED: &str = "com.microsoft";

/// The version of each imported operator set.
#[derive(Default)]
pub(super) struct Opsets<'a> {
    pub(super) versions: HashMap<&'a str, u32>,
}

impl<'a> Opsets<'a> {
    pub(super) fn from_imports(imports: &'a [OperatorSetIdProto]) -> Result<Self, ImportError> {
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
                let expected = format!("at most {NEWEST}: {next}");
                return Err(ImportError::unsupported(
                    place,
                    format!("version {version}"),
                    expected,
                ));
            }
            let before = versions.insert(domain(&import.domain), version);
            if before.is_some_and(|before| before != version) {
                let found = format!("a second version {version}");
                return Err(ImportError::malformed(place, found, "one version per domain"));
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
