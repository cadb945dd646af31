//! `--allow-unchecked`: what a command was asked to check and cannot check on this machine.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::{Value, json};
use udo_runtime::Report;
use udo_runtime::compile::NodeReport;

use crate::output::{Failure, Outcome, note};

/// How a command ends where it could not check something that it was asked to check.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct AllowUnchecked {
    /// Succeed even if something could not be checked here
    ///
    /// Some checks need a tool that may be missing. Checking OpenCL C, for example, needs an OpenCL
    /// device or clang. By default the command names what it could not check, and fails. With this
    /// flag it names it and succeeds. `udo doctor` lists the tools.
    #[arg(long)]
    allow_unchecked: bool,
}

impl AllowUnchecked {
    /// Whether a command may succeed that could not check these.
    pub(crate) fn accepts<T>(self, unchecked: &[T]) -> bool {
        self.allow_unchecked || unchecked.is_empty()
    }
}

/// Names each thing that was not checked, and fails unless the flag allows it.
pub(crate) fn verdict(unchecked: &[String], allow: AllowUnchecked) -> Outcome {
    for what in unchecked {
        note(format!("not checked: {what}"));
    }
    if allow.accepts(unchecked) {
        return Ok(());
    }
    let count = match unchecked.len() {
        1 => "one thing".to_owned(),
        count => format!("{count} things"),
    };
    Err(Failure::new(format!("{count} could not be checked here"))
        .help("`udo doctor` lists what is missing and how to get it; --allow-unchecked accepts it"))
}

/// A node whose kernel has OpenCL C that did not run: its work items did, which are other code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unrun {
    node: String,
    op: String,
    package: String,
    why: String,
}

/// The name of the package that has the built-in operators, whose OpenCL C has tests of its own.
const BUILTIN: &str = "builtin";

/// The nodes of packages in these reports whose OpenCL C did not run, each once.
pub(crate) fn unrun<'a>(reports: impl Iterator<Item = &'a Report>) -> Vec<Unrun> {
    let of = |node: &NodeReport| {
        let why = node.opencl_unused.clone().filter(|_| node.package != BUILTIN)?;
        let NodeReport { name, op, package, .. } = node.clone();
        Some(Unrun { node: name, op, package, why })
    };
    let nodes: BTreeSet<Unrun> = reports.flat_map(|report| &report.nodes).filter_map(of).collect();
    nodes.into_iter().collect()
}

/// These in words.
pub(crate) fn lines(unrun: &[Unrun]) -> Vec<String> {
    let of = |Unrun { node, op, package, why }: &Unrun| {
        format!(
            "the OpenCL C of node {node:?} ({op} of package {package}) did not run, only its emulated work items: {why}"
        )
    };
    unrun.iter().map(of).collect()
}

impl Unrun {
    pub(crate) fn to_json(&self) -> Value {
        let Self { node, op, package, why } = self;
        json!({ "what": "OpenCL C", "node": node, "op": op, "package": package, "why": why })
    }
}
