//! The kernels that nodes are tried with before anything is placed, and how calls of them are reported.

use std::ptr;

use udo_api::Core;
use udo_engine::cores::{Profile, machine};
use udo_engine::exit_guard::PackageCall;
use udo_engine::operators::{KernelEntry, Operators};

use super::BoundNode;

/// The kernels of `core` for a node's operator; none where their library is not there.
pub(super) fn kernels_of(operators: &Operators, bound: &BoundNode, core: Core) -> Vec<KernelEntry> {
    let kernels = operators.kernels_for(bound.package, core).unwrap_or_default();
    kernels.iter().filter(|entry| ptr::eq(entry.op, bound.op)).copied().collect()
}

/// How a call of a package's function for a node on the CPU is reported.
pub(super) fn call<'a>(
    operators: &'a Operators,
    bound: &'a BoundNode,
    function: &'static str,
) -> PackageCall<'a> {
    let (package, op) = (operators.package_name(bound.package), bound.op.schema().name());
    PackageCall { node: &bound.node.name, package, op, core: Some(Core::CPU), function }
}

/// The machine as kernels of the CPU are told of it while the model is compiled.
pub(super) fn host() -> udo_host::Machine {
    machine(Core::CPU, &Profile::default(), 1)
}
