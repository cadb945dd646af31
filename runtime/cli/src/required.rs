//! `--require`: nodes that have to run on a core.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use udo_api::Core;
use udo_runtime::place::core_named;
use udo_runtime::plan::{NodeReport, Report};

use crate::output::{Failure, Outcome};

/// What stands for all nodes.
const ALL: &str = "*";

/// Nodes, by operator or name, and the core that they have to run on.
#[derive(Clone, Debug)]
pub(crate) struct Required {
    of: String,
    core: Core,
}

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.of, self.core)
    }
}

impl Required {
    /// `OP=CORE`, `NODE=CORE` or `*=CORE`; a node's name may have a `=` in it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wanted = || format!("wanted OP=CORE, NODE=CORE or {ALL}=CORE");
        let (of, core) =
            text.rsplit_once('=').filter(|(of, _)| !of.is_empty()).ok_or_else(wanted)?;
        Ok(Self { of: of.to_owned(), core: core_named(core)? })
    }

    /// Whether it speaks of the node.
    fn is_of(&self, node: &NodeReport) -> bool {
        self.of == ALL || self.of == node.op || self.of == node.name
    }

    /// Refuses a model of which a node that it speaks of runs on another kind of core, or none is there.
    fn check(&self, report: &Report) -> Outcome {
        let mut nodes = report.nodes.iter().filter(|node| self.is_of(node)).peekable();
        if nodes.peek().is_none() && self.of != ALL {
            let text =
                format!("--require {self}: no node has the operator or the name {:?}", self.of);
            return Err(Failure::new(text).help("`udo explain` lists the nodes as they run"));
        }
        let elsewhere: Vec<_> =
            nodes.filter(|node| runs(node) && node.core.kind() != self.core.kind()).collect();
        let Some(first) = elsewhere.first() else { return Ok(()) };
        let reason = first.refusals.iter().find(|refusal| refusal.core.kind() == self.core.kind());
        let reason = reason.map_or_else(
            || "that core was not asked for: see --cores".to_owned(),
            |refusal| format!("{}: {}", refusal.core, refusal.reason),
        );
        let others = match elsewhere.len() - 1 {
            0 => String::new(),
            n => format!(", and {n} more nodes run elsewhere"),
        };
        let text = format!(
            "--require {self}: node {:?} ({}) runs on {} ({reason}){others}",
            first.name, first.op, first.core
        );
        Err(Failure::new(text)
            .help("`udo explain` says of every node where it runs, and why not elsewhere"))
    }
}

/// Refuses a model of which a node runs elsewhere than is required; one that is planned when its shapes are met is looked at then.
pub(crate) fn check(required: &[Required], report: &Report) -> Outcome {
    let required = if report.nodes.is_empty() { &[] } else { required };
    required.iter().try_for_each(|required| required.check(report))
}

/// Whether something computes the node in a run.
fn runs(node: &NodeReport) -> bool {
    !node.is_folded && !node.is_view
}

/// How many nodes run on each core.
fn counts(report: &Report) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in report.nodes.iter().filter(|node| runs(node)) {
        *counts.entry(node.core.to_string()).or_default() += 1;
    }
    counts
}

/// The same, as a line.
pub(crate) fn placement(report: &Report) -> String {
    let of = |(core, count): (&String, &usize)| {
        format!("{count} {} on {core}", if *count == 1 { "node" } else { "nodes" })
    };
    counts(report).iter().map(of).collect::<Vec<_>>().join(", ")
}

/// The same, as JSON.
pub(crate) fn placement_to_json(report: &Report) -> Value {
    json!(counts(report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_the_sign_that_ends_it() {
        let required = Required::parse("a=b=gpu").unwrap();
        assert_eq!((required.of.as_str(), required.core), ("a=b", Core::GPU));
        for text in ["gpu", "=gpu", ""] {
            assert_eq!(Required::parse(text).unwrap_err(), "wanted OP=CORE, NODE=CORE or *=CORE");
        }
        assert!(Required::parse("Conv=npu").unwrap_err().starts_with("wanted cpu"));
    }
}
