//! Prints scalars: an expression for each, and preceding statements if necessary.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    Printer,
    language::{Kind, Language, Real},
    plain::{bare, plain, without_unused_names},
    support::has_bare,
};
use crate::{
    function::Binary,
    ir::{Fold, List, Read, Scalar, Slot},
    signature::{Class, ParamKind},
};

#[derive(Clone)]
pub(super) struct Emitter<'a> {
    pub(super) printer: &'a Printer<'a>,
    pub(super) real: Real,
    text: String,
    depth: usize,
    temporaries: usize,
    /// The names of local values, for languages without shadowing.
    named: BTreeMap<Slot, String>,
    /// The names of the rests of local values.
    pub(super) rests: BTreeMap<Slot, String>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(printer: &'a Printer<'a>, real: Real) -> Self {
        Self {
            printer,
            real,
            text: String::new(),
            depth: 0,
            temporaries: 0,
            named: BTreeMap::new(),
            rests: BTreeMap::new(),
        }
    }

    /// Returns the statements as the body of a function.
    pub(super) fn function(&self) -> String {
        self.indented(1)
    }

    /// Returns the statements as a block in a function.
    pub(super) fn block(&self) -> String {
        self.indented(2)
    }

    fn indented(&self, by: usize) -> String {
        let line = |line: &str| format!("{}{line}\n", "    ".repeat(by));
        if self.language().shadows() {
            without_unused_names(&self.text).lines().map(line).collect()
        } else {
            self.text.lines().map(line).collect()
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        for line in line.lines() {
            let _ = writeln!(self.text, "{}{}", "    ".repeat(self.depth), plain(line));
        }
    }

    pub(super) fn language(&self) -> &'a dyn Language {
        self.printer.language
    }

    /// Opens a block at the last line of its head.
    pub(super) fn open(&mut self, head: &str) {
        self.line(&format!("{head} {{").replace("\n {", "\n{"));
        self.depth += 1;
    }

    pub(super) fn close(&mut self, end: &str) {
        self.depth = self.depth.saturating_sub(1);
        self.line(end);
    }

    pub(super) fn deeper(&mut self) {
        self.depth += 1;
    }

    /// Inserts the statements of another emitter before those here.
    pub(super) fn after(&mut self, before: &Self) {
        self.text.insert_str(0, &before.text);
    }

    /// Creates an emitter that continues the numbering of temporaries.
    pub(super) fn continued(&self) -> Self {
        Self { text: String::new(), named: self.named.clone(), rests: self.rests.clone(), ..*self }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn temporary(&mut self) -> String {
        self.temporaries += 1;
        format!("t{}", self.temporaries)
    }

    /// Binds the value to a new name.
    pub(super) fn bound(&mut self, kind: Kind, value: &str) -> String {
        let name = self.temporary();
        self.line(&self.language().bind(kind, &name, bare(value)));
        name
    }

    /// Returns the value as an expression that needs no brackets.
    pub(super) fn atom(&mut self, class: Class, value: &str) -> String {
        if value.starts_with(['(', '!']) || matches!(value, "true" | "false") {
            self.bound(self.kind(class), value)
        } else {
            value.to_owned()
        }
    }

    pub(super) fn int(&self) -> Kind {
        Kind::Number(Class::Int, self.real)
    }

    pub(super) fn kind(&self, class: Class) -> Kind {
        Kind::Number(class, self.real)
    }

    /// Prints a field of the plan as a number.
    fn field(&self, name: &str, class: Class) -> String {
        self.language().field(name, class, self.real)
    }

    pub(super) fn class(&self, scalar: &Scalar) -> Class {
        let printer = self.printer;
        match scalar {
            Scalar::Float(_) => Class::Float,
            Scalar::Int(_)
            | Scalar::Item(..)
            | Scalar::Len(_)
            | Scalar::Product(_)
            | Scalar::Ravel(..) => Class::Int,
            Scalar::Bool(_)
            | Scalar::Present(_)
            | Scalar::TextIs(..)
            | Scalar::Not(_)
            | Scalar::And(..)
            | Scalar::Or(..) => Class::Bool,
            Scalar::Param(param) => {
                match printer.signature.params.get(*param).map(|param| param.kind) {
                    Some(ParamKind::Scalar(class)) => class,
                    _ => Class::Bool,
                }
            }
            Scalar::Var(slot) => {
                printer.code.scalars.get(*slot).map_or(Class::Int, |local| local.class)
            }
            Scalar::Read(read) => printer.class(read.source),
            Scalar::Unary(_, operand) => self.class(operand),
            Scalar::Binary(op, left, _, _) => op.result(self.class(left)),
            Scalar::Cast(class, _) => *class,
            Scalar::If(_, then, _) => self.class(then),
            Scalar::Let(_, _, body) | Scalar::There(_, body) => self.class(body),
            Scalar::Fold(fold) => match fold.fold {
                Fold::Sum | Fold::Prod | Fold::Max | Fold::Min => fold.class,
                Fold::Mean => Class::Float,
                Fold::ArgMax | Fold::ArgMin | Fold::Count => Class::Int,
                Fold::Any | Fold::All => Class::Bool,
            },
        }
    }

    pub(super) fn scalar(&mut self, scalar: &Scalar) -> String {
        match scalar {
            Scalar::Float(value) => self.language().float(*value, self.real),
            Scalar::Int(value) => self.language().int(*value),
            Scalar::Bool(value) => value.to_string(),
            Scalar::Param(param) => {
                self.field(self.printer.names.param(*param), self.class(scalar))
            }
            Scalar::Var(slot) => {
                let name = self.printer.names.scalar(*slot);
                let is_local =
                    self.printer.code.scalars.get(*slot).is_some_and(|local| local.inner);
                match self.named.get(slot) {
                    Some(name) => name.clone(),
                    None if is_local => name.to_owned(),
                    None => self.field(name, self.class(scalar)),
                }
            }
            Scalar::Item(list, at, _) => {
                let (list, at) = (self.list(list), self.scalar(at));
                self.language().fallible(format!("list_item({list}, {at})"))
            }
            Scalar::Len(list) => format!("list_len({})", self.list(list)),
            Scalar::Product(list) => format!("list_size({})", self.list(list)),
            Scalar::Ravel(coords, dims) => {
                let (coords, dims) = (self.list(coords), self.list(dims));
                format!("list_ravel({coords}, {dims})")
            }
            Scalar::Present(input) => format!("plan.{}", self.printer.names.present(*input)),
            Scalar::TextIs(left, right) => format!("plan.{}", self.printer.names.text(left, right)),
            Scalar::Read(read) => self.read(read),
            Scalar::Unary(function, operand) => {
                let class = self.class(operand);
                let operand = self.scalar(operand);
                self.language().unary(function.row().name, class, &operand, self.real)
            }
            Scalar::Binary(op, left, right, _) => match self.difference(scalar) {
                Some(difference) => difference,
                None => self.binary(*op, left, right),
            },
            Scalar::Cast(class, operand) => {
                if let (Class::Float, Scalar::Int(value)) = (class, &**operand)
                    && let Ok(value) = i16::try_from(*value)
                {
                    return self.language().float(value.into(), self.real);
                }
                let found = self.class(operand);
                let operand = self.scalar(operand);
                self.cast(*class, found, &operand)
            }
            Scalar::Not(operand) => {
                let operand = self.scalar(operand);
                format!("!{}", self.atom(Class::Bool, &operand))
            }
            Scalar::And(left, right) => self.choice(left, right, &Scalar::Bool(false)),
            Scalar::Or(left, right) => self.choice(left, &Scalar::Bool(true), right),
            Scalar::If(condition, then, otherwise) => self.choice(condition, then, otherwise),
            Scalar::Let(slot, value, body) => self.with_local(*slot, value, body),
            Scalar::There(list, body) => self.there(list, body),
            Scalar::Fold(fold) => self.fold(fold),
        }
    }

    /// Prints a local value and its body.
    fn with_local(&mut self, slot: Slot, value: &Scalar, body: &Scalar) -> String {
        if let Some(result) = self.with_wide_local(slot, value, body) {
            return result;
        }
        let kind = self.kind(self.class(value));
        let before = self.text.len();
        let value = self.scalar(value);
        let (name, bound) = (self.local(slot), self.text.len());
        self.line(&self.language().bind(kind, &name, bare(&value)));
        let after = self.text.len();
        let result = self.scalar(body);
        let body = self.text.split_off(after);
        if body.is_empty() && result == name {
            self.text.truncate(bound);
            return value;
        }
        if !has_bare(&body, &name) && !has_bare(&result, &name) {
            self.text.truncate(bound);
            self.leave_out(before, &value);
        }
        self.text.push_str(&body);
        result
    }

    /// Removes the statements from there on, whose value is not read; statements that may fail stay, since failing is
    /// part of the meaning.
    fn leave_out(&mut self, from: usize, value: &str) {
        let statements = self.text.get(from..).unwrap_or_default();
        let refuses = |text: &str| text.contains('?') || has_bare(text, "return");
        if self.language().shadows() && (refuses(statements) || refuses(value)) {
            self.line(&format!("let _ = {};", bare(value)));
        } else {
            self.text.truncate(from);
        }
    }

    fn binary(&mut self, op: Binary, left: &Scalar, right: &Scalar) -> String {
        let class = self.class(left);
        let limited = limited(op, left, right);
        if let Some((of, [low, high])) = limited
            && low <= high
        {
            let of = self.scalar(of);
            let limits = [low, high].map(|limit| self.language().int(limit));
            return self.language().clamp(&of, limits.each_ref().map(String::as_str), self.real);
        }
        let is_known = [(left, right), (right, left)].map(|(side, other)| {
            is_odd(op, side, other) || limited.is_some() && matches!(side, Scalar::Int(_))
        });
        let mut sides = [left, right].map(|side| self.scalar(side));
        let is_one = sides[0] == sides[1] && says_nothing(op);
        if is_one && (op, class) == (Binary::Ne, Class::Float) {
            return self.language().is_nan(&sides[0]);
        }
        // Compilers warn about operators between equal operands and about operations without effect.
        for (side, is_bound) in sides.iter_mut().zip([is_known[0], is_known[1] || is_one]) {
            if is_bound {
                *side = self.bound(self.kind(class), side);
            }
        }
        self.language().binary(op, class, sides.each_ref().map(String::as_str), self.real)
    }

    /// Prints a choice that computes only one branch.
    fn choice(&mut self, condition: &Scalar, then: &Scalar, otherwise: &Scalar) -> String {
        let kind = self.kind(self.class(then));
        self.one_of(
            kind,
            condition,
            |emitter| emitter.scalar(then),
            |emitter| emitter.scalar(otherwise),
        )
    }

    pub(super) fn one_of(
        &mut self,
        kind: Kind,
        condition: &Scalar,
        then: impl FnOnce(&mut Self) -> String,
        otherwise: impl FnOnce(&mut Self) -> String,
    ) -> String {
        let before = self.text.len();
        let condition = self.scalar(condition);
        let result = self.temporary();
        let (then, value) = self.branch(then);
        let (otherwise, other) = self.branch(otherwise);
        self.temporaries = then.temporaries.max(otherwise.temporaries);
        if (&then.text, &value) == (&otherwise.text, &other) {
            self.leave_out(before, &condition);
            self.line(&then.text);
            self.named = then.named;
            return value;
        }
        match (value.as_str(), other.as_str()) {
            ("true", "false") => return condition,
            ("false", "true") => return format!("!{}", self.atom(Class::Bool, &condition)),
            _ => {}
        }
        self.open(&self.language().choose(kind, &result, bare(&condition)));
        self.line(&then.text);
        self.give(&result, &value);
        self.close("} else {");
        self.deeper();
        self.line(&otherwise.text);
        self.give(&result, &other);
        self.close(self.language().close());
        result
    }

    /// Appends the statements of a block.
    pub(super) fn take(&mut self, block: &Self) {
        self.temporaries = block.temporaries;
        self.named.clone_from(&block.named);
        self.line(&block.text);
    }

    /// Prints the statements and the value of a branch; equal parts of two branches are equal strings.
    pub(super) fn branch(&self, print: impl FnOnce(&mut Self) -> String) -> (Self, String) {
        let mut branch = self.continued();
        branch.depth = 0;
        let value = print(&mut branch);
        (branch, value)
    }

    /// Prints the last line of a block that returns a value.
    pub(super) fn give(&mut self, result: &str, value: &str) {
        self.line(&self.language().give(result, bare(value)));
    }

    /// Returns the name of a local value at its first use.
    pub(super) fn local(&mut self, slot: Slot) -> String {
        let name = self.printer.names.scalar(slot).to_owned();
        if self.language().shadows() {
            return name;
        }
        // A part of the source that is printed twice needs its names twice.
        let name = match self.named.get(&slot) {
            Some(_) => format!("{name}_{}", self.temporary()),
            None => name,
        };
        self.named.insert(slot, name.clone());
        name
    }

    fn there(&mut self, list: &List, body: &Scalar) -> String {
        let mut there = self.list(list);
        if !self.language().shadows() {
            there = self.bound(Kind::List, &there);
        }
        let kind = self.kind(self.class(body));
        let result = self.temporary();
        self.open(&self.language().block(kind, &result));
        self.line(&self.language().bind(Kind::List, "here", &there));
        let body = self.scalar(body);
        self.give(&result, &body);
        self.close(self.language().close());
        result
    }

    fn read(&mut self, read: &Read) -> String {
        let coords = self.list(&read.coords);
        let dims = self.printer.names.dims(read.source);
        let place = self.bound(self.int(), &format!("place(plan.{dims}, {coords})"));
        let kind = self.kind(self.printer.class(read.source));
        let result = self.temporary();
        self.open(&self.language().choose(kind, &result, &format!("{place} < 0")));
        match &read.outside {
            Some(outside) => {
                let outside = self.scalar(outside);
                self.give(&result, &outside);
            }
            None => {
                self.line(&self.language().refuse(kind, &result, "indices inside of the tensor"));
            }
        }
        self.close("} else {");
        self.deeper();
        let loaded = self.language().load(self.printer, read.source, &place, self.real);
        self.line(&self.language().give(&result, &loaded));
        self.close(self.language().close());
        result
    }

    pub(super) fn cast(&self, to: Class, from: Class, operand: &str) -> String {
        if to == from {
            return operand.to_owned();
        }
        self.language().cast(to, from, operand, self.real)
    }
}

