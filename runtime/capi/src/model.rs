//! Models.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, OnceLock};

use udo_api::{Core, Encoding, Encodings};
use udo_engine::device;
use udo_engine::device::{Result, SpecDetails};
use udo_runtime::cache::CacheOptions;
use udo_runtime::compile::Plan;
use udo_runtime::device::{ErrorCode, Extent};
use udo_runtime::graph::{DimSpec, TensorType};

use crate::argument::{invalid, need};
use crate::born::{Born, handles, live};
use crate::codes::{
    FallbackCode, PerformanceCode, Precision, PrecisionCode, PriorityCode, fallback, performance,
    precision, priority,
};
use crate::error::Error;
use crate::ffi::{Bytes, List, Options, OptionsAt, Text, guard, hand_out, named_pointers, release};
use crate::handles::Runtime;
use crate::model_report::Report;
use crate::ports::{self, HasPorts, Port, Ports, Side};
use crate::spec::TensorSpec;
use crate::text::text;
use udo_compile::options::set_dim;

/// A model that is ready to run. Threads may share it. Sessions outlive it.
#[derive(Debug)]
pub struct Model {
    pub(crate) inner: udo_runtime::Model,
    pub(crate) ports: Arc<Ports>,
    report: OnceLock<Report>,
    /// The exported bytes, stored by a call that asks for their size and used by the next call.
    pub(crate) exported: Mutex<Option<Vec<u8>>>,
    /// Why the cache's file was made again or not saved.
    pub(crate) cache_warning: Option<CString>,
    pub(crate) born: Born,
}

handles! {
    Model, born;
}

named_pointers! {
    /// Extents of dimensions.
    DimRanges(List<DimRange>);
    /// Settings by name.
    Extensions(List<Extension>);
    /// Options, or NULL.
    LoadOptionsAt(OptionsAt<LoadOptions>);
}

// SAFETY: its fields are a size, numbers and pointers.
unsafe impl Options for LoadOptions {}

impl HasPorts for Model {
    const ARGUMENT: &'static str = "model";

    fn ports(&self) -> &Ports {
        &self.ports
    }
}

/// Options of loading a model. NULL or zeros select the defaults.
#[repr(C)]
#[derive(Debug)]
pub struct LoadOptions {
    /// `sizeof(udo_load_options_t)`.
    pub size: usize,
    /// Limit of the bytes of prepacked constants, scratch memory and all sessions together; 0 means
    /// the memory of the machine.
    pub max_memory_bytes: u64,
    /// Number of threads that runs of all sessions share; 0 means one.
    pub threads: u32,
    /// The handling of a node that none of the cores supports.
    pub fallback: FallbackCode,
    /// The cores to use, in order of preference, such as "dsp,cpu"; NULL means "cpu".
    pub cores: Text,
    /// The sizes of named dimensions; NULL means none.
    pub dims: DimRanges,
    /// Length of the array above.
    pub dim_count: usize,
    /// How much of the host runs may use. Sets the number of threads, unless `threads` does. If
    /// another core than the CPU is preferred, values other than 0 are refused with
    /// `UDO_ERROR_UNSUPPORTED`.
    pub performance: PerformanceCode,
    /// The priority of submitted runs that set none.
    pub priority: PriorityCode,
    /// The precision of values between operations. Half precision requires the GPU; if another core
    /// is preferred, it is refused with `UDO_ERROR_UNSUPPORTED`.
    pub precision: PrecisionCode,
    /// Must be 0.
    pub reserved: u32,
    /// Settings by name. The last one with a name counts. NULL means none.
    pub extensions: Extensions,
    /// Length of the array above.
    pub extension_count: usize,
    /// An existing folder that caches prepacked weights for later processes; NULL means none.
    pub cache_dir: Text,
    /// The user-defined version of the cache's entries: entries with a lower version are rebuilt,
    /// entries with a higher version are refused.
    pub cache_version: u32,
    /// If not 0, the model keeps its graph, so that it can be exported, and the cache stores the
    /// graph too, so that `udo_model_restore` needs nothing else.
    pub is_exportable: u32,
}

