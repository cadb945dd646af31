//! Makes the constants that kernels asked to have packed, on the threads of the model.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use udo_host::Refusal;

use super::PlanError;
use crate::exit_guard::{self, PackageCall};
use crate::place::{Choice, PlacedKernel, Placement};
use crate::registry::Registry;
use crate::thread_pool::Pool;

/// Packs for every kernel of a placed graph.
///
/// # Errors
/// The first node, in the order of the graph, whose packer refuses or panics.
pub(super) fn all(
    placement: &mut Placement,
    registry: &Registry,
    pool: &Pool,
) -> Result<(), PlanError> {
    let wanting: Vec<_> = placement
        .choices
        .iter_mut()
        .enumerate()
        .filter_map(|(node, choice)| match choice {
            Choice::Kernel(placed) if placed.kernel.pack_count() > 0 => Some((node, placed)),
            Choice::Kernel(_) | Choice::Epilogue { .. } | Choice::Alias | Choice::Folded => None,
        })
        .map(|(node, placed)| Mutex::new((node, placed, None)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(job) = wanting.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (_, placed, refusal) = &mut *job.lock().unwrap_or_else(PoisonError::into_inner);
            *refusal = pack(placed, registry).err();
        }
    };
    pool.on_every_thread(&work);
    let outcomes =
        wanting.into_iter().map(|job| job.into_inner().unwrap_or_else(PoisonError::into_inner));
    let failed =
        outcomes.into_iter().find_map(|(node, placed, refusal)| Some((node, placed, refusal?)));
    let Some((at, placed, refusal)) = failed else { return Ok(()) };
    let package = registry.package_name(placed.package()).to_owned();
    let node = placement.resolved.graph.nodes.get(at);
    let (node, op) =
        node.map_or_else(Default::default, |n| (n.node.name.clone(), n.node.op.clone()));
    Err(PlanError::Pack { node, op, package, refusal })
}

fn pack(placed: &mut PlacedKernel, registry: &Registry) -> Result<(), Refusal> {
    let package = registry.package_name(placed.package());
    let PlacedKernel { kernel, constants, entry, core, .. } = placed;
    let call = PackageCall { package, op: entry.def.op(), core: Some(*core), function: "a packer" };
    let source = |input: usize| Some(constants.get(input)?.as_ref()?.source());
    exit_guard::during(&call, || kernel.pack(source, registry.packs()))?;
    // What nobody reads any more need not stay.
    constants.clear();
    Ok(())
}
