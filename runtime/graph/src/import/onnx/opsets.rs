//! The operator sets that a model and its functions import. An operator set (opset) is a versioned list of operators of
//! one domain; a node's operator means what the imported version says.

use std::collections::HashMap;
use std::fmt::Arguments;

use super::ImportError;
use super::proto::OperatorSetIdProto;
use crate::graph::NEWEST;
pub(super) use crate::graph::domain_of as domain;

/// A domain that models may use without importing it: ONNX Runtime's own tools write such models. Its version is 1.
const IMPLICIT_DOMAIN: &str = "com.microsoft";

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
                let advice =
                    "export the model for one of these, or convert it with onnx.version_converter";
                let expected = format!("at most {NEWEST}: {advice}");
                return Err(ImportError::unsupported(
                    place,
                    format!("version {version}"),
                    expected,
                ));
            }
            let previous = versions.insert(domain(&import.domain), version);
            if previous.is_some_and(|previous| previous != version) {
                let found = format!("a second version {version}");
                return Err(ImportError::malformed(place, found, "one version per domain"));
            }
        }
        Ok(Self { versions })
    }

    /// Returns the version that is imported of a domain.
    pub(super) fn get(&self, domain: &str) -> Option<u32> {
        self.versions.get(domain).copied()
    }

    /// Returns the version of a domain that a node uses.
    ///
    /// # Errors
    /// Fails if the model does not import the domain.
    pub(super) fn version(&self, place: Arguments<'_>, domain: &str) -> Result<u32, ImportError> {
        let version = self.get(domain).or_else(|| (domain == IMPLICIT_DOMAIN).then_some(1));
        version.ok_or_else(|| {
            let found = format!("domain {domain:?}, which the model does not import");
            ImportError::malformed(place, found, "an opset import for it")
        })
    }
}
