//! What a run is bound to: its tensors, and the leases of their bytes.

use crate::device::{
    Access, Cause, Conflict, Device, DeviceTensor, Error, ErrorCode, LeaseSet, Result, TensorSpec,
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
    /// Whose memory outputs lie in that runs make.
    home: Device,
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
            home: home.clone(),
        })
    }

    /// Takes all leases, or none.
    pub(crate) fn take(&mut self) -> Result<()> {
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
    }

    /// What the inputs are, in the model's order.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &TensorSpec> {
        self.inputs.iter().map(DeviceTensor::spec)
    }

    /// Copies the elements of an input to the host, one batch behind the other.
    ///
    /// # Errors
    /// There is no such input, or not as many elements.
    pub(crate) fn read(&self, index: usize, into: &mut [u8]) -> Result<()> {
        let (Some(input), Some(lease)) = (self.inputs.get(index), self.leases.get(index)) else {
            return Err(none("input", index));
        };
        input.read_leased(lease, into).map_err(|error| error.at(format_args!("input {index}")))
    }

    /// Gives an output its shape and elements. One that is left to the run is made here, if the one of the run before has no
    /// room; with room no heap is used.
    ///
    /// # Errors
    /// The caller's tensor is of another type, or has no room; there is no memory.
    pub(crate) fn write(&mut self, index: usize, spec: &TensorSpec, from: &[u8]) -> Result<()> {
        let Self { outputs, places, leases, home, .. } = self;
        let (Some(output), Some(place)) = (outputs.get_mut(index), places.get(index)) else {
            return Err(none("output", index));
        };
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
        written.map_err(|error| error.at(format_args!("output {index}")))
    }

    /// The outputs, as the last run left them.
    pub(crate) fn outputs(&self) -> &[Option<DeviceTensor>] {
        &self.outputs
    }
}

fn none(side: &str, index: usize) -> Error {
    Error::new(ErrorCode::Internal, format!("the run has no {side} {index}"))
}
