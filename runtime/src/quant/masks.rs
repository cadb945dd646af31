//! Detects elements that are only masks.
//!
//! A mask adds -10000, the smallest number of a type or -inf to scores, or replaces them by it, so that a softmax
//! returns 0 there or a maximum selects another element. The exact value of a mask does not affect results, so ranges
//! ignore it. It is stored as the end of a range that is wide enough for its consumers: [`find`] determines which nodes
//! return the same for all masks, and [`Levels::compute`] determines, once ranges are known, how far from 0 a mask must be.

use std::collections::HashMap;

use udo_api::resolve_axis;

use super::operators::{
    FINDS_LARGEST, FINDS_LEAST, LARGEST_OF_ALL, LARGEST_OF_ONE, LEAST_OF_ALL, LEAST_OF_ONE,
    NumberAttrs, is_float, moves_elements,
};
use super::range::Range;
use super::tail::{End, Tail};
use udo_compile::resolve::{BoundNode, TypedGraph};
use udo_graph::graph::{Graph, Node, NodeReads, PerValue, Read, ValueId};

/// Whether elements far from 0 at either end of a value are only masks, as far as its consumers tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MaskEnds {
    pub(super) low: bool,
    pub(super) high: bool,
}

impl MaskEnds {
    pub(super) fn has(self, end: End) -> bool {
        match end {
            End::Low => self.low,
            End::High => self.high,
        }
    }
}

/// The effect of masks in one input of a node.
#[derive(Clone, Debug)]
enum Effect {
    /// The same as of this number.
    Level(f64),
    /// This number, in this value, which may be a mask as well.
    Clipped(f64, ValueId),
    /// None, as long as they are farther from 0 than all others.
    Unchosen,
    /// None if there are other elements: the selected ones tell.
    Chooses(ValueId),
    /// None for this number of softmax elements, if they are far enough from all others.
    Share(f64),
    /// An exponential that is 0 compared with the largest one.
    Vanishes,
    /// The masks, in these values.
    Moved(Vec<ValueId>),
    /// Sums that are masks as well, at the other end if the input is subtracted, with the other summands.
    Summed { sum: ValueId, is_subtracted: bool, others: Vec<(ValueId, bool)> },
    /// Products with constants in a range of one sign.
    Scaled { product: ValueId, by: Range },
}

/// An input of a node whose masks at one end have only this effect.
#[derive(Clone, Debug)]
struct Edge {
    value: ValueId,
    end: End,
    effect: Effect,
}

/// The effects of masks in a graph.
#[derive(Clone, Debug)]
pub(super) struct Masks {
    /// For each value, the ends at which masks may be.
    ends: PerValue<MaskEnds>,
    /// The inputs of nodes that read them, last node first.
    edges: Vec<Edge>,
    /// The constants among them, and those that are added to them.
    constants: HashMap<ValueId, Constant>,
    /// The values whose ranges tell whether a maximum selected a mask.
    chosen: Vec<ValueId>,
}

#[derive(Clone, Debug)]
struct Constant {
    range: Range,
    tails: [Option<Range>; 2],
}

/// Analyzes the consumers of each value of a graph. `bound` has the nodes by first output.
pub(super) fn find(
    graph: &Graph,
    typed: &TypedGraph,
    bound: &HashMap<ValueId, &BoundNode>,
    is_builtin: impl Fn(&BoundNode) -> bool,
) -> Masks {
    let mut masks = Masks {
        ends: PerValue::filled(graph, MaskEnds::default()),
        edges: Vec::new(),
        constants: HashMap::new(),
        chosen: Vec::new(),
    };
    let is_float = |id: ValueId| is_float(typed, Some(id));
    for id in graph.value_ids().filter(|id| is_float(*id) && !graph.outputs.contains(id)) {
        masks.ends.set(id, MaskEnds { low: true, high: true });
    }
    for node in graph.nodes.iter().rev() {
        let of = node.output(0).and_then(|id| bound.get(&id)).filter(|of| is_builtin(of));
        for (read, value) in node.reads() {
            for end in End::BOTH {
                let effect = of.and_then(|of| match read {
                    Read::Input(port) => Reader { node, of, typed }.effect(port, end),
                    Read::Capture => None,
                });
                masks.add(value, end, effect);
            }
        }
    }
    masks.edges.retain(|edge| masks.ends.get(edge.value).is_some_and(|ends| ends.has(edge.end)));
    let mut chosen = Vec::new();
    let mut read = Vec::new();
    for edge in &masks.edges {
        read.push(edge.value);
        match &edge.effect {
            Effect::Chooses(output) => chosen.push(*output),
            Effect::Summed { others, .. } => read.extend(others.iter().map(|(id, _)| *id)),
            _ => {}
        }
    }
    for id in read {
        let numbers = typed.known(Some(id)).and_then(|tensor| tensor.get::<f32>());
        if let Some(numbers) = numbers {
            masks.constants.entry(id).or_insert_with(|| Constant {
                range: Range::from_numbers(numbers),
                tails: End::BOTH.map(|end| Tail::from_numbers(end, numbers).rest()),
            });
        }
    }
    chosen.retain(|id| is_float(*id));
    masks.chosen = chosen;
    masks
}

