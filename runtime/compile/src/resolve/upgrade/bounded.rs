//! Converts nodes whose output shape is an input that only a run computes, such as `Reshape`. If the shape has bounds,
//! the node becomes an operator of domain `udo` that reads the shape during the run and declares the bounds.
//!
//! The bounds come from resolving the whole graph twice: with every named dimension at the lower end and at the upper
//! end of the range that the user states for it.

use std::collections::BTreeMap;

use udo_api::TensorDesc;

use crate::compiler::Compiler;
use crate::options::CompileOptions;
use crate::resolve::{self, BindOptions, InputShapes, ResolveError, TypedGraph, inputs::Input};
use udo_graph::graph::{Attr, Graph, Node};

/// Operators that need elements during compilation, and the operators of domain `udo` that read them during the run.
const IN_RUN: &[(&str, &str)] = &[
    ("ConstantOfShape", "BoundedConstantOfShape"),
    ("Expand", "BoundedExpand"),
    ("Range", "BoundedRange"),
    ("Reshape", "BoundedReshape"),
];

/// The descriptions of values, by name, with every range at its lower or upper end.
#[derive(Debug, Default)]
pub(in crate::resolve) struct RangeEnds {
    lower: BTreeMap<String, TensorDesc>,
    upper: BTreeMap<String, TensorDesc>,
    /// Why the graph does not resolve at one of the ends.
    misfit: Option<String>,
}

impl RangeEnds {
    /// Resolves a graph at both ends of its ranges, as far as possible; empty if it has no ranges.
    pub(in crate::resolve) fn new(compiler: &Compiler<'_>, graph: &Graph) -> Self {
        let options = compiler.bind();
        let inputs = Input::all(graph);
        let descs_at = |pick: fn((usize, usize)) -> usize| -> Result<_, ResolveError> {
            let shapes = Input::shapes_at(&inputs, options, pick)?;
            let bind = BindOptions { bind: options.bind.clone(), shapes, ..BindOptions::default() };
            let options = CompileOptions { bind, ..compiler.options.clone() };
            let resolved = resolve::run(&compiler.with(&options), graph.clone())?;
            let values = resolved.graph.0.values.into_iter();
            // Descriptions that only a run determines are absent or bounded.
            let is_known = |desc: TensorDesc| !desc.is_absent() && desc.full_shape().is_fixed();
            let known = values.filter(|value| is_known(value.desc));
            Ok(known.map(|value| (value.value.name, value.desc)).collect())
        };
        if options.ranges.is_empty() {
            return Self::default();
        }
        let (lower, upper) = (descs_at(|(lower, _)| lower), descs_at(|(_, upper)| upper));
        let conflict = |end: &str, result: &Result<_, ResolveError>| {
            let error = result.as_ref().err()?;
            Some(format!(
                "ranges conflict where all are at their {end}, so shapes computed from them are unknown: {error}"
            ))
        };
        let misfit = conflict("last", &upper).or_else(|| conflict("first", &lower));
        Self { lower: lower.unwrap_or_default(), upper: upper.unwrap_or_default(), misfit }
    }

    /// Returns a notice about the ranges, for models with a part that is planned during the run.
    pub(in crate::resolve) fn notice(self) -> Option<String> {
        self.misfit
    }

    /// Returns the operator that replaces `node` and reads its shape during the run. Returns `None` if `node` has no
    /// such operator, all its inputs are known, or the bounds are unknown.
    pub(in crate::resolve) fn in_run(&self, graph: &TypedGraph, node: &Node) -> Option<Node> {
        let (_, op) = IN_RUN.iter().find(|(op, _)| node.domain.is_empty() && node.op == *op)?;
        let is_known = |value: &_| graph.known(*value).is_some();
        if self.upper.is_empty() || node.inputs.iter().all(is_known) {
            return None;
        }
        let name = &graph.value(node.output(0)?).ok()?.value.name;
        let (lower, upper) = (self.lower.get(name)?, self.upper.get(name)?);
        let ints = |desc: &TensorDesc| {
            let dims: Option<Vec<i64>> =
                desc.shape().iter().map(|&n| i64::try_from(n).ok()).collect();
            dims.map(Attr::Ints)
        };
        let mut node = node.clone();
        (node.op, node.domain) = ((*op).to_owned(), "udo".to_owned());
        node.attrs.push(("least".to_owned(), ints(lower)?));
        node.attrs.push(("most".to_owned(), ints(upper)?));
        Some(node)
    }
}
