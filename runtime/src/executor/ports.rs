//! Sets the inputs of a plan for the next run, and reads its outputs after the last one.

use std::sync::Arc;

use udo_api::abi::TensorArg;
use udo_api::{DType, Element, Shape, TensorDesc};

use super::extents::{Extents, SharedArg};
use super::{Executor, PortError};
use udo_compile::plan::{Operand, Place};
use udo_graph::memory::{Tensor, elements, elements_mut};

impl Executor {
    pub(super) fn bytes_of<'a>(&'a self, operand: &'a Operand) -> &'a [u8] {
        match &operand.place {
            Some(Place::Constant(tensor)) => tensor.bytes(),
            Some(Place::Window(window)) => {
                let Some(place) = self.plan.windows.get(window.0) else { return &[] };
                if let Some(moved) = place.moves.and_then(|number| self.moved.get(number)) {
                    return moved.bytes(place.offset, operand.desc.size_bytes());
                }
                let start = self.offset(place);
                let arena = self.arenas[place.memory].bytes();
                arena.get(start..start + operand.desc.size_bytes()).unwrap_or_default()
            }
            Some(Place::Device(_)) | None => &[],
        }
    }

    /// Returns the extents of the input at `index` for the next run.
    pub(crate) fn input_dims(&self, index: usize) -> &[usize] {
        let arg = self.tensors.get(self.first_input + index).map(SharedArg::at_rest);
        arg.and_then(|arg| arg.dims.get(..usize::from(arg.rank))).unwrap_or_default()
    }

    /// Sets the extents of the input at `index` for the next run, if they are within its bounds.
    pub(crate) fn set_input_dims(&mut self, index: usize, dims: &[usize]) {
        let Some(port) = self.plan.inputs.get(index) else { return };
        let operand = &port.operand;
        let Some(shape) = Shape::new(dims).ok().filter(|s| s.len() <= operand.desc.len()) else {
            return;
        };
        let arg = TensorArg::new(&operand.desc.with_extents(shape), self.address(operand));
        if let Some(tensor) = self.tensors.get(self.first_input + index) {
            tensor.write(Extents::from_arg(&arg));
        }
    }

    /// Does the same until the run's tensors are unbound, which restores the previous extents.
    pub(crate) fn lend_input_dims(&mut self, index: usize, dims: &[usize]) {
        let now = self.tensors.get(self.first_input + index).map(SharedArg::read);
        if let Some(own) = self.own_dims.get_mut(index) {
            *own = own.take().or(now);
        }
        self.set_input_dims(index, dims);
    }

    /// Keeps the lent extents of the input at `index`, because it now has elements for them.
    pub(crate) fn keep_input_dims(&mut self, index: usize) {
        if let Some(own) = self.own_dims.get_mut(index) {
            *own = None;
        }
    }

    /// Restores the extents that inputs had before others were lent to them.
    pub(super) fn take_back_dims(&mut self) {
        let inputs = self.tensors.get(self.first_input..).unwrap_or_default();
        for (own, tensor) in self.own_dims.iter_mut().zip(inputs) {
            if let Some(own) = own.take() {
                tensor.write(own);
            }
        }
    }

    /// Returns the description of the input at `index` for the next run.
    fn input_desc(&self, index: usize) -> Option<TensorDesc> {
        let desc = self.plan.inputs.get(index)?.operand.desc;
        Some(desc.with_extents(Shape::new(self.input_dims(index)).ok()?))
    }

    /// Returns the current bytes of the input at `index`.
    pub(crate) fn input_bytes(&self, index: usize) -> Option<&[u8]> {
        let bytes = self.bytes_of(&self.plan.inputs.get(index)?.operand);
        bytes.get(..self.input_desc(index)?.size_bytes())
    }

    /// Returns a copy of the input at `index`.
    pub(crate) fn input_tensor(&self, index: usize) -> Option<Tensor> {
        let desc = self.input_desc(index)?;
        Tensor::from_bytes(desc.dtype()?, desc.full_shape(), self.input_bytes(index)?).ok()
    }

