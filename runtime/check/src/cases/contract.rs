//! Checks of operators and kernels before a run.

use udo_api::{Status, TensorDesc};
use udo_testing::{CallError, How, Output};

use super::{Finding, Outcome, differs, failed, known, not_applicable, skipped, unchecked};
use crate::context::OpContext;
use crate::node::Node;
use crate::params;
use crate::raw::heap;
use crate::reference::is_long;
use crate::search::SearchResult;
use crate::trial::Trial;
use crate::values::{Fill, Seen};

pub(super) fn kernels(cx: &OpContext) -> Outcome {
    if !cx.subject.kernels.is_empty() {
        return Ok(());
    }
    if cx.subject.is_declared() {
        let core = cx.subject.core;
        return failed(format!(
            "the operator's ports declare types for {core}, and the package has no kernel for it"
        ));
    }
    not_applicable("the operator does not declare types for this core")
}

pub(super) fn written(cx: &OpContext) -> Outcome {
    let found = cx.search_result();
    if found.is_unwritten {
        return failed(
            "the operator or its kernel returns NOT_IMPLEMENTED: the skeleton is not written",
        );
    }
    if found.nodes.is_empty() {
        return skipped("no node was found to check this with");
    }
    for node in &found.nodes {
        let Ok(trial) = cx.trial(node, 1) else { continue };
        if let Some(why) = unwritten(&trial) {
            return failed(why);
        }
        if let Err(CallError::Failed(failure)) =
            trial.run(&node.values(Fill::Random, cx.seed), How::default())
            && failure.error.status == Status::NOT_IMPLEMENTED
        {
            return failed("execute returns NOT_IMPLEMENTED: the skeleton is not written");
        }
    }
    Ok(())
}

/// Returns the kernel's first OpenCL C source that is not written, if any.
pub(super) fn unwritten(trial: &Trial<'_>) -> Option<String> {
    let info = trial.kernel().gpu_info()?;
    info.launches.iter().find_map(|launch| {
        let why = unwritten_source(&launch.source, &launch.name)?;
        Some(format!("the OpenCL source of kernel {:?} {why}", launch.name))
    })
}

/// Returns why OpenCL C is not a written kernel, judged by its text.
fn unwritten_source(source: &str, name: &str) -> Option<String> {
    let code = without_comments(source);
    if let Some(line) = code.lines().find(|line| line.trim_start().starts_with("#error")) {
        return Some(format!("has a line {:?}", line.trim()));
    }
    let Some(at) = code.find(name) else { return Some("does not define it".to_owned()) };
    let body = code.get(at..).and_then(|rest| rest.split_once('{')).map(|(_, body)| body);
    let Some(body) = body else { return Some("does not define it".to_owned()) };
    let mut depth = 1usize;
    let end = body.char_indices().find(|&(_, letter)| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let Some((end, _)) = end else { return Some("ends within the kernel".to_owned()) };
    let own = body.get(..end).unwrap_or(body);
    let stores = ["UDO_STORE", "vstore", "=", "atomic", "("];
    let is_empty = own.trim().is_empty();
    let assigns = own.contains("UDO_STORE")
        || own.contains("] =")
        || own.contains("]=")
        || own.contains("vstore");
    let calls_others = code.matches("UDO_STORE").count() > 0 || code.contains("] =");
    if is_empty || !(assigns || calls_others) || !stores.iter().any(|word| own.contains(word)) {
        return Some("stores nothing".to_owned());
    }
    None
}

fn without_comments(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        let (before, comment) = rest.split_at(at);
        code.push_str(before);
        let end = if comment.starts_with("/*") {
            comment.find("*/").map(|end| end + 2)
        } else {
            comment.find('\n')
        };
        rest = end.and_then(|end| comment.get(end..)).unwrap_or("");
    }
    code.push_str(rest);
    code
}

