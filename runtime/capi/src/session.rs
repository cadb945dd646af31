//! Sessions: runs of models.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use udo_api::Shape;
use udo_engine::device::{ErrorContext, Result, SpecDetails};
use udo_engine::{device, run};
use udo_graph::memory;
use udo_runtime::device::{DeviceTensor, ErrorCode};
use udo_runtime::run::IoTensors;

use crate::argument::{invalid, need, place};
use crate::born::{Born, handles, live};
use crate::cores::listed;
use crate::error::Error;
use crate::ffi::{
    Bytes, BytesMut, Dims, Indices, List, ListMut, Options, OptionsAt, guard, hand_out,
    named_pointers, release,
};
use crate::handles::DeviceAt;
use crate::model::Model;
use crate::ports::{Port, Ports, Side};
use crate::run::{Launch, Run, RunOptionsAt, WorkspaceAt, run_options};
use crate::spec::{TensorSpec, extents};
use crate::tensor::{RunTensors, Tensor, TensorPlaces, Tensors};

/// The memory for one run at a time. Threads may share it, and any of them may submit runs, also
/// from callbacks. While a thread runs the session directly (`udo_session_run`,
/// `udo_session_run_host`) or reserves memory, other calls are refused with `UDO_ERROR_BUSY`.
/// Concurrent direct runs need a session each.
#[derive(Debug)]
pub struct Session {
    ports: Arc<Ports>,
    /// `None` while a thread has exclusive access.
    runs: Mutex<Option<Runs>>,
    pub(crate) born: Born,
}

handles! {
    Session, born;
}

named_pointers! {
    /// Inputs of a run on the host.
    HostInputs(List<HostInput>);
    /// Outputs of a run on the host.
    HostOutputs(ListMut<HostOutput>);
    /// Options, or NULL.
    SessionOptionsAt(OptionsAt<SessionOptions>);
}

// SAFETY: its fields are a size, pointers and numbers.
unsafe impl Options for SessionOptions {}

/// Exclusive access of one thread to the runs of a session. Dropping it gives the runs back.
struct Own<'a> {
    session: &'a Session,
    runs: Option<Runs>,
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        *self.session.lock() = self.runs.take();
    }
}

/// The runtime's session, and the network that it belongs to.
#[derive(Debug)]
struct Runs {
    session: udo_runtime::Session,
    /// The network; `None` for the session of a model, or of one stage.
    network: Option<OfNetwork>,
}

/// The state that a session keeps for its network.
#[derive(Debug)]
struct OfNetwork {
    name: String,
    /// Whether it has one stage, which takes as many elements in another shape.
    is_one_stage: bool,
    /// Whether there was a run.
    has_run: bool,
}

impl Runs {
    /// The session for a run over these inputs, and they as it takes them.
    fn for_run<'a>(
        &mut self,
        ports: &Ports,
        inputs: &'a [DeviceTensor],
    ) -> Result<(&mut udo_runtime::Session, Cow<'a, [DeviceTensor]>)> {
        let Self { session, network } = self;
        let Some(network) = network else { return Ok((session, Cow::Borrowed(inputs))) };
        let inputs = if network.is_one_stage {
            Cow::Owned(fit(&ports.inputs, inputs)?)
        } else {
            Cow::Borrowed(inputs)
        };
        session.take_stage(&inputs)?;
        network.has_run = true;
        Ok((session, inputs))
    }

    /// The tensors of a stage's own for its inputs and outputs.
    fn io(&mut self, stage: usize) -> Result<&IoTensors> {
        self.check_stage(stage)?;
        self.session.io(self.network.as_ref().map(|_| stage))
    }

    fn reserve(&mut self) -> Result<()> {
        if self.network.is_some() {
            let mut stages = 0..self.session.model().stage_count();
            stages.try_for_each(|stage| self.session.prepare_stage(stage))?;
        }
        self.session.reserve()
    }

    fn reserve_stage(&mut self, stage: usize) -> Result<()> {
        self.check_stage(stage)?;
        if self.network.is_some() {
            self.session.prepare_stage(stage)?;
        }
        self.session.reserve()
    }

    fn check_stage(&self, stage: usize) -> Result<()> {
        if self.network.is_some() || stage == 0 {
            return Ok(());
        }
        let why = format!("no stage {stage}; expected 0, the only stage of the session");
        Err(invalid(why))
    }

    /// The session, once it is known what the last run took.
    fn last(&self) -> Result<&udo_runtime::Session> {
        match &self.network {
            Some(OfNetwork { name, has_run: false, .. }) => {
                let why = format!("no stage of network {name:?} ran yet; run one first");
                Err(device::Error::new(ErrorCode::InvalidState, why))
            }
            Some(_) | None => Ok(&self.session),
        }
    }
}

