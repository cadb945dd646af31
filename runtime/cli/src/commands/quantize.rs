//! `udo quantize`

pub(crate) mod data;
mod report;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;
use udo_graph::container::{Contents, Network, Provenance, Stage, StoredGraph};
use udo_graph::export;
use udo_graph::import::Reading;
use udo_runtime::compile::BindOptions;
use udo_runtime::graph::ImportOptions;
use udo_runtime::quant::{
    BiasStorage, Bits, Calibration, Compared, Comparison, Encodings, FloatNode, FloatOps, Kind,
    Method, Narrow, QuantError, Quantized, Quantizer, Settings, WeightEncoding,
};
use udo_runtime::{CompileOptions, Runtime};

use super::Run;
use crate::failures::{compile_failure, container_failure};
use crate::model_flags::{given_once, parse_shape};
use crate::output::{Failure, Outcome, note, print_json, progress, warn, write_file};
use crate::package_flags::PackageFlags;
use crate::raw::Packing;
use data::Data;
use report::Report;
use udo_compile::compiler::Resources;
use udo_compile::resolve;

/// The least width that ranges may be asked to have: products of their steps are numbers in single precision.
const FINEST_WIDTH: f64 = 1e-12;

/// The most values that a warning names.
const MOST_NAMED: usize = 10;

