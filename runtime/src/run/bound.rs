//! What a run is bound to: its tensors, and the leases of their bytes.

use super::Copies;
use crate::device::{
    Access, Cause, Conflict, Device, DeviceTensor, Error, ErrorCode, Lease, LeaseSet, Result,
    TensorSpec,
};

/// The tensors of a run. Making them uses the heap; taking and giving back their leases does not.
#[derive(Debug)]
pub(crate) struct Bound {
    inputs: Vec<DeviceTensor>,
    /// Those that the caller gave, and those that runs made.
    outputs: Vec<Option<DeviceTensor>>,
    /// Which binding of the leases each output has.
    places: Vec<Option<usize>>,
    leases: LeaseSet,
    /// Which outputs the run that has the leases writes where the caller wants them.
    in_place: Vec<bool>,
    /// Those that it makes and writes in place: they are the run's alone until its end.
    made: Vec<Option<(DeviceTensor, Lease)>>,
    /// Whose memory outputs lie in that runs make.
    home: Device,
    copies: Copies,
}

impl Bound {
    /// These inputs, and outputs that the caller gives or leaves to the run.
    ///
    /// # Errors
    /// An input with an open dimension.
    pub(crate) fn new(
        inputs: &[DeviceTensor],
        outputs: &[Option<DeviceTensor>],
        home: &Device,
    ) -> Result<Self> {
        let mut bindings = Vec::with_capacity(inputs.len() + outputs.len());
        for (index, input) in inputs.iter().enumerate() {
            bindings.push((
                input.bytes().map_err(|error| error.at(format_args!("input {index}")))?,
                Access::Read,
            ));
        }
        let mut places = Vec::with_capacity(outputs.len());
        for output in outputs {
            places.push(output.as_ref().map(|output| {
                bindings.push((output.memory().clone(), Access::Write));
                bindings.len() - 1
            }));
        }
        Ok(Self {
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            places,
            leases: LeaseSet::new(bindings),
            in_place: vec![false; outputs.len()],
            made: outputs.iter().map(|_| None).collect(),
            home: home.clone(),
            copies: Copies::default(),
        })
    }

    /// Takes all leases, or none.
    pub(crate) fn take(&mut self) -> Result<()> {
        self.copies = Copies::default();
        self.leases.take().map_err(|conflict| self.refusal(conflict))
    }

    /// Why there are no leases, by inputs and outputs.
    #[cold]
    fn refusal(&self, conflict: Conflict) -> Error {
        let Cause::Alias { binding } = conflict.cause else {
            return Error::new(
                conflict.code(),
                format!("{}: {conflict}", self.name(conflict.binding)),
            );
        };
        // The one of the two that is written is an output.
        let (output, other) = (conflict.binding.max(binding), conflict.binding.min(binding));
        let (output, other) = (self.name(output), self.name(other));
        let why = format!("{output} lies where {other} lies; give it memory of its own");
        Error::new(conflict.code(), why)
    }

    /// What a binding is of.
    fn name(&self, binding: usize) -> String {
        let output = self.places.iter().position(|place| *place == Some(binding));
        output.map_or_else(|| format!("input {binding}"), |output| format!("output {output}"))
    }

    pub(crate) fn give_back(&mut self) {
        self.leases.give_back();
        self.in_place.fill(false);
        self.made.fill_with(|| None);
    }

    /// What was copied since the leases were taken last.
    pub(crate) fn copies(&self) -> Copies {
        self.copies
    }

    /// Where the `len` bytes of an input lie, if they can be read there for as long as the leases are held.
    pub(crate) fn input_in_place(&self, index: usize, len: usize) -> Option<*mut u8> {
        let (input, lease) = (self.inputs.get(index)?, self.leases.get(index)?);
        let is_all = lease.bytes().is_some_and(|bytes| bytes.len() == len);
        (is_all && input.lies_as_runs_do()).then(|| lease.as_ptr())
    }