/// The dimensions of an input in which the only stage of a network takes as many elements.
fn fitted<'a>(port: &'a Port, dims: &'a [usize]) -> &'a [usize] {
    let count = |dims: &[usize]| dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim));
    let wanted =
        port.spec.as_ref().filter(|spec| !spec.is_open()).and_then(|spec| spec.dims().ok());
    wanted.filter(|wanted| count(wanted) == count(dims)).unwrap_or(dims)
}

/// Tensors as the only stage of a network takes them: as many elements in its own shapes.
pub(crate) fn fit(ports: &[Port], given: &[DeviceTensor]) -> Result<Vec<DeviceTensor>> {
    let mut tensors = given.to_vec();
    for (port, tensor) in ports.iter().zip(&mut tensors) {
        let dims = tensor.spec().dims()?.to_vec();
        let wanted = fitted(port, &dims);
        if wanted != dims {
            tensor.reshape(wanted)?;
        }
    }
    Ok(tensors)
}

/// Options of a session. NULL or zeros select the defaults.
#[repr(C)]
#[derive(Debug)]
pub struct SessionOptions {
    /// `sizeof(udo_session_options_t)`.
    pub size: usize,
    /// The device whose memory holds tensors that runs create, and which computes operations for
    /// devices of its kind; other kinds use their first device. NULL means the CPU.
    pub device: DeviceAt,
    /// Number of submitted runs that may execute concurrently. Each has its own memory, allocated
    /// with the first of them. 0 means one.
    pub frames: u32,
    /// Number of further submitted runs that may wait. A submission beyond them is refused with
    /// `UDO_ERROR_BUSY`. 0 means 64.
    pub depth: u32,
    /// A workspace whose arenas and scratch memory runs use in turns with other sessions; NULL
    /// means the session's own memory.
    pub workspace: WorkspaceAt,
    /// The numbers of the cores for submitted runs, as many as the model has threads, on the device
    /// of the model's preferred core. NULL means any free cores.
    pub cores: Indices,
    /// Length of the array above.
    pub core_count: usize,
}

/// The options as the runtime has them.
pub(crate) fn options(asked: SessionOptionsAt) -> Result<udo_runtime::run::SessionOptions> {
    let asked = asked.get()?;
    let count = |n: u32| usize::try_from(n).ok().and_then(NonZero::new);
    let mut options = udo_runtime::run::SessionOptions::default();
    options.home = asked.device.get("options.device")?.map(|device| device.inner.clone());
    options.frames = count(asked.frames).unwrap_or(options.frames);
    if let Some(workspace) = asked.workspace.get("options.workspace")? {
        options.workspace = udo_runtime::run::Workspace::Shared(workspace.0.clone());
    }
    options.depth = count(asked.depth).map_or(options.depth, NonZero::get);
    options.cores = listed(asked.cores, asked.core_count)?.unwrap_or_default();
    Ok(options)
}

/// An input in host memory.
#[repr(C)]
#[derive(Debug)]
pub struct HostInput {
    /// Its elements, of the type of the model's input.
    pub data: Bytes,
    /// Size of the elements in bytes.
    pub size_bytes: usize,
    /// Its dimensions; NULL means those of the model, if they are fixed.
    pub dims: Dims,
    /// Length of the array above.
    pub rank: usize,
}

/// The destination of an output in host memory.
#[repr(C)]
#[derive(Debug)]
pub struct HostOutput {
    /// The buffer for its elements.
    pub data: BytesMut,
    /// Size of the buffer in bytes.
    pub capacity_bytes: usize,
    /// Size of the elements in bytes. A run sets it.
    pub size_bytes: usize,
}

impl Session {
    pub(crate) fn of_model(
        model: &Model,
        options: &udo_runtime::run::SessionOptions,
    ) -> Result<Self> {
        let session = model.inner.session_with(options)?;
        let runs = Mutex::new(Some(Runs { session, network: None }));
        Ok(Self { ports: Arc::clone(&model.ports), runs, born: Born::here() })
    }

