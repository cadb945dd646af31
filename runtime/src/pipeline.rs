//! The compilation of a graph to a plan: all steps in order.
//!
//! | step | what it does |
//! |---|---|
//! | [`resolve`] | resolves operators, attributes, types and shapes; folds constants; inlines control flow |
//! | [`pass`] | rewrites the graph |
//! | [`place`] | chooses a core and a finalized kernel for each node |
//! | [`plan`] | plans steps, arenas and transfers |
//!
//! Everything before these steps is done once for a model, whatever shapes its runs have: see [`Model`](crate::model::Model).

mod error;

use udo_api::guard::LibraryGuard;
use udo_compile::compiler::Compiler;
use udo_compile::pass::{self, PassResult, TargetCores};
use udo_compile::place::{self, Layers};
use udo_compile::plan::{self, Plan};
use udo_compile::resolve::{self, Part};
use udo_engine::thread_pool::Pool;

use crate::executor::SessionError;

pub use error::CompileError;
use udo_compile::options::preferred_core;

/// The result of a compilation.
pub(crate) struct Compiled {
    pub(crate) plan: Plan,
    /// The effects of the passes.
    pub(crate) fired: Vec<PassResult>,
    /// The part that follows the plan, to be compiled when a run has computed what it depends on.
    pub(crate) rest: Option<Part>,
}

/// Compiles a part of a model with known input shapes.
pub(crate) fn compile(
    compiler: &Compiler<'_>,
    part: Part,
    pool: &Pool,
) -> Result<Compiled, CompileError> {
    let Some(cache) = compiler.constants.cache() else { return steps(compiler, part, pool) };
    let made = cache
        .with_background_verification(compiler.options.threads, || steps(compiler, part, pool))?;
    cache.save();
    Ok(made)
}

fn steps(compiler: &Compiler<'_>, part: Part, pool: &Pool) -> Result<Compiled, CompileError> {
    let options = compiler.options;
    let mut resolved = resolve::run_part(compiler, part)?;
    let rest = resolved.rest.take();
    let layers = Layers::new(compiler, &resolved.graph);
    let pinned = place::pinned(&options.place.affinity);
    let cores = TargetCores { preferred: preferred_core(&options.place), pinned: &pinned };
    let fired = pass::run(compiler, &mut resolved.graph, &options.passes, cores)?;
    let mut placement = place::run(compiler, resolved, &layers)?;
    placement.gather();
    let plan = plan::run(compiler, placement, pool)?;
    SessionError::look_ahead(&plan, compiler.constants.budget())?;
    warm(&plan, pool);
    Ok(Compiled { plan, fired, rest })
}

/// Makes every thread use the packages' libraries once: the system allocates their thread-local state at a thread's
/// first use.
fn warm(plan: &Plan, pool: &Pool) {
    let mut guards: Vec<_> = plan.steps.iter().filter_map(|step| step.guard).collect();
    guards.sort_unstable_by_key(LibraryGuard::id);
    guards.dedup_by_key(|guard| guard.id());
    pool.on_every_thread(&|| {
        for guard in &guards {
            guard.cell();
        }
    });
}
