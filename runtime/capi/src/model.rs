//! Models.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use udo_api::Core;
use udo_runtime::cache::CacheOptions;
use udo_runtime::device::{self, ErrorCode, Extent, Result};
use udo_runtime::graph::DimSpec;
use udo_runtime::model;
use udo_runtime::plan::Plan;
use udo_runtime::resolve::Input;
use udo_runtime::runtime;

use crate::codes::{FallbackCode, fallback};
use crate::error::{Error, invalid, text};
use crate::ffi::{Bytes, DimRanges, LoadOptionsAt, Text, guard, hand_out, need, release};
use crate::runtime::Runtime;
use crate::spec::TensorSpec;

/// A model that is ready to run. Threads may share it, and sessions live on without it.
#[derive(Debug)]
pub struct Model(pub(crate) Arc<Loaded>);

/// A model, and what sessions of it need beside it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) model: model::Model,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// What somebody asked the size of, to have it next.
    pub(crate) exported: Mutex<Option<Vec<u8>>>,
    /// Why the cache's file was made again or not saved.
    pub(crate) cache_warning: Option<CString>,
}

/// An input or output.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    c_name: CString,
    /// Nothing where only a run says it.
    pub(crate) spec: Option<device::TensorSpec>,
}

impl Port {
    fn new(name: &str, spec: Option<device::TensorSpec>) -> Self {
        Self { name: name.to_owned(), c_name: text(name), spec }
    }
}

/// How a model is loaded. NULL in its place, or zeros, are the defaults.
#[repr(C)]
#[derive(Debug)]
pub struct LoadOptions {
    /// `sizeof(udo_load_options_t)`.
    pub size: usize,
    /// The most bytes that packed constants, scratch and all sessions take together; 0 is for what the machine has.
    pub max_memory_bytes: u64,
    /// How many threads runs of all sessions share; 0 is for one.
    pub threads: u32,
    /// What happens to a node that none of the cores takes.
    pub fallback: FallbackCode,
    /// The cores to use, the preferred one first, as in "dsp,cpu"; NULL is for "cpu".
    pub cores: Text,
    /// The extents of dimensions that the model only names; NULL is for none.
    pub dims: DimRanges,
    /// How many there are.
    pub dim_count: usize,
    /// The folder where what is packed of the model is kept for the next process, which is there; NULL is for none.
    pub cache_dir: Text,
    /// Your own count of what is in that folder: what an older one left is made again, and a newer one is refused.
    pub cache_version: u32,
    /// Other than 0: the model holds its graph, so that it can be exported, and that cache holds it as well, so that
    /// `udo_model_restore` needs nothing else.
    pub is_exportable: u32,
}

/// The extent of a dimension that a model only names, or a range of extents, for all of which one plan is made.
#[repr(C)]
#[derive(Debug)]
pub struct DimRange {
    /// The dimension.
    pub name: Text,
    /// The least extent.
    pub least: u64,
    /// The most; as much as the least, where the extent is fixed.
    pub most: u64,
}

impl DimRange {
    fn get(&self, at: usize) -> Result<(String, RangeInclusive<usize>)> {
        let name = self.name.get(&format!("options.dims[{at}].name"))?;
        let extent = |extent: u64| usize::try_from(extent).unwrap_or(usize::MAX);
        if self.least > self.most {
            let (least, most) = (self.least, self.most);
            return Err(invalid(format!(
                "options.dims[{at}], {name:?}, is from {least} to {most}; wanted the least first"
            )));
        }
        Ok((name.to_owned(), extent(self.least)..=extent(self.most)))
    }
}

fn cores(names: &str) -> Result<Vec<Core>> {
    let core = |name: &str| {
        let name = name.trim();
        Core::from_name(name).ok_or_else(|| {
            invalid(format!("options.cores names {name:?}; wanted some of {}", Core::NAMES))
        })
    };
    names.split(',').map(core).collect()
}

/// The options as the runtime has them.
pub(crate) fn options(asked: LoadOptionsAt) -> Result<runtime::LoadOptions> {
    let asked = asked.get()?;
    let mut all = runtime::LoadOptions::default();
    let options = &mut all.compile;
    if let Some(names) = asked.cores.option("options.cores")? {
        options.place.cores = cores(names)?;
    }
    options.place.fallback = fallback(asked.fallback)?;
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
        if range.start() == range.end() {
            options.bind.dims.insert(name, *range.start());
        } else {
            options.bind.ranges.insert(name, range);
        }
    }
    Ok(all)
}

