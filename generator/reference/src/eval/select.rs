//! Evaluates selections: the indices that satisfy a condition, in order of their scores if the selection has scores,
//! up to a limit. NMS and top-k are written with them.
//!
//! A value is unsure if rounding in another correct kernel may change it. A selection with unsure conditions or scores
//! has unsure indices and size.

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
        // In shape inference only the largest or smallest size counts.
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
        let mut selected: Vec<i64> = Vec::new();
        for candidate in order {
            if selected.len() == bound {
                break;
            }
            if let Some((earlier_slot, drop_condition)) = &select.unless {
                self.set(select.index, Val::int(candidate));
                let mut is_dropped = false;
                for &earlier in &selected {
                    self.set(*earlier_slot, Val::int(earlier));
                    let value = self.scalar(drop_condition)?;
                    unsure |= !value.is_sure();
                    is_dropped |= value.holds();
                }
                if is_dropped {
                    continue;
                }
            }
            selected.push(candidate);
        }
        self.unsure |= unsure;
        let error = if unsure { f64::INFINITY } else { 0.0 };
        let values = selected.iter().map(|index| Val { num: Num::Int(*index), error }).collect();
        Ok(EvaluatedDef { dims: vec![selected.len()], values })
    }

    /// Returns the indices that satisfy the condition, best first, and whether the result is unsure.
    fn candidates(&mut self, select: &Select, count: usize) -> Result<(Vec<i64>, bool), EvalError> {
        let mut unsure = false;
        let mut scored = Vec::new();
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
            scored.push((score, index));
        }
        if select.by.is_some() {
            // The highest score first; equal ones by index, and NaN last.
            scored.sort_by(|(a, _), (b, _)| {
                let (a, b) = (a.real(), b.real());
                a.is_nan()
                    .cmp(&b.is_nan())
                    .then(b.partial_cmp(&a).unwrap_or(std::cmp::Ordering::Equal))
            });
            for pair in scored.windows(2) {
                if let [(a, _), (b, _)] = pair {
                    let joint_error = a.error + b.error;
                    unsure |= joint_error > 0.0
                        && (a.real() - b.real() <= joint_error || a.real().is_nan());
                }
            }
        }
        Ok((scored.into_iter().map(|(_, index)| index).collect(), unsure))
    }
}
