//! The costs of steps on each core and of transfers between cores. Cost-based placement minimizes their sum. A user
//! measures them on a machine and passes them in a JSON file (docs/placement.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use udo_api::{Arithmetic, Core, CoreKind};

/// The costs of work, with times in microseconds. Loading a model measures nothing.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The cores, by name of their kind.
    pub cores: BTreeMap<String, CoreCosts>,
    /// The costs of transfers between the memories of two kinds of cores.
    pub crossings: Vec<Crossing>,
}

/// The costs of work on the cores of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CoreCosts {
    /// The overhead of each step in microseconds.
    pub step: f64,
    /// Floating-point multiplications and additions per microsecond.
    pub operations: f64,
    /// Integer multiplications and additions per microsecond.
    pub integer_operations: f64,
    /// Bytes read and written per microsecond.
    pub bytes: f64,
}

/// The cost of a transfer from one memory to another.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// The kind of core that produces the value.
    pub from: String,
    /// The kind of core that reads it.
    pub to: String,
    /// The overhead of each value in microseconds.
    pub value: f64,
    /// Bytes per microsecond.
    pub bytes: f64,
}

/// The reason why a file has no valid costs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostsError {
    /// The file has another format.
    #[error("costs: {0}; expected the format in docs/placement.md")]
    Form(#[from] serde_json::Error),
    /// A cost is out of range.
    #[error("costs: {place} is {found}, expected {expected}")]
    Figure {
        /// Its place in the file.
        place: String,
        /// The cost.
        found: f64,
        /// The expected range.
        expected: &'static str,
    },
    /// A core is unknown.
    #[error("costs: there is no core {found:?}, expected {}", known())]
    NoCore {
        /// The name.
        found: String,
    },
    /// The costs of a core of the model, or of a transfer between two of its cores, are missing.
    #[error("costs: there are no figures for {what}")]
    Missing {
        /// The missing costs.
        what: String,
    },
}

/// Returns the names of the known kinds of cores, for messages.
fn known() -> String {
    CoreKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

impl Default for Costs {
    /// Returns typical costs of a phone in round numbers, not those of a specific machine.
    fn default() -> Self {
        let core = |(kind, step, operations, integer_operations): (CoreKind, _, _, _)| {
            let costs = CoreCosts { step, operations, integer_operations, bytes: 10_000.0 };
            (kind.name().to_owned(), costs)
        };
        let cores = [
            (CoreKind::Cpu, 1.0, 50_000.0, 200_000.0),
            (CoreKind::Gpu, 10.0, 500_000.0, 500_000.0),
            (CoreKind::Dsp, 5.0, 50_000.0, 2_000_000.0),
            (CoreKind::Hta, 5.0, 50_000.0, 4_000_000.0),
        ];
        let names = || CoreKind::ALL.iter().map(|kind| kind.name().to_owned());
        let pairs = names().flat_map(|from| names().map(move |to| (from.clone(), to)));
        let crossing = |(from, to)| Crossing { from, to, value: 50.0, bytes: 5_000.0 };
        let crossings = pairs.filter(|(from, to)| from != to).map(crossing).collect();
        Self { cores: cores.into_iter().map(core).collect(), crossings }
    }
}

impl Costs {
    /// Reads costs from JSON.
    ///
    /// # Errors
    /// The file has another format, or a cost is out of range.
    pub fn read(json: &[u8]) -> Result<Self, CostsError> {
        let costs: Self = serde_json::from_slice(json)?;
        for (name, core) in &costs.cores {
            kind(name)?;
            let place = |what: &str| format!("{what} of {name}");
            time(place("step"), core.step)?;
            rate(place("operations"), core.operations)?;
            rate(place("integer_operations"), core.integer_operations)?;
            rate(place("bytes"), core.bytes)?;
        }
        for Crossing { from, to, value, bytes } in &costs.crossings {
            kind(from)?;
            kind(to)?;
            time(format!("value from {from} to {to}"), *value)?;
            rate(format!("bytes from {from} to {to}"), *bytes)?;
        }
        Ok(costs)
    }

    /// Returns the costs as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the time of a step on `core` with this work, in microseconds.
    pub(crate) fn step(
        &self,
        core: Core,
        (operations, arithmetic): (u64, Arithmetic),
        bytes: u64,
    ) -> Option<f64> {
        let costs = self.cores.get(name(core)?)?;
        let rate = match arithmetic {
            Arithmetic::Int8 => costs.integer_operations,
            Arithmetic::F32 | Arithmetic::F64 | Arithmetic::Bf16 => costs.operations,
        };
        // The roofline model: a step is limited by arithmetic or by memory bandwidth, whichever takes longer.
        let computing = number(operations) / rate;
        Some(costs.step + computing.max(number(bytes) / costs.bytes))
    }

    /// Returns the time of a transfer from one core to another, in microseconds.
    pub(crate) fn crossing(&self, from: Core, to: Core, bytes: u64) -> Option<f64> {
        let (from, to) = (name(from)?, name(to)?);
        if from == to {
            return Some(0.0);
        }
        let crossing = self.crossings.iter().find(|cost| cost.from == from && cost.to == to)?;
        Some(crossing.value + number(bytes) / crossing.bytes)
    }

    /// Checks that costs exist for these cores and for transfers between them.
    ///
    /// # Errors
    /// Costs are missing.
    pub(crate) fn check(&self, cores: &[Core]) -> Result<(), CostsError> {
        for &core in cores {
            if self.step(core, (0, Arithmetic::default()), 0).is_none() {
                return Err(CostsError::Missing { what: core.to_string() });
            }
            let from = cores.iter().find(|&&from| self.crossing(from, core, 0).is_none());
            if let Some(from) = from {
                let what = format!("transfers from {from} to {core}");
                return Err(CostsError::Missing { what });
            }
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a cost is an estimate")]
fn number(count: u64) -> f64 {
    count as f64
}

fn name(core: Core) -> Option<&'static str> {
    core.kind().map(CoreKind::name)
}

/// Checks the name of a kind of cores.
fn kind(found: &str) -> Result<(), CostsError> {
    let is_known = CoreKind::ALL.iter().any(|kind| kind.name() == found);
    if is_known { Ok(()) } else { Err(CostsError::NoCore { found: found.to_owned() }) }
}

/// Checks a time.
fn time(place: String, found: f64) -> Result<(), CostsError> {
    let is_valid = found.is_finite() && found >= 0.0;
    let expected = "microseconds, 0 or more";
    if is_valid { Ok(()) } else { Err(CostsError::Figure { place, found, expected }) }
}

/// Checks a rate, by which work is divided.
fn rate(place: String, found: f64) -> Result<(), CostsError> {
    let is_valid = found.is_finite() && found > 0.0;
    let expected = "more than 0";
    if is_valid { Ok(()) } else { Err(CostsError::Figure { place, found, expected }) }
}
