//! Quantizes float models at load for cores that store quantized values, and dequantizes quantized models at load for
//! the GPU.

use std::sync::Arc;
use std::time::{Duration, Instant};

use udo_api::{Core, CoreKind, Shape, TensorDesc};

use super::dequantize::{Dequantized, dequantize, has_encodings};
use super::{FloatOps, Kind, QuantError, Quantized, Quantizer, Settings, WeightEncoding};
use crate::pipeline::CompileError;
use udo_compile::compiler::Resources;
use udo_compile::options::{CompileOptions, InputSet, RangeSource, first_core};
use udo_compile::place::{Fallback, PlaceOptions, takes_numbers};
use udo_compile::resolve::{BindOptions, Input, InputShapes};
use udo_engine::cores::is_quantized;
use udo_graph::graph::{Graph, Links, Source, ValueId};
use udo_graph::memory::random;

/// The seed of the first input of the first random run.
const SEED: u64 = 1;

/// The suffix of operators that compute with integers and scales of their own.
const INTEGER: &str = "Integer";

/// Returns whether a graph is quantized at load: the preferred core stores quantized values, and the graph has no
/// encodings.
pub fn is_wanted(graph: &Graph, cores: &[Core]) -> bool {
    cores.first().copied().is_some_and(|core| is_quantized(core) && takes_numbers(core))
        && !has_encodings(graph)
        && !graph.nodes.iter().any(|node| node.op.contains(INTEGER))
}

/// Returns the graph that replaces one that the preferred core cannot run as it is, with the additional outputs, and a
/// notice; `None` if the graph stays as it is.
///
/// # Errors
/// A range cannot be determined, because a run failed or a value was never computed.
pub(crate) fn at_load(
    graph: &Graph,
    resources: &Resources,
    options: &CompileOptions,
) -> Result<Option<(Graph, Vec<String>)>, QuantError> {
    let cores = &options.place.cores;
    let core = first_core(&options.place);
    if options.keep_types {
        return Ok(None);
    }
    if core.kind() == Some(CoreKind::Gpu) && has_encodings(graph) {
        return dequantized(graph, core, options).map(Some);
    }
    if !is_wanted(graph, cores) {
        return Ok(None);
    }
    match quantized(graph, core, resources, options) {
        Err(error) if has_numbers(options) && is_of_runs(&error) => {
            let notice = format!(
                "the float model was not quantized for {core}, which does not support floating point: {error}"
            );
            Ok(Some((with_outputs(graph, options)?, vec![notice])))
        }
        made => made,
    }
}

/// Returns whether a core that computes in floating point may run nodes.
fn has_numbers(options: &CompileOptions) -> bool {
    let PlaceOptions { cores, fallback, .. } = &options.place;
    let others = match fallback {
        Fallback::To(core) => Some(core),
        Fallback::Off => None,
    };
    cores.iter().chain(others).any(|core| !is_quantized(*core))
}

/// Returns whether the error is due to the runs that determine ranges, not to the model or its inputs.
fn is_of_runs(error: &QuantError) -> bool {
    matches!(
        error,
        QuantError::Unseen { .. }
            | QuantError::Infinite { .. }
            | QuantError::NotANumber { .. }
            | QuantError::Run(_)
            | QuantError::Compile(CompileError::Place(_))
    )
}

/// Returns the graph with the additional outputs.
fn with_outputs(graph: &Graph, options: &CompileOptions) -> Result<Graph, QuantError> {
    let mut graph = graph.clone();
    graph.add_outputs(&options.more_outputs).map_err(CompileError::from)?;
    Ok(graph)
}

fn dequantized(
    graph: &Graph,
    core: Core,
    options: &CompileOptions,
) -> Result<(Graph, Vec<String>), QuantError> {
    let start = Instant::now();
    let made = dequantize(&with_outputs(graph, options)?)?;
    let [before, after] = [constant_bytes(graph), constant_bytes(&made.graph)];
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let Dequantized { graph, values, constants } = made;
    let notice = format!(
        "the quantized model was dequantized at load for {core} in {ms:.0} ms: {values} values and {constants} constants, \
         {after} bytes instead of {before}"
    );
    Ok((graph, vec![notice]))
}

