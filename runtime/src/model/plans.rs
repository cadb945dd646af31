//! The plans of a model: a single one if all shapes are known, else one for each of the most recent shapes. A part that
//! follows a cut has plans of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use udo_api::Shape;

use crate::pipeline::{self, CompileError, Compiled};
use udo_compile::compiler::{Compiler, Resources};
use udo_compile::options::{CompileOptions, options_of_part};
use udo_compile::plan::Plan;
use udo_compile::resolve::{self, Input, InputShapes, Part};
use udo_engine::thread_pool::Pool;
use udo_graph::graph::{Graph, Source, Value, ValueId};
use udo_graph::memory::{Budget, Tensor, TensorStorage};

/// The plans of a model.
#[derive(Debug)]
pub(crate) enum Plans {
    /// The only plan of the part before a cut, or of the whole model.
    One(Planned),
    /// A limited number of plans, by shape.
    PerShapes(Box<Planner>),
}

impl Plans {
    /// Returns the only plan, if there is one.
    pub(super) fn one(&self) -> Option<&Plan> {
        match self {
            Self::One(planned) => Some(&planned.plan),
            Self::PerShapes(_) => None,
        }
    }
}

/// A plan, and the planner of the part that follows it.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Arc<Plan>,
    pub(crate) rest: Option<Arc<Planner>>,
}

/// The facts that a plan depends on.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The shapes of the inputs.
    pub(crate) shapes: Vec<Shape>,
    /// The values whose elements must be known.
    pub(crate) elements: Vec<Tensor>,
}

impl Facts {
    pub(crate) fn new(shapes: Vec<Shape>) -> Self {
        Self { shapes, elements: Vec::new() }
    }
}

impl PartialEq for Facts {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |a: &Tensor, b: &Tensor| a.desc() == b.desc() && a.bytes() == b.bytes();
        let elements = self.elements.iter().zip(&other.elements);
        self.shapes == other.shapes && elements.into_iter().all(|(a, b)| is_same(a, b))
    }
}

/// The inputs of a model's compilations, cached for new shapes and for parts that follow a cut.
#[derive(Clone, Debug)]
pub(crate) struct Kit {
    pub(crate) resources: Resources,
    pub(crate) options: CompileOptions,
    pub(crate) pool: Arc<Pool>,
}

impl Kit {
    /// Returns a compilation.
    pub(crate) fn compiler(&self) -> Compiler<'_> {
        self.resources.compiler(&self.options)
    }

    /// Returns the budget that everything counts in.
    pub(crate) fn budget(&self) -> &Budget {
        self.resources.constants.budget()
    }

    /// Returns a kit for several plans of one graph, which share what they derive from constants.
    fn for_plans(&self) -> Self {
        let mut kit = self.clone();
        kit.resources.constants = self.resources.constants.for_plans();
        kit
    }
}

/// Makes plans, and keeps those that were used last.
#[derive(Debug)]
pub(crate) struct Planner {
    pub(crate) inputs: Vec<Input>,
    /// The names of the values whose elements must be known.
    pub(crate) wanted: Vec<String>,
    /// The graph as imported: its constants are those of the model's file, and all plans share the weights
    /// prepacked from them.
    part: Part,
    kit: Kit,
    /// Held while a plan is made, so that sessions with the same shapes make only one.
    making: Arc<Mutex<()>>,
    /// The plans, most recently used first.
    cached: Mutex<Vec<CachedPlan>>,
}