/// Quantize a float model to 8-bit or 16-bit integers
///
/// The float model runs on calibration data, and the ranges of its values determine the scales and
/// zero points. The calibration data should resemble the data of later runs (docs/quantize.md).
///
/// The output is an ordinary model with `QuantizeLinear` and `DequantizeLinear` nodes: a model file
/// (.udm), or an ONNX file that other tools can run. This runtime executes the operators between
/// such nodes with integer kernels.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(
    override_usage = "udo quantize [OPTIONS] -o <FILE> <--input-list FILE|--calibration DIR|--random N> <MODEL>",
    after_help = "\
Examples:
  udo quantize model.onnx --input-list files.txt -o model.udm
  udo quantize model.onnx --calibration data --per-channel -o quantized.onnx
  udo quantize model.onnx --random 4 -o model.udm     random data, to estimate the speed"
)]
pub(crate) struct Quantize {
    /// ONNX file, model file (.udm) or printed graph
    model: PathBuf,
    /// Write the quantized model to this file, .udm or .onnx
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    data: DataFlags,
    /// Read .raw files in the inputs' own types instead of f32
    #[arg(long)]
    native_input: bool,
    /// Quantize weights to 4, 8 or 16 bits
    ///
    /// Weights of 4 bits are stored in 8 bits.
    #[arg(long, value_name = "BITS", default_value = "8", value_parser = parse_bits)]
    weights_bitwidth: Bits,
    /// Quantize activations to 8 or 16 bits
    ///
    /// Activations are the model's inputs and the outputs of its nodes.
    #[arg(long, value_name = "BITS", default_value = "8", value_parser = parse_wide_bits)]
    act_bitwidth: Bits,
    /// Quantize biases to 8 or 32 bits
    ///
    /// A 32-bit bias has the scale of the accumulator that it is added to.
    #[arg(long, value_name = "BITS", default_value = "32", value_parser = parse_bias)]
    bias_bitwidth: BiasStorage,
    /// Give weights a separate scale for each output channel
    ///
    /// Their zero points are 0.
    #[arg(long)]
    per_channel: bool,
    /// Set the zero points of weights to 0
    #[arg(long)]
    symmetric_weights: bool,
    /// Choose the ranges of activations by this method
    ///
    /// METHOD is `min-max`, which covers all values of the calibration data, or `percentile`, which
    /// covers 99.99 % of them. `percentile:P` covers P %, as in `percentile:99.9`.
    #[arg(long, value_name = "METHOD", default_value = "min-max", value_parser = parse_method)]
    act_range: Method,
    /// Widen ranges that are narrower than this
    ///
    /// SNPE uses 0.01. A warning names each value whose range was widened, with its
    /// signal-to-quantization-noise ratio (SQNR).
    #[arg(long, value_name = "WIDTH", default_value_t = Settings::default().least_width, value_parser = parse_width)]
    min_range: f64,
    /// Apply cross-layer equalization to weights
    ///
    /// Scales the channels of consecutive convolutions, one up and the other down, until the ranges
    /// of their weights match.
    #[arg(long)]
    cle: bool,
    /// Correct biases for the mean shift caused by weight rounding
    #[arg(long)]
    bias_correction: bool,
    /// Read encodings from this file, in AIMET's format
    ///
    /// The values and weights that the file names get these encodings. All others get encodings
    /// from the calibration data.
    #[arg(long, value_name = "FILE")]
    encodings: Option<PathBuf>,
    /// Write the encodings to this file, in AIMET's format
    #[arg(long, value_name = "FILE")]
    export_encodings: Option<PathBuf>,
    /// Write an HTML report to this file
    ///
    /// The report shows the ranges, encodings and errors of all values, with histograms. To measure
    /// the errors, both models run on the calibration data once more.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Let operators without a quantized kernel compute in float
    #[arg(long)]
    float_fallback: bool,
    /// Quantize the inputs and outputs of all operators
    ///
    /// The DSP needs such a model. An operator without a quantized kernel then computes in float,
    /// between 16-bit quantized values.
    #[arg(long, conflicts_with = "float_fallback")]
    store_all: bool,
    /// Set the shape of an input that the model leaves open
    ///
    /// SHAPE is a comma-separated list of sizes. Needed for .raw files, which contain no shape.
    ///
    /// Example: `--shape image=1,3,224,224`
    #[arg(long, value_name = "NAME=SHAPE", value_parser = parse_shape)]
    shape: Vec<(String, Vec<usize>)>,
    #[command(flatten)]
    packages: PackageFlags,
    /// Calibrate on N threads [default: number of processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The data that a model is calibrated with.
#[derive(Args, Debug, Default)]
#[group(required = true, multiple = false)]
pub(crate) struct DataFlags {
    /// Calibrate with the input files in this list, as for `udo run`
    ///
    /// Names of values in its first line are ignored.
    #[arg(long, value_name = "FILE")]
    pub(crate) input_list: Option<PathBuf>,
    /// Calibrate with the recorded inputs in this folder
    ///
    /// The folder contains folders such as `test_data_set_0`, each with files such as `input_0.pb`.
    /// For a model with one input, it may instead contain one file for each run.
    #[arg(long, value_name = "DIR")]
    pub(crate) calibration: Option<PathBuf>,
    /// Calibrate with N runs on random inputs
    ///
    /// Random inputs have other ranges than real data. Use this flag to estimate speed, not
    /// accuracy.
    #[arg(long, value_name = "N")]
    pub(crate) random: Option<NonZero<usize>>,
}

fn parse_bits(text: &str) -> Result<Bits, String> {
    let count: Option<u32> = text.parse().ok();
    let all = [Bits::Four, Bits::Eight, Bits::Sixteen];
    let bits = all.into_iter().find(|bits| Some(u32::from(*bits)) == count);
    bits.ok_or_else(|| "expected 4, 8 or 16".to_owned())
}

fn parse_wide_bits(text: &str) -> Result<Bits, String> {
    parse_bits(text)
        .ok()
        .filter(|bits| *bits != Bits::Four)
        .ok_or_else(|| "expected 8 or 16".to_owned())
}

fn parse_bias(text: &str) -> Result<BiasStorage, String> {
    match text {
        "8" => Ok(BiasStorage::Eight),
        "32" => Ok(BiasStorage::Sums),
        _ => Err("expected 8 or 32".to_owned()),
    }
}

fn parse_width(text: &str) -> Result<f64, String> {
    let width = text.parse().ok().filter(|width: &f64| width.is_finite() && *width >= FINEST_WIDTH);
    width.ok_or_else(|| format!("expected a number from {FINEST_WIDTH:e} on"))
}

fn parse_method(text: &str) -> Result<Method, String> {
    let percent = match text.split_once(':') {
        None if text == "min-max" => return Ok(Method::MinMax),
        None if text == "percentile" => Some(99.99),
        Some(("percentile", percent)) => percent.parse().ok(),
        _ => None,
    };
    let percent = percent.filter(|percent| (50.0..=100.0).contains(percent));
    percent.map(Method::Percentile).ok_or_else(|| {
        "expected min-max, percentile, or percentile:P with P of 50 to 100".to_owned()
    })
}

/// The format of a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Onnx,
    Udm,
}

