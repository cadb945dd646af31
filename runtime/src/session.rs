//! A stream of runs over shapes that may change: a plan with memory of its own for each of those that were met last.

mod error;
mod last;
mod launch;
mod options;
mod pool;
mod segment;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use udo_api::{Dim, Element, Shape, TensorDesc};

use crate::executor::{Executor, MemorySource};
use crate::model::{Facts, Inner, Model, Stage};
use crate::pipeline::CompileError;
use udo_compile::plan::Plan;
use udo_compile::resolve::{self, BindOptions, Input, InputShapes};
use udo_engine::device::{self, DeviceTensor, Used};
use udo_engine::run::{Copies, Frames, SharedWorkspace, UseWorkspace};
use udo_graph::graph::{self, DimSpec};
use udo_graph::memory::Tensor;

pub use crate::executor::{PortError, Span, SpanKind, StepError, StepProfile, Trace};
pub use error::RunError;
use last::LastPlans;
use options::Devices;
pub use options::{IoTensors, SessionOptions, Workspace};
pub use pool::SessionPool;
use segment::{Segment, Watch};

/// The memory of one stream of runs. A session belongs to one thread at a time.
///
/// Where the model leaves extents open, it has memory for each of the shapes that it met last, as many as
/// [`CompileOptions::max_plans`](crate::CompileOptions::max_plans). Of a model that has several stages, a run takes the one for
/// the shapes of its inputs. Inputs and outputs are those of the shapes at hand; an input whose shape stays keeps its elements when
/// another one's changes.
pub struct Session {
    model: Arc<Inner>,
    /// For each of the shapes met last; that for those at hand comes first.
    prepared: Vec<Prepared>,
    /// A tensor per input that has been set, and waits for a run where it has another shape than those at hand.
    given: Vec<InputState>,
    replans: usize,
    options: SessionOptions,
    devices: Devices,
    /// Those that runs use.
    used: Used,
    room: MemorySource,
    /// The frames of submitted runs, after the first submission.
    frames: Option<Arc<Frames>>,
    /// The shapes that all frames had memory for when they were reserved last.
    reserved: Vec<Vec<Shape>>,
    /// The copies of the last run over device tensors.
    copies: Copies,
    /// Tensors of its own for runs over such, by the address of the stage that they are for.
    io: BTreeMap<usize, IoTensors>,
    /// The plans of the last run, where they vary.
    last: Option<LastPlans>,
}

/// Memory for runs of a stage over inputs of some shapes.
struct Prepared {
    stage: Arc<Stage>,
    segment: Segment,
}

impl Prepared {
    fn is_of(&self, stage: &Arc<Stage>, shapes: &[Shape]) -> bool {
        Arc::ptr_eq(&self.stage, stage) && self.segment.facts.shapes == shapes
    }

    fn executor(&self) -> &Executor {
        &self.segment.executor
    }

    fn executor_mut(&mut self) -> &mut Executor {
        &mut self.segment.executor
    }
}

#[derive(Clone, Default)]
struct InputState {
    tensor: Option<Tensor>,
    waits: Waits,
}

/// The part of an input that the next run will use.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Waits {
    #[default]
    Nothing,
    /// Its tensor.
    Tensor,
    /// A shape; the run has the elements.
    Shape(Shape),
}

impl InputState {
    /// The tensor that the next run takes.
    fn waiting(&self) -> Option<&Tensor> {
        self.tensor.as_ref().filter(|_| self.waits == Waits::Tensor)
    }

    /// The extents that wait for the next run.
    fn dims(&self) -> Option<&[usize]> {
        match &self.waits {
            Waits::Nothing => None,
            Waits::Tensor => self.waiting().map(Tensor::dims),
            Waits::Shape(shape) => Some(shape.dims()),
        }
    }

    /// Whether something waits for the next run.
    fn waits(&self) -> bool {
        self.waits != Waits::Nothing
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shapes: Vec<_> = self.prepared.iter().map(|of| &of.segment.facts.shapes).collect();
        f.debug_struct("Session").field("shapes", &shapes).finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(workspace) = &self.room.workspace {
            workspace.release(1);
        }
    }
}

