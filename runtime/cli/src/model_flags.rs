//! The flags that every command with a model shares.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use udo_api::{CoreKind, FastMath};
use udo_compile::pass::PASSES;
use udo_engine::cores::{DeviceLimits, GpuStorage, Profile};
use udo_graph::container::Container;
use udo_graph::import::{self, MODEL_FILE, Reading};
use udo_runtime::cache::CacheOptions;
use udo_runtime::compile::{BindOptions, PassOptions, PlaceOptions, RangeSource};
use udo_runtime::device::{Coherence, DeviceSpec};
use udo_runtime::graph::{Graph, ImportOptions};
use udo_runtime::{CompileOptions, LoadOptions, Runtime};

use crate::cores::PlaceFlags;
use crate::failures::container_failure;
use crate::output::{Failure, Outcome};
use crate::package_flags::PackageFlags;
use crate::perf_profile::PerfProfile;
use crate::required::Required;
use udo_compile::options::threads_of;
use udo_engine::device::default_specs;
use udo_graph::graph::promote_defaults;

/// The name of all passes in `--skip-pass`.
const ALL: &str = "all";

/// A model, the packages it needs, and where it runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct ModelFlags {
    /// ONNX file, model file (.udm) or printed graph
    pub(crate) model: PathBuf,
    /// Use this network of a file that has several
    ///
    /// A model file (.udm) can contain several networks. `udo model info` lists them.
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Use this stage of the network [default: the one that fits the inputs]
    ///
    /// A network in a model file (.udm) has a stage for each set of input shapes. Stages are
    /// numbered from 0; `udo model info` lists them.
    #[arg(long, value_name = "N")]
    pub(crate) stage: Option<usize>,
    /// Set the shape of an input that the model leaves open
    ///
    /// SHAPE is a comma-separated list of sizes. May be given once for each input. By default the
    /// shape follows from the input data, if the command reads any.
    ///
    /// Example: `--shape image=1,3,224,224`
    #[arg(long, value_name = "NAME=SHAPE", value_parser = parse_shape)]
    pub(crate) shape: Vec<(String, Vec<usize>)>,
    /// Set the size of a named dimension that the model leaves open
    ///
    /// N may also be a range, FIRST..LAST. The model is then compiled once for all sizes in the
    /// range. May be given once for each dimension.
    ///
    /// Example: `--dim batch=4` or `--dim batch=1..8`
    #[arg(long, value_name = "NAME=N", value_parser = parse_dim)]
    pub(crate) dim: Vec<(String, RangeInclusive<usize>)>,
    /// Skip this graph pass, or `all` passes
    ///
    /// May be given several times. `udo explain --passes` shows what each pass changed.
    #[arg(long, value_name = "PASS", value_parser = skipped_pass())]
    pub(crate) skip_pass: Vec<String>,
    #[command(flatten)]
    pub(crate) place: PlaceFlags,
    /// Fail unless these nodes run on this core; NODES may be *
    ///
    /// NODES is an operator type, a node's name, a list of node ids such as 0-11,177, or `*` for
    /// all nodes. May be given several times.
    ///
    /// Example: `--require '*=dsp'`
    #[arg(long, value_name = "NODES=CORE", value_parser = Required::parse)]
    pub(crate) require: Vec<Required>,
    #[command(flatten)]
    pub(crate) packages: PackageFlags,
    /// Implement an operator type with this package
    ///
    /// Use this flag if several packages implement the same type, or to let a package implement
    /// nodes of another operator domain. With a domain before the type, as in `DOMAIN:TYPE=PACKAGE`,
    /// only nodes of this domain are bound. May be given several times.
    #[arg(long, value_name = "TYPE=PACKAGE", value_parser = parse_pair)]
    pub(crate) bind: Vec<(String, String)>,
    /// Run kernels on N threads [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZero<usize>>,
    /// Apply a performance preset of the vendors' tools
    ///
    /// A preset sets the number of threads, and how long an idle thread polls for work before it
    /// sleeps. It replaces --threads.
    #[arg(long, value_name = "PROFILE", conflicts_with = "threads", value_parser = PerfProfile::parser())]
    pub(crate) perf_profile: Option<&'static PerfProfile>,
    /// Limit the memory of constants and sessions
    ///
    /// SIZE is a number of bytes, or has the suffix K, M or G. The limit covers constants prepared
    /// for the cores, and the memory of sessions. By default, memory is not limited.
    ///
    /// Example: `--max-memory 512M`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_memory: Option<usize>,
    /// Store floating-point values on the GPU in this type
    #[arg(long, value_name = "TYPE", value_enum, default_value = "f32")]
    pub(crate) gpu_storage: StorageFlag,
    /// Let kernels compute faster in reduced precision
    ///
    /// `udo explain` shows which steps use it.
    #[arg(long, value_name = "TYPE", value_enum, default_value = "none")]
    pub(crate) fast_math: FastMathFlag,
    /// Read the model's files into memory instead of mapping them
    ///
    /// By default, weights are used where they are in the mapped file. If another process truncates
    /// the file during a run, the command ends with an error. Copied weights are not affected.
    #[arg(long)]
    pub(crate) copy_weights: bool,
    /// Cache prepacked weights in this folder
    ///
    /// Kernels rearrange (prepack) constants when a model is loaded. With a cache, later loads read
    /// the result from the folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Set your own version of the cache entries
    ///
    /// Entries with a lower version are rebuilt. Entries with a higher version are refused.
    #[arg(long, value_name = "N", default_value = "0", requires = "cache")]
    pub(crate) cache_version: u32,
    /// Set the size of the DSP's fast memory (VTCM) in KiB
    #[arg(long, value_name = "KIB", default_value = "4096")]
    pub(crate) vtcm: usize,
    /// Limit the DSP to the documented features of its version
    ///
    /// Only the types, ranks, inputs and layers that are documented for the version are accepted
    /// (docs/dsp.md). By default the DSP runs everything that its kernels support.
    #[arg(long)]
    pub(crate) strict_device: bool,
    /// Set the coherence of host and accelerator memory
    ///
    /// `coherent`: the host and the emulated accelerators see each other's writes at once.
    ///
    /// `noncoherent`: the runtime flushes and invalidates values that cross between them.
    ///
    /// `noncoherent:SEED`: the same, and the host's cache writes back lines at random times. This
    /// exposes missing cache maintenance.
    #[arg(long, value_name = "MODE", default_value = "coherent", value_parser = parse_memory)]
    pub(crate) memory: Coherence,
    /// Inputs that runs give, whatever the model has for them.
    #[arg(skip)]
    pub(crate) given: BTreeSet<String>,
    /// Values to give besides the model's outputs.
    #[arg(skip)]
    pub(crate) more_outputs: Vec<String>,
    /// Where ranges come from if the model is quantized while it is loaded.
    #[arg(skip)]
    pub(crate) range_source: RangeSource,
}