    pub(crate) fn of_network(
        ports: &Arc<Ports>,
        network: &udo_runtime::Network,
        options: &udo_runtime::run::SessionOptions,
    ) -> Result<Self> {
        let (name, is_one_stage) = (network.name().to_owned(), network.stage_count() == 1);
        let session = network.model()?.session_with(options)?;
        let network = Some(OfNetwork { name, is_one_stage, has_run: false });
        let runs = Mutex::new(Some(Runs { session, network }));
        Ok(Self { ports: Arc::clone(ports), runs, born: Born::here() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Runs>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what neither waits for runs nor has any end, so that others wait for it rather than being refused.
    fn with<R>(&self, does: impl FnOnce(&mut Runs) -> Result<R>) -> Result<R> {
        does(self.lock().as_mut().ok_or_else(busy)?)
    }

    /// Calls `does` with exclusive access to the runs. It may wait for runs, and their callbacks may be called.
    fn own<R>(&self, does: impl FnOnce(&mut Runs) -> Result<R>) -> Result<R> {
        let runs = self.lock().take().ok_or_else(busy)?;
        let mut own = Own { session: self, runs: Some(runs) };
        does(own.runs.as_mut().ok_or_else(busy)?)
    }

    /// Calls `say` with the session of the last run.
    pub(crate) fn last<R>(
        &self,
        say: impl FnOnce(&udo_runtime::Session) -> Result<R>,
    ) -> Result<R> {
        self.with(|runs| say(runs.last()?))
    }

    /// A tensor of its own for an input or output of a stage.
    fn io(&self, side: Side, stage: usize, index: usize) -> Result<Tensor> {
        self.ports.port(side, index)?;
        self.with(|runs| {
            let IoTensors { inputs, outputs } = runs.io(stage)?;
            let of_side = match side {
                Side::Input => inputs,
                Side::Output => outputs,
            };
            Ok(Tensor(place(of_side, "tensor", index)?.clone(), Born::here()))
        })
    }

    /// Runs over elements of the host; what comes out.
    fn run_host(&self, given: &[HostInput]) -> Result<Vec<memory::Tensor>> {
        let Ports { inputs, outputs } = &*self.ports;
        let with_ports = || inputs.iter().zip(given).enumerate();
        let dims = with_ports().map(|(at, (port, input))| host_dims(port, input, at));
        let dims = dims.collect::<Result<Vec<_>>>()?;
        self.own(|runs| {
            let Runs { session, network } = runs;
            let mut dims = dims;
            if let Some(network) = network {
                network.has_run = true;
                if network.is_one_stage {
                    for ((_, (port, _)), dims) in with_ports().zip(&mut dims) {
                        *dims = fitted(port, dims).to_vec();
                    }
                }
            }
            let given = with_ports().zip(&dims);
            let given = given.map(|((at, (port, input)), dims)| host_input(port, input, dims, at));
            for (at, (port, tensor)) in inputs.iter().zip(given).enumerate() {
                let set = session.set_input(&port.name, &tensor?).map_err(device::Error::from);
                set.map_err(|error| error.at(format_args!("input {at}")))?;
            }
            session.run().map_err(device::Error::from)?;
            let result = |port: &Port| Ok(session.output_tensor(&port.name)?);
            outputs.iter().map(result).collect()
        })
    }

    /// Records a launch over tensors.
    fn record(&self, tensors: RunTensors, options: RunOptionsAt) -> Result<run::Launch> {
        self.ports.check_counts(tensors.input_count, tensors.output_count)?;
        let tensors = tensors.get()?;
        let options = run_options(options)?;
        self.with(|runs| {
            let (session, inputs) = runs.for_run(&self.ports, &tensors.inputs)?;
            session.record(&inputs, &tensors.outputs, options)
        })
    }
}

fn busy() -> device::Error {
    let why = "another thread runs the session; give each thread a session of its own";
    device::Error::new(ErrorCode::Busy, why)
}

/// The dimensions of an input on the host.
fn host_dims(port: &Port, input: &HostInput, index: usize) -> Result<Vec<usize>> {
    let name = &port.name;
    if !input.dims.is_null() {
        let dims = input.dims.get(input.rank, "inputs[].dims")?;
        return extents(dims).map_err(|error| error.at(format_args!("inputs[{index}], {name:?}")));
    }
    let spec =
        port.spec.ok_or_else(|| invalid(format!("inputs[{index}], {name:?}, has no dims")))?;
    let dims = spec.dims().map_err(|error| {
        let why = format!(
            "inputs[{index}], {name:?}, has no dims, and the model leaves some of {spec} open; give all"
        );
        device::Error::new(error.code(), why)
    })?;
    Ok(dims.to_vec())
}

/// An input on the host as the runtime has it, in dimensions of as many elements.
fn host_input(
    port: &Port,
    input: &HostInput,
    dims: &[usize],
    index: usize,
) -> Result<memory::Tensor> {
    let place = format!("inputs[{index}], {:?}", port.name);
    let spec = port.spec.ok_or_else(|| invalid(format!("{place}: it has no description")))?;
    let given = device::TensorSpec::fixed(spec.dtype(), dims);
    let given = given.map_err(|error| error.at(&place))?;
    let (found, wanted) = (input.size_bytes, given.byte_size()?);
    if u64::try_from(found) != Ok(wanted) {
        return Err(invalid(format!("{place}: {found} bytes for {given}; expected {wanted}")));
    }
    if found > 0 && input.data.is_null() {
        return Err(invalid(format!("{place}: data is NULL; expected a pointer")));
    }
    let bytes = input.data.get(found, "inputs[].data")?;
    let shape = Shape::new(dims).map_err(|error| invalid(format!("{place}: {error}")))?;
    let tensor = memory::Tensor::from_bytes(given.dtype(), shape, bytes);
    tensor.map_err(|error| device::Error::new(ErrorCode::OutOfMemory, error.to_string()))
}

/// Copies results to where the host wants them, or nothing if one has no room.
fn give(results: &[memory::Tensor], outputs: &mut [HostOutput]) -> Result<()> {
    for (index, (result, output)) in results.iter().zip(&*outputs).enumerate() {
        let (wanted, found) = (result.bytes().len(), output.capacity_bytes);
        if found < wanted {
            return Err(device::Error::new(
                ErrorCode::OutOfMemory,
                format!(
                    "outputs[{index}] has room for {found} bytes, and the result, {}, has {wanted}; give it more",
                    result.desc()
                ),
            ));
        }
    }
    for (result, output) in results.iter().zip(&mut *outputs) {
        let bytes = result.bytes();
        output.data.get(bytes.len(), "outputs[].data")?.copy_from_slice(bytes);
        output.size_bytes = bytes.len();
    }
    Ok(())
}

/// Creates a session: memory for one run at a time.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_create(
    model: Option<&Model>,
    options: SessionOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Session>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (live(model, "model")?, need(out, "out")?);
        hand_out(out, Session::of_model(model, &self::options(options)?)?);
        Ok(())
    })
}

