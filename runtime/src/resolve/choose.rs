//! Which operator takes a node, where several could.

use super::{BindOptions, MissingOp, ResolveError};
use crate::graph::Node;
use crate::package::PackageId;
use crate::registry::{OpEntry, Registry};

impl Registry {
    /// The operator that takes `node`, and what to tell the user about the choice.
    pub(super) fn choose(
        &self,
        node: &Node,
        options: &BindOptions,
    ) -> Result<(OpEntry, Option<String>), ResolveError> {
        let package_of = |entry: &OpEntry| self.package_name(entry.package);
        let fits = |entry: &OpEntry| {
            let domain = entry.def.schema().domain();
            let built_in = self.is_builtin(entry.package);
            let own = domain.is_empty() && (!built_in || node.domain.is_empty());
            own || is_of(entry, &node.domain) || package_of(entry) == node.domain
        };
        let mut candidates: Vec<OpEntry> =
            self.ops_named(&node.op).filter(|e| fits(e)).copied().collect();
        // A package's operator of the node's own domain goes before its operator of any domain.
        let exact: Vec<PackageId> =
            candidates.iter().filter(|e| is_of(e, &node.domain)).map(|e| e.package).collect();
        candidates.retain(|e| is_of(e, &node.domain) || !exact.contains(&e.package));
        if let Some(package) = options.bind.get(&node.op) {
            let found = candidates.into_iter().find(|e| package_of(e) == package);
            let wrong =
                || ResolveError::WrongBind { op: node.op.clone(), package: package.clone() };
            return found.map(|e| (e, None)).ok_or_else(wrong);
        }
        if !node.domain.is_empty() && candidates.iter().any(|e| package_of(e) == node.domain) {
            candidates.retain(|e| package_of(e) == node.domain);
        }
        let (built_in, packaged): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|e| self.is_builtin(e.package));
        match (packaged.as_slice(), built_in.first()) {
            ([], None) => Err(ResolveError::MissingOps { all: vec![MissingOp::of(node, self)] }),
            ([], Some(entry)) | ([entry], None) => Ok((*entry, None)),
            ([entry], Some(_)) => {
                let notice = format!(
                    "{} nodes run package {}'s operator, not the built-in one",
                    node.op,
                    package_of(entry)
                );
                Ok((*entry, Some(notice)))
            }
            (several, _) => {
                let names = several.iter().map(|e| package_of(e).to_owned()).collect();
                Err(ResolveError::Ambiguous {
                    node: node.name.clone(),
                    op: node.op.clone(),
                    packages: names,
                })
            }
        }
    }
}

/// Whether the operator is one of this domain, rather than of any. Graphs have no name for ONNX's own.
fn is_of(entry: &OpEntry, domain: &str) -> bool {
    match entry.def.schema().domain() {
        "" => false,
        "ai.onnx" => domain.is_empty() || domain == "ai.onnx",
        own => own == domain,
    }
}