/// Returns the clamped integer with its lower and upper limit, if both are known.
fn limited<'s>(op: Binary, left: &'s Scalar, right: &'s Scalar) -> Option<(&'s Scalar, [i64; 2])> {
    let known = |left: &'s Scalar, right: &'s Scalar| match (left, right) {
        (of, Scalar::Int(limit)) | (Scalar::Int(limit), of) => Some((of, *limit)),
        _ => None,
    };
    let (inner, outer) = known(left, right)?;
    let Scalar::Binary(inner_op, left, right, _) = inner else { return None };
    let (of, inner) = known(left, right)?;
    match (op, inner_op) {
        (Binary::Min, Binary::Max) => Some((of, [inner, outer])),
        (Binary::Max, Binary::Min) => Some((of, [outer, inner])),
        _ => None,
    }
}

/// Whether a constant side determines the result or makes the operator superfluous.
fn is_odd(op: Binary, side: &Scalar, other: &Scalar) -> bool {
    use Binary::{BitAnd, BitOr, BitXor, Eq, Ge, Gt, Le, Lt, Max, Min, Ne};
    match (op, side) {
        (BitAnd | BitOr | BitXor, Scalar::Int(_)) | (Eq | Ne, Scalar::Bool(_)) => true,
        (Eq | Ne | Lt | Le | Gt | Ge, Scalar::Float(value)) => value.is_nan(),
        (Lt | Le | Gt | Ge | Min | Max, Scalar::Int(value)) => {
            [i64::MIN, i64::MAX].contains(value) || matches!(other, Scalar::Int(_))
        }
        _ => false,
    }
}

/// Whether a function of two equal numbers is constant, except for NaN.
fn says_nothing(op: Binary) -> bool {
    use Binary::{BitAnd, BitOr, BitXor, Div, Eq, Ge, Gt, Le, Lt, Ne, Sub};
    matches!(op, Sub | Div | BitAnd | BitOr | BitXor | Eq | Ne | Lt | Le | Gt | Ge)
}
