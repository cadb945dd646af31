//! Memory that calls read and write.

use udo_api::Status;
use udo_testing::{CallError, HeapUse, How, Mode, Order, Output, Run, VTCM_BYTES};

use super::{Finding, Outcome, failed, known, skipped, unchecked};
use crate::context::{Live, OpContext};
use crate::raw::heap;
use crate::raw::memory::Flush;
use crate::values::Fill;

fn ran(live: &Live<'_>, cx: &OpContext, how: How, flush: Flush) -> Result<Run, Finding> {
    live.trial
        .run_flush(&live.values, how, flush)
        .map_err(|fault| Finding::Failed(format!("{}: {}", live.describe(cx), fault)))
}

pub(super) fn written(cx: &OpContext) -> Outcome {
    const POISONS: [u8; 3] = [0xff, 0xa5, 0x40];
    let mut nodes = 0;
    for live in cx.live() {
        nodes += 1;
        let mut runs = Vec::new();
        for poison in POISONS {
            runs.push(ran(&live, cx, How { poison, ..How::default() }, Flush::Start)?);
        }
        let [first, second, third] = &runs[..] else { continue };
        for (port, output) in first.outputs.iter().enumerate() {
            let others = [second, third].map(|run| run.outputs.get(port));
            let [Some(second), Some(third)] = others else { continue };
            if output == second && output == third {
                continue;
            }
            let [poison, other, _] = POISONS;
            let first = Poisoned { poison, output };
            let second = Poisoned { poison: other, output: second };
            return failed(describe_difference(port, first, second, &live.describe(cx)));
        }
    }
    if nodes == 0 { skipped("no node runs") } else { Ok(()) }
}

/// An output of a run, and the byte that filled its memory before.
#[derive(Clone, Copy)]
struct Poisoned<'a> {
    poison: u8,
    output: &'a Output,
}

/// Describes how two runs differ whose outputs and scratch had different contents before.
fn describe_difference(
    port: usize,
    first: Poisoned<'_>,
    second: Poisoned<'_>,
    said: &str,
) -> String {
    let pairs = first.output.bytes.iter().zip(&second.output.bytes);
    let is_left = |(x, y): (&u8, &u8)| *x == first.poison && *y == second.poison;
    let left = pairs.clone().filter(|&pair| is_left(pair)).count();
    match pairs.clone().position(is_left) {
        Some(at) => format!(
            "{left} of {} bytes of output {port} are not written, the first at {at}: {said}",
            first.output.bytes.len()
        ),
        None => {
            format!(
                "output {port} depends on the previous contents of its memory or the workspace: {said}"
            )
        }
    }
}

pub(super) fn guards(cx: &OpContext) -> Outcome {
    let mut nodes = 0;
    for live in cx.tried() {
        nodes += 1;
        for flush in [Flush::End, Flush::Start] {
            for mode in [Mode::Apart, Mode::Pitched, Mode::InPlace] {
                ran(&live, cx, How { mode, is_sealed: true, ..How::default() }, flush)?;
            }
        }
    }
    if nodes == 0 { skipped("no node runs") } else { Ok(()) }
}

pub(super) fn heap(cx: &OpContext) -> Outcome {
    const FILLS: [Fill; 6] =
        [Fill::Random, Fill::Small, Fill::Equal, Fill::Large, Fill::Infinite, Fill::Nan];
    if !heap::CAN_WATCH {
        return unchecked("the heap cannot be watched on this system");
    }
    let mut calls = 0;
    for node in known(cx)? {
        for (width, order) in [(1, Order::Forwards), (4, Order::Threads)] {
            let Ok(trial) = cx.trial(node, width) else { continue };
            for fill in FILLS {
                let how = How { width, order, ..How::default() };
                let run = trial.run(&node.values(fill, cx.seed), how);
                let said = || {
                    format!(
                        "{} of {} {}",
                        fill.name(),
                        node.class.name(),
                        node.describe(cx.subject.core)
                    )
                };
                match run {
                    Ok(run) if run.heap.calls > 0 => {
                        let HeapUse { calls, first_bytes } = run.heap;
                        return failed(format!(
                            "a call uses the heap {calls} times, for {first_bytes} bytes at first: {}",
                            said()
                        ));
                    }
                    Err(CallError::Failed(failure)) if failure.error.status == Status::HEAP_USE => {
                        return failed(format!("{failure}: {}", said()));
                    }
                    Ok(_) => calls += 1,
                    Err(_) => {}
                }
            }
        }
    }
    if calls == 0 { skipped("no node runs") } else { Ok(()) }
}

pub(super) fn workspace(cx: &OpContext) -> Outcome {
    /// Smaller workspaces are always accepted.
    const FREE: usize = 16 << 20;
    for node in known(cx)? {
        let Ok(trial) = cx.trial(node, 1) else { continue };
        if let Err(CallError::Failed(failure)) =
            trial.run(&node.values(Fill::Random, cx.seed), How::default())
            && failure.error.status == Status::SCRATCH_EXCEEDED
        {
            return failed(format!(
                "{failure}: {} {}",
                node.class.name(),
                node.describe(cx.subject.core)
            ));
        }
    }
    for live in cx.live() {
        let declared = live.trial.workspace();
        ran(&live, cx, How { poison: 0x7f, ..How::default() }, Flush::End)?;
        let tensors = live.node.bytes();
        let bytes = declared.bytes();
        if !declared.wants_all_vtcm() && bytes > FREE && bytes / 64 > tensors {
            return failed(format!(
                "the kernel declares a workspace of {bytes} bytes for {tensors} bytes of tensors: {}",
                live.describe(cx)
            ));
        }
        let fast = VTCM_BYTES;
        let has_fast = cx.subject.core.kind().is_some_and(udo_api::CoreKind::has_fast_memory);
        if has_fast && bytes > fast {
            return failed(format!(
                "the kernel declares a workspace of {bytes} bytes, and the fast memory has {fast}: {}",
                live.describe(cx)
            ));
        }
    }
    Ok(())
}
