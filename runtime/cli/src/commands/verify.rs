//! `udo verify`

mod against;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use udo_api::Core;
use udo_runtime::{Session, Tensor};
use udo_compile::place::core_named;

use super::Run;
use super::quantize::DataFlags;
use crate::loaded::{prepare, run_and_say, set_inputs};
use crate::model_flags::ModelFlags;
use crate::output::{Failure, Outcome, note, print_json, progress};
use crate::ranges::{self, Given};
use crate::raw::Packing;
use crate::required::{placement, placement_to_json};
use crate::stages::{Ready, Stages, shapes_of_set};
use crate::tensors::{self, Recorded};
use crate::unchecked::{self, AllowUnchecked, Unrun};
use crate::values::{self, Difference, Tolerance};

/// Compare a model's outputs with recorded ones or with another core's
///
/// With --data, the model runs on recorded inputs and its outputs are compared with recorded outputs. The folder
/// holds `input_0.pb` .. and `output_0.pb` .., or folders `test_data_set_0` .. of such files, as in ONNX's own tests.
/// Files may be .npy as well. Sets may have different shapes if the model leaves them open.
///
/// With --against, the reference is the same model on other cores, for recorded or pseudo-random inputs. Add
/// --per-layer to compare the outputs of each node and to find the first one that differs.
///
/// An element passes if |actual - expected| <= atol + rtol * |expected|. Quantized values are compared as integers:
/// --atol 1 allows a difference of one step.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo verify model.onnx --data test_data_set_0 --rtol 1e-3 --atol 1e-5
  udo verify model.onnx --cores dsp,cpu --against cpu --random 4 --per-layer --atol 1
  udo verify model.onnx --cores gpu --against cpu --random 4 --package MyPackage")]
pub(crate) struct Verify {
    #[command(flatten)]
    model: ModelFlags,
    /// Folder with recorded inputs and outputs
    #[arg(long, value_name = "DIR", required_unless_present = "random")]
    data: Option<PathBuf>,
    /// Cores that compute the reference, in order of preference
    ///
    /// Nodes that none of them supports run on the CPU.
    #[arg(long, value_name = "CORES", value_delimiter = ',', value_parser = core_named)]
    against: Vec<Core>,
    /// Number of pseudo-random input sets
    #[arg(long, value_name = "N", requires = "against", conflicts_with = "data")]
    random: Option<NonZero<u32>>,
    /// Seed of the first pseudo-random set
    #[arg(long, value_name = "N", default_value = "1", requires = "random")]
    seed: u64,
    /// Compare the outputs of each node
    #[arg(long, requires = "against")]
    per_layer: bool,
    /// Allowed difference relative to the expected value
    #[arg(long, value_name = "X", default_value = "1e-3")]
    rtol: f64,
    /// Allowed absolute difference
    #[arg(long, value_name = "X", default_value = "1e-5")]
    atol: f64,
    #[command(flatten)]
    allow: AllowUnchecked,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How one output compares.
struct Compared {
    name: String,
    difference: Result<Difference, String>,
}

impl Compared {
    fn passed(&self) -> bool {
        self.difference.as_ref().is_ok_and(|d| d.mismatches == 0)
    }
}

impl Run for Verify {
    fn run(mut self) -> Outcome {
        let random = self.random.and_then(|sets| NonZero::<usize>::try_from(sets).ok());
        let data = DataFlags { calibration: self.data.clone(), random, ..DataFlags::default() };
        self.model.ranges_of = ranges::of(&self.model, Given::Data(data), Packing::Float32);
        let Some(data) = self.data.as_ref().filter(|_| self.against.is_empty()) else {
            return self.against();
        };
        let mut stages = Stages::new(&self.model)?;
        let mut compared = Vec::new();
        let sets = tensors::sets(data)?;
        let bar = progress("comparing", sets.len());
        for set in sets {
            let Ready { loaded, session, .. } = stages.at(|names| shapes_of_set(&set, names))?;
            let inputs = tensors::read_set(&set, &loaded.model)?;
            set_inputs(session, loaded, &inputs)?;
            prepare(session, loaded)?;
            run_and_say(session, loaded, Session::run)?;
            compared.extend(self.compare(session, loaded.model.outputs(), &set)?);
            bar.advance(1);
        }
        drop(bar);
        let passed = compared.iter().all(Compared::passed);
        let unrun = unchecked::unrun(stages.reports());
        let placed = stages.reports();
        if self.json {
            let outputs: Vec<_> = compared.iter().map(to_json).collect();
            let placed: Vec<_> = placed.map(placement_to_json).collect();
            print_json(&json!({
                "passed": passed && self.allow.accepts(&unrun), "outputs": outputs,
                "unchecked": unrun.iter().map(Unrun::to_json).collect::<Vec<_>>(),
                "placement": placed, "cache": stages.cache(),
            }));
        } else {
            compared.iter().for_each(say);
            placed.for_each(|report| note(format!("ran {}", placement(report))));
        }
        if passed {
            return unchecked::verdict(&unchecked::lines(&unrun), self.allow);
        }
        let failed = compared.iter().filter(|c| !c.passed()).count();
        Err(Failure::new(format!("{failed} of {} outputs differ", compared.len())))
    }
}

fn to_json(compared: &Compared) -> serde_json::Value {
    match &compared.difference {
        Ok(d) => json!({
            "name": compared.name, "max_abs": d.max_abs, "max_rel": d.max_rel, "mismatches": d.mismatches,
            "largest": d.largest, "sqnr_db": d.sqnr_db(),
        }),
        Err(reason) => json!({ "name": compared.name, "error": reason }),
    }
}

fn say(compared: &Compared) {
    let verdict = if compared.passed() { "ok" } else { "differs" };
    match &compared.difference {
        Ok(d) => outln!(
            "{}: {verdict}, max abs {:.3e}, max rel {:.3e}, {} mismatches",
            compared.name,
            d.max_abs,
            d.max_rel,
            d.mismatches
        ),
        Err(reason) => outln!("{}: {verdict}, {reason}", compared.name),
    }
}

impl Verify {
    fn compare(
        &self,
        session: &Session,
        names: &[String],
        set: &Path,
    ) -> Result<Vec<Compared>, Failure> {
        let tolerance = Tolerance { rtol: self.rtol, atol: self.atol };
        let mut compared = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let found = session.output_tensor(name)?;
            let wanted = tensors::read(&Recorded::output(index).file(set)?)?;
            let difference = difference(&found, &wanted, tolerance);
            compared.push(Compared { name: name.clone(), difference });
        }
        Ok(compared)
    }
}

fn difference(found: &Tensor, wanted: &Tensor, tolerance: Tolerance) -> Result<Difference, String> {
    if found.dtype() != wanted.dtype() || found.dims() != wanted.dims() {
        return Err(format!("it is {}, wanted {}", found.desc(), wanted.desc()));
    }
    Ok(values::compare(&values::numbers(found), &values::numbers(wanted), tolerance))
}
