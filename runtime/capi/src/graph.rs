//! Graphs built by calls, and models of them.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use udo_api::Core;
use udo_compile::build::{FinishedGraph, GraphBuilder, Operation, OperationId, TensorId};
use udo_engine::device;
use udo_engine::device::Result;
use udo_runtime::compile::BindOptions;
use udo_runtime::compile::support;
use udo_runtime::device::ErrorCode;
use udo_runtime::graph::Attr;

use crate::argument::{invalid, need, place};
use crate::born::{Born, handles, live};
use crate::codes::{
    AttributeKind, UDO_ATTRIBUTE_FLOAT, UDO_ATTRIBUTE_FLOATS, UDO_ATTRIBUTE_INT,
    UDO_ATTRIBUTE_INTS, UDO_ATTRIBUTE_TEXT, UDO_LEFT_OUT, attribute_kind,
};
use crate::error::Error;
use crate::ffi::{
    Bytes, Dims, Doubles, Indices, List, Scales, Text, ZeroPoints, guard, hand_out, named_pointers,
    release,
};
use crate::handles::{Device, Runtime};
use crate::model::{self, LoadOptionsAt, Model};
use crate::spec::{TensorSpec, encodings};
use crate::text::text;

/// A graph under construction. Any one thread may build it; after `udo_graph_finish`, threads may
/// share it.
#[derive(Debug)]
pub struct Graph(State, pub(crate) Born);

#[derive(Debug)]
enum State {
    Open(Box<GraphBuilder>),
    Finished(Box<FinishedGraph>),
}

/// The operations of a graph that a device supports.
#[derive(Debug)]
pub struct Support(Vec<Option<CString>>, pub(crate) Born);

handles! {
    Graph, 1;
    Support, 1;
}

named_pointers! {
    /// Attributes.
    Attributes(List<Attribute>);
}

/// An attribute of an operation: its name, and a value of the stated kind. Fields of other kinds
/// are ignored.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// The name.
    pub name: Text,
    /// The kind, which selects one of the fields below.
    pub kind: AttributeKind,
    /// Length of `ints` or `floats`.
    pub count: usize,
    /// An integer, a bool, or the number of a choice.
    pub int_value: i64,
    /// A floating-point number.
    pub float_value: f64,
    /// A string.
    pub text: Text,
    /// Integers.
    pub ints: Dims,
    /// Floating-point numbers.
    pub floats: Doubles,
}

impl Attribute {
    fn get(&self, place: &str) -> Result<(String, Attr)> {
        let name = self.name.get(&format!("{place}.name"))?.to_owned();
        let count = self.count;
        let attr = match attribute_kind(self.kind)? {
            UDO_ATTRIBUTE_INT => Attr::Int(self.int_value),
            UDO_ATTRIBUTE_FLOAT => Attr::Float(self.float_value),
            UDO_ATTRIBUTE_TEXT => Attr::Text(self.text.get(&format!("{place}.text"))?.to_owned()),
            UDO_ATTRIBUTE_INTS => {
                Attr::Ints(self.ints.integers(count, &format!("{place}.ints"))?.to_vec())
            }
            UDO_ATTRIBUTE_FLOATS => {
                Attr::Floats(self.floats.get(count, &format!("{place}.floats"))?.to_vec())
            }
            other => return Err(invalid(format!("{place}.kind is {other}"))),
        };
        Ok((name, attr))
    }
}

impl Graph {
    /// The graph while it can be changed.
    fn open(&mut self) -> Result<&mut GraphBuilder> {
        match &mut self.0 {
            State::Open(graph) => Ok(graph),
            State::Finished(_) => Err(device::Error::new(
                ErrorCode::InvalidState,
                "the graph is finished and stays as it is; build another one",
            )),
        }
    }

    /// The graph once it is finished.
    fn finished(&self) -> Result<&FinishedGraph> {
        match &self.0 {
            State::Finished(graph) => Ok(graph),
            State::Open(_) => Err(device::Error::new(
                ErrorCode::InvalidState,
                "the graph is not finished; finish it first",
            )),
        }
    }
}

/// Creates an empty graph. Messages use its name; NULL means none.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_create(
    name: Text,
    out: Option<&mut MaybeUninit<Option<Box<Graph>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let out = need(out, "out")?;
        let name = name.option("name")?.unwrap_or_default();
        hand_out(out, Graph(State::Open(Box::new(GraphBuilder::new(name))), Born::here()));
        Ok(())
    })
}

