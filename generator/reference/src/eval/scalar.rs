//! Evaluates scalar expressions: elements, bounds of indices, and conditions.
//!
//! A value is sure if its error bound is 0. Unsure conditions and indices have several possible results in correct
//! kernels: the error bound then covers all of them.

use super::{Machine, Mode};
use crate::{
    bound::{Num, Val, compare, ints},
    fault::EvalError,
    function::{Binary, Takes},
    ir::{Read, Scalar, Source, Text},
    number::{integer, length, real, whole},
    signature::{Class, Elements, Tensor, Value},
};

/// The maximum number of candidate elements of a read with unsure indices; with more the error is unbounded.
const MAX_CANDIDATES: usize = 32;

impl Machine<'_> {
    pub(super) fn scalar(&mut self, scalar: &Scalar) -> Result<Val, EvalError> {
        self.spend()?;
        match scalar {
            Scalar::Float(value) => Ok(self.float(*value)),
            Scalar::Int(value) => Ok(Val::int(*value)),
            Scalar::Bool(value) => Ok(Val::bool(*value)),
            Scalar::Param(param) => self.number(*param),
            Scalar::Var(slot) => Ok(self.scalars.get(*slot).copied().unwrap_or(Val::int(0))),
            Scalar::Item(list, at, position) => {
                let (list, index) = (self.list(list)?, self.scalar(at)?);
                let at = index.whole();
                let len = integer(list.items().len());
                let place = if at < 0 { at.saturating_add(len) } else { at };
                let item = length(place).and_then(|place| list.get(place)).ok_or_else(|| {
                    self.at = *position;
                    self.fault(format!("item {at} is out of range for a list of {len}"))
                })?;
                Ok(if index.is_sure() { item } else { Val { error: f64::INFINITY, ..item } })
            }
            Scalar::Len(list) => Ok(Val::int(integer(self.list(list)?.items().len()))),
            Scalar::Product(list) => {
                let list = self.list(list)?;
                let product = list.items().iter().try_fold(1_i64, |all, dim| all.checked_mul(*dim));
                product
                    .map(Val::int)
                    .ok_or_else(|| self.fault("the product of dimensions overflows 64 bits"))
            }
            Scalar::Ravel(coords, dims) => {
                let (coords, dims) = (self.list(coords)?, self.list(dims)?);
                let each = coords.items().iter().zip(dims.items());
                let number =
                    each.fold(0_i64, |all, (at, dim)| all.wrapping_mul(*dim).wrapping_add(*at));
                let each = coords.errors().iter().zip(dims.items());
                let error = each.fold(0.0, |all, (error, dim)| all * real((*dim).max(1)) + error);
                Ok(Val { error, ..Val::int(number) })
            }
            Scalar::Present(input) => Ok(Val::bool(self.is_present(*input))),
            Scalar::TextIs(left, right) => Ok(Val::bool(self.text(left) == self.text(right))),
            Scalar::Read(read) => self.read(read),
            Scalar::Unary(function, operand) => {
                let operand = self.scalar(operand)?;
                Ok(self.model.unary(*function, operand))
            }
            Scalar::Binary(op, left, right, at) => {
                let (left, right) = (self.scalar(left)?, self.scalar(right)?);
                self.binary(*op, left, right).ok_or_else(|| {
                    self.at = *at;
                    self.fault("an integer division by 0")
                })
            }
            Scalar::Cast(class, operand) => {
                let operand = self.scalar(operand)?;
                Ok(self.cast(*class, operand))
            }
            Scalar::Not(operand) => {
                let value = self.scalar(operand)?;
                Ok(Val::maybe(!value.holds(), !value.is_sure()))
            }
            Scalar::And(left, right) => self.both(left, right, true),
            Scalar::Or(left, right) => self.both(left, right, false),
            Scalar::If(condition, then, otherwise) => self.choice(condition, then, otherwise),
            Scalar::Let(slot, value, body) => {
                let value = self.scalar(value)?;
                self.set(*slot, value);
                self.scalar(body)
            }
            Scalar::There(place, body) => {
                let (here, there) = (self.here(), self.list(place)?);
                self.set_list(crate::ir::HERE, &there);
                let value = self.scalar(body);
                self.set_list(crate::ir::HERE, &here);
                value
            }
            Scalar::Fold(fold) => self.fold(fold),
        }
    }

    /// Wraps a literal or a parameter. Values that depend on shapes and parameters only use double precision.
    fn float(&self, value: f64) -> Val {
        if self.early { Val::float(value, 0.0) } else { self.model.round_input(value) }
    }

    /// Returns the value of a number or bool parameter.
    fn number(&self, param: usize) -> Result<Val, EvalError> {
        let is_float =
            self.signature.params.get(param).is_some_and(|param| {
                param.kind == crate::signature::ParamKind::Scalar(Class::Float)
            });
        match self.param(param) {
            Some(Value::Float(value)) => Ok(self.float(*value)),
            Some(Value::Int(value)) if is_float => Ok(self.float(crate::number::real(*value))),
            Some(Value::Int(value)) => Ok(Val::int(*value)),
            Some(Value::Bool(value)) => Ok(Val::bool(*value)),
            Some(Value::Text(_) | Value::Tensor(_)) | None => Err(self.broken()),
        }
    }

    fn is_present(&self, input: usize) -> bool {
        let has_default =
            self.signature.inputs.get(input).is_some_and(|port| port.default.is_some());
        has_default
            || self
                .arguments
                .inputs
                .get(input)
                .is_some_and(|argument| *argument != super::Argument::Absent)
    }

    fn text<'b>(&'b self, text: &'b Text) -> Option<&'b str> {
        match text {
            Text::Literal(text) => Some(text),
            Text::Param(param) => match self.param(*param) {
                Some(Value::Text(text)) => Some(text),
                _ => None,
            },
        }
    }

    fn binary(&self, op: Binary, left: Val, right: Val) -> Option<Val> {
        if matches!(op.takes(), Takes::Same | Takes::Ordered) {
            return Some(compare(op, left, right));
        }
        match (left.num, right.num) {
            (Num::Int(_), Num::Int(_)) => ints(op, left, right),
            _ => Some(self.model.floats(op, left, right)),
        }
    }

    fn cast(&self, class: Class, value: Val) -> Val {
        match (class, value.num) {
            (Class::Float, _) => self.model.converted(value),
            (Class::Int, Num::Float(number)) => {
                let truncated = whole(number);
                let truncated_ends =
                    [number - value.error, number + value.error].map(|end| whole(end.trunc()));
                let distances = truncated_ends
                    .map(|end| crate::number::real(end.saturating_sub(truncated)).abs());
                let error = if value.error == 0.0 {
                    0.0
                } else if value.error.is_finite() {
                    distances[0].max(distances[1])
                } else {
                    f64::INFINITY
                };
                Val { num: Num::Int(truncated), error }
            }
            (Class::Int, _) => Val { num: Num::Int(value.whole()), error: value.error },
            (Class::Bool, _) => {
                let unsure = value.error > 0.0 && value.real().abs() <= value.error;
                Val::maybe(value.holds(), unsure || value.real().is_nan() && value.error > 0.0)
            }
        }
    }

    /// Evaluates `and` if `needed` is true and `or` otherwise: the right side only if it matters.
    fn both(&mut self, left: &Scalar, right: &Scalar, is_and: bool) -> Result<Val, EvalError> {
        let left = self.scalar(left)?;
        if left.is_sure() && left.holds() != is_and {
            return Ok(Val::bool(!is_and));
        }
        let right = self.scalar(right)?;
        if right.is_sure() && right.holds() != is_and {
            return Ok(Val::bool(!is_and));
        }
        let holds =
            if is_and { left.holds() && right.holds() } else { left.holds() || right.holds() };
        Ok(Val::maybe(holds, !(left.is_sure() && right.is_sure())))
    }

    fn choice(
        &mut self,
        condition: &Scalar,
        then: &Scalar,
        otherwise: &Scalar,
    ) -> Result<Val, EvalError> {
        let condition = self.scalar(condition)?;
        let (chosen, alternative) =
            if condition.holds() { (then, otherwise) } else { (otherwise, then) };
        let value = self.scalar(chosen)?;
        if condition.is_sure() {
            return Ok(value);
        }
        // A correct kernel may take the other branch, since the condition is within its error bound.
        let alternative = self.scalar(alternative)?;
        Ok(value.or(alternative))
    }

    fn read(&mut self, read: &Read) -> Result<Val, EvalError> {
        let coords = self.list(&read.coords)?;
        let rank = self.source_dims(read.source)?.len();
        if coords.items().len() != rank {
            self.at = read.at;
            let (name, found) = (self.name(read.source), coords.items().len());
            return Err(
                self.fault(format!("{name} has rank {rank} and is read with {found} indices"))
            );
        }
        if coords.is_sure() {
            return self.read_at(read, coords.items());
        }
        let max_offset = |error: f64| if error <= 8.0 { Some(whole(error.floor())) } else { None };
        let max_offsets: Option<Vec<i64>> =
            coords.errors().iter().map(|error| max_offset(*error)).collect();
        let first = self.read_at(read, coords.items())?;
        let candidates_of = |max_offset: &i64| length(2 * max_offset + 1);
        let count = max_offsets.as_ref().and_then(|all| {
            all.iter().try_fold(1_usize, |count, max_offset| {
                count.checked_mul(candidates_of(max_offset)?)
            })
        });
        let (Some(max_offsets), Some(count)) =
            (max_offsets, count.filter(|count| *count <= MAX_CANDIDATES))
        else {
            return Ok(Val { error: f64::INFINITY, ..first });
        };
        let mut value = first;
        for candidate in 0..count {
            let mut remaining = integer(candidate);
            let mut candidate_coords = Vec::new();
            for (at, max_offset) in coords.items().iter().zip(&max_offsets) {
                candidate_coords
                    .push(at.saturating_add(remaining % (2 * max_offset + 1) - max_offset));
                remaining /= 2 * max_offset + 1;
            }
            // Candidates out of range are skipped: correct kernels do not read there.
            if let Ok(candidate_value) = self.read_at(read, &candidate_coords) {
                value = value.or(candidate_value);
            }
        }
        Ok(value)
    }

    /// Reads the element at these coordinates.
    fn read_at(&mut self, read: &Read, coords: &[i64]) -> Result<Val, EvalError> {
        let dims = self.source_dims(read.source)?;
        let mut element_number = Some(0_usize);
        for (at, dim) in coords.iter().zip(dims) {
            element_number = match (element_number, length(*at)) {
                (Some(element_number), Some(at)) if at < *dim => {
                    element_number.checked_mul(*dim).and_then(|n| n.checked_add(at))
                }
                _ => None,
            };
        }
        let Some(element_number) = element_number else {
            if let Some(outside) = &read.outside {
                return self.scalar(outside);
            }
            let (name, dims) = (self.name(read.source), dims.to_vec());
            self.at = read.at;
            return Err(self.fault(format!(
                "{name} is read at {coords:?}, outside of its dimensions {dims:?}"
            )));
        };
        if let Source::Def(def) = read.source {
            let value = self.evaluated(def)?.values.get(element_number).copied();
            return value.ok_or_else(|| self.broken());
        }
        let Some(tensor) = self.tensor_of(read.source) else {
            let name = self.name(read.source);
            let dependents = if self.mode == Mode::Values { "values" } else { "shapes" };
            return Err(EvalError::Arguments(format!(
                "{dependents} depend on elements of {name}, which are not known"
            )));
        };
        let value = element(tensor, element_number).ok_or_else(|| self.broken())?;
        Ok(match value.num {
            Num::Float(element_number) => self.float(element_number),
            Num::Int(_) | Num::Bool(_) => value,
        })
    }

    fn name(&self, source: Source) -> String {
        match source {
            Source::Input(input) => {
                let name = self.signature.inputs.get(input).map_or("", |port| &*port.name);
                format!("the input `{name}`")
            }
            Source::Param(param) => {
                let name = self.signature.params.get(param).map_or("", |param| &*param.name);
                format!("the parameter `{name}`")
            }
            Source::Def(def) => match self.code.defs.get(def).and_then(|def| def.name.as_ref()) {
                Some(name) => format!("`{name}`"),
                None => "this".to_owned(),
            },
        }
    }
}

fn element(tensor: &Tensor, number: usize) -> Option<Val> {
    Some(match &tensor.elements {
        Elements::Float(values) => Val::float(*values.get(number)?, 0.0),
        Elements::Int(values) => Val::int(*values.get(number)?),
        Elements::Bool(values) => Val::bool(*values.get(number)?),
    })
}
