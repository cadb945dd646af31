//! Finds the CPU kernels that resolution tries before placement (to fold constants and to check shapes), and describes
//! calls to packages for error reports.

use std::ptr;

use udo_api::Core;
use udo_engine::cores::{Profile, machine};
use udo_engine::exit_guard::PackageCall;
use udo_engine::operators::{KernelEntry, Operators};

use super::BoundNode;

/// Returns the kernels of `core` for a node's operator; empty if their library is missing.
pub(super) fn kernels_of(operators: &Operators, bound: &BoundNode, core: Core) -> Vec<KernelEntry> {
    let kernels = operators.kernels_for(bound.package, core).unwrap_or_default();
    kernels.iter().filter(|entry| ptr::eq(entry.op, bound.op)).copied().collect()
}

/// Describes a call of a package's function for a node on the CPU, for error reports.
pub(super) fn call<'a>(
    operators: &'a Operators,
    bound: &'a BoundNode,
    function: &'static str,
) -> PackageCall<'a> {
    let (package, op) = (operators.package_name(bound.package), bound.op.schema().name());
    PackageCall { node: &bound.node.name, package, op, core: Some(Core::CPU), function }
}

/// Describes the machine to CPU kernels while the model is compiled.
pub(super) fn host() -> udo_host::Machine {
    machine(Core::CPU, &Profile::default(), 1)
}
