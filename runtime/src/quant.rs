//! Quantizes float models: chooses encodings for values, and inserts them into the graph.
//!
//! A [`Quantizer`] analyzes a graph, and a [`Calibration`] records the ranges of its values in runs over representative
//! data. [`Quantizer::finish`] then adds `QuantizeLinear` and `DequantizeLinear` nodes around operators. The result is
//! an ordinary float graph that other tools can run; passes convert it to integer operators when it is loaded.

mod at_load;
mod calibrate;
mod compare;
mod correct;
mod dequantize;
mod edit;
mod encoded;
mod encodings;
mod equalize;
mod fold;
mod insert;
mod masks;
mod noise;
mod observe;
mod operators;
mod range;
mod sites;
mod tail;
mod unused;
mod weights;
mod widen;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use udo_api::{Core, Encoding};

use crate::model::{Model, Shared, Stage};
use crate::pipeline::CompileError;
use crate::session::{PortError, RunError};
use udo_compile::compiler::Resources;
use udo_compile::options::CompileOptions;
use udo_compile::pass::{self, PassError, PassOptions};
use udo_compile::place::{Fallback, PlaceError, PlaceOptions};
use udo_compile::resolve::{BindOptions, ResolveError};
use udo_compile::{place, resolve};
use udo_engine::device::{Coded, Devices, ErrorCode};
use udo_engine::run::Queues;
use udo_graph::graph::{Graph, GraphError, GraphValue, ValueId};
use udo_graph::memory::TensorError;

pub(crate) use at_load::at_load;
pub use at_load::is_wanted;
pub use calibrate::Calibration;
pub use compare::{Compared, Comparison};
pub(crate) use dequantize::has_encodings;
pub use encoded::{Encoded, Kind};
pub use encodings::{Encodings, EncodingsError};
pub use noise::Noise;
pub use observe::Method;
pub use range::{Bits, Levels, Range};
pub use sites::FloatNode;

use calibrate::Statistics;
use encodings::StatedEncodings;
use insert::Constants;
use masks::{Levels as MaskLevels, Seen};
use operators::QUANTIZE;
use range::LEAST_WIDTH;
use sites::Sites;
use weights::Scheme;

/// The passes that fuse steps between which nothing is quantized.
const FUSED: [&str; 3] = ["layer_norm", "rms_norm", "activations"];

/// The newest DSP architecture.
const NEWEST_DSP: u16 = 81;

/// How weights are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightEncoding {
    /// One encoding per tensor, with a zero point.
    #[default]
    Asymmetric,
    /// One encoding per tensor, with zero point 0.
    Symmetric,
    /// One encoding per output channel, with zero point 0.
    PerChannel,
}

/// The storage of biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BiasStorage {
    /// 32 bits, in units of the sums that they are added to.
    #[default]
    Sums,
    /// 8 bits.
    Eight,
}

/// The treatment of operators without a quantized form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FloatOps {
    /// The model is refused.
    #[default]
    Refused,
    /// They are computed in floating point.
    Allowed,
    /// They are computed in floating point, between quantized values as fixed-point cores need them: with 16 bits,
    /// unless a quantized operator uses the value with fewer.
    Stored,
}

