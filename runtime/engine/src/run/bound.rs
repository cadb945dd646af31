//! What a run is bound to: its tensors, and the leases of their bytes.

use super::Copies;
use crate::device::{
    Access, Cause, Conflict, Device, DeviceTensor, Error, ErrorCode, Lease, LeaseSet, MemoryView,
    Result, TensorSpec,
};
use udo_graph::error::ErrorContext;

/// The tensors of a run. Making them uses the heap; taking and giving back their leases does not.
#[derive(Debug)]
pub struct Bound {
    inputs: Vec<DeviceTensor>,
    /// Which binding of the leases each input has.
    reads: Vec<usize>,
    /// Which input an output is in the place of.
    over: Vec<Option<usize>>,
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
    /// These inputs, and outputs that the caller gives or leaves to the run. An input and an output of a pair may lie in one place.
    ///
    /// # Errors
    /// An input with an open dimension.
    pub fn new(
        (inputs, outputs): (&[DeviceTensor], &[Option<DeviceTensor>]),
        pairs: &[(usize, usize)],
        home: &Device,
    ) -> Result<Self> {
        let mut bindings = Vec::with_capacity(inputs.len() + outputs.len());
        let mut over = vec![None; outputs.len()];
        let mut reads = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate() {
            let bytes = input.bytes().map_err(|error| error.at(format_args!("input {index}")))?;
            let output = pairs.iter().find(|pair| pair.0 == index).map(|pair| pair.1);
            let given = output.and_then(|output| outputs.get(output)?.as_ref());
            let given = given.filter(|given| is_over(&bytes, given));
            if let Some(over) =
                output.and_then(|output| over.get_mut(output)).filter(|_| given.is_some())
            {
                *over = Some(index);
            } else {
                bindings.push((bytes, Access::Read));
            }
            // That of its output follows, if it has none of its own.
            reads.push(bindings.len().saturating_sub(1));
        }
        let mut places = Vec::with_capacity(outputs.len());
        for (output, over) in outputs.iter().zip(&over) {
            places.push(output.as_ref().map(|output| {
                bindings.push((output.memory().clone(), Access::Write));
                bindings.len() - 1
            }));
            let read = over.and_then(|over| reads.get_mut(over));
            if let (Some(read), Some(&Some(place))) = (read, places.last()) {
                *read = place;
            }
        }
        Ok(Self {
            inputs: inputs.to_vec(),
            reads,
            over,
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
    ///
    /// # Errors
    /// Others use the bytes now.
    pub fn take(&mut self) -> Result<()> {
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
        if let Some(output) = self.places.iter().position(|place| *place == Some(binding)) {
            return format!("output {output}");
        }
        let input = self.reads.iter().position(|read| *read == binding);
        format!("input {}", input.unwrap_or(binding))
    }

    /// Gives the leases back, and forgets what the run made.
    pub fn give_back(&mut self) {
        self.leases.give_back();
        self.in_place.fill(false);
        self.made.fill_with(|| None);
    }

    /// What was copied since the leases were taken last.
    pub fn copies(&self) -> Copies {
        self.copies
    }

    /// Where the `len` bytes of an input lie, if they can be read there for as long as the leases are held.
    pub fn input_in_place(&self, index: usize, len: usize) -> Option<*mut u8> {
        let (input, lease) = (self.inputs.get(index)?, self.input_lease(index)?);
        let is_all = lease.bytes().is_some_and(|bytes| bytes.len() >= len);
        (is_all && input.lies_as_runs_do()).then(|| lease.as_ptr())
    }

    fn input_lease(&self, index: usize) -> Option<&Lease> {
        self.leases.get(*self.reads.get(index)?)
    }

    /// The input that an output is in the place of.
    pub fn input_there(&self, output: usize) -> Option<usize> {
        self.over.get(output).copied().flatten()
    }

    /// The output that is in the place of an input.
    pub fn output_there(&self, input: usize) -> Option<usize> {
        self.over.iter().position(|over| *over == Some(input))
    }

    /// Where an output may be written that is `spec` after the run, if it can be there for as long as the leases are held. One
    /// that is left to the run is made here, if the one of the run before has no room.
    ///
    /// # Errors
    /// There is no memory for it, or somebody is at what the run before made.
    pub fn output_in_place(&mut self, index: usize, spec: &TensorSpec) -> Result<Option<*mut u8>> {
        if self.places.get(index).is_none_or(Option::is_some) {
            return Ok(self.given_in_place(index, spec));
        }
        let Self { outputs, in_place, made, home, .. } = self;
        let (Some(in_place), Some(making)) = (in_place.get_mut(index), made.get_mut(index)) else {
            return Ok(None);
        };
        let before = outputs.get(index).cloned().flatten().filter(|made| made.may_take(spec));
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

    /// Where an output that the caller gave may be written that is at most `spec` after the run, if it can be there for as long as
    /// the leases are held.
    pub fn given_in_place(&mut self, index: usize, spec: &TensorSpec) -> Option<*mut u8> {
        let (given, place) = (self.outputs.get(index)?.as_ref()?, (*self.places.get(index)?)?);
        let fits = given.may_take(spec) && given.lies_as_runs_do();
        let lease = self.leases.get(place).filter(|lease| fits && lease.bytes().is_some());
        *self.in_place.get_mut(index)? = lease.is_some();
        lease.map(Lease::as_ptr)
    }

    /// What an input is.
    ///
    /// # Errors
    /// There is no such input.
    pub fn input(&self, index: usize) -> Result<&TensorSpec> {
        self.inputs.get(index).map(DeviceTensor::spec).ok_or_else(|| none("input", index))
    }

    /// Copies the elements of an input to the host, one batch behind the other.
    ///
    /// # Errors
    /// There is no such input, or not as many elements.
    pub fn read(&mut self, index: usize, into: &mut [u8]) -> Result<()> {
        let (Some(input), Some(lease)) = (self.inputs.get(index), self.input_lease(index)) else {
            return Err(none("input", index));
        };
        let copies = self.copies.and(Copies::of(1, 0, into.len()));
        let read = input.read_leased(lease, into);
        self.copies = copies;
        read.map_err(|error| error.at(format_args!("input {index}")))
    }

    /// Gives an output its shape, and its elements unless they were written in place. One that is left to the run is made here,
    /// if the one of the run before has no room; with room no heap is used.
    ///
    /// # Errors
    /// The caller's tensor is of another type, or has no room; there is no memory.
    pub fn write(&mut self, index: usize, spec: &TensorSpec, from: &[u8]) -> Result<()> {
        self.check_over(index, spec)?;
        let Self { outputs, places, leases, in_place, made, home, copies, .. } = self;
        let (Some(output), Some(place)) = (outputs.get_mut(index), places.get(index)) else {
            return Err(none("output", index));
        };
        // An output that is the input in whose place it is has nothing to copy.
        let there = place.and_then(|place| leases.get(place)).map(Lease::as_ptr);
        let is_there = !from.is_empty() && there.is_some_and(|to| std::ptr::eq(to, from.as_ptr()));
        if in_place.get(index) == Some(&true) || is_there {
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

    /// Refuses an output in the place of an input that is other than that.
    fn check_over(&self, index: usize, spec: &TensorSpec) -> Result<()> {
        let Some(over) = self.input_there(index) else { return Ok(()) };
        let input = self.input(over)?;
        if (input.dtype(), input.dims()?) == (spec.dtype(), spec.dims()?) {
            return Ok(());
        }
        let why = format!(
            "output {index} is {spec}, and lies where input {over} lies, {input}; give it memory of its own"
        );
        Err(Error::new(ErrorCode::ShapeMismatch, why))
    }

    /// The outputs, as the last run left them.
    pub fn outputs(&self) -> &[Option<DeviceTensor>] {
        &self.outputs
    }
}

/// Whether an output begins where an input does, and has all of it.
fn is_over(input: &MemoryView, output: &DeviceTensor) -> bool {
    let (from, to) = (input.range(), output.memory().range());
    input.memory_id() == output.memory().memory_id()
        && !from.is_empty()
        && from.start() == to.start()
        && from.end() <= to.end()
}

fn at_output(index: usize, error: Error) -> Error {
    error.at(format_args!("output {index}"))
}

fn none(side: &str, index: usize) -> Error {
    Error::new(ErrorCode::Internal, format!("the run has no {side} {index}"))
}