impl Masks {
    /// Records the effect of a node on a value; `None` if it computes with all elements.
    fn add(&mut self, value: ValueId, end: End, effect: Option<Effect>) {
        let has = |ends: Option<&MaskEnds>, end: End| ends.is_some_and(|ends| ends.has(end));
        // The targets have been analyzed before, because their consumers come later.
        let effect = effect.filter(|effect| match effect {
            Effect::Moved(to) => to.iter().all(|&to| has(self.ends.get(to), end)),
            Effect::Summed { sum, is_subtracted, .. } => {
                has(self.ends.get(*sum), if *is_subtracted { end.flipped() } else { end })
            }
            Effect::Scaled { product, by } => {
                has(self.ends.get(*product), if by.max < 0.0 { end.flipped() } else { end })
            }
            Effect::Level(_)
            | Effect::Clipped(..)
            | Effect::Unchosen
            | Effect::Chooses(_)
            | Effect::Share(_)
            | Effect::Vanishes => true,
        });
        if let Some(effect) = effect {
            self.edges.push(Edge { value, end, effect });
        } else if let Some(ends) = self.ends.get_mut(value) {
            match end {
                End::Low => ends.low = false,
                End::High => ends.high = false,
            }
        }
    }

    /// Returns the ends of a value at which masks may be.
    pub(super) fn ends(&self, value: ValueId) -> MaskEnds {
        self.ends.get(value).copied().unwrap_or_default()
    }

    /// Returns the values besides quantized ones whose ranges must be recorded.
    pub(super) fn chosen(&self) -> &[ValueId] {
        &self.chosen
    }
}

/// A node that reads a value.
struct Reader<'a> {
    /// The node of the graph.
    node: &'a Node,
    /// The node in the newest operator set.
    of: &'a BoundNode,
    typed: &'a TypedGraph,
}

/// Float operators that also move elements of their first input, or replace some by 0.
const MOVES_FLOATS: &[&str] = &["Cast", "Dropout", "Trilu"];

/// The number from which on a function is constant, given the logarithm of the required resolution.
type FlatFrom = fn(f64) -> f64;

/// Functions that are constant below a number, which depends on the logarithm `ln` of the number of steps.
const FLAT_BELOW: &[(&str, FlatFrom)] = &[
    ("Celu", |ln| -ln),
    ("Elu", |ln| -ln),
    ("Gelu", |ln| -ln),
    ("HardSwish", |_| -3.0),
    ("Mish", |ln| -ln - 4.0),
    ("Relu", |_| 0.0),
    ("Selu", |ln| -ln),
    ("Sigmoid", |ln| -ln),
    ("Softplus", |ln| -ln),
    ("Tanh", |ln| -ln),
];

/// Functions that are constant above a number.
const FLAT_ABOVE: &[(&str, FlatFrom)] = &[("Sigmoid", |ln| ln), ("Tanh", |ln| ln)];

/// The first operator set in which softmax normalizes over one axis.
const ONE_AXIS: u32 = 13;

/// The logarithm of twice the number of 16-bit steps, which also suffices for 8 bits.
const LN_STEPS: f64 = 11.8;