/// Adds a tensor with this description, whose dimensions may be open, and writes its number to
/// `out`. If the name is NULL, it is made from the number.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_add_tensor(
    graph: Option<&mut Graph>,
    spec: Option<&TensorSpec>,
    name: Text,
    out: Option<&mut MaybeUninit<u32>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (graph, spec, out) = (live(graph, "graph")?, live(spec, "spec")?, need(out, "out")?);
        let name = name.option("name")?.unwrap_or_default();
        out.write(graph.open()?.tensor(name, spec.0)?.0);
        Ok(())
    })
}

/// Makes a tensor a constant with these elements, which are copied. Allowed once per tensor, with
/// the exact number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_set_data(
    graph: Option<&mut Graph>,
    tensor: u32,
    bytes: Bytes,
    len: usize,
) -> Option<Box<Error>> {
    guard(|| {
        let graph = live(graph, "graph")?;
        let bytes = bytes.get(len, "bytes")?;
        graph.open()?.set_data(TensorId(tensor), bytes)
    })
}

/// Sets the encoding of a tensor, like `udo_tensor_spec_set_quantization`. Allowed once per tensor.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_set_quantization(
    graph: Option<&mut Graph>,
    tensor: u32,
    scales: Scales,
    zero_points: ZeroPoints,
    count: usize,
    axis: i32,
) -> Option<Box<Error>> {
    guard(|| {
        let graph = live(graph, "graph")?;
        let scales = scales.get(count, "scales")?;
        let zero_points = zero_points.get(count, "zero_points")?;
        let encodings = encodings(scales, zero_points, axis)?;
        graph.open()?.set_quantization(TensorId(tensor), encodings)
    })
}

/// The inputs, outputs and attributes of an operation.
struct Ports {
    inputs: Indices,
    input_count: usize,
    outputs: Indices,
    output_count: usize,
    attributes: Attributes,
    attribute_count: usize,
}

/// Adds an operation; its number goes to `out`.
fn add(
    graph: Option<&mut Graph>,
    mut operation: Operation,
    ports: &Ports,
    out: Option<&mut MaybeUninit<u32>>,
) -> Result<()> {
    let (graph, out) = (live(graph, "graph")?, need(out, "out")?);
    for &input in ports.inputs.get(ports.input_count, "inputs")? {
        operation = match input {
            UDO_LEFT_OUT => operation.leaves_out(),
            tensor => operation.reads(&[TensorId(tensor)]),
        };
    }
    for &output in ports.outputs.get(ports.output_count, "outputs")? {
        operation = operation.makes(&[TensorId(output)]);
    }
    let attributes = ports.attributes.get(ports.attribute_count, "attributes")?;
    for (at, attribute) in attributes.iter().enumerate() {
        let (name, attr) = attribute.get(&format!("attributes[{at}]"))?;
        operation = operation.attr(&name, attr);
    }
    let OperationId(made) = graph.open()?.op(operation)?;
    out.write(made);
    Ok(())
}

/// Adds an operation by its name and writes its number to `out`. If `domain` is NULL, it is an
/// operation of `NNRt`, such as "CONV2D"; otherwise an operator of this SDK or of a package. "" is
/// the domain of ONNX. `UDO_LEFT_OUT` omits an input. A refused call does not change the graph.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_add_op(
    graph: Option<&mut Graph>,
    domain: Text,
    op: Text,
    inputs: Indices,
    input_count: usize,
    outputs: Indices,
    output_count: usize,
    attributes: Attributes,
    attribute_count: usize,
    out: Option<&mut MaybeUninit<u32>>,
) -> Option<Box<Error>> {
    guard(|| {
        let op = op.get("op")?;
        let operation = match domain.option("domain")? {
            None => Operation::nnrt(op),
            Some(domain) => Operation::ours(domain, op),
        };
        let ports =
            Ports { inputs, input_count, outputs, output_count, attributes, attribute_count };
        add(graph, operation, &ports, out)
    })
}

