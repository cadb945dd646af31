//! Evaluates selections: the indices that satisfy a condition, by score if there is one, up to a
//! limit.

use super::{EvaluatedDef, Machine, Mode};
use crate::{
    bound::{Num, Val},
    fault::EvalError,
    ir::Select,
    number::{integer, length},
};

impl Machine<'_> {
    pub(super) fn select(&mut self, select: &Select) -> Result<EvaluatedDef, EvalError> {
        let candidates = self.scalar(&select.count)?.whole();
        let limit = match &select.limit {
            Some(limit) => self.scalar(limit)?.whole(),
            None => candidates,
        };
        let (Some(candidates), Some(limit)) = (length(candidates), length(limit)) else {
            return Err(self.fault("a selection has a negative bound"));
        };
        let bound = candidates.min(limit);
        match self.mode {
            Mode::Bounds => {
                return Ok(EvaluatedDef { dims: vec![bound], ..EvaluatedDef::default() });
            }
            Mode::Nothing => return Ok(EvaluatedDef { dims: vec![0], ..EvaluatedDef::default() }),
            Mode::Values => {}
        }
        self.early = false;
        let (order, mut unsure) = self.candidates(select, candidates)?;
        let mut kept: Vec<i64> = Vec::new();
        for candidate in order {
            if kept.len() == bound {
                break;
            }
            if let Some((slot, drops)) = &select.unless {
                self.set(select.index, Val::int(candidate));
                let mut is_dropped = false;
                for &before in &kept {
                    self.set(*slot, Val::int(before));
                    let value = self.scalar(drops)?;
                    unsure |= !value.is_sure();
                    is_dropped |= value.holds();
                }
                if is_dropped {
                    continue;
                }
            }
            kept.push(candidate);
        }
        self.unsure |= unsure;
        let error = if unsure { f64::INFINITY } else { 0.0 };
        let values = kept.iter().map(|index| Val { num: Num::Int(*index), error }).collect();
        Ok(EvaluatedDef { dims: vec![kept.len()], values })
    }

    /// Returns the indices that satisfy the condition, best first, and whether others may be right
    /// too.
    fn candidates(&mut self, select: &Select, count: usize) -> Result<(Vec<i64>, bool), EvalError> {
        let mut unsure = false;
        let mut found = Vec::new();
        for index in 0..integer(count) {
            self.spend()?;
            self.set(select.index, Val::int(index));
            let holds = self.scalar(&select.condition)?;
            unsure |= !holds.is_sure();
            if !holds.holds() {
                continue;
            }
            let score = match &select.by {
                Some(by) => self.scalar(by)?,
                None => Val::int(0),
            };
            found.push((score, index));
        }
        if select.by.is_some() {
            // The highest score first; equal ones by index, and NaN last.
            found.sort_by(|(a, _), (b, _)| {
                let (a, b) = (a.real(), b.real());
                a.is_nan()
                    .cmp(&b.is_nan())
                    .then(b.partial_cmp(&a).unwrap_or(std::cmp::Ordering::Equal))
            });
            for pair in found.windows(2) {
                if let [(a, _), (b, _)] = pair {
                    let slack = a.error + b.error;
                    unsure |= slack > 0.0 && (a.real() - b.real() <= slack || a.real().is_nan());
                }
            }
        }
        Ok((found.into_iter().map(|(_, index)| index).collect(), unsure))
    }
}