impl Session {
    fn new(model: Arc<Inner>, options: &SessionOptions) -> Result<Self, CompileError> {
        let given = vec![InputState::default(); model.inputs.len()];
        let prepared = Vec::with_capacity(model.max_plans());
        let devices = Devices::choose(&model, options)?;
        let all = model.shared.queues.devices();
        let used = model.kinds().map(|kind| devices.device(kind));
        let used = Used::find(all, used)?;
        let room = devices.memory_source(&model, options)?;
        if let Some(workspace) = &room.workspace {
            workspace.reserve(1);
        }
        let options = options.clone();
        let (frames, copies) = (None, Copies::default());
        let last = model.has_several_plans().then(LastPlans::default);
        let sole = model.stages.sole().cloned();
        let mut session = Self {
            model,
            prepared,
            given,
            replans: 0,
            options,
            devices,
            used,
            room,
            frames,
            reserved: Vec::new(),
            copies,
            io: BTreeMap::new(),
            last,
        };
        // Shapes that are known are prepared at once.
        if let Some(stage) = sole {
            session.prepare_known(&stage)?;
        }
        Ok(session)
    }

    /// Takes memory for the shapes of a stage, where all are known.
    fn prepare_known(&mut self, stage: &Arc<Stage>) -> Result<(), CompileError> {
        stage.known_shapes().map_or(Ok(()), |shapes| self.turn_to(stage, &shapes))
    }

    /// Compiles a stage of the model and takes the memory for its shapes, where they are known: the first run of the stage does that
    /// otherwise.
    ///
    /// # Errors
    /// There is no such stage, it cannot be compiled, or there is no memory.
    pub fn prepare_stage(&mut self, index: usize) -> Result<(), CompileError> {
        let stage = Arc::clone(self.model.stages.get(index).map_err(CompileError::Stage)?);
        self.prepare_known(&stage)
    }

    /// Has the stage for these inputs be at hand, with memory if its shapes are known, as a run over them has it. No heap, if it is at
    /// hand.
    ///
    /// # Errors
    /// No stage takes the inputs, or it cannot be made to run.
    pub fn take_stage(&mut self, inputs: &[DeviceTensor]) -> device::Result<()> {
        let stage = launch::stage_for(&self.model, inputs)?;
        if self.prepared.first().is_some_and(|at_hand| Arc::ptr_eq(&at_hand.stage, stage)) {
            return Ok(());
        }
        let stage = Arc::clone(stage);
        Ok(self.prepare_known(&stage)?)
    }

    /// Plans for inputs of these shapes, and takes the memory, unless that is there from before. The shapes of other inputs are
    /// known, or follow from these by the names of dimensions.
    ///
    /// # Errors
    /// An input has no such shape or the model no such input, some shape is not known, the model cannot be
    /// planned for them, or there is no memory.
    pub fn prepare(&mut self, shapes: &[(&str, &[usize])]) -> Result<(), CompileError> {
        let dims = |name: &str| shapes.iter().find(|(input, _)| *input == name).map(|of| of.1);
        let stage = self.model.stages.choose(dims).map_err(CompileError::Stage)?;
        let stage = Arc::clone(stage);
        let shapes = shapes.iter().map(|&(name, dims)| (name.to_owned(), dims.to_vec()));
        let inputs = bound(&stage, shapes.collect())?;
        let waits: Vec<bool> = self.given.iter().map(InputState::waits).collect();
        self.turn_to(&stage, &planned(&stage, &inputs)?)?;
        let Some(at_hand) = self.prepared.first_mut() else { return Ok(()) };
        for (index, (input, waits)) in inputs.iter().zip(waits).enumerate() {
            if let Some(shape) = input.shape().filter(|_| !waits) {
                at_hand.executor_mut().set_input_dims(index, shape.dims());
            }
        }
        Ok(())
    }

