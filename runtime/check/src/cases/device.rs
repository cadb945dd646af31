//! Results on this machine's OpenCL device. Elsewhere GPU kernels run as emulated work items.

use std::time::{Duration, Instant};

use udo_api::{Core, Layout, Side};
use udo_compile::place::PlaceError;
use udo_compile::plan::PlanError;
use udo_engine::cores::opencl;
use udo_runtime::compile::CompileError;
use udo_runtime::device::Devices;
use udo_runtime::graph::{Attr, Graph, Node as GraphNode, ValueId};
use udo_runtime::run::PortError;
use udo_runtime::{CompileOptions, LoadError, LoadOptions, Runtime, Session, Tensor};
use udo_testing::{How, Output};

use super::contract::unwritten;
use super::numbers::{Special, compare_outputs};
use super::schema::one_node;
use super::{Finding, Outcome, chain, not_applicable, skipped, unchecked};
use crate::context::{Live, OpContext};
use crate::node::{Node, OPSET};
use crate::shapes::Class;
use crate::values::Fill;

/// The time after which no further node starts: each one compiles a program of its own.
const ENOUGH: Duration = Duration::from_secs(6);

/// The inputs to run a compiled program with. Implementations of math functions differ on these.
const FILLS: [Fill; 4] = [Fill::Random, Fill::Halves, Fill::Large, Fill::Negative];

/// The full name of the case.
pub(crate) const NAME: &str = "numbers/device";

pub(super) fn device(cx: &OpContext) -> Outcome {
    if cx.subject.core != Core::GPU {
        return not_applicable("only GPU kernels have OpenCL C");
    }
    if cx.is_builtin {
        return not_applicable("built-in kernels have their own device tests");
    }
    let live: Vec<Live<'_>> = cx.live().filter(is_tried).collect();
    if live.iter().any(|live| unwritten(&live.trial).is_some()) {
        return skipped("its OpenCL C is not written");
    }
    let has_source = |live: &Live<'_>| {
        live.trial.kernel().gpu_info().is_some_and(|info| !info.launches.is_empty())
    };
    if !live.is_empty() && !live.iter().any(has_source) {
        return not_applicable("its kernels have no OpenCL C");
    }
    let device = match opencl::find() {
        Ok(device) => device.name(),
        Err(why) => {
            return unchecked(format!("the OpenCL C did not run: no OpenCL device: {why}"));
        }
    };
    let most = if cx.level < 6 { 10 } else { 40 };
    let start = Instant::now();
    let mut compared = 0;
    for live in of_all_classes(&live).into_iter().take(most) {
        if compared > 0 && start.elapsed() > ENOUGH {
            break;
        }
        compared += compare(cx, live, device)?;
    }
    if compared == 0 { skipped("not verified: no reference to compare with") } else { Ok(()) }
}