impl Reader<'_> {
    fn output(&self) -> Option<ValueId> {
        self.node.output(0)
    }

    /// Returns the elements of a constant input.
    fn numbers(&self, port: usize) -> Option<&[f32]> {
        self.typed.known(self.of.node.input(port))?.get::<f32>()
    }

    fn one(&self, port: usize) -> Option<f64> {
        match self.numbers(port)? {
            [one] => Some(f64::from(*one)),
            _ => None,
        }
    }

    /// Returns the number of elements that a softmax or sum of exponentials combines.
    #[expect(clippy::cast_precision_loss, reason = "its logarithm is taken")]
    fn lane(&self) -> f64 {
        let desc = self.typed.desc(self.node.input(0));
        let default = if self.node.opset < ONE_AXIS { 1 } else { -1 };
        let axis = resolve_axis(self.node.int_attr("axis").unwrap_or(default), desc.rank());
        // Before operator set 13 it combines all axes from this one on.
        let lane = axis.map_or(1, |axis| desc.shape().iter().skip(axis).product::<usize>());
        lane.max(1) as f64
    }

    /// Returns the effect of masks at one end of an input; `None` if the node computes with them.
    fn effect(&self, port: usize, end: End) -> Option<Effect> {
        let op = self.node.op.as_str();
        // An older softmax may be several nodes in the newest operator set.
        let is_same = self.of.node.op == self.node.op || op == "Softmax";
        if !self.node.domain.is_empty() || !is_same {
            return None;
        }
        let is_first = port == 0;
        match op {
            _ if is_first && (moves_elements(op) || MOVES_FLOATS.contains(&op)) => self.moved(),
            "Concat" => self.moved(),
            "Where" if port > 0 => self.moved(),
            "Pad" if port == 0 || port == 2 => self.moved(),
            "ScatterElements" | "ScatterND" if port != 1 => self.moved(),
            "TopK"
                if is_first
                    && (self.of.node.int_attr("largest") != Some(0)) == (end == End::Low) =>
            {
                Some(Effect::Chooses(self.output()?))
            }
            FINDS_LARGEST if end == End::Low => Some(Effect::Unchosen),
            FINDS_LEAST if end == End::High => Some(Effect::Unchosen),
            LARGEST_OF_ALL => self.extreme(End::High, end),
            LEAST_OF_ALL => self.extreme(End::Low, end),
            _ if LARGEST_OF_ONE.contains(&op) => self.extreme(End::High, end),
            _ if LEAST_OF_ONE.contains(&op) => self.extreme(End::Low, end),
            "ReduceLogSumExp" | "Softmax" if end == End::Low => Some(Effect::Share(self.lane())),
            "Exp" if end == End::Low => Some(Effect::Vanishes),
            "Clip" if is_first => {
                let bound = self.one(if end == End::Low { 1 } else { 2 })?;
                Some(Effect::Clipped(bound, self.output()?))
            }
            "HardSigmoid" => {
                let float = |name, default| self.of.node.float_attr(name).unwrap_or(default);
                let (alpha, beta) = (float("alpha", 0.2), float("beta", 0.5));
                let level = if end == End::Low { -beta / alpha } else { (1.0 - beta) / alpha };
                (alpha > 0.0).then_some(Effect::Level(level))
            }
            "Add" | "Sum" => self.summed(port, |_| false),
            "Sub" => self.summed(port, |port| port == 1),
            "Neg" => {
                let by = Range { min: -1.0, max: -1.0 };
                Some(Effect::Scaled { product: self.output()?, by })
            }
            "Mul" => self.scaled(1 - port.min(1), |factor| factor),
            "Div" if is_first => self.scaled(1, f64::recip),
            _ => {
                let flat = if end == End::Low { FLAT_BELOW } else { FLAT_ABOVE };
                let (_, from) = flat.iter().find(|(flat, _)| *flat == op)?;
                Some(Effect::Level(from(LN_STEPS)))
            }
        }
    }

    fn moved(&self) -> Option<Effect> {
        let outputs: Vec<ValueId> = self.node.outputs.iter().flatten().copied().collect();
        // A second output of these operators is bool or positions.
        let floats = outputs.into_iter().filter(|id| is_float(self.typed, Some(*id)));
        let floats: Vec<ValueId> = floats.collect();
        (!floats.is_empty()).then_some(Effect::Moved(floats))
    }

    /// An element at the end from which an extreme is selected is returned unchanged.
    fn extreme(&self, chosen: End, end: End) -> Option<Effect> {
        if chosen == end { self.moved() } else { Some(Effect::Chooses(self.output()?)) }
    }

    fn summed(&self, port: usize, is_subtracted: impl Fn(usize) -> bool) -> Option<Effect> {
        let inputs = self.node.inputs.iter().enumerate();
        let others = inputs.filter(|(other, _)| *other != port);
        let others = others.filter_map(|(other, id)| Some(((*id)?, is_subtracted(other))));
        let others: Vec<(ValueId, bool)> = others.collect();
        // A value that is added to itself cannot mask itself.
        let own = self.node.input(port)?;
        let is_apart = others.iter().all(|(other, _)| *other != own);
        let (sum, is_subtracted) = (self.output()?, is_subtracted(port));
        is_apart.then_some(Effect::Summed { sum, is_subtracted, others })
    }

    /// Returns the effect of a product with the constant at `port`; `factor` maps its elements to factors.
    fn scaled(&self, port: usize, factor: impl Fn(f64) -> f64) -> Option<Effect> {
        let factors = self.numbers(port)?.iter().map(|&number| factor(f64::from(number)));
        let by = factors
            .fold(Range::EMPTY, |range, factor| range.with(Range { min: factor, max: factor }));
        let is_of_one_sign = by.is_finite() && (by.min > 0.0 || by.max < 0.0);
        is_of_one_sign.then_some(Effect::Scaled { product: self.output()?, by })
    }
}

