//! Determinism of calls, and their side effects.

use std::thread;
use std::time::Duration;
use udo_testing::{CallError, How, Mode, Order, Output};

use super::{Finding, Outcome, failed, not_applicable, skipped};
use crate::context::{Live, OpContext};
use crate::node::Node;
use crate::params;
use crate::raw::clock;
use crate::raw::surroundings::Surroundings;
use crate::raw::transfers::{self, Transfers};
use crate::trial::Trial;
use crate::values::Fill;

fn run_node(
    live: &Live<'_>,
    cx: &OpContext,
    trial: &Trial<'_>,
    how: How,
) -> Result<Vec<Output>, Finding> {
    run_with(live, cx, trial, &live.values, how)
}

fn run_with(
    live: &Live<'_>,
    cx: &OpContext,
    trial: &Trial<'_>,
    values: &[Vec<u8>],
    how: How,
) -> Result<Vec<Output>, Finding> {
    let run = trial.run(values, how);
    run.map(|run| run.outputs)
        .map_err(|fault| Finding::Failed(format!("{}: {}", live.describe(cx), fault)))
}

/// Returns the finding that results differ, with the first differing element.
fn differs(
    live: &Live<'_>,
    cx: &OpContext,
    when: &str,
    wanted: &[Output],
    found: &[Output],
) -> Outcome {
    if wanted == found {
        return Ok(());
    }
    for (port, (wanted, found)) in wanted.iter().zip(found).enumerate() {
        if wanted.dims != found.dims {
            return failed(format!(
                "{when}, output {port} is {:?}, expected {:?}: {}",
                found.dims,
                wanted.dims,
                live.describe(cx)
            ));
        }
        if let Some(at) = wanted.bytes.iter().zip(&found.bytes).position(|(a, b)| a != b) {
            return failed(format!(
                "{when}, byte {at} of output {port} differs: {}",
                live.describe(cx)
            ));
        }
    }
    failed(format!("{when}, results differ: {}", live.describe(cx)))
}