/// Allocates the memory for submitted runs, which otherwise the first run does; for all stages if
/// the session has several. For models with open shapes it covers the shapes of the session's last
/// runs; call it again for new shapes. It is refused with `UDO_ERROR_BUSY` while submitted runs use
/// some of the memory.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_reserve(session: Option<&Session>) -> Option<Box<Error>> {
    guard(|| live(session, "session")?.own(Runs::reserve))
}

/// Allocates the memory for submitted runs of one stage. A session of a model, or of one stage,
/// only has stage 0.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_reserve_stage(
    session: Option<&Session>,
    stage: usize,
) -> Option<Box<Error>> {
    guard(|| live(session, "session")?.own(|runs| runs.reserve_stage(stage)))
}

/// Returns a tensor of the session for an input of a stage, in memory of the session's device.
/// Calls return the same tensor as long as its shape is the same. Runs with such tensors copy
/// nothing if that memory is coherent.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_io_input(
    session: Option<&Session>,
    stage: usize,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<Tensor>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (session, out) = (live(session, "session")?, need(out, "out")?);
        hand_out(out, session.io(Side::Input, stage, index)?);
        Ok(())
    })
}

/// Like `udo_session_io_input`, for an output.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_io_output(
    session: Option<&Session>,
    stage: usize,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<Tensor>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (session, out) = (live(session, "session")?, need(out, "out")?);
        hand_out(out, session.io(Side::Output, stage, index)?);
        Ok(())
    })
}

/// Runs a model with tensors in the order of its inputs and outputs, and returns when the outputs
/// are complete. An output that is NULL becomes a new tensor, which the caller owns. Other outputs
/// are overwritten and get the shape of the result. An output must not overlap an input or another
/// output, unless the extension `in_place.INPUT` allows it for this input and output. After an
/// error no tensor is created or reshaped; the contents of given outputs are lost if the run had
/// started.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_run(
    session: Option<&Session>,
    inputs: Tensors,
    input_count: usize,
    mut outputs: TensorPlaces,
    output_count: usize,
) -> Option<Box<Error>> {
    guard(|| {
        let session = live(session, "session")?;
        session.ports.check_counts(input_count, output_count)?;
        let tensors = RunTensors { inputs, input_count, outputs, output_count }.get()?;
        let made = session.own(|runs| {
            let (runs, inputs) = runs.for_run(&session.ports, &tensors.inputs)?;
            runs.run_on(&inputs, &tensors.outputs)
        })?;
        outputs
            .set(made.into_iter().map(|tensor| Tensor(tensor, Born::here())).collect(), "outputs")
    })
}

