//! The operations of `NNRt` (Neural Network Runtime, docs/nnrt-bmruntime.md), which a `GraphBuilder` accepts: a table
//! of numbers, names, tensors, parameters, and the operators of this runtime that they map to.
//!
//! Images are channels-last unless a tensor's description says otherwise. An omitted attribute has the default of the
//! table.

mod image;
mod math;
mod movement;
mod order;
mod recurrent;
mod reduce;
mod table;

use super::lower::{Call, Lower};
use super::param::describe;
use super::{Result, invalid};
use udo_graph::graph::ValueId;

use super::param::Param;
pub use table::OPS;

/// An operation of `NNRt`.
#[derive(Debug)]
pub struct NnrtOp {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// The smallest and largest number of inputs.
    pub inputs: [usize; 2],
    /// The smallest and largest number of outputs.
    pub outputs: [usize; 2],
    /// Its parameters.
    pub params: &'static [Param],
    mapping: Mapping,
}

/// The operators that an operation maps to.
#[derive(Debug)]
enum Mapping {
    /// A single operator.
    Direct(&'static str),
    /// A single operator, followed by the activation that the operation states.
    Activated(&'static str),
    /// The nodes that a function adds.
    Custom(fn(&mut Lower<'_>) -> Result<()>),
}

/// The largest number of tensors of an operation without another bound.
const MAX_TENSORS: usize = 200;

/// Returns the operation of this name.
pub(super) fn named(name: &str) -> Result<&'static NnrtOp> {
    let op = OPS.iter().find(|op| op.name == name);
    op.ok_or_else(|| {
        let nearest = OPS.iter().max_by(|a, b| {
            let [a, b] = [a, b].map(|op| strsim::jaro_winkler(op.name, name));
            a.total_cmp(&b)
        });
        let nearest = nearest.map_or("", |op| op.name);
        invalid(format!(
            "there is no operation {name:?}, expected one of the {} of NNRt, as is {nearest:?}",
            OPS.len()
        ))
    })
}

/// Returns the operation of this number.
pub(super) fn numbered(number: u32) -> Result<&'static NnrtOp> {
    let op = OPS.iter().find(|op| op.number == number);
    op.ok_or_else(|| {
        invalid(format!("there is no operation {number}, expected 1 to {} of NNRt", OPS.len()))
    })
}

impl NnrtOp {
    /// Checks a call against the operation's tensors and attributes.
    pub(super) fn check(&self, call: &Call) -> Result<()> {
        let name = self.name;
        let count = |side: &str, found: usize, [least, most]: [usize; 2]| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            let expected = match most {
                MAX_TENSORS => format!("at least {least}, and at most {MAX_TENSORS}"),
                most if most == least => least.to_string(),
                most => format!("{least} to {most}"),
            };
            Err(invalid(format!("{name}: it has {found} {side}, expected {expected}")))
        };
        count("inputs", call.inputs.len(), self.inputs)?;
        count("outputs", call.outputs.len(), self.outputs)?;
        if let Some(port) = call.inputs.iter().position(Option::is_none) {
            return Err(invalid(format!("{name}: input {port} is left out, expected a tensor")));
        }
        for (attr, value) in &call.attrs {
            let param = Param::named(self.params, attr).ok_or_else(|| {
                let known: Vec<_> = self.params.iter().map(|param| param.name).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                invalid(format!("{name} has no attribute {attr:?}, expected {known}"))
            })?;
            if !param.takes(value) {
                let (found, expected) = (describe(value), param.of);
                return Err(invalid(format!(
                    "{name}: attribute {attr:?} is {found}, expected {expected}"
                )));
            }
        }
        Ok(())
    }

    /// Adds the nodes of a call.
    pub(super) fn lower(&self, lower: &mut Lower<'_>) -> Result<()> {
        match self.mapping {
            Mapping::Direct(op) => {
                let y = read_all_inputs(lower, op)?;
                lower.give(0, y)
            }
            Mapping::Activated(op) => {
                let y = read_all_inputs(lower, op)?;
                lower.give_active(y)
            }
            Mapping::Custom(add) => add(lower),
        }
    }
}

/// Adds a node of an operator that reads all inputs.
fn read_all_inputs(lower: &mut Lower<'_>, op: &str) -> Result<ValueId> {
    let inputs = (0..lower.count()).map(|port| lower.x(port)).collect::<Result<Vec<_>>>()?;
    Ok(lower.node(op, &inputs, &[]))
}
