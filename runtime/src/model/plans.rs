//! The plans of a model: one for good where all shapes are known, else one for each of the shapes that were met last. What is
//! behind a plan, as a run has to say elements first, has plans of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use udo_api::guard::LibraryGuard;
use udo_api::{Core, CoreKind, Shape};

use super::{CompileError, Options};
use crate::graph::{Graph, Source, Value, ValueId};
use crate::memory::{Budget, Tensor};
use crate::pass::{self, Fired, Wanted};
use crate::place::{self, Layers};
use crate::plan::Plan;
use crate::registry::Registry;
use crate::resolve::{Behind, BindOptions, Input};
use crate::session::SessionError;
use crate::thread_pool::Pool;

/// The plans of a model.
#[derive(Debug)]
pub(super) enum Plans {
    /// The only one there is of all that can be planned before a run.
    One(Planned),
    /// As many as are kept.
    PerShapes(Box<Planner>),
}

impl Plans {
    /// The plan, where there is one.
    pub(super) fn one(&self) -> Option<&Plan> {
        match self {
            Self::One(planned) => Some(&planned.plan),
            Self::PerShapes(_) => None,
        }
    }
}

/// A plan, and what plans are made of for what is behind it.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) plan: Arc<Plan>,
    pub(super) behind: Option<Arc<Planner>>,
}

/// What a plan is for.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The shapes of the inputs.
    pub(super) shapes: Vec<Shape>,
    /// The values whose elements have to be known.
    pub(super) elements: Vec<Tensor>,
}

