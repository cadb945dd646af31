//! Inputs and outputs: what every handle that has some tells in one form.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use udo_engine::device;
use udo_engine::device::Result;
use udo_runtime::device::ErrorCode;

use crate::argument::{invalid, need};
use crate::born::{Born, Handle, live};
use crate::error::Error;
use crate::ffi::{guard, hand_out};
use crate::spec::TensorSpec;
use crate::text::text;

/// An input or output.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    c_name: CString,
    /// Nothing where only a run says it.
    pub(crate) spec: Option<device::TensorSpec>,
}

impl Port {
    pub(crate) fn new(name: &str, spec: Option<device::TensorSpec>) -> Self {
        Self { name: name.to_owned(), c_name: text(name), spec }
    }
}

/// Those of a model, or of all stages of a network.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
}

/// The inputs or the outputs of a run.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Input,
    Output,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

impl Ports {
    fn on_side(&self, side: Side) -> &[Port] {
        match side {
            Side::Input => &self.inputs,
            Side::Output => &self.outputs,
        }
    }

    /// A port by its place.
    pub(crate) fn port(&self, side: Side, index: usize) -> Result<&Port> {
        place(self.on_side(side), side.name(), index)
    }

    /// The description of a port, where there is one before a run.
    pub(crate) fn spec(&self, side: Side, index: usize) -> Result<TensorSpec> {
        let port = self.port(side, index)?;
        port.spec.map(|spec| TensorSpec(spec, Born::here())).ok_or_else(|| {
            let (side, name) = (side.name(), &port.name);
            let why = format!(
                "{side} {index}, {name:?}, depends on the inputs' shapes; run a session and ask that"
            );
            device::Error::new(ErrorCode::DynamicShape, why)
        })
    }

    /// Refuses another number of tensors than there are ports.
    pub(crate) fn check_counts(&self, inputs: usize, outputs: usize) -> Result<()> {
        for (side, found) in [(Side::Input, inputs), (Side::Output, outputs)] {
            let ports = self.on_side(side);
            if found != ports.len() {
                let names: Vec<_> = ports.iter().map(|port| format!("{:?}", port.name)).collect();
                let (side, wanted, names) = (side.name(), ports.len(), names.join(", "));
                return Err(invalid(format!("{found} {side}s, expected {wanted}: {names}")));
            }
        }
        Ok(())
    }
}

/// Returns the element at an index.
pub(crate) fn place<'a, T>(all: &'a [T], what: &str, index: usize) -> Result<&'a T> {
    all.get(index).ok_or_else(|| {
        let count = all.len();
        invalid(format!("no {what} {index}; expected an index below {count}"))
    })
}

/// A handle with inputs and outputs.
pub(crate) trait HasPorts: Handle {
    /// The name of the argument in messages.
    const ARGUMENT: &'static str;

    fn ports(&self) -> &Ports;
}

/// Counts a side.
pub(crate) fn count<H: HasPorts>(
    of: Option<&H>,
    side: Side,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (of, out) = (live(of, H::ARGUMENT)?, need(out, "out")?);
        out.write(of.ports().on_side(side).len());
        Ok(())
    })
}

/// Tells a name, which is the handle's.
pub(crate) fn name<H: HasPorts>(
    of: Option<&H>,
    side: Side,
    index: usize,
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (of, out) = (live(of, H::ARGUMENT)?, need(out, "out")?);
        out.write(of.ports().port(side, index)?.c_name.as_ptr());
        Ok(())
    })
}

/// Hands out a description.
pub(crate) fn spec<H: HasPorts>(
    of: Option<&H>,
    side: Side,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (of, out) = (live(of, H::ARGUMENT)?, need(out, "out")?);
        hand_out(out, of.ports().spec(side, index)?);
        Ok(())
    })
}
