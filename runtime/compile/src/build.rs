//! Builds a graph by calls: tensors by id, operations on them, inputs and outputs. A finished graph can be compiled to
//! a model.
//!
//! Operations are those of `NNRt` (Neural Network Runtime, docs/nnrt-bmruntime.md), by name or number, or operators of
//! this runtime. Each call is checked at once, and a refused call changes nothing. Only compiling checks whether a
//! package has an operator and whether a core supports it.

mod finished;
mod lower;
mod nnrt;
mod operation;
mod param;

use std::collections::HashSet;

use udo_api::{Encodings, Shape};

use udo_engine::device::{Error, ErrorCode, Packing, Result, SpecDetails, TensorSpec};
use udo_graph::memory::{Tensor, TensorError};

pub use finished::{FinishedGraph, Unfinished};
use lower::Call;
pub use nnrt::{NnrtOp, OPS as NNRT_OPS};
use operation::Placed;
pub use operation::{Operation, OperationId};
pub use param::{Kind, Param};

/// The index of a tensor in its graph, in the order in which tensors were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

impl TensorId {
    fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A graph under construction. Graphs are independent of each other, and each may be built on any thread.
///
/// An encoding belongs to its tensor: operations read and write the real values that its integers represent.
///
/// ```
/// use udo_api::DType;
/// use udo_compile::build::{GraphBuilder, Operation};
/// use udo_engine::device::TensorSpec;
/// use udo_graph::graph::Attr;
///
/// let mut graph = GraphBuilder::new("sum");
/// let spec = TensorSpec::fixed(DType::F32, &[2, 3])?;
/// let [a, b, y] = [graph.tensor("a", spec)?, graph.tensor("b", spec)?, graph.tensor("y", spec)?];
/// let add = Operation::nnrt("ADD").attr("activation", Attr::Text("relu".to_owned()));
/// graph.op(add.reads(&[a, b]).makes(&[y]))?;
/// graph.set_io(&[a, b], &[y])?;
/// let graph = graph.finish()?;
/// assert_eq!(graph.operations().collect::<Vec<_>>(), ["ADD_0"]);
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    name: String,
    tensors: Vec<Slot>,
    names: HashSet<String>,
    operations: Vec<Placed>,
    io: Option<Io>,
}

/// A tensor of the graph.
#[derive(Clone, Debug)]
struct Slot {
    name: String,
    spec: TensorSpec,
    /// The elements, if it is a constant.
    data: Option<Tensor>,
    /// The operation that writes it.
    writer: Option<OperationId>,
}

/// The inputs and outputs of a run.
#[derive(Clone, Debug)]
struct Io {
    inputs: Vec<TensorId>,
    outputs: Vec<TensorId>,
}