impl Facts {
    pub(super) fn of(shapes: Vec<Shape>) -> Self {
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

/// What plans are made of, and those that were used last.
#[derive(Debug)]
pub(super) struct Planner {
    pub(super) inputs: Vec<Input>,
    /// The names of the values whose elements have to be known.
    pub(super) wanted: Vec<String>,
    /// As imported: its constants are those of the model's file, and all plans share what is packed of them.
    graph: Behind,
    /// Locked while a plan is made, so that sessions that meet the same shapes make one.
    registry: Arc<Mutex<Registry>>,
    options: Options,
    pool: Arc<Pool>,
    budget: Budget,
    /// The one used last first.
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    facts: Facts,
    planned: Planned,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Planner {
    /// Drops the planners behind it one after the other: there may be too many for a recursion.
    fn drop(&mut self) {
        let mut left = std::mem::take(self.kept.get_mut().unwrap_or_else(PoisonError::into_inner));
        while let Some(kept) = left.pop() {
            let behind = kept.planned.behind.and_then(Arc::into_inner);
            if let Some(mut behind) = behind {
                let kept = behind.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
                left.append(kept);
            }
        }
    }
}

impl Planner {
    pub(super) fn new(
        graph: Graph,
        inputs: Vec<Input>,
        registry: &Registry,
        (options, pool, budget): (Options, Arc<Pool>, Budget),
    ) -> Self {
        let registry = Arc::new(Mutex::new(registry.for_plans()));
        let (graph, wanted, kept) = (Behind::nothing(graph), Vec::new(), Mutex::default());
        Self { inputs, wanted, graph, registry, options, pool, budget, kept }
    }

    /// What is behind a plan that `self` made.
    fn behind(&self, graph: Behind) -> Self {
        Self::of(graph, Arc::clone(&self.registry), (&self.options, &self.pool, &self.budget))
    }

    fn of(
        graph: Behind,
        registry: Arc<Mutex<Registry>>,
        (options, pool, budget): (&Options, &Arc<Pool>, &Budget),
    ) -> Self {
        let name = |id: &ValueId| graph.graph.value(*id).map(|value: &Value| value.name.clone());
        let wanted = graph.wanted.iter().map(|id| name(id).unwrap_or_default()).collect();
        let inputs = Input::all(&graph.graph);
        let bind = BindOptions { bind: options.bind.bind.clone(), ..BindOptions::default() };
        let options = Options { bind, ..options.clone() };
        let (pool, budget, kept) = (Arc::clone(pool), budget.clone(), Mutex::default());
        Self { inputs, wanted, graph, registry, options, pool, budget, kept }
    }

    /// The plan for `facts`, made unless it is kept.
    pub(super) fn plan_for(&self, facts: &Facts) -> Result<Planned, CompileError> {
        if let Some(planned) = self.kept(facts) {
            return Ok(planned);
        }
        let mut registry = lock(&self.registry);
        if let Some(planned) = self.kept(facts) {
            return Ok(planned);
        }
        let mut bind = self.options.bind.clone();
        let dims = facts.shapes.iter().map(|shape| shape.dims().to_vec());
        bind.shapes = self.inputs.iter().map(|input| input.name.clone()).zip(dims).collect();
        let options = Options { bind, ..self.options.clone() };
        let made = plan(self.knowing(facts), &mut registry, &options, (&self.pool, &self.budget))?;
        let behind = made.behind.map(|behind| Arc::new(self.behind(behind)));
        let planned = Planned { plan: Arc::new(made.plan), behind };
        let mut kept = lock(&self.kept);
        kept.truncate(self.options.shapes_kept.get() - 1);
        kept.insert(0, Kept { facts: facts.clone(), planned: planned.clone() });
        Ok(planned)
    }

    /// The graph with the elements that it wants.
    fn knowing(&self, facts: &Facts) -> Behind {
        let mut part = self.graph.clone();
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

    fn kept(&self, facts: &Facts) -> Option<Planned> {
        let mut kept = lock(&self.kept);
        let at = kept.iter().position(|kept| kept.facts == *facts)?;
        kept.get_mut(..=at)?.rotate_right(1);
        kept.first().map(|kept| kept.planned.clone())
    }

    /// Lets the plan go that was not used for longest; whether there was one.
    pub(super) fn forget(&self) -> bool {
        lock(&self.kept).pop().is_some()
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(super) fn shapes_kept(&self) -> usize {
        self.options.shapes_kept.get()
    }
}

/// A plan of a graph, as far as there can be one before a run.
pub(super) struct Made {
    pub(super) plan: Plan,
    pub(super) fired: Vec<Fired>,
    behind: Option<Behind>,
}

impl Made {
    /// What it is for sessions; plans of what is behind it are made of `registry`.
    pub(super) fn shared(
        self,
        registry: &Registry,
        of: (&Options, &Arc<Pool>, &Budget),
    ) -> Result<Planned, CompileError> {
        let planner = |behind: Behind| {
            registry.find_operators(&behind.graph, &of.0.bind)?;
            let registry = Arc::new(Mutex::new(registry.for_plans()));
            Ok::<_, CompileError>(Arc::new(Planner::of(behind, registry, of)))
        };
        Ok(Planned { plan: Arc::new(self.plan), behind: self.behind.map(planner).transpose()? })
    }
}

/// Binds, places and plans a graph, all of whose inputs' shapes are known.
pub(super) fn plan(
    part: Behind,
    registry: &mut Registry,
    options: &Options,
    of: (&Pool, &Budget),
) -> Result<Made, CompileError> {
    match registry.cache().cloned() {
        Some(cache) => {
            cache.looking_ahead(options.threads, || planned(part, registry, options, of))
        }
        None => planned(part, registry, options, of),
    }
}

fn planned(
    part: Behind,
    registry: &mut Registry,
    options: &Options,
    (pool, budget): (&Pool, &Budget),
) -> Result<Made, CompileError> {
    let mut resolved = registry.resolve_part(part.graph, &part.open, &options.bind)?;
    let behind = resolved.behind.take();
    // The HTA runs programs, which passes leave alone.
    let mut cores = options.place.cores.iter().copied();
    let preferred = cores.find(|core| core.kind() != Some(CoreKind::Hta)).unwrap_or(Core::CPU);
    let pinned = place::pinned(&options.place.affinity);
    let cores = Wanted { preferred, pinned: &pinned };
    let layers = Layers::of(&resolved.graph, registry, options.place.profile.limits);
    let fired = pass::run(&mut resolved.graph, registry, &options.passes, cores)?;
    let mut placement = place::assign(resolved, registry, (&options.place, &layers), pool.width())?;
    placement.gather();
    let plan = Plan::build(placement, registry, &options.plan, pool)?;
    SessionError::look_ahead(&plan, budget)?;
    if let Some(cache) = registry.cache() {
        cache.save();
    }
    // A package's library has thread-local state that the system makes at a thread's first use of it.
    let mut guards: Vec<_> = plan.steps.iter().filter_map(|step| step.guard).collect();
    guards.sort_unstable_by_key(LibraryGuard::id);
    guards.dedup_by_key(|guard| guard.id());
    pool.on_every_thread(&|| {
        for guard in &guards {
            guard.cell();
        }
    });
    Ok(Made { plan, fired, behind })
}