/// How far from 0 masks must be stored.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    /// For each value and end: infinite if nothing reads it, `None` if its elements must be exact.
    of: PerValue<[Option<f64>; 2]>,
    /// The ranges of constants without masks.
    constants: HashMap<ValueId, Range>,
}

/// The observed ranges of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// All elements.
    pub(super) range: Range,
    /// The elements that are not masks, for each end at which there are masks.
    pub(super) rest: [Option<Range>; 2],
}

impl Seen {
    /// Returns the range of the elements that are not masks.
    pub(super) fn unmasked(&self) -> Range {
        let [low, high] = self.rest;
        let min = low.map_or(self.range.min, |rest| rest.min);
        Range { min, max: high.map_or(self.range.max, |rest| rest.max) }
    }
}

impl Levels {
    /// Computes the levels, given the observed ranges and the number of steps of a softmax's result.
    pub(super) fn compute(
        graph: &Graph,
        masks: &Masks,
        seen: impl Fn(ValueId) -> Option<Seen>,
        steps: f64,
    ) -> Self {
        let none = [Some(f64::INFINITY), Some(f64::NEG_INFINITY)];
        let mut levels = Self { of: PerValue::filled(graph, none), constants: HashMap::new() };
        for (id, slot) in masks.ends.iter() {
            let [low, high] = none;
            let of = [low.filter(|_| slot.low), high.filter(|_| slot.high)];
            levels.of.set(id, of);
        }
        let seen = |id: ValueId| {
            let constant = masks.constants.get(&id);
            let constant = constant.map(|of| Seen { range: of.range, rest: of.tails });
            constant.or_else(|| seen(id))
        };
        for Edge { value, end, effect } in &masks.edges {
            let known = levels.level(*value, *end);
            let asked = levels.asked(&seen, steps, (*value, *end), effect);
            let level = known.zip(asked).map(|(known, asked)| end.farther(known, asked));
            if let Some(of) = levels.of.get_mut(*value) {
                of[slot(*end)] = level;
            }
        }
        for (id, constant) in &masks.constants {
            let of = Seen { range: constant.range, rest: constant.tails };
            let range = levels.range(*id, &of).or_else(|| levels.all_masks(*id, constant.range));
            levels.constants.extend(range.map(|range| (*id, range)));
        }
        levels
    }

    fn level(&self, value: ValueId, end: End) -> Option<f64> {
        self.of.get(value).and_then(|of| of[slot(end)])
    }

