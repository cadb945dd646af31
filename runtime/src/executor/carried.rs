//! Values that a plan passes to the next one.

use udo_api::{DType, TensorDesc};

use super::Executor;
use udo_compile::plan::{Operand, Port};
use udo_graph::memory::{Tensor, TensorError};

/// A value that another plan reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carried {
    Input(usize),
    Output(usize),
}

impl Executor {
    /// Returns the input or output with this name.
    pub(crate) fn carried(&self, name: &str) -> Carried {
        let at = |ports: &[Port]| ports.iter().position(|port| port.name == name);
        let input = at(&self.plan.inputs).map(Carried::Input);
        input.unwrap_or_else(|| Carried::Output(at(&self.plan.outputs).unwrap_or(usize::MAX)))
    }

    fn carried_operand(&self, carried: Carried) -> Option<&Operand> {
        let port = match carried {
            Carried::Input(index) => self.plan.inputs.get(index),
            Carried::Output(index) => self.plan.outputs.get(index),
        };
        port.map(|port| &port.operand)
    }

    /// Returns its type and shape after the last run. Uses no heap.
    pub(crate) fn carried_desc(&self, carried: Carried) -> TensorDesc {
        self.carried_operand(carried).map_or(TensorDesc::ABSENT, |operand| self.shaped(operand))
    }

    /// Returns its bytes after the last run. Uses no heap.
    pub(crate) fn carried_bytes(&self, carried: Carried) -> &[u8] {
        let Some(operand) = self.carried_operand(carried) else { return &[] };
        let bytes = self.shaped(operand).size_bytes();
        self.bytes_of(operand).get(..bytes).unwrap_or_default()
    }

    /// Returns a copy of it after the last run.
    pub(crate) fn carried_tensor(&self, carried: Carried) -> Result<Tensor, TensorError> {
        let desc = self.carried_desc(carried);
        let dtype = desc.dtype().unwrap_or(DType::U8);
        Tensor::from_bytes(dtype, desc.full_shape(), self.carried_bytes(carried))
    }
}
