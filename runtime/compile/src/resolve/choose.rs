//! Chooses the operator that a node is bound to.
//!
//! A node of a domain is bound to an operator of that domain: the domain in a package operator's schema, or else the
//! package's name. A node of ONNX's own domain (the empty name) is bound to ONNX's operator, or to a package operator
//! without a domain; if ONNX has no operator of that name, to the only package that has one. An explicit binding
//! (`--bind`) overrides the domain.

use super::{BindOptions, MissingOp, ResolveError, upgrade};
use udo_engine::operators::{OpEntry, Operators};
use udo_graph::graph::{Node, ONNX_DOMAIN};

impl BindOptions {
    /// Returns the package that a node is bound to by its type, or by its domain and type.
    fn package_of(&self, node: &Node) -> Option<&str> {
        let with_domain = || self.bind.get(&format!("{}:{}", node.domain, node.op));
        // Most models bind nothing: avoid formatting a key for each node.
        let by_domain_and_type = if self.bind.is_empty() { None } else { with_domain() };
        by_domain_and_type.or_else(|| self.bind.get(&node.op)).map(String::as_str)
    }
}

/// How well an operator matches a node's domain, best match first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The operator has the node's domain.
    Exact,
    /// Neither the operator nor the node has a domain.
    AnyDomain,
    /// The package has the name of the node's domain.
    Package,
    /// The operator has another domain.
    Foreign,
}

/// Returns the operator for `node`, and a notice for the user about the choice.
pub(super) fn choose(
    operators: &Operators,
    node: &Node,
    options: &BindOptions,
) -> Result<(OpEntry, Option<String>), ResolveError> {
    if let Some(package) = options.package_of(node) {
        let bound = best(operators, node, |entry| operators.package_name(entry.package) == package);
        let wrong = || ResolveError::WrongBind { op: node.op.clone(), package: package.to_owned() };
        return bound.first().map(|&entry| (entry, None)).ok_or_else(wrong);
    }
    // Packages of any domain may implement a node without a domain that ONNX does not define.
    let is_free = node.domain.is_empty() && !is_of_onnx(operators, node);
    let is_candidate = |entry: &OpEntry| is_free || fit(operators, entry, node) != Fit::Foreign;
    let (built_in, packaged): (Vec<_>, Vec<_>) = best(operators, node, is_candidate)
        .into_iter()
        .partition(|e| operators.is_builtin(e.package));
    let names = || packaged.iter().map(|entry| operators.package_name(entry.package).to_owned());
    match (packaged.as_slice(), built_in.first()) {
        ([], None) => Err(ResolveError::MissingOps { all: vec![MissingOp::new(node, operators)] }),
        ([], Some(entry)) | ([entry], None) => Ok((*entry, None)),
        ([entry], Some(_)) => {
            let notice = format!(
                "{} nodes run package {}'s operator, not the built-in one",
                node.op,
                operators.package_name(entry.package)
            );
            Ok((*entry, Some(notice)))
        }
        (_, _) => Err(ResolveError::Ambiguous {
            node: node.name.clone(),
            op: node.op.clone(),
            packages: names().collect(),
        }),
    }
}

/// Returns the packages that have an operator of a node's type in any domain, in the order in which they were opened.
pub(super) fn packages_with(operators: &Operators, node: &Node) -> Vec<String> {
    let all = best(operators, node, |entry| !operators.is_builtin(entry.package));
    all.iter().map(|entry| operators.package_name(entry.package).to_owned()).collect()
}

/// Returns the accepted operators of a node's type: for each package the one that matches the node's domain best. A
/// built-in operator matches only its own domain.
fn best(operators: &Operators, node: &Node, accepts: impl Fn(&OpEntry) -> bool) -> Vec<OpEntry> {
    let mut best: Vec<(Fit, OpEntry)> = Vec::new();
    for entry in operators.ops_named(&node.op).filter(|entry| accepts(entry)) {
        let fit = fit(operators, entry, node);
        if operators.is_builtin(entry.package) && fit != Fit::Exact {
            continue;
        }
        match best.iter_mut().find(|(_, known)| known.package == entry.package) {
            Some(known) if fit < known.0 => *known = (fit, *entry),
            Some(_) => {}
            None => best.push((fit, *entry)),
        }
    }
    // A package named like the domain takes precedence over other packages with that domain.
    let is_named_like_domain = |(_, entry): &(Fit, OpEntry)| {
        !node.domain.is_empty() && operators.package_name(entry.package) == node.domain
    };
    if best.iter().any(is_named_like_domain) {
        best.retain(is_named_like_domain);
    }
    best.into_iter().map(|(_, entry)| entry).collect()
}

/// Returns how well an operator matches a node's domain.
fn fit(operators: &Operators, entry: &OpEntry, node: &Node) -> Fit {
    let (op_domain, package) = (entry.def.schema().domain(), operators.package_name(entry.package));
    let is_same = match op_domain {
        "" => operators.is_builtin(entry.package) && node.domain.is_empty(),
        ONNX_DOMAIN => node.domain.is_empty(),
        op_domain => op_domain == node.domain,
    };
    match op_domain {
        _ if is_same => Fit::Exact,
        "" if node.domain.is_empty() => Fit::AnyDomain,
        "" if package == node.domain => Fit::Exact,
        _ if package == node.domain => Fit::Package,
        _ => Fit::Foreign,
    }
}

/// Returns whether ONNX defines an operator of a node's type.
fn is_of_onnx(operators: &Operators, node: &Node) -> bool {
    let is_own = |entry: &OpEntry| {
        operators.is_builtin(entry.package) && entry.def.schema().domain().is_empty()
    };
    operators.ops_named(&node.op).any(is_own)
        || upgrade::renames(node)
        || MissingOp::is_named_by_onnx(&node.op)
}
