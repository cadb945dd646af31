//! The operations of `NNRt`: one table of their numbers, names, tensors and parameters, and of what each is in operators of ours.
//!
//! Images have their channels last, unless a tensor's description says otherwise. An attribute that is left out has the
//! default of the table.

mod image;
mod math;
mod movement;
mod order;
mod recurrent;
mod reduce;
mod table;

use super::lower::{Call, Lower};
use super::param::said;
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
    /// The least and the most tensors that it reads.
    pub inputs: [usize; 2],
    /// The least and the most tensors that it makes.
    pub outputs: [usize; 2],
    /// Its parameters.
    pub params: &'static [Param],
    form: Form,
}

/// What an operation is in operators of ours.
#[derive(Debug)]
enum Form {
    /// This one.
    Same(&'static str),
    /// This one, and the activation that the operation asks for.
    Active(&'static str),
    /// What a function makes.
    By(fn(&mut Lower<'_>) -> Result<()>),
}

/// How many tensors an operation may have where there is no other bound.
const MOST: usize = 200;

/// The operation of this name.
pub(super) fn named(name: &str) -> Result<&'static NnrtOp> {
    let found = OPS.iter().find(|op| op.name == name);
    found.ok_or_else(|| {
        let nearest = OPS.iter().max_by(|a, b| {
            let [a, b] = [a, b].map(|op| strsim::jaro_winkler(op.name, name));
            a.total_cmp(&b)
        });
        let nearest = nearest.map_or("", |op| op.name);
        invalid(format!(
            "there is no operation {name:?}; wanted one of the {} of NNRt, as is {nearest:?}",
            OPS.len()
        ))
    })
}

/// The operation of this number.
pub(super) fn numbered(number: u32) -> Result<&'static NnrtOp> {
    let found = OPS.iter().find(|op| op.number == number);
    found.ok_or_else(|| {
        invalid(format!("there is no operation {number}; wanted 1 to {} of NNRt", OPS.len()))
    })
}

impl NnrtOp {
    /// Refuses what the operation does not have.
    pub(super) fn check(&self, call: &Call) -> Result<()> {
        let name = self.name;
        let count = |side: &str, found: usize, [least, most]: [usize; 2]| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            let wanted = match most {
                MOST => format!("at least {least}, and at most {MOST}"),
                most if most == least => least.to_string(),
                most => format!("{least} to {most}"),
            };
            Err(invalid(format!("{name}: it has {found} {side}; wanted {wanted}")))
        };
        count("inputs", call.inputs.len(), self.inputs)?;
        count("outputs", call.outputs.len(), self.outputs)?;
        if let Some(port) = call.inputs.iter().position(Option::is_none) {
            return Err(invalid(format!("{name}: input {port} is left out; wanted a tensor")));
        }
        for (attr, value) in &call.attrs {
            let param = Param::named(self.params, attr).ok_or_else(|| {
                let known: Vec<_> = self.params.iter().map(|param| param.name).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                invalid(format!("{name} has no attribute {attr:?}; wanted {known}"))
            })?;
            if !param.takes(value) {
                let (found, wanted) = (said(value), param.of);
                return Err(invalid(format!(
                    "{name}: attribute {attr:?} is {found}; wanted {wanted}"
                )));
            }
        }
        Ok(())
    }

    /// Adds the nodes of a call of it.
    pub(super) fn lower(&self, lower: &mut Lower<'_>) -> Result<()> {
        match self.form {
            Form::Same(op) => {
                let y = all(lower, op)?;
                lower.give(0, y)
            }
            Form::Active(op) => {
                let y = all(lower, op)?;
                lower.give_active(y)
            }
            Form::By(make) => make(lower),
        }
    }
}

/// The operator of all inputs.
fn all(lower: &mut Lower<'_>, op: &str) -> Result<ValueId> {
    let inputs = (0..lower.count()).map(|port| lower.x(port)).collect::<Result<Vec<_>>>()?;
    Ok(lower.node(op, &inputs, &[]))
}
