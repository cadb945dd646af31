//! Asynchronous runs of a session, and runs over tensors of devices.

use std::sync::Arc;

use udo_api::{CoreKind, DType, Shape};

use super::last::LastPlans;
use super::options::{Devices, IoTensors, SessionOptions};
use super::segment::Watch;
use super::{Prepared, RunError, Session};
use crate::model::{Inner, Plans, Stage};
use udo_compile::resolve::Input;
use udo_engine::device::{
    DeviceId, DeviceTensor, Error, ErrorCode, ErrorContext, Result, SpecDetails, TensorSpec,
};
use udo_engine::run::{
    Bindings, Copies, FrameOptions, Frames, Launch, Run, RunOptions, Stop, Work,
};
use udo_graph::graph;

impl Session {
    /// Runs the model once over tensors of devices, in the order of its inputs and outputs, on the caller's thread. An
    /// omitted output is allocated in memory of the session's device. Uses the heap only for that, and for new shapes.
    ///
    /// # Errors
    /// A tensor does not match its input or output or is in use, no plan can be made, or a kernel failed.
    pub fn run_on(
        &mut self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
    ) -> Result<Vec<DeviceTensor>> {
        let mut bound = self.bind_tensors(inputs, outputs)?;
        bound.take()?;
        let ran = self.run_bound(&mut bound);
        self.unbind();
        self.copies = bound.copies();
        ran?;
        bound.give_back();
        Ok(bound.outputs().iter().flatten().cloned().collect())
    }

    fn run_bound(&mut self, bound: &mut Bindings) -> Result<()> {
        self.take_from(bound)?;
        self.run().map_err(Error::from)?;
        self.give_to(bound)
    }

    /// Returns the session's own tensors for the inputs and outputs of a stage, in the memory of its device. With `stage` that stage is
    /// prepared first; without, it is the stage that was prepared or ran last.
    ///
    /// The tensors are the same at each call until the shapes of their stage change. Runs over them copy nothing if the device's memory is
    /// coherent. What is written to them stays there for the next run. An input and an output that may share their place
    /// ([`CompileOptions::in_place`](crate::CompileOptions::in_place)) are one tensor.
    ///
    /// # Errors
    /// The model has no such stage, or it cannot be prepared; no shapes are prepared, or those that are belong to another stage; there is no
    /// memory.
    pub fn io(&mut self, stage: Option<usize>) -> Result<&IoTensors> {
        if let Some(index) = stage {
            self.prepare_stage(index)?;
            let stage = self.model.stages.get(index)?;
            if self.prepared.first().is_none_or(|at_hand| !Arc::ptr_eq(&at_hand.stage, stage)) {
                return Err(no_shape(&stage.inputs));
            }
        }
        let at_hand = self.prepared.first().ok_or_else(|| no_shape(&self.model.inputs))?;
        let stage = Arc::clone(&at_hand.stage);
        let mut inputs = Vec::with_capacity(stage.inputs.len());
        for (index, input) in stage.inputs.iter().enumerate() {
            inputs.push(TensorSpec::fixed(input.of.dtype, at_hand.executor().input_dims(index))?);
        }
        let mut outputs = Vec::with_capacity(self.model.outputs.len());
        for name in &self.model.outputs {
            let maker = self.at_hand(name)?;
            outputs.push(TensorSpec::from_desc(maker.carried_desc(maker.carried(name)))?);
        }
        let home = &self.devices.home;
        let made = |specs: &[TensorSpec]| -> Result<Vec<DeviceTensor>> {
            specs.iter().map(|spec| DeviceTensor::new(home, *spec)).collect()
        };
        let key = Arc::as_ptr(&stage).addr();
        let io = if let Some(io) = self.io.remove(&key).filter(|io| io.is_of(&inputs, &outputs)) {
            io
        } else {
            let mut io = IoTensors { inputs: made(&inputs)?, outputs: made(&outputs)? };
            io.join(&stage.in_place);
            io
        };
        Ok(self.io.entry(key).or_insert(io))
    }