/// `--gpu-storage`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StorageFlag {
    /// Single precision
    F32,
    /// Half precision, in kernels that support it
    F16,
}

/// `--fast-math`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FastMathFlag {
    /// Compute in the precision of the model
    None,
    /// Round the factors of f32 products with constants to bf16, and accumulate in f32
    Bf16,
}

/// The names that `--skip-pass` takes.
fn skipped_pass() -> PossibleValuesParser {
    let passes =
        PASSES.iter().map(|pass| PossibleValue::new(pass.name).aliases(pass.alias).help(pass.does));
    passes.chain([PossibleValue::new(ALL).help("all of them")]).collect::<Vec<_>>().into()
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "expected NAME=VALUE".to_owned())
}

pub(crate) fn parse_shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let (name, dims) = parse_pair(text)?;
    let dims: Result<_, _> = dims.split(',').map(str::parse).collect();
    Ok((name, dims.map_err(|_| "expected NAME=1,3,224,224")?))
}

pub(crate) fn parse_dim(text: &str) -> Result<(String, RangeInclusive<usize>), String> {
    let (name, sizes) = parse_pair(text)?;
    let size =
        |text: &str| text.parse().map_err(|_| "expected NAME=SIZE, or NAME=LEAST..MOST".to_owned());
    let (least, most) = sizes.split_once("..").unwrap_or((&sizes, &sizes));
    Ok((name, size(least)?..=size(most)?))
}

/// Refuses a flag that gives something twice, of which one would be ignored.
pub(crate) fn given_once<T: AsRef<str>>(flag: &str, names: &[T]) -> Outcome {
    let mut seen = BTreeSet::new();
    match names.iter().map(AsRef::as_ref).find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(Failure::new(format!("{flag} gives {name:?} twice"))
            .help(format!("leave one of the two {flag} {name}=.. out"))),
    }
}

fn parse_memory(text: &str) -> Result<Coherence, String> {
    let seed = match text.split_once(':') {
        _ if text == "coherent" => return Ok(Coherence::Coherent),
        None if text == "noncoherent" => return Ok(Coherence::NonCoherent { seed: None }),
        Some(("noncoherent", seed)) => seed.parse().ok(),
        None | Some(_) => None,
    };
    let seed =
        seed.ok_or_else(|| "expected coherent, noncoherent or noncoherent:SEED".to_owned())?;
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
    bytes.ok_or_else(|| "expected bytes, as 500000, 64K, 512M or 4G".to_owned())
}

impl ModelFlags {
    /// The names of the cores.
    pub(crate) fn core_names(&self) -> Vec<String> {
        self.place.cores.all.iter().map(ToString::to_string).collect()
    }

    /// The same with the DSP in the place of programs for the HTA, for who looks at nodes one by one.
    pub(crate) fn without_programs(self) -> Self {
        Self { place: self.place.without_programs(), require: Vec::new(), ..self }
    }

