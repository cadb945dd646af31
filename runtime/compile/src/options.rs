//! The options of a compilation: plain fields, performance modes that set several of them, and extensions, which set a
//! field by the name and value that a command line or the C API passes as strings.

mod affinity;
mod bind;
mod costs;
mod passes;
mod place;
mod plan;

use std::num::NonZero;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use udo_api::{Core, CoreKind, FastMath};
use udo_hta::Soc;

use udo_engine::cores::{DeviceLimits, GpuStorage};
use udo_engine::device::{Error, ErrorCode, Result};
use udo_engine::run::Priority;
use udo_engine::thread_pool::Pool;
use udo_graph::memory::{Budget, Limit, Tensor};

pub use affinity::{Affinity, AffinityError, DSP_ARCHS, core_named};
pub use bind::{BindOptions, Ranges};
pub use costs::{CoreCosts, Costs, CostsError, Crossing};
pub use passes::PassOptions;
pub use place::{Fallback, PlaceOptions, first_core, preferred_core};
pub use plan::PlanOptions;

/// The options of a compilation.
///
/// Options are plain values: clone them, change fields, or set an extension by name.
///
/// ```
/// use udo_api::Core;
/// use udo_compile::options::{CompileOptions, PlaceOptions};
///
/// let place = PlaceOptions { cores: vec![Core::GPU, Core::CPU], ..PlaceOptions::default() };
/// let mut options = CompileOptions { place, ..CompileOptions::default() };
/// options.set_extension("gpu_storage", "f16")?;
/// options.set_extension("dim.batch", "1..8")?;
/// assert_eq!(options.bind.ranges["batch"], 1..=8);
/// # Ok::<(), udo_engine::device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// How nodes are bound to operators.
    pub bind: BindOptions,
    /// Which passes run.
    pub passes: PassOptions,
    /// How nodes are placed on cores.
    pub place: PlaceOptions,
    /// How memory is planned.
    pub plan: PlanOptions,
    /// The number of threads that kernels may use.
    pub threads: NonZero<usize>,
    /// How long idle threads look for work before they sleep. Longer spinning takes processor time from others, and
    /// saves the time to wake up.
    pub spin: Duration,
    /// The priority of submitted runs that state none.
    pub priority: Priority,
    /// The memory limit in bytes for packed and converted constants, arenas and scratch of the model and all its
    /// sessions; by default the memory of the machine. The model's file does not count.
    pub max_memory: Option<usize>,
    /// The number of shapes for which the model keeps plans, and each session memory, if extents are open. The most
    /// recent shapes are kept.
    pub max_plans: NonZero<usize>,
    /// Additional outputs, by the name of the value or of its node. Passes keep these values and do not fuse their
    /// nodes.
    pub more_outputs: Vec<String>,
    /// Pairs of an input's and an output's name that may share memory, such as caches that a run updates. They have the
    /// same type and shape. If the plan supports it, a run writes the output in place; otherwise it copies the output
    /// there at its end. A model's file may state further pairs.
    pub in_place: Vec<(String, String)>,
    /// The source of ranges when a float model is quantized at load, because the preferred core stores quantized
    /// values.
    pub range_source: RangeSource,
    /// Whether nodes compute in the model's own types on all cores: a float model is not quantized at load, and a
    /// quantized one is not dequantized for the GPU.
    pub keep_types: bool,
}

/// The inputs of a run, by name.
pub type InputSet = Vec<(String, Tensor)>;

/// The runs that determine ranges when a model is quantized at load.
#[derive(Clone, Debug, Default)]
pub enum RangeSource {
    /// This number of runs with pseudo-random inputs, always the same ones.
    Random(NonZero<usize>),
    /// Runs with these inputs; one run with pseudo-random inputs if the list is empty.
    Inputs(Arc<Vec<InputSet>>),
    /// No runs: no model is quantized at load, and cores that store quantized values refuse nodes without encodings.
    #[default]
    Nothing,
}

/// The default number of plans that are kept.
const MAX_PLANS: NonZero<usize> = NonZero::<usize>::MIN.saturating_add(7);

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            bind: BindOptions::default(),
            passes: PassOptions::default(),
            place: PlaceOptions::default(),
            plan: PlanOptions::default(),
            threads: NonZero::<usize>::MIN,
            spin: Pool::SPIN,
            priority: Priority::default(),
            max_memory: None,
            max_plans: MAX_PLANS,
            more_outputs: Vec::new(),
            in_place: Vec::new(),
            range_source: RangeSource::default(),
            keep_types: false,
        }
    }
}

