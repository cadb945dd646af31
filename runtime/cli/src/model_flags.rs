//! The flags that every command with a model shares.

use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use udo_api::{Core, FastMath, Status};
use udo_generator::names::module_name;
use udo_runtime::cache::{Cache, CacheOptions, ModelSource};
use udo_runtime::container::{BoundStage, Container, ContainerError};
use udo_runtime::cores::{GpuStorage, Profile};
use udo_runtime::device::Coherence;
use udo_runtime::graph::Graph;
use udo_runtime::import::{self, ImportOptions, MODEL_FILE, PackagedOp, Reading};
use udo_runtime::memory::{Limit, ModelBytes, Tensor};
use udo_runtime::model::{CompileError, Model, Options, RunError, Session, SessionOptions};
use udo_runtime::package::source_folder;
use udo_runtime::pass::{PASSES, PassOptions};
use udo_runtime::place::{Fallback, PlaceOptions};
use udo_runtime::plan::{PlanOptions, Report};
use udo_runtime::registry::Registry;
use udo_runtime::resolve::{BindOptions, Input, Ranges};
use udo_runtime::thread_pool::PoolError;

use crate::output::{Failure, Outcome, note};
use crate::stages::{Shapes, Stages};

/// What `--skip-pass` calls all passes.
const ALL: &str = "all";

/// A model, the packages it needs, and where it runs.
#[derive(Args, Debug)]
pub(crate) struct ModelFlags {
    /// The model: an ONNX file, a model file of `udo convert` (.udm), or a printed graph
    pub(crate) model: PathBuf,
    /// The network to use of a model file that has several
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// The stage to use of a network that has several, by its number; else the one whose shapes are those of the inputs
    #[arg(long, value_name = "K")]
    pub(crate) stage: Option<usize>,
    /// A package with operators of your own: its folder, its dist folder or its registration library
    #[arg(long = "package", value_name = "PATH")]
    pub(crate) packages: Vec<PathBuf>,
    /// The cores to use, the preferred one first: cpu, gpu, dsp (v68) or dsp:vNN
    #[arg(long, value_name = "CORES", value_delimiter = ',', default_value = "cpu", value_parser = parse_core)]
    pub(crate) cores: Vec<Core>,
    /// What happens to a node that none of the cores takes
    #[arg(long, value_enum, default_value = "off")]
    pub(crate) fallback: FallbackFlag,
    /// The package that takes the nodes of a type which several packages have
    #[arg(long, value_name = "TYPE=PACKAGE", value_parser = parse_pair)]
    pub(crate) bind: Vec<(String, String)>,
    /// The shape of an input whose dimensions the model leaves open; where none is given it is that of the run's data
    #[arg(long, value_name = "NAME=1,3,224,224", value_parser = parse_shape)]
    pub(crate) shape: Vec<(String, Vec<usize>)>,
    /// The size of a dimension that the model only names, or a range of sizes, first and last: one plan runs all of them
    #[arg(long, value_name = "NAME=SIZE|LEAST..MOST", value_parser = parse_dim)]
    pub(crate) dim: Vec<(String, RangeInclusive<usize>)>,
    /// A pass that does not run, or all of them; `udo explain` lists what they do
    #[arg(long, value_name = "PASS", value_parser = skipped_pass())]
    pub(crate) skip_pass: Vec<String>,
    /// How many threads kernels may use
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) threads: NonZero<usize>,
    /// The most memory that constants made for the cores, and sessions, may take: bytes, or with K, M or G behind
    /// them. As much as the machine has, unless given
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_memory: Option<usize>,
    /// How the GPU stores real numbers
    #[arg(long, value_enum, default_value = "f32")]
    pub(crate) gpu_storage: StorageFlag,
    /// What may be computed less exactly than the model says, to be faster: `udo explain` says by which steps
    #[arg(long, value_enum, default_value = "none")]
    pub(crate) fast_math: FastMathFlag,
    /// A folder where what is packed of constants is kept for the next time
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Your own count: what --cache has of an older one is made again, and a newer one is refused
    #[arg(long, value_name = "N", default_value = "0", requires = "cache")]
    pub(crate) cache_version: u32,
    /// KiB of the DSP's fast memory
    #[arg(long, value_name = "KIB", default_value = "4096")]
    pub(crate) vtcm: usize,
    /// Whether emulated accelerators and the host see at once what the other writes; else what crosses is flushed and invalidated,
    /// and with a seed the host's cache writes lines back at random besides
    #[arg(long, value_name = "coherent|noncoherent[:SEED]", default_value = "coherent", value_parser = parse_memory)]
    pub(crate) memory: Coherence,
}

