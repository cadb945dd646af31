//! `udo verify`

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use udo_api::Core;
use udo_compile::place::core_named;
use udo_runtime::Report;
use udo_runtime::Tensor;
use udo_runtime::{Model, Session};

use super::Run;
use super::quantize::DataFlags;
use crate::cores::PlaceFlags;
use crate::layers::{self, Layer, LeftOut};
use crate::loaded::{prepare, run_and_say, set_inputs};
use crate::model_flags::ModelFlags;
use crate::output::{Failure, Outcome, note, print_json, progress};
use crate::ranges::{self, InputSource};
use crate::raw::Packing;
use crate::required::{placement, placement_to_json};
use crate::stages::{Ready, Shapes, Stages, shapes_of_set};
use crate::tensors::{self, Recorded, Set};
use crate::unchecked::{self, AllowUnchecked, Unrun};
use crate::values::{self, Difference, Tolerance};

/// Compare a model's outputs with recorded outputs or another core's
///
/// With --data the model runs on recorded inputs, and its outputs are compared with recorded outputs.
/// The folder contains files such as `input_0.pb` and `output_0.pb`, or folders such as
/// `test_data_set_0` with such files, as in ONNX's own tests. Files may also be .npy files. If the
/// model has open shapes, each set may have its own.
///
/// With --against the reference is the same model on other cores, on recorded or pseudo-random
/// inputs. Add --per-layer to compare the outputs of each node and to find the first node that
/// differs.
///
/// An element passes if |actual - expected| <= atol + rtol * |expected|. Quantized values are
/// compared as integers: --atol 1 allows a difference of one quantization step.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  udo verify model.onnx --data test_data_set_0 --rtol 1e-3 --atol 1e-5
  udo verify model.onnx --cores dsp,cpu --against cpu --random 4 --per-layer --atol 1
  udo verify model.onnx --cores gpu --against cpu --random 4 --package MyPackage")]
pub(crate) struct Verify {
    #[command(flatten)]
    model: ModelFlags,
    /// Read recorded inputs and outputs from this folder
    #[arg(long, value_name = "DIR", required_unless_present = "random")]
    data: Option<PathBuf>,
    /// Compute the reference on these cores
    ///
    /// A comma-separated list, in order of preference. Nodes that none of them supports run on the
    /// CPU.
    #[arg(long, value_name = "CORES", value_delimiter = ',', value_parser = core_named)]
    against: Vec<Core>,
    /// Compare on N sets of pseudo-random inputs
    #[arg(long, value_name = "N", requires = "against", conflicts_with = "data")]
    random: Option<NonZero<u32>>,
    /// Set the seed of the first pseudo-random set
    #[arg(long, value_name = "N", default_value = "1", requires = "random")]
    seed: u64,
    /// Compare the outputs of each node
    #[arg(long, requires = "against")]
    per_layer: bool,
    /// Allow this difference relative to the expected value
    #[arg(long, value_name = "NUMBER", default_value = "1e-3")]
    rtol: f64,
    /// Allow this absolute difference
    #[arg(long, value_name = "NUMBER", default_value = "1e-5")]
    atol: f64,
    #[command(flatten)]
    allow: AllowUnchecked,
    /// Print one JSON object instead of text
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
        self.model.range_source =
            ranges::source(&self.model, InputSource::Data(data), Packing::Float32);
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
        return Err(format!("it is {}, expected {}", found.desc(), wanted.desc()));
    }
    Ok(values::compare(&values::numbers(found), &values::numbers(wanted), tolerance))
}

/// A set of inputs: its shapes by name, and itself once a model is there to read it for.
enum Inputs {
    Recorded(std::path::PathBuf),
    Random(u64),
}

impl Inputs {
    fn shapes(&self, names: &[String]) -> Result<Shapes, Failure> {
        match self {
            Self::Recorded(folder) => shapes_of_set(folder, names),
            Self::Random(_) => Ok(Shapes::new()),
        }
    }

    fn read(&self, model: &Model) -> Result<Set, Failure> {
        match self {
            Self::Recorded(folder) => tensors::read_set(folder, model),
            Self::Random(seed) => tensors::random_set(model, *seed),
        }
    }
}

/// A value that differs somewhere, or how near it comes.
struct Found {
    compared: Compared,
    node: Option<String>,
}

/// A way to have a model give values besides its outputs, on the cores that are tested and on the others.
struct Plans<'a> {
    tested: Stages<'a>,
    others: Stages<'a>,
}

/// The values of one set of inputs, by name.
type Values = BTreeMap<String, Tensor>;

impl<'a> Plans<'a> {
    fn new([tested, others]: &'a [ModelFlags; 2]) -> Result<Self, Failure> {
        Ok(Self { tested: Stages::new(tested)?, others: Stages::new(others)? })
    }

    /// The names of the outputs, and what the tested cores and the others make of a set.
    fn run(&mut self, set: &Inputs) -> Result<(Vec<String>, [Values; 2]), Failure> {
        let (names, found) = results(&mut self.tested, set)?;
        let (_, wanted) = results(&mut self.others, set)?;
        Ok((names, [found, wanted]))
    }
}