    /// Plans for the inputs as they were set, which the next run does otherwise.
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub fn prepare_inputs(&mut self) -> Result<(), CompileError> {
        if self.is_prepared() {
            return Ok(());
        }
        let place = |name: &str| self.model.inputs.iter().position(|input| input.name == name);
        let stage = self.model.stages.choose(|name| self.next_dims(place(name)?));
        let stage = stage.map_err(CompileError::Stage)?;
        if let Some(at) = self.prepared.iter().position(|of| self.is_wanted(stage, of)) {
            self.change_to(at);
            return Ok(());
        }
        let inputs = self.model.inputs.iter().enumerate();
        let asked = inputs.filter_map(|(index, input)| {
            Some((input.name.clone(), self.next_dims(index)?.to_vec()))
        });
        let shapes = planned(stage, &bound(stage, asked.collect())?)?;
        let stage = Arc::clone(stage);
        self.replans += 1;
        self.turn_to(&stage, &shapes)
    }

    /// Whether the next run takes the plan at hand, as it is for the inputs as they were set.
    pub fn is_prepared(&self) -> bool {
        let has_news = self.given.iter().any(InputState::waits);
        !has_news && self.prepared.first().is_some_and(|of| self.agrees_on_ranges(&of.stage))
    }

    /// How many plans were made in runs: for shapes of inputs that were not prepared, and for computed elements that a part of
    /// the model wants to know before it is planned.
    pub fn replans(&self) -> usize {
        self.replans
    }

    /// The extents that an input has in the next run, as far as they are known. Uses no heap.
    fn next_dims(&self, index: usize) -> Option<&[usize]> {
        let waiting = self.given.get(index).and_then(InputState::dims);
        waiting.or_else(|| Some(self.prepared.first()?.executor().input_dims(index)))
    }

    /// Whether memory runs the next inputs, which are those of a stage. Uses no heap.
    fn is_wanted(&self, stage: &Arc<Stage>, of: &Prepared) -> bool {
        let mut shapes = of.segment.facts.shapes.iter().enumerate();
        Arc::ptr_eq(&of.stage, stage)
            && shapes.all(|(at, shape)| self.next_dims(at).is_some_and(|dims| admits(shape, dims)))
            && self.agrees_on_ranges(stage)
    }

    /// Whether each named extent is in its range in the next run, and the same in all inputs. Uses no heap.
    fn agrees_on_ranges(&self, stage: &Stage) -> bool {
        let Stage { inputs, ranges, .. } = stage;
        ranges.ranges.iter().all(|(name, range)| {
            let is_its = |spec: &DimSpec| matches!(spec, DimSpec::Named(named) if named == name);
            let inputs = inputs.iter().enumerate();
            let mut extents = inputs.flat_map(|(at, input)| {
                let dims = input.of.dims.iter().zip(self.next_dims(at).unwrap_or_default());
                dims.filter(|(spec, _)| is_its(spec)).map(|(_, &extent)| extent)
            });
            let first = extents.next();
            first.is_none_or(|first| range.contains(&first) && extents.all(|n| n == first))
        })
    }

    fn turn_to(&mut self, stage: &Arc<Stage>, shapes: &[Shape]) -> Result<(), CompileError> {
        match self.prepared.iter().position(|of| of.is_of(stage, shapes)) {
            Some(at) => self.change_to(at),
            None => self.meet(stage, shapes)?,
        }
        Ok(())
    }

    /// Has memory that is there from before be that at hand. Uses no heap.
    fn change_to(&mut self, at: usize) {
        if let Some(of) = self.prepared.get_mut(..=at) {
            of.rotate_right(1);
        }
        self.take_inputs(at.min(1));
    }

    /// Plans for `shapes` and takes the memory; where there is too little, that of other shapes goes.
    fn meet(&mut self, stage: &Arc<Stage>, shapes: &[Shape]) -> Result<(), CompileError> {
        let facts = Facts::new(shapes.to_vec());
        let segment = loop {
            match self.try_meet(stage, &facts) {
                Ok(segment) => break segment,
                Err(error)
                    if error.is_of_memory(&self.model.shared.budget) && self.forget(shapes) => {}
                Err(error) => return Err(error),
            }
        };
        self.prepared.insert(0, Prepared { stage: Arc::clone(stage), segment });
        self.take_inputs(1);
        Ok(())
    }

    fn try_meet(&mut self, stage: &Stage, facts: &Facts) -> Result<Segment, CompileError> {
        let planned = stage.plan_for(facts)?;
        while self.prepared.len() >= self.model.max_plans() && self.forget(&facts.shapes) {}
        let shared = &self.model.shared;
        Segment::new(facts.clone(), planned, (&shared.pool, &shared.budget), &self.room)
    }