/// `--fallback`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FallbackFlag {
    /// The model is refused
    Off,
    /// It runs on the CPU, and the report says so
    Cpu,
}

/// `--gpu-storage`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StorageFlag {
    /// 32 bits
    F32,
    /// 16 bits, where the kernel takes them
    F16,
}

/// `--fast-math`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FastMathFlag {
    /// Nothing
    None,
    /// Products of f32 with constants round their factors to 16 bits, bf16, and add up in f32
    Bf16,
}

/// The names that `--skip-pass` takes.
fn skipped_pass() -> PossibleValuesParser {
    let passes = PASSES.iter().map(|pass| PossibleValue::new(pass.name).help(pass.does));
    passes.chain([PossibleValue::new(ALL).help("all of them")]).collect::<Vec<_>>().into()
}

pub(crate) fn parse_core(text: &str) -> Result<Core, String> {
    Core::from_name(text).ok_or_else(|| format!("wanted {}", Core::NAMES))
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "wanted NAME=VALUE".to_owned())
}

pub(crate) fn parse_shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let (name, dims) = parse_pair(text)?;
    let dims: Result<_, _> = dims.split(',').map(str::parse).collect();
    Ok((name, dims.map_err(|_| "wanted NAME=1,3,224,224")?))
}

pub(crate) fn parse_dim(text: &str) -> Result<(String, RangeInclusive<usize>), String> {
    let (name, sizes) = parse_pair(text)?;
    let size =
        |text: &str| text.parse().map_err(|_| "wanted NAME=SIZE, or NAME=LEAST..MOST".to_owned());
    let (least, most) = sizes.split_once("..").unwrap_or((&sizes, &sizes));
    Ok((name, size(least)?..=size(most)?))
}

fn parse_memory(text: &str) -> Result<Coherence, String> {
    let seed = match text.split_once(':') {
        _ if text == "coherent" => return Ok(Coherence::Coherent),
        None if text == "noncoherent" => return Ok(Coherence::NonCoherent { seed: None }),
        Some(("noncoherent", seed)) => seed.parse().ok(),
        None | Some(_) => None,
    };
    let seed = seed.ok_or_else(|| "wanted coherent, noncoherent or noncoherent:SEED".to_owned())?;
    Ok(Coherence::NonCoherent { seed: Some(seed) })
}

fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'K')) => (&text[..at], 10),
        Some((at, 'M')) => (&text[..at], 20),
        Some((at, 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    // `parse` takes a sign.
    let number = digits.parse::<usize>().ok().filter(|_| digits.starts_with(char::is_numeric));
    let bytes = number.and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| "wanted bytes, as 500000, 64K, 512M or 4G".to_owned())
}

/// A model that is ready, and what made it.
pub(crate) struct Loaded {
    pub(crate) model: Model,
    pub(crate) registry: Registry,
    pub(crate) started: Instant,
    pub(crate) load_time: Duration,
    /// Whether it is the only stage of its network in a model file.
    pub(crate) is_only_stage: bool,
}

impl ModelFlags {
    /// The names of the cores.
    pub(crate) fn core_names(&self) -> Vec<String> {
        self.cores.iter().map(ToString::to_string).collect()
    }

