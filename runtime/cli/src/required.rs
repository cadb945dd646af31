//! `--require`: nodes that have to run on a core.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use udo_api::{Core, CoreKind};
use udo_compile::place::core_named;
use udo_graph::graph::Selector;
use udo_runtime::Report;
use udo_runtime::compile::NodeReport;

use crate::output::{Failure, Outcome};

/// The name of the HTA and the DSP as one runtime.
const AIP: &str = "aip";

/// Nodes, and the core that they have to run on.
#[derive(Clone, Debug)]
pub(crate) struct Required {
    of: Selector,
    /// As the user says it.
    core: String,
    kinds: Vec<CoreKind>,
}

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.of, self.core)
    }
}

impl Required {
    /// `OP=CORE`, `NODE=CORE`, `0-11,177=CORE` or `*=CORE`; a node's name may have a `=` in it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wanted = || "expected OP=CORE, NODE=CORE, 0-11,177=CORE or *=CORE".to_owned();
        let (of, core) =
            text.rsplit_once('=').filter(|(of, _)| !of.is_empty()).ok_or_else(wanted)?;
        let of = of.parse().map_err(|error| format!("{error}"))?;
        let kinds = match core {
            AIP => vec![CoreKind::Hta, CoreKind::Dsp],
            core => core_named(core)?.kind().into_iter().collect(),
        };
        Ok(Self { of, core: core.to_owned(), kinds })
    }

    /// Whether it speaks of the node.
    fn is_of(&self, node: &NodeReport) -> bool {
        self.of.is_of(node.ids.ids(), &node.name, &node.op)
    }

    fn is_there(&self, core: Core) -> bool {
        core.kind().is_some_and(|kind| self.kinds.contains(&kind))
    }

    /// Refuses a model of which a node that it speaks of runs on another kind of core, or none is there.
    fn check(&self, report: &Report) -> Outcome {
        let mut nodes = report.nodes.iter().filter(|node| self.is_of(node)).peekable();
        if nodes.peek().is_none() && self.of != Selector::All {
            let text = format!(
                "--require {self}: no node has the operator or the name {:?}",
                self.of.to_string()
            );
            return Err(Failure::new(text).help("`udo explain` lists the nodes as they run"));
        }
        let elsewhere: Vec<_> =
            nodes.filter(|node| runs(node) && !self.is_there(node.core)).collect();
        let Some(first) = elsewhere.first() else { return Ok(()) };
        let reason = first.refusals.iter().find(|refusal| self.is_there(refusal.core));
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
    let counts: Vec<String> = counts(report).iter().map(of).collect();
    if counts.is_empty() {
        return "no nodes: all are constant-folded or elided".to_owned();
    }
    counts.join(", ")
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
        assert_eq!(
            (required.to_string().as_str(), required.kinds),
            ("a=b=gpu", vec![CoreKind::Gpu])
        );
        for text in ["gpu", "=gpu", ""] {
            assert_eq!(
                Required::parse(text).unwrap_err(),
                "expected OP=CORE, NODE=CORE, 0-11,177=CORE or *=CORE"
            );
        }
        assert!(Required::parse("Conv=npu").unwrap_err().starts_with("expected cpu"));
    }
}
