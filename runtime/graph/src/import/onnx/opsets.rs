//! The operator sets that a model and its functions use.

use std::collections::HashMap;
use std::fmt::Arguments;

use super::ImportError;
use super::proto::OperatorSetIdProto;
use crate::graph::NEWEST;
pub(super) use crate::graph::domain_of as domain;

/// The domain that ONNX Runtime's tools put nodes of into models that do not import it, as it does without that itself.
const UNIMPORTED: &str = "com.microsoft";

/// The version of each operator set that a model, or a function, uses.
#[derive(Default)]
pub(super) struct Opsets<'a> {
    pub(super) versions: HashMap<&'a str, u32>,
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