    fn options(&self) -> Options {
        let (sizes, ranges): (Vec<_>, Vec<_>) =
            self.dim.iter().cloned().partition(|(_, sizes)| sizes.start() == sizes.end());
        let bind = BindOptions {
            bind: self.bind.iter().cloned().collect(),
            shapes: self.shape.iter().cloned().collect(),
            dims: sizes.into_iter().map(|(name, sizes)| (name, *sizes.start())).collect(),
            ranges: ranges.into_iter().collect(),
        };
        let gpu_storage = match self.gpu_storage {
            StorageFlag::F32 => GpuStorage::F32,
            StorageFlag::F16 => GpuStorage::F16,
        };
        let fallback = match self.fallback {
            FallbackFlag::Off => Fallback::Off,
            FallbackFlag::Cpu => Fallback::CPU,
        };
        let fast_math = match self.fast_math {
            FastMathFlag::None => FastMath::None,
            FastMathFlag::Bf16 => FastMath::Bf16,
        };
        let vtcm_bytes = self.vtcm.saturating_mul(1024);
        let profile = Profile { vtcm_bytes, gpu_storage, fast_math, ..Profile::default() };
        let cores = self.cores.clone();
        let place = PlaceOptions { cores, fallback, profile, ..PlaceOptions::default() };
        let passes = if self.skip_pass.iter().any(|name| name == ALL) {
            PassOptions::none()
        } else {
            PassOptions { skip: self.skip_pass.iter().cloned().collect() }
        };
        let (threads, max_memory) = (self.threads, self.max_memory);
        let plan = PlanOptions { coherence: self.memory, ..PlanOptions::default() };
        Options { bind, passes, place, plan, threads, max_memory, ..Options::default() }
    }

    /// Opens the packages, reads the model and compiles it: this stage of it, where it is a model file.
    pub(crate) fn load_stage(&self, stage: Option<usize>) -> Result<Loaded, Failure> {
        let start = Instant::now();
        let mut registry = open(&self.packages)?;
        let source = ModelSource::of(&self.model, |path| Reading::Mapped.bytes(path))?;
        let version = self.cache_version;
        let cache = self.cache.as_ref().map(|dir| CacheOptions { dir: dir.clone(), version });
        if let Some(cache) = Cache::of(cache.as_ref(), &source)? {
            registry.use_cache(&cache);
        }
        let read = self.read(source.bytes(), &registry, stage)?;
        let (BoundStage { graph, ranges }, is_only_stage) = read;
        let mut options = self.options();
        let is_free = |name: &String| !options.bind.dims.contains_key(name);
        let ranges = ranges.into_iter().filter(|(name, _)| is_free(name));
        for (name, range) in ranges.collect::<Vec<_>>() {
            options.bind.ranges.entry(name).or_insert(range);
        }
        let compiled = Model::compile(graph, &mut registry, &options);
        let model = compiled.map_err(|error| compile_failure(error, &registry))?;
        Ok(Loaded { model, registry, started: start, load_time: start.elapsed(), is_only_stage })
    }

    /// The graph of the model, and the ranges of its dimensions, where it is a model file that says some; and whether it is
    /// the only stage of one.
    fn read(
        &self,
        bytes: &ModelBytes,
        registry: &Registry,
        stage: Option<usize>,
    ) -> Result<(BoundStage, bool), Failure> {
        let options = ImportOptions {
            packaged: packaged(registry).collect(),
            network: self.network.clone(),
            ..ImportOptions::default()
        };
        let Some((container, name)) = container_of(bytes, &self.model)? else {
            if self.network.is_some() || self.stage.is_some() {
                let text = format!("{} has one network and no stages", self.model.display());
                return Err(Failure::usage(text).help("leave --network and --stage out"));
            }
            let graph = import::read(bytes, &self.model, &options)?;
            return Ok((BoundStage { graph, ranges: Ranges::new() }, false));
        };
        let bound = container.network(self.network.as_deref()).and_then(|network| {
            let stage = stage.map_or_else(|| container.stage_for(network, &self.shape), Ok)?;
            let bound = container.bound(network.stage(stage)?, &name)?;
            Ok((bound, network.stages.len() == 1))
        });
        bound.map_err(|error| container_failure(&self.model, error))
    }