/// Presets of [`CompileOptions::threads`] and [`CompileOptions::spin`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Performance {
    /// Leaves the options unchanged.
    #[default]
    None,
    /// One thread that sleeps when it is idle.
    Low,
    /// Half of the processors.
    Medium,
    /// All processors.
    High,
    /// All processors, with threads that look for work for 2 ms between runs.
    Extreme,
}

/// Returns the number of threads of a mode and how long they look for work before they sleep; `None` for
/// [`Performance::None`], which leaves both options unchanged.
pub fn threads_of(mode: Performance) -> Option<(NonZero<usize>, Duration)> {
    let processors = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let half = NonZero::new(processors.get() / 2).unwrap_or(NonZero::<usize>::MIN);
    match mode {
        Performance::None => None,
        Performance::Low => Some((NonZero::<usize>::MIN, Duration::ZERO)),
        Performance::Medium => Some((half, Pool::SPIN)),
        Performance::High => Some((processors, Pool::SPIN)),
        Performance::Extreme => Some((processors, Duration::from_millis(2))),
    }
}

/// Parses the value of an extension into the options.
type ParseFn = fn(&mut CompileOptions, &str) -> Option<()>;

/// The extensions: name, expected values, and parser.
const EXTENSIONS: &[(&str, &str, ParseFn)] = &[
    ("device_limits", "\"kernels\" or \"documented\"", |options, value| {
        options.place.profile.limits = match value {
            "kernels" => DeviceLimits::OfKernels,
            "documented" => DeviceLimits::Documented,
            _ => return None,
        };
        Some(())
    }),
    ("fast_math", "\"none\" or \"bf16\"", |options, value| {
        options.place.profile.fast_math = match value {
            "none" => FastMath::None,
            "bf16" => FastMath::Bf16,
            _ => return None,
        };
        Some(())
    }),
    ("gpu_storage", "\"f32\" or \"f16\"", |options, value| {
        options.place.profile.gpu_storage = match value {
            "f32" => GpuStorage::F32,
            "f16" => GpuStorage::F16,
            _ => return None,
        };
        Some(())
    }),
    ("max_memory", "a number of bytes", |options, value| {
        options.max_memory = Some(value.parse::<NonZero<usize>>().ok()?.get());
        Some(())
    }),
    ("random_ranges", "a number of runs, 0 for none", |options, value| {
        let runs: usize = value.parse().ok()?;
        options.range_source = NonZero::new(runs).map_or(RangeSource::Nothing, RangeSource::Random);
        Some(())
    }),
    ("shapes_kept", "a number of shapes, at least 1", |options, value| {
        options.max_plans = value.parse().ok()?;
        Some(())
    }),
    ("spin_us", "a number of microseconds", |options, value| {
        options.spin = Duration::from_micros(value.parse::<u32>().ok()?.into());
        Some(())
    }),
    ("threads", "a number of threads, at least 1", |options, value| {
        options.threads = value.parse().ok()?;
        Some(())
    }),
    ("vtcm_bytes", "a number of bytes", |options, value| {
        options.place.profile.vtcm_bytes = value.parse().ok()?;
        Some(())
    }),
];

/// The prefix of extensions for dimensions.
const DIM: &str = "dim.";

/// The prefix of extensions that bind an operator type to a package.
const BIND: &str = "bind.";

/// The prefix of extensions for inputs that runs set although the model has a default. See [`BindOptions::overridden`].
const GIVEN: &str = "given.";

/// The prefix of extensions for inputs that share memory with an output.
const IN_PLACE: &str = "in_place.";

impl CompileOptions {
    /// Returns options for AIP: HTA programs of a SoC, the DSP for the other nodes, and the CPU as fallback.
    pub fn aip(soc: &'static Soc) -> Self {
        let place = PlaceOptions {
            cores: vec![Core::HTA, Core::DSP_V68],
            fallback: Fallback::To(Core::CPU),
            soc,
            aip: true,
            ..PlaceOptions::default()
        };
        Self { place, ..Self::default() }
    }