/// The user's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The number of bits of weights.
    pub weight_bits: Bits,
    /// The number of bits of activations: 8 or 16.
    pub activation_bits: Bits,
    /// The storage of biases.
    pub bias: BiasStorage,
    /// How weights are encoded.
    pub weight_encoding: WeightEncoding,
    /// How ranges are chosen of what values were.
    pub method: Method,
    /// The treatment of operators without a quantized form.
    pub float_ops: FloatOps,
    /// The core whose types determine how tensors of packages' operators are stored; the newest DSP by default.
    pub core: Core,
    /// Whether the weight ranges of consecutive convolutions are equalized: one scales its channels up, the other one down.
    pub equalize: bool,
    /// Whether biases are corrected for the mean shift caused by weight rounding.
    pub correct_biases: bool,
    /// Whether a histogram is kept for every value. Otherwise values have one only if `method` needs it.
    pub all_histograms: bool,
    /// Encodings that are known, in the place of those that data or weights say.
    pub encodings: Encodings,
    /// How wide ranges are at least, where 0 may be stored as any integer: 1e-9 by default.
    pub least_width: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            weight_bits: Bits::Eight,
            activation_bits: Bits::Eight,
            bias: BiasStorage::default(),
            weight_encoding: WeightEncoding::default(),
            method: Method::default(),
            float_ops: FloatOps::default(),
            core: Core::dsp(u16::MAX),
            equalize: false,
            correct_biases: false,
            all_histograms: false,
            encodings: Encodings::default(),
            least_width: LEAST_WIDTH,
        }
    }
}

impl Settings {
    fn weights(&self) -> Scheme {
        match self.weight_encoding {
            WeightEncoding::Asymmetric => Scheme::Asymmetric(self.weight_bits),
            WeightEncoding::Symmetric | WeightEncoding::PerChannel => {
                Scheme::Symmetric(self.weight_bits)
            }
        }
    }
}

/// The reason why a model cannot be quantized.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// The graph cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A pass left an invalid graph.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// An edit left an invalid graph, which is a bug in this library.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The model cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// An input does not match the model.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] TensorError),
    /// The model is quantized already.
    #[error("node {node:?} quantizes already, expected a float model")]
    Quantized {
        /// The first `QuantizeLinear` node.
        node: String,
    },
    /// No value of the model can be quantized.
    #[error("no operator of the model has a quantized form for f32")]
    Nothing,
    /// Operators have no quantized form.
    #[error("no quantized form of {}", sites::list(.nodes))]
    FloatOps {
        /// The nodes.
        nodes: Vec<FloatNode>,
    },
    /// A value had no element in any run.
    #[error("value {value:?} was never computed in {runs} runs, expected data that reach it")]
    Unseen {
        /// The value.
        value: String,
        /// The number of runs.
        runs: usize,
    },
    /// A value has infinite elements that are not only masks.
    #[error("value {value:?} is infinite for some inputs, expected numbers")]
    Infinite {
        /// The value.
        value: String,
    },
    /// A value has NaN elements.
    #[error("value {value:?} is NaN for some inputs, expected numbers")]
    NotANumber {
        /// The value.
        value: String,
    },
    /// Encodings are given for names that the model does not have.
    #[error("encodings are given for {names:?}, which the model does not have")]
    UnknownNames {
        /// The names.
        names: Vec<String>,
    },
    /// The quantized model does not run on its core.
    #[error("the quantized model: {error}")]
    Refused {
        /// The reason.
        error: Box<PlaceError>,
    },
    /// An encoding does not fit its value.
    #[error("value {value:?} is given {found}, expected {wanted}")]
    Encodings {
        /// The value.
        value: String,
        /// The given encoding.
        found: String,
        /// The expected encoding.
        wanted: String,
    },
}

impl Coded for QuantError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Compile(error) => error.code(),
            Self::Run(error) => error.code(),
            Self::Memory(_) => ErrorCode::OutOfMemory,
            Self::Port(_) | Self::Encodings { .. } | Self::UnknownNames { .. } => {
                ErrorCode::InvalidArgument
            }
            Self::Resolve(_)
            | Self::Quantized { .. }
            | Self::Nothing
            | Self::FloatOps { .. }
            | Self::Unseen { .. }
            | Self::Infinite { .. }
            | Self::NotANumber { .. }
            | Self::Refused { .. } => ErrorCode::Unsupported,
            Self::Pass(_) | Self::Graph(_) => ErrorCode::Internal,
        }
    }
}