    /// The same for commands that have no inputs to take shapes from.
    pub(crate) fn load_with_shapes(&self) -> Result<Loaded, Failure> {
        let loaded = Stages::load(self, |_| Ok(Shapes::new()))?;
        let is_open = |input: &&Input| loaded.model.planned_shape(input).is_none();
        let open = loaded.model.inputs().iter().find(is_open);
        match open.and_then(|input| input.required().err()) {
            Some(error) => Err(compile_failure(error.into(), &loaded.registry)),
            None => Ok(loaded),
        }
    }
}

/// The model file at `path`, and what to call it; nothing where it is of another format.
pub(crate) fn open_container(path: &Path) -> Result<Option<(Container, String)>, Failure> {
    container_of(&Reading::Mapped.bytes(path)?, path)
}

/// The same, of bytes that were read of the file.
fn container_of(bytes: &ModelBytes, path: &Path) -> Result<Option<(Container, String)>, Failure> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if import::importer(bytes, &name)?.name != MODEL_FILE {
        return Ok(None);
    }
    let container = Container::read(bytes).map_err(|error| container_failure(path, error))?;
    Ok(Some((container, name)))
}

/// The graph in a file of another format.
pub(crate) fn import(path: &Path, options: &ImportOptions) -> Result<Graph, Failure> {
    Ok(import::file(path, options)?)
}

/// The failure for a model file that cannot be used, with the next step.
pub(crate) fn container_failure(path: &Path, error: ContainerError) -> Failure {
    let help = error.help();
    let failure = Failure::new(error).at(path.display());
    match help {
        Some(help) => failure.help(help),
        None => failure,
    }
}

/// The operators that packages of the registry have.
pub(crate) fn packaged(registry: &Registry) -> impl Iterator<Item = PackagedOp> {
    registry.packaged_ops().map(|(name, domain)| PackagedOp {
        name: name.to_owned(),
        domain: domain.map(str::to_owned),
    })
}

/// The built-in operators and those of `packages`.
pub(crate) fn open(packages: &[PathBuf]) -> Result<Registry, Failure> {
    let mut registry = Registry::builtin()?;
    for path in packages {
        registry.open(path).map_err(|error| {
            let help = error.help();
            Failure::new(error).help(help)
        })?;
    }
    Ok(registry)
}

/// Says what the user should know about how the model was bound and placed.
pub(crate) fn say_notices(report: &Report) {
    for notice in &report.notices {
        note(notice);
    }
    let mut backends: Vec<&str> =
        report.nodes.iter().filter_map(|n| n.backend.as_deref()).collect();
    backends.sort_unstable();
    backends.dedup();
    for backend in backends {
        note(format!("the GPU's kernels run by {backend}"));
    }
    for node in report.nodes.iter().filter(|n| n.fell_back) {
        let reasons: Vec<String> =
            node.refusals.iter().map(|r| format!("{}: {}", r.core, r.reason)).collect();
        note(format!("node {:?} fell back to {} ({})", node.name, node.core, reasons.join("; ")));
    }
}