    /// Returns the copies of inputs and outputs that the last [`Session::run_on`] made.
    pub fn copies(&self) -> Copies {
        self.copies
    }

    /// Submits a run over tensors of devices, in the order of the model's inputs and outputs. An omitted output is
    /// allocated in memory of the session's device. The call does not wait for a computation. Until the run ends, it
    /// leases its tensors: others can neither write them nor read the outputs. Tensors are used in place where possible
    /// ([`Run::copies`]), so the outputs of a failed run are unspecified.
    ///
    /// # Errors
    /// A tensor does not match its input or output or is in use, the session has the largest number of runs in flight,
    /// or a device is lost. Nothing has changed then.
    pub fn submit(
        &mut self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        options: RunOptions,
    ) -> Result<Run> {
        self.record(inputs, outputs, options)?.submit()
    }

    /// Records a launch that can be submitted repeatedly without using the heap: with the same tensors, whose elements
    /// change.
    ///
    /// # Errors
    /// A tensor does not match its input or output, or there is no memory for the session's frames.
    pub fn record(
        &mut self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        mut options: RunOptions,
    ) -> Result<Launch> {
        let bound = self.bind_tensors(inputs, outputs)?;
        self.devices.complete(&self.model, &self.options, &mut options)?;
        self.frames(&[])?.record(bound, options)
    }

    /// Allocates the memory of submitted runs, which the first submission does otherwise. With open extents, it covers
    /// the shapes that the session has prepared so far; a new shape allocates its own memory, or is reserved by another
    /// call.
    ///
    /// # Errors
    /// There is not enough memory or no thread for a device; or runs are in flight, whose memory cannot be reserved
    /// now.
    pub fn reserve(&mut self) -> Result<()> {
        let met: Vec<_> = self.prepared_shapes().collect();
        let Some(frames) = &self.frames else { return self.frames(&met).map(|_| ()) };
        let busy = frames.prepare(&met)?;
        if busy > 0 && met.iter().any(|shapes| !self.reserved.contains(shapes)) {
            let all = self.options.frames;
            let why = format!(
                "{busy} of the session's {all} frames are busy; wait for their runs, and reserve again"
            );
            return Err(Error::new(ErrorCode::Busy, why));
        }
        self.reserved = met;
        Ok(())
    }

    fn prepared_shapes(&self) -> impl Iterator<Item = Vec<Shape>> {
        self.prepared.iter().map(|of| of.segment.facts.shapes.clone())
    }

    /// Allocates memory for these shapes; the first of them become the current ones.
    fn meet_all(&mut self, shapes: &[Vec<Shape>]) -> Result<()> {
        let model = Arc::clone(&self.model);
        let names: Vec<_> = model.inputs.iter().map(|input| input.name.as_str()).collect();
        for shapes in shapes.iter().rev() {
            self.turn_to(model.stages.planned_for(&names, shapes)?, shapes)?;
        }
        self.make_stoppable();
        Ok(())
    }

    /// Returns the frames, allocating them for these shapes if necessary.
    fn frames(&mut self, shapes: &[Vec<Shape>]) -> Result<&Arc<Frames>> {
        if let Some(frames) = self.frames.take() {
            return Ok(self.frames.insert(frames));
        }
        let of = (&self.devices, &self.options);
        let made = frames(&self.model, of, shapes, self.last.as_ref())?;
        // If all runs have the same plan, frames start with its memory.
        let stage = self.model.stages.sole();
        let is_one = stage.is_some_and(|stage| matches!(stage.plans, Plans::One(_)));
        self.reserved = if is_one { self.prepared_shapes().collect() } else { shapes.to_vec() };
        Ok(self.frames.insert(made))
    }