    /// Returns the level that a node requires.
    fn asked(
        &self,
        seen: &impl Fn(ValueId) -> Option<Seen>,
        steps: f64,
        (value, end): (ValueId, End),
        effect: &Effect,
    ) -> Option<f64> {
        let own = || Some(seen(value)?.unmasked()).filter(|range| range.is_finite());
        let ln_steps = (2.0 * steps).ln();
        match effect {
            Effect::Level(level) => Some(*level),
            Effect::Clipped(bound, output) => {
                let level = self.level(*output, end).filter(|level| level.is_finite());
                Some(level.map_or(*bound, |level| end.flipped().farther(*bound, level)))
            }
            Effect::Unchosen => Some(end.end(own()?)),
            Effect::Share(count) => Some(own()?.min - ln_steps - count.ln()),
            Effect::Vanishes => own().map(|own| own.min.min(own.max - ln_steps)),
            Effect::Chooses(output) => {
                let own = end.end(own()?);
                let level = self.level(*output, end);
                // No mask is among the selected elements.
                let is_gone = || Some(end.is_within(end.end(seen(*output)?.range), own));
                match level {
                    Some(level) => Some(end.farther(level, own)),
                    None => is_gone()?.then_some(own),
                }
            }
            Effect::Moved(to) => {
                let mut levels = to.iter().map(|&to| self.level(to, end));
                levels.try_fold(identity(end), |all, level| Some(end.farther(all, level?)))
            }
            Effect::Summed { sum, is_subtracted, others } => {
                let of_sum = if *is_subtracted { end.flipped() } else { end };
                let mut level = self.level(*sum, of_sum)?;
                for (other, is_subtracted) in others {
                    let other = seen(*other)?.unmasked();
                    // The sum is far enough even with the summand that counters it most.
                    let counter = match (of_sum, *is_subtracted) {
                        (End::Low, false) => other.max,
                        (End::Low, true) => -other.min,
                        (End::High, false) => other.min,
                        (End::High, true) => -other.max,
                    };
                    level -= counter;
                }
                Some(if *is_subtracted { -level } else { level })
            }
            Effect::Scaled { product, by } => {
                let of_product = if by.max < 0.0 { end.flipped() } else { end };
                let level = self.level(*product, of_product)?;
                Some(end.farther(level / by.min, level / by.max))
            }
        }
    }

    /// Returns the range in which a value is stored if some of its elements are only masks.
    pub(super) fn range(&self, value: ValueId, seen: &Seen) -> Option<Range> {
        self.widened(value, seen, seen.unmasked())
    }

    /// Does the same if the other elements have another range.
    pub(super) fn widened(&self, value: ValueId, seen: &Seen, rest: Range) -> Option<Range> {
        let mut range = rest;
        let mut has_masks = false;
        for end in End::BOTH {
            let level = self.level(value, end).filter(|level| level.is_finite());
            match (seen.rest[slot(end)], level) {
                (None, _) => {}
                // Some node computes with them.
                (Some(_), None) => return None,
                (Some(_), Some(level)) => {
                    has_masks = true;
                    range = range.with(Range { min: level, max: level });
                }
            }
        }
        has_masks.then_some(range)
    }

    /// Returns how far from 0 a padding value must be stored: unchanged, unless it masks elements of `rest`.
    pub(super) fn put_in(&self, value: ValueId, number: f64, rest: Range) -> f64 {
        let end = if number < 0.0 { End::Low } else { End::High };
        let level = self.level(value, end).filter(|level| level.is_finite());
        level.filter(|_| Tail::is_mask(number, rest)).unwrap_or(number)
    }

    /// Returns the range of a constant with only infinite elements, which replaces other elements.
    fn all_masks(&self, id: ValueId, range: Range) -> Option<Range> {
        let end = if range.max < 0.0 { End::Low } else { End::High };
        let is_infinite = range.min.is_infinite() && range.min.to_bits() == range.max.to_bits();
        let level = self.level(id, end).filter(|level| is_infinite && level.is_finite())?;
        Some(Range { min: level, max: level })
    }

    /// Returns the range of a constant in which some elements are only masks.
    pub(super) fn constant(&self, id: ValueId) -> Option<Range> {
        self.constants.get(&id).copied()
    }
}

/// Returns the level of a value that nothing reads.
fn identity(end: End) -> f64 {
    match end {
        End::Low => f64::INFINITY,
        End::High => f64::NEG_INFINITY,
    }
}

fn slot(end: End) -> usize {
    match end {
        End::Low => 0,
        End::High => 1,
    }
}
