//! Attention in f64, directly by its definition.

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
        let read = if outputs.has(SCORES) { outputs.take::<f64>(SCORES)? } else { &mut [] };
        let scores = scratch.take::<f64>(total)?;
        let heads = Heads::new(q_heads, queries, width, is_packed);
        for row in 0..problem.counts.rows() {
            let at @ [batch, head, query] = problem.counts.position(row);
            let read = read.chunks_exact_mut(total.max(1)).nth(row);
            let from = heads.at(batch, head) + query * heads.row;
            attend(problem, &arguments, at, scores, read, &mut y[from..][..width]);
        }
        Ok(())
    }
}

/// Computes the output of one query.
fn attend(
    problem: &Problem,
    arguments: &Arguments<'_, f64>,
    at @ [batch, head, query]: [usize; 3],
    scores: &mut [f64],
    read: Option<&mut [f64]>,
    y: &mut [f64],
) {
    let Counts { depth, .. } = problem.counts;
    let shared = problem.counts.shared_head(head);
    let (q, keys) = (arguments.q.from(at).0, arguments.keys.from([batch, shared, 0]));
    let mut read = read.map(|read| (problem.stage, read));
    let mut keep = |stage: Stage, scores: &[f64]| {
        if let Some((_, read)) = read.iter_mut().find(|(expected, _)| *expected == stage) {
            read.copy_from_slice(scores);
        }
    };
    for (key, score) in scores.iter_mut().enumerate() {
        let key = &keys.0[key * keys.1..][..depth];
        *score = q.iter().zip(key).map(|(q, k)| q * k).sum::<f64>() * problem.scale;
    }
    keep(Stage::Scaled, scores);
    if problem.softcap > 0.0 {
        for score in &mut *scores {
            *score = (*score / problem.softcap).tanh() * problem.softcap;
        }
    }
    keep(Stage::Capped, scores);
    let visible = problem.visible(arguments.reach(problem, batch), query);
    if let Some(mask) = problem.mask {
        let from = mask.at(at);
        for (key, score) in scores.iter_mut().enumerate().take(visible) {
            if mask.is_bool && !arguments.bools[from + key].get() {
                *score = f64::NEG_INFINITY;
            } else if !mask.is_bool {
                *score += arguments.numbers[from + key];
            }
        }
    }
    scores[visible..].fill(f64::NEG_INFINITY);
    keep(Stage::Masked, scores);
    let greatest = scores.iter().copied().fold(f64::MIN, f64::max);
    for score in &mut *scores {
        *score = (*score - greatest).exp();
    }
    let sum: f64 = scores.iter().sum();
    let is_zeroed = problem.keyless.is_zeroed(sum);
    for score in &mut *scores {
        *score = if is_zeroed { 0.0 } else { *score / sum };
    }
    keep(Stage::Normalized, scores);
    y.fill(if visible == 0 && !is_zeroed { f64::NAN } else { 0.0 });
    if is_zeroed {
        return;
    }
    let (values, step) = arguments.values.from([batch, shared, 0]);
    // Only visible keys are read; the values of others may be anything.
    for (key, share) in scores[..visible].iter().enumerate() {
        let values = &values[key * step..][..y.len()];
        y.iter_mut().zip(values).for_each(|(y, value)| *y += share * value);
    }
}
