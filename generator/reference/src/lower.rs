//! Resolves the names, types and shapes of a source's statements, and lowers them to the
//! intermediate representation.

mod call;
mod expr;
mod index;
mod reduce;
mod typed;
mod whole;

pub use call::function_names;

use std::collections::HashSet;

use typed::{Typed, Whole, coerced};

use crate::{
    fault::{Fault, Position},
    ir::{
        Binder, Code, Def, DefKind, Guard, HERE, Local, Loosened, Output, Seen, Slot, Source, Step,
        StepKind,
    },
    signature::{Class, ParamKind, Signature},
    syntax::{self, Expr, Statement, StatementKind},
    words::did_you_mean,
};

/// Returns the program of a source, with warnings.
pub(crate) fn lower(
    statements: &[Statement],
    signature: &Signature,
) -> Result<(Code, Vec<Fault>), Vec<Fault>> {
    let mut lowering = Lowering::new(signature)?;
    for statement in statements {
        if let Err(fault) = lowering.statement(statement)
            && !fault.is_consequence
        {
            lowering.faults.push(fault);
        }
    }
    lowering.finish()
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy)]
enum Entry {
    Source(Source, Class),
    Scalar(Slot, Class),
    List(Slot),
    Param(usize, Class),
    TextParam(usize),
    /// A tensor of one element that is read as a scalar.
    Single(usize, Class),
    /// A name whose definition has a fault, which is reported once.
    Unknown,
}

#[derive(Debug)]
struct Name {
    word: String,
    entry: Entry,
    at: Option<Position>,
    is_used: bool,
}

#[derive(Debug)]
struct Lowering<'a> {
    signature: &'a Signature,
    names: Vec<Name>,
    steps: Vec<Step>,
    defs: Vec<Def>,
    /// The rank of each definition, if it is known without shapes.
    ranks: Vec<Option<usize>>,
    scalars: Vec<Local>,
    lists: Vec<Local>,
    guards: Vec<Guard>,
    /// The optional inputs that are known to be present.
    present: Vec<usize>,
    outputs: Vec<Option<usize>>,
    tolerances: Vec<Option<Loosened>>,
    faults: Vec<Fault>,
}

impl<'a> Lowering<'a> {
    fn new(signature: &'a Signature) -> Result<Self, Vec<Fault>> {
        let mut lowering = Self {
            signature,
            names: Vec::new(),
            steps: Vec::new(),
            defs: Vec::new(),
            ranks: Vec::new(),
            scalars: Vec::new(),
            // The coordinates of the computed element.
            lists: vec![Local { class: Class::Int, name: Some("here".to_owned()), inner: false }],
            guards: Vec::new(),
            present: Vec::new(),
            outputs: vec![None; signature.outputs.len()],
            tolerances: vec![None; signature.outputs.len()],
            faults: Vec::new(),
        };
        let start = Position { line: 1, column: 1 };
        let inputs = signature.inputs.iter().enumerate();
        let inputs =
            inputs.map(|(at, port)| (&port.name, Entry::Source(Source::Input(at), port.class)));
        let params = signature.params.iter().enumerate().map(|(at, param)| {
            let entry = match param.kind {
                ParamKind::Scalar(class) => Entry::Param(at, class),
                ParamKind::Text => Entry::TextParam(at),
                ParamKind::Tensor(class) => Entry::Source(Source::Param(at), class),
            };
            (&param.name, entry)
        });
        let mut faults = Vec::new();
        let mut seen = HashSet::new();
        for (name, entry) in inputs.chain(params) {
            if !seen.insert(name.as_str()) {
                faults
                    .push(Fault::new(start, format!("the signature uses the name `{name}` twice")));
            }
            lowering.names.push(Name { word: name.clone(), entry, at: None, is_used: false });
        }
        for port in &signature.outputs {
            if !seen.insert(port.name.as_str()) {
                let name = &port.name;
                faults
                    .push(Fault::new(start, format!("the signature uses the name `{name}` twice")));
            }
        }
        if faults.is_empty() { Ok(lowering) } else { Err(faults) }
    }

