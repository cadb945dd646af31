//! Repeats a captured call: runs the failed case on its node and elements only.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use udo_api::{CoreKind, DType, Quantization, TensorDesc};
use udo_engine::operators::KernelEntry;
use udo_host::{Buffer, ParamSetting};
use udo_testing::How;

use crate::capture::{Capture, CapturedInput, RUN_CASES};
use crate::cases::{CASES, Outcome, Run, compared, device, failed};
use crate::context::OpContext;
use crate::expected::Expected;
use crate::node::{Input, Node};
use crate::oracle::Oracle;
use crate::search::SearchResult;
use crate::shapes::Class;
use crate::subject::{fits, input_types};
use crate::trial::Trial;
use crate::values::{encoding_of, numbers, push, quantized};

/// The most differing elements to show for an output.
const SHOWN: usize = 8;

/// Returns the context with the captured node as its only node.
///
/// # Errors
/// The operator or its kernels on this core refuse the node.
pub(crate) fn context(mut cx: OpContext, capture: &Capture) -> Result<OpContext, String> {
    let params = params(&cx, capture)?;
    let mut last = None;
    for kernel in 0..cx.subject.kernels.len() {
        match node(&cx, capture, kernel, &params) {
            Ok((node, is_exact)) => {
                // The captured results hold for exactly the captured values only.
                if is_exact {
                    let wanted = capture.outputs.iter().map(|output| {
                        let wanted = output.wanted.clone()?;
                        let (dims, numbers, allowed) =
                            (wanted.dims, wanted.numbers, wanted.allowed);
                        Some(Expected { dims, numbers, allowed, integers: None })
                    });
                    cx.oracles.push(Oracle::recorded(wanted.collect()));
                }
                let result = SearchResult { nodes: vec![node], ..SearchResult::default() };
                cx.search_result = OnceLock::from(result);
                return Ok(cx);
            }
            Err(why) => last = Some(why),
        }
    }
    let core = cx.subject.core;
    Err(last.unwrap_or_else(|| format!("the package has no kernel of {} on {core}", capture.op)))
}

/// Maps the parameters to the operator's parameter names.
fn params(cx: &OpContext, capture: &Capture) -> Result<Vec<(&'static str, ParamSetting)>, String> {
    let known = cx.subject.op.schema().params();
    if let Some((name, _)) =
        capture.params.iter().find(|(name, _)| known.iter().all(|param| param.name() != name))
    {
        return Err(format!("the operator has no parameter {name:?} of the captured call"));
    }
    let of = |param: &udo_api::Param| {
        let given = capture.params.iter().find(|(name, _)| name == param.name());
        let default = || ParamSetting::default_of(param);
        (param.name(), given.map_or_else(default, |(_, setting)| setting.clone()))
    };
    Ok(known.iter().map(of).collect())
}

