//! Operators on 8-bit quantized values whose scales and zero points are inputs: they compute with what the values
//! stand for, and quantize once.

mod binary;
pub(crate) mod byte_planes;
mod mean;
mod unary;

use udo_api::{
    Core, Element, Encoding, Error, ExecError, Inputs, KernelDef, Node, QuantizedType, Status,
    TypeSet, types,
};

use crate::family::argument::constant_floats;

pub(crate) use binary::{QuantizedBinary, quantized_binary};
pub(crate) use mean::{QuantizedMean, quantized_mean, sliding, whole};
pub(crate) use unary::{QuantizedUnary, quantized_unary};

/// A kernel of quantized values, which the CPU and the DSP run alike.
pub(crate) const fn fixed_point(kernel: KernelDef) -> [KernelDef; 2] {
    [kernel, kernel.on(Core::DSP_V68)]
}

/// The only element of an input, which the node may leave out.
pub(crate) fn first<T: Element>(inputs: &Inputs<'_>, port: usize, none: T) -> Result<T, ExecError> {
    if !inputs.has(port) {
        return Ok(none);
    }
    inputs.get::<T>(port)?.first().copied().ok_or(ExecError::of(Status::BAD_CALL))
}

/// The types of quantized values.
pub(crate) const VALUES: TypeSet = types::U8.or(types::I8);

/// The ports of a scale and a zero point, each one for the whole of a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodingPorts {
    pub(crate) scale: usize,
    /// Left out, or beyond the inputs, where it is 0.
    pub(crate) zero: usize,
}

impl EncodingPorts {
    /// Refuses a scale or zero point that is not for the whole of a tensor of type `values`.
    pub(crate) fn check(
        self,
        node: &Node<'_>,
        values: Option<udo_api::DType>,
    ) -> Result<(), Error> {
        for port in [self.scale, self.zero] {
            let is_there = port == self.scale || node.has_input(port);
            if is_there && node.input(port)?.len() != 1 {
                let found = node.input(port)?;
                return Err(Error::new(format!(
                    "input {port} is {found}, wanted one element for the whole tensor"
                )));
            }
        }
        if node.has_input(self.zero) && node.input(self.zero)?.dtype() != values {
            let (port, found) = (self.zero, node.input(self.zero)?);
            let wanted = values.map_or("absent", udo_api::DType::name);
            return Err(Error::new(format!(
                "input {port}, a zero point, is {found}, wanted {wanted} as its quantized values"
            )));
        }
        Ok(())
    }

    /// The encoding of values of type `T`, if it is known before the run.
    pub(crate) fn known<T: QuantizedType>(
        self,
        node: &Node<'_>,
    ) -> Result<Option<Encoding>, Error> {
        let scales = constant_floats(node, self.scale)?;
        let Some(&[scale]) = scales.as_deref() else { return Ok(None) };
        if !node.has_input(self.zero) {
            return Ok(Some(Encoding { scale, zero_point: 0 }));
        }
        let Some(&[zero]) = node.constant::<T>(self.zero)? else { return Ok(None) };
        Ok(Some(Encoding { scale, zero_point: zero.to_i32() }))
    }

    /// The encoding of values of type `T` in a run.
    pub(crate) fn read<T: QuantizedType>(self, inputs: &Inputs<'_>) -> Result<Encoding, ExecError> {
        let &[scale] = inputs.get::<f32>(self.scale)? else {
            return Err(ExecError::of(Status::BAD_CALL));
        };
        let zero = if inputs.has(self.zero) { inputs.get::<T>(self.zero)? } else { &[] };
        Ok(Encoding { scale, zero_point: zero.first().map_or(0, |zero| zero.to_i32()) })
    }
}
