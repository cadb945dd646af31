//! Test support of this crate.

use udo_api::{KernelDef, OpDef, PackageV1};
use udo_engine::operators::Operators;
use udo_engine::package::BUILT_IN;
use udo_graph::graph::Graph;

use crate::compiler::Resources;
use crate::hta::subnet;
use crate::options::CompileOptions;
use crate::resolve::{self, TypedGraph};

static OPS: [OpDef; 1] = [subnet::OP];
static KERNELS: [KernelDef; 1] = [subnet::KERNEL];
static BUILT_IN_OPS: PackageV1 = udo_ops::PACKAGE.guarded();
/// A second part of the built-in package: the operator that runs HTA programs.
static HTA: PackageV1 = PackageV1::new(BUILT_IN, "0").ops(&OPS).kernels(&KERNELS).guarded();

/// Returns resources with the built-in operators.
pub(crate) fn resources() -> Resources {
    assert_eq!(BUILT_IN_OPS.name(), BUILT_IN);
    Resources::new(Operators::with_built_in(&[&BUILT_IN_OPS, &HTA]).unwrap())
}

/// Resolves a graph.
pub(crate) fn resolved(resources: &Resources, graph: Graph) -> TypedGraph {
    resolve::run(&resources.compiler(&CompileOptions::default()), graph).unwrap().graph
}