impl Run for Quantize {
    fn run(self) -> Outcome {
        let format = self.format()?;
        let runtime = self.packages.open()?;
        let graph = runtime.import(&self.model, &ImportOptions::default())?;
        let packing = Packing::native_if(self.native_input);
        given_once("--shape", &self.shape.iter().map(|(name, _)| name).collect::<Vec<_>>())?;
        let data = Data::find(&self.data, packing, &graph, &self.shape)?;
        let bind = BindOptions { shapes: data.shapes()?, ..BindOptions::default() };
        let refused = |error: QuantError| Self::failure(error, &runtime);
        let source = Quantizer::new(graph, &runtime, &bind, self.settings()?).map_err(refused)?;
        let mut calibration = source.calibration(&runtime, &self.options()).map_err(refused)?;
        let bar = progress("calibrating", data.runs());
        for run in 0..data.runs() {
            let inputs = data.read(run)?;
            calibration.add(&inputs).map_err(refused).map_err(|failure| data.at(run, failure))?;
            bar.advance(1);
        }
        drop(bar);
        let quantized = source.finish(&calibration).map_err(refused)?;
        if !self.float_fallback && !self.store_all {
            let options = CompileOptions { bind: bind.clone(), ..self.options() };
            Quantizer::check(&quantized, &runtime, &options).map_err(refused)?;
        }
        self.write(format, &quantized, &runtime, &bind)?;
        if let Some(path) = &self.export_encodings {
            write_file(path, Encodings::text(&quantized.encoded).as_bytes())?;
        }
        if let Some(path) = &self.report {
            let compared = self.compare(&source, &quantized, &runtime, &data)?;
            let report = Report {
                model: &self.model,
                sizes: self.sizes()?,
                quantized: &quantized,
                calibration: &calibration,
                compared: &compared,
            };
            write_file(path, report.page().as_bytes())?;
        }
        self.say(&quantized, &calibration)
    }
}

impl Quantize {
    fn format(&self) -> Result<Format, Failure> {
        let suffix = self.output.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        Format::from_str(suffix, true).map_err(|_| {
            let text = format!("{} has no known ending", self.output.display());
            Failure::usage(text).help("name it .udm or .onnx")
        })
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let encodings = match &self.encodings {
            None => Encodings::default(),
            Some(path) => {
                let text =
                    udo_files::read_to_string(path, udo_files::TEXT_BYTES).map_err(|error| {
                        Failure::new(format!("cannot read encodings {}: {error}", path.display()))
                    })?;
                text.parse::<Encodings>().map_err(|error| Failure::new(error).at(path.display()))?
            }
        };
        Ok(Settings {
            weight_bits: self.weights_bitwidth,
            activation_bits: self.act_bitwidth,
            bias: self.bias_bitwidth,
            weight_encoding: match (self.per_channel, self.symmetric_weights) {
                (true, _) => WeightEncoding::PerChannel,
                (false, true) => WeightEncoding::Symmetric,
                (false, false) => WeightEncoding::Asymmetric,
            },
            method: self.act_range,
            float_ops: match (self.store_all, self.float_fallback) {
                (true, _) => FloatOps::Stored,
                (false, true) => FloatOps::Allowed,
                (false, false) => FloatOps::Refused,
            },
            equalize: self.cle,
            correct_biases: self.bias_correction,
            all_histograms: self.report.is_some(),
            encodings,
            least_width: self.min_range,
            ..Settings::default()
        })
    }

    /// Runs both models over the data.
    fn compare(
        &self,
        source: &Quantizer,
        quantized: &Quantized,
        runtime: &Runtime,
        data: &Data,
    ) -> Result<Vec<Compared>, Failure> {
        let refused = |error: QuantError| Self::failure(error, runtime);
        let mut comparison =
            Comparison::new(source, quantized, runtime, &self.options()).map_err(refused)?;
        let bar = progress("comparing", data.runs());
        for run in 0..data.runs() {
            comparison.add(&data.read(run)?).map_err(refused)?;
            bar.advance(1);
        }
        Ok(comparison.values)
    }