/// A setting by name: `max_memory`; `threads`; `spin_us` (how long idle threads look for work);
/// `shapes_kept`; `vtcm_bytes`; `gpu_storage` (`f32` or `f16`); `fast_math` (`none` or `bf16`);
/// `device_limits` (`kernels`, or `documented` for the documented limits of the devices);
/// `random_ranges` (number of random inputs that calibrate a float model for the DSP at load time;
/// by default, or with 0, the DSP refuses it); `dim.NAME` (a size, or a range such as `1..512`);
/// `in_place.INPUT` (the output that a run may write to the tensor of this input); `given.INPUT` (1
/// if runs give this optional input, whose default is an initializer; otherwise it is not an
/// input); `bind.TYPE` (the package that implements nodes of this type, whatever their domain; with
/// a domain, as in `bind.com.acme:Blur`, nodes of this domain only).
#[repr(C)]
#[derive(Debug)]
pub struct Extension {
    /// The name.
    pub name: Text,
    /// Its value, as a string.
    pub value: Text,
}

/// The size of a named dimension, or a range of sizes that share one plan.
#[repr(C)]
#[derive(Debug)]
pub struct DimRange {
    /// The name of the dimension.
    pub name: Text,
    /// The minimum size.
    pub least: u64,
    /// The maximum size; equal to the minimum for a fixed size.
    pub most: u64,
}

impl DimRange {
    fn get(&self, at: usize) -> Result<(String, RangeInclusive<usize>)> {
        let name = self.name.get(&format!("options.dims[{at}].name"))?;
        let extent = |extent: u64| usize::try_from(extent).unwrap_or(usize::MAX);
        if self.least > self.most {
            let (least, most) = (self.least, self.most);
            return Err(invalid(format!(
                "options.dims[{at}], {name:?}, is from {least} to {most}; expected the least first"
            )));
        }
        Ok((name.to_owned(), extent(self.least)..=extent(self.most)))
    }
}

fn cores(names: &str) -> Result<Vec<Core>> {
    let core = |name: &str| {
        let name = name.trim();
        Core::from_name(name).ok_or_else(|| {
            invalid(format!("options.cores names {name:?}; expected some of {}", Core::NAMES))
        })
    };
    names.split(',').map(core).collect()
}

/// The options as the runtime has them.
pub(crate) fn options(asked: LoadOptionsAt) -> Result<udo_runtime::LoadOptions> {
    let asked = asked.get()?;
    let mut all = udo_runtime::LoadOptions::default();
    let options = &mut all.compile;
    if asked.reserved != 0 {
        let why = format!("options.reserved is {}; expected 0", asked.reserved);
        return Err(device::Error::new(ErrorCode::Unsupported, why));
    }
    if let Some(names) = asked.cores.option("options.cores")? {
        options.place.cores = cores(names)?;
    }
    options.place.fallback = fallback(asked.fallback)?;
    options.set_performance(performance(asked.performance)?)?;
    options.priority = priority(asked.priority)?.unwrap_or_default();
    match precision(asked.precision)? {
        Precision::Full => {}
        Precision::Half => options.enable_fp16()?,
    }
    let threads = usize::try_from(asked.threads).ok().and_then(NonZero::new);
    options.threads = threads.unwrap_or(options.threads);
    if asked.max_memory_bytes > 0 {
        options.max_memory = Some(usize::try_from(asked.max_memory_bytes).unwrap_or(usize::MAX));
    }
    if let Some(dir) = asked.cache_dir.option("options.cache_dir")? {
        all.cache = Some(CacheOptions { dir: dir.into(), version: asked.cache_version });
    }
    all.is_exportable = asked.is_exportable != 0;
    let options = &mut all.compile;
    let dims = asked.dims.get(asked.dim_count, "options.dims")?;
    for (at, dim) in dims.iter().enumerate() {
        let (name, range) = dim.get(at)?;
        set_dim(&mut options.bind, &name, range);
    }
    let extensions = asked.extensions.get(asked.extension_count, "options.extensions")?;
    for (at, extension) in extensions.iter().enumerate() {
        let name = extension.name.get(&format!("options.extensions[{at}].name"))?;
        let value = extension.value.get(&format!("options.extensions[{at}].value"))?;
        options.set_extension(name, value)?;
    }
    Ok(all)
}

/// Checks options without loading a model. It refuses what loading any model with them would
/// refuse.
#[unsafe(no_mangle)]
pub extern "C" fn udo_load_options_check(options: LoadOptionsAt) -> Option<Box<Error>> {
    guard(|| self::options(options).map(|_| ()))
}

