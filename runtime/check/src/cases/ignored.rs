//! Optional inputs and parameters without an effect. A kernel that ignores one passes every comparison that does not
//! set it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use udo_api::TensorDesc;
use udo_host::{Buffer, ParamSetting};
use udo_testing::{How, Output};

use super::{Finding, Outcome, encoded, known, not_applicable};
use crate::context::{Live, OpContext};
use crate::goals::features;
use crate::node::{Input, Node};
use crate::params::{self, Params};
use crate::trial::Trial;
use crate::values::Fill;

/// Replacement contents of an input.
const FILLS: [Fill; 5] = [Fill::Random, Fill::Large, Fill::Negative, Fill::Small, Fill::Zero];

/// The most nodes to try each part in; the first effect ends the trials.
const MOST: usize = 40;

/// The most nodes and the most parameter settings to combine if no unchanged node shows an effect.
const MOST_TOGETHER: (usize, usize) = (6, 24);

/// Nodes with larger outputs do not get other parameters.
const LARGEST_BYTES: usize = 16 << 20;

/// An optional feature of a node: an input or a parameter, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Input(usize),
    Param(usize),
}

impl Part {
    /// Whether the node has the part.
    fn is_in(self, node: &Node) -> bool {
        match self {
            Self::Input(port) => node.inputs.get(port).is_some_and(|input| !input.desc.is_absent()),
            Self::Param(at) => node.params.get(at).is_some(),
        }
    }
}

/// Warns of each optional input and each parameter that never affects a result.
pub(super) fn changes_nothing(cx: &OpContext) -> Outcome {
    if cx.is_builtin {
        return not_applicable("nodes of built-in operators are written by hand");
    }
    let nodes = known(cx)?;
    let schema = cx.subject.op.schema();
    let inputs = schema.inputs().iter().enumerate().filter(|(_, port)| port.is_optional());
    let inputs = inputs.map(|(at, _)| Part::Input(at));
    let params = (0..schema.params().len()).map(Part::Param);
    let mut parts = Parts { open: inputs.chain(params).collect(), tried: BTreeMap::new() };
    if parts.open.is_empty() {
        return not_applicable("the operator has neither optional inputs nor parameters");
    }
    let order = by_turns(nodes);
    for (at, node) in order.iter().filter_map(|&at| Some((at, nodes.get(at)?))) {
        let wanted = parts.open_parts(node);
        if !wanted.is_empty() {
            parts.try_in(cx, at, node, &wanted);
        }
    }
    // An input may matter only in one mode, or a parameter only together with another. Combine the settings of two
    // nodes.
    let settings = settings(nodes);
    for part in parts.open.clone() {
        let own = order.iter().filter_map(|&at| Some((at, nodes.get(at)?)));
        let own = own.filter(|(_, node)| part.is_in(node)).take(MOST_TOGETHER.0);
        for ((at, node), params) in own.flat_map(|own| settings.iter().map(move |of| (own, of))) {
            let together = Node { params: params.clone(), ..node.clone() };
            if parts.open.contains(&part)
                && let Some(together) = inferred_again(cx, together, node)
            {
                parts.try_in(cx, at, &together, &[part]);
            }
        }
    }
    let name = |part: &Part| match part {
        Part::Input(port) => schema.input(*port).map(|port| format!("input {:?}", port.name())),
        Part::Param(at) => {
            schema.params().get(*at).map(|param| format!("parameter {:?}", param.name()))
        }
    };
    let ignored = parts.open.iter().filter(|part| parts.tried.contains_key(part));
    let ignored: Vec<String> = ignored.filter_map(name).collect();
    if ignored.is_empty() {
        return Ok(());
    }
    let (verb, core) = (if ignored.len() == 1 { "changes" } else { "change" }, cx.subject.core);
    Err(Finding::Warning(format!(
        "{} {verb} nothing on {core}: results are the same without it and with other values",
        ignored.join(", ")
    )))
}

/// The parts under test.
struct Parts {
    /// Parts that have not had an effect yet.
    open: BTreeSet<Part>,
    /// The number of nodes that each part was tried in.
    tried: BTreeMap<Part, usize>,
}

impl Parts {
    /// Returns the parts of the node that still need a trial.
    fn open_parts(&self, node: &Node) -> Vec<Part> {
        let is_wanted = |part: &&Part| {
            part.is_in(node) && self.tried.get(part).is_none_or(|&count| count < MOST)
        };
        self.open.iter().filter(is_wanted).copied().collect()
    }

