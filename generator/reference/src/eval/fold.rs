//! Evaluates folds.

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
        // Another kernel may fold more or fewer elements.
        let is_sure = extents.iter().all(Ints::is_sure);
        Ok(if is_sure { value } else { Val { error: f64::INFINITY, ..value } })
    }

    fn folded(&mut self, fold: &FoldLoop, extents: &[Ints]) -> Result<Val, EvalError> {
        match (fold.fold, fold.class) {
            (Fold::Sum, Class::Float) => self.sum_of(fold, extents).map(|(sum, _)| sum),
            (Fold::Mean, _) => {
                let (sum, n) = self.sum_of(fold, extents)?;
                Ok(self.model.floats(Binary::Div, sum, Val::float(count(n), 0.0)))
            }
            (Fold::Sum, _) => self.gather(fold, extents, Val::int(0), |_, all, value| {
                let num = Num::Int(all.whole().wrapping_add(value.whole()));
                Val { num, error: all.error + value.error }
            }),
            (Fold::Prod, Class::Float) => {
                self.gather(fold, extents, Val::float(1.0, 0.0), |model, all, value| {
                    model.floats(Binary::Mul, all, value)
                })
            }
            (Fold::Prod, _) => self.gather(fold, extents, Val::int(1), |_, all, value| {
                crate::bound::ints(Binary::Mul, all, value).unwrap_or(all)
            }),
            (Fold::Max | Fold::Min, _) => self.extreme_of(fold, extents),
            (Fold::ArgMax | Fold::ArgMin, _) => self.place_of(fold, extents),
            (Fold::Any, _) => self.gather(fold, extents, Val::bool(false), |_, all, value| {
                if all.is_sure() && all.holds() {
                    all
                } else if value.is_sure() && value.holds() {
                    value
                } else {
                    Val::maybe(all.holds() || value.holds(), !(all.is_sure() && value.is_sure()))
                }
            }),
            (Fold::All, _) => self.gather(fold, extents, Val::bool(true), |_, all, value| {
                if all.is_sure() && !all.holds() {
                    all
                } else if value.is_sure() && !value.holds() {
                    value
                } else {
                    Val::maybe(all.holds() && value.holds(), !(all.is_sure() && value.is_sure()))
                }
            }),
            (Fold::Count, _) => self.gather(fold, extents, Val::int(0), |_, all, value| {
                let num = Num::Int(all.whole() + i64::from(value.holds()));
                Val { num, error: all.error + value.error }
            }),
        }
    }

    fn gather(
        &mut self,
        fold: &FoldLoop,
        extents: &[Ints],
        start: Val,
        take: impl Fn(crate::bound::Arithmetic, Val, Val) -> Val,
    ) -> Result<Val, EvalError> {
        let mut all = start;
        self.each_value(&fold.binders, extents, &fold.body, |machine, value| {
            all = take(machine.model, all, value);
        })?;
        Ok(all)
    }

    fn each_value(
        &mut self,
        binders: &[Binder],
        extents: &[Ints],
        body: &Scalar,
        mut take: impl FnMut(&Self, Val),
    ) -> Result<(), EvalError> {
        self.each(binders, extents, &mut |machine| {
            let value = machine.scalar(body)?;
            take(machine, value);
            Ok(())
        })
    }

    /// Returns the sum as a float, and its number of terms.
    fn sum_of(&mut self, fold: &FoldLoop, extents: &[Ints]) -> Result<(Val, usize), EvalError> {
        let (mut value, mut size, mut error, mut n, mut is_whole) = (0.0, 0.0, 0.0, 0, true);
        self.each_value(&fold.binders, extents, &fold.body, |machine, term| {
            let term = machine.model.converted(term);
            value += term.real();
            size += term.real().abs();
            error += term.error;
            is_whole &= term.real().fract() == 0.0;
            n += 1;
        })?;
        Ok((sum(self.model, n, value, size, error, is_whole), n))
    }

    fn extreme_of(&mut self, fold: &FoldLoop, extents: &[Ints]) -> Result<Val, EvalError> {
        let is_max = fold.fold == Fold::Max;
        if fold.class == Class::Float {
            let (op, start) = if is_max {
                (Binary::Max, f64::NEG_INFINITY)
            } else {
                (Binary::Min, f64::INFINITY)
            };
            return self.gather(fold, extents, Val::float(start, 0.0), |model, all, value| {
                model.floats(op, all, value)
            });
        }
        let (op, start) = if is_max { (Binary::Max, i64::MIN) } else { (Binary::Min, i64::MAX) };
        self.gather(fold, extents, Val::int(start), |_, all, value| {
            crate::bound::ints(op, all, value).unwrap_or(all)
        })
    }

    /// Returns the first index of the largest or smallest element, with the distance of other candidates.
    fn place_of(&mut self, fold: &FoldLoop, extents: &[Ints]) -> Result<Val, EvalError> {
        let mut values = Vec::new();
        self.each_value(&fold.binders, extents, &fold.body, |_, value| values.push(value))?;
        let sign = if fold.fold == Fold::ArgMax { 1.0 } else { -1.0 };
        let mut best: Option<(usize, Val)> = None;
        for (at, &value) in values.iter().enumerate() {
            let is_better = best.is_none_or(|(_, best)| {
                let (a, b) = (sign * value.real(), sign * best.real());
                a > b || (a.is_nan() && !b.is_nan())
            });
            if is_better {
                best = Some((at, value));
            }
        }
        let Some((place, best)) = best else {
            self.at = fold.at;
            return Err(self.fault("an extreme of no elements"));
        };
        let mut error = 0.0_f64;
        for (at, value) in values.iter().enumerate().filter(|(at, _)| *at != place) {
            let slack = value.error + best.error;
            let apart = sign * (best.real() - value.real());
            if slack > 0.0 && (apart <= slack || apart.is_nan()) {
                error = error.max(real(integer(at.abs_diff(place))));
            }
        }
        Ok(Val { num: Num::Int(integer(place)), error })
    }
}