    /// How many bytes the files have, before and after.
    fn sizes(&self) -> Result<[u64; 2], Failure> {
        let bytes = |path: &Path| std::fs::metadata(path).map(|of| of.len());
        Ok([bytes(&self.model)?, bytes(&self.output)?])
    }

    fn options(&self) -> CompileOptions {
        let all = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        CompileOptions { threads: self.threads.unwrap_or(all), ..CompileOptions::default() }
    }

    fn failure(error: QuantError, runtime: &Runtime) -> Failure {
        let help = match error {
            QuantError::Compile(error) => return compile_failure(error, None, runtime),
            QuantError::Resolve(error) => {
                return compile_failure(error.into(), None, runtime);
            }
            QuantError::FloatOps { .. } => {
                Some("--float-fallback lets them compute in floating point")
            }
            QuantError::UnknownNames { .. } => Some(
                "leave them out, or say them as the model does: `udo inspect` lists its values",
            ),
            QuantError::Refused { .. } => Some(
                "--float-fallback writes it as it is, for runs with a core for such nodes besides: --cores dsp,cpu",
            ),
            QuantError::Quantized { .. } => Some("quantize the model that it was made of"),
            QuantError::Infinite { .. } | QuantError::NotANumber { .. } => Some(
                "leave such numbers out of the data: only masks may be infinite, as they are added to scores or put in their place",
            ),
            QuantError::Unseen { .. } => Some(
                "look at the value with `udo run` of a model that ends there: `udo convert --out-node`",
            ),
            _ => None,
        };
        let failure = Failure::new(error);
        match help {
            Some(help) => failure.help(help),
            None => failure,
        }
    }

    fn write(
        &self,
        format: Format,
        quantized: &Quantized,
        runtime: &Runtime,
        bind: &BindOptions,
    ) -> Outcome {
        match format {
            Format::Onnx => {
                let mut graph = quantized.graph.clone();
                let options = CompileOptions { bind: bind.clone(), ..CompileOptions::default() };
                let resources: &Resources = runtime.as_ref();
                resolve::raise(&resources.compiler(&options), &mut graph)?;
                write_file(&self.output, &export::to_onnx(&graph)?)
            }
            Format::Udm => {
                let written = self.contents(quantized)?.write(&self.output);
                written.map_err(|error| container_failure(&self.output, error))
            }
        }
    }

    fn contents(&self, quantized: &Quantized) -> Result<Contents, Failure> {
        let bytes = Reading::Mapped.bytes(&self.model)?;
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tool = format!("udo {} quantize", udo_api::SDK_VERSION);
        let origin = Provenance::new(&name(&self.model), &bytes, &tool, self.flags());
        let graph = StoredGraph::new(quantized.graph.clone());
        let stage = Stage { shapes: std::collections::BTreeMap::new(), source: origin, graph };
        let stem = self.model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let networks = vec![Network { name: stem, stages: vec![stage] }];
        Ok(Contents { networks, sections: Vec::new() })
    }

