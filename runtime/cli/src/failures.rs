//! Errors of the runtime as commands print them, with the next step.

use std::path::{Path, PathBuf};

use udo_api::{Core, Status};
use udo_compile::place::PlaceError;
use udo_engine::package::source_folder;
use udo_engine::thread_pool::PoolError;
use udo_generator::{config::DSP_ARCHS, names::module_name};
use udo_graph::container::ContainerError;
use udo_graph::memory::Limit;
use udo_runtime::compile::CompileError;
use udo_runtime::quant::QuantError;
use udo_runtime::run::RunError;
use udo_runtime::{LoadError, Model, Runtime};

use crate::output::Failure;

/// The failure for a model file that cannot be used, with the next step.
pub(crate) fn container_failure(path: &Path, error: ContainerError) -> Failure {
    let help = error.help();
    let failure = Failure::new(error).at(path.display());
    match help {
        Some(help) => failure.help(help),
        None => failure,
    }
}

/// The failure for a model file at `path` that cannot be loaded, with the next step.
pub(crate) fn load_failure(error: LoadError, path: &Path, runtime: &Runtime) -> Failure {
    match error {
        LoadError::ModelFile { reason, .. } => container_failure(path, *reason),
        LoadError::Compile(error) => compile_failure(*error, None, runtime),
        LoadError::Quantize(error) => {
            let help = match *error {
                QuantError::Unseen { .. } => {
                    "run it over inputs that reach the value (--input-list, or --random 8), or put cpu first: --cores cpu"
                }
                QuantError::Compile(_) => {
                    "ranges are of runs on the CPU, for which each operator needs a kernel there; or put another core first"
                }
                _ => "put cpu first: --cores cpu",
            };
            Failure::new(LoadError::Quantize(error)).help(help)
        }
        LoadError::OutOfMemory { limit, reason } => compile_failure(*reason, Some(limit), runtime),
        error => Failure::new(error),
    }
}

/// The failure for a model that does not compile, with the next step; `limit` is that of memory, if it was met.
pub(crate) fn compile_failure(
    error: CompileError,
    limit: Option<Limit>,
    runtime: &Runtime,
) -> Failure {
    let help = match (&error, limit) {
        (_, Some(limit)) => Some(memory_help(limit).to_owned()),
        (CompileError::Resolve(e), None) => e.help(),
        (CompileError::Place(PlaceError::Open(error)), None) => Some(error.help()),
        (CompileError::Place(e), None) => {
            e.unfinished().map(|(package, op, core)| edit_help(runtime, package, op, Some(core)))
        }
        (CompileError::Output(_), None) => {
            Some("`udo model info MODEL` lists the nodes and what they make".to_owned())
        }
        (CompileError::Hta(error), None) => error.help(),
        (CompileError::FastMath { .. }, None) => {
            Some("leave --fast-math out, or run it on a processor that has AVX512-BF16".to_owned())
        }
        (CompileError::Threads(PoolError::TooMany { most, .. }), None) => Some(format!(
            "give --threads 1 to {most}; more than the machine has processors do not make a run faster"
        )),
        (CompileError::Threads(PoolError::Refused { given, .. }), None) => {
            Some(format!("give --threads {given} or fewer, or let the system allow more"))
        }
        _ => None,
    };
    let failure = Failure::new(error);
    match help {
        Some(help) => failure.help(help),
        None => failure,
    }
}

/// Returns the next step for a failure caused by a lack of memory.
fn memory_help(limit: Limit) -> &'static str {
    match limit {
        Limit::Asked(_) => "allow more with --max-memory, or make inputs smaller (--shape, --dim)",
        Limit::Machine(_) => "make inputs smaller (--shape, --dim), or run it on a larger machine",
        Limit::None => "make inputs smaller (--shape, --dim), or let the system give more memory",
    }
}

/// The failure for a run that stopped, with the next step.
pub(crate) fn run_failure(error: RunError, model: &Model, runtime: &Runtime) -> Failure {
    let error = match error {
        RunError::Prepare(error) => {
            return compile_failure(error, model.budget().refused_by(), runtime);
        }
        RunError::Step(error) => error,
        other => return Failure::new(other),
    };
    let help = match error.error.status {
        Status::NOT_IMPLEMENTED => edit_help(runtime, &error.package, &error.op, Some(error.core)),
        Status::HEAP_USE => {
            "prepare memory in finalize, or ask for scratch in workspace()".to_owned()
        }
        Status::SCRATCH_EXCEEDED => {
            "declare the scratch that execute takes in workspace()".to_owned()
        }
        _ => return Failure::new(error),
    };
    Failure::new(error).help(help)
}

/// Where the author of `package` finds the body to write.
fn edit_help(runtime: &Runtime, package: &str, op: &str, core: Option<Core>) -> String {
    let mut packages = runtime.operators().packages();
    let folder = packages.find(|p| p.name == package).and_then(|p| p.path.as_deref());
    let folder = folder.and_then(Path::parent).and_then(Path::parent);
    let part = core.and_then(source_folder).unwrap_or_else(|| "reg".to_owned());
    let path = op_file(folder.unwrap_or(Path::new("")), &part, op);
    format!(
        "write its body in {}, then `udo build {}`",
        path.display(),
        folder.unwrap_or(Path::new(".")).display()
    )
}

/// The file of an operator in a part of a package.
fn op_file(folder: &Path, part: &str, op: &str) -> PathBuf {
    let file = format!("src/ops/{}.rs", module_name(op));
    // V65 and V66 packages have one crate per operator.
    let nested = folder.join(part).join(module_name(op)).join(&file);
    let own = folder.join(part).join(&file);
    if nested.is_file() {
        return nested;
    }
    // Later architectures have the files of the first, unless they have their own.
    let is_dsp = part.starts_with("DSP_V") && !own.is_file();
    let parts = DSP_ARCHS.iter().filter(|_| is_dsp).map(|arch| format!("DSP_V{arch}"));
    let mut files = parts.map(|part| folder.join(part).join(&file));
    files.find(|file| file.is_file()).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::op_file;

    #[test]
    fn bodies_are_where_the_kernel_of_an_architecture_is_from() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        let found = |part: &str| op_file(dir.path(), part, "Leaky");
        assert_eq!(found("DSP_V73"), dir.path().join("DSP_V73/src/ops/leaky.rs"));
        let first = write("DSP_V68/src/ops/leaky.rs");
        assert_eq!((found("DSP_V68"), found("DSP_V73")), (first.clone(), first));
        assert_eq!(found("CPU"), dir.path().join("CPU/src/ops/leaky.rs"));
        let own = write("DSP_V73/src/ops/leaky.rs");
        assert_eq!(found("DSP_V73"), own);
        let nested = write("DSP_V66/leaky/src/ops/leaky.rs");
        assert_eq!(found("DSP_V66"), nested);
    }
}