/// A model to quantize.
///
/// A quantizer does not change after [`Quantizer::new`], and several calibrations may use it at once.
///
/// ```
/// use udo_api::Shape;
/// use udo_runtime::compile::BindOptions;
/// use udo_runtime::graph::Graph;
/// use udo_runtime::quant::{Quantizer, Settings};
/// use udo_runtime::{CompileOptions, Runtime, Tensor};
///
/// let runtime = Runtime::new()?;
/// let text = "graph g\n  input x: f32[1,4]\n  constant w: f32[4,2]{0.5}\n  y = MatMul@13(x, w)\n  output y\n";
/// let (graph, bind) = (Graph::parse(text)?, BindOptions::default());
/// let quantizer = Quantizer::new(graph, &runtime, &bind, Settings::default())?;
/// let mut calibration = quantizer.calibration(&runtime, &CompileOptions::default())?;
/// let x = Tensor::from_slice(Shape::new(&[1, 4])?, &[-1.0f32, 0.0, 0.5, 1.0])?;
/// calibration.add(&[("x".to_owned(), x)])?;
/// let quantized = quantizer.finish(&calibration)?;
/// assert!(quantized.graph.nodes.iter().any(|node| node.op == "QuantizeLinear"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Quantizer {
    graph: Graph,
    sites: Sites,
    settings: Settings,
}

/// A quantized model.
#[derive(Debug)]
pub struct Quantized {
    /// Its graph.
    pub graph: Graph,
    /// The quantized values, in the order of the graph.
    pub encoded: Vec<Encoded>,
    /// Nodes that compute in floating point.
    pub floats: Vec<FloatNode>,
    /// Values whose range is narrower than the smallest width, so that their steps are too coarse.
    pub narrow: Vec<Narrow>,
    /// The names of encodings that were given and are not used, each with the reason.
    pub unused: BTreeMap<String, String>,
}

/// A value whose range was widened to [`Settings::least_width`], which loses precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Narrow {
    /// Its name.
    pub name: String,
    /// The width of its actual range, including 0.
    pub width: f64,
    /// Its signal-to-noise ratio in dB.
    pub decibels: f64,
}

/// Compiles a graph that is only run to observe its values.
fn model_of(
    mut graph: Graph,
    resources: &Resources,
    options: &CompileOptions,
) -> Result<Model, CompileError> {
    let affinity = place::pin(&mut graph, &options.place.affinity)?;
    let place = PlaceOptions { affinity, ..options.place.clone() };
    let options = CompileOptions { place, ..options.clone() };
    let shared = Shared::new(&options, &Queues::new(Devices::default()))?;
    let mut resources = resources.clone();
    resources.constants.charge(shared.budget.clone());
    let stage = Stage::compile(graph, resources, &options, &shared)?;
    Ok(Model::of_stage(Arc::new(stage), shared))
}

impl Quantizer {
    /// Folds constants into neighboring products, and determines which values can be quantized. `bind` states the
    /// extents that the model leaves open.
    ///
    /// # Errors
    /// The graph cannot be resolved, is quantized already, or has operators without a quantized form.
    pub fn new(
        mut graph: Graph,
        resources: &impl AsRef<Resources>,
        bind: &BindOptions,
        settings: Settings,
    ) -> Result<Self, QuantError> {
        if let Some(node) = graph.nodes.iter().find(|node| node.op == QUANTIZE) {
            return Err(QuantError::Quantized { node: node.name.clone() });
        }
        unused::check(&graph, settings.encodings.names().into_iter())?;
        widen::widen(&mut graph)?;
        let options = CompileOptions { bind: bind.clone(), ..CompileOptions::default() };
        let compiler = resources.as_ref().compiler(&options);
        fold::fold(&mut graph, &compiler)?;
        let mut typed = resolve::run(&compiler, graph.clone())?.graph;
        if settings.equalize && equalize::equalize(&mut graph, &typed)? > 0 {
            typed = resolve::run(&compiler, graph.clone())?.graph;
        }
        let mut fused = typed.clone();
        let mut passes = PassOptions::none();
        passes.skip.retain(|pass| !FUSED.contains(&pass.as_str()));
        pass::run(&compiler, &mut fused, &passes, Core::CPU)?;
        let float_ops_and_core = (settings.float_ops, settings.core);
        let bits = settings.activation_bits;
        let sites =
            sites::find(&graph, [&typed, &fused], compiler.operators, float_ops_and_core, bits);
        if sites.groups.is_empty() {
            return Err(QuantError::Nothing);
        }
        if settings.float_ops == FloatOps::Refused && !sites.floats.is_empty() {
            return Err(QuantError::FloatOps { nodes: sites.floats });
        }
        Ok(Self { graph, sites, settings })
    }