    /// Tries these parts of a node.
    fn try_in(&mut self, cx: &OpContext, at: usize, node: &Node, wanted: &[Part]) {
        let Some(live) = cx.live_of(at, node) else { return };
        let Ok(run) = live.trial.run(&live.values, How::default()) else { return };
        // Empty outputs cannot show an effect.
        if run.outputs.iter().all(|output| output.bytes.is_empty()) {
            return;
        }
        for &part in wanted {
            let effect = match part {
                Part::Input(port) => of_input(cx, &live, port, &run.outputs),
                Part::Param(at) => of_param(cx, &live, at, &run.outputs),
            };
            match effect {
                Effect::Untried => continue,
                Effect::Nothing => {}
                Effect::Something => _ = self.open.remove(&part),
            }
            *self.tried.entry(part).or_default() += 1;
        }
    }
}

/// Orders the nodes so that nodes differing only in dimensions are spread out.
fn by_turns(nodes: &[Node]) -> Vec<usize> {
    let mut counts: Vec<(usize, &Node)> = Vec::new();
    let mut order = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let is_alike =
            |other: &Node| other.kernel == node.kernel && features(other) == features(node);
        if let Some((count, _)) = counts.iter_mut().find(|(_, other)| is_alike(other)) {
            *count += 1;
            order.push((*count, at));
        } else {
            counts.push((0, node));
            order.push((0, at));
        }
    }
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

/// Returns the distinct parameter settings of the nodes, last first: those differ most from the defaults.
fn settings(nodes: &[Node]) -> Vec<Params> {
    let mut settings: Vec<Params> = Vec::new();
    for node in nodes.iter().rev() {
        if settings.len() < MOST_TOGETHER.1 && !settings.contains(&node.params) {
            settings.push(node.params.clone());
        }
    }
    settings
}

/// The effect of a changed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// No other value could be tried.
    Untried,
    /// The results are the same.
    Nothing,
    /// The results differ, or the kernel refuses the new elements and so reads them.
    Something,
}

impl Effect {
    /// Combines two effects.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Something, _) | (_, Self::Something) => Self::Something,
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::Untried, Self::Untried) => Self::Untried,
        }
    }
}

fn of_input(cx: &OpContext, live: &Live<'_>, port: usize, base: &[Output]) -> Effect {
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
        let buffer = Buffer::from_bytes(&other).ok().map(Arc::new);
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

fn of_param(cx: &OpContext, live: &Live<'_>, at: usize, base: &[Output]) -> Effect {
    let Some((_, own)) = live.node.params.get(at) else { return Effect::Untried };
    let variations = params::variations(cx.subject.op, &live.node.params);
    let oddities = params::oddities(cx.subject.op, &live.node.params);
    // Arbitrary integers may be dimensions; floats are not.
    let is_real = |params: &params::Params| {
        matches!(params.get(at), Some((_, ParamSetting::Float(_) | ParamSetting::Floats(_))))
    };
    let odd = oddities.into_iter().map(|(_, params)| params).filter(is_real);
    let of_others = cx.search_result().nodes.iter().map(|node| node.params.clone());
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

/// Infers the outputs of a changed copy of `like`; `None` if it is refused or too large.
fn inferred_again(cx: &OpContext, mut node: Node, like: &Node) -> Option<Node> {
    let outputs = node.inferred(cx.kernel(like)?, cx.subject.core).ok()?;
    if outputs.iter().map(TensorDesc::size_bytes).sum::<usize>() > LARGEST_BYTES {
        return None;
    }
    node.outputs = encoded(&outputs, like);
    Some(node)
}

/// Compares the results of the node, after inference, with `base`.
fn inferred(
    cx: &OpContext,
    live: &Live<'_>,
    node: Node,
    values: &[Vec<u8>],
    base: &[Output],
) -> Effect {
    let Some(node) = inferred_again(cx, node, live.node) else { return Effect::Untried };
    let is_other = |(own, other): (&TensorDesc, &TensorDesc)| {
        own.full_shape() != other.full_shape() || own.dtype() != other.dtype()
    };
    if live.node.outputs.iter().zip(&node.outputs).any(is_other) {
        return Effect::Something;
    }
    with(cx, live, &node, values, base)
}

/// Compares the results of the node with `base`.
fn with(
    cx: &OpContext,
    live: &Live<'_>,
    node: &Node,
    values: &[Vec<u8>],
    base: &[Output],
) -> Effect {
    match cx.trial_by(node, live.entry, 1) {
        Ok(trial) => compared(&trial, values, base),
        // A kernel may refuse settings that others accept.
        Err(_) => Effect::Untried,
    }
}

fn compared(trial: &Trial<'_>, values: &[Vec<u8>], base: &[Output]) -> Effect {
    match trial.run(values, How::default()) {
        Ok(run) if run.outputs == base => Effect::Nothing,
        Ok(_) => Effect::Something,
        // A kernel that refuses the elements has read them.
        Err(fault) if fault.is_bad_value() => Effect::Something,
        Err(_) => Effect::Untried,
    }
}
