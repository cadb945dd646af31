//! Runs a model once through the library: `rust-app MODEL [PACKAGE [CORES]]`.
//!
//! Without a package, built-in operators do everything. Every element of
//! every input is 0.5.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use udo_api::{Core, GuardAlloc};
use udo_runtime::compile::PlaceOptions;
use udo_runtime::{CompileOptions, LoadOptions, Runtime};

/// Lets built-in kernels be caught when they use the heap, as packages' own always are.
#[global_allocator]
static GUARD: GuardAlloc = GuardAlloc;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (model, package, cores) = match *args.as_slice() {
        [model] => (model, None, "cpu"),
        [model, package] => (model, Some(package), "cpu"),
        [model, package, cores] => (model, Some(package), cores),
        _ => {
            eprintln!("usage: rust-app MODEL [PACKAGE [CORES]]");
            return ExitCode::from(2);
        }
    };
    match run(Path::new(model), package.map(Path::new), cores) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn run(path: &Path, package: Option<&Path>, cores: &str) -> Result<(), Box<dyn Error>> {
    let builder = Runtime::builder();
    let runtime = match package {
        Some(package) => builder.package(package).build()?,
        None => builder.build()?,
    };

    let place = PlaceOptions { cores: parse_cores(cores)?, ..PlaceOptions::default() };
    let compile = CompileOptions { place, ..CompileOptions::default() };
    let model = runtime.load(path, &LoadOptions { compile, ..LoadOptions::default() })?;
    for notice in &model.report().notices {
        println!("note: {notice}");
    }
    for node in &model.report().nodes {
        println!("{} ({}) on {} from {}", node.name, node.op, node.core, node.package);
    }
    for memory in &model.report().memories {
        println!("{} arena: {} bytes", memory.memory, memory.arena_bytes);
    }

    // The session owns all memory of its runs; nothing is allocated after this.
    let mut session = model.session()?;
    for input in model.inputs() {
        session.input_mut::<f32>(&input.name)?.fill(0.5);
    }
    session.run()?;
    for name in model.outputs() {
        // The shape of this run: an output may have dimensions that each run decides.
        println!("{name}: {} {:?}", session.output_desc(name)?, session.output::<f32>(name)?);
    }
    Ok(())
}

fn parse_cores(names: &str) -> Result<Vec<Core>, String> {
    let unknown = |name| format!("no core is called {name}, expected {}", Core::NAMES);
    names.split(',').map(|name| Core::from_name(name).ok_or_else(|| unknown(name))).collect()
}