    /// Sets the number of threads, and how long they look for work before they sleep, by a mode.
    ///
    /// # Errors
    /// The preferred core is not the CPU: the modes are about threads of the host.
    pub fn set_performance(&mut self, mode: Performance) -> Result<()> {
        let Some((threads, spin)) = threads_of(mode) else { return Ok(()) };
        let core = first_core(&self.place);
        if core.kind() != Some(CoreKind::Cpu) {
            let why = format!(
                "{core} has no performance modes, which are for the host's threads; request none, or prefer cpu"
            );
            return Err(Error::new(ErrorCode::Unsupported, why));
        }
        (self.threads, self.spin) = (threads, spin);
        Ok(())
    }

    /// Stores floating-point values in 16 bits between operators. This takes half the memory and rounds them.
    ///
    /// # Errors
    /// The preferred core computes in the model's own types.
    pub fn enable_fp16(&mut self) -> Result<()> {
        let core = first_core(&self.place);
        if core.kind() != Some(CoreKind::Gpu) {
            let why = format!(
                "{core} has no half precision: it stores values in the model's own types; leave it off, or prefer gpu"
            );
            return Err(Error::new(ErrorCode::Unsupported, why));
        }
        self.place.profile.gpu_storage = GpuStorage::F16;
        Ok(())
    }

    /// Sets an extension by name. A later setting replaces an earlier one.
    ///
    /// * `dim.NAME` sets a dimension to an extent ("4") or a range ("1..512").
    /// * `in_place.INPUT` names the output that may share the input's memory.
    /// * `given.INPUT` declares that runs set an input that has a default.
    /// * `bind.TYPE` names the package that nodes of a type are bound to, whatever their domain.
    ///
    /// # Errors
    /// Fails if the extension or its value is unknown.
    pub fn set_extension(&mut self, name: &str, value: &str) -> Result<()> {
        let wrong = |expected: &str| {
            let why = format!("extension {name:?} is {value:?}, expected {expected}");
            Error::new(ErrorCode::InvalidArgument, why)
        };
        if let Some(dim) = name.strip_prefix(DIM).filter(|dim| !dim.is_empty()) {
            let range =
                extents(value).ok_or_else(|| wrong("an extent or a range, as \"1..512\""))?;
            set_dim(&mut self.bind, dim, range);
            return Ok(());
        }
        if let Some(input) = name.strip_prefix(IN_PLACE).filter(|input| !input.is_empty()) {
            self.in_place.retain(|(other, _)| other != input);
            self.in_place.push((input.to_owned(), value.to_owned()));
            return Ok(());
        }
        if let Some(op_type) = name.strip_prefix(BIND).filter(|op_type| !op_type.is_empty()) {
            if value.is_empty() {
                return Err(wrong("the name of a package"));
            }
            self.bind.bind.insert(op_type.to_owned(), value.to_owned());
            return Ok(());
        }
        if let Some(input) = name.strip_prefix(GIVEN).filter(|input| !input.is_empty()) {
            match value {
                "1" => self.bind.overridden.insert(input.to_owned()),
                "0" => self.bind.overridden.remove(input),
                _ => return Err(wrong("1 where runs give the input, 0 where it has its default")),
            };
            return Ok(());
        }
        let extension = EXTENSIONS.iter().find(|(known, ..)| *known == name);
        let (_, expected, parse) = extension.ok_or_else(|| {
            let known: Vec<_> = EXTENSIONS.iter().map(|(name, ..)| *name).collect();
            let why = format!(
                "there is no extension {name:?}, expected one of {}, {DIM}NAME, {IN_PLACE}INPUT, {GIVEN}INPUT, {BIND}TYPE",
                known.join(", ")
            );
            Error::new(ErrorCode::Unsupported, why)
        })?;
        parse(self, value).ok_or_else(|| wrong(expected))
    }
}

/// Sets the extent of a named dimension, or the range of its extents. It replaces what was set before.
pub fn set_dim(bind: &mut BindOptions, name: &str, range: RangeInclusive<usize>) {
    bind.dims.remove(name);
    bind.ranges.remove(name);
    if range.start() == range.end() {
        bind.dims.insert(name.to_owned(), *range.start());
    } else {
        bind.ranges.insert(name.to_owned(), range);
    }
}

