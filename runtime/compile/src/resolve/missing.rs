//! Finds all operators of a model that no package has.

use std::fmt;

use strsim::levenshtein;

use super::{BindOptions, ResolveError, control, sequence, upgrade};
use crate::resolve::choose::choose;
use crate::resolve::choose::packages_with;
use udo_engine::operators::Operators;
use udo_graph::graph::{Graph, Node, NodeReads};

/// An operator that no package has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingOp {
    /// Its type.
    pub op: String,
    /// Its domain.
    pub domain: String,
    /// The number of its nodes, including those in subgraphs.
    pub count: usize,
    /// The name of its first node.
    pub node: String,
    /// An available operator with a similar name.
    pub meant: Option<String>,
    /// The packages that have an operator of its name in another domain.
    pub packages: Vec<String>,
}

/// ONNX's operators that the runtime lacks; each line begins with the feature that they need.
const ONNX_OPERATORS: &str = include_str!("onnx_operators.txt");

/// The feature of operators that need nothing but tensors, which the runtime has.
const TENSORS: &str = "tensors";

/// Notes about ONNX's other domains.
const DOMAINS: &[(&str, &str)] = &[
    ("ai.onnx.ml", "ONNX's for classical machine learning, which is not supported"),
    ("ai.onnx.preview", "ONNX's for preview operators, which is not supported"),
    ("ai.onnx.preview.training", "ONNX's for training, which is not supported"),
];

/// Returns the feature that an ONNX operator needs; `None` for other operators.
fn needed_by(op: &str) -> Option<&'static str> {
    let mut lines = ONNX_OPERATORS.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(_, ops)| ops.split(' ').any(|known| known == op)).map(|(feature, _)| feature)
}

/// Returns whether an operator can only come from a package: ONNX does not define it.
pub fn needs_package(op: &MissingOp) -> bool {
    op.onnx_note().is_none()
}

impl MissingOp {
    /// Describes one node of a missing operator.
    pub(super) fn new(node: &Node, operators: &Operators) -> Self {
        let (op, domain) = (node.op.clone(), node.domain.clone());
        let (name, packages) = (node.name.clone(), packages_with(operators, node));
        let mut missing = Self { op, domain, count: 1, node: name, meant: None, packages };
        if missing.onnx_note().is_none() {
            missing.meant = nearest(&missing.op, operators);
        }
        missing
    }

    /// Returns a note about an ONNX operator; `None` for other operators.
    fn onnx_note(&self) -> Option<String> {
        if !self.domain.is_empty() {
            let domain = DOMAINS.iter().find(|(domain, _)| *domain == self.domain);
            return domain.map(|(_, words)| (*words).to_owned());
        }
        Some(match needed_by(&self.op)? {
            TENSORS => "an ONNX operator that is not supported yet".to_owned(),
            feature => format!("an ONNX operator for {feature}, which are not supported"),
        })
    }

    /// Returns whether ONNX defines an operator of this name.
    pub(super) fn is_named_by_onnx(op: &str) -> bool {
        needed_by(op).is_some()
    }

    /// Returns the package that can run it through `--bind`.
    pub(crate) fn bound_to(&self) -> Option<&str> {
        self.packages.first().map(String::as_str)
    }

    /// Describes why the operator is missing, after its name.
    fn note(&self) -> String {
        let domain = match self.domain.as_str() {
            "" => String::new(),
            domain => format!(" of domain {domain:?}"),
        };
        let packages = match self.packages.as_slice() {
            [] => String::new(),
            [package] => format!(", and package {package} has one of its name in another domain"),
            several => {
                let names = several.join(", ");
                format!(", and packages {names} have one of its name in other domains")
            }
        };
        match (self.onnx_note(), &self.meant) {
            (Some(words), _) => format!("{domain}: it is {words}{packages}"),
            (None, Some(meant)) if packages.is_empty() => {
                format!("{domain}, did you mean {meant:?}?")
            }
            (None, _) => format!("{domain}{packages}"),
        }
    }
}

/// Formats missing operators: the node if there is one, else a list with the count of each operator.
pub(super) struct List<'a>(pub(super) &'a [MissingOp]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [MissingOp { op, node, count: 1, .. }] = self.0 {
            let note = self.0.first().map(MissingOp::note).unwrap_or_default();
            return write!(f, "node {node:?}: no package has an operator {op:?}{note}");
        }
        for (index, missing) in self.0.iter().enumerate() {
            let MissingOp { op, count, node, .. } = missing;
            let nodes = if *count == 1 {
                "1 node,".to_owned()
            } else {
                format!("{count} nodes, the first")
            };
            let (start, note) =
                (if index == 0 { "no package has an operator" } else { ";" }, missing.note());
            write!(f, "{start} {op:?} ({nodes} {node:?}){note}")?;
        }
        Ok(())
    }
}

/// Returns the available operator with the most similar name, if it is similar enough. Ignores case.
fn nearest(op: &str, operators: &Operators) -> Option<String> {
    let (lower, limit) = (op.to_lowercase(), (op.chars().count() / 4).max(1));
    let names = operators.ops().iter().map(|entry| entry.def.schema().name());
    // An operator of the same name has another domain.
    let candidates = names.filter(|name| *name != op);
    let candidates = candidates.map(|name| (levenshtein(&lower, &name.to_lowercase()), name));
    let candidates = candidates.filter(|(edits, _)| *edits <= limit).min();
    candidates.map(|(_, name)| name.to_owned())
}

/// Checks that every node of a graph has an operator.
///
/// # Errors
/// The graph or one of its subgraphs has missing operators; the error lists all of them.
pub fn find_operators(
    operators: &Operators,
    graph: &Graph,
    options: &BindOptions,
) -> Result<(), ResolveError> {
    let all = missing(operators, graph, options);
    if all.is_empty() { Ok(()) } else { Err(ResolveError::MissingOps { all }) }
}

/// Lists the missing operators of a graph and its subgraphs.
pub fn missing(operators: &Operators, graph: &Graph, options: &BindOptions) -> Vec<MissingOp> {
    let mut all = Vec::new();
    collect_missing(operators, graph, "", options, &mut all);
    all
}

/// Adds the missing operators of a graph and its subgraphs. `path` leads from the outermost graph to this one.
fn collect_missing(
    operators: &Operators,
    graph: &Graph,
    path: &str,
    options: &BindOptions,
    all: &mut Vec<MissingOp>,
) {
    for node in &graph.nodes {
        for subgraph in node.subgraphs() {
            let path = format!("{path}{}/{}/", node.name, subgraph.attribute);
            collect_missing(operators, subgraph.graph, &path, options, all);
        }
        let chosen = choose(operators, node, options);
        let is_missing = matches!(chosen, Err(ResolveError::MissingOps { .. }));
        let is_rewritten = sequence::has_rewrite(node) || control::is_rest(node);
        if !is_missing || is_rewritten || upgrade::renames(node) {
            continue;
        }
        let is_alike = |known: &&mut MissingOp| known.op == node.op && known.domain == node.domain;
        if let Some(known) = all.iter_mut().find(is_alike) {
            known.count += 1;
        } else {
            let missing = MissingOp::new(node, operators);
            all.push(MissingOp { node: format!("{path}{}", node.name), ..missing });
        }
    }
}