    fn options(&self) -> CompileOptions {
        let (sizes, ranges): (Vec<_>, Vec<_>) =
            self.dim.iter().cloned().partition(|(_, sizes)| sizes.start() == sizes.end());
        let bind = BindOptions {
            bind: self.bind.iter().cloned().collect(),
            shapes: self.shape.iter().cloned().collect(),
            dims: sizes.into_iter().map(|(name, sizes)| (name, *sizes.start())).collect(),
            ranges: ranges.into_iter().collect(),
            overridden: self.given.clone(),
        };
        let gpu_storage = match self.gpu_storage {
            StorageFlag::F32 => GpuStorage::F32,
            StorageFlag::F16 => GpuStorage::F16,
        };
        let fast_math = match self.fast_math {
            FastMathFlag::None => FastMath::None,
            FastMathFlag::Bf16 => FastMath::Bf16,
        };
        let vtcm_bytes = self.vtcm.saturating_mul(1024);
        let limits =
            if self.strict_device { DeviceLimits::Documented } else { DeviceLimits::OfKernels };
        let profile = Profile { vtcm_bytes, gpu_storage, fast_math, limits, ..Profile::default() };
        let place = PlaceOptions { profile, ..self.place.options() };
        let passes = if self.skip_pass.iter().any(|name| name == ALL) {
            PassOptions::none()
        } else {
            PassOptions { skip: self.skip_pass.iter().cloned().collect() }
        };
        let ((threads, spin), max_memory) = (self.threads_and_spin(), self.max_memory);
        let (more_outputs, range_source) = (self.more_outputs.clone(), self.range_source.clone());
        let of = CompileOptions {
            bind,
            passes,
            place,
            threads,
            max_memory,
            ..CompileOptions::default()
        };
        CompileOptions { spin: spin.unwrap_or(of.spin), more_outputs, range_source, ..of }
    }

    /// How many threads kernels may use.
    pub(crate) fn threads(&self) -> NonZero<usize> {
        self.threads_and_spin().0
    }

    /// The same, and how long they look for work, where that is said.
    fn threads_and_spin(&self) -> (NonZero<usize>, Option<Duration>) {
        let preset = self.perf_profile.and_then(|profile| threads_of(profile.performance));
        match preset {
            Some((threads, spin)) => (threads, Some(spin)),
            None => (self.threads.unwrap_or(NonZero::<usize>::MIN), None),
        }
    }

    /// The operators of the packages, and devices whose memory is as asked.
    pub(crate) fn runtime(&self) -> Result<Runtime, Failure> {
        given_once("--shape", &self.shape.iter().map(|(name, _)| name).collect::<Vec<_>>())?;
        given_once("--dim", &self.dim.iter().map(|(name, _)| name).collect::<Vec<_>>())?;
        given_once("--bind", &self.bind.iter().map(|(name, _)| name).collect::<Vec<_>>())?;
        self.perf_profile.iter().for_each(|profile| profile.say());
        let specs = default_specs().map(|spec| match spec.core.kind() {
            Some(CoreKind::Cpu) | None => spec,
            Some(CoreKind::Gpu | CoreKind::Dsp | CoreKind::Hta) => {
                DeviceSpec { coherence: self.memory, ..spec }
            }
        });
        self.packages.open_with(Runtime::builder().devices(specs))
    }

    /// How the model is loaded.
    pub(crate) fn load_options(&self) -> LoadOptions {
        let version = self.cache_version;
        let cache = self.cache.as_ref().map(|dir| CacheOptions { dir: dir.clone(), version });
        let reading = if self.copy_weights { Reading::Copied } else { Reading::Mapped };
        let import = ImportOptions { reading, ..ImportOptions::default() };
        LoadOptions { import, compile: self.options(), cache, ..LoadOptions::default() }
    }

    /// The graph of the model as its file has it: of a network with several stages, that of the one asked for, or of the first.
    pub(crate) fn graph(&self) -> Result<Option<Graph>, Failure> {
        let Ok(Some(file)) = open_container(&self.model) else {
            // What is wrong with a model is said when it is loaded.
            let options = ImportOptions { given: self.given.clone(), ..ImportOptions::default() };
            return Ok(self.runtime()?.import(&self.model, &options).ok());
        };
        let network = file.network(self.network.as_deref()).ok();
        let stage = network.and_then(|network| network.stages.get(self.stage.unwrap_or(0)));
        let mut graph = stage.and_then(|stage| file.graph(stage).ok()).map(|stored| stored.graph);
        if let Some(graph) = &mut graph {
            promote_defaults(graph, &self.given);
        }
        Ok(graph)
    }
}

/// The model file at `path`; nothing where it is of another format.
pub(crate) fn open_container(path: &Path) -> Result<Option<Container>, Failure> {
    let bytes = Reading::Mapped.bytes(path)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    if import::importer(&bytes, &name)?.name != MODEL_FILE {
        return Ok(None);
    }
    Container::read(&bytes).map(Some).map_err(|error| container_failure(path, error))
}