    /// Gives the memory of the shapes back that were not met for longest; whether there were any. Inputs that have
    /// the same shape among `next` wait for that.
    fn forget(&mut self, next: &[Shape]) -> bool {
        let has_forgotten = self.model.forget();
        let Some(gone) = self.prepared.pop() else { return has_forgotten };
        if self.prepared.is_empty() {
            for (index, given) in self.given.iter_mut().enumerate() {
                let before = gone.segment.facts.shapes.get(index);
                let shape = next.get(index).filter(|shape| before == Some(shape));
                if let Some(tensor) = shape.and_then(|_| gone.executor().input_tensor(index))
                    && !given.waits()
                {
                    *given = InputState { tensor: Some(tensor), waits: Waits::Tensor };
                }
            }
        }
        true
    }

    /// Fills the inputs at hand from what waits for them, and from those of the shapes at place `before`, unless that is these.
    fn take_inputs(&mut self, before: usize) {
        let Some((now, others)) = self.prepared.split_first_mut() else { return };
        let before = before.checked_sub(1).and_then(|before| others.get(before));
        for (index, given) in self.given.iter_mut().enumerate() {
            let Some(shape) = now.segment.facts.shapes.get(index) else { continue };
            if let Some(dims) = given.dims() {
                if admits(shape, dims) {
                    if let Some(tensor) = given.waiting() {
                        now.executor_mut().set_input_dims(index, dims);
                        now.executor_mut().fill_input(index, tensor.bytes());
                    } else {
                        now.executor_mut().lend_input_dims(index, dims);
                    }
                    given.waits = Waits::Nothing;
                }
                continue;
            }
            let before = before.filter(|of| of.segment.facts.shapes.get(index) == Some(shape));
            if let Some(before) = before.map(Prepared::executor) {
                now.executor_mut().set_input_dims(index, before.input_dims(index));
                now.executor_mut().fill_input(index, before.input_bytes(index).unwrap_or_default());
            }
        }
    }

    /// Runs the model once over the inputs as they are. Where they have shapes that are not prepared, or a part of the model
    /// wants elements of the part before that it did not meet lately, it plans for them first; else it uses no heap
    /// unless it fails.
    ///
    /// # Errors
    /// There is no plan for the shapes, as [`Session::prepare`] says, or for what the run computed, or a kernel failed; the
    /// outputs are unspecified then, and the session can run again.
    pub fn run(&mut self) -> Result<(), RunError> {
        self.watched(Watch::Nothing)
    }

