//! `udo verify --against`: what other cores make of the same inputs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use udo_runtime::memory::Tensor;
use udo_runtime::model::{Model, Session};
use udo_runtime::plan::Report;

use super::{Compared, Verify, difference, say, to_json};
use crate::cores::PlaceFlags;
use crate::layers::{self, Layer};
use crate::loaded::{prepare, run_and_say, set_inputs};
use crate::model_flags::ModelFlags;
use crate::output::{Failure, Outcome, note, print_json, progress};
use crate::required::{placement, placement_to_json};
use crate::stages::{Ready, Shapes, Stages, shapes_of_set};
use crate::tensors::{self, Set, Tolerance};
use crate::unchecked::{self, Unrun};

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

impl Verify {
    /// Compares what the model's cores make of each set of inputs with what others make.
    pub(super) fn against(&self) -> Outcome {
        let sets = self.inputs()?;
        let layers = if self.per_layer { self.layers(&sets)? } else { Vec::new() };
        let more_outputs: Vec<_> = layers.iter().map(|layer| layer.value.clone()).collect();
        let tested = ModelFlags { more_outputs, ..self.model.clone() };
        let others = ModelFlags {
            place: PlaceFlags::on(self.against.clone()),
            require: Vec::new(),
            cache: None,
            cache_version: 0,
            ..tested.clone()
        };
        let (mut stages, mut other) = (Stages::new(&tested)?, Stages::new(&others)?);
        let mut all = Vec::new();
        let bar = progress("comparing", sets.len());
        for set in &sets {
            let (names, found) = results(&mut stages, set)?;
            let (_, wanted) = results(&mut other, set)?;
            let reports: Vec<&Report> = stages.reports().collect();
            all.extend(self.compare_all((&layers, &reports), &names, &found, &wanted));
            bar.advance(1);
        }
        drop(bar);
        let placed = [&stages, &other].map(|stages| stages.reports().collect());
        self.conclude(&all, &placed)
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

    /// What nodes make of the first set on the model's cores, in their order: of those whose work a kernel does together, what the last
    /// one makes.
    fn layers(&self, sets: &[Inputs]) -> Result<Vec<Layer>, Failure> {
        let flags = self.model.clone().without_programs();
        let mut stages = Stages::new(&flags)?;
        let Some(set) = sets.first() else { return Ok(Vec::new()) };
        let Ready { loaded, session, .. } = stages.at(|names| set.shapes(names))?;
        set_inputs(session, loaded, &set.read(&loaded.model)?)?;
        prepare(session, loaded)?;
        let outputs = loaded.model.outputs();
        let report = session.plan().map_or_else(|| loaded.model.report(), |plan| plan.report());
        let mut layers = layers::named(report, &loaded.runtime, &self.model.model);
        layers.retain(|layer| !outputs.contains(&layer.value));
        Ok(layers)
    }

    fn compare_all(
        &self,
        (layers, reports): (&[Layer], &[&Report]),
        names: &[String],
        found: &BTreeMap<String, Tensor>,
        wanted: &BTreeMap<String, Tensor>,
    ) -> Vec<Found> {
        let tolerance = Tolerance { rtol: self.rtol, atol: self.atol };
        // What nodes make comes in their order, before the model's outputs.
        let made: BTreeSet<&String> = layers.iter().map(|layer| &layer.value).collect();
        let outputs = names.iter().filter(|name| !made.contains(name)).map(|name| (name, None));
        let node = |layer: &Layer| reports.first().map(|report| layer.on(report));
        let layers = layers.iter().map(|layer| (&layer.value, node(layer)));
        let pairs = layers.chain(outputs).filter_map(|(name, node)| {
            let difference = difference(found.get(name)?, wanted.get(name)?, tolerance);
            Some(Found { compared: Compared { name: name.clone(), difference }, node })
        });
        pairs.collect()
    }

    fn conclude(&self, all: &[Found], placed: &[Vec<&Report>; 2]) -> Outcome {
        let differing: Vec<_> = all.iter().filter(|found| !found.compared.passed()).collect();
        let first = differing.first();
        let unrun = unchecked::unrun(placed.iter().flatten().copied());
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
                "passed": first.is_none() && self.allow.accepts(&unrun),
                "unchecked": unrun.iter().map(Unrun::to_json).collect::<Vec<_>>(),
                "outputs": all.iter().map(of).collect::<Vec<_>>(),
                "first_difference": first.map(|found| &found.compared.name),
                "placement": json(own),
                "against": json(other),
            }));
        } else {
            for found in all {
                say(&found.compared);
            }
            let [own, other] = placed;
            for report in own {
                note(format!("ran {}", placement(report)));
            }
            for report in other {
                note(format!("against {}", placement(report)));
            }
        }
        let Some(first) = first else {
            return unchecked::verdict(&unchecked::lines(&unrun), self.allow);
        };
        let (count, of, name) = (differing.len(), all.len(), &first.compared.name);
        let by =
            first.node.as_ref().map_or_else(String::new, |node| format!(", made by node {node}"));
        Err(Failure::new(format!("{count} of {of} values differ, the first is {name:?}{by}")))
    }
}

/// What a run over a set gives: the names in their order, and the values.
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