/// Builds the node for one of the kernels. Also returns whether its elements have exactly the captured values; a copy in
/// f32 has.
fn node(
    cx: &OpContext,
    capture: &Capture,
    kernel: usize,
    params: &[(&'static str, ParamSetting)],
) -> Result<(Node, bool), String> {
    let core = cx.subject.core;
    let entry = cx.subject.kernels.get(kernel).ok_or("the node does not have a kernel")?;
    let (mut inputs, mut values, mut descs) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_exact = true;
    for (port, input) in capture.inputs.iter().enumerate() {
        let (desc, bytes) = for_kernel(cx, entry, port, input, &descs)
            .ok_or_else(|| format!("the kernel does not accept the type of input {port}"))?;
        is_exact &= desc == input.desc || desc.dtype() == Some(DType::F32);
        let constant = if input.is_constant {
            Some(Arc::new(Buffer::from_bytes(&bytes).map_err(|error| error.to_string())?))
        } else {
            None
        };
        descs.push(desc);
        inputs.push(Input { desc, dims: input.dims.clone(), constant });
        values.push(bytes);
    }
    let count = capture.outputs.len();
    let mut node = Node {
        class: Class::Captured,
        kernel,
        inputs,
        params: params.to_vec(),
        outputs: vec![TensorDesc::ABSENT; count],
        fixed: Some(Arc::new(values)),
    };
    let said = node.describe(core);
    node.outputs = node
        .inferred(entry, core)
        .map_err(|refusal| format!("shape inference refuses {said}: {refusal}"))?;
    set_encodings(cx, capture, &mut node);
    if !fits(entry, &node.input_descs(), &node.outputs) {
        return Err(format!("no kernel on {core} takes {said}"));
    }
    cx.trial_by(&node, entry, 1)
        .map_err(|refusal| format!("finalize refuses {said}: {refusal}"))?;
    Ok((node, is_exact))
}

/// Converts an input for the kernel: unchanged if its type is accepted, else the same values in an accepted type.
fn for_kernel(
    cx: &OpContext,
    entry: &KernelEntry,
    port: usize,
    input: &CapturedInput,
    before: &[TensorDesc],
) -> Option<(TensorDesc, Vec<u8>)> {
    let Some(dtype) = input.desc.dtype() else { return Some((input.desc, Vec::new())) };
    let types = input_types(entry, cx.subject.core, port, before);
    if types.has(dtype) {
        return Some((input.desc, input.bytes.clone()));
    }
    let to = types.iter().next()?;
    let numbers = numbers(&input.desc, &input.bytes);
    let desc = TensorDesc::new(to, input.desc.full_shape());
    if to.is_float() {
        let mut bytes = Vec::new();
        for number in numbers {
            push(&mut bytes, to, number);
        }
        return Some((desc, bytes));
    }
    let encoding = encoding_of(to, &numbers)?;
    Some((desc.with_encoding(encoding), quantized(to, encoding, &numbers)?))
}

/// Sets missing encodings of outputs: those of the captured call if the types match, else ones that cover the results of
/// the oracle or the captured expected results.
fn set_encodings(cx: &OpContext, capture: &Capture, node: &mut Node) {
    let is_dsp = cx.subject.core.kind() == Some(CoreKind::Dsp);
    let values = node.fixed.clone().unwrap_or_default();
    let mut real = None;
    for port in 0..node.outputs.len() {
        let Some(output) = node.outputs.get(port).copied() else { continue };
        let captured = capture.outputs.get(port).filter(|own| own.desc.dtype() == output.dtype());
        let declared = cx.subject.op.schema().outputs().get(port);
        let is_quantized =
            is_dsp || declared.map(udo_api::Port::quantization_mode) == Some(Quantization::Tf);
        if output.encoding().is_some() || output.is_absent() {
            continue;
        }
        let encoding = captured.and_then(|own| own.desc.encoding()).or_else(|| {
            let dtype = output.dtype().filter(|_| is_quantized)?;
            let real = real.get_or_insert_with(|| {
                cx.oracles.iter().find_map(|oracle| oracle.real(node, &values)).unwrap_or_default()
            });
            let said = capture.outputs.get(port).and_then(|own| own.wanted.as_ref());
            let numbers = real.get(port).map(|wanted| &wanted.numbers);
            encoding_of(dtype, numbers.or(said.map(|wanted| &wanted.numbers))?)
        });
        if let (Some(encoding), Some(output)) = (encoding, node.outputs.get_mut(port)) {
            *output = output.with_encoding(encoding);
        }
    }
}

/// Runs the case on the captured node.
pub(crate) fn run(cx: &OpContext, case: &str) -> Outcome {
    // `numbers/encodings` varies the encodings, but those of the captured node are fixed.
    let name = if case == "numbers/encodings" { "numbers/random" } else { case };
    if RUN_CASES.contains(&name) {
        return call(cx, name);
    }
    match CASES.iter().find(|case| case.full_name() == name).map(|case| case.run) {
        Some(Run::Op(run)) => run(cx),
        Some(Run::Package(_)) | None => failed(format!("no call case {case:?}")),
    }
}

/// Runs one of [`RUN_CASES`], which come from runs of whole models.
fn call(cx: &OpContext, case: &str) -> Outcome {
    for node in &cx.search_result().nodes {
        let said = node.describe(cx.subject.core);
        let trial = cx.trial(node, 1).or_else(|refusal| failed(format!("{said}: {refusal}")))?;
        let values = node.values(crate::values::Fill::Random, 0);
        let how = How { is_sealed: true, ..How::default() };
        let run = trial.run(&values, how).or_else(|fault| failed(format!("{said}: {fault}")))?;
        if run.heap.calls > 0 {
            let bytes = run.heap.first_bytes;
            return failed(format!("a call uses the heap, for {bytes} bytes at first: {said}"));
        }
        let has_nan = |desc: &TensorDesc, bytes: &[u8]| {
            desc.dtype().is_some_and(DType::is_float)
                && numbers(desc, bytes).iter().any(|number| number.is_nan())
        };
        let of_none = !node.inputs.iter().zip(&values).any(|(i, bytes)| has_nan(&i.desc, bytes));
        let made = run.outputs.iter().zip(&node.outputs);
        let port = made.clone().position(|(made, desc)| has_nan(desc, &made.bytes));
        if let (Some(port), "run/nan", true) = (port, case, of_none) {
            return failed(format!("output {port} has a NaN and no input has one: {said}"));
        }
    }
    Ok(())
}

/// Compares the node's outputs with the expected results.
pub(crate) fn diff(cx: &OpContext, capture: &Capture) -> Value {
    let Some(node) = cx.search_result().nodes.first() else { return Value::Null };
    let values = node.values(crate::values::Fill::Random, 0);
    let made = if capture.case == device::NAME {
        device::run_on_device(cx, node, &values)
    } else {
        let trial = cx.trial(node, 1).map_err(|refusal| refusal.to_string());
        let run = |trial: Trial<'_>| trial.run(&values, How::default());
        trial.and_then(|trial| run(trial).map(|run| run.outputs).map_err(|fault| fault.to_string()))
    };
    let made = match made {
        Ok(made) => made,
        Err(why) => return json!({ "refused": why }),
    };
    let expected = cx.expected(node, &values).into_iter().next();
    let by = expected.as_ref().map(|expected| expected.kind.describe());
    let outputs = node.outputs.iter().zip(&made).enumerate().map(|(port, (desc, made))| {
        let wanted = expected.as_ref().and_then(|expected| expected.wanted.get(port));
        let captured = capture.outputs.get(port).filter(|own| own.desc == *desc);
        let is_as_captured = captured.and_then(|own| own.found.as_ref()).map(|(dims, bytes)| {
            (dims, bytes) == (&made.dims, &made.bytes)
        });
        let all = wanted.map(|wanted| compared(desc, &numbers(desc, &made.bytes), wanted));
        let off = || all.iter().flatten().filter(|element| element.is_off);
        let largest = off().map(|element| (element.found - element.wanted).abs());
        let first: Vec<Value> = off().take(SHOWN)
            .map(|element| json!({
                "at": element.at, "found": element.found.to_string(), "wanted": element.wanted.to_string(),
                "allowed": format!("{:.3e}", element.allowed),
            }))
            .collect();
        json!({
            "port": port, "dims": made.dims, "wanted_dims": wanted.and_then(|wanted| wanted.dims.clone()),
            "elements": made.dims.iter().product::<usize>(), "compared": all.as_ref().map(Vec::len), "off": off().count(),
            "largest": largest.fold(0.0, f64::max).to_string(), "first": first, "is_as_captured": is_as_captured,
        })
    });
    json!({ "by": by, "outputs": outputs.collect::<Vec<_>>() })
}