    /// Binds a run to these tensors.
    fn bind_tensors(
        &self,
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
    ) -> Result<Bindings> {
        let planned = |stage: &Arc<Stage>, name: &str| {
            let of_stage = |of: &&Prepared| Arc::ptr_eq(&of.stage, stage);
            let maker = self.prepared.first().filter(of_stage)?.segment.maker(name)?;
            maker.output_desc(name).ok()?.dtype()
        };
        bind_tensors(&self.model, &self.devices, planned, (inputs, outputs))
    }

    /// Makes the next run read and write the bound tensors, in place where possible, while it has their leases.
    fn take_from(&mut self, bound: &mut Bindings) -> Result<()> {
        self.unbind();
        let shape = |index| bound.input(index).ok()?.desc().ok().map(|desc| desc.full_shape());
        self.lend_shapes(shape).map_err(|error| Error::from(RunError::from(error)))?;
        for index in 0..self.model.inputs.len() {
            let over = bound.output_there(index).and_then(|output| self.model.outputs.get(output));
            let over = over.map(String::as_str);
            let at_hand = self.prepared.first_mut();
            if !at_hand.is_some_and(|of| of.executor_mut().bind_input(index, over, bound)) {
                self.read_input(index, &mut |into| bound.read(index, into))?;
            }
        }
        let Some(at_hand) = self.prepared.first_mut() else { return Ok(()) };
        let executor = at_hand.executor_mut();
        for (index, name) in self.model.outputs.iter().enumerate() {
            let output = executor.carried(name);
            executor.bind_output(output, index, bound)?;
        }
        Ok(())
    }

    /// Makes the kernels of all prepared shapes check whether their run is stopped.
    fn make_stoppable(&mut self) {
        for of in &mut self.prepared {
            of.executor_mut().make_stoppable();
        }
    }

    /// Releases the tensors of the last run.
    fn unbind(&mut self) {
        for of in &mut self.prepared {
            of.executor_mut().unbind();
        }
    }

    /// Copies the results of the last run to the bound tensors.
    fn give_to(&self, bound: &mut Bindings) -> Result<()> {
        for (index, name) in self.model.outputs.iter().enumerate() {
            let maker = self.at_hand(name)?;
            let output = maker.carried(name);
            let spec = TensorSpec::from_desc(maker.carried_desc(output))?;
            bound.write(index, &spec, maker.carried_bytes(output))?;
        }
        Ok(())
    }
}

/// Creates frames for runs of a model, with memory for these shapes.
pub(super) fn frames(
    model: &Arc<Inner>,
    (devices, options): (&Devices, &SessionOptions),
    shapes: &[Vec<Shape>],
    last: Option<&LastPlans>,
) -> Result<Arc<Frames>> {
    let frame = |_| -> Result<Box<dyn Work>> {
        let mut session = Session::new(Arc::clone(model), options)?;
        if let Some(last) = last {
            session.last = Some(last.clone());
        }
        session.meet_all(shapes)?;
        Ok(Box::new(Frame { session }))
    };
    let frames = (0..options.frames.get()).map(frame).collect::<Result<Vec<_>>>()?;
    let used: Vec<_> = model.kinds().map(|kind| devices.device(kind)).collect();
    let SessionOptions { depth, workspace, log, .. } = options;
    let (workspace, log) = (workspace.shared(), log.clone());
    let threads = model.shared.pool.width();
    let named = Some(devices.device(model.first_kind()));
    let options = FrameOptions { depth: *depth, workspace, log, threads, named };
    Frames::new(frames, &model.shared.queues, &used, options)
}