#[derive(Debug)]
struct CachedPlan {
    facts: Facts,
    planned: Planned,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Planner {
    /// Drops the planners of later parts iteratively: there may be too many for a recursion.
    fn drop(&mut self) {
        let mut left =
            std::mem::take(self.cached.get_mut().unwrap_or_else(PoisonError::into_inner));
        while let Some(cached) = left.pop() {
            if let Some(mut rest) = cached.planned.rest.and_then(Arc::into_inner) {
                let cached = rest.cached.get_mut().unwrap_or_else(PoisonError::into_inner);
                left.append(cached);
            }
        }
    }
}

impl Planner {
    /// Returns a planner for a graph with open extents.
    pub(super) fn new(graph: Graph, inputs: Vec<Input>, kit: &Kit) -> Self {
        let (part, wanted) = (Part::whole(graph), Vec::new());
        let (kit, making, cached) = (kit.for_plans(), Arc::default(), Mutex::default());
        Self { inputs, wanted, part, kit, making, cached }
    }

    /// Returns a planner for the part that follows the only plan of a model.
    pub(super) fn of_rest(part: Part, kit: &Kit) -> Result<Self, CompileError> {
        let operators = &kit.resources.operators;
        resolve::find_operators(operators, &part.graph, &kit.options.bind)?;
        Ok(Self::follow(part, &kit.for_plans(), Arc::default()))
    }

    fn follow(part: Part, kit: &Kit, making: Arc<Mutex<()>>) -> Self {
        let name = |id: &ValueId| part.graph.value(*id).map(|value: &Value| value.name.clone());
        let wanted = part.wanted.iter().map(|id| name(id).unwrap_or_default()).collect();
        let inputs = Input::all(&part.graph);
        let kit = Kit { options: options_of_part(&kit.options), ..kit.clone() };
        Self { inputs, wanted, part, kit, making, cached: Mutex::default() }
    }

    /// Returns the plan for `facts`, and makes it unless it is cached.
    pub(crate) fn plan_for(&self, facts: &Facts) -> Result<Planned, CompileError> {
        if let Some(planned) = self.cached(facts) {
            return Ok(planned);
        }
        let _making = lock(&self.making);
        if let Some(planned) = self.cached(facts) {
            return Ok(planned);
        }
        let Kit { resources, options, pool } = &self.kit;
        let mut options = options.clone();
        let dims = facts.shapes.iter().map(|shape| shape.dims().to_vec());
        options.bind.shapes =
            self.inputs.iter().map(|input| input.name.clone()).zip(dims).collect();
        let compiler = resources.compiler(&options);
        let Compiled { plan, rest, .. } = pipeline::compile(&compiler, self.knowing(facts), pool)?;
        let follow = |part| Arc::new(Self::follow(part, &self.kit, Arc::clone(&self.making)));
        let planned = Planned { plan: Arc::new(plan), rest: rest.map(follow) };
        let mut cached = lock(&self.cached);
        cached.truncate(options.max_plans.get() - 1);
        cached.insert(0, CachedPlan { facts: facts.clone(), planned: planned.clone() });
        Ok(planned)
    }

    /// Returns the part with the known elements as constants.
    fn knowing(&self, facts: &Facts) -> Part {
        let mut part = self.part.clone();
        for value in &mut part.graph.values {
            if let Source::Constant(tensor) = &mut value.source {
                *tensor = tensor.for_plan();
            }
        }
        for (&id, tensor) in part.wanted.iter().zip(&facts.elements) {
            if let Some(value) = part.graph.values.get_mut(id.index()) {
                value.source = Source::Constant(tensor.clone());
            }
        }
        part.open.append(&mut part.wanted);
        part
    }

    fn cached(&self, facts: &Facts) -> Option<Planned> {
        let mut cached = lock(&self.cached);
        let at = cached.iter().position(|cached| cached.facts == *facts)?;
        cached.get_mut(..=at)?.rotate_right(1);
        cached.first().map(|cached| cached.planned.clone())
    }

    /// Drops the least recently used plan; returns whether there was one.
    pub(crate) fn forget(&self) -> bool {
        lock(&self.cached).pop().is_some()
    }

    pub(crate) fn budget(&self) -> &Budget {
        self.kit.budget()
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.kit.pool
    }

    pub(crate) fn max_plans(&self) -> usize {
        self.kit.options.max_plans.get()
    }
}