    /// Runs the model once and notes what each step took, as far as there is room.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_profiled(&mut self, profile: &mut [StepProfile]) -> Result<(), RunError> {
        self.watched(Watch::Profile(profile))
    }

    /// Runs the model once and notes in `trace` which thread was at which step when, and plans that were made first or
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_traced(&mut self, trace: &mut Trace) -> Result<(), RunError> {
        self.watched(Watch::Trace(trace))
    }

    fn watched(&mut self, mut watch: Watch<'_>) -> Result<(), RunError> {
        if !self.is_prepared() {
            watch.plans(SpanKind::Prepare, || self.prepare_inputs())?;
        }
        let began = self.used.changes();
        self.used.check_there().map_err(CompileError::from)?;
        let Some(at_hand) = self.prepared.first_mut() else { return Ok(()) };
        let turn = self.room.workspace.as_ref().map(SharedWorkspace::enter).transpose();
        let _turn = turn.map_err(CompileError::from)?;
        self.replans += at_hand.segment.run(watch)?;
        self.note_plans();
        Ok(self.used.check_since(began).map_err(CompileError::from)?)
    }

    /// The model that it runs.
    pub fn model(&self) -> Model {
        Model(Arc::clone(&self.model))
    }

    /// The plans for the shapes at hand, in the order in which they run; none before there are shapes. The first one covers all that can
    /// be planned before a run. Each of the others is for elements that the last run computed.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.prepared.first().into_iter().flat_map(|at_hand| at_hand.segment.plans())
    }

    /// The part of the model that makes an output, for the shapes at hand.
    fn at_hand(&self, name: &str) -> Result<&Executor, PortError> {
        let outputs = &self.model.outputs;
        if !outputs.iter().any(|output| output == name) {
            return Err(PortError::no_such("output", name, outputs.iter().map(String::as_str)));
        }
        let none = || PortError::NoShapes { side: "output", name: name.to_owned() };
        self.prepared.first().and_then(|at_hand| at_hand.segment.maker(name)).ok_or_else(none)
    }

    /// The place of an input, and what it is.
    fn input(&self, name: &str) -> Result<(usize, &Input), PortError> {
        let inputs = &self.model.inputs;
        let known = || inputs.iter().map(|input| input.name.as_str());
        let input = inputs.iter().enumerate().find(|(_, input)| input.name == name);
        input.ok_or_else(|| PortError::no_such("input", name, known()))
    }

    /// The elements of an input of the shapes at hand, to be filled in before a run; they stay until written again.
    ///
    /// # Errors
    /// The model has no such input or one of another type, or no shapes are at hand.
    pub fn input_mut<T: Element>(&mut self, name: &str) -> Result<&mut [T], PortError> {
        let (at, _) = self.input(name)?;
        if let Some(given) = self.given.get_mut(at) {
            given.waits = Waits::Nothing;
        }
        let none = || PortError::NoShapes { side: "input", name: name.to_owned() };
        self.prepared.first_mut().ok_or_else(none)?.executor_mut().input_mut(at)
    }

    /// Copies a tensor into an input. One of another shape than those at hand waits for the next run, which plans for
    /// its shape; its elements are shared until then.
    ///
    /// # Errors
    /// The model has no such input, or one of another type, or of no such shape.
    pub fn set_input(&mut self, name: &str, tensor: &Tensor) -> Result<(), PortError> {
        let (at, input) = self.input(name)?;
        if !graph::admits(&input.of, tensor.desc()) {
            return Err(PortError::WrongTensor {
                side: "input",
                name: name.to_owned(),
                found: tensor.desc().to_string(),
                wanted: input.of.to_string(),
            });
        }
        let Some(given) = self.given.get_mut(at) else { return Ok(()) };
        match self.prepared.first_mut() {
            Some(at_hand) if at_hand.executor().input_dims(at) == tensor.dims() => {
                at_hand.executor_mut().fill_input(at, tensor.bytes());
                given.waits = Waits::Nothing;
            }
            Some(_) | None => {
                *given = InputState { tensor: Some(tensor.clone()), waits: Waits::Tensor };
            }
        }
        Ok(())
    }

    /// Has the plan for inputs of these shapes be at hand, whose elements the next run brings. What the session has of its own stays, but
    /// for what waits. No heap, if there is such a plan.
    ///
    /// # Errors
    /// As [`Session::prepare`]; then the plan at hand is that of before, and nothing waits.
    fn lend_shapes(&mut self, shape: impl Fn(usize) -> Option<Shape>) -> Result<(), CompileError> {
        let is_at_hand = |session: &Self, index: usize| {
            let at_hand = session.prepared.first();
            let dims = at_hand.map(|at_hand| at_hand.executor().input_dims(index));
            dims.is_some() && dims == shape(index).as_ref().map(Shape::dims)
        };
        let inputs = 0..self.given.len();
        // Where one is not, plans change, and what the session has of the others need not come along.
        let are_at_hand = inputs.clone().all(|index| is_at_hand(self, index));
        for (given, index) in self.given.iter_mut().zip(inputs) {
            let waits = (!are_at_hand).then(|| shape(index)).flatten();
            given.waits = waits.map_or(Waits::Nothing, Waits::Shape);
        }
        let prepared = self.prepare_inputs();
        for given in &mut self.given {
            given.waits = Waits::Nothing;
        }
        prepared
    }

    /// Copies elements into the input at place `index` of the shapes at hand, whose own they are from then on. No heap.
    fn read_input(
        &mut self,
        index: usize,
        read: &mut dyn FnMut(&mut [u8]) -> device::Result<()>,
    ) -> device::Result<()> {
        let Some(at_hand) = self.prepared.first_mut() else { return Ok(()) };
        let executor = at_hand.executor_mut();
        executor.keep_input_dims(index);
        executor.input_bytes_mut(index).map_or(Ok(()), read)
    }

    /// The type and shape of an output after the last run.
    ///
    /// # Errors
    /// The model has no such output, or no shapes are at hand.
    pub fn output_desc(&self, name: &str) -> Result<TensorDesc, PortError> {
        self.at_hand(name)?.output_desc(name)
    }

    /// The elements of an output after the last run.
    ///
    /// # Errors
    /// The model has no such output or one of another type, or no shapes are at hand.
    pub fn output<T: Element>(&self, name: &str) -> Result<&[T], PortError> {
        self.at_hand(name)?.output(name)
    }

    /// A copy of an output after the last run.
    ///
    /// # Errors
    /// The model has no such output, or no shapes are at hand.
    pub fn output_tensor(&self, name: &str) -> Result<Tensor, PortError> {
        self.at_hand(name)?.output_tensor(name)
    }
}