/// Adds an operation of `NNRt` by its number in `OH_NN_OperationType`.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_add_nnrt_op(
    graph: Option<&mut Graph>,
    number: u32,
    inputs: Indices,
    input_count: usize,
    outputs: Indices,
    output_count: usize,
    attributes: Attributes,
    attribute_count: usize,
    out: Option<&mut MaybeUninit<u32>>,
) -> Option<Box<Error>> {
    guard(|| {
        let ports =
            Ports { inputs, input_count, outputs, output_count, attributes, attribute_count };
        add(graph, Operation::nnrt_number(number), &ports, out)
    })
}

/// Sets the inputs and outputs of the graph, in order. Allowed once.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_set_io(
    graph: Option<&mut Graph>,
    inputs: Indices,
    input_count: usize,
    outputs: Indices,
    output_count: usize,
) -> Option<Box<Error>> {
    guard(|| {
        let graph = live(graph, "graph")?;
        let ids = |of: &[u32]| of.iter().copied().map(TensorId).collect::<Vec<_>>();
        let inputs = ids(inputs.get(input_count, "inputs")?);
        let outputs = ids(outputs.get(output_count, "outputs")?);
        graph.open()?.set_io(&inputs, &outputs)
    })
}

/// Checks the whole graph, which cannot be changed afterwards. If the graph is refused, missing
/// parts can be added.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_finish(graph: Option<&mut Graph>) -> Option<Box<Error>> {
    guard(|| {
        let graph = live(graph, "graph")?;
        let built = std::mem::replace(graph.open()?, GraphBuilder::new(""));
        match built.finish() {
            Ok(finished) => {
                graph.0 = State::Finished(Box::new(finished));
                Ok(())
            }
            Err(unfinished) => {
                graph.0 = State::Open(unfinished.builder);
                Err(unfinished.error)
            }
        }
    })
}

/// Returns the operations of a finished graph that a device supports. Nothing is compiled.
/// Operations that depend on open dimensions of inputs count as not supported.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_query_support(
    graph: Option<&Graph>,
    runtime: Option<&Runtime>,
    device: Option<&Device>,
    out: Option<&mut MaybeUninit<Option<Box<Support>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (graph, runtime) = (live(graph, "graph")?, live(runtime, "runtime")?);
        let (device, out) = (live(device, "device")?, need(out, "out")?);
        let kind = device.inner.kind().name();
        let core = Core::from_name(kind)
            .ok_or_else(|| invalid(format!("a device of kind {kind}; expected {}", Core::NAMES)))?;
        let all = support(graph.finished()?, &runtime.0, &BindOptions::default(), core);
        let reasons = all.into_iter().map(|(_, reason)| reason.map(|reason| text(&reason)));
        hand_out(out, Support(reasons.collect(), Born::here()));
        Ok(())
    })
}

/// Returns the number of operations in the answer: those of the graph, in the order in which they
/// were added.
#[unsafe(no_mangle)]
pub extern "C" fn udo_support_count(
    support: Option<&Support>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (support, out) = (live(support, "support")?, need(out, "out")?);
        out.write(support.0.len());
        Ok(())
    })
}

/// Returns why the device does not support an operation; NULL if it does. The string lives as long
/// as the handle.
#[unsafe(no_mangle)]
pub extern "C" fn udo_support_reason(
    support: Option<&Support>,
    index: usize,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (support, out) = (live(support, "support")?, need(out, "out")?);
        let reason = place(&support.0, "operation", index)?;
        out.write(reason.as_ref().map_or(std::ptr::null(), |reason| reason.as_ptr()));
        Ok(())
    })
}

/// Releases the answer of `udo_graph_query_support`. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_support_release(support: Option<Box<Support>>) {
    release(support);
}

/// Compiles a model from a finished graph, which may be released afterwards and compiled any number
/// of times. The options are those of loading; a cache also stores the graph, so that
/// `udo_model_restore` needs nothing else.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_compile(
    runtime: Option<&Runtime>,
    graph: Option<&Graph>,
    options: LoadOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Model>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, graph) = (live(runtime, "runtime")?, live(graph, "graph")?);
        let (out, mut options) = (need(out, "out")?, model::options(options)?);
        let graph = graph.finished()?;
        for (name, range) in graph.ranges() {
            options.compile.bind.ranges.entry(name).or_insert(range);
        }
        let compiled = runtime.0.load(graph.graph().clone(), &options)?;
        hand_out(out, model::for_c(compiled)?);
        Ok(())
    })
}

/// Releases a graph. NULL is allowed. Its models stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn udo_graph_release(graph: Option<Box<Graph>>) {
    release(graph);
}
