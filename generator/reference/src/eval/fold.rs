//! Evaluates folds: sums, means, products, extremes and other reductions over indices, with their error bounds.

use super::{Ints, Machine};
use crate::{
    bound::{Num, Val, sum},
    fault::EvalError,
    function::Binary,
    ir::{Binder, Fold, FoldLoop, Scalar},
    number::{count, integer, real},
    signature::Class,
};

impl Machine<'_> {
    pub(super) fn fold(&mut self, fold: &FoldLoop) -> Result<Val, EvalError> {
        let extents = self.extents(&fold.binders)?;
        let value = self.folded(fold, &extents)?;
        // If an extent is unsure, another correct kernel may fold more or fewer elements.
        let is_sure = extents.iter().all(Ints::is_sure);
        Ok(if is_sure { value } else { Val { error: f64::INFINITY, ..value } })
    }

    fn folded(&mut self, fold: &FoldLoop, extents: &[Ints]) -> Result<Val, EvalError> {
        match (fold.fold, fold.class) {
            (Fold::Sum, Class::Float) => self.sum_of(fold, extents).map(|(sum, _)| sum),
            (Fold::Mean, _) => {
                let (sum, term_count) = self.sum_of(fold, extents)?;
                Ok(self.model.floats(Binary::Div, sum, Val::float(count(term_count), 0.0)))
            }
            (Fold::Sum, _) => {
                self.accumulate(fold, extents, Val::int(0), |_, accumulated, value| {
                    let num = Num::Int(accumulated.whole().wrapping_add(value.whole()));
                    Val { num, error: accumulated.error + value.error }
                })
            }
            (Fold::Prod, Class::Float) => {
                self.accumulate(fold, extents, Val::float(1.0, 0.0), |model, accumulated, value| {
                    model.floats(Binary::Mul, accumulated, value)
                })
            }
            (Fold::Prod, _) => {
                self.accumulate(fold, extents, Val::int(1), |_, accumulated, value| {
                    crate::bound::ints(Binary::Mul, accumulated, value).unwrap_or(accumulated)
                })
            }
            (Fold::Max | Fold::Min, _) => self.extreme_of(fold, extents),
            (Fold::ArgMax | Fold::ArgMin, _) => self.index_of_extreme(fold, extents),
            (Fold::Any, _) => {
                self.accumulate(fold, extents, Val::bool(false), |_, accumulated, value| {
                    if accumulated.is_sure() && accumulated.holds() {
                        accumulated
                    } else if value.is_sure() && value.holds() {
                        value
                    } else {
                        Val::maybe(
                            accumulated.holds() || value.holds(),
                            !(accumulated.is_sure() && value.is_sure()),
                        )
                    }
                })
            }
            (Fold::All, _) => {
                self.accumulate(fold, extents, Val::bool(true), |_, accumulated, value| {
                    if accumulated.is_sure() && !accumulated.holds() {
                        accumulated
                    } else if value.is_sure() && !value.holds() {
                        value
                    } else {
                        Val::maybe(
                            accumulated.holds() && value.holds(),
                            !(accumulated.is_sure() && value.is_sure()),
                        )
                    }
                })
            }
            (Fold::Count, _) => {
                self.accumulate(fold, extents, Val::int(0), |_, accumulated, value| {
                    let num = Num::Int(accumulated.whole() + i64::from(value.holds()));
                    Val { num, error: accumulated.error + value.error }
                })
            }
        }
    }

    fn accumulate(
        &mut self,
        fold: &FoldLoop,
        extents: &[Ints],
        start: Val,
        combine: impl Fn(crate::bound::Arithmetic, Val, Val) -> Val,
    ) -> Result<Val, EvalError> {
        let mut accumulated = start;
        self.each_value(&fold.binders, extents, &fold.body, |machine, value| {
            accumulated = combine(machine.model, accumulated, value);
        })?;
        Ok(accumulated)
    }

    fn each_value(
        &mut self,
        binders: &[Binder],
        extents: &[Ints],
        body: &Scalar,
        mut visit: impl FnMut(&Self, Val),
    ) -> Result<(), EvalError> {
        self.each(binders, extents, &mut |machine| {
            let value = machine.scalar(body)?;
            visit(machine, value);
            Ok(())
        })
    }

    /// Returns the sum as a float, and its number of terms.
    fn sum_of(&mut self, fold: &FoldLoop, extents: &[Ints]) -> Result<(Val, usize), EvalError> {
        let (mut value, mut magnitude_sum, mut error, mut term_count, mut are_terms_integers) =
            (0.0, 0.0, 0.0, 0, true);
        self.each_value(&fold.binders, extents, &fold.body, |machine, term| {
            let term = machine.model.converted(term);
            value += term.real();
            magnitude_sum += term.real().abs();
            error += term.error;
            are_terms_integers &= term.real().fract() == 0.0;
            term_count += 1;
        })?;
        Ok((
            sum(self.model, term_count, value, magnitude_sum, error, are_terms_integers),
            term_count,
        ))
    }

    fn extreme_of(&mut self, fold: &FoldLoop, extents: &[Ints]) -> Result<Val, EvalError> {
        let is_max = fold.fold == Fold::Max;
        if fold.class == Class::Float {
            let (op, start) = if is_max {
                (Binary::Max, f64::NEG_INFINITY)
            } else {
                (Binary::Min, f64::INFINITY)
            };
            return self.accumulate(
                fold,
                extents,
                Val::float(start, 0.0),
                |model, accumulated, value| model.floats(op, accumulated, value),
            );
        }
        let (op, start) = if is_max { (Binary::Max, i64::MIN) } else { (Binary::Min, i64::MAX) };
        self.accumulate(fold, extents, Val::int(start), |_, accumulated, value| {
            crate::bound::ints(op, accumulated, value).unwrap_or(accumulated)
        })
    }

    /// Returns the first index of the largest or smallest element, with the distance of other candidates.
    fn index_of_extreme(&mut self, fold: &FoldLoop, extents: &[Ints]) -> Result<Val, EvalError> {
        let mut values = Vec::new();
        self.each_value(&fold.binders, extents, &fold.body, |_, value| values.push(value))?;
        let sign = if fold.fold == Fold::ArgMax { 1.0 } else { -1.0 };
        let mut best: Option<(usize, Val)> = None;
        for (index, &value) in values.iter().enumerate() {
            let is_better = best.is_none_or(|(_, best)| {
                let (a, b) = (sign * value.real(), sign * best.real());
                a > b || (a.is_nan() && !b.is_nan())
            });
            if is_better {
                best = Some((index, value));
            }
        }
        let Some((best_index, best)) = best else {
            self.at = fold.at;
            return Err(self.fault("an extreme of no elements"));
        };
        let mut error = 0.0_f64;
        for (index, value) in values.iter().enumerate().filter(|(index, _)| *index != best_index) {
            let joint_error = value.error + best.error;
            let distance = sign * (best.real() - value.real());
            if joint_error > 0.0 && (distance <= joint_error || distance.is_nan()) {
                error = error.max(real(integer(index.abs_diff(best_index))));
            }
        }
        Ok(Val { num: Num::Int(integer(best_index)), error })
    }
}