/// Orders the nodes so that classes take turns, and parameters other than the defaults come early.
fn of_all_classes<'a, 'b>(live: &'a [Live<'b>]) -> Vec<&'a Live<'b>> {
    let of = |live: &Live<'_>| live.node.class;
    let mut params: Vec<_> = live.iter().filter(|live| of(live) == Class::Params).collect();
    let mut turns: Vec<(usize, &Live<'_>)> = Vec::new();
    for other in live.iter().filter(|live| of(live) != Class::Params) {
        let turn = turns.iter().filter(|(_, known)| of(known) == of(other)).count();
        turns.push((turn, other));
    }
    // A stable sort keeps the classes in the order of their discovery.
    turns.sort_by_key(|(turn, _)| *turn);
    let mut ordered: Vec<&Live<'_>> = Vec::new();
    params.reverse();
    for (_, other) in turns {
        ordered.push(other);
        ordered.extend(params.pop());
    }
    params.reverse();
    ordered.extend(params);
    ordered
}

/// Whether a model can contain the node as it is.
fn is_tried(live: &Live<'_>) -> bool {
    let tensors = live.node.input_descs().into_iter().chain(live.node.outputs.iter().copied());
    let mut there = tensors.filter(|desc| !desc.is_absent());
    there.all(|desc| desc.full_shape().is_fixed() && desc.encoding().is_none())
}

/// Compares the device's results with those of the node's oracles; returns the number of comparisons.
fn compare(cx: &OpContext, live: &Live<'_>, device: &str) -> Result<usize, Finding> {
    let Some(mut model) = OnDevice::new(cx, live.node, device)? else { return Ok(0) };
    let mut compared = 0;
    for fill in FILLS {
        let values = live.node.values(fill, live.seed);
        // Another case covers refused elements.
        if live.trial.run(&values, How::default()).is_err() {
            continue;
        }
        let expected = cx.expected(live.node, &values);
        cx.recorder.begins(live.node, &values);
        let made = model.run(live.node, &values)?;
        cx.recorder.record_outputs(&made);
        for expected in &expected {
            cx.recorder.wants(expected);
            let said = || format!("{} of {} on {device}", fill.name(), live.describe(cx));
            compare_outputs(live.node, &made, expected, Special::Skip, said)?;
        }
        compared += expected.len();
    }
    Ok(compared)
}

/// Adds transposes around an operator with channels-last tensors, since models have channels first.
fn as_models(cx: &OpContext, node: &Node, mut graph: Graph) -> Option<Graph> {
    let mut own = graph.nodes.pop()?;
    let turned = |graph: &mut Graph, from: ValueId, to: ValueId, axes: [usize; 4]| {
        let mut turn = GraphNode::new("Transpose", OPSET, &[from], &[to]);
        let axes = axes.iter().filter_map(|&axis| i64::try_from(axis).ok());
        turn.attrs.push(("perm".to_owned(), Attr::Ints(axes.collect())));
        graph.add_node(turn);
    };
    for (port, (slot, input)) in own.inputs.iter_mut().zip(&node.inputs).enumerate() {
        if let (Some(id), true) = (*slot, cx.is_channels_last(Side::Input, port, &input.desc)) {
            let inner = graph.add_value(&format!("inner_{port}"));
            turned(&mut graph, id, inner, Layout::NCHW_AXES);
            *slot = Some(inner);
        }
    }
    let mut outputs = Vec::new();
    for (port, (slot, desc)) in own.outputs.iter_mut().zip(&node.outputs).enumerate() {
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

/// A model of one node on the OpenCL device.
pub(crate) struct OnDevice {
    session: Session,
    /// Its description for messages.
    said: String,
}

impl OnDevice {
    /// Builds the node's model; `None` if no model accepts it, which other cases report.
    pub(crate) fn new(cx: &OpContext, node: &Node, device: &str) -> Result<Option<Self>, Finding> {
        let said = format!("{}: on {device}", node.describe(cx.subject.core));
        let graph = one_node(cx, node).ok().and_then(|graph| as_models(cx, node, graph));
        let Some(graph) = graph else { return Ok(None) };
        let mut options = CompileOptions { keep_types: true, ..CompileOptions::default() };
        options.place.cores = vec![Core::GPU, Core::CPU];
        let runtime = Runtime::from_parts(cx.registry.clone(), Devices::default());
        let model = match runtime.load(graph, &LoadOptions::from(options.clone())) {
            Ok(model) => model,
            Err(LoadError::Compile(error)) if is_of_device(&error) => {
                return Err(failure(&said, &*error));
            }
            Err(_) => return Ok(None),
        };
        let op = cx.subject.op.schema().name();
        let is_there = |backend: &String| backend.starts_with("opencl: ");
        let mut own = model.report().nodes.iter().filter(|node| node.op == op);
        // A node that is folded or runs on another core does not test the device.
        if !own.any(|node| node.backend.as_ref().is_some_and(is_there)) {
            return Ok(None);
        }
        let session = model.session().map_err(|error| failure(&said, &error))?;
        Ok(Some(Self { session, said }))
    }

    /// Runs the node's elements on the device.
    pub(crate) fn run(&mut self, node: &Node, values: &[Vec<u8>]) -> Result<Vec<Output>, Finding> {
        let Self { session, said } = self;
        for (port, (input, bytes)) in node.inputs.iter().zip(values).enumerate() {
            let dtype = input.desc.dtype().filter(|_| input.constant.is_none());
            let Some(dtype) = dtype else { continue };
            let tensor = Tensor::from_bytes(dtype, input.desc.full_shape(), bytes);
            let tensor = tensor.map_err(|error| failure(said, &error))?;
            let set = session.set_input(&format!("input_{port}"), &tensor);
            set.map_err(|error| failure(said, &error))?;
        }
        session.run().map_err(|error| failure(said, &error))?;
        let made = (0..node.outputs.len()).map(|port| {
            let tensor = session.output_tensor(&format!("output_{port}"))?;
            Ok(Output { dims: tensor.dims().to_vec(), bytes: tensor.bytes().to_vec() })
        });
        made.collect::<Result<_, PortError>>().map_err(|error| failure(said, &error))
    }
}

/// Runs the node on the machine's device, or returns why it cannot.
pub(crate) fn run_on_device(
    cx: &OpContext,
    node: &Node,
    values: &[Vec<u8>],
) -> Result<Vec<Output>, String> {
    let device = opencl::find().map_err(|why| format!("no OpenCL device: {why}"))?.name();
    let made = OnDevice::new(cx, node, device).and_then(|model| match model {
        Some(mut model) => model.run(node, values),
        None => super::failed("the device does not run a model of the node"),
    });
    made.map_err(|finding| match finding {
        Finding::Failed(why)
        | Finding::Warning(why)
        | Finding::Unchecked(why)
        | Finding::Skipped(why)
        | Finding::NotApplicable(why) => why,
    })
}

/// Whether the error is that a kernel does not compile for the device.
fn is_of_device(error: &CompileError) -> bool {
    matches!(
        error,
        CompileError::Place(PlaceError::Device { .. })
            | CompileError::Plan(PlanError::Device { .. })
    )
}

fn failure(said: &str, what: &dyn std::error::Error) -> Finding {
    Finding::Failed(format!("{said}, {}", chain(what)))
}