/// Submits a run with tensors in the order of the model's inputs and outputs, and returns at once.
/// The run creates outputs that are NULL; `udo_run_output` returns them. Until the run ends,
/// writing any of its tensors or reading an output is refused with `UDO_ERROR_BUSY`, and so is a
/// submission with tensors in use.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_submit(
    session: Option<&Session>,
    inputs: Tensors,
    input_count: usize,
    outputs: TensorPlaces,
    output_count: usize,
    options: RunOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Run>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (session, out) = (live(session, "session")?, need(out, "out")?);
        // The run may end, and its callback come to the session, before the submission returns.
        let tensors = RunTensors { inputs, input_count, outputs, output_count };
        let launch = session.record(tensors, options)?;
        hand_out(out, Run(launch.submit()?, Born::here()));
        Ok(())
    })
}

/// Records a launch with the tensors of `udo_session_submit`, which can be submitted many times.
/// Each submission uses the current contents of the inputs and does not allocate.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_record(
    session: Option<&Session>,
    inputs: Tensors,
    input_count: usize,
    outputs: TensorPlaces,
    output_count: usize,
    options: RunOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Launch>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (session, out) = (live(session, "session")?, need(out, "out")?);
        let tensors = RunTensors { inputs, input_count, outputs, output_count };
        let launch = session.record(tensors, options)?;
        hand_out(out, Launch(launch, Born::here()));
        Ok(())
    })
}

/// Runs a model with elements in host memory, in the order of its inputs and outputs, and returns
/// when the outputs are complete. If a buffer is too small, the error states the required size and
/// no output is written; `udo_session_output_spec` returns the shapes.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_run_host(
    session: Option<&Session>,
    inputs: HostInputs,
    input_count: usize,
    mut outputs: HostOutputs,
    output_count: usize,
) -> Option<Box<Error>> {
    guard(|| {
        let session = live(session, "session")?;
        session.ports.check_counts(input_count, output_count)?;
        let given = inputs.get(input_count, "inputs")?;
        let outputs = outputs.get(output_count, "outputs")?;
        for (index, output) in outputs.iter().enumerate() {
            if output.capacity_bytes > 0 && output.data.is_null() {
                return need(None, &format!("outputs[{index}].data"));
            }
        }
        let results = session.run_host(given)?;
        give(&results, outputs)
    })
}

/// Returns the description of an output in the last run, as a new object.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_output_spec(
    session: Option<&Session>,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (session, out) = (live(session, "session")?, need(out, "out")?);
        let port = session.ports.port(Side::Output, index)?;
        let desc = session.last(|last| Ok(last.output_desc(&port.name)?))?;
        hand_out(out, TensorSpec(device::TensorSpec::from_desc(desc)?, Born::here()));
        Ok(())
    })
}

/// Releases a session. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_session_release(session: Option<Box<Session>>) {
    release(session);
}

#[cfg(test)]
mod tests {
    use udo_runtime::{LoadOptions, Runtime};

    use super::*;
    use crate::codes::UDO_ERROR_BUSY;
    use crate::error::udo_error_code;
    use crate::model::for_c;

    #[test]
    fn a_session_that_is_at_work_is_busy_for_others() {
        let text = "graph \"g\"\n  input x: f32[2]\n  y = Relu@14(x)\n  output y\n";
        let model = Runtime::new().unwrap().load(text.as_bytes(), &LoadOptions::default());
        let model = for_c(model.unwrap()).unwrap();
        let session =
            Session::of_model(&model, &udo_runtime::run::SessionOptions::default()).unwrap();
        let mut out = MaybeUninit::new(None);
        let at_work = session.own(|_| {
            let error = udo_session_output_spec(Some(&session), 0, Some(&mut out));
            Ok(udo_error_code(error.as_deref()))
        });
        assert_eq!(at_work, Ok(UDO_ERROR_BUSY));
        let error = udo_session_output_spec(Some(&session), 0, Some(&mut out));
        assert_eq!(udo_error_code(error.as_deref()), 0);
    }
}