fn each(cx: &OpContext, mut body: impl FnMut(&Live<'_>) -> Outcome) -> Outcome {
    let mut nodes = 0;
    for live in cx.live() {
        nodes += 1;
        body(&live)?;
    }
    if nodes == 0 { skipped("no node runs") } else { Ok(()) }
}

pub(super) fn twice(cx: &OpContext) -> Outcome {
    each(cx, |live| {
        let wanted = run_node(live, cx, &live.trial, How::default())?;
        let found = run_node(live, cx, &live.trial, How::default())?;
        differs(live, cx, "the second time", &wanted, &found)?;
        for fill in [Fill::Random, Fill::Equal, Fill::Small] {
            // The kernel may refuse these elements.
            let _ = live.trial.run(&live.node.values(fill, live.seed ^ 7), How::default());
            let found = run_node(live, cx, &live.trial, How::default())?;
            differs(live, cx, "after a run on other elements", &wanted, &found)?;
        }
        Ok(())
    })
}

pub(super) fn sessions(cx: &OpContext) -> Outcome {
    each(cx, |live| {
        let wanted = run_node(live, cx, &live.trial, How::default())?;
        let second =
            cx.trial(live.node, 1).map_err(|refusal| Finding::Failed(refusal.to_string()))?;
        let found = run_node(live, cx, &second, How::default())?;
        differs(live, cx, "in a second session", &wanted, &found)?;
        drop(second);
        let found = run_node(live, cx, &live.trial, How::default())?;
        differs(live, cx, "after a second session has ended", &wanted, &found)
    })
}

pub(super) fn threads(cx: &OpContext) -> Outcome {
    const AT_ONCE: u64 = 8;
    let rounds = if cx.level > 3 { 12 } else { 4 };
    each(cx, |live| {
        let values: Vec<Vec<Vec<u8>>> = (0..AT_ONCE)
            .map(|turn| live.node.values(Fill::Random, live.seed ^ turn << 8))
            .collect();
        let wanted: Vec<_> =
            values.iter().map(|values| live.trial.run(values, How::default()).ok()).collect();
        let other = thread::scope(|scope| {
            scope.spawn(|| run_node(live, cx, &live.trial, How::default())).join()
        });
        let Ok(other) = other else { return failed("a thread that ran the kernel panicked") };
        let own = run_node(live, cx, &live.trial, How::default())?;
        differs(live, cx, "on another thread", &own, &other?)?;
        let all: Vec<Outcome> = thread::scope(|scope| {
            let spawn = |(values, wanted): (&Vec<Vec<u8>>, &Option<udo_testing::Run>)| {
                let (values, wanted) =
                    (values.clone(), wanted.as_ref().map(|run| run.outputs.clone()));
                scope.spawn(move || {
                    let Some(wanted) = wanted else { return Ok(()) };
                    for _ in 0..rounds {
                        let found = run_with(live, cx, &live.trial, &values, How::default())?;
                        differs(live, cx, "with eight calls at once", &wanted, &found)?;
                    }
                    Ok(())
                })
            };
            let threads: Vec<_> = values.iter().zip(&wanted).map(spawn).collect();
            threads
                .into_iter()
                .map(|t| {
                    t.join().unwrap_or_else(|_| failed("a thread that ran the kernel panicked"))
                })
                .collect()
        });
        all.into_iter().collect()
    })
}

pub(super) fn widths(cx: &OpContext) -> Outcome {
    each(cx, |live| {
        let wanted = run_node(live, cx, &live.trial, How::default())?;
        for width in [2, 3, 4, 8] {
            let trial = cx.trial(live.node, width);
            let trial = trial.map_err(|refusal| {
                Finding::Failed(format!(
                    "finalize refuses {width} threads for {}: {refusal}",
                    live.describe(cx)
                ))
            })?;
            let alone = run_node(live, cx, &trial, How { width, ..How::default() })?;
            differs(live, cx, &format!("with {width} worker threads"), &wanted, &alone)?;
            for order in [Order::Backwards, Order::Threads] {
                let how = How { width, order, ..How::default() };
                let found = run_node(live, cx, &trial, how)?;
                let when = format!("with {width} threads, {order:?}");
                differs(live, cx, &when, &alone, &found)?;
            }
        }
        Ok(())
    })
}

pub(super) fn in_place(cx: &OpContext) -> Outcome {
    if cx.subject.kernels.iter().all(|kernel| kernel.def.in_place_pairs().is_empty()) {
        return not_applicable("no kernel writes in place");
    }
    each(cx, |live| {
        let wanted = run_node(live, cx, &live.trial, How::default())?;
        let found = run_node(live, cx, &live.trial, How { mode: Mode::InPlace, ..How::default() })?;
        differs(live, cx, "in place", &wanted, &found)
    })
}

pub(super) fn pitched(cx: &OpContext) -> Outcome {
    let mut tried = 0;
    each(cx, |live| {
        if !live.trial.takes_pitched() {
            return Ok(());
        }
        tried += 1;
        let wanted = run_node(live, cx, &live.trial, How::default())?;
        let found = run_node(live, cx, &live.trial, How { mode: Mode::Pitched, ..How::default() })?;
        differs(live, cx, "over strided rows", &wanted, &found)
    })?;
    if tried == 0 { not_applicable("no kernel accepts strided rows") } else { Ok(()) }
}

pub(super) fn after_error(cx: &OpContext) -> Outcome {
    each(cx, |live| {
        let wanted = run_node(live, cx, &live.trial, How::default())?;
        // A call that is cancelled before it starts may do anything except affect later calls.
        let cancelled = How { width: 4, is_cancelled: true, ..How::default() };
        let shared =
            cx.trial(live.node, 4).map_err(|refusal| Finding::Failed(refusal.to_string()))?;
        if let Err(CallError::Broken(what)) = shared.run(&live.values, cancelled) {
            return failed(format!("a cancelled run: {what}: {}", live.describe(cx)));
        }
        for (_, params) in params::oddities(cx.subject.op, &live.node.params) {
            let odd = Node { params, ..live.node.clone() };
            // The next kernel must not be affected, refused or not.
            drop(cx.trial_by(&odd, live.entry, 1));
        }
        let found = run_node(live, cx, &live.trial, How::default())?;
        differs(live, cx, "after a call that failed", &wanted, &found)?;
        let trial =
            cx.trial(live.node, 1).map_err(|refusal| Finding::Failed(refusal.to_string()))?;
        let found = run_node(live, cx, &trial, How::default())?;
        differs(live, cx, "in a session after a refused one", &wanted, &found)
    })
}

pub(super) fn special(cx: &OpContext) -> Outcome {
    let has_floats = |live: &Live<'_>| {
        live.node.inputs.iter().any(|i| i.desc.dtype().is_some_and(udo_api::DType::is_float))
    };
    let mut tried = 0;
    for live in cx.live().filter(has_floats) {
        for fill in [Fill::Denormal, Fill::Infinite, Fill::Nan, Fill::Large] {
            tried += 1;
            let values = live.node.values(fill, live.seed);
            if let Err(fault) = live.trial.run(&values, How::default()) {
                if fault.is_bad_value() {
                    continue;
                }
                return failed(format!("{} of {}: {}", fill.name(), live.describe(cx), fault));
            }
        }
    }
    if tried == 0 { not_applicable("no input is floating point") } else { Ok(()) }
}