fn quantized(
    graph: &Graph,
    core: Core,
    resources: &Resources,
    options: &CompileOptions,
) -> Result<Option<(Graph, Vec<String>)>, QuantError> {
    let start = Instant::now();
    let Some(sets) = sets(graph, options)? else { return Ok(None) };
    let source = with_outputs(graph, options)?;
    let shapes = sets.first().into_iter().flatten();
    let shapes = shapes.map(|(name, tensor)| (name.clone(), tensor.dims().to_vec())).collect();
    let bind = BindOptions { shapes, ..options.bind.clone() };
    let settings = Settings {
        weight_encoding: WeightEncoding::PerChannel,
        float_ops: FloatOps::Stored,
        core,
        ..Settings::default()
    };
    let prepared = match Quantizer::new(source, resources, &bind, settings) {
        Err(QuantError::Nothing) => return Ok(None),
        made => made?,
    };
    let mut calibration = prepared.calibration(resources, &on_host(options))?;
    for set in sets.iter() {
        calibration.add(set)?;
    }
    let quantized = prepared.finish(&calibration)?;
    let notice = notice(core, &quantized, (start.elapsed(), options, sets.len()));
    Ok(Some((quantized.graph, vec![notice, ONCE.to_owned()])))
}

/// Returns the options for runs of the float model.
fn on_host(options: &CompileOptions) -> CompileOptions {
    let place =
        PlaceOptions { cores: vec![Core::CPU], fallback: Fallback::Off, ..options.place.clone() };
    let (more_outputs, in_place) = (Vec::new(), Vec::new());
    CompileOptions { place, more_outputs, in_place, ..options.clone() }
}

/// Returns the inputs of each run; `None` if no runs are requested.
fn sets(graph: &Graph, options: &CompileOptions) -> Result<Option<Arc<Vec<InputSet>>>, QuantError> {
    let count = match &options.range_source {
        RangeSource::Nothing => return Ok(None),
        RangeSource::Inputs(sets) if !sets.is_empty() => return Ok(Some(Arc::clone(sets))),
        RangeSource::Inputs(_) => 1,
        RangeSource::Random(count) => count.get(),
    };
    let inputs = Input::all(graph);
    let shapes = Input::shapes_at(&inputs, &options.bind, |(_, most)| most)?;
    let mut seed = SEED;
    let mut made = Vec::new();
    for _ in 0..count {
        let mut set = InputSet::new();
        for input in &inputs {
            let dims = shapes.get(&input.name).map_or(&[][..], Vec::as_slice);
            let shape = Shape::new(dims).or_else(|_| input.required())?;
            // The run itself reports a missing input.
            if let Some(tensor) = random(&TensorDesc::new(input.of.dtype, shape), seed)? {
                set.push((input.name.clone(), tensor));
            }
            seed += 1;
        }
        made.push(set);
    }
    Ok(Some(Arc::new(made)))
}

/// Returns the number of bytes of constants that nodes read.
fn constant_bytes(graph: &Graph) -> usize {
    let consumers = graph.consumers();
    let is_read = |id: &ValueId| consumers.get(*id).is_some_and(|readers| !readers.is_empty());
    let read = graph.value_ids().filter(is_read).filter_map(|id| graph.value(id).ok());
    let of = read.map(|value| match &value.source {
        Source::Constant(tensor) => tensor.desc().size_bytes(),
        Source::Computed | Source::Input(_) | Source::Outer => 0,
    });
    of.sum()
}

/// The remedy for the time that quantizing takes at each load.
const ONCE: &str = "`udo quantize MODEL --per-channel --store-all --calibration DATA -o quantized.udm` quantizes it once for all loads";

fn notice(
    core: Core,
    quantized: &Quantized,
    (took, options, runs): (Duration, &CompileOptions, usize),
) -> String {
    let count = |kind| quantized.encoded.iter().filter(|of| of.kind == kind).count();
    let [values, weights, biases] = [Kind::Activation, Kind::Weights, Kind::Bias].map(count);
    let of = match &options.range_source {
        RangeSource::Inputs(sets) if !sets.is_empty() => "given inputs",
        RangeSource::Inputs(_) | RangeSource::Random(_) | RangeSource::Nothing => "random inputs",
    };
    let ms = took.as_secs_f64() * 1e3;
    let sets = if runs == 1 { "1 set".to_owned() } else { format!("{runs} sets") };
    format!(
        "float model, quantized at load for {core} in {ms:.0} ms: {values} values, {weights} weights and {biases} biases, ranges \
         of {sets} of {of}"
    )
}
