//! The tensors that a run is bound to, and the leases of their memory.

use super::Copies;
use crate::device::{
    Access, Cause, Conflict, Device, DeviceTensor, Error, ErrorCode, Lease, LeaseSet, MemoryView,
    Result, TensorSpec,
};
use udo_graph::error::ErrorContext;

/// The tensors of a run. Creating them allocates; taking and returning their leases does not.
#[derive(Debug)]
pub struct Bindings {
    inputs: Vec<DeviceTensor>,
    /// The binding of each input's lease.
    reads: Vec<usize>,
    /// The input that each output shares its memory with.
    over: Vec<Option<usize>>,
    /// The outputs: given by the caller or created by runs.
    outputs: Vec<Option<DeviceTensor>>,
    /// The binding of each output's lease.
    places: Vec<Option<usize>>,
    leases: LeaseSet,
    /// Whether the current run writes each output in place.
    in_place: Vec<bool>,
    /// The outputs that the current run created and writes in place, with leases until its end.
    made: Vec<Option<(DeviceTensor, Lease)>>,
    /// The device for outputs that runs create.
    home: Device,
    copies: Copies,
}

impl Bindings {
    /// Binds inputs and outputs. An output that is `None` is created by the run. The input and output of a pair may share memory.
    ///
    /// # Errors
    /// Fails if an input has a dynamic dimension.
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
            // The binding of its output follows if it has no own one.
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

    /// Takes all leases or none.
    ///
    /// # Errors
    /// Fails if other users access the memory.
    pub fn take(&mut self) -> Result<()> {
        self.copies = Copies::default();
        self.leases.take().map_err(|conflict| self.refusal(conflict))
    }

    /// Explains a conflict by the inputs and outputs involved.
    #[cold]
    fn refusal(&self, conflict: Conflict) -> Error {
        let Cause::Alias { binding } = conflict.cause else {
            return Error::new(
                conflict.code(),
                format!("{}: {conflict}", self.name(conflict.binding)),
            );
        };
        // The written one of the two is an output.
        let (output, other) = (conflict.binding.max(binding), conflict.binding.min(binding));
        let (output, other) = (self.name(output), self.name(other));
        let why = format!("{output} overlaps {other}; use separate memory");
        Error::new(conflict.code(), why)
    }

    /// Returns the input or output of a binding.
    fn name(&self, binding: usize) -> String {
        if let Some(output) = self.places.iter().position(|place| *place == Some(binding)) {
            return format!("output {output}");
        }
        let input = self.reads.iter().position(|read| *read == binding);
        format!("input {}", input.unwrap_or(binding))
    }

    /// Returns the leases and drops the outputs that the run created.
    pub fn give_back(&mut self) {
        self.leases.give_back();
        self.in_place.fill(false);
        self.made.fill_with(|| None);
    }

    /// Returns what was copied since the leases were last taken.
    pub fn copies(&self) -> Copies {
        self.copies
    }

    /// Returns the address of an input's `len` bytes, if the run can read them in place while it holds the leases.
    pub fn input_in_place(&self, index: usize, len: usize) -> Option<*mut u8> {
        let (input, lease) = (self.inputs.get(index)?, self.input_lease(index)?);
        let is_all = lease.bytes().is_some_and(|bytes| bytes.len() >= len);
        (is_all && input.lies_as_runs_do()).then(|| lease.as_ptr())
    }

    fn input_lease(&self, index: usize) -> Option<&Lease> {
        self.leases.get(*self.reads.get(index)?)
    }

    /// Returns the input that an output shares memory with.
    pub fn input_there(&self, output: usize) -> Option<usize> {
        self.over.get(output).copied().flatten()
    }

    /// Returns the output that shares memory with an input.
    pub fn output_there(&self, input: usize) -> Option<usize> {
        self.over.iter().position(|over| *over == Some(input))
    }

    /// Returns the address where a run can write an output with this `spec` in place while it holds the leases. An output that is
    /// not bound is created here, unless that of the previous run can be used again.
    ///
    /// # Errors
    /// Fails if there is no memory for it, or the output of the previous run is in use.
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

    /// Returns the address where a run can write an output that the caller bound, with at most this `spec`, in place while it
    /// holds the leases.
    pub fn given_in_place(&mut self, index: usize, spec: &TensorSpec) -> Option<*mut u8> {
        let (given, place) = (self.outputs.get(index)?.as_ref()?, (*self.places.get(index)?)?);
        let fits = given.may_take(spec) && given.lies_as_runs_do();
        let lease = self.leases.get(place).filter(|lease| fits && lease.bytes().is_some());
        *self.in_place.get_mut(index)? = lease.is_some();
        lease.map(Lease::as_ptr)
    }

    /// Returns the spec of an input.
    ///
    /// # Errors
    /// Fails if the input does not exist.
    pub fn input(&self, index: usize) -> Result<&TensorSpec> {
        self.inputs.get(index).map(DeviceTensor::spec).ok_or_else(|| none("input", index))
    }

    /// Copies the elements of an input to the host, with contiguous batches.
    ///
    /// # Errors
    /// Fails if the input does not exist or has another number of elements.
    pub fn read(&mut self, index: usize, into: &mut [u8]) -> Result<()> {
        let (Some(input), Some(lease)) = (self.inputs.get(index), self.input_lease(index)) else {
            return Err(none("input", index));
        };
        let copies = self.copies.and(Copies::new(1, 0, into.len()));
        let read = input.read_leased(lease, into);
        self.copies = copies;
        read.map_err(|error| error.at(format_args!("input {index}")))
    }

    /// Sets an output's shape, and copies its elements unless they were written in place. An output that is not bound is created
    /// here, unless that of the previous run can be used again; then nothing is allocated.
    ///
    /// # Errors
    /// Fails if the caller's tensor has another type or is too small, or there is no memory.
    pub fn write(&mut self, index: usize, spec: &TensorSpec, from: &[u8]) -> Result<()> {
        self.check_over(index, spec)?;
        let Self { outputs, places, leases, in_place, made, home, copies, .. } = self;
        let (Some(output), Some(place)) = (outputs.get_mut(index), places.get(index)) else {
            return Err(none("output", index));
        };
        // An output that shares memory with an input may be there already.
        let there = place.and_then(|place| leases.get(place)).map(Lease::as_ptr);
        let is_there = !from.is_empty() && there.is_some_and(|to| std::ptr::eq(to, from.as_ptr()));
        if in_place.get(index) == Some(&true) || is_there {
            if let Some(Some((made, _))) = made.get(index) {
                *output = Some(made.clone());
            }
            let taken = output.as_mut().map_or(Ok(()), |output| output.take_result(spec));
            return taken.map_err(|error| at_output(index, error));
        }
        *copies = copies.and(Copies::new(0, 1, from.len()));
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

    /// Refuses an output that shares memory with an input of another type or shape.
    fn check_over(&self, index: usize, spec: &TensorSpec) -> Result<()> {
        let Some(over) = self.input_there(index) else { return Ok(()) };
        let input = self.input(over)?;
        if (input.dtype(), input.dims()?) == (spec.dtype(), spec.dims()?) {
            return Ok(());
        }
        let why = format!(
            "output {index} is {spec}, but shares memory with input {over}, {input}; use separate memory"
        );
        Err(Error::new(ErrorCode::ShapeMismatch, why))
    }

    /// Returns the outputs as the last run left them.
    pub fn outputs(&self) -> &[Option<DeviceTensor>] {
        &self.outputs
    }
}

/// Returns whether an output starts at the same address as an input and covers it.
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