    /// Returns the flags that determine the contents of the file, for its provenance.
    fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("--weights-bitwidth {}", u32::from(self.weights_bitwidth)),
            format!("--act-bitwidth {}", u32::from(self.act_bitwidth)),
        ];
        let are_set = [
            (self.bias_bitwidth == BiasStorage::Eight, "--bias-bitwidth 8"),
            (self.per_channel, "--per-channel"),
            (self.symmetric_weights, "--symmetric-weights"),
            (self.cle, "--cle"),
            (self.bias_correction, "--bias-correction"),
            (self.encodings.is_some(), "--encodings"),
            (self.float_fallback, "--float-fallback"),
            (self.store_all, "--store-all"),
        ];
        flags.extend(are_set.iter().filter(|(is, _)| *is).map(|(_, flag)| (*flag).to_owned()));
        if self.min_range.to_bits() != Settings::default().least_width.to_bits() {
            flags.push(format!("--min-range {}", self.min_range));
        }
        if let Method::Percentile(percent) = self.act_range {
            flags.push(format!("--act-range percentile:{percent}"));
        }
        flags
    }

    /// Says of which values too little is left, as their ranges are narrower than the least width.
    fn warn_of_narrow(&self, narrow: &[Narrow]) {
        let Some(least) = narrow.iter().map(|of| of.width).min_by(f64::total_cmp) else { return };
        let least = least.max(FINEST_WIDTH);
        let width = self.min_range;
        for Narrow { name, width: own, decibels } in narrow.iter().take(MOST_NAMED) {
            let help = format!("--min-range {least:.1e} keeps these ranges");
            warn(
                format!(
                    "the range of value {name:?} was widened from {own:.2e} to the minimum of {width}: its SQNR is {decibels:.1} dB"
                ),
                &help,
            );
        }
        if let Some(more @ 1..) = narrow.len().checked_sub(MOST_NAMED) {
            note(format!("{more} more values have widened ranges; --json lists all"));
        }
    }

    fn say(&self, quantized: &Quantized, calibration: &Calibration) -> Outcome {
        let runs = calibration.runs();
        let [before, bytes] = self.sizes()?;
        let count = |kind| quantized.encoded.iter().filter(|of| of.kind == kind).count();
        let [activations, weights, biases] =
            [Kind::Activation, Kind::Weights, Kind::Bias].map(count);
        if self.json {
            let floats = quantized.floats.iter();
            let floats = floats.map(|FloatNode { node, op }| json!({ "node": node, "op": op }));
            let narrow = quantized.narrow.iter().map(|Narrow { name, width, decibels }| {
                json!({ "value": name, "range": width, "decibels": decibels })
            });
            let unused = quantized.unused.iter();
            let unused = unused.map(|(name, why)| json!({ "name": name, "why": why }));
            print_json(&json!({
                "output": self.output.to_string_lossy(), "bytes": bytes, "bytes_before": before, "runs": runs,
                "activations": activations, "weights": weights, "biases": biases,
                "float_nodes": floats.collect::<Vec<_>>(), "random": self.data.random.is_some(),
                "narrow": narrow.collect::<Vec<_>>(), "unused_encodings": unused.collect::<Vec<_>>(),
            }));
            return Ok(());
        }
        for name in calibration.not_numbers().take(MOST_NAMED) {
            note(format!("value {name:?} is NaN for some inputs; its range ignores them"));
        }
        if self.data.random.is_some() {
            note(format!(
                "ranges come from {runs} runs on random inputs and do not fit real data; use --input-list or \
                 --calibration with representative data"
            ));
        }
        self.warn_of_narrow(&quantized.narrow);
        for (name, why) in quantized.unused.iter().take(MOST_NAMED) {
            let help =
                "results do not depend on it: remove it, or see the stored encodings in `--report`";
            warn(format!("the encoding of {name:?} is not used: {why}"), help);
        }
        if let Some(more @ 1..) = quantized.unused.len().checked_sub(MOST_NAMED) {
            note(format!("{more} more encodings are not used; --json lists all"));
        }
        if !quantized.floats.is_empty() {
            note(format!("{} nodes compute in floating point", quantized.floats.len()));
        }
        let output = self.output.display();
        outln!(
            "{output}: {activations} values, {weights} weights and {biases} biases quantized with ranges of {runs} runs; \
             {bytes} bytes, float model {before} bytes"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_ranges_are_those_that_there_are() {
        assert_eq!(parse_bits("4"), Ok(Bits::Four));
        assert_eq!(parse_wide_bits("16"), Ok(Bits::Sixteen));
        assert_eq!(parse_bias("8"), Ok(BiasStorage::Eight));
        assert_eq!(parse_method("min-max"), Ok(Method::MinMax));
        assert_eq!(parse_method("percentile"), Ok(Method::Percentile(99.99)));
        assert_eq!(parse_method("percentile:99.9"), Ok(Method::Percentile(99.9)));
        for wrong in ["", "5", "-8", "32"] {
            assert!(parse_bits(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_width("1e-6"), Ok(1e-6));
        for wrong in ["", "0", "-1", "nan", "inf", "1e-13"] {
            assert!(parse_width(wrong).unwrap_err().starts_with("expected a number"), "{wrong}");
        }
        assert!(parse_wide_bits("4").is_err() && parse_bias("16").is_err());
        for wrong in ["", "max", "percentile:", "percentile:101", "percentile:3", "percentile:nan"]
        {
            assert!(parse_method(wrong).unwrap_err().starts_with("expected min-max"), "{wrong}");
        }
    }
}