/// The inner values that are compared besides the model's outputs.
#[derive(Default)]
struct Layers {
    values: layers::Values,
    /// The inner values in groups, each of which one plan can have as outputs.
    groups: Vec<Vec<String>>,
    /// Inner values that no plan can have as outputs, and why.
    refused: Vec<LeftOut>,
}

impl Verify {
    /// Compares what the model's cores make of each set of inputs with what others make.
    fn against(&self) -> Outcome {
        let sets = self.inputs()?;
        let layers = if self.per_layer { self.layers(&sets)? } else { Layers::default() };
        let made = layers.values.made.iter().map(|layer| layer.value.clone());
        let flags = self.flags(made.collect());
        let flags_of_groups: Vec<_> =
            layers.groups.iter().map(|values| self.flags(values.clone())).collect();
        let mut plans = Plans::new(&flags)?;
        let mut groups: Vec<Plans<'_>> =
            flags_of_groups.iter().map(Plans::new).collect::<Result<_, _>>()?;
        // The model's outputs are those of the plan that runs have, which makes nothing besides.
        let mut plain = (!flags[0].more_outputs.is_empty()).then(|| Stages::new(&self.model));
        let mut all = Vec::new();
        let bar = progress("comparing", sets.len());
        for set in &sets {
            let (names, [mut found, mut wanted]) = plans.run(set)?;
            for group in &mut groups {
                let (_, [inner, inner_wanted]) = group.run(set)?;
                for (all, more) in [(&mut found, inner), (&mut wanted, inner_wanted)] {
                    for (name, of) in more {
                        all.entry(name).or_insert(of);
                    }
                }
            }
            if let Some(Ok(stages)) = &mut plain {
                found.extend(results(stages, set)?.1);
            }
            let reports: Vec<&Report> = plans.tested.reports().collect();
            all.extend(self.compare_all((&layers, &reports), &names, &found, &wanted));
            bar.advance(1);
        }
        drop(bar);
        let placed = [&plans.tested, &plans.others].map(|stages| stages.reports().collect());
        self.conclude(&all, &layers, &placed)
    }

    /// The model with these values as outputs besides its own, on the cores that are tested and on the others.
    fn flags(&self, more_outputs: Vec<String>) -> [ModelFlags; 2] {
        let tested = ModelFlags { more_outputs, ..self.model.clone() };
        let others = ModelFlags {
            place: PlaceFlags::on(self.against.clone()),
            require: Vec::new(),
            cache: None,
            cache_version: 0,
            ..tested.clone()
        };
        [tested, others]
    }

    fn inputs(&self) -> Result<Vec<Inputs>, Failure> {
        match (&self.data, self.random) {
            (Some(data), _) => Ok(tensors::sets(data)?.into_iter().map(Inputs::Recorded).collect()),
            (None, Some(count)) => {
                let seeds = (0..u64::from(count.get())).map(|at| self.seed.wrapping_add(at << 8));
                Ok(seeds.map(Inputs::Random).collect())
            }
            (None, None) => Ok(Vec::new()),
        }
    }

    /// The values of the model, as its plan for the first set makes them.
    fn layers(&self, sets: &[Inputs]) -> Result<Layers, Failure> {
        let flags = self.model.clone().without_programs();
        let mut stages = Stages::new(&flags)?;
        let Some(set) = sets.first() else { return Ok(Layers::default()) };
        let Ready { loaded, session, .. } = stages.at(|names| set.shapes(names))?;
        set_inputs(session, loaded, &set.read(&loaded.model)?)?;
        prepare(session, loaded)?;
        let outputs = loaded.model.outputs();
        let report =
            session.plans().next().map_or_else(|| loaded.model.report(), |plan| plan.report());
        let source = self.model.graph()?;
        let values = layers::Values::of_model(report, source.as_ref(), outputs);
        let mut layers = Layers { values, ..Layers::default() };
        let inner: Vec<Layer> = std::mem::take(&mut layers.values.inner);
        self.group(&inner.iter().collect::<Vec<_>>(), set, &mut layers);
        let is_refused = |layer: &Layer| layers.refused.iter().any(|of| of.value == layer.value);
        layers.values.inner = inner.into_iter().filter(|layer| !is_refused(layer)).collect();
        Ok(layers)
    }

    /// Finds plans that have the values as outputs: one for all of them if there is one, else one for each half.
    fn group(&self, values: &[&Layer], set: &Inputs, layers: &mut Layers) {
        if values.is_empty() {
            return;
        }
        let names: Vec<String> = values.iter().map(|layer| layer.value.clone()).collect();
        let flags = self.flags(names.clone());
        match Plans::new(&flags).and_then(|mut plans| plans.run(set).map(drop)) {
            Ok(()) => layers.groups.push(names),
            Err(failure) => {
                if let [layer] = values {
                    let error = failure.to_string();
                    let why = error.lines().next().unwrap_or_default();
                    let why = why.trim_start_matches("error: ").to_owned();
                    layers.refused.push(layer.left_out(why));
                } else {
                    let (first, second) = values.split_at(values.len() / 2);
                    self.group(first, set, layers);
                    self.group(second, set, layers);
                }
            }
        }
    }

