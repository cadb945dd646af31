//! Output shapes.

use udo_api::{Dim, TensorDesc};
use udo_reference::{EvalError, Extent};
use udo_testing::{CallError, How};

use super::{Outcome, failed, known, not_applicable};
use crate::context::OpContext;
use crate::node::Node;
use crate::reference;
use crate::values::Fill;

pub(super) fn runs(cx: &OpContext) -> Outcome {
    for node in known(cx)? {
        let said = format!("{} {}", node.class.name(), node.describe(cx.subject.core));
        let trial = match cx.trial(node, 1) {
            Ok(trial) => trial,
            Err(refusal) => {
                return failed(format!(
                    "finalize accepts {said} once and then refuses it: {refusal}"
                ));
            }
        };
        if let Err(fault) = OpContext::first_run(node, &trial, cx.seed) {
            if fault.is_bad_value() && may_refuse(cx, node) {
                continue;
            }
            return failed(format!("{said}: {fault}"));
        }
        // Refused elements must not break the kernel either.
        for fill in [Fill::Zero, Fill::Negative, Fill::Ramp] {
            if let Err(CallError::Broken(what)) =
                trial.run(&node.values(fill, cx.seed), How::default())
            {
                return failed(format!("{} of {said}: {what}", fill.name()));
            }
        }
    }
    Ok(())
}

/// Whether a correct kernel may refuse all elements of the trials.
fn may_refuse(cx: &OpContext, node: &Node) -> bool {
    let values = node.values(Fill::Random, cx.seed);
    match cx.reference() {
        Some(program) if !reference::is_long(program, node, &values) => {
            reference::refuses(program, node, &values)
        }
        // Every index is out of range for an empty tensor.
        Some(_) | None => node.has_integers(),
    }
}

fn says_the_same_again(cx: &OpContext) -> Outcome {
    let same =
        |a: &TensorDesc, b: &TensorDesc| (a.dtype(), a.full_shape()) == (b.dtype(), b.full_shape());
    for node in known(cx)? {
        let Some(entry) = cx.kernel(node) else { continue };
        for _ in 0..16 {
            let again = node.inferred(entry, cx.subject.core);
            let is_same = again
                .as_ref()
                .is_ok_and(|again| again.iter().zip(&node.outputs).all(|(a, b)| same(a, b)));
            if !is_same {
                return failed(format!(
                    "shape inference gives another result the second time: {}",
                    node.describe(cx.subject.core)
                ));
            }
        }
    }
    Ok(())
}

pub(super) fn inferred(cx: &OpContext) -> Outcome {
    says_the_same_again(cx)?;
    for node in known(cx)? {
        by_the_reference(cx, node)?;
    }
    for live in cx.live() {
        for expected in cx.expected(live.node, &live.values) {
            let Ok(run) = live.trial.run(&live.values, How::default()) else { continue };
            for (port, (wanted, made)) in expected.wanted.iter().zip(&run.outputs).enumerate() {
                if wanted.dims.as_ref().is_some_and(|dims| *dims != made.dims) {
                    return failed(format!(
                        "output {port} of {} is {:?}, and {:?} by {}",
                        live.describe(cx),
                        made.dims,
                        wanted.dims.as_deref().unwrap_or_default(),
                        expected.kind.describe()
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Compares inferred shapes with those of the reference.
fn by_the_reference(cx: &OpContext, node: &Node) -> Outcome {
    let is_fixed = node.inputs.iter().all(|input| input.desc.full_shape().is_fixed());
    let Some(program) = cx.reference().filter(|_| is_fixed) else { return Ok(()) };
    let said = || format!("{} {}", node.class.name(), node.describe(cx.subject.core));
    let values = node.values(Fill::Random, cx.seed);
    cx.recorder.begins(node, &values);
    let extents = match reference::infer(program, node, &values) {
        Ok(extents) => extents,
        Err(EvalError::Work { .. }) => return Ok(()),
        Err(why) => {
            return failed(format!(
                "the operator accepts {} and the reference refuses it: {why}",
                said()
            ));
        }
    };
    for (port, (wanted, found)) in extents.iter().zip(&node.outputs).enumerate() {
        // A larger bound than necessary is not a mistake.
        let fits = |(wanted, found): (&Extent, Dim)| match (wanted, found) {
            (Extent::Fixed(wanted), Dim::Fixed(found) | Dim::Open(found)) => *wanted == found,
            (Extent::Fixed(wanted) | Extent::UpTo(wanted), Dim::UpTo(bound)) => *wanted <= bound,
            (Extent::UpTo(_), Dim::Fixed(_) | Dim::Open(_)) => false,
        };
        let shape = found.full_shape();
        let is_same = shape.rank() == wanted.len() && wanted.iter().zip(shape.iter()).all(fits);
        if !found.is_absent() && !is_same {
            let wanted: Vec<String> = wanted.iter().map(extent_said).collect();
            return failed(format!(
                "shape inference gives {shape} for output {port} of {}, expected [{}] as in the reference",
                said(),
                wanted.join(", ")
            ));
        }
    }
    Ok(())
}

fn extent_said(extent: &Extent) -> String {
    match extent {
        Extent::Fixed(extent) => extent.to_string(),
        Extent::UpTo(bound) => format!("up to {bound}"),
    }
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
                        "{}: {} give other dimensions or elements the second time",
                        live.describe(cx),
                        fill.name()
                    ));
                }
                (Err(fault), Err(_)) if fault.is_bad_value() => {}
                (Err(fault), _) | (_, Err(fault)) => {
                    return failed(format!("{} of {}: {}", fill.name(), live.describe(cx), fault));
                }
            }
        }
    }
    if seen == 0 { not_applicable("no output is bounded") } else { Ok(()) }
}