    fn finish(mut self) -> Result<(Code, Vec<Fault>), Vec<Fault>> {
        let start = Position { line: 1, column: 1 };
        let mut outputs = Vec::new();
        let all = self.outputs.iter().zip(&self.tolerances).zip(&self.signature.outputs);
        for ((def, tolerance), port) in all {
            if let Some(def) = def {
                outputs.push(Output { def: *def, tolerance: tolerance.clone() });
            } else {
                let message = format!("the output `{}` is not defined", port.name);
                self.faults.push(Fault::new(start, message));
            }
        }
        if !self.faults.is_empty() {
            return Err(self.faults);
        }
        let unused = self.names.iter().filter(|name| !name.is_used);
        let warnings = unused.filter(|name| !self.is_output(&name.word)).map(|name| {
            let what = if name.at.is_some() { "the name" } else { kind_of(name.entry) };
            Fault::new(name.at.unwrap_or(start), format!("{what} `{}` is not used", name.word))
        });
        let warnings = warnings.collect();
        let (scalars, lists) = (self.scalars, self.lists);
        Ok((Code { steps: self.steps, defs: self.defs, outputs, scalars, lists }, warnings))
    }

    fn is_output(&self, name: &str) -> bool {
        self.signature.outputs.iter().any(|port| port.name == name)
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Fault> {
        let at = statement.at;
        match &statement.kind {
            StatementKind::Let(name, binders, value) => {
                if self.is_output(name) {
                    let problem = format!("`{name}` is an output");
                    return Err(Fault::new(at, problem).with_help("define it without `let`"));
                }
                self.is_free(name, at)?;
                let entry = self.definition(name, binders, value, None, at);
                let known = *entry.as_ref().unwrap_or(&Entry::Unknown);
                self.names.push(Name {
                    word: name.clone(),
                    entry: known,
                    at: Some(at),
                    is_used: false,
                });
                entry.map(|_| ())
            }
            StatementKind::Output(name, binders, value) => {
                let Some(output) =
                    self.signature.outputs.iter().position(|port| port.name == *name)
                else {
                    let known = self.signature.outputs.iter().map(|port| port.name.as_str());
                    let help = did_you_mean(name, known)
                        .unwrap_or_else(|| "define other names with `let`".to_owned());
                    return Err(Fault::new(at, format!("no output `{name}`")).with_help(help));
                };
                if self.outputs.get(output).is_some_and(Option::is_some) {
                    return Err(Fault::new(at, format!("the output `{name}` is defined twice")));
                }
                let class =
                    self.signature.outputs.get(output).map_or(Class::Float, |port| port.class);
                // A faulty definition does not count as missing.
                let place = self.defs.len();
                if let Some(of) = self.outputs.get_mut(output) {
                    *of = Some(place);
                }
                let entry = self.definition(name, binders, value, Some(class), at);
                let known = *entry.as_ref().unwrap_or(&Entry::Unknown);
                self.names.push(Name {
                    word: name.clone(),
                    entry: known,
                    at: Some(at),
                    is_used: false,
                });
                if let (Entry::Source(Source::Def(def), _), Some(of)) =
                    (known, self.outputs.get_mut(output))
                {
                    *of = Some(def);
                }
                entry.map(|_| ())
            }
            StatementKind::Require(condition, wanted) => {
                let condition =
                    self.early_scalar(condition, Class::Bool, "a condition of `require`")?;
                self.step(StepKind::Require(condition, wanted.clone()), at);
                Ok(())
            }
            StatementKind::Tolerance(tolerance) => self.tolerance(tolerance, at),
        }
    }

    fn tolerance(&mut self, tolerance: &syntax::Tolerance, at: Position) -> Result<(), Fault> {
        let outputs = &self.signature.outputs;
        let Some(output) = outputs.iter().position(|port| port.name == tolerance.output) else {
            let name = &tolerance.output;
            let help = did_you_mean(name, outputs.iter().map(|port| port.name.as_str()));
            return Err(Fault { help, ..Fault::new(at, format!("no output `{name}`")) });
        };
        let loosened = Loosened {
            relative: tolerance.relative,
            absolute: tolerance.absolute,
            reason: tolerance.reason.clone(),
        };
        match self.tolerances.get_mut(output) {
            Some(place @ None) => {
                *place = Some(loosened);
                Ok(())
            }
            _ => Err(Fault::new(at, format!("`{}` has two tolerances", tolerance.output))),
        }
    }

    /// Resolves a definition, with its elements as `class` if that is given.
    fn definition(
        &mut self,
        name: &str,
        binders: &[syntax::Binder],
        value: &Expr,
        class: Option<Class>,
        at: Position,
    ) -> Result<Entry, Fault> {
        if !binders.is_empty() {
            let (binders, count) = self.bind(binders)?;
            for binder in &binders {
                self.must_be_early(
                    |see| binder.walk(see),
                    at,
                    "the bound of an index of a definition",
                )?;
            }
            let body = self.scalar(value);
            self.names.truncate(self.names.len() - count);
            let (found, body) = body?;
            let class = class.unwrap_or(found);
            let body = coerced(body, found, class, value.at)?;
            let def = self.define(Some(name), class, DefKind::Elements { binders, body }, at)?;
            return Ok(Entry::Source(Source::Def(def), class));
        }
        let typed = self.expr(value)?;
        match (typed, class) {
            (Typed::Text(_), _) => Err(Fault::unexpected(value.at, "a string", "numbers")
                .with_help("strings can only be compared")),
            (Typed::List(list), None) => {
                self.must_be_early(|see| list.walk(see), value.at, "a list")?;
                let slot = self.new_list(false);
                self.note_name(Entry::List(slot), name);
                self.step(StepKind::List(slot, list), at);
                Ok(Entry::List(slot))
            }
            (Typed::Scalar(class, scalar), None) => {
                if self.lateness(|see| scalar.walk(see)).is_none() {
                    let slot = self.new_number(false, class);
                    self.note_name(Entry::Scalar(slot, class), name);
                    self.step(StepKind::Scalar(slot, scalar), at);
                    return Ok(Entry::Scalar(slot, class));
                }
                let kind = DefKind::Elements { binders: Vec::new(), body: scalar };
                Ok(Entry::Single(self.define(Some(name), class, kind, at)?, class))
            }
            (Typed::Tensor(Whole { source: Some(source), class, .. }), None) => {
                Ok(Entry::Source(source, class))
            }
            (typed, class) => {
                let whole = self.whole(typed, value.at)?;
                let class = class.unwrap_or(whole.class);
                let body = coerced(whole.body, whole.class, class, value.at)?;
                let kind =
                    DefKind::Elements { binders: vec![Binder::Pack(HERE, whole.shape)], body };
                Ok(Entry::Source(Source::Def(self.define(Some(name), class, kind, at)?), class))
            }
        }
    }

    /// Adds a definition and returns its index.
    fn define(
        &mut self,
        name: Option<&str>,
        class: Class,
        kind: DefKind,
        at: Position,
    ) -> Result<usize, Fault> {
        let rank = match &kind {
            DefKind::Select(_) => Some(1),
            DefKind::Elements { binders, .. } => {
                binders.iter().try_fold(0, |rank, binder| match binder {
                    Binder::Index(..) => Some(rank + 1),
                    Binder::Pack(_, extents) => {
                        Some(rank + extents.known_len(&|source| self.rank(source))?)
                    }
                })
            }
        };
        if rank.is_some_and(|rank| rank > crate::eval::MAX_RANK) {
            let most = crate::eval::MAX_RANK;
            let found = format!("rank {}", rank.unwrap_or(0));
            return Err(Fault::unexpected(at, found, format!("at most {most}")));
        }
        let def = self.defs.len();
        self.defs.push(Def { name: name.map(str::to_owned), class, kind, rest_of: None });
        self.ranks.push(rank);
        self.step(StepKind::Def(def), at);
        Ok(def)
    }

    fn step(&mut self, kind: StepKind, at: Position) {
        self.steps.push(Step { at, guards: self.guards.clone(), kind });
    }

    /// Creates an integer.
    fn new_scalar(&mut self, is_local: bool) -> Slot {
        self.new_number(is_local, Class::Int)
    }

    fn new_number(&mut self, is_local: bool, class: Class) -> Slot {
        self.scalars.push(Local { class, name: None, inner: is_local });
        self.scalars.len() - 1
    }

    fn new_list(&mut self, is_local: bool) -> Slot {
        self.lists.push(Local { class: Class::Int, name: None, inner: is_local });
        self.lists.len() - 1
    }

    /// Records the source's name of a scalar or list, for printing.
    fn note_name(&mut self, entry: Entry, name: &str) {
        let local = match entry {
            Entry::Scalar(slot, _) => self.scalars.get_mut(slot),
            Entry::List(slot) => self.lists.get_mut(slot),
            Entry::Source(..)
            | Entry::Param(..)
            | Entry::TextParam(_)
            | Entry::Single(..)
            | Entry::Unknown => None,
        };
        if let Some(local) = local {
            local.name.get_or_insert_with(|| name.to_owned());
        }
    }

    /// Returns the rank of a tensor if it is known without shapes.
    fn rank(&self, source: Source) -> Option<usize> {
        match source {
            Source::Def(def) => self.ranks.get(def).copied().flatten(),
            Source::Input(_) | Source::Param(_) => None,
        }
    }

    fn is_free(&self, name: &str, at: Position) -> Result<(), Fault> {
        if self.names.iter().any(|other| other.word == name) {
            return Err(Fault::new(at, format!("the name `{name}` is in use")));
        }
        Ok(())
    }

    /// Returns the first run-time tensor whose elements a part reads, if any.
    fn lateness(&self, walk: impl FnOnce(&mut dyn FnMut(Seen))) -> Option<(Source, Position)> {
        let mut late = None;
        walk(&mut |seen| {
            if let Seen::Elements(source, at) = seen {
                let is_early = match source {
                    Source::Param(_) => true,
                    Source::Input(input) => {
                        self.signature.inputs.get(input).is_some_and(|port| port.is_static)
                    }
                    Source::Def(_) => false,
                };
                if !is_early && late.is_none() {
                    late = Some((source, at));
                }
            }
        });
        late
    }

    fn must_be_early(
        &self,
        walk: impl FnOnce(&mut dyn FnMut(Seen)),
        at: Position,
        what: &str,
    ) -> Result<(), Fault> {
        match self.lateness(walk) {
            None => Ok(()),
            Some((source, _)) => {
                let name = match source {
                    Source::Input(input) => {
                        self.signature.inputs.get(input).map(|port| port.name.clone())
                    }
                    Source::Def(def) => self.defs.get(def).and_then(|def| def.name.clone()),
                    Source::Param(_) => None,
                };
                let name = name.map_or("a tensor".to_owned(), |name| format!("`{name}`"));
                let message =
                    format!("{what} must depend on shapes and parameters only, and reads {name}");
                Err(Fault::new(at, message))
            }
        }
    }

    /// Whether a part uses an index or a local name that is bound outside of it.
    fn uses_locals(&self, walk: impl FnOnce(&mut dyn FnMut(Seen))) -> bool {
        let (mut used, mut bound) = (HashSet::new(), HashSet::new());
        walk(&mut |seen| {
            match seen {
                Seen::Use(slot) => used.insert((false, slot)),
                Seen::UseList(slot) => used.insert((true, slot)),
                Seen::Bind(slot) => bound.insert((false, slot)),
                Seen::BindList(slot) => bound.insert((true, slot)),
                Seen::Elements(..) | Seen::Dims(_) => false,
            };
        });
        used.difference(&bound).any(|(is_list, slot)| {
            let locals = if *is_list { &self.lists } else { &self.scalars };
            locals.get(*slot).is_some_and(|local| local.inner)
        })
    }
}

fn kind_of(entry: Entry) -> &'static str {
    match entry {
        Entry::Source(Source::Input(_), _) => "the input",
        Entry::Source(..) | Entry::Param(..) | Entry::TextParam(_) => "the parameter",
        Entry::Scalar(..) | Entry::List(_) | Entry::Single(..) | Entry::Unknown => "the name",
    }
}