pub(super) fn nodes(cx: &OpContext) -> Outcome {
    if cx.subject.has_graphs() {
        return not_applicable("the host runs subgraphs for this operator");
    }
    let SearchResult { nodes, refusals, .. } = cx.search_result();
    if cx.subject.kernels.is_empty() {
        return not_applicable("the operator does not have a kernel");
    }
    let taken = |kernel: usize| nodes.iter().any(|node| node.kernel == kernel);
    let count = cx.subject.kernels.len();
    let Some(open) = (0..count).find(|kernel| !taken(*kernel)) else { return Ok(()) };
    let is_any = (0..count).any(taken);
    // Some built-in kernels are only for nodes that passes create.
    if is_any && cx.is_builtin {
        return Ok(());
    }
    let why = refusals.first().map_or("none of its types fits", String::as_str);
    let whom = if is_any { format!("kernel {} of {count}", open + 1) } else { "it".to_owned() };
    failed(format!("no node was found that {whom} accepts; last refusal: {why}"))
}

pub(super) fn offers(cx: &OpContext) -> Outcome {
    if cx.is_builtin {
        return not_applicable("nodes of built-in operators are written by hand");
    }
    let SearchResult { nodes, untried, .. } = cx.search_result();
    if nodes.is_empty() {
        return skipped("no valid node was found");
    }
    if untried.is_empty() {
        return Ok(());
    }
    let untried = untried.join(", ");
    Err(Finding::Warning(format!("not covered by any accepted node: {untried}")))
}

pub(super) fn refusals(cx: &OpContext) -> Outcome {
    match cx.search_result().faults.first() {
        Some(fault) => failed(fault),
        None => known(cx).map(drop),
    }
}

