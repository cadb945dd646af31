//! Random models around the operator, compared with their parts run one by one.

mod gadgets;
mod make;
mod run;
mod shrink;

use udo_api::DType;
use udo_testing::How;

use super::{Finding, Outcome, differs, failed, skipped};
use crate::context::{Live, OpContext};
use crate::node::Input;
use crate::shapes::Class;
use crate::values::{Random, Seen};

use make::Stored;
use run::{Fault, Runner};

/// The number of graphs.
const GRAPHS: u64 = 32;

/// The most nodes in a graph's construction set.
const NODES: usize = 12;

/// Nodes with more elements are left to other cases.
const ELEMENTS: usize = 1 << 14;

/// Runs random graphs; a failing one is reduced to as few nodes as possible.
pub(super) fn neighbours(cx: &OpContext) -> Outcome {
    let live: Vec<Live<'_>> = cx.live().filter(is_for_graphs).take(NODES).collect();
    let mut runner = Runner::new(cx);
    let (mut usable, mut refusal, mut stored) = (Vec::new(), None, Stored::AsNumbers);
    for way in [Stored::AsNumbers, Stored::AsElements] {
        if !usable.is_empty() {
            break;
        }
        stored = way;
        for live in &live {
            match run_single_node(cx, live, way, &mut runner)? {
                None => usable.push(live),
                Some(why) => refusal = refusal.or(Some(why)),
            }
        }
    }
    if usable.is_empty() {
        return match refusal
            .map(|why| format!("no model runs a node that the kernel accepts: {why}"))
        {
            Some(why) if cx.is_builtin => skipped(why),
            Some(why) => Err(Finding::Warning(why)),
            None => skipped("no small node with fixed dimensions runs"),
        };
    }
    let mut held = 0;
    for turn in 0..GRAPHS {
        let mut random = Random::new(cx.seed.wrapping_mul(GRAPHS).wrapping_add(turn) ^ 0x6a);
        let Some(made) = make::random(cx, &usable, stored, &mut random) else { continue };
        runner.choose(&mut random);
        // Neighbouring operators may produce values that the kernel refuses.
        let known = match runner.one_by_one(&made) {
            Ok(known) => known,
            Err(Fault::Refused(why) | Fault::Failed(why)) => {
                refusal = Some(why);
                continue;
            }
        };
        held += 1;
        if let Some(wrong) = shrink::wrong(&mut runner, &made, &known) {
            cx.recorder.graph(wrong.part.files());
            return failed(format!(
                "graph {turn}, left with {} of {} nodes: {}",
                wrong.part.graph.nodes.len(),
                made.graph.nodes.len(),
                wrong.why
            ));
        }
    }
    match refusal {
        Some(why) if held == 0 => skipped(format!("no graph runs part by part: {why}")),
        _ => Ok(()),
    }
}

fn is_for_graphs(live: &Live<'_>) -> bool {
    let node = live.node;
    let descs = || node.inputs.iter().map(|input| &input.desc).chain(&node.outputs);
    let is_plain =
        |input: &Input| input.desc.full_shape().is_fixed() && input.desc.axis_encoding().is_none();
    !matches!(node.class, Class::Bounded | Class::Captured)
        && node.inputs.iter().all(is_plain)
        && descs().all(|desc| desc.len() <= ELEMENTS && desc.dtype() != Some(DType::Str))
}

/// Whether a model of the node gives the kernel's results; returns a reason if no model runs it.
fn run_single_node(
    cx: &OpContext,
    live: &Live<'_>,
    stored: Stored,
    runner: &mut Runner,
) -> Result<Option<String>, Finding> {
    let Some(made) = make::single_node(cx, live, stored) else {
        return Ok(Some("models do not support its tensor types".to_owned()));
    };
    let known = match runner.one_by_one(&made) {
        Ok(known) => known,
        Err(Fault::Refused(why)) => return Ok(Some(why)),
        Err(Fault::Failed(why)) => {
            return failed(format!("a model of {} fails: {why}", live.describe(cx)));
        }
    };
    let Ok(run) = live.trial.run(&live.values, How::default()) else {
        return Ok(None);
    };
    let outputs = live.node.outputs.iter().zip(&run.outputs).filter(|(desc, _)| !desc.is_absent());
    for ((desc, wanted), id) in outputs.zip(&made.graph.outputs) {
        let Some(found) = known.get(id) else { continue };
        // Instruction sets of processors may round differently.
        let desc = if stored == Stored::AsElements { found.desc() } else { desc };
        let found = Seen { desc: found.desc(), dims: found.dims(), bytes: found.bytes() };
        if let Some(why) = differs(found, Seen::new(wanted, desc)) {
            return failed(format!(
                "a model of {}: the output {why}, compared with the kernel",
                live.describe(cx)
            ));
        }
    }
    Ok(None)
}
