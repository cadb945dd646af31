//! Nodes that an operator takes, found by asking its shape inference and its kernels.

use std::sync::Arc;

use udo_api::{DType, Dim, Encoding, PortRule, Quantization, Shape, Side, Status, TensorDesc};
use udo_generator::{Pattern, VARIABLES};
use udo_host::{Buffer, ParamSetting, Refusal};

use crate::node::{Input, Node, inferred};
use crate::params::{self, Params};
use crate::recipes;
use crate::shapes::{BROADCASTS, Class, EXTENTS, FOLLOWS};
use crate::subject::{Subject, fits, input_types, rule, store_quantized};
use crate::ties;
use crate::trial::Trial;
use crate::values::{Fill, Random, encoding_of, fill};

/// What asking an operator gave.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Nodes that it takes.
    pub(crate) nodes: Vec<Node>,
    /// Questions that it did not answer as it must: by a panic, or by no reason.
    pub(crate) faults: Vec<String>,
    /// A refusal for each of its kernels that took no node.
    pub(crate) refusals: Vec<String>,
    /// Whether it says of itself that it is not written.
    pub(crate) is_unwritten: bool,
}

/// How many extents of a class and a level are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// The first that the operator takes, and all ranks.
    First,
    /// All of them.
    All,
}

/// How the extents of input `port`, after the first, follow from the first one's.
type Following<'f> = &'f dyn Fn(&[usize], usize) -> Vec<usize>;

/// More bytes than the tensors of a node may have.
const NODE_BYTES: usize = 64 << 20;

/// What is known of an operator while nodes are looked for.
struct Search<'a> {
    subject: &'a Subject,
    kernel: usize,
    seed: u64,
    found: Found,
    /// How the last node that was taken was made; asked first for the next.
    habit: Habit,
    last_refusal: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Habit {
    follow: usize,
    params: usize,
    has_constants: bool,
    takes_optional: bool,
}

/// Looks for nodes for each kernel, with extents up to `level`.
pub(crate) fn search(subject: &Subject, level: u8, seed: u64, breadth: Breadth) -> Found {
    let mut found = Found::default();
    for kernel in 0..subject.kernels.len() {
        let before = found.nodes.len();
        let mut search = Search {
            subject,
            kernel,
            seed,
            found: std::mem::take(&mut found),
            habit: Habit::default(),
            last_refusal: None,
        };
        search.all(level, breadth);
        if search.found.nodes.len() == before {
            search.by_recipes();
        }
        if search.found.nodes.len() == before && !search.found.is_unwritten {
            search.by_ties(level);
        }
        let Search { found: mut made, last_refusal, .. } = search;
        if made.nodes.len() == before {
            made.refusals.extend(last_refusal);
        }
        found = made;
    }
    found
}

