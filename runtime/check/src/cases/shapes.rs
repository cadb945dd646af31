//! Extents of outputs.

use udo_api::TensorDesc;

use super::{Outcome, failed, skipped};
use crate::context::OpContext;
use crate::node;
use crate::trial::{Fault, How};
use crate::values::Fill;

pub(super) fn runs(cx: &OpContext) -> Outcome {
    let nodes = &cx.found().nodes;
    if nodes.is_empty() {
        return skipped("no node is known");
    }
    for node in nodes {
        let said = format!("{} {}", node.class.name(), node.said(cx.subject.core));
        let trial = match cx.trial(node, 1) {
            Ok(trial) => trial,
            Err(refusal) => {
                return failed(format!(
                    "finalize takes {said} once, and then refuses it: {refusal}"
                ));
            }
        };
        if let Err(fault) = OpContext::first_run(node, &trial, cx.seed) {
            // No index is in range where there is nothing to index.
            if node.has_integers() && fault.is_of_value() {
                continue;
            }
            return failed(format!("{said}: {}", fault.said()));
        }
        // Elements that a kernel may refuse must not break it either.
        for fill in [Fill::Zero, Fill::Negative, Fill::Ramp] {
            if let Err(Fault::Broken(what)) = trial.run(&node.values(fill, cx.seed), How::default())
            {
                return failed(format!("{} of {said}: {what}", fill.name()));
            }
        }
    }
    Ok(())
}

fn says_the_same_again(cx: &OpContext) -> Outcome {
    let same =
        |a: &TensorDesc, b: &TensorDesc| (a.dtype(), a.full_shape()) == (b.dtype(), b.full_shape());
    for known in &cx.found().nodes {
        for _ in 0..16 {
            let again =
                node::inferred(cx.subject.op, &known.inputs, &known.params, known.outputs.len());
            let is_same = again
                .as_ref()
                .is_ok_and(|again| again.iter().zip(&known.outputs).all(|(a, b)| same(a, b)));
            if !is_same {
                return failed(format!(
                    "shape inference says something else the second time: {}",
                    known.said(cx.subject.core)
                ));
            }
        }
    }
    Ok(())
}

pub(super) fn inferred(cx: &OpContext) -> Outcome {
    says_the_same_again(cx)?;
    for live in cx.live() {
        for oracle in cx.vouchers() {
            let Some(wanted) = oracle.wanted(live.node, &live.values) else { continue };
            let Ok(run) = live.trial.run(&live.values, How::default()) else { continue };
            for (port, (wanted, made)) in wanted.iter().zip(&run.outputs).enumerate() {
                if wanted.dims != made.dims {
                    return failed(format!(
                        "output {port} of {} is {:?}, and {:?} by {}",
                        live.said(cx),
                        made.dims,
                        wanted.dims,
                        oracle.who.said()
                    ));
                }
            }
        }
    }
    Ok(())
}

pub(super) fn bounds(cx: &OpContext) -> Outcome {
    let mut seen = 0;
    for live in cx.live() {
        if live.node.outputs.iter().all(|output| output.full_shape().is_fixed()) {
            continue;
        }
        seen += 1;
        for fill in [Fill::Random, Fill::Small, Fill::Equal, Fill::Large, Fill::Zero, Fill::Nan] {
            let values = live.node.values(fill, live.seed);
            let [first, second] = [0xff, 0xa5]
                .map(|poison| live.trial.run(&values, How { poison, ..How::default() }));
            match (first, second) {
                (Ok(first), Ok(second)) if first.outputs == second.outputs => {}
                (Ok(_), Ok(_)) => {
                    return failed(format!(
                        "of {}, {} give other extents or elements the second time",
                        live.said(cx),
                        fill.name()
                    ));
                }
                (Err(fault), Err(_)) if fault.is_of_value() => {}
                (Err(fault), _) | (_, Err(fault)) => {
                    return failed(format!(
                        "{} of {}: {}",
                        fill.name(),
                        live.said(cx),
                        fault.said()
                    ));
                }
            }
        }
    }
    if seen == 0 { skipped("no output is bounded") } else { Ok(()) }
}