impl GraphBuilder {
    /// Returns an empty graph with this name, which messages use.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            tensors: Vec::new(),
            names: HashSet::new(),
            operations: Vec::new(),
            io: None,
        }
    }

    /// Adds a tensor. Its dimensions may be open; without a name it is named after its index.
    ///
    /// # Errors
    /// Another tensor has the name, the batches of the description are packed, or there are too many tensors.
    pub fn tensor(&mut self, name: &str, spec: TensorSpec) -> Result<TensorId> {
        let index = self.tensors.len();
        if u32::try_from(index).is_err() {
            return Err(invalid(format!("there are {index} tensors already, expected fewer")));
        }
        let name = if name.is_empty() { format!("tensor_{index}") } else { name.to_owned() };
        if spec.packing() != Packing::N1 {
            return Err(invalid(format!(
                "tensor {name:?} is {spec}, expected batches one behind the other in a graph"
            )));
        }
        if !self.names.insert(name.clone()) {
            return Err(Error::new(
                ErrorCode::AlreadyExists,
                format!("a tensor is called {name:?} already, expected another name"),
            ));
        }
        self.tensors.push(Slot { name, spec, data: None, writer: None });
        Ok(TensorId::at(index))
    }

    /// Adds a constant with these elements, as little-endian bytes.
    ///
    /// # Errors
    /// The same as for [`GraphBuilder::tensor`] and [`GraphBuilder::set_data`]; the tensor is not added then.
    pub fn constant(&mut self, name: &str, spec: TensorSpec, bytes: &[u8]) -> Result<TensorId> {
        let id = self.tensor(name, spec)?;
        if let Err(error) = self.set_data(id, bytes) {
            let last = self.tensors.pop();
            last.map(|tensor| self.names.remove(&tensor.name));
            return Err(error);
        }
        Ok(id)
    }

    /// Makes a tensor a constant with a copy of these elements, as little-endian bytes.
    ///
    /// # Errors
    /// The tensor does not exist, has an open dimension, already has elements, is an input, or is written by an
    /// operation; or the number of bytes is wrong.
    pub fn set_data(&mut self, id: TensorId, bytes: &[u8]) -> Result<()> {
        let tensor = self.slot(id)?;
        let place = tensor.place(id);
        if tensor.data.is_some() {
            return Err(state(format!("{place} has its elements already; they are set once")));
        }
        self.check_unwritten(id, "a constant")?;
        let actual = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let expected = tensor.spec.byte_size().map_err(|error| at(&place, &error))?;
        if actual != expected {
            return Err(invalid(format!("{place} is given {actual} bytes, expected {expected}")));
        }
        let (dtype, dims) = (tensor.spec.dtype(), tensor.spec.dims()?);
        let shape = Shape::new(dims).map_err(|error| invalid(format!("{place}: {error}")))?;
        let data = Tensor::from_bytes(dtype, shape, bytes).map_err(|error| match error {
            TensorError::Size(size) => invalid(format!("{place}: {size}")),
            TensorError::Memory(memory) => memory.into(),
            other => invalid(format!("{place}: {other}")),
        })?;
        self.slot_mut(id)?.data = Some(data);
        Ok(())
    }

    /// Sets the encoding of a tensor's integers, per tensor or per axis.
    ///
    /// # Errors
    /// The tensor does not exist or already has an encoding, or the encoding does not match its type or shape.
    pub fn set_quantization(&mut self, id: TensorId, encodings: Encodings) -> Result<()> {
        let tensor = self.slot(id)?;
        let place = tensor.place(id);
        if tensor.spec.encodings().is_some() {
            return Err(state(format!("{place} is quantized already; set it once")));
        }
        let spec = tensor.spec.with_encodings(encodings).map_err(|error| at(&place, &error))?;
        self.slot_mut(id)?.spec = spec;
        Ok(())
    }

    /// Adds an operation. Operations may be added in any order.
    ///
    /// # Errors
    /// A tensor does not exist, is both read and written, is written twice, or is a constant or input that would be
    /// written; or `NNRt` does not have the operation, its number of tensors or its attributes. The graph stays
    /// unchanged.
    pub fn op(&mut self, operation: Operation) -> Result<OperationId> {
        let id = OperationId::at(self.operations.len());
        let placed = Placed::new(operation, id)?;
        let name = placed.call.name.clone();
        self.check_ports(&placed.call).map_err(|error| at(&name, &error))?;
        for output in placed.call.outputs.iter().flatten() {
            self.slot_mut(*output)?.writer = Some(id);
        }
        self.operations.push(placed);
        Ok(id)
    }

    /// Checks that the tensors of a call exist, and that its outputs may be written.
    fn check_ports(&self, call: &Call) -> Result<()> {
        for (port, input) in call.inputs.iter().enumerate() {
            let Some(id) = input else { continue };
            self.slot(*id).map_err(|error| at(&format!("input {port}"), &error))?;
        }
        let mut seen = HashSet::new();
        for (port, output) in call.outputs.iter().enumerate() {
            let place = format!("output {port}");
            let Some(id) = output else { continue };
            let tensor = self.slot(*id).map_err(|error| at(&place, &error))?;
            let tensor = tensor.place(*id);
            if call.inputs.contains(output) {
                return Err(invalid(format!(
                    "{tensor} is {place} and an input of the same operation, expected another tensor"
                )));
            }
            if !seen.insert(*id) {
                return Err(invalid(format!("{tensor} is two outputs, expected one for each")));
            }
            self.check_unwritten(*id, &place)?;
            if self.slot(*id)?.data.is_some() {
                return Err(invalid(format!("{place} is {tensor}, which is a constant")));
            }
        }
        Ok(())
    }

    /// Checks that a tensor is neither written by an operation nor an input.
    fn check_unwritten(&self, id: TensorId, role: &str) -> Result<()> {
        let tensor = self.slot(id)?;
        let place = tensor.place(id);
        if let Some(writer) = tensor.writer {
            let operation = self.operation_name(writer);
            return Err(invalid(format!(
                "{place} cannot be {role}: operation {operation} makes it already"
            )));
        }
        if self.io.as_ref().is_some_and(|io| io.inputs.contains(&id)) {
            return Err(invalid(format!("{place} cannot be {role}: it is an input of the graph")));
        }
        Ok(())
    }

    /// Sets the inputs and outputs of a run, in order.
    ///
    /// # Errors
    /// They were set before; there are no outputs; or a tensor does not exist, is listed twice, is a constant, or is an
    /// input that an operation writes.
    pub fn set_io(&mut self, inputs: &[TensorId], outputs: &[TensorId]) -> Result<()> {
        if self.io.is_some() {
            return Err(state("inputs and outputs are set already; set them once"));
        }
        if outputs.is_empty() {
            return Err(invalid("there are 0 outputs, expected at least one"));
        }
        let mut seen = HashSet::new();
        let inputs_with_index = inputs.iter().enumerate().map(|(index, id)| ("input", index, id));
        let outputs_with_index =
            outputs.iter().enumerate().map(|(index, id)| ("output", index, id));
        for (side, index, &id) in inputs_with_index.chain(outputs_with_index) {
            let place = format!("{side} {index}");
            let tensor = self.slot(id).map_err(|error| at(&place, &error))?;
            let name = tensor.place(id);
            if tensor.data.is_some() {
                return Err(invalid(format!("{place} is {name}, which is a constant")));
            }
            if !seen.insert(id) {
                return Err(invalid(format!(
                    "{place} is {name}, which is an input or output before, expected each tensor once"
                )));
            }
            if let Some(writer) = tensor.writer.filter(|_| side == "input") {
                let operation = self.operation_name(writer);
                return Err(invalid(format!(
                    "{place} is {name}, which operation {operation} makes"
                )));
            }
        }
        self.io = Some(Io { inputs: inputs.to_vec(), outputs: outputs.to_vec() });
        Ok(())
    }

    /// Finishes the graph. Checks that every value that is read is a constant, an input or written by an operation, and
    /// that operations do not depend on each other in a cycle.
    ///
    /// # Errors
    /// Tensors, operations, inputs or outputs are missing or do not fit. The error returns the builder, so that the
    /// graph can be completed.
    pub fn finish(self) -> std::result::Result<FinishedGraph, Unfinished> {
        FinishedGraph::build(self)
    }

    fn slot(&self, id: TensorId) -> Result<&Slot> {
        let count = self.tensors.len();
        self.tensors.get(id.index()).ok_or_else(|| no_tensor(id, count))
    }

    fn slot_mut(&mut self, id: TensorId) -> Result<&mut Slot> {
        let count = self.tensors.len();
        self.tensors.get_mut(id.index()).ok_or_else(|| no_tensor(id, count))
    }

    fn operation_name(&self, id: OperationId) -> &str {
        self.operations.get(id.index()).map_or("", |placed| &placed.call.name)
    }
}

impl Slot {
    /// Describes the tensor in messages.
    fn place(&self, id: TensorId) -> String {
        format!("tensor {} ({:?}, {})", id.0, self.name, self.spec)
    }
}

fn no_tensor(id: TensorId, count: usize) -> Error {
    invalid(format!("there is no tensor {}, expected one of the graph's {count}", id.0))
}

/// Returns an error for an invalid argument.
fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

/// Returns an error for a call in the wrong state.
fn state(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidState, message)
}

/// Returns an error for something that the runtime does not support.
fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::Unsupported, message)
}

/// Returns the error with a place before its message.
fn at(place: &str, error: &Error) -> Error {
    Error::new(error.code(), format!("{place}: {error}"))
}
