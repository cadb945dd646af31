//! The plans of a model: one for good where all shapes are known, else one for each of the shapes that were met last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use udo_api::guard::LibraryGuard;
use udo_api::{Core, Shape};

use super::{CompileError, Options};
use crate::graph::Graph;
use crate::memory::Budget;
use crate::pass::{self, Fired};
use crate::place;
use crate::plan::Plan;
use crate::registry::Registry;
use crate::resolve::Input;
use crate::session::SessionError;
use crate::thread_pool::Pool;

/// The plans of a model.
#[derive(Debug)]
pub(super) enum Plans {
    /// The only one there is.
    One(Arc<Plan>),
    /// As many as are kept.
    PerShapes(Box<Planner>),
}

/// What plans are made of, and those that were used last.
#[derive(Debug)]
pub(super) struct Planner {
    /// As imported: its constants are those of the model's file, and all plans share what is packed of them.
    graph: Graph,
    /// Locked while a plan is made, so that sessions that meet the same shapes make one.
    registry: Mutex<Registry>,
    options: Options,
    /// The one used last first.
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    shapes: Vec<Shape>,
    plan: Arc<Plan>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Planner {
    pub(super) fn new(graph: Graph, registry: &Registry, options: Options) -> Self {
        let (registry, kept) = (Mutex::new(registry.for_plans()), Mutex::new(Vec::new()));
        Self { graph, registry, options, kept }
    }

    /// The plan for `shapes` of `inputs`, made unless it is kept.
    pub(super) fn plan_for(
        &self,
        inputs: &[Input],
        shapes: &[Shape],
        pool: &Pool,
        budget: &Budget,
    ) -> Result<Arc<Plan>, CompileError> {
        if let Some(plan) = self.kept(shapes) {
            return Ok(plan);
        }
        let mut registry = lock(&self.registry);
        if let Some(plan) = self.kept(shapes) {
            return Ok(plan);
        }
        let mut bind = self.options.bind.clone();
        let dims = shapes.iter().map(|shape| shape.dims().to_vec());
        bind.shapes = inputs.iter().map(|input| input.name.clone()).zip(dims).collect();
        let options = Options { bind, ..self.options.clone() };
        let (plan, _) = plan(self.graph.clone(), &mut registry, &options, pool, budget)?;
        let plan = Arc::new(plan);
        let mut kept = lock(&self.kept);
        kept.truncate(self.options.shapes_kept.get() - 1);
        kept.insert(0, Kept { shapes: shapes.to_vec(), plan: Arc::clone(&plan) });
        Ok(plan)
    }

    fn kept(&self, shapes: &[Shape]) -> Option<Arc<Plan>> {
        let mut kept = lock(&self.kept);
        let at = kept.iter().position(|kept| kept.shapes == shapes)?;
        kept.get_mut(..=at)?.rotate_right(1);
        kept.first().map(|kept| Arc::clone(&kept.plan))
    }

    /// Lets the plan go that was not used for longest; whether there was one.
    pub(super) fn forget(&self) -> bool {
        lock(&self.kept).pop().is_some()
    }
}

/// Binds, places and plans `graph`, all of whose shapes are known; what passes did comes with it.
pub(super) fn plan(
    graph: Graph,
    registry: &mut Registry,
    options: &Options,
    pool: &Pool,
    budget: &Budget,
) -> Result<(Plan, Vec<Fired>), CompileError> {
    let mut resolved = registry.resolve(graph, &options.bind)?;
    let core = options.place.cores.first().copied().unwrap_or(Core::CPU);
    let fired = pass::run(&mut resolved.graph, registry, &options.passes, core)?;
    let placement = place::assign(resolved, registry, &options.place, pool.width())?;
    let plan = Plan::build(placement, registry, &options.plan, pool)?;
    SessionError::look_ahead(&plan, budget)?;
    // A package's library has thread-local state that the system makes at a thread's first use of it.
    let mut guards: Vec<_> = plan.steps.iter().filter_map(|step| step.guard).collect();
    guards.sort_unstable_by_key(LibraryGuard::id);
    guards.dedup_by_key(|guard| guard.id());
    pool.on_every_thread(&|| {
        for guard in &guards {
            guard.cell();
        }
    });
    Ok((plan, fired))
}