/// The failure for a model that does not compile, with the next step.
pub(crate) fn compile_failure(error: CompileError, registry: &Registry) -> Failure {
    let help = match &error {
        _ if registry.packs().budget().has_refused() => {
            Some(memory_help(registry.packs().budget().limit()).to_owned())
        }
        CompileError::Resolve(e) => e.help(),
        CompileError::Place(e) => {
            e.unfinished().map(|(package, op, core)| edit_help(registry, package, op, Some(core)))
        }
        CompileError::FastMath { .. } => {
            Some("leave --fast-math out, or run it on a processor that has AVX512-BF16".to_owned())
        }
        CompileError::Threads(PoolError::TooMany { most, .. }) => Some(format!(
            "give --threads 1 to {most}; more than the machine has processors do not make a run faster"
        )),
        CompileError::Threads(PoolError::Refused { given, .. }) => {
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

/// What to do where memory is short.
fn memory_help(limit: Limit) -> &'static str {
    match limit {
        Limit::Asked(_) => "allow more with --max-memory, or make inputs smaller (--shape, --dim)",
        Limit::Machine(_) => "make inputs smaller (--shape, --dim), or run it on a larger machine",
        Limit::None => "make inputs smaller (--shape, --dim), or let the system give more memory",
    }
}

/// Memory for runs of the model, `frames` of which may be at work at once where they are submitted.
pub(crate) fn session(
    model: &Model,
    registry: &Registry,
    options: &SessionOptions,
) -> Result<Session, Failure> {
    model.session_with(options).map_err(|error| compile_failure(error, registry))
}

/// Copies a tensor into each input, in the order of the model's.
pub(crate) fn set_inputs(session: &mut Session, loaded: &Loaded, set: &[Tensor]) -> Outcome {
    for (input, tensor) in loaded.model.inputs().iter().zip(set) {
        session.set_input(&input.name, &loaded.fitting(input, tensor.clone()))?;
    }
    Ok(())
}

/// Plans for the inputs as they are, and says so where that is news.
pub(crate) fn prepare(session: &mut Session, loaded: &Loaded) -> Result<(), Failure> {
    let before = session.replans();
    session.prepare_inputs().map_err(|error| compile_failure(error, &loaded.registry))?;
    if let Some(plan) = session.plan().filter(|_| session.replans() > before) {
        let inputs: Vec<String> =
            plan.inputs().map(|(name, desc)| format!("{name} {desc}")).collect();
        note(format!("planned for {}", inputs.join(", ")));
        say_notices(plan.report());
    }
    Ok(())
}

/// Runs the model by `run`, and says what was planned meanwhile.
pub(crate) fn run_and_say(
    session: &mut Session,
    loaded: &Loaded,
    run: impl FnOnce(&mut Session) -> Result<(), RunError>,
) -> Result<(), Failure> {
    let before = session.replans();
    run(session).map_err(|error| run_failure(error, &loaded.registry))?;
    let planned = session.replans() - before;
    for plan in session.plans().skip(1).take(planned) {
        say_notices(plan.report());
    }
    match planned {
        0 => {}
        1 => note("planned 1 part in the run, for what it computed"),
        n => note(format!("planned {n} parts in the run, for what it computed")),
    }
    Ok(())
}

/// The failure for a run that stopped, with the next step.
pub(crate) fn run_failure(error: RunError, registry: &Registry) -> Failure {
    let error = match error {
        RunError::Prepare(error) => return compile_failure(error, registry),
        RunError::Step(error) => error,
        other => return Failure::new(other),
    };
    let help = match error.error.status {
        Status::NOT_IMPLEMENTED => edit_help(registry, &error.package, &error.op, Some(error.core)),
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
fn edit_help(registry: &Registry, package: &str, op: &str, core: Option<Core>) -> String {
    let folder = registry.packages().find(|p| p.name == package).and_then(|p| p.path.as_deref());
    let folder = folder.and_then(Path::parent).and_then(Path::parent);
    let part = core.and_then(source_folder).unwrap_or_else(|| "reg".to_owned());
    let file = format!("src/ops/{}.rs", module_name(op));
    let path = folder.unwrap_or(Path::new("")).join(&part);
    // V65 and V66 packages have one crate per operator.
    let nested = path.join(module_name(op)).join(&file);
    let path = if nested.is_file() { nested } else { path.join(&file) };
    format!(
        "write its body in {}, then `udo build {}`",
        path.display(),
        folder.unwrap_or(Path::new(".")).display()
    )
}