/// Binds a run of a model to these inputs and outputs. `planned` returns the types of outputs, as far as they are
/// known.
pub(super) fn bind_tensors(
    model: &Inner,
    devices: &Devices,
    planned: impl Fn(&Arc<Stage>, &str) -> Option<DType>,
    (inputs, outputs): (&[DeviceTensor], &[Option<DeviceTensor>]),
) -> Result<Bindings> {
    let stage = stage_for(model, inputs)?;
    check_count("outputs", outputs.len(), model.outputs.iter().map(String::as_str))?;
    for (index, (input, given)) in stage.inputs.iter().zip(inputs).enumerate() {
        let desc = given.spec().desc().map_err(|error| error.at(format_args!("input {index}")))?;
        if !graph::admits(&input.of, &desc) {
            let (name, wanted) = (&input.name, &input.of);
            let why = format!("input {index}, {name:?}, is {desc}, expected {wanted}");
            return Err(Error::new(ErrorCode::ShapeMismatch, why));
        }
    }
    for (index, (name, given)) in model.outputs.iter().zip(outputs).enumerate() {
        if let (Some(given), Some(wanted)) = (given, planned(stage, name))
            && given.spec().dtype() != wanted
        {
            let found = given.spec();
            let why = format!("output {index}, {name:?}, is {found}, expected one of {wanted}");
            return Err(Error::new(ErrorCode::InvalidArgument, why));
        }
    }
    Bindings::new((inputs, outputs), &stage.in_place, &devices.home)
}

/// Returns the stage of a model that accepts these inputs.
pub(super) fn stage_for<'a>(model: &'a Inner, inputs: &[DeviceTensor]) -> Result<&'a Arc<Stage>> {
    check_count("inputs", inputs.len(), model.inputs.iter().map(|input| input.name.as_str()))?;
    model.stages.choose(|name| {
        let at = model.inputs.iter().position(|input| input.name == name)?;
        inputs.get(at)?.spec().dims().ok()
    })
}

fn no_shape(inputs: &[Input]) -> Error {
    let name = inputs.first().map_or("", |input| &input.name);
    let why = format!("input 0, {name:?}, has no shape yet; prepare one");
    Error::new(ErrorCode::InvalidState, why)
}

fn check_count<'a>(
    side: &str,
    found: usize,
    wanted: impl ExactSizeIterator<Item = &'a str>,
) -> Result<()> {
    let count = wanted.len();
    if found == count {
        return Ok(());
    }
    let names: Vec<_> = wanted.map(|name| format!("{name:?}")).collect();
    let why = format!("{found} {side}, expected {count}: {}", names.join(", "));
    Err(Error::new(ErrorCode::InvalidArgument, why))
}

/// The memory of one run, separate from that of its session.
struct Frame {
    session: Session,
}

impl Work for Frame {
    fn begin(&mut self, bound: &mut Bindings) -> Result<()> {
        self.session.take_from(bound)?;
        self.session.make_stoppable();
        Ok(())
    }

    fn device(&self, part: usize) -> Option<DeviceId> {
        let kind = match self.session.prepared.first() {
            Some(at_hand) => at_hand.executor().part(part),
            None => Some(CoreKind::Cpu).filter(|_| part == 0),
        };
        // A plan without steps still needs a device.
        let kind = kind.or(Some(CoreKind::Cpu).filter(|_| part == 0));
        kind.map(|kind| self.session.devices.device(kind))
    }

    fn run(&mut self, part: usize, stop: &Stop<'_>) -> Result<()> {
        let Some(at_hand) = self.session.prepared.first_mut() else { return Ok(()) };
        let ran = at_hand.executor_mut().run_part(part, stop.word(), &|| stop.is_set());
        ran.map_err(RunError::from)?;
        if at_hand.executor().part(part + 1).is_none() && !stop.is_set() {
            self.session.replans += at_hand.segment.run_rest(Watch::Nothing)?;
            self.session.note_plans();
        }
        Ok(())
    }

    fn prepare(&mut self, shapes: &[Vec<Shape>]) -> Result<()> {
        // The tensors of the last run may have been freed.
        self.session.unbind();
        self.session.meet_all(shapes)
    }

    fn end(&mut self, bound: &mut Bindings) -> Result<()> {
        self.session.give_to(bound)
    }
}