/// A model as C has it.
pub(crate) fn for_c(model: udo_runtime::Model) -> Result<Model> {
    let inputs = model.inputs().iter().enumerate().map(|(at, input)| {
        let spec = spec(&model, &input.of)?;
        Ok(Port::new(&input.name, Some(encoded(spec, model.input_encoding(at)))))
    });
    let inputs = inputs.collect::<Result<_>>()?;
    let outputs = model.outputs().iter().enumerate().map(|(at, name)| {
        let mut planned = model.plan().into_iter().flat_map(Plan::outputs);
        let planned = planned.find(|(of, _)| of == name).map(|(_, desc)| *desc);
        let planned = planned.and_then(|desc| device::TensorSpec::from_desc(desc).ok());
        let declared = || spec(&model, model.declared_output(at)?).ok();
        let spec = planned.or_else(declared);
        Port::new(name, spec.map(|spec| encoded(spec, model.output_encoding(at))))
    });
    let ports = Arc::new(Ports { inputs, outputs: outputs.collect() });
    let warnings = model.cache().map(|report| report.notices().collect::<Vec<_>>().join("; "));
    let cache_warning = warnings.filter(|text| !text.is_empty()).map(|said| text(&said));
    let (report, exported) = (OnceLock::new(), Mutex::default());
    Ok(Model { inner: model, ports, report, exported, cache_warning, born: Born::here() })
}

/// A type that a model declares.
fn spec(model: &udo_runtime::Model, of: &TensorType) -> Result<device::TensorSpec> {
    let range = |name: &String| {
        let range = model.ranges().get(name)?;
        Some(Extent::Range { min: *range.start(), max: *range.end() })
    };
    let extent = |dim: &DimSpec| match dim {
        DimSpec::Fixed(n) => Extent::Fixed(*n),
        DimSpec::Named(name) => range(name).unwrap_or(Extent::Open),
        DimSpec::Unknown => Extent::Open,
    };
    device::TensorSpec::new(of.dtype, &of.dims.iter().map(extent).collect::<Vec<_>>())
}

/// With what its integers stand for, if they do.
fn encoded(spec: device::TensorSpec, encoding: Option<Encoding>) -> device::TensorSpec {
    let encoded = encoding.map(|of| spec.with_encodings(Encodings::PerTensor(of)));
    encoded.and_then(Result::ok).unwrap_or(spec)
}

impl Model {
    /// Returns the report of the model, which the first call builds.
    pub(crate) fn report(&self) -> &Report {
        self.report.get_or_init(|| Report::new(&self.inner))
    }
}

/// Loads a model from a file: ONNX, or a model file (`.udm`). The file is opened read-only and must
/// not change while the model exists.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_load_file(
    runtime: Option<&Runtime>,
    path: Text,
    options: LoadOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Model>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        let (path, options) = (path.path("path")?, self::options(options)?);
        hand_out(out, for_c(runtime.0.load(path, &options)?)?);
        Ok(())
    })
}

/// Loads a model from the bytes of such a file, which are copied.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_load_bytes(
    runtime: Option<&Runtime>,
    bytes: Bytes,
    len: usize,
    options: LoadOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Model>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        let (bytes, options) = (bytes.get(len, "bytes")?, self::options(options)?);
        hand_out(out, for_c(runtime.0.load(bytes, &options)?)?);
        Ok(())
    })
}

/// Returns the number of inputs of a model.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_input_count(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    ports::count(model, Side::Input, out)
}

/// Returns the number of outputs of a model.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_output_count(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    ports::count(model, Side::Output, out)
}

/// Returns the name of an input. The string lives as long as the model.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_input_name(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    ports::name(model, Side::Input, index, out)
}

/// Returns the name of an output. The string lives as long as the model.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_output_name(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    ports::name(model, Side::Output, index, out)
}

/// Returns the description of an input, as a new object.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_input_spec(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    ports::spec(model, Side::Input, index, out)
}

/// Returns the description of an output, as a new object. If its shape depends on those of the
/// inputs, this is the declared one, whose dimensions may be open; without a declaration it is
/// refused with `UDO_ERROR_DYNAMIC_SHAPE`. After a run, `udo_session_output_spec` returns the
/// actual one.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_output_spec(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    ports::spec(model, Side::Output, index, out)
}

/// Releases a model. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_release(model: Option<Box<Model>>) {
    release(model);
}