    fn compare_all(
        &self,
        (layers, reports): (&Layers, &[&Report]),
        names: &[String],
        found: &Values,
        wanted: &Values,
    ) -> Vec<Found> {
        let tolerance = Tolerance { rtol: self.rtol, atol: self.atol };
        // What nodes make comes in their order, before the model's outputs.
        let ordered = layers.values.in_order();
        let made: BTreeSet<&String> = ordered.iter().map(|layer| &layer.value).collect();
        let outputs = names.iter().filter(|name| !made.contains(name)).map(|name| (name, None));
        let node = |layer: &Layer| reports.first().map(|report| layer.on(report));
        let layers = ordered.iter().map(|layer| (&layer.value, node(layer)));
        let pairs = layers.chain(outputs).map(|(name, node)| {
            let difference = match (found.get(name), wanted.get(name)) {
                (Some(found), Some(wanted)) => difference(found, wanted, tolerance),
                (None, _) | (_, None) => Err("a plan does not give it".to_owned()),
            };
            Found { compared: Compared { name: name.clone(), difference }, node }
        });
        pairs.collect()
    }

    fn conclude(&self, all: &[Found], layers: &Layers, placed: &[Vec<&Report>; 2]) -> Outcome {
        let differing: Vec<_> = all.iter().filter(|found| !found.compared.passed()).collect();
        let first = differing.first();
        let unrun = unchecked::unrun(placed.iter().flatten().copied());
        let mut unchecked = unchecked::lines(&unrun);
        unchecked
            .extend(layers.refused.iter().map(|of| format!("value {:?}: {}", of.value, of.why)));
        let not_compared = || layers.values.left_out.iter().chain(&layers.refused);
        if self.json {
            let of = |found: &Found| {
                let mut value = to_json(&found.compared);
                if let (Some(node), Some(object)) = (&found.node, value.as_object_mut()) {
                    object.insert("node".to_owned(), json!(node));
                }
                value
            };
            let [own, other] = placed;
            let json = |reports: &[&Report]| -> Vec<_> {
                reports.iter().copied().map(placement_to_json).collect()
            };
            print_json(&json!({
                "passed": first.is_none() && self.allow.accepts(&unchecked),
                "unchecked": unrun.iter().map(Unrun::to_json).collect::<Vec<_>>(),
                "outputs": all.iter().map(of).collect::<Vec<_>>(),
                "not_compared": not_compared().map(LeftOut::to_json).collect::<Vec<_>>(),
                "first_difference": first.map(|found| &found.compared.name),
                "placement": json(own),
                "against": json(other),
            }));
        } else {
            for found in all {
                say(&found.compared);
            }
            if self.per_layer {
                layers.say();
            }
            let [own, other] = placed;
            for report in own {
                note(format!("ran {}", placement(report)));
            }
            for report in other {
                note(format!("reference ran {}", placement(report)));
            }
        }
        let Some(first) = first else {
            return unchecked::verdict(&unchecked, self.allow);
        };
        let (count, of, name) = (differing.len(), all.len(), &first.compared.name);
        let by =
            first.node.as_ref().map_or_else(String::new, |node| format!(", made by node {node}"));
        Err(Failure::new(format!("{count} of {of} values differ, the first is {name:?}{by}")))
    }
}

impl Layers {
    /// How many of the model's values are compared, and which are not.
    fn say(&self) {
        let [compared, left_out] = [self.values.in_order().len(), self.values.left_out.len()];
        let all = compared + left_out + self.refused.len();
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for LeftOut { value, why, .. } in &self.values.left_out {
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, values)) => values.push(value),
                None => reasons.push((why, vec![value])),
            }
        }
        note(format!("compared {compared} of {all} values besides the outputs"));
        for (why, values) in reasons {
            note(format!("not compared: {}: {why}", values.join(", ")));
        }
    }
}

/// Runs a set. Returns the names of the outputs in their order, and the values.
fn results(
    stages: &mut Stages<'_>,
    set: &Inputs,
) -> Result<(Vec<String>, BTreeMap<String, Tensor>), Failure> {
    let Ready { loaded, session, .. } = stages.at(|names| set.shapes(names))?;
    let inputs = set.read(&loaded.model)?;
    set_inputs(session, loaded, &inputs)?;
    prepare(session, loaded)?;
    run_and_say(session, loaded, Session::run)?;
    let names = loaded.model.outputs().to_vec();
    let read = |name: &String| Ok::<_, Failure>((name.clone(), session.output_tensor(name)?));
    let values = names.iter().map(read).collect::<Result<_, _>>()?;
    Ok((names, values))
}
