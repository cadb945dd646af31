//! Finds nodes that an operator accepts by asking its shape inference and its kernels.

use std::sync::Arc;

use udo_api::{
    Core, CoreKind, DType, Dim, Encoding, Port, PortRule, Quantization, Shape, Side, Status,
    TensorDesc,
};
use udo_generator::{Pattern, VARIABLES};
use udo_host::{Buffer, ParamSetting, Refusal};

use crate::goals::{self, Draw, Goal};
use crate::hints::Hints;
use crate::left_out::default_of;
use crate::node::{Input, Node, inferred};
use crate::params::{self, Params};
use crate::recipes;
use crate::record::Recorder;
use crate::shapes::{BROADCASTS, Class, EXTENTS, FOLLOWS};
use crate::subject::{Subject, candidate, fits, input_types, store_quantized};
use crate::ties;
use crate::trial::{Site, Trial};
use crate::values::{Fill, Random, encoding_of, fill};

/// The result of the search.
#[derive(Debug, Default)]
pub(crate) struct SearchResult {
    /// The accepted nodes.
    pub(crate) nodes: Vec<Node>,
    /// Answers that break the contract: a panic, or a refusal without a reason.
    pub(crate) faults: Vec<String>,
    /// One refusal for each kernel that accepted no node.
    pub(crate) refusals: Vec<String>,
    /// Whether the operator returns `NOT_IMPLEMENTED`.
    pub(crate) is_unwritten: bool,
    /// The operator's features that no node has.
    pub(crate) untried: Vec<String>,
}

/// How many shapes of a class and a level to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// The first that the operator accepts, and all ranks.
    First,
    /// All of them.
    All,
}

/// Derives the dimensions of input `port`, after the first, from the first one's.
type Following<'f> = &'f dyn Fn(&[usize], usize) -> Vec<usize>;

/// The most elements of a large node's outputs; each node runs some hundred times.
const LARGE_ELEMENTS: usize = 1 << 19;

/// The most strategies to try once a node is known.
const NEAR: usize = 120;

/// The most bytes of a node's tensors.
const NODE_BYTES: usize = 64 << 20;

/// The state of a search.
struct Search<'a> {
    subject: &'a Subject,
    hints: &'a Hints,
    kernel: usize,
    seed: u64,
    recorder: &'a Recorder,
    result: SearchResult,
    /// The strategy of the last accepted node, which is tried first for the next one.
    habit: Habit,
    last_refusal: Option<String>,
    /// Whether the kernel accepted a node.
    is_any: bool,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Habit {
    follow: usize,
    params: usize,
    has_constants: bool,
    takes_optional: bool,
    /// One bit for each of the first inputs; set bits are left out too.
    left_out: u32,
}

/// The inputs to build: the type and dimensions of the first one, and the type choice of each other one.
#[derive(Clone, Copy)]
struct Asked<'a> {
    dtype: Option<DType>,
    turn: usize,
    class: Class,
    dims: &'a [usize],
}

/// The outputs of a node.
#[derive(Clone, Copy, PartialEq)]
enum Outputs {
    /// The required outputs.
    Required,
    /// The optional outputs too.
    All,
}

/// The thoroughness of the search, and its seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) level: u8,
    pub(crate) seed: u64,
    pub(crate) breadth: Breadth,
}

/// Finds nodes for each kernel, with the shapes of levels up to `level`.
pub(crate) fn search(
    subject: &Subject,
    hints: &Hints,
    Effort { level, seed, breadth }: Effort,
    recorder: &Recorder,
) -> SearchResult {
    let mut result = SearchResult::default();
    for kernel in 0..subject.kernels.len() {
        let before = result.nodes.len();
        let mut search = Search {
            subject,
            hints,
            kernel,
            seed,
            recorder,
            result: std::mem::take(&mut result),
            habit: Habit::default(),
            last_refusal: None,
            is_any: false,
        };
        search.all(level, breadth);
        if search.result.nodes.len() == before {
            search.by_recipes();
        }
        if search.result.nodes.len() == before && !search.result.is_unwritten {
            search.by_ties(level);
        }
        if breadth == Breadth::All && search.result.nodes.len() > before {
            search.by_goals(before, level);
        }
        let Search { result: mut searched, last_refusal, .. } = search;
        if searched.nodes.len() == before {
            searched.refusals.extend(last_refusal);
        }
        result = searched;
    }
    result
}

