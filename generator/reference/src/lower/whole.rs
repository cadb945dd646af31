//! Lowers expressions where a scalar, a list or a whole tensor is expected. A whole tensor is one without indices, as
//! in `x + 1`.

use super::{
    Lowering,
    expr::named,
    typed::{Typed, Whole, coerced},
};
use crate::{
    fault::{Fault, Position},
    ir::{Binder, DefKind, HERE, List, Scalar, Source, StepKind},
    signature::Class,
    syntax::Expr,
};

impl Lowering<'_> {
    /// Lowers the expression as a scalar of any class.
    pub(super) fn scalar(&mut self, expr: &Expr) -> Result<(Class, Scalar), Fault> {
        match self.expr(expr)? {
            Typed::Scalar(class, scalar) => Ok((class, scalar)),
            typed => {
                let fault = Fault::unexpected(expr.at, typed.describe(), "a scalar");
                Err(match typed {
                    Typed::Tensor(_) => fault.with_help("read one element as `name[i, ..]`"),
                    _ => fault,
                })
            }
        }
    }

    /// Lowers the expression as a scalar of this class.
    pub(super) fn number(&mut self, expr: &Expr, class: Class) -> Result<Scalar, Fault> {
        let (actual_class, scalar) = self.scalar(expr)?;
        coerced(scalar, actual_class, class, expr.at)
    }

    /// Lowers the expression as an early scalar: one that depends on shapes and parameters only, not on elements.
    pub(super) fn early_scalar(
        &mut self,
        expr: &Expr,
        class: Class,
        what: &str,
    ) -> Result<Scalar, Fault> {
        let scalar = self.number(expr, class)?;
        self.must_be_early(|see| scalar.walk(see), expr.at, what)?;
        Ok(scalar)
    }

    /// Applies a function to each pair of elements.
    pub(super) fn pair(
        &mut self,
        left: Typed,
        right: Typed,
        class: Class,
        at: Position,
        function: impl FnOnce(Scalar, Scalar) -> Scalar,
    ) -> Result<Typed, Fault> {
        let (shape, a, b) = match (left, right) {
            (Typed::Scalar(_, a), Typed::Scalar(_, b)) => {
                return Ok(Typed::Scalar(class, function(a, b)));
            }
            (Typed::Tensor(a), Typed::Scalar(_, b)) => (a.shape, a.body, b),
            (Typed::Scalar(_, a), Typed::Tensor(b)) => (b.shape, a, b.body),
            (left, right) => {
                let (a, b) = (self.whole(left, at)?, self.whole(right, at)?);
                let has_same_shape =
                    matches!((&a.shape, &b.shape), (List::Dims(a), List::Dims(b)) if a == b);
                let shape = if has_same_shape {
                    a.shape
                } else {
                    List::Broadcast(vec![a.shape, b.shape], at)
                };
                (shape, a.body, b.body)
            }
        };
        Ok(Typed::Tensor(Whole { class, shape, body: function(a, b), source: None }))
    }

    /// Converts the expression to a tensor: a scalar has no axes, a list has one.
    pub(super) fn whole(&mut self, typed: Typed, at: Position) -> Result<Whole, Fault> {
        match typed {
            Typed::Tensor(whole) => Ok(whole),
            Typed::Scalar(class, body) => {
                Ok(Whole { class, shape: List::Items(Vec::new()), body, source: None })
            }
            Typed::List(list) => {
                let list = self.store_list(list, at)?;
                let shape =
                    List::Items(vec![crate::ir::Item::One(Scalar::Len(Box::new(list.clone())))]);
                let here = List::Var(HERE).item(Scalar::Int(0), at);
                // After broadcasting, the list's coordinate is the last one.
                let list_coord = List::Align(Box::new(List::Var(HERE)), Box::new(shape.clone()));
                let body = Scalar::There(Box::new(list_coord), Box::new(list.item(here, at)));
                Ok(Whole { class: Class::Int, shape, body, source: None })
            }
            Typed::Text(_) => Err(Fault::unexpected(at, "a string", "a scalar or a tensor")),
        }
    }

    /// Returns the source of the tensor's elements. Adds a definition if no source stores them.
    pub(super) fn source(&mut self, whole: Whole, at: Position) -> Result<Source, Fault> {
        if let Some(source) = whole.source {
            return Ok(source);
        }
        let kind =
            DefKind::Elements { binders: vec![Binder::Pack(HERE, whole.shape)], body: whole.body };
        self.hoisted(kind, whole.class, at)
    }

    /// Adds a definition of a tensor before the definition that is being lowered.
    pub(super) fn hoisted(
        &mut self,
        kind: DefKind,
        class: Class,
        at: Position,
    ) -> Result<Source, Fault> {
        let depends_on_locals = match &kind {
            DefKind::Elements { binders, body } => self.uses_locals(|see| {
                for binder in binders {
                    binder.walk(see);
                }
                body.walk(see);
            }),
            DefKind::Select(select) => self.uses_locals(|see| select.walk(see)),
        };
        if depends_on_locals {
            let found = "an index or a local name in a whole-tensor expression";
            let expected = "an expression over indices, as in `sum[k < n](x[i, k])`";
            return Err(Fault::unexpected(at, found, expected));
        }
        Ok(Source::Def(self.define(None, class, kind, at)?))
    }

    /// Gives the whole tensor a definition of its own, so that its elements are computed once.
    pub(super) fn materialized(&mut self, whole: Whole, at: Position) -> Result<Whole, Fault> {
        let class = whole.class;
        Ok(named(self.source(whole, at)?, class, at))
    }

    /// Lowers the expression as a list.
    pub(super) fn list(&mut self, expr: &Expr) -> Result<List, Fault> {
        match self.expr(expr)? {
            Typed::List(list) => Ok(list),
            // A vector of integers that depends on shapes and parameters only.
            Typed::Tensor(whole) if whole.class == Class::Int => {
                let source = self.source(whole, expr.at)?;
                let slot = self.new_scalar(true);
                let count = List::Dims(source).item(Scalar::Int(0), expr.at);
                let coords = List::Items(vec![crate::ir::Item::One(Scalar::Var(slot))]);
                let read = Scalar::read(source, coords, expr.at);
                Ok(List::For(slot, Box::new(count), Box::new(read)))
            }
            typed => Err(Fault::unexpected(expr.at, typed.describe(), "a list of integers")),
        }
    }

    /// Stores the list so that it is computed once, unless it is cheap.
    pub(super) fn store_list(&mut self, list: List, at: Position) -> Result<List, Fault> {
        if matches!(list, List::Dims(_) | List::Var(_)) || self.uses_locals(|see| list.walk(see)) {
            return Ok(list);
        }
        self.must_be_early(|see| list.walk(see), at, "a list")?;
        let slot = self.new_list(false);
        self.step(StepKind::List(slot, list), at);
        Ok(List::Var(slot))
    }
}
