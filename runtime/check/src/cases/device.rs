//! What an OpenCL device computes, where the machine has one: GPU kernels run as work items everywhere else.

use std::time::{Duration, Instant};

use udo_api::{Core, Layout, Side};
use udo_runtime::cores::opencl;
use udo_runtime::graph::{Attr, Graph, Node as GraphNode, ValueId};
use udo_runtime::memory::Tensor;
use udo_runtime::model::{CompileError, Model, Options};
use udo_runtime::place::PlaceError;
use udo_runtime::plan::PlanError;
use udo_runtime::session::PortError;

use super::contract::unwritten;
use super::numbers::{Special, held};
use super::schema::one_node;
use super::{Finding, Outcome, chain, skipped};
use crate::context::{Live, OpContext};
use crate::node::OPSET;
use crate::record;
use crate::trial::Made;
use crate::values::Fill;

/// How long further nodes are begun with: each has a program of its own, which is compiled.
const ENOUGH: Duration = Duration::from_secs(6);

pub(super) fn device(cx: &OpContext) -> Outcome {
    if cx.subject.core != Core::GPU {
        return skipped("OpenCL is for kernels of the GPU");
    }
    if cx.is_builtin {
        return skipped("kernels of built-in operators have tests of their own for devices");
    }
    let device = match opencl::find() {
        Ok(device) => device.name(),
        Err(why) => return skipped(format!("there is no device: {why}")),
    };
    let live: Vec<Live<'_>> = cx.live().filter(is_tried).collect();
    if live.iter().any(|live| unwritten(&live.trial).is_some()) {
        return skipped("its OpenCL C is not written");
    }
    let most = if cx.level < 6 { 6 } else { 40 };
    let start = Instant::now();
    let mut compared = 0;
    for live in live.iter().step_by(live.len().div_ceil(most).max(1)) {
        if compared > 0 && start.elapsed() > ENOUGH {
            break;
        }
        compared += compare(cx, live, device)?;
    }
    if compared == 0 { skipped("no node is known that somebody vouches for") } else { Ok(()) }
}

/// Whether the node is one that a model has as it is.
fn is_tried(live: &Live<'_>) -> bool {
    let tensors = live.node.input_descs().into_iter().chain(live.node.outputs.iter().copied());
    let mut there = tensors.filter(|desc| !desc.is_absent());
    there.all(|desc| desc.full_shape().is_fixed() && desc.encoding().is_none())
}

/// How many of those who vouch for the node were compared with what the device makes of it.
fn compare(cx: &OpContext, live: &Live<'_>, device: &str) -> Result<usize, Finding> {
    let values = live.node.values(Fill::Random, live.seed);
    let vouched = cx.wanted(live.node, &values);
    let Some(made) = run(cx, live, &values, device)? else { return Ok(0) };
    for (who, wanted) in &vouched {
        record::wants(who.said(), wanted);
        let said = || format!("{} on {device}", live.said(cx));
        held((live.node, &made), (*who, wanted), Special::Skip, said)?;
    }
    Ok(vouched.len())
}

/// The graph with what models have otherwise turned around the operator: tensors with their channels last.
fn as_models(cx: &OpContext, live: &Live<'_>, mut graph: Graph) -> Option<Graph> {
    let mut own = graph.nodes.pop()?;
    let turned = |graph: &mut Graph, from: ValueId, to: ValueId, axes: [usize; 4]| {
        let mut node = GraphNode::new("Transpose", OPSET, &[from], &[to]);
        let axes = axes.iter().filter_map(|&axis| i64::try_from(axis).ok());
        node.attrs.push(("perm".to_owned(), Attr::Ints(axes.collect())));
        graph.add_node(node);
    };
    for (port, (slot, input)) in own.inputs.iter_mut().zip(&live.node.inputs).enumerate() {
        if let (Some(id), true) = (*slot, cx.is_channels_last(Side::Input, port, &input.desc)) {
            let inner = graph.add_value(&format!("inner_{port}"));
            turned(&mut graph, id, inner, Layout::NCHW_AXES);
            *slot = Some(inner);
        }
    }
    let mut outputs = Vec::new();
    for (port, (slot, desc)) in own.outputs.iter_mut().zip(&live.node.outputs).enumerate() {
        if let (Some(id), true) = (*slot, cx.is_channels_last(Side::Output, port, desc)) {
            let inner = graph.add_value(&format!("made_{port}"));
            outputs.push((inner, id));
            *slot = Some(inner);
        }
    }
    graph.add_node(own);
    for (from, to) in outputs {
        turned(&mut graph, from, to, Layout::NHWC_AXES);
    }
    Some(graph)
}

/// What the device makes of the node; nothing where no model of it is taken, which other cases are about.
fn run(
    cx: &OpContext,
    live: &Live<'_>,
    values: &[Vec<u8>],
    device: &str,
) -> Result<Option<Vec<Made>>, Finding> {
    let said = |what: &dyn std::error::Error| {
        Finding::Failed(format!("{}: on {device}, {}", live.said(cx), chain(what)))
    };
    let Some(graph) = one_node(cx, live.node).ok().and_then(|graph| as_models(cx, live, graph))
    else {
        return Ok(None);
    };
    let mut options = Options::default();
    options.place.cores = vec![Core::GPU, Core::CPU];
    let mut registry = cx.registry.clone();
    let model = match Model::compile(graph, &mut registry, &options) {
        Ok(model) => model,
        Err(
            error @ (CompileError::Place(PlaceError::Device { .. })
            | CompileError::Plan(PlanError::Device { .. })),
        ) => return Err(said(&error)),
        Err(_) => return Ok(None),
    };
    let op = cx.subject.op.schema().name();
    let is_there = |backend: &String| backend.starts_with("opencl: ");
    let mut own = model.report().nodes.iter().filter(|node| node.op == op);
    // One that is known before any run, or that another core has, says nothing of the device.
    if !own.any(|node| node.backend.as_ref().is_some_and(is_there)) {
        return Ok(None);
    }
    let mut session = model.session().map_err(|error| said(&error))?;
    for (port, (input, bytes)) in live.node.inputs.iter().zip(values).enumerate() {
        let Some(dtype) = input.desc.dtype().filter(|_| input.constant.is_none()) else { continue };
        let tensor = Tensor::from_bytes(dtype, input.desc.full_shape(), bytes);
        let tensor = tensor.map_err(|error| said(&error))?;
        session.set_input(&format!("input_{port}"), &tensor).map_err(|error| said(&error))?;
    }
    session.run().map_err(|error| said(&error))?;
    let made = (0..live.node.outputs.len()).map(|port| {
        let tensor = session.output_tensor(&format!("output_{port}"))?;
        Ok(Made { dims: tensor.dims().to_vec(), bytes: tensor.bytes().to_vec() })
    });
    made.collect::<Result<_, PortError>>().map(Some).map_err(|error| said(&error))
}