    /// Where an output may be written that is `spec` after the run, if it can be there for as long as the leases are held. One
    /// that is left to the run is made here, if the one of the run before has no room.
    ///
    /// # Errors
    /// There is no memory for it, or somebody is at what the run before made.
    pub(crate) fn output_in_place(
        &mut self,
        index: usize,
        spec: &TensorSpec,
    ) -> Result<Option<*mut u8>> {
        let Self { outputs, places, leases, in_place, made, home, .. } = self;
        let (Some(output), Some(place)) = (outputs.get(index), places.get(index)) else {
            return Ok(None);
        };
        let (Some(in_place), Some(making)) = (in_place.get_mut(index), made.get_mut(index)) else {
            return Ok(None);
        };
        if let (Some(place), Some(given)) = (place, output) {
            let fits = given.may_take(spec) && given.lies_as_runs_do();
            let lease = leases.get(*place).filter(|lease| fits && lease.bytes().is_some());
            *in_place = lease.is_some();
            return Ok(lease.map(Lease::as_ptr));
        }
        let before = output.clone().filter(|made| made.may_take(spec));
        let made = match before {
            Some(made) => made,
            None => DeviceTensor::new(home, *spec).map_err(|error| at_output(index, error))?,
        };
        if !made.lies_as_runs_do() {
            return Ok(None);
        }
        let lease = made.memory().lease(Access::Write);
        let lease = lease.map_err(|error| at_output(index, error.into()))?;
        let to = lease.as_ptr();
        *in_place = true;
        *making = Some((made, lease));
        Ok(Some(to))
    }

    /// What an input is.
    ///
    /// # Errors
    /// There is no such input.
    pub(crate) fn input(&self, index: usize) -> Result<&TensorSpec> {
        self.inputs.get(index).map(DeviceTensor::spec).ok_or_else(|| none("input", index))
    }

    /// Copies the elements of an input to the host, one batch behind the other.
    ///
    /// # Errors
    /// There is no such input, or not as many elements.
    pub(crate) fn read(&mut self, index: usize, into: &mut [u8]) -> Result<()> {
        let (Some(input), Some(lease)) = (self.inputs.get(index), self.leases.get(index)) else {
            return Err(none("input", index));
        };
        self.copies = self.copies.and(Copies::of(1, 0, into.len()));
        input.read_leased(lease, into).map_err(|error| error.at(format_args!("input {index}")))
    }

    /// Gives an output its shape, and its elements unless they were written in place. One that is left to the run is made here,
    /// if the one of the run before has no room; with room no heap is used.
    ///
    /// # Errors
    /// The caller's tensor is of another type, or has no room; there is no memory.
    pub(crate) fn write(&mut self, index: usize, spec: &TensorSpec, from: &[u8]) -> Result<()> {
        let Self { outputs, places, leases, in_place, made, home, copies, .. } = self;
        let (Some(output), Some(place)) = (outputs.get_mut(index), places.get(index)) else {
            return Err(none("output", index));
        };
        if in_place.get(index) == Some(&true) {
            if let Some(Some((made, _))) = made.get(index) {
                *output = Some(made.clone());
            }
            let taken = output.as_mut().map_or(Ok(()), |output| output.take_result(spec));
            return taken.map_err(|error| at_output(index, error));
        }
        *copies = copies.and(Copies::of(0, 1, from.len()));
        let written = match (place, output.as_mut()) {
            (Some(place), Some(given)) => {
                given.take_result(spec).and_then(|()| given.write_leased(leases, *place, from))
            }
            (_, made) => match made.map(|made| made.take_result(spec).map(|()| made.clone())) {
                Some(Ok(made)) => made.write(from),
                Some(Err(_)) | None => DeviceTensor::new(home, *spec).and_then(|made| {
                    made.write(from)?;
                    *output = Some(made);
                    Ok(())
                }),
            },
        };
        written.map_err(|error| at_output(index, error))
    }

    /// The outputs, as the last run left them.
    pub(crate) fn outputs(&self) -> &[Option<DeviceTensor>] {
        &self.outputs
    }
}

fn at_output(index: usize, error: Error) -> Error {
    error.at(format_args!("output {index}"))
}

fn none(side: &str, index: usize) -> Error {
    Error::new(ErrorCode::Internal, format!("the run has no {side} {index}"))
}
