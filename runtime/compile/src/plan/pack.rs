//! Prepares kernels on the model's threads: packs the constants for which they ask, and computes the data that kernels
//! derive from fixed extents (their geometry).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use udo_api::abi::ParallelTable;
use udo_api::guard::OWN_GUARD;
use udo_host::{FinalizedKernel, Refusal};

use super::PlanError;
use crate::compiler::Compiler;
use crate::place::{Choice, PlacedKernel, Placement};
use udo_engine::exit_guard::{self, PackageCall};
use udo_engine::thread_pool::Pool;
use udo_graph::graph::{NodeReads, PerValue};

/// Packs constants for every kernel of a placed graph, and prepares the kernels with fixed shapes.
///
/// # Errors
/// A packing or preparing function refuses or panics; the error is that of the first such node in graph order.
pub(super) fn all(
    placement: &mut Placement,
    compiler: &Compiler<'_>,
    pool: &Pool,
) -> Result<(), PlanError> {
    release(placement);
    let Placement { resolved, choices, .. } = &mut *placement;
    let nodes = &resolved.graph.nodes;
    let jobs: Vec<_> = choices
        .iter_mut()
        .enumerate()
        .filter_map(|(node, choice)| match choice {
            Choice::Kernel(placed) if needs_preparation(&placed.kernel) => Some((node, placed)),
            Choice::Kernel(_)
            | Choice::Epilogue { .. }
            | Choice::Alias
            | Choice::Folded
            | Choice::Control => None,
        })
        .map(|(node, placed)| Mutex::new((node, &mut **placed, None)))
        .collect();
    let run_job = |job: &Mutex<Job<'_>>, parallel: Option<&ParallelTable>| {
        let (index, placed, failure) = &mut *job.lock().unwrap_or_else(PoisonError::into_inner);
        let node = nodes.get(*index).map_or("", |bound| &bound.node.name);
        *failure = pack(node, placed, compiler, parallel).err();
    };
    let is_large = |job: &&Mutex<Job<'_>>| {
        let (_, placed, _) = &*job.lock().unwrap_or_else(PoisonError::into_inner);
        placed.kernel.packed_bytes().into_iter().any(|bytes| bytes >= LARGE_BYTES)
    };
    let (large, others): (Vec<_>, Vec<_>) = jobs.iter().partition(is_large);
    // Otherwise one thread might still work on a large constant when all others are done: all threads share it.
    for job in large {
        run_job(job, pool.shared_table());
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(job) = others.get(next.fetch_add(1, Ordering::Relaxed)) {
            run_job(job, None);
        }
    };
    pool.on_every_thread(&work);
    let outcomes =
        jobs.into_iter().map(|job| job.into_inner().unwrap_or_else(PoisonError::into_inner));
    let failure =
        outcomes.into_iter().find_map(|(index, placed, failure)| Some((index, placed, failure?)));
    let Some((index, placed, (during, refusal))) = failure else { return Ok(()) };
    let package = compiler.operators.package_name(placed.package()).to_owned();
    let node = placement.resolved.graph.nodes.get(index);
    let (node, op) =
        node.map_or_else(Default::default, |n| (n.node.name.clone(), n.node.op.clone()));
    Err(PlanError::Prepare { node, op, package, during, refusal })
}

/// Releases constants that no step reads. Each stays until its last packing function has run.
fn release(placement: &mut Placement) {
    let Placement { resolved, choices, .. } = placement;
    let graph = &mut resolved.graph;
    let mut is_read = PerValue::filled(graph, false);
    for &output in &graph.outputs {
        is_read.set(output, true);
    }
    for (bound, choice) in graph.nodes.iter().zip(choices) {
        match choice {
            Choice::Kernel(placed) => {
                let inputs = placed.inputs.iter().enumerate();
                let read = inputs.filter(|&(port, _)| placed.kernel.reads(port));
                read.filter_map(|(_, input)| input.value).for_each(|v| is_read.set(v, true));
            }
            Choice::Alias | Choice::Control => {
                bound.node.reads().for_each(|(_, value)| is_read.set(value, true));
            }
            Choice::Epilogue { .. } | Choice::Folded => {}
        }
    }
    let unread: Vec<_> = is_read.iter().filter(|&(_, read)| !read).map(|(v, _)| v).collect();
    for value in unread {
        graph.forget(value);
    }
}

/// The failed phase, and the refusal.
type Failure = (&'static str, Refusal);

/// The index of a node, its kernel, and its failure.
type Job<'a> = (usize, &'a mut PlacedKernel, Option<Failure>);

/// Packed constants above this size are packed by all threads together.
const LARGE_BYTES: usize = 16 << 20;

fn needs_preparation(kernel: &FinalizedKernel) -> bool {
    kernel.pack_count() > 0 || kernel.geometry_bytes() > 0
}

/// Packs the constants of a kernel and prepares it.
fn pack(
    node: &str,
    placed: &mut PlacedKernel,
    compiler: &Compiler<'_>,
    parallel: Option<&ParallelTable>,
) -> Result<(), Failure> {
    let package = compiler.operators.package_name(placed.package());
    let PlacedKernel { kernel, constants, entry, core, .. } = placed;
    let (op, function) = (entry.def.op(), "a packer");
    let call = PackageCall { node, package, op, core: Some(*core), function };
    let source = |input: usize| Some(constants.get(input)?.as_ref()?.source());
    let packed = exit_guard::with_record(&call, || {
        kernel.pack(source, compiler.constants.packs(), parallel)
    });
    packed.map_err(|refusal| ("packs its constants", refusal))?;
    // Release the constants: packing was their last reader.
    constants.clear();
    let call = PackageCall { function: "prepare", ..call };
    let (budget, guard) = (compiler.constants.packs().budget(), entry.guard.unwrap_or(OWN_GUARD));
    let prepared = exit_guard::with_record(&call, || kernel.prepare(budget, guard));
    prepared.map_err(|refusal| ("prepares for its shapes", refusal))
}
