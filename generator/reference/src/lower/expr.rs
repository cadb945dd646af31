//! Lowers expressions: names, operators, choices and local names.

use super::{
    Entry, Lowering,
    typed::{Typed, Whole, class_of, each, of_class},
};
use crate::{
    fault::{Fault, Position},
    function::{Binary, Takes, Unary},
    ir::{Guard, HERE, Item, List, Scalar, Seen, Source, StepKind},
    signature::Class,
    syntax::{self, Expr, Infix, Kind, Prefix},
    words::did_you_mean,
};

impl Lowering<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Typed, Fault> {
        let at = expr.at;
        match &expr.kind {
            Kind::Int(value) => Ok(Typed::Scalar(Class::Int, Scalar::Int(*value))),
            Kind::Float(value) => Ok(Typed::Scalar(Class::Float, Scalar::Float(*value))),
            Kind::Bool(value) => Ok(Typed::Scalar(Class::Bool, Scalar::Bool(*value))),
            Kind::Text(text) => Ok(Typed::Text(crate::ir::Text::Literal(text.clone()))),
            Kind::Name(name) => self.name(name, at),
            Kind::Unary(Prefix::Neg, operand) => match self.expr(operand)? {
                Typed::Scalar(class, Scalar::Int(value)) => {
                    Ok(Typed::Scalar(class, Scalar::Int(value.wrapping_neg())))
                }
                Typed::Scalar(class, Scalar::Float(value)) => {
                    Ok(Typed::Scalar(class, Scalar::Float(-value)))
                }
                operand => unary(Unary::NEG, operand, at),
            },
            Kind::Unary(Prefix::Not, operand) => {
                let operand = self.expr(operand)?;
                let operand = of_class(operand, Class::Bool, at)?;
                each(operand, Class::Bool, at, |scalar| Scalar::Not(Box::new(scalar)))
            }
            Kind::Binary(op, left, right) => self.infix(*op, left, right, at),
            Kind::If(condition, then, otherwise) => self.choice(condition, then, otherwise, at),
            Kind::Let(name, value, body) => self.local(name, value, body, at),
            Kind::Call(name, args) => self.call(name, args, at),
            Kind::Fold(name, binders, kept, args) => {
                self.fold(name, binders, kept.as_deref(), args, at)
            }
            Kind::Index(base, items, outside) => self.index(base, items, outside.as_deref(), at),
            Kind::List(items) => Ok(Typed::List(List::Items(self.items(items)?))),
            Kind::For(name, count, body) => {
                let count = self.number(count, Class::Int)?;
                self.is_free(name, at)?;
                let slot = self.new_scalar(true);
                self.push_local(name, Entry::Scalar(slot, Class::Int), at);
                let body = self.number(body, Class::Int);
                self.names.pop();
                Ok(Typed::List(List::For(slot, Box::new(count), Box::new(body?))))
            }
        }
    }

    pub(super) fn push_local(&mut self, name: &str, entry: Entry, at: Position) {
        self.note_name(entry, name);
        // Local names are removed at the end, so their use is not checked.
        self.names.push(super::Name { word: name.to_owned(), entry, at: Some(at), is_used: true });
    }

    fn name(&mut self, name: &str, at: Position) -> Result<Typed, Fault> {
        let Some(found) = self.names.iter_mut().find(|other| other.word == name) else {
            let help = did_you_mean(name, self.names.iter().map(|other| other.word.as_str()));
            return Err(Fault { help, ..Fault::new(at, format!("`{name}` is not defined")) });
        };
        found.is_used = true;
        let entry = found.entry;
        if let Entry::Source(Source::Input(input), _) = entry
            && self
                .signature
                .inputs
                .get(input)
                .is_some_and(|port| port.optional && port.default.is_none())
            && !self.present.contains(&input)
        {
            let problem = format!("the input `{name}` is optional");
            let help = format!("use it in the `then` branch of `if present({name})`");
            return Err(Fault::new(at, problem).with_help(help));
        }
        match entry {
            Entry::Source(source, class) => Ok(Typed::Tensor(named(source, class, at))),
            Entry::Scalar(slot, class) => Ok(Typed::Scalar(class, Scalar::Var(slot))),
            Entry::List(slot) => Ok(Typed::List(List::Var(slot))),
            Entry::Param(param, class) => Ok(Typed::Scalar(class, Scalar::Param(param))),
            Entry::TextParam(param) => Ok(Typed::Text(crate::ir::Text::Param(param))),
            Entry::Single(def, class) => {
                let read = Scalar::read(Source::Def(def), List::Items(Vec::new()), at);
                Ok(Typed::Scalar(class, read))
            }
            Entry::Unknown => Err(Fault::consequence(at)),
        }
    }

    fn infix(
        &mut self,
        op: Infix,
        left: &Expr,
        right: &Expr,
        at: Position,
    ) -> Result<Typed, Fault> {
        let (known, guards) = (self.present.len(), self.guards.len());
        let first = self.expr(left)?;
        // The condition on the left side of an `and` holds on its right side.
        if op == Infix::And {
            self.note_present(left, true);
            self.guard_present(known, at);
        }
        let second = self.expr(right);
        self.present.truncate(known);
        self.guards.truncate(guards);
        let second = second?;
        let binary = match op {
            Infix::And | Infix::Or => {
                let first = of_class(first, Class::Bool, left.at)?;
                let second = of_class(second, Class::Bool, right.at)?;
                return self.pair(first, second, Class::Bool, at, |a, b| {
                    let (a, b) = (Box::new(a), Box::new(b));
                    if op == Infix::And { Scalar::And(a, b) } else { Scalar::Or(a, b) }
                });
            }
            Infix::Eq => Binary::Eq,
            Infix::Ne => Binary::Ne,
            Infix::Lt => Binary::Lt,
            Infix::Le => Binary::Le,
            Infix::Gt => Binary::Gt,
            Infix::Ge => Binary::Ge,
            Infix::Add => Binary::Add,
            Infix::Sub => Binary::Sub,
            Infix::Mul => Binary::Mul,
            Infix::Div => Binary::Div,
            Infix::FloorDiv => Binary::FloorDiv,
            Infix::Mod => Binary::Mod,
        };
        if let (Typed::Text(a), Typed::Text(b)) = (&first, &second) {
            let is = Scalar::TextIs(a.clone(), b.clone());
            return match binary {
                Binary::Eq => Ok(Typed::Scalar(Class::Bool, is)),
                Binary::Ne => Ok(Typed::Scalar(Class::Bool, Scalar::Not(Box::new(is)))),
                _ => Err(Fault::unexpected(
                    at,
                    format!("`{}` of strings", op.sign()),
                    "`==` or `!=`",
                )),
            };
        }
        self.binary(binary, op.sign(), first, second, at)
    }

    /// Lowers an element-wise function of two operands.
    pub(super) fn binary(
        &mut self,
        op: Binary,
        sign: &str,
        left: Typed,
        right: Typed,
        at: Position,
    ) -> Result<Typed, Fault> {
        let (a, b) = (class_of(&left, at)?, class_of(&right, at)?);
        let is_bool = a == Class::Bool || b == Class::Bool;
        let class = if a == b {
            a
        } else if is_bool {
            let found = format!("`{sign}` of {} and {}", a.word(), b.word());
            return Err(Fault::unexpected(at, found, "two values of the same type"));
        } else {
            Class::Float
        };
        match op.takes() {
            Takes::Numbers | Takes::Floats | Takes::Ints | Takes::Ordered if is_bool => {
                return Err(Fault::unexpected(at, format!("`{sign}` of bools"), "numbers"));
            }
            Takes::Floats if class == Class::Int => {
                let instead = if op == Binary::Div {
                    "`//`, `trunc_div`, or `float(..)` of an operand"
                } else {
                    "`float(..)` of an operand"
                };
                return Err(Fault::unexpected(at, format!("`{sign}` of two integers"), instead));
            }
            Takes::Ints if class == Class::Float => {
                let instead = if op == Binary::FloorDiv { "`floor(a / b)`" } else { "integers" };
                return Err(Fault::unexpected(at, format!("`{sign}` of floats"), instead));
            }
            Takes::Numbers | Takes::Floats | Takes::Ints | Takes::Ordered | Takes::Same => {}
        }
        let (left, right) = (of_class(left, class, at)?, of_class(right, class, at)?);
        self.pair(left, right, op.result(class), at, |a, b| Scalar::binary(op, a, b, at))
    }

    fn choice(
        &mut self,
        condition: &Expr,
        then: &Expr,
        otherwise: &Expr,
        at: Position,
    ) -> Result<Typed, Fault> {
        let test = self.expr(condition)?;
        let test = of_class(test, Class::Bool, condition.at)?;
        let (test, guard) = self.as_guard(test, condition.at);
        let (known, guards) = (self.present.len(), self.guards.len());
        self.note_present(condition, true);
        match guard {
            Some(slot) => self.guards.push(Guard { slot, holds: true }),
            None => self.guard_present(known, condition.at),
        }
        let first = self.expr(then);
        self.present.truncate(known);
        self.guards.truncate(guards);
        self.note_present(condition, false);
        match guard {
            Some(slot) => self.guards.push(Guard { slot, holds: false }),
            None => self.guard_present(known, condition.at),
        }
        let second = self.expr(otherwise);
        self.present.truncate(known);
        self.guards.truncate(guards);
        let (first, second) = (first?, second?);
        if let (Typed::List(_), Typed::List(_), Typed::Scalar(_, scalar)) = (&first, &second, &test)
        {
            let scalar = Box::new(scalar.clone());
            let (Typed::List(a), Typed::List(b)) = (first, second) else {
                return Err(Fault::consequence(at));
            };
            return Ok(Typed::List(List::If(scalar, Box::new(a), Box::new(b))));
        }
        let (a, b) = (class_of(&first, then.at)?, class_of(&second, otherwise.at)?);
        let class = match (a, b) {
            _ if a == b => a,
            (Class::Bool, _) | (_, Class::Bool) => {
                let found = format!("{} after `then` and {} after `else`", a.word(), b.word());
                return Err(Fault::unexpected(at, found, "two values of the same type"));
            }
            _ => Class::Float,
        };
        let (first, second) =
            (of_class(first, class, then.at)?, of_class(second, class, otherwise.at)?);
        self.chosen(test, first, second, (class, guard.is_some()), at)
    }

    /// Lowers a choice between two values of one class.
    fn chosen(
        &mut self,
        test: Typed,
        first: Typed,
        second: Typed,
        (class, is_early): (Class, bool),
        at: Position,
    ) -> Result<Typed, Fault> {
        if let (Typed::Scalar(_, test), Typed::Scalar(_, a), Typed::Scalar(_, b)) =
            (&test, &first, &second)
        {
            return Ok(Typed::Scalar(class, Scalar::choice(test.clone(), a.clone(), b.clone())));
        }
        let is_number = matches!(test, Typed::Scalar(..));
        let (test, a, b) = (self.whole(test, at)?, self.whole(first, at)?, self.whole(second, at)?);
        // Only the chosen branch must have a valid shape.
        let shape = if is_early {
            List::If(Box::new(test.body.clone()), Box::new(a.shape), Box::new(b.shape))
        } else if is_number {
            List::Broadcast(vec![a.shape, b.shape], at)
        } else {
            List::Broadcast(vec![test.shape, a.shape, b.shape], at)
        };
        let body = Scalar::choice(test.body, a.body, b.body);
        Ok(Typed::Tensor(Whole { class, shape, body, source: None }))
    }

    /// Stores an early condition as a scalar that guards the parts of one branch.
    fn as_guard(&mut self, test: Typed, at: Position) -> (Typed, Option<usize>) {
        let Typed::Scalar(class, scalar) = test else { return (test, None) };
        if self.lateness(|see| scalar.walk(see)).is_some()
            || self.uses_locals(|see| scalar.walk(see))
        {
            return (Typed::Scalar(class, scalar), None);
        }
        let slot = self.new_number(false, class);
        self.step(StepKind::Scalar(slot, scalar), at);
        (Typed::Scalar(class, Scalar::Var(slot)), Some(slot))
    }

    /// Records the optional inputs that are present if the condition holds, or if it does not.
    fn note_present(&mut self, condition: &Expr, holds: bool) {
        match &condition.kind {
            Kind::Call(name, args) if name == "present" && holds => {
                if let [Expr { kind: Kind::Name(name), .. }] = args.plain.as_slice() {
                    let input = self.signature.inputs.iter().position(|port| port.name == *name);
                    self.present.extend(input);
                }
            }
            Kind::Unary(Prefix::Not, operand) => self.note_present(operand, !holds),
            Kind::Binary(Infix::And, left, right) if holds => {
                self.note_present(left, true);
                self.note_present(right, true);
            }
            Kind::Binary(Infix::Or, left, right) if !holds => {
                self.note_present(left, false);
                self.note_present(right, false);
            }
            _ => {}
        }
    }

    /// Makes early steps wait for the presence of the inputs recorded from `known` on.
    fn guard_present(&mut self, known: usize, at: Position) {
        let noted: Vec<usize> = self.present.iter().skip(known).copied().collect();
        for input in noted {
            let slot = self.new_number(false, Class::Bool);
            self.step(StepKind::Scalar(slot, Scalar::Present(input)), at);
            self.guards.push(Guard { slot, holds: true });
        }
    }

    fn local(
        &mut self,
        name: &str,
        value: &Expr,
        body: &Expr,
        at: Position,
    ) -> Result<Typed, Fault> {
        self.is_free(name, at)?;
        let typed = self.expr(value)?;
        // An early value may be part of a shape, and is evaluated with the shapes.
        let (typed, early) = self.as_guard(typed, at);
        if let (Typed::Scalar(class, _), Some(slot)) = (&typed, early) {
            self.push_local(name, Entry::Scalar(slot, *class), at);
            let body = self.expr(body);
            self.names.pop();
            return body;
        }
        if let Typed::Scalar(class, scalar) = typed {
            let slot = self.new_number(true, class);
            self.push_local(name, Entry::Scalar(slot, class), at);
            let body = self.expr(body);
            self.names.pop();
            let bound = |body| Scalar::Let(slot, Box::new(scalar), Box::new(body));
            return match body? {
                Typed::Scalar(class, body) => Ok(Typed::Scalar(class, bound(body))),
                Typed::Tensor(whole) => {
                    let mut is_in_shape = false;
                    whole.shape.walk(&mut |seen| is_in_shape |= seen == Seen::Use(slot));
                    if is_in_shape {
                        let message = format!(
                            "`{name}` is part of a shape and must depend on shapes and parameters only"
                        );
                        return Err(Fault::new(value.at, message));
                    }
                    let body = bound(whole.body);
                    Ok(Typed::Tensor(Whole { body, source: None, ..whole }))
                }
                Typed::List(_) | Typed::Text(_) => {
                    Err(Fault::new(at, "a local name cannot be used in a list")
                        .with_help("write its value in the list"))
                }
            };
        }
        let Typed::Tensor(whole) = typed else {
            return Err(Fault::unexpected(value.at, typed.describe(), "a scalar or a tensor"));
        };
        let class = whole.class;
        let entry = Entry::Source(self.source(whole, value.at)?, class);
        self.push_local(name, entry, at);
        let body = self.expr(body);
        self.names.pop();
        body
    }

    /// Lowers items of a list.
    pub(super) fn items(&mut self, items: &[syntax::Item]) -> Result<Vec<Item>, Fault> {
        let mut all = Vec::new();
        for item in items {
            all.push(match item {
                syntax::Item::One(expr) => Item::One(self.number(expr, Class::Int)?),
                syntax::Item::Spread(expr) => Item::Spread(self.list(expr)?),
                syntax::Item::Slice(from, to) => {
                    let at = from
                        .as_ref()
                        .or(to.as_ref())
                        .map_or(Position { line: 1, column: 1 }, |end| end.at);
                    return Err(Fault::unexpected(at, "a slice", "one slice of a list"));
                }
            });
        }
        Ok(all)
    }
}

/// Returns a named or an earlier computed tensor.
pub(super) fn named(source: Source, class: Class, at: Position) -> Whole {
    let coords = List::Align(Box::new(List::Var(HERE)), Box::new(List::Dims(source)));
    Whole {
        class,
        shape: List::Dims(source),
        body: Scalar::read(source, coords, at),
        source: Some(source),
    }
}

/// Lowers an element-wise function of one operand.
pub(super) fn unary(function: Unary, operand: Typed, at: Position) -> Result<Typed, Fault> {
    let class = class_of(&operand, at)?;
    let name = function.row().name;
    let expected = match class {
        Class::Int if function.takes_ints() => Class::Int,
        Class::Int | Class::Float => Class::Float,
        Class::Bool => {
            return Err(Fault::unexpected(at, format!("`{name}` of bool"), "a number"));
        }
    };
    let operand = of_class(operand, expected, at)?;
    each(operand, expected, at, |scalar| Scalar::Unary(function, Box::new(scalar)))
}