    fn statistics(&self) -> Statistics {
        let histograms =
            matches!(self.settings.method, Method::Percentile(_)) || self.settings.all_histograms;
        let means = if self.settings.correct_biases {
            correct::needed(&self.graph, &self.sites)
        } else {
            HashMap::new()
        };
        Statistics { histograms, means }
    }

    /// Returns the quantized model.
    ///
    /// # Errors
    /// A value was never computed or is infinite, or there is not enough memory.
    pub fn finish(&self, calibration: &Calibration) -> Result<Quantized, QuantError> {
        let levels = self.mask_levels(calibration);
        let mut of_groups = Vec::new();
        for group in &self.sites.groups {
            of_groups.push(self.encoding(group, calibration, &levels)?);
        }
        let given = &self.settings.encodings.params;
        let none = HashMap::new();
        let settings = &self.settings;
        let mut constants = Constants { settings, given, biases: &none, masks: &levels };
        let scale_of = |id: ValueId| {
            let group = self.sites.of.get(id).copied().flatten()?;
            of_groups.get(group).map(|(_, encoding): &(Levels, Encoding)| encoding.scale)
        };
        let biases = if self.settings.correct_biases {
            correct::correct(self, calibration, &constants, scale_of)?
        } else {
            HashMap::new()
        };
        constants.biases = &biases;
        let mut made = insert::insert(&self.graph, &self.sites, &of_groups, &constants)?;
        self.tell_masks(&mut made.encoded, calibration, &levels);
        let floats = self.sites.floats.clone();
        let narrow = self.narrow(calibration, &made.encoded);
        let unused = self.unused();
        Ok(Quantized { graph: made.graph, encoded: made.encoded, floats, narrow, unused })
    }