pub(super) fn surroundings(cx: &OpContext) -> Outcome {
    let calls = || each(cx, |live| run_node(live, cx, &live.trial, How::default()).map(drop));
    calls()?;
    // The write-ahead of captures would count as file access.
    if !cx.recorder.is_ahead() {
        let told = |error| Finding::Failed(format!("cannot redirect standard output: {error}"));
        let (outcome, moved) = transfers::measure(calls).map_err(told)?;
        outcome?;
        match moved {
            Some(Transfers { written, .. }) if written > 0 => {
                return failed(format!("calls write {written} bytes to files"));
            }
            Some(Transfers { read, .. }) if read > 0 => {
                return failed(format!("calls read {read} bytes from files"));
            }
            _ => {}
        }
    }
    let mut changed = None;
    // The system lists ended threads for a moment longer.
    for _ in 0..200 {
        changed = cx.before.changed(&Surroundings::now());
        if changed.is_none() {
            break;
        }
        thread::park_timeout(Duration::from_millis(1));
    }
    match changed {
        Some(changed) => failed(format!("since the package was opened, {changed}")),
        None => Ok(()),
    }
}

pub(super) fn time(cx: &OpContext) -> Outcome {
    use crate::shapes::Class;
    const FEW: usize = 512;
    // Time quadratic in the elements grows 256- or 16-fold, linear time 16- or 4-fold.
    const MANY: (usize, f64) = (16, 90.0);
    const SOME: (usize, f64) = (4, 9.0);
    let nodes = cx.search_result().nodes.iter();
    let Some(small) = nodes.clone().find(|node| node.class == Class::Plain) else {
        return skipped("no node of plain dimensions was found");
    };
    let Some(entry) = cx.kernel(small) else {
        return not_applicable("the node does not have a kernel");
    };
    let skip = || not_applicable("the operator does not accept other row lengths");
    let Some((few, before)) = time_of(cx, small, entry, FEW) else { return skip() };
    let is_slow = few > Duration::from_millis(20);
    let (times, limit) = if is_slow { SOME } else { MANY };
    let Some((many, after)) = time_of(cx, small, entry, times * FEW) else { return skip() };
    let ratio = many.as_secs_f64() / few.as_secs_f64().max(2e-6);
    // An output may have one element per pair of input elements, which makes quadratic time legitimate.
    #[expect(clippy::cast_precision_loss, reason = "numbers of elements")]
    let growth = (after as f64 / before.max(1) as f64 / times as f64).max(1.0);
    if ratio > limit * growth {
        return Err(Finding::Warning(format!(
            "{times} times the elements take {ratio:.0} times as long: {few:?} for {FEW}, {many:?} for {}",
            times * FEW
        )));
    }
    Ok(())
}

/// Measures a call whose first input has `len` elements along its last axis; also returns the number of elements of all
/// tensors.
fn time_of(
    cx: &OpContext,
    small: &crate::node::Node,
    entry: &udo_engine::operators::KernelEntry,
    len: usize,
) -> Option<(Duration, usize)> {
    /// Calls of this duration are hardly disturbed by other work.
    const LONG: Duration = Duration::from_millis(200);
    let mut node = Node { fixed: None, ..small.clone() };
    let along = *small.inputs.first()?.dims.last()?;
    for input in &mut node.inputs {
        // Axes as long as the first input's last axis change with it.
        if input.constant.is_some() || input.dims.last() != Some(&along) {
            return None;
        }
        let mut dims: Vec<usize> = input.dims.iter().map(|_| 1).collect();
        *dims.last_mut()? = len;
        input.desc = input.desc.with_extents(udo_api::Shape::new(&dims).ok()?);
        input.dims = dims;
    }
    let outputs = node.inferred(entry, cx.subject.core).ok()?;
    let old = small.outputs.iter().map(udo_api::TensorDesc::encoding);
    node.outputs = outputs
        .iter()
        .zip(old)
        .map(|(desc, old)| match (desc.encoding(), old) {
            (None, Some(encoding)) => desc.with_encoding(encoding),
            _ => *desc,
        })
        .collect();
    if !crate::subject::fits(entry, &node.input_descs(), &node.outputs) {
        return None;
    }
    let trial = cx.trial_by(&node, entry, 1).ok()?;
    let values = node.values(Fill::Random, cx.seed);
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = clock::worked();
        trial.run(&values, How::default()).ok()?;
        best = best.min(clock::worked().saturating_sub(start));
        if best > LONG {
            break;
        }
    }
    let elements =
        node.input_descs().iter().chain(&node.outputs).map(udo_api::TensorDesc::len).sum();
    Some((best, elements))
}
