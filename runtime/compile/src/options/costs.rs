//! What work costs on each core, and bringing values from one to another: figures of a machine, in a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use udo_api::{Arithmetic, Core, CoreKind};

/// What work costs. Times are microseconds; nobody measures anything while a model is loaded.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The cores, by the names of their kinds.
    pub cores: BTreeMap<String, CoreCosts>,
    /// What it costs to bring a value from the memory of one kind into that of another.
    pub crossings: Vec<Crossing>,
}

/// What work costs on the cores of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CoreCosts {
    /// Microseconds of each step, whatever it does.
    pub step: f64,
    /// Multiplications and additions of real numbers in a microsecond.
    pub operations: f64,
    /// The same of products of integers.
    pub integer_operations: f64,
    /// Bytes that are read and written in a microsecond.
    pub bytes: f64,
}

/// What it costs to bring a value from one memory into another.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// The kind of core that made it.
    pub from: String,
    /// The kind of core that reads it.
    pub to: String,
    /// Microseconds of each value, however small.
    pub value: f64,
    /// Bytes in a microsecond.
    pub bytes: f64,
}

/// Why figures say no costs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostsError {
    /// They are not as wanted.
    #[error("costs: {0}; wanted the form that docs/placement.md has")]
    Form(#[from] serde_json::Error),
    /// One is none that a time can be made of.
    #[error("costs: {place} is {found}, wanted {wanted}")]
    Figure {
        /// Where.
        place: String,
        /// The figure.
        found: f64,
        /// What it has to be.
        wanted: &'static str,
    },
    /// A core is not known.
    #[error("costs: there is no core {found:?}; wanted {}", known())]
    NoCore {
        /// The name.
        found: String,
    },
    /// Nothing is said of a core that the model is to run on, or of the way between two.
    #[error("costs: nothing is said of {what}; wanted figures for it")]
    Missing {
        /// Of what.
        what: String,
    },
}

fn known() -> String {
    CoreKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

impl Default for Costs {
    /// Figures of no machine: a phone's, in round numbers.
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
    /// Reads figures.
    ///
    /// # Errors
    /// They are in another form, or a figure is none that a time can be made of.
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

    /// The same figures as a file has them.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Microseconds of a step on `core` with so many operations and bytes.
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
        let computing = number(operations) / rate;
        Some(costs.step + computing.max(number(bytes) / costs.bytes))
    }

    /// Microseconds for bringing so many bytes from one core to another.
    pub(crate) fn crossing(&self, from: Core, to: Core, bytes: u64) -> Option<f64> {
        let (from, to) = (name(from)?, name(to)?);
        if from == to {
            return Some(0.0);
        }
        let crossing = self.crossings.iter().find(|of| of.from == from && of.to == to)?;
        Some(crossing.value + number(bytes) / crossing.bytes)
    }

    /// Checks that all is said of these cores and the ways between them.
    ///
    /// # Errors
    /// Something is not.
    pub(crate) fn check(&self, cores: &[Core]) -> Result<(), CostsError> {
        for &core in cores {
            if self.step(core, (0, Arithmetic::default()), 0).is_none() {
                return Err(CostsError::Missing { what: core.to_string() });
            }
            let from = cores.iter().find(|&&from| self.crossing(from, core, 0).is_none());
            if let Some(from) = from {
                let what = format!("the way from {from} to {core}");
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

fn kind(found: &str) -> Result<(), CostsError> {
    let is_known = CoreKind::ALL.iter().any(|kind| kind.name() == found);
    if is_known { Ok(()) } else { Err(CostsError::NoCore { found: found.to_owned() }) }
}

fn time(place: String, found: f64) -> Result<(), CostsError> {
    let is_one = found.is_finite() && found >= 0.0;
    let wanted = "microseconds, from 0 on";
    if is_one { Ok(()) } else { Err(CostsError::Figure { place, found, wanted }) }
}

fn rate(place: String, found: f64) -> Result<(), CostsError> {
    let is_one = found.is_finite() && found > 0.0;
    let wanted = "more than 0";
    if is_one { Ok(()) } else { Err(CostsError::Figure { place, found, wanted }) }
}
