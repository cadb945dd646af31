//! Optional inputs and parameters that change nothing: a kernel that forgot one passes every comparison in which it is not given.

use std::collections::BTreeSet;
use std::sync::Arc;

use udo_api::TensorDesc;
use udo_host::{Buffer, ParamSetting};

use super::{Finding, Outcome, encoded, known, not_applicable};
use crate::context::{Live, OpContext};
use crate::node::{Input, Node};
use crate::params;
use crate::trial::{How, Made, Trial};
use crate::values::Fill;

/// Elements that an input gets in the place of those that it has.
const FILLS: [Fill; 5] = [Fill::Random, Fill::Large, Fill::Negative, Fill::Small, Fill::Zero];

/// The most nodes that are tried; as soon as everything changed something, none is.
const MOST: usize = 40;

/// A node whose outputs take more is not tried with another parameter.
const LARGEST_BYTES: usize = 16 << 20;

/// What of an operator a node may give: an input by its place, or a parameter by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Input(usize),
    Param(usize),
}

/// Warns of each optional input and each parameter with which no node makes anything else than without, or with another one.
pub(super) fn changes_nothing(cx: &OpContext) -> Outcome {
    if cx.is_builtin {
        return not_applicable("nodes of built-in operators are made by their names");
    }
    known(cx)?;
    let schema = cx.subject.op.schema();
    let inputs = schema.inputs().iter().enumerate().filter(|(_, port)| port.is_optional());
    let inputs = inputs.map(|(at, _)| Part::Input(at));
    let params = (0..schema.params().len()).map(Part::Param);
    let mut open: BTreeSet<Part> = inputs.chain(params).collect();
    if open.is_empty() {
        return not_applicable("it has no optional input and no parameter");
    }
    let mut tried = BTreeSet::new();
    for live in cx.live().take(MOST) {
        let Ok(run) = live.trial.run(&live.values, How::default()) else { continue };
        for part in open.clone() {
            let effect = match part {
                Part::Input(port) => of_input(cx, &live, port, &run.outputs),
                Part::Param(at) => of_param(cx, &live, at, &run.outputs),
            };
            match effect {
                Effect::Untried => continue,
                Effect::Nothing => {}
                Effect::Something => _ = open.remove(&part),
            }
            tried.insert(part);
        }
    }
    let name = |part: &Part| match part {
        Part::Input(port) => schema.input(*port).map(|port| format!("input {:?}", port.name())),
        Part::Param(at) => {
            schema.params().get(*at).map(|param| format!("parameter {:?}", param.name()))
        }
    };
    let ignored: Vec<String> = open.intersection(&tried).filter_map(name).collect();
    if ignored.is_empty() {
        return Ok(());
    }
    let (verb, core) = (if ignored.len() == 1 { "changes" } else { "change" }, cx.subject.core);
    Err(Finding::Warning(format!(
        "{} {verb} nothing on {core}: results are the same without, and with other values",
        ignored.join(", ")
    )))
}

/// What came of another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// There is none that could be tried.
    Untried,
    /// The results are the same.
    Nothing,
    /// They are not, or the kernel refuses the elements, which it thus reads.
    Something,
}

impl Effect {
    /// What several of them come to.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Something, _) | (_, Self::Something) => Self::Something,
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::Untried, Self::Untried) => Self::Untried,
        }
    }
}

