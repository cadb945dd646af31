//! Prints arithmetic on wide floats: a rounded number, and its rounding error, which is called the rest.
//!
//! Sums and differences of wide floats keep the digits that single precision loses, as in a variance of large numbers.
//!
//! The arithmetic is that of T. J. Dekker, *A floating-point technique for extending the available precision* (1971),
//! with the sums of D. E. Knuth and A. Neumaier. It does not need double precision; kernels are compiled without
//! reordering of sums.

use super::{
    emit::Emitter,
    language::{Kind, Real},
    plain::bare,
    rests::{coordinates, is_arithmetic, is_neg, is_sum, rest_of, subtracted, subtracts},
};
use crate::{
    function::Binary,
    ir::{Binder, List, Read, Scalar, Slot, Source},
    signature::Class,
};

/// A number as the sum of two parts; the second is finite.
pub(super) struct Wide {
    pub(super) high: String,
    pub(super) rest: Option<String>,
}

impl Emitter<'_> {
    /// Whether numbers may have rests: double precision needs none.
    fn has_rests(&self) -> bool {
        self.real == Real::F32
    }

    /// Whether a number has a rest.
    fn is_wide(&self, scalar: &Scalar) -> bool {
        self.has_rests()
            && match scalar {
                Scalar::Fold(_) => is_sum(scalar),
                Scalar::Var(slot) => self.rests.contains_key(slot),
                Scalar::Unary(function, operand) if is_neg(*function) => self.is_wide(operand),
                Scalar::Binary(op, left, right, _) if is_arithmetic(*op) => {
                    self.is_wide(left) || self.is_wide(right)
                }
                _ => self.rest_read(scalar).is_some(),
            }
    }

    /// Returns the expression of the rest of a read, or of a choice between numbers.
    fn rest_read(&self, scalar: &Scalar) -> Option<Scalar> {
        match scalar {
            Scalar::Read(read) => {
                let Source::Def(def) = read.source else { return None };
                let source = Source::Def(rest_of(self.printer.code, def)?);
                let outside = read.outside.as_ref().map(|_| Scalar::Float(0.0));
                Some(Scalar::Read(Box::new(Read { source, outside, ..(**read).clone() })))
            }
            Scalar::If(condition, then, otherwise) => {
                let operands = [then, otherwise].map(|side| self.rest_read(side));
                if operands.iter().all(Option::is_none) {
                    return None;
                }
                let [then, otherwise] = operands.map(|side| side.unwrap_or(Scalar::Float(0.0)));
                Some(Scalar::choice((**condition).clone(), then, otherwise))
            }
            Scalar::There(list, body) => {
                Some(Scalar::There(list.clone(), Box::new(self.rest_read(body)?)))
            }
            _ => None,
        }
    }

    /// Prints a number, with its rest if it has one.
    fn wide(&mut self, scalar: &Scalar) -> Wide {
        if !self.is_wide(scalar) {
            return Wide { high: self.scalar(scalar), rest: None };
        }
        match scalar {
            Scalar::Fold(fold) => self.wide_fold(fold),
            Scalar::Unary(function, operand) if is_neg(*function) => {
                let wide = self.wide(operand);
                let language = self.language();
                let minus =
                    |number: &String| language.unary("neg", Class::Float, number, Real::F32);
                Wide { high: minus(&wide.high), rest: wide.rest.as_ref().map(minus) }
            }
            Scalar::Binary(op, left, right, _) => {
                let operands = [left, right].map(|side| {
                    let wide = self.wide(side);
                    let high = self.bound_float(&wide.high);
                    Wide { high, ..wide }
                });
                self.wide_binary(*op, &operands)
            }
            Scalar::Var(slot) => {
                Wide { high: self.scalar(scalar), rest: self.rests.get(slot).cloned() }
            }
            scalar => {
                let high = self.scalar(scalar);
                let rest = self.rest_read(scalar).map(|read| self.scalar(&read));
                Wide { high, rest }
            }
        }
    }

    /// Prints an operation on two wide numbers.
    fn wide_binary(&mut self, op: Binary, [left, right]: &[Wide; 2]) -> Wide {
        let language = self.language();
        let (a, b) = (left.high.as_str(), right.high.as_str());
        let rounded = language.binary(op, Class::Float, [a, b], Real::F32);
        let high = self.bound_float(&rounded);
        let zero = language.float(0.0, Real::F32);
        let [a_rest, b_rest] = [left, right].map(|side| side.rest.as_deref().unwrap_or(&zero));
        let rest = match op {
            Binary::Mul => language.helper("product_rest", &[&high, a, a_rest, b, b_rest]),
            Binary::Div => language.helper("quotient_rest", &[&high, a, a_rest, b, b_rest]),
            _ => {
                let minus = |number: &str| language.unary("neg", Class::Float, number, Real::F32);
                let b = if op == Binary::Sub { minus(b) } else { b.to_owned() };
                let sum_error = language.helper("sum_rest", &[a, bare(&b)]);
                let rests = language.binary(op, Class::Float, [a_rest, b_rest], Real::F32);
                let rest =
                    language.binary(Binary::Add, Class::Float, [&sum_error, &rests], Real::F32);
                language.helper("finite", &[bare(&rest)])
            }
        };
        Wide { high, rest: Some(rest) }
    }

    /// Declares a local float with this value, and returns its name.
    pub(super) fn bound_float(&mut self, value: &str) -> String {
        self.bound(Kind::Number(Class::Float, self.real), value)
    }

    /// Prints a term of a sum, with its rounding error if it is a product.
    pub(super) fn term(&mut self, term: &Scalar) -> Wide {
        let (block_coords, product) = match term {
            Scalar::There(list, body) => (Some(&**list), &**body),
            term => (None, term),
        };
        let Scalar::Binary(Binary::Mul, left, right, _) = product else {
            return Wide { high: self.scalar(term), rest: None };
        };
        if let Some(block_coords) = block_coords {
            self.move_here(block_coords);
        }
        let operands = [left, right].map(|side| {
            let high = self.scalar(side);
            Wide { high: self.bound_float(&high), rest: None }
        });
        self.wide_binary(Binary::Mul, &operands)
    }

    /// Prints the declaration of `here`, the current position, as these coordinates.
    fn move_here(&mut self, list: &List) {
        let mut coords = self.list(list);
        if !self.language().shadows() {
            coords = self.bound(Kind::List, &coords);
        }
        self.line(&self.language().bind(Kind::List, "here", &coords));
    }

    /// Prints a difference that uses the rests of its sides.
    pub(super) fn difference(&mut self, scalar: &Scalar) -> Option<String> {
        let Scalar::Binary(op, ..) = scalar else { return None };
        let operands = subtracted(scalar);
        let [left, right] = operands.as_slice() else { return None };
        if !self.is_wide(left) && !self.is_wide(right) {
            return None;
        }
        let [left, mut right] = [left, right].map(|side| self.wide(side));
        // Compilers warn about a difference of a number and itself.
        if left.high == right.high {
            right.high = self.bound_float(&right.high);
        }
        let language = self.language();
        let apply = |op, a: &str, b: &str| language.binary(op, Class::Float, [a, b], Real::F32);
        let difference = apply(*op, &left.high, &right.high);
        Some(match (&left.rest, &right.rest) {
            (Some(left), Some(right)) => apply(Binary::Add, &difference, &apply(*op, left, right)),
            (Some(left), None) => apply(Binary::Add, &difference, left),
            (None, Some(right)) => apply(*op, &difference, right),
            (None, None) => difference,
        })
    }

    /// Prints a local value with its rest, and the body that uses both; `None` if the body does not read the rest.
    /// Prints into a copy of the emitter, which replaces this one on success.
    pub(super) fn with_wide_local(
        &mut self,
        slot: Slot,
        value: &Scalar,
        body: &Scalar,
    ) -> Option<String> {
        if !self.is_wide(value) || !subtracts(body, slot) {
            return None;
        }
        let mut inner = self.clone();
        let wide = inner.wide(value);
        let name = inner.local(slot);
        let kind = inner.kind(Class::Float);
        inner.line(&inner.language().bind(kind, &name, bare(&wide.high)));
        let rest = inner.bound_float(&wide.rest?);
        inner.rests.insert(slot, rest.clone());
        let body_start = inner.text().len();
        let result = inner.scalar(body);
        let is_read = |name: &str| {
            let body = inner.text().get(body_start..).unwrap_or_default();
            super::support::has_bare(body, name) || super::support::has_bare(&result, name)
        };
        if !is_read(&name) || !is_read(&rest) {
            return None;
        }
        inner.rests.remove(&slot);
        *self = inner;
        Some(result)
    }

    /// Prints the rest of an element: the difference between the wide number `body` and the element that definition
    /// `of` stored.
    pub(super) fn rest(&mut self, def: usize, binders: &[Binder], body: &Scalar) -> String {
        let wide = self.wide(body);
        let source = Source::Def(def);
        let position = crate::fault::Position { line: 1, column: 1 };
        let stored = self.scalar(&Scalar::read(source, coordinates(binders), position));
        let language = self.language();
        let zero = language.float(0.0, Real::F32);
        let rest = wide.rest.unwrap_or(zero);
        let stored_error =
            language.binary(Binary::Sub, Class::Float, [&wide.high, &stored], Real::F32);
        let total = language.binary(Binary::Add, Class::Float, [&stored_error, &rest], Real::F32);
        language.helper("finite", &[bare(&total)])
    }
}
