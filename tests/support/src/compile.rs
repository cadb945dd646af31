//! Models of graphs and operators, without files.

use udo_compile::compiler::{Compiler, Resources};
use udo_compile::resolve::{self, Resolved};
use udo_engine::operators::Operators;
use udo_runtime::compile::{BindOptions, CompileError, ResolveError};
use udo_runtime::device::Devices;
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, LoadError, LoadOptions, Model, Runtime, builtin_operators};

/// The built-in operators.
pub fn built_in() -> Operators {
    builtin_operators().unwrap()
}

/// The model of a graph as it is stored, on devices of its own.
///
/// # Errors
/// As for `Runtime::compile`: why it cannot be made to run.
pub fn compile_graph(
    graph: Graph,
    operators: &Operators,
    options: &CompileOptions,
) -> Result<Model, CompileError> {
    let runtime = Runtime::from_parts(operators.clone(), Devices::default());
    let options = CompileOptions { keep_types: true, ..options.clone() };
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

/// Calls `work` with a compilation that has these operators.
pub fn with_compiler<T>(
    operators: &Operators,
    bind: &BindOptions,
    work: impl FnOnce(&Compiler<'_>) -> T,
) -> T {
    let resources = Resources::new(operators.clone());
    let options = CompileOptions { bind: bind.clone(), ..CompileOptions::default() };
    work(&resources.compiler(&options))
}
