//! Models of graphs and operators, without files.

use udo_runtime::LoadOptions;
use udo_runtime::builtin;
use udo_runtime::compiler::{Compiler, Resources};
use udo_runtime::device::Devices;
use udo_runtime::graph::Graph;
use udo_runtime::model::{CompileError, Model, Options};
use udo_runtime::operators::Operators;
use udo_runtime::resolve::{self, BindOptions, ResolveError, Resolved};
use udo_runtime::runtime::{LoadError, Runtime};

/// The built-in operators.
pub fn built_in() -> Operators {
    builtin::operators().unwrap()
}

/// The model of a graph as it is stored, on devices of its own.
///
/// # Errors
/// As for `Runtime::compile`: why it cannot be made to run.
pub fn compile_graph(
    graph: Graph,
    operators: &Operators,
    options: &Options,
) -> Result<Model, CompileError> {
    let runtime = Runtime::of(operators.clone(), Devices::default());
    let options = Options { as_stored: true, ..options.clone() };
    runtime.load(graph, &LoadOptions::from(options)).map_err(|error| match error {
        LoadError::Compile(error) | LoadError::OutOfMemory { reason: error, .. } => *error,
        other => panic!("{other}"),
    })
}

/// A graph with operators, types and shapes.
///
/// # Errors
/// A node that no operator takes as it is.
pub fn resolve_graph(
    graph: Graph,
    operators: &Operators,
    bind: &BindOptions,
) -> Result<Resolved, ResolveError> {
    with_compiler(operators, bind, |compiler| resolve::run(compiler, graph))
}

/// What `work` makes of a compilation with these operators.
pub fn with_compiler<T>(
    operators: &Operators,
    bind: &BindOptions,
    work: impl FnOnce(&Compiler<'_>) -> T,
) -> T {
    let resources = Resources::of(operators.clone());
    let options = Options { bind: bind.clone(), ..Options::default() };
    work(&resources.compiler(&options))
}