impl Search<'_> {
    fn all(&mut self, level: u8, breadth: Breadth) {
        let types = self.first_types();
        // At low levels one or two types stand for all.
        let most = match level {
            1 => 2,
            2..=3 => 4,
            _ => types.len().max(1),
        };
        let types: Vec<Option<DType>> = types.into_iter().take(most).collect();
        for (turn, dtype) in types.into_iter().enumerate() {
            let mut taken: Vec<(Class, u8)> = Vec::new();
            for extents in EXTENTS.iter().filter(|extents| extents.level <= level) {
                let key = (extents.class, extents.level);
                let is_done = breadth == Breadth::First
                    && extents.class != Class::Rank
                    && taken.contains(&key);
                if is_done || (extents.class == Class::Large && turn > 0) {
                    continue;
                }
                if self.extents(dtype, turn, extents.class, extents.dims) {
                    taken.push(key);
                }
            }
        }
    }

    /// Tries the hand-written nodes of the operator if the search found none.
    fn by_recipes(&mut self) {
        let (subject, kernel) = (self.subject, self.kernel);
        let Some(entry) = subject.kernels.get(kernel) else { return };
        for recipe in recipes::for_op(subject.op.schema().name()) {
            let types =
                |port: usize, before: &[TensorDesc]| input_types(entry, subject.core, port, before);
            if let Some((inputs, params)) = recipe.build(subject.op, types, subject.core) {
                self.offer(Class::Plain, inputs, params);
            }
        }
    }

    /// Tries nodes whose inputs have dimensions in common if simpler ones are refused.
    fn by_ties(&mut self, level: u8) {
        const TRIES: usize = 4000;
        const KEPT: usize = 3;
        // The refusal of the last simple node is the more useful message.
        let refusal = self.last_refusal.clone();
        let op = self.subject.op;
        let types = self.first_types();
        // A fixed seed, so that finding a node does not depend on the user's seed.
        let mut random = Random::new(0x71e5);
        let mut kept: Vec<(Pattern, Habit, Params)> = Vec::new();
        for _ in 0..TRIES {
            let pattern = ties::draw(op.schema().inputs().len(), &mut random);
            let habit = Habit {
                has_constants: random.below(2) == 1,
                takes_optional: random.below(2) == 1,
                ..Habit::default()
            };
            let mut params = params::guesses(op, pattern.dims(0, ties::FIRST).len());
            let at = random.below(params.len() as u64);
            let params = params.swap_remove(usize::try_from(at).unwrap_or(0));
            let made =
                self.offer_tied(types.first().copied().flatten(), 0, &pattern, ties::FIRST, habit);
            let is_new = kept.iter().all(|(other, ..)| *other != pattern);
            if is_new && made.is_some_and(|inputs| self.offer(Class::Plain, inputs, params.clone()))
            {
                kept.push((pattern, habit, params));
            }
            if kept.len() == KEPT {
                break;
            }
        }
        if kept.is_empty() {
            self.last_refusal = refusal;
        }
        for (pattern, habit, params) in &kept {
            let all = ties::EXTENTS.iter().filter(|(_, from, _)| *from <= level);
            for (turn, dtype) in types.iter().enumerate() {
                for (class, _, values) in all.clone() {
                    let Some(inputs) = self.offer_tied(*dtype, turn, pattern, *values, *habit)
                    else {
                        continue;
                    };
                    self.offer(*class, inputs, params.clone());
                }
            }
            for other in params::variations(op, params) {
                let dtype = types.first().copied().flatten();
                if let Some(inputs) = self.offer_tied(dtype, 0, pattern, ties::FIRST, *habit) {
                    self.offer(Class::Params, inputs, other);
                }
            }
        }
    }

    /// Draws random nodes until the operator accepts one with each missing feature, and some with new combinations of
    /// parameters and optional inputs. Features of the nodes from `before` on count.
    fn by_goals(&mut self, before: usize, level: u8) {
        let (tries, together) = if level == 1 { (800, 4) } else { (3000, 16) };
        let op = self.subject.op;
        let mut random = Random::new(0x60a1);
        let Some(first) = self.result.nodes.get(before).map(|node| node.params.clone()) else {
            return;
        };
        for goal in Goal::open(op, self.since(before), &self.hints.words) {
            let is_met = |node: &Node| goal.is_met(node);
            for _ in 0..if goal.is_possible(op, &self.hints.words) { tries } else { 0 } {
                let draw = goals::draw(op, &first, &self.hints.words, Some(&goal), &mut random);
                if self.offer_draw(&draw, ties::FIRST) && self.keep_if(is_met) {
                    let all = ties::EXTENTS.iter().filter(|(class, from, _)| {
                        goal.is_required() && *from <= level && *class != Class::Large
                    });
                    let few = if goal.is_required() { &[] } else { ties::OTHERS };
                    for values in all.map(|(_, _, values)| values).chain(few) {
                        self.offer_draw(&draw, *values);
                    }
                    break;
                }
            }
        }
        let lacking = Goal::open(op, self.since(before), &self.hints.words);
        let owed = lacking.iter().filter(|goal| goal.is_required());
        self.result.untried.extend(owed.map(|goal| goal.describe(op)));
        let mut known: Vec<_> = self.since(before).iter().map(goals::features).collect();
        let end = known.len() + together;
        for _ in 0..2 * tries {
            let draw = goals::draw(op, &first, &self.hints.words, None, &mut random);
            if known.len() == end {
                break;
            }
            if self.offer_draw(&draw, ties::FIRST) {
                let is_new = |node: &Node| !known.contains(&goals::features(node));
                if self.keep_if(is_new) {
                    known.extend(self.result.nodes.last().map(goals::features));
                    for values in ties::OTHERS {
                        self.offer_draw(&draw, *values);
                    }
                }
            }
        }
    }

    fn since(&self, before: usize) -> &[Node] {
        self.result.nodes.get(before..).unwrap_or_default()
    }

    /// Offers a drawn node; returns whether the operator accepts it.
    fn offer_draw(&mut self, draw: &Draw, values: [usize; VARIABLES]) -> bool {
        let dtype = self.first_types().first().copied().flatten();
        let habit = Habit {
            has_constants: draw.has_constants,
            takes_optional: true,
            left_out: draw.left_out,
            ..Habit::default()
        };
        let made = self.offer_tied(dtype, 0, &draw.pattern, values, habit);
        let outputs = if draw.has_all_outputs { Outputs::All } else { Outputs::Required };
        made.is_some_and(|inputs| {
            self.offer_with(outputs, Class::Params, inputs, draw.params.clone())
        })
    }

    /// Keeps the last node if it satisfies `is_wanted`, else removes it. Returns whether it was kept.
    fn keep_if(&mut self, is_wanted: impl Fn(&Node) -> bool) -> bool {
        let is_kept = self.result.nodes.last().is_some_and(is_wanted);
        if !is_kept {
            self.result.nodes.pop();
        }
        is_kept
    }

    fn offer_tied(
        &self,
        dtype: Option<DType>,
        turn: usize,
        pattern: &Pattern,
        values: [usize; VARIABLES],
        habit: Habit,
    ) -> Option<Vec<Input>> {
        let count = self.subject.op.schema().inputs().len();
        let mut shapes: Vec<Vec<usize>> =
            (0..count).map(|port| pattern.dims(port, values)).collect();
        self.hints.apply(&mut shapes);
        let of = |port: usize| shapes.get(port).or(shapes.last()).cloned().unwrap_or_default();
        let follow = |_: &[usize], port: usize| of(port);
        let dims = of(0);
        self.inputs(Asked { dtype, turn, class: Class::Plain, dims: &dims }, &follow, habit)
    }

    /// Returns the types of the first input; `[None]` for an operator without inputs.
    fn first_types(&self) -> Vec<Option<DType>> {
        let Some(kernel) = self.subject.kernels.get(self.kernel) else { return Vec::new() };
        if self.subject.op.schema().inputs().is_empty() {
            return vec![None];
        }
        input_types(kernel, self.subject.core, 0, &[]).iter().map(Some).collect()
    }

    /// Tries nodes with these dimensions; returns whether the operator accepts one.
    fn extents(&mut self, dtype: Option<DType>, turn: usize, class: Class, dims: &[usize]) -> bool {
        if class == Class::Params {
            return self.other_params(dtype, turn, dims);
        }
        let follows = if class == Class::Broadcast { BROADCASTS } else { FOLLOWS };
        if class == Class::Bounded && !self.takes_bounded() {
            return false;
        }
        if class == Class::Broadcast && self.subject.op.schema().inputs().len() < 2 {
            return false;
        }
        // Once a node is known, later ones use similar strategies.
        let most = if self.is_any { NEAR } else { usize::MAX };
        let habits = std::iter::once(self.habit).chain(self.habits(follows.len()).take(most));
        let mut taken = Vec::new();
        for habit in habits.collect::<Vec<_>>() {
            let Some(follow) = follows.get(habit.follow) else { continue };
            if taken.contains(&habit.follow) {
                continue;
            }
            let Some(inputs) = self.inputs(Asked { dtype, turn, class, dims }, follow, habit)
            else {
                continue;
            };
            let params = params::guesses(self.subject.op, dims.len());
            let Some(params) = params.into_iter().nth(habit.params) else { continue };
            if self.offer(class, inputs, params) {
                if class != Class::Broadcast {
                    self.habit = habit;
                    return true;
                }
                taken.push(habit.follow);
            }
        }
        !taken.is_empty()
    }

    fn takes_bounded(&self) -> bool {
        let kernel = self.subject.kernels.get(self.kernel);
        kernel.and_then(|k| candidate(k).rule(Side::Input, 0)).is_some_and(PortRule::takes_bounded)
    }

    /// Iterates over the strategies, the most common ones first.
    fn habits(&self, follows: usize) -> impl Iterator<Item = Habit> + use<> {
        let schema = self.subject.op.schema();
        let params = params::guesses(self.subject.op, 2).len();
        let has_optional = schema.inputs().iter().any(Port::is_optional);
        let is_single = schema.inputs().len() < 2;
        let follows = if is_single { 1 } else { follows };
        let constants = if is_single { 1 } else { 2 };
        (0..params).flat_map(move |params| {
            (0..follows).flat_map(move |follow| {
                (0..constants).flat_map(move |constant| {
                    let of = move |takes_optional| Habit {
                        follow,
                        params,
                        has_constants: constant == 1,
                        takes_optional,
                        left_out: 0,
                    };
                    [Some(of(false)), has_optional.then(|| of(true))].into_iter().flatten()
                })
            })
        })
    }

    /// Tries one node per parameter with a value other than its default.
    fn other_params(&mut self, dtype: Option<DType>, turn: usize, dims: &[usize]) -> bool {
        let Some(follow) = FOLLOWS.get(self.habit.follow) else { return false };
        let habit = self.habit;
        let Some(base) = params::guesses(self.subject.op, dims.len()).into_iter().nth(habit.params)
        else {
            return false;
        };
        let mut is_any = false;
        for params in params::variations(self.subject.op, &base) {
            let made =
                self.inputs(Asked { dtype, turn, class: Class::Params, dims }, follow, habit);
            let Some(inputs) = made else { continue };
            is_any |= self.offer(Class::Params, inputs, params);
        }
        is_any
    }

    /// Builds inputs of types that the kernel accepts; `None` without any such type.
    fn inputs(
        &self,
        Asked { dtype, turn, class, dims }: Asked<'_>,
        follow: Following<'_>,
        habit: Habit,
    ) -> Option<Vec<Input>> {
        let kernel = self.subject.kernels.get(self.kernel)?;
        let schema = self.subject.op.schema();
        let mut inputs: Vec<Input> = Vec::new();
        let mut descs: Vec<TensorDesc> = Vec::new();
        let repeated = schema.inputs().last().is_some_and(Port::is_repeated);
        let count = schema.inputs().len() + usize::from(repeated);
        for port in 0..count {
            let declared = schema.input(port)?;
            let is_left_out = declared.is_optional()
                && (!habit.takes_optional || habit.left_out >> port.min(31) & 1 == 1);
            let types = input_types(kernel, self.subject.core, port, &descs);
            let own = if port == 0 { dtype } else { None };
            let same = descs.first().and_then(TensorDesc::dtype).filter(|t| types.has(*t));
            let of_turn = || types.iter().nth(turn.checked_rem(types.iter().count()).unwrap_or(0));
            let dtype = own.or(same).or_else(|| if types.is_empty() { None } else { of_turn() });
            let is_quantized = declared.quantization_mode() == Quantization::Tf
                || self.subject.core.kind() == Some(CoreKind::Dsp) && is_real(declared);
            if is_left_out {
                let default = dtype.and_then(|of| default_of(declared, of, is_quantized));
                let absent = Input { desc: TensorDesc::ABSENT, dims: Vec::new(), constant: None };
                let input = default.unwrap_or(absent);
                descs.push(input.desc);
                inputs.push(input);
                continue;
            }
            let dtype = dtype?;
            let own = if port == 0 { dims.to_vec() } else { follow(dims, port) };
            let bounded = class == Class::Bounded
                && candidate(kernel).rule(Side::Input, port).is_some_and(PortRule::takes_bounded);
            let shape: Vec<Dim> =
                own.iter().map(|&n| if bounded { Dim::UpTo(n) } else { Dim::Fixed(n) }).collect();
            let mut desc = TensorDesc::new(dtype, Shape::from_dims(&shape).ok()?);
            if let Some(encoding) = input_encoding(dtype, port).filter(|_| is_quantized) {
                desc = desc.with_encoding(encoding);
            }
            let run = own.iter().map(|&n| if bounded { n.saturating_sub(2).max(1) } else { n });
            let is_constant = declared.wants_constant() || (habit.has_constants && port > 0);
            let constant = if is_constant { Some(self.constant(&desc, &own)?) } else { None };
            let dims = if is_constant { own.clone() } else { run.collect() };
            descs.push(desc);
            inputs.push(Input { desc, dims, constant });
        }
        // Optional inputs at the end are omitted from the list.
        while inputs.last().is_some_and(|input| input.desc.is_absent()) {
            inputs.pop();
        }
        Some(inputs)
    }

    fn constant(&self, desc: &TensorDesc, dims: &[usize]) -> Option<Arc<Buffer>> {
        let how =
            if desc.dtype().is_some_and(DType::is_float) { Fill::Positive } else { Fill::Small };
        let bytes = fill(desc, dims, how, &mut Random::new(self.seed ^ 0xc0));
        Buffer::from_bytes(&bytes).ok().map(Arc::new)
    }

    /// Offers a node to the operator and the kernel; keeps it if both accept it.
    fn offer(
        &mut self,
        class: Class,
        inputs: Vec<Input>,
        params: Vec<(&'static str, ParamSetting)>,
    ) -> bool {
        self.offer_with(Outputs::Required, class, inputs, params)
    }

    fn offer_with(
        &mut self,
        has: Outputs,
        class: Class,
        inputs: Vec<Input>,
        params: Vec<(&'static str, ParamSetting)>,
    ) -> bool {
        let Some(entry) = self.subject.kernels.get(self.kernel) else { return false };
        let outputs = self.subject.op.schema().outputs();
        let is_there = |port: &&Port| has == Outputs::All || !port.is_optional();
        let count = outputs.iter().filter(is_there).count().max(1);
        let bytes: usize = inputs.iter().map(|input| input.desc.size_bytes()).sum();
        if bytes > NODE_BYTES {
            return false;
        }
        let (kernel, core) = (self.kernel, self.subject.core);
        let mut node = Node { class, kernel, inputs, params, outputs: Vec::new(), fixed: None };
        node.outputs = match inferred(self.subject.op, &node.inputs, &node.params, count) {
            Ok(outputs) => outputs,
            Err(refusal) => {
                node.outputs = vec![TensorDesc::ABSENT; count];
                self.refused("infer", &node, &refusal);
                return false;
            }
        };
        if node.bytes() > NODE_BYTES || node.outputs.iter().all(TensorDesc::is_absent) {
            return false;
        }
        let elements: usize = node.outputs.iter().map(TensorDesc::len).sum();
        if class == Class::Large && elements > LARGE_ELEMENTS {
            return false;
        }
        let said = node.outputs.clone();
        store_quantized(entry, core, &node.input_descs(), &mut node.outputs);
        for (port, (output, said)) in node.outputs.iter_mut().zip(&said).enumerate() {
            let of_port = outputs.get(port).map(Port::quantization_mode);
            let is_quantized = node.inputs.iter().any(|input| input.desc.encoding().is_some())
                || of_port == Some(Quantization::Tf)
                || output.dtype() != said.dtype();
            let wants = is_quantized && output.encoding().is_none() && !output.is_absent();
            let encoding = output.dtype().and_then(|dtype| output_encoding(dtype, port));
            if let (true, Some(encoding)) = (wants, encoding) {
                *output = output.with_encoding(encoding);
            }
        }
        if !fits(entry, &node.input_descs(), &node.outputs) {
            let outputs: Vec<String> = node.outputs.iter().map(ToString::to_string).collect();
            let why = || {
                format!(
                    "the kernel's ports do not accept {} with the inferred outputs ({})",
                    node.describe(core),
                    outputs.join(", ")
                )
            };
            self.last_refusal.get_or_insert_with(why);
            return false;
        }
        let site = Site { core, threads: 1 };
        let refusal = Trial::new(&node, entry, site, Some(self.recorder)).err();
        if let Some(refusal) = refusal {
            self.refused("finalize", &node, &refusal);
            return false;
        }
        self.result.nodes.push(node);
        self.is_any = true;
        true
    }

    fn refused(&mut self, function: &str, node: &Node, refusal: &Refusal) {
        let node = node.describe(self.subject.core);
        self.last_refusal = Some(format!("{function} refuses {node}: {refusal}"));
        let fault = match refusal.status {
            Status::NOT_IMPLEMENTED => {
                self.result.is_unwritten = true;
                return;
            }
            Status::PANICKED => format!("{function} panics at {node}: {}", refusal.message),
            Status::BAD_CALL => format!("{function} breaks the calling rules at {node}: {refusal}"),
            _ if refusal.message.trim().is_empty() => {
                format!("{function} refuses {node} without a reason")
            }
            _ => return,
        };
        if self.result.faults.len() < 5 && !self.result.faults.contains(&fault) {
            self.result.faults.push(fault);
        }
    }
}

/// Whether a port has floats on some core. A DSP stores those quantized, but integers unchanged.
fn is_real(port: &Port) -> bool {
    let mut cores = [Core::CPU, Core::GPU, Core::DSP_V68].into_iter();
    cores.any(|core| port.types_on(core).iter().any(DType::is_float))
}

/// Returns an input's encoding. It differs between ports, so that a mix-up shows.
fn input_encoding(dtype: DType, port: usize) -> Option<Encoding> {
    let wide = if port == 0 { 4.0 } else { 1.5 };
    let low = if port == 0 { -3.0 } else { -0.5 };
    encoding_of(dtype, &[low, wide])
}

fn output_encoding(dtype: DType, port: usize) -> Option<Encoding> {
    encoding_of(dtype, &[if port == 0 { -3.3 } else { -1.0 }, 4.7])
}