    /// Checks that every node of a quantized model has a kernel on the newest DSP.
    ///
    /// # Errors
    /// A node has no kernel; the error states the reason.
    pub fn check(
        quantized: &Quantized,
        resources: &impl AsRef<Resources>,
        options: &CompileOptions,
    ) -> Result<(), QuantError> {
        let cores = vec![Core::dsp(NEWEST_DSP)];
        let place = PlaceOptions { cores, fallback: Fallback::Off, ..options.place.clone() };
        let options = CompileOptions { place, ..options.clone() };
        let graph = quantized.graph.clone();
        match model_of(graph, resources.as_ref(), &options) {
            Err(CompileError::Place(error)) => Err(QuantError::Refused { error: Box::new(error) }),
            // Other errors depend on extents and memory, which may differ in a run.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns the observed range of a value, or of the value that it shares its encoding with.
    fn seen(&self, id: ValueId, calibration: &Calibration) -> Option<Seen> {
        let own = calibration.get(id);
        let group = || self.sites.groups.get(self.sites.of.get(id).copied().flatten()?);
        let watched = own.or_else(|| calibration.get(group()?.root))?;
        let seen = watched.observer.seen();
        (!seen.range.is_empty()).then_some(seen)
    }

    /// Records the range without masks for values that have masks.
    fn tell_masks(&self, encoded: &mut [Encoded], calibration: &Calibration, levels: &MaskLevels) {
        for (id, _) in self.sites.of.iter().filter(|(_, group)| group.is_some()) {
            let seen = self.seen(id, calibration);
            let unmasked = seen.filter(|seen| levels.range(id, seen).is_some());
            let (Some(seen), Ok(value)) = (unmasked, self.graph.value(id)) else { continue };
            let values = encoded.iter_mut().filter(|of| of.kind == Kind::Activation);
            for of in values.filter(|of| of.name == value.name) {
                of.unmasked = Some(seen.unmasked());
            }
        }
    }

    fn mask_levels(&self, calibration: &Calibration) -> MaskLevels {
        let steps = Levels::unsigned(self.settings.activation_bits).steps();
        let seen = |id| self.seen(id, calibration);
        MaskLevels::compute(&self.graph, &self.sites.masks, seen, steps)
    }

    /// Returns the integers that represent the values of a group.
    fn levels(&self, group: &sites::Group) -> Levels {
        Levels::unsigned(group.stored_for.bits(self.settings.activation_bits))
    }

    /// Returns the values that lost precision because their range is narrower than the smallest width.
    fn narrow(&self, calibration: &Calibration, encoded: &[Encoded]) -> Vec<Narrow> {
        let least_width = self.settings.least_width;
        let of = |encoded: &Encoded| {
            let name = encoded.name.clone();
            let is_given = |given: &BTreeMap<String, StatedEncodings>| given.contains_key(&name);
            match encoded.kind {
                Kind::Activation if !is_given(&self.settings.encodings.activations) => {
                    let observer = calibration.observer(&name)?;
                    let (width, decibels) = (
                        observer.chosen(self.settings.method).width(),
                        observer.coarse_decibels()?,
                    );
                    Some(Narrow { name, width, decibels })
                }
                Kind::Weights if !is_given(&self.settings.encodings.params) => {
                    let width = encoded.width.filter(|width| *width < least_width)?;
                    let decibels = encoded.noise.and_then(|noise| noise.decibels())?;
                    Some(Narrow { name, width, decibels })
                }
                Kind::Activation | Kind::Weights | Kind::Bias => None,
            }
        };
        encoded.iter().filter_map(of).collect()
    }

    /// Returns the encoding of a group.
    fn encoding(
        &self,
        group: &sites::Group,
        calibration: &Calibration,
        masks: &MaskLevels,
    ) -> Result<(Levels, Encoding), QuantError> {
        let value = || match self.graph.value(group.root) {
            Ok(value) => value.value().name.clone(),
            Err(_) => String::new(),
        };
        match self.stated(group) {
            None => {}
            Some((_, (levels, encodings))) if encodings.len() == 1 => {
                return Ok((*levels, encodings[0]));
            }
            Some((name, (_, encodings))) => {
                let (value, wanted) = (name.to_owned(), "1".to_owned());
                let found = format!("{} encodings", encodings.len());
                return Err(QuantError::Encodings { value, found, wanted });
            }
        }
        let range = self.range(group, calibration, masks);
        if range.is_empty() && group.fixed.is_none() {
            return Err(QuantError::Unseen { value: value(), runs: calibration.runs() });
        }
        if !range.is_empty() && !range.is_finite() {
            return Err(QuantError::Infinite { value: value() });
        }
        let (levels, least_width) = (self.levels(group), self.settings.least_width);
        Ok(match group.fixed {
            Some(fixed) => (levels, levels.fixed(fixed, range, least_width)),
            None => (levels, levels.asymmetric(range, least_width)),
        })
    }

    /// Returns the range of a group; masks are moved as close to 0 as possible.
    fn range(&self, group: &sites::Group, calibration: &Calibration, masks: &MaskLevels) -> Range {
        let Some(watched) = calibration.get(group.root) else { return Range::EMPTY };
        let (seen, chosen) =
            (watched.observer.seen(), watched.observer.chosen(self.settings.method));
        let has_tails = seen.rest.iter().any(Option::is_some);
        let mut range = match masks.widened(group.root, &seen, chosen) {
            Some(range) => range,
            None if has_tails => seen.range,
            None => chosen,
        };
        for &(padded, number) in &group.padded {
            let number = masks.put_in(padded, number, range);
            range = range.with(Range { min: number, max: number });
        }
        range
    }
}
