//! `--profiling-level`: how long it all took, in as much detail as is asked for.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Value, json};
use udo_runtime::Session;
use udo_runtime::run::Trace;

use crate::output::Column::{Left, Right};
use crate::output::table;
use crate::roofline::{RanStep, real, steps};
use crate::stages::Stages;
use crate::trace;

/// `--profiling-level`; each says what those before it say, and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Level {
    /// No times
    Off,
    /// Times to load, compile, prepare, run and release the model
    Basic,
    /// Also the time of all steps, of each core's steps, and of transfers
    Moderate,
    /// Also the time of each step
    Detailed,
}

/// A step, over all runs.
#[derive(Clone, Debug)]
struct Layer {
    name: String,
    op: String,
    core: String,
    /// Whether it brings a value into another memory or type, and nothing else.
    is_transfer: bool,
    seconds: f64,
}

/// The times of a command's runs so far.
pub(super) struct Times {
    level: Level,
    prepare: Duration,
    /// Of each run, its inputs set and its steps run.
    inference: Vec<Duration>,
    layers: Vec<Layer>,
    /// The layers, by name, operator and core.
    known: BTreeMap<[String; 3], usize>,
}

impl Times {
    pub(super) fn new(level: Level) -> Self {
        let (prepare, inference) = (Duration::ZERO, Vec::new());
        Self { level, prepare, inference, layers: Vec::new(), known: BTreeMap::new() }
    }

    /// Returns the trace for the next run, if the level reports steps.
    pub(super) fn trace(&self, threads: NonZero<usize>) -> Option<Trace> {
        (self.level >= Level::Moderate).then(|| trace::of_a_run(threads))
    }

    /// Adds the time that planning and allocation took for the shapes of a run.
    pub(super) fn prepared(&mut self, time: Duration) {
        self.prepare += time;
    }

    /// Adds the time that a run took.
    pub(super) fn ran(&mut self, time: Duration) {
        self.inference.push(time);
    }

    /// Adds the times of the steps of the last run of `session`.
    pub(super) fn note(&mut self, session: &Session, trace: &Trace) {
        if self.level < Level::Moderate {
            return;
        }
        for RanStep { report, seconds, .. } in steps(session, trace) {
            let [name, op, core] =
                [report.name.clone(), report.op.clone(), report.core.to_string()];
            let at =
                *self.known.entry([name.clone(), op.clone(), core.clone()]).or_insert_with(|| {
                    let is_transfer = report.between.is_some();
                    self.layers.push(Layer { name, op, core, is_transfer, seconds: 0.0 });
                    self.layers.len() - 1
                });
            if let Some(layer) = self.layers.get_mut(at) {
                layer.seconds += seconds;
            }
        }
    }

    /// Releases the models and returns all times, including that of the release; `None` if the level is
    /// off.
    pub(super) fn conclude(self, stages: Stages<'_>) -> Option<Concluded> {
        if self.level == Level::Off {
            return None;
        }
        let [load, create, sessions] = stages.times();
        let start = Instant::now();
        drop(stages);
        Some(Concluded {
            load,
            create,
            init: sessions + self.prepare,
            de_init: start.elapsed(),
            of: self,
        })
    }
}

/// The times to report.
pub(super) struct Concluded {
    load: Duration,
    create: Duration,
    init: Duration,
    de_init: Duration,
    of: Times,
}

impl Concluded {
    /// The names and microseconds of what basic says once, and of what moderate says of each run.
    fn rows(&self) -> Vec<(String, f64)> {
        let of = &self.of;
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let total = us(of.inference.iter().sum()) / self.runs();
        let mut rows = vec![
            ("load".to_owned(), us(self.load)),
            ("create".to_owned(), us(self.create)),
            ("init".to_owned(), us(self.init)),
            ("de-init".to_owned(), us(self.de_init)),
            ("total inference".to_owned(), total),
        ];
        if of.level >= Level::Moderate {
            let mean = |layers: &mut dyn Iterator<Item = &Layer>| {
                layers.fold(0.0, |sum, layer| sum + layer.seconds) * 1e6 / self.runs()
            };
            rows.push(("forward propagate".to_owned(), mean(&mut of.layers.iter())));
            let mut cores: Vec<&String> = of.layers.iter().map(|layer| &layer.core).collect();
            cores.sort_unstable();
            cores.dedup();
            for core in cores {
                let of_core = |layer: &&Layer| layer.core == *core && !layer.is_transfer;
                rows.push((format!("on {core}"), mean(&mut of.layers.iter().filter(of_core))));
            }
            let transfers = |layer: &&Layer| layer.is_transfer;
            rows.push(("transfers".to_owned(), mean(&mut of.layers.iter().filter(transfers))));
        }
        rows
    }

    /// How many runs there were, at least one.
    fn runs(&self) -> f64 {
        real(self.of.inference.len().max(1) as u64)
    }

    /// Each step's share of a run, where that is wanted.
    fn layers(&self) -> impl Iterator<Item = (&Layer, f64)> {
        let layers = self.of.layers.iter().filter(|_| self.of.level == Level::Detailed);
        layers.map(|layer| (layer, layer.seconds * 1e6 / self.runs()))
    }

    pub(super) fn say(&self) {
        let runs = self.of.inference.len();
        outln!("profiling: mean of {runs} {}", if runs == 1 { "run" } else { "runs" });
        let rows = self.rows().into_iter().map(|(name, us)| [name, format!("{us:.1}")]);
        outln!("{}", table([Left("event"), Right("us")], rows.collect()));
        let layers = self.layers().enumerate().map(|(index, (layer, us))| {
            let (name, op, core) = (layer.name.clone(), layer.op.clone(), layer.core.clone());
            [index.to_string(), name, op, format!("{us:.1}"), core]
        });
        let layers: Vec<_> = layers.collect();
        if !layers.is_empty() {
            let columns = [Right(""), Left("layer"), Left("operator"), Right("us"), Left("core")];
            outln!("{}", table(columns, layers));
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let us: serde_json::Map<String, Value> = self
            .rows()
            .into_iter()
            .map(|(name, us)| (name.replace([' ', '-'], "_"), json!(us)))
            .collect();
        let layers = self.layers().map(|(layer, us)| {
            json!({ "name": layer.name, "op": layer.op, "core": layer.core, "us": us })
        });
        let layers: Vec<Value> = layers.collect();
        json!({ "runs": self.of.inference.len(), "us": us, "layers": layers })
    }
}
