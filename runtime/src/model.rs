//! From a graph to something that runs: resolve, place, plan.

use std::num::NonZero;
use std::sync::Arc;

use udo_api::guard::LibraryGuard;

use crate::graph::Graph;
use crate::memory::{Budget, Limit};
use crate::pass::{self, Fired, PassError, PassOptions};
use crate::place::{self, PlaceError, PlaceOptions};
use crate::plan::{Plan, PlanError, PlanOptions, Report};
use crate::registry::Registry;
use crate::resolve::{BindOptions, ResolveError};
use crate::session::{Session, SessionError};
use crate::thread_pool::{Pool, PoolError};

/// What the user decides about a model.
#[derive(Clone, Debug)]
pub struct Options {
    /// How nodes find their operators.
    pub bind: BindOptions,
    /// Which passes rewrite the graph.
    pub passes: PassOptions,
    /// How nodes find their cores.
    pub place: PlaceOptions,
    /// What the planner may do.
    pub plan: PlanOptions,
    /// How many threads kernels may use.
    pub threads: NonZero<usize>,
    /// The most bytes that packed and converted constants, arenas and scratch of the model and all its sessions
    /// take together; as many as the machine has where nothing is said. The model's file does not count.
    pub max_memory: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: BindOptions::default(),
            passes: PassOptions::default(),
            place: PlaceOptions::default(),
            plan: PlanOptions::default(),
            threads: NonZero::<usize>::MIN,
            max_memory: None,
        }
    }
}

/// Why a graph cannot be made to run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A node has no operator, or does not fit it.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A pass broke the graph.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// A node has no core.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The placed graph cannot be laid out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There are not as many threads as were asked for.
    #[error(transparent)]
    Threads(#[from] PoolError),
    /// There would be no memory for a session.
    #[error(transparent)]
    Memory(#[from] SessionError),
}

/// A graph ready to run; sessions share it.
#[derive(Clone, Debug)]
pub struct Model {
    plan: Arc<Plan>,
    pool: Arc<Pool>,
    budget: Budget,
    fired: Arc<[Fired]>,
}

impl Model {
    /// Binds, places and plans `graph`.
    ///
    /// # Errors
    /// The first step that fails says why.
    pub fn compile(
        graph: Graph,
        registry: &mut Registry,
        options: &Options,
    ) -> Result<Self, CompileError> {
        let pool = Pool::new(options.threads)?;
        let budget = Budget::new(options.max_memory.map_or_else(Limit::of_machine, Limit::Asked));
        registry.charge(budget.clone());
        let mut resolved = registry.resolve(graph, &options.bind)?;
        let fired = pass::run(&mut resolved.graph, registry, &options.passes)?.into();
        let placement = place::assign(resolved, registry, &options.place, pool.width())?;
        let plan = Plan::build(placement, registry, &options.plan, &pool)?;
        SessionError::look_ahead(&plan, &budget)?;
        // A package's library has thread-local state that the system makes at a thread's first use of it.
        let mut guards: Vec<_> = plan.steps.iter().filter_map(|step| step.guard).collect();
        guards.sort_unstable_by_key(LibraryGuard::id);
        guards.dedup_by_key(|guard| guard.id());
        pool.on_every_thread(&|| {
            for guard in &guards {
                guard.cell();
            }
        });
        Ok(Self { plan: Arc::new(plan), pool: Arc::new(pool), budget, fired })
    }

    /// Memory for one stream of runs.
    ///
    /// # Errors
    /// [`Options::max_memory`], the machine or the system has no such memory.
    pub fn session(&self) -> Result<Session, SessionError> {
        Session::new(Arc::clone(&self.plan), Arc::clone(&self.pool), &self.budget)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What each pass did, in the order in which they ran.
    pub fn passes(&self) -> &[Fired] {
        &self.fired
    }

    /// What runs where and why, and how much memory it takes.
    pub fn report(&self) -> &Report {
        self.plan.report()
    }
}