pub(super) fn parameters(cx: &OpContext) -> Outcome {
    let Some(node) = cx.search_result().nodes.first() else {
        return skipped("no valid node was found");
    };
    if node.params.is_empty() {
        return not_applicable("the operator does not have parameters");
    }
    let Some(entry) = cx.kernel(node) else {
        return not_applicable("the node does not have a kernel");
    };
    for (said, params) in params::oddities(cx.subject.op, &node.params) {
        let mut odd = Node { params, ..node.clone() };
        let outputs = match odd.inferred(entry, cx.subject.core) {
            Ok(outputs) => outputs,
            Err(refusal) if refusal.status == Status::PANICKED => {
                return failed(format!("infer panics where {said}: {}", refusal.message));
            }
            Err(refusal) if refusal.message.trim().is_empty() => {
                return failed(format!("infer refuses {said} without a reason"));
            }
            Err(_) => continue,
        };
        if outputs.iter().map(TensorDesc::size_bytes).sum::<usize>() > 16 << 20 {
            continue;
        }
        odd.outputs = encoded(&outputs, node);
        match cx.trial_by(&odd, entry, 1) {
            Ok(trial) => {
                let values = odd.values(Fill::Small, cx.seed);
                if cx.reference().is_some_and(|program| is_long(program, &odd, &values)) {
                    continue;
                }
                let run = trial.run(&values, How::default());
                if let Err(CallError::Failed(failure)) = &run
                    && failure.error.status == Status::PANICKED
                {
                    return failed(format!("execute panics where {said}: {}", failure.message));
                }
                if let Err(CallError::Broken(what)) = run {
                    return failed(format!("where {said}: {what}"));
                }
            }
            Err(refusal) if refusal.status == Status::PANICKED => {
                return failed(format!("finalize panics where {said}: {}", refusal.message));
            }
            Err(refusal) if refusal.message.trim().is_empty() => {
                return failed(format!("finalize refuses {said} without a reason"));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Adds encodings to outputs without one: those of `node`.
pub(super) fn encoded(outputs: &[TensorDesc], node: &Node) -> Vec<TensorDesc> {
    let pairs = outputs.iter().zip(&node.outputs);
    pairs
        .map(|(output, old)| match (output.encoding(), old.encoding()) {
            (None, Some(encoding)) if output.dtype() == old.dtype() => {
                output.with_encoding(encoding)
            }
            _ => *output,
        })
        .collect()
}

pub(super) fn finalize(cx: &OpContext) -> Outcome {
    const ROUNDS: usize = 24;
    if !heap::CAN_WATCH {
        return unchecked("the heap cannot be watched on this system");
    }
    for node in known(cx)?.iter().take(4) {
        let mut kept = Vec::new();
        for _ in 0..ROUNDS {
            let (made, used) = heap::watched(|| cx.trial(node, 1).map(drop));
            if let Err(refusal) = made {
                return failed(format!(
                    "finalize accepts {} once and then refuses it: {refusal}",
                    node.describe(cx.subject.core)
                ));
            }
            kept.push(used.kept_bytes);
        }
        // One-time allocations happen in the first rounds.
        let later = kept.get(ROUNDS / 2..).unwrap_or_default();
        if later.iter().all(|&bytes| bytes > 0) {
            let bytes = later.iter().sum::<i64>() / i64::try_from(later.len()).unwrap_or(1);
            return failed(format!(
                "finalizing and freeing a kernel for {} leaks {bytes} bytes each time",
                node.describe(cx.subject.core)
            ));
        }
    }
    Ok(())
}

/// Returns where outputs differ from those of another call, whose kernel may sum in another order.
fn first_mismatch(node: &Node, found: &[Output], wanted: &[Output]) -> Option<String> {
    let mut outputs = found.iter().zip(wanted).zip(&node.outputs).enumerate();
    outputs.find_map(|(at, ((found, wanted), desc))| {
        let why = differs(Seen::new(found, desc), Seen::new(wanted, desc))?;
        Some(format!("output {at} {why}"))
    })
}

pub(super) fn constants(cx: &OpContext) -> Outcome {
    let mut compared = 0;
    for live in cx.live() {
        let Ok(wanted) = live.trial.run(&live.values, How::default()) else { continue };
        for port in 0..live.node.inputs.len() {
            let mut node = live.node.clone();
            let Some(input) = node.inputs.get_mut(port) else { continue };
            let is_run = input.constant.is_none() && input.desc.full_shape().is_fixed();
            let Some(values) = live.values.get(port).filter(|_| is_run && !input.desc.is_absent())
            else {
                continue;
            };
            input.constant = udo_host::Buffer::from_bytes(values).ok().map(std::sync::Arc::new);
            let Ok(trial) = cx.trial_by(&node, live.entry, 1) else { continue };
            compared += 1;
            match trial.run(&live.values, How::default()) {
                Ok(run) => {
                    if let Some(why) = first_mismatch(&node, &run.outputs, &wanted.outputs) {
                        return failed(format!(
                            "with input {port} constant, {why}: {}",
                            live.describe(cx)
                        ));
                    }
                }
                Err(fault) => {
                    return failed(format!(
                        "with input {port} constant, {}: {}",
                        live.describe(cx),
                        fault
                    ));
                }
            }
        }
    }
    if compared == 0 { not_applicable("no input may be constant") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_not_written_is_known_by_its_text() {
        let skeleton = "#error \"X is not implemented yet\"\n__kernel void x_kernel() {}";
        assert!(unwritten_source(skeleton, "x_kernel").unwrap().starts_with("has a line"));
        let empty = "__kernel void x_kernel(int a) { /* y[i] = 1; */ // UDO_STORE(y, 0, 1)\n }";
        assert_eq!(unwritten_source(empty, "x_kernel").unwrap(), "stores nothing");
        assert_eq!(unwritten_source(empty, "y_kernel").unwrap(), "does not define it");
        let written = "__kernel void x_kernel(int a) { if (a) { UDO_STORE(y, 0, 1); } }";
        assert_eq!(unwritten_source(written, "x_kernel"), None);
        let plain = "kernel void x(global float *y) { y[get_global_id(0)] = 1.0f; }";
        assert_eq!(unwritten_source(plain, "x"), None);
    }
}