/// A model as C has it.
pub(crate) fn of(model: model::Model) -> Result<Model> {
    let inputs = model.inputs().iter();
    let inputs = inputs.map(|input| Ok(Port::new(&input.name, Some(input_spec(&model, input)?))));
    let inputs = inputs.collect::<Result<_>>()?;
    let outputs = model.outputs().iter().map(|name| {
        let mut planned = model.plan().into_iter().flat_map(Plan::outputs);
        let desc = planned.find(|(of, _)| of == name).map(|(_, desc)| *desc);
        Port::new(name, desc.and_then(|desc| device::TensorSpec::of(desc).ok()))
    });
    let outputs = outputs.collect();
    let warnings = model.cache().map(|report| report.notices().collect::<Vec<_>>().join("; "));
    let cache_warning = warnings.filter(|text| !text.is_empty()).map(|said| text(&said));
    let exported = Mutex::default();
    Ok(Model(Arc::new(Loaded { model, inputs, outputs, exported, cache_warning })))
}

/// What an input takes.
fn input_spec(model: &model::Model, input: &Input) -> Result<device::TensorSpec> {
    let range = |name: &String| {
        let range = model.ranges().get(name)?;
        Some(Extent::Range { min: *range.start(), max: *range.end() })
    };
    let extent = |dim: &DimSpec| match dim {
        DimSpec::Fixed(n) => Extent::Fixed(*n),
        DimSpec::Named(name) => range(name).unwrap_or(Extent::Open),
        DimSpec::Unknown => Extent::Open,
    };
    device::TensorSpec::new(input.of.dtype, &input.of.dims.iter().map(extent).collect::<Vec<_>>())
}

/// A port by its place.
fn port<'a>(ports: &'a [Port], side: &str, index: usize) -> Result<&'a Port> {
    ports.get(index).ok_or_else(|| {
        let count = ports.len();
        invalid(format!("there is no {side} {index}; wanted a place below {count}"))
    })
}

/// The description of a port, where there is one before a run.
fn spec_of(port: &Port, side: &str, index: usize) -> Result<TensorSpec> {
    port.spec.map(TensorSpec).ok_or_else(|| {
        let name = &port.name;
        device::Error::new(
            ErrorCode::DynamicShape,
            format!("{side} {index}, {name:?}, depends on the inputs' shapes; run a session and ask that"),
        )
    })
}

/// Loads a model of a file: ONNX, or a model file of this toolkit. The file is read alone, and stays as it is for as long
/// as the model is there.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_load_file(
    runtime: Option<&Runtime>,
    path: Text,
    options: LoadOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Model>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (need(runtime, "runtime")?, need(out, "out")?);
        let (path, options) = (path.path("path")?, self::options(options)?);
        hand_out(out, of(runtime.0.load_with(path, &options)?)?);
        Ok(())
    })
}

/// Loads a model of the bytes of such a file, which are copied.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_load_bytes(
    runtime: Option<&Runtime>,
    bytes: Bytes,
    len: usize,
    options: LoadOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Model>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (need(runtime, "runtime")?, need(out, "out")?);
        let (bytes, options) = (bytes.get(len, "bytes")?, self::options(options)?);
        hand_out(out, of(runtime.0.load_bytes(bytes, &options)?)?);
        Ok(())
    })
}

/// Counts the inputs of a model.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_input_count(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        out.write(model.0.inputs.len());
        Ok(())
    })
}

/// Counts the outputs of a model.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_output_count(
    model: Option<&Model>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        out.write(model.0.outputs.len());
        Ok(())
    })
}

/// The name of an input; the text is the model's and goes with it.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_input_name(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        out.write(port(&model.0.inputs, "input", index)?.c_name.as_ptr());
        Ok(())
    })
}

/// The name of an output; the text is the model's and goes with it.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_output_name(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        out.write(port(&model.0.outputs, "output", index)?.c_name.as_ptr());
        Ok(())
    })
}

/// What an input takes, as a description of its own.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_input_spec(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        hand_out(out, spec_of(port(&model.0.inputs, "input", index)?, "input", index)?);
        Ok(())
    })
}

/// What an output is, as a description of its own. Where that depends on the inputs' shapes, it is refused with
/// `UDO_ERROR_DYNAMIC_SHAPE`; `udo_session_output_spec` says it after a run.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_output_spec(
    model: Option<&Model>,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (model, out) = (need(model, "model")?, need(out, "out")?);
        hand_out(out, spec_of(port(&model.0.outputs, "output", index)?, "output", index)?);
        Ok(())
    })
}

/// Releases a model; NULL is fine.
#[unsafe(no_mangle)]
pub extern "C" fn udo_model_release(model: Option<Box<Model>>) {
    release(model);
}
