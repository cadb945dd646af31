//! Attention in f64, directly by its definition: `softmax(scale * q k^T + mask) v`, one query at a time.

use udo_api::{Arithmetic, Error, ExecError, FinalizeCx, Io, Kernel, Workspace};

use super::arguments::{Arguments, Sides};
use super::sizes::{Counts, Heads};
use super::{Problem, SCORES, Sizes, Stage};

/// Kernel of f64 attention.
pub(crate) struct Exact {
    problem: Problem,
    sides: Sides<f64>,
}

impl Kernel for Exact {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let problem = Problem::read(cx, &Sizes::read(cx)?)?;
        cx.work(problem.work().with(Arithmetic::F64))?;
        Ok(Self { problem, sides: Sides::read(cx, &problem.counts) })
    }

    fn workspace(&self) -> Workspace {
        self.sides.workspace().and::<f64>(self.problem.counts.total)
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let problem = &self.problem.in_run(&mut io)?;
        let Io { inputs, mut outputs, mut scratch, parallel, .. } = io;
        let Counts { q_heads, queries, total, width, is_packed, .. } = problem.counts;
        let arguments =
            Arguments::take(problem, &self.sides, &inputs, &mut outputs, &mut scratch, parallel)?;
        let y = outputs.take::<f64>(0)?;
        // The optional output holds the scores after one stage of the computation, which the node selects.
        let stage_y = if outputs.has(SCORES) { outputs.take::<f64>(SCORES)? } else { &mut [] };
        let scores = scratch.take::<f64>(total)?;
        let heads = Heads::new(q_heads, queries, width, is_packed);
        for row in 0..problem.counts.rows() {
            let position @ [batch, head, query] = problem.counts.position(row);
            let stage_y = stage_y.chunks_exact_mut(total.max(1)).nth(row);
            let start = heads.at(batch, head) + query * heads.row;
            attend(problem, &arguments, position, scores, stage_y, &mut y[start..][..width]);
        }
        Ok(())
    }
}

/// Computes the output `y` of one query, and copies the scores of the requested stage to `stage_y`.
fn attend(
    problem: &Problem,
    arguments: &Arguments<'_, f64>,
    position @ [batch, head, query]: [usize; 3],
    scores: &mut [f64],
    stage_y: Option<&mut [f64]>,
    y: &mut [f64],
) {
    let Counts { depth, .. } = problem.counts;
    let shared = problem.counts.shared_head(head);
    let (q, keys) = (arguments.q.from(position).0, arguments.keys.from([batch, shared, 0]));
    let mut requested = stage_y.map(|y| (problem.stage, y));
    let mut copy_stage = |stage: Stage, scores: &[f64]| {
        if let Some((_, y)) = requested.iter_mut().find(|(requested, _)| *requested == stage) {
            y.copy_from_slice(scores);
        }
    };
    for (key, score) in scores.iter_mut().enumerate() {
        let key = &keys.0[key * keys.1..][..depth];
        *score = q.iter().zip(key).map(|(q, k)| q * k).sum::<f64>() * problem.scale;
    }
    copy_stage(Stage::Scaled, scores);
    if problem.softcap > 0.0 {
        for score in &mut *scores {
            *score = (*score / problem.softcap).tanh() * problem.softcap;
        }
    }
    copy_stage(Stage::Capped, scores);
    let visible = problem.visible(arguments.reach(problem, batch), query);
    if let Some(mask) = problem.mask {
        let mask_start = mask.at(position);
        for (key, score) in scores.iter_mut().enumerate().take(visible) {
            if mask.is_bool && !arguments.bools[mask_start + key].get() {
                *score = f64::NEG_INFINITY;
            } else if !mask.is_bool {
                *score += arguments.numbers[mask_start + key];
            }
        }
    }
    scores[visible..].fill(f64::NEG_INFINITY);
    copy_stage(Stage::Masked, scores);
    let max_score = scores.iter().copied().fold(f64::MIN, f64::max);
    for score in &mut *scores {
        *score = (*score - max_score).exp();
    }
    let sum: f64 = scores.iter().sum();
    let is_zeroed = problem.keyless.is_zeroed(sum);
    for score in &mut *scores {
        *score = if is_zeroed { 0.0 } else { *score / sum };
    }
    copy_stage(Stage::Normalized, scores);
    y.fill(if visible == 0 && !is_zeroed { f64::NAN } else { 0.0 });
    if is_zeroed {
        return;
    }
    let (values, row_stride) = arguments.values.from([batch, shared, 0]);
    // Only visible keys are read; the values of others may be anything.
    for (key, weight) in scores[..visible].iter().enumerate() {
        let values = &values[key * row_stride..][..y.len()];
        y.iter_mut().zip(values).for_each(|(y, value)| *y += weight * value);
    }
}
