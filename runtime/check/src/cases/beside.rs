//! A second copy of the package in the same process, which the system loads as separate libraries.

use udo_engine::package::inspect;
use udo_testing::{How, Output};

use super::binary::copied;
use super::{Outcome, failed, not_applicable, skipped};
use crate::context::{Live, OpContext};
use crate::node::Node;
use crate::subject::{Opened, Place, full_name};

/// The most nodes to run.
const NODES: usize = 6;

pub(super) fn second_copy(cx: &OpContext) -> Outcome {
    let Place::At(path) = &cx.place else {
        return not_applicable("built-in operators are not a library");
    };
    let of = |live: &Live<'_>| live.trial.run(&live.values, How::default()).ok();
    let alone: Vec<Option<Vec<Output>>> =
        cx.live().take(NODES).map(|live| of(&live).map(|run| run.outputs)).collect();
    let found = match inspect(path) {
        Ok(found) => found,
        Err(error) => return failed(error.to_string()),
    };
    let folder = std::env::temp_dir().join(format!("udo check beside {}", std::process::id()));
    let opened = copied(&found.folder, &found.libraries, &folder)
        .and_then(|first| Opened::open(&Place::At(first)).map_err(|error| error.to_string()));
    let outcome = match opened {
        Ok(other) => compared(cx, other, &alone),
        Err(why) => failed(format!("a second copy of the package does not open: {why}")),
    };
    // Leftovers in the temporary folder are harmless.
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

/// Runs each node alternately in both copies, and compares with the results of the package on its own.
fn compared(cx: &OpContext, mut other: Opened, alone: &[Option<Vec<Output>>]) -> Outcome {
    let name = full_name(cx.subject.op);
    let subject = match other.subject(&name, cx.subject.core) {
        Ok(Some(subject)) => subject,
        Ok(None) => return failed(format!("a second copy of the package has no operator {name}")),
        Err(error) => {
            return failed(format!("a second copy of the package does not open: {error}"));
        }
    };
    let mut nodes = 0;
    for (live, wanted) in cx.live().take(NODES).zip(alone) {
        let Some(wanted) = wanted else { continue };
        let node = Node::clone(live.node);
        let Some(entry) = subject.kernels.get(node.kernel) else { continue };
        let twin = match cx.trial_by(&node, entry, 1) {
            Ok(twin) => twin,
            Err(refusal) => {
                let said = live.describe(cx);
                return failed(format!("a second copy of the package refuses {said}: {refusal}"));
            }
        };
        nodes += 1;
        for turn in 0..2 {
            let runs = [("its copy", &twin), ("the package", &live.trial)];
            for (who, trial) in runs {
                let run = trial.run(&live.values, How::default());
                if !run.is_ok_and(|run| run.outputs == *wanted) {
                    return failed(format!(
                        "with a second copy of the package open, results of {who} differ (round {turn}): {}",
                        live.describe(cx)
                    ));
                }
            }
        }
    }
    if nodes == 0 { skipped("no node runs") } else { Ok(()) }
}
