//! Constant inputs of a node: integers, and floats of 16 or 32 bits.

use udo_api::{Bf16, DType, Error, F16, Node, Port, types};

/// A constant input of integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntsArgument {
    pub(crate) input: usize,
    pub(crate) name: &'static str,
    /// Description for messages.
    pub(crate) what: &'static str,
}

impl IntsArgument {
    /// Returns the port of the input.
    pub(crate) const fn port(self) -> Port {
        Port::optional(self.name, types::I64).constant()
    }

    /// Returns the integers; an error if the node does not have them.
    pub(crate) fn required(self, node: &Node<'_>) -> Result<Vec<i64>, Error> {
        let Self { input, what, .. } = self;
        if !node.has_input(input) {
            return Err(Error::new(format!("input {input}, the {what}, is missing")));
        }
        node.constant_ints(input)?.ok_or_else(|| {
            Error::new(format!("input {input}, the {what}, is not known before the run"))
        })
    }

    /// Returns the integers, or `None` if the input is absent.
    pub(crate) fn read(self, node: &Node<'_>) -> Result<Option<Vec<i64>>, Error> {
        if node.has_input(self.input) {
            return self.required(node).map(Some);
        }
        Ok(None)
    }
}

/// Returns the values of the f32, f16 or bf16 input `port`, or `None` if they are not known before the run.
pub(crate) fn constant_floats(node: &Node<'_>, port: usize) -> Result<Option<Vec<f32>>, Error> {
    Ok(match node.input(port)?.dtype() {
        Some(DType::F16) => {
            node.constant::<F16>(port)?.map(|x| x.iter().map(|x| x.to_f32()).collect())
        }
        Some(DType::Bf16) => {
            node.constant::<Bf16>(port)?.map(|x| x.iter().map(|x| x.to_f32()).collect())
        }
        _ => node.constant::<f32>(port)?.map(<[f32]>::to_vec),
    })
}

/// Reads the parameter `name`, which must be positive.
pub(crate) fn count(node: &Node<'_>, name: &str) -> Result<usize, Error> {
    let value = node.int(name)?;
    usize::try_from(value).ok().filter(|&count| count > 0).ok_or_else(|| {
        Error::new(format!("parameter {name:?} is {value}, expected a positive integer"))
    })
}