/// Returns the memory budget of a model and its sessions.
pub fn memory_budget(options: &CompileOptions) -> Budget {
    Budget::new(options.max_memory.map_or_else(Limit::of_machine, Limit::Asked))
}

/// Returns the options for a part of a graph that is bound already: its inputs have types and shapes of their own.
#[must_use]
pub fn options_of_part(options: &CompileOptions) -> CompileOptions {
    let bind = BindOptions { bind: options.bind.bind.clone(), ..BindOptions::default() };
    CompileOptions { bind, ..options.clone() }
}

/// Parses one extent, or a range by its first and last extent.
fn extents(text: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let range = first.parse().ok()?..=last.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_engine::device::ErrorContext;

    /// Row N11 of docs/nnrt-bmruntime.md: performance modes and half precision.
    #[test]
    fn n11_modes_are_of_devices_that_have_them() {
        let mut options = CompileOptions::default();
        options.set_performance(Performance::Low).unwrap();
        assert_eq!((options.threads.get(), options.spin), (1, Duration::ZERO));
        options.set_performance(Performance::Extreme).unwrap();
        let processors = thread::available_parallelism().unwrap();
        assert_eq!((options.threads, options.spin), (processors, Duration::from_millis(2)));
        options.set_performance(Performance::None).unwrap();
        assert_eq!(options.threads, processors);
        let error = options.enable_fp16().unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
        assert!(error.message().starts_with("cpu has no half precision"), "{error}");
        options.place.cores = vec![Core::GPU, Core::CPU];
        options.enable_fp16().unwrap();
        assert_eq!(options.place.profile.gpu_storage, GpuStorage::F16);
        for core in [Core::GPU, Core::DSP_V68, Core::HTA] {
            options.place.cores = vec![core];
            options.set_performance(Performance::None).unwrap();
            let error = options.set_performance(Performance::High).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unsupported);
            assert!(error.message().starts_with(&format!("{core} has no perf")), "{error}");
        }
    }

    #[test]
    fn extensions_go_by_name() {
        let mut options = CompileOptions::default();
        let set = [
            ("threads", "2"),
            ("max_memory", "4096"),
            ("spin_us", "0"),
            ("shapes_kept", "3"),
            ("vtcm_bytes", "1024"),
            ("gpu_storage", "f16"),
            ("device_limits", "documented"),
            ("dim.n", "4"),
            ("dim.n", "1..8"),
            ("dim.m", "5"),
            ("in_place.past.0", "none"),
            ("in_place.past.0", "present.0"),
            ("given.k", "1"),
            ("given.b", "1"),
            ("given.b", "0"),
            ("bind.com.acme:Blur", "Acme"),
            ("bind.Blur", "Other"),
        ];
        for (name, value) in set {
            options.set_extension(name, value).unwrap();
        }
        assert_eq!((options.threads.get(), options.max_plans.get()), (2, 3));
        assert_eq!((options.max_memory, options.spin), (Some(4096), Duration::ZERO));
        assert_eq!(options.place.profile.vtcm_bytes, 1024);
        assert_eq!(options.place.profile.limits, DeviceLimits::Documented);
        assert_eq!(options.bind.ranges.get("n"), Some(&(1..=8)));
        assert_eq!((options.bind.dims.get("n"), options.bind.dims.get("m")), (None, Some(&5)));
        assert_eq!(options.in_place, [("past.0".to_owned(), "present.0".to_owned())]);
        assert_eq!(options.bind.overridden, ["k".to_owned()].into());
        assert_eq!(options.bind.bind.get("com.acme:Blur").map(String::as_str), Some("Acme"));
        assert_eq!(options.bind.bind.len(), 2);
        for (name, value) in [
            ("threads", "0"),
            ("dim.n", "8..1"),
            ("fast_math", "yes"),
            ("device_limits", "on"),
            ("given.k", "yes"),
            ("bind.Blur", ""),
        ] {
            let error = options.set_extension(name, value).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument, "{name}");
        }
        let error = options.set_extension("speed", "9").unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
        let expected = "there is no extension \"speed\", expected one of device_limits, fast_math, gpu_storage, max_memory, random_ranges, \
                      shapes_kept, spin_us, threads, vtcm_bytes, dim.NAME, in_place.INPUT, given.INPUT, bind.TYPE";
        assert_eq!(error.message(), expected);
    }
}