impl Search<'_> {
    fn all(&mut self, level: u8, breadth: Breadth) {
        let types = self.first_types();
        // At low levels a type or two stand for all.
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

    /// Nodes as the operator's name says them, where asking found none.
    fn by_recipes(&mut self) {
        let (subject, kernel) = (self.subject, self.kernel);
        let Some(entry) = subject.kernels.get(kernel) else { return };
        for recipe in recipes::of(subject.op.schema().name()) {
            let types =
                |port: usize, before: &[TensorDesc]| input_types(entry, subject.core, port, before);
            if let Some((inputs, params)) = recipe.made(subject.op, types, subject.core) {
                self.offer(Class::Plain, inputs, params);
            }
        }
    }

    /// Nodes whose inputs have extents in common, where nothing simpler is taken.
    fn by_ties(&mut self, level: u8) {
        const TRIES: usize = 4000;
        const KEPT: usize = 3;
        // The last that was simple says more of what is wanted.
        let refusal = self.last_refusal.clone();
        let op = self.subject.op;
        let types = self.first_types();
        // The same whatever the seed, so that no chance decides whether an operator can be tried.
        let mut random = Random::new(0x71e5);
        let mut kept: Vec<(Pattern, Habit, Params)> = Vec::new();
        for _ in 0..TRIES {
            let pattern = ties::drawn(op.schema().inputs().len(), &mut random);
            let habit = Habit {
                has_constants: random.below(2) == 1,
                takes_optional: random.below(2) == 1,
                ..Habit::default()
            };
            let mut params = params::guesses(op, pattern.dims(0, ties::FIRST).len());
            let at = random.below(params.len() as u64);
            let params = params.swap_remove(usize::try_from(at).unwrap_or(0));
            let made = self.tied(types.first().copied().flatten(), 0, &pattern, ties::FIRST, habit);
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
                    let Some(inputs) = self.tied(*dtype, turn, pattern, *values, *habit) else {
                        continue;
                    };
                    self.offer(*class, inputs, params.clone());
                }
            }
            for other in params::variations(op, params) {
                let dtype = types.first().copied().flatten();
                if let Some(inputs) = self.tied(dtype, 0, pattern, ties::FIRST, *habit) {
                    self.offer(Class::Params, inputs, other);
                }
            }
        }
    }

    fn tied(
        &self,
        dtype: Option<DType>,
        turn: usize,
        pattern: &Pattern,
        values: [usize; VARIABLES],
        habit: Habit,
    ) -> Option<Vec<Input>> {
        let first = pattern.dims(0, values);
        let follow = |_: &[usize], port: usize| pattern.dims(port, values);
        self.inputs(dtype, turn, (Class::Plain, &first), (&follow, habit))
    }

    /// The types of the first input; one that is none where there are no inputs.
    fn first_types(&self) -> Vec<Option<DType>> {
        let Some(kernel) = self.subject.kernels.get(self.kernel) else { return Vec::new() };
        if self.subject.op.schema().inputs().is_empty() {
            return vec![None];
        }
        input_types(kernel, self.subject.core, 0, &[]).iter().map(Some).collect()
    }

    /// Whether the operator takes a node with these extents.
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
        let habits = std::iter::once(self.habit).chain(self.habits(follows.len()));
        for habit in habits.collect::<Vec<_>>() {
            let Some(follow) = follows.get(habit.follow) else { continue };
            let Some(inputs) = self.inputs(dtype, turn, (class, dims), (follow, habit)) else {
                continue;
            };
            let params = params::guesses(self.subject.op, dims.len());
            let Some(params) = params.into_iter().nth(habit.params) else { continue };
            if self.offer(class, inputs, params) {
                if class != Class::Broadcast {
                    self.habit = habit;
                }
                return true;
            }
        }
        false
    }

    fn takes_bounded(&self) -> bool {
        let kernel = self.subject.kernels.get(self.kernel);
        kernel.and_then(|k| rule(k, Side::Input, 0)).is_some_and(PortRule::takes_bounded)
    }

    /// Ways to make a node, those of most operators first.
    fn habits(&self, follows: usize) -> impl Iterator<Item = Habit> + use<> {
        let schema = self.subject.op.schema();
        let params = params::guesses(self.subject.op, 2).len();
        let has_optional = schema.inputs().iter().any(udo_api::Port::is_optional);
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
                    };
                    [Some(of(false)), has_optional.then(|| of(true))].into_iter().flatten()
                })
            })
        })
    }

    /// A node with parameters that are not their defaults, for each that has one.
    fn other_params(&mut self, dtype: Option<DType>, turn: usize, dims: &[usize]) -> bool {
        let Some(follow) = FOLLOWS.get(self.habit.follow) else { return false };
        let habit = self.habit;
        let Some(base) = params::guesses(self.subject.op, dims.len()).into_iter().nth(habit.params)
        else {
            return false;
        };
        let mut is_any = false;
        for params in params::variations(self.subject.op, &base) {
            let made = self.inputs(dtype, turn, (Class::Params, dims), (follow, habit));
            let Some(inputs) = made else { continue };
            is_any |= self.offer(Class::Params, inputs, params);
        }
        is_any
    }

    /// Inputs of the types that the kernel takes, or nothing where it takes none.
    fn inputs(
        &self,
        dtype: Option<DType>,
        turn: usize,
        (class, dims): (Class, &[usize]),
        (follow, habit): (Following<'_>, Habit),
    ) -> Option<Vec<Input>> {
        let kernel = self.subject.kernels.get(self.kernel)?;
        let schema = self.subject.op.schema();
        let mut inputs: Vec<Input> = Vec::new();
        let mut descs: Vec<TensorDesc> = Vec::new();
        let repeated = schema.inputs().last().is_some_and(udo_api::Port::is_repeated);
        let count = schema.inputs().len() + usize::from(repeated);
        for port in 0..count {
            let declared = schema.input(port)?;
            if declared.is_optional() && !habit.takes_optional {
                descs.push(TensorDesc::ABSENT);
                inputs.push(Input { desc: TensorDesc::ABSENT, dims: Vec::new(), constant: None });
                continue;
            }
            let types = input_types(kernel, self.subject.core, port, &descs);
            let own = if port == 0 { dtype } else { None };
            let same = descs.first().and_then(TensorDesc::dtype).filter(|t| types.has(*t));
            let of_turn = || types.iter().nth(turn.checked_rem(types.iter().count()).unwrap_or(0));
            let dtype = own.or(same).or_else(|| if types.is_empty() { None } else { of_turn() })?;
            let own = if port == 0 { dims.to_vec() } else { follow(dims, port) };
            let bounded = class == Class::Bounded
                && rule(kernel, Side::Input, port).is_some_and(PortRule::takes_bounded);
            let shape: Vec<Dim> =
                own.iter().map(|&n| if bounded { Dim::UpTo(n) } else { Dim::Fixed(n) }).collect();
            let mut desc = TensorDesc::new(dtype, Shape::of_dims(&shape).ok()?);
            let is_quantized = declared.quantization_mode() == Quantization::Tf
                || self.subject.core.kind() == Some(udo_api::CoreKind::Dsp);
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
        // Optional inputs at the end are simply not there.
        while inputs.last().is_some_and(|input| input.desc.is_absent()) {
            inputs.pop();
        }
        Some(inputs)
    }

    fn constant(&self, desc: &TensorDesc, dims: &[usize]) -> Option<Arc<Buffer>> {
        let how =
            if desc.dtype().is_some_and(DType::is_float) { Fill::Positive } else { Fill::Small };
        let bytes = fill(desc, dims, how, &mut Random::new(self.seed ^ 0xc0));
        Buffer::of(&bytes).ok().map(Arc::new)
    }

    /// Whether the operator and the kernel take the node, which is kept then.
    fn offer(
        &mut self,
        class: Class,
        inputs: Vec<Input>,
        params: Vec<(&'static str, ParamSetting)>,
    ) -> bool {
        let Some(entry) = self.subject.kernels.get(self.kernel) else { return false };
        let outputs = self.subject.op.schema().outputs();
        let count = outputs.iter().filter(|port| !port.is_optional()).count().max(1);
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
        let said = node.outputs.clone();
        store_quantized(entry, core, &node.input_descs(), &mut node.outputs);
        for (port, (output, said)) in node.outputs.iter_mut().zip(&said).enumerate() {
            let of_port = outputs.get(port).map(udo_api::Port::quantization_mode);
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
                    "the kernel's ports do not take {}, for which infer says outputs ({})",
                    node.said(core),
                    outputs.join(", ")
                )
            };
            self.last_refusal.get_or_insert_with(why);
            return false;
        }
        let refusal = Trial::new(&node, entry, core, 1).err();
        if let Some(refusal) = refusal {
            self.refused("finalize", &node, &refusal);
            return false;
        }
        self.found.nodes.push(node);
        true
    }

    fn refused(&mut self, function: &str, node: &Node, refusal: &Refusal) {
        let node = node.said(self.subject.core);
        self.last_refusal = Some(format!("{function} refuses {node}: {refusal}"));
        let fault = match refusal.status {
            Status::NOT_IMPLEMENTED => {
                self.found.is_unwritten = true;
                return;
            }
            Status::PANICKED => format!("{function} panics at {node}: {}", refusal.message),
            Status::BAD_CALL => format!("{function} answers what it must not at {node}: {refusal}"),
            _ if refusal.message.trim().is_empty() => {
                format!("{function} refuses {node} and does not say why")
            }
            _ => return,
        };
        if self.found.faults.len() < 5 && !self.found.faults.contains(&fault) {
            self.found.faults.push(fault);
        }
    }
}

/// What quantized elements of an input stand for: not the same on all ports, so that mixing them up shows.
fn input_encoding(dtype: DType, port: usize) -> Option<Encoding> {
    let wide = if port == 0 { 4.0 } else { 1.5 };
    let low = if port == 0 { -3.0 } else { -0.5 };
    encoding_of(dtype, &[low, wide])
}

fn output_encoding(dtype: DType, port: usize) -> Option<Encoding> {
    encoding_of(dtype, &[if port == 0 { -3.3 } else { -1.0 }, 4.7])
}