    /// Fills the input at `index` if the length matches.
    pub(crate) fn fill_input(&mut self, index: usize, from: &[u8]) {
        let to = self.input_bytes_mut(index).filter(|to| to.len() == from.len());
        if let Some(to) = to {
            to.copy_from_slice(from);
        }
    }

    /// Returns the bytes of the input at `index` for writing.
    pub(crate) fn input_bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let operand = &self.plan.inputs.get(index)?.operand;
        let place = self.plan.windows.get(operand.window()?.0)?;
        let (memory, start) = (place.memory, self.offset(place));
        let bytes = self.input_desc(index)?.size_bytes();
        if let Some(moved) = place.moves.and_then(|number| self.moved.get_mut(number)) {
            return moved.bytes_mut(bytes);
        }
        let end = start + bytes;
        self.arenas[memory].bytes_mut().get_mut(start..end)
    }

    /// Returns the elements of the input at `index` for writing.
    pub(crate) fn input_mut<T: Element>(&mut self, index: usize) -> Result<&mut [T], PortError> {
        let plan = Arc::clone(&self.plan);
        let port = plan.inputs.get(index);
        let desc = port.map_or(TensorDesc::ABSENT, |port| port.operand.desc);
        let name = port.map_or("", |port| port.name.as_str());
        let bytes = self.input_bytes_mut(index).filter(|_| desc.dtype() == Some(T::DTYPE));
        bytes.and_then(elements_mut).ok_or_else(|| wrong_type("input", name, T::DTYPE, &desc))
    }

    /// Returns the type and shape of an output after the last run.
    ///
    /// # Errors
    /// The model has no such output.
    pub(crate) fn output_desc(&self, name: &str) -> Result<TensorDesc, PortError> {
        Ok(self.shaped(self.output_operand(name)?))
    }

    fn output_operand(&self, name: &str) -> Result<&Operand, PortError> {
        let outputs = &self.plan.outputs;
        let port = outputs.iter().find(|port| port.name == name);
        port.map(|port| &port.operand).ok_or_else(|| {
            PortError::no_such("output", name, outputs.iter().map(|port| port.name.as_str()))
        })
    }

    pub(super) fn shaped(&self, operand: &Operand) -> TensorDesc {
        let Some(shape) = operand.shape else { return operand.desc };
        let said_by =
            self.said_by.get(&shape).and_then(|said_by| self.tensors.get(*said_by.first()?));
        let arg = said_by.map(SharedArg::read);
        let shape = arg.and_then(|a| Shape::new(a.dims.get(..a.rank)?).ok());
        shape.map_or(operand.desc, |s| operand.desc.with_extents(s))
    }

    /// Returns the elements of an output after the last run.
    ///
    /// # Errors
    /// The model has no such output, or it has another type.
    pub(crate) fn output<T: Element>(&self, name: &str) -> Result<&[T], PortError> {
        let operand = self.output_operand(name)?;
        let wrong = || wrong_type("output", name, T::DTYPE, &operand.desc);
        if operand.desc.dtype() != Some(T::DTYPE) {
            return Err(wrong());
        }
        let len = self.shaped(operand).len();
        elements::<T>(self.bytes_of(operand)).and_then(|all| all.get(..len)).ok_or_else(wrong)
    }

    /// Returns a copy of an output after the last run.
    ///
    /// # Errors
    /// The model has no such output.
    pub(crate) fn output_tensor(&self, name: &str) -> Result<Tensor, PortError> {
        let operand = self.output_operand(name)?;
        let desc = self.shaped(operand);
        let dtype = desc.dtype().unwrap_or(DType::U8);
        let bytes = self.bytes_of(operand).get(..desc.size_bytes()).unwrap_or_default();
        Tensor::from_bytes(dtype, desc.full_shape(), bytes).map_err(|e| PortError::WrongTensor {
            side: "output",
            name: name.to_owned(),
            found: e.to_string(),
            wanted: desc.to_string(),
        })
    }
}

fn wrong_type(side: &'static str, name: &str, found: DType, wanted: &TensorDesc) -> PortError {
    let found = found.to_string();
    PortError::WrongTensor { side, name: name.to_owned(), found, wanted: wanted.to_string() }
}