fn of_input(cx: &OpContext, live: &Live<'_>, port: usize, base: &[Made]) -> Effect {
    let Some(input) = live.node.inputs.get(port).filter(|input| !input.desc.is_absent()) else {
        return Effect::Untried;
    };
    let mut effect = Effect::Untried;
    let free = Node {
        inputs: live.node.inputs.iter().map(|of| Input { constant: None, ..of.clone() }).collect(),
        ..live.node.clone()
    };
    for (turn, fill) in (1u64..).zip(FILLS) {
        let other = free.values(fill, live.seed ^ turn << 24);
        let (Some(other), mut values) = (other.get(port).cloned(), live.values.clone()) else {
            continue;
        };
        if values.get(port).is_none_or(|own| *own == other) {
            continue;
        }
        let buffer = Buffer::of(&other).ok().map(Arc::new);
        if let Some(own) = values.get_mut(port) {
            *own = other;
        }
        let found = if input.constant.is_some() {
            let mut node = live.node.clone();
            let (Some(slot), Some(buffer)) = (node.inputs.get_mut(port), buffer) else { continue };
            slot.constant = Some(buffer);
            with(cx, live, &node, &values, base)
        } else {
            compared(&live.trial, &values, base)
        };
        effect = effect.and(found);
        if effect == Effect::Something {
            return effect;
        }
    }
    let mut node = live.node.clone();
    let Some(slot) = node.inputs.get_mut(port) else { return effect };
    *slot = Input { desc: TensorDesc::ABSENT, dims: Vec::new(), constant: None };
    let mut values = live.values.clone();
    if let (Some(own), Some(none)) = (values.get_mut(port), node.values(Fill::Zero, 0).get(port)) {
        own.clone_from(none);
    }
    effect.and(inferred(cx, live, node, &values, base))
}

fn of_param(cx: &OpContext, live: &Live<'_>, at: usize, base: &[Made]) -> Effect {
    let Some((_, own)) = live.node.params.get(at) else { return Effect::Untried };
    let variations = params::variations(cx.subject.op, &live.node.params);
    let oddities = params::oddities(cx.subject.op, &live.node.params);
    // Integers of any size may be extents; real numbers are not.
    let is_real = |params: &params::Params| {
        matches!(params.get(at), Some((_, ParamSetting::Float(_) | ParamSetting::Floats(_))))
    };
    let odd = oddities.into_iter().map(|(_, params)| params).filter(is_real);
    let of_others = cx.found().nodes.iter().map(|node| node.params.clone());
    let mut seen: Vec<ParamSetting> = vec![own.clone()];
    let mut effect = Effect::Untried;
    for params in variations.into_iter().chain(odd).chain(of_others) {
        let Some((_, setting)) = params.get(at) else { continue };
        if seen.contains(setting) {
            continue;
        }
        seen.push(setting.clone());
        let mut node = live.node.clone();
        let Some(slot) = node.params.get_mut(at) else { continue };
        slot.1 = setting.clone();
        effect = effect.and(inferred(cx, live, node, &live.values, base));
        if effect == Effect::Something {
            return effect;
        }
    }
    effect
}

/// Whether the node, whose outputs are yet to be inferred, makes something else than `base`.
fn inferred(
    cx: &OpContext,
    live: &Live<'_>,
    mut node: Node,
    values: &[Vec<u8>],
    base: &[Made],
) -> Effect {
    let Ok(outputs) = node.inferred(live.entry, cx.subject.core) else { return Effect::Untried };
    if outputs.iter().map(TensorDesc::size_bytes).sum::<usize>() > LARGEST_BYTES {
        return Effect::Untried;
    }
    let is_other = |(own, other): (&TensorDesc, &TensorDesc)| {
        own.full_shape() != other.full_shape() || own.dtype() != other.dtype()
    };
    if live.node.outputs.iter().zip(&outputs).any(is_other) {
        return Effect::Something;
    }
    node.outputs = encoded(&outputs, live.node);
    with(cx, live, &node, values, base)
}

/// Whether the node makes something else than `base`.
fn with(cx: &OpContext, live: &Live<'_>, node: &Node, values: &[Vec<u8>], base: &[Made]) -> Effect {
    match Trial::new(node, live.entry, cx.subject.core, 1) {
        Ok(trial) => compared(&trial, values, base),
        // A kernel may refuse what others take.
        Err(_) => Effect::Untried,
    }
}

fn compared(trial: &Trial<'_>, values: &[Vec<u8>], base: &[Made]) -> Effect {
    match trial.run(values, How::default()) {
        Ok(run) if run.outputs == base => Effect::Nothing,
        Ok(_) => Effect::Something,
        // A kernel that refuses the elements has read them.
        Err(fault) if fault.is_of_value() => Effect::Something,
        Err(_) => Effect::Untried,
    }
}