/// The inputs of a stage with these shapes, and with what follows from them.
fn bound(stage: &Stage, shapes: BTreeMap<String, Vec<usize>>) -> Result<Vec<Input>, CompileError> {
    let options = BindOptions { shapes, ..stage.ranges.clone() };
    Ok(resolve::bind(&stage.inputs, &options)?)
}

/// Returns the plan for inputs of these shapes.
fn planned(stage: &Stage, bound: &[Input]) -> Result<Vec<Shape>, CompileError> {
    let inputs = stage.inputs.iter().zip(bound);
    let planned = inputs.map(|(input, bound)| input.planned(bound, &stage.ranges));
    Ok(planned.collect::<Result<_, _>>()?)
}

impl Model {
    /// Memory for one stream of runs.
    ///
    /// # Errors
    /// [`CompileOptions::max_memory`](crate::CompileOptions::max_memory), the machine or the system has no such memory.
    pub fn session(&self) -> Result<Session, CompileError> {
        self.session_with(&SessionOptions::default())
    }

    /// As [`Model::session`], with options.
    ///
    /// # Errors
    /// As there, or there is no such device.
    pub fn session_with(&self, options: &SessionOptions) -> Result<Session, CompileError> {
        Session::new(Arc::clone(&self.0), options)
    }
}

/// Whether a plan for `shape` runs a tensor of these extents.
fn admits(shape: &Shape, dims: &[usize]) -> bool {
    let mut pairs = shape.iter().zip(dims);
    let fits = |(dim, &extent): (Dim, &usize)| match dim {
        Dim::Fixed(is) | Dim::Open(is) => extent == is,
        Dim::UpTo(most) => extent <= most,
    };
    shape.dims().len() == dims.len() && pairs.all(fits)
}

impl Session {
    /// Notes which plans a run took, where that is not always the same.
    fn note_plans(&self) {
        if let (Some(last), Some(at_hand)) = (&self.last, self.prepared.first()) {
            last.note(at_hand.segment.shared_plans());
        }
    }

    /// The plans that the last run took, a submitted one or another, in the order in which they ran. Before there was one they are
    /// those at hand.
    ///
    /// # Errors
    /// No plan exists yet, as the model leaves shapes open, or the plan was dropped for the memory of others.
    pub fn last_plans(&self) -> device::Result<Vec<Arc<Plan>>> {
        let noted = self.last.as_ref().map(|last| last.lock().clone()).unwrap_or_default();
        if noted.is_empty() {
            let at_hand: Vec<_> = self
                .prepared
                .iter()
                .take(1)
                .flat_map(|of| of.segment.shared_plans().cloned())
                .collect();
            let none = || {
                let why = "the session has no plan yet, as its model leaves shapes open; run it, or prepare shapes";
                device::Error::new(device::ErrorCode::InvalidState, why)
            };
            return if at_hand.is_empty() { Err(none()) } else { Ok(at_hand) };
        }
        let there = noted.iter().map(Weak::upgrade).collect::<Option<_>>();
        there.ok_or_else(|| {
            let why =
                "the plan of the last run is gone, as another one expected its memory; run again";
            device::Error::new(device::ErrorCode::InvalidState, why)
        })
    }
}
