//! Operators on 8-bit quantized values whose scales and zero points are inputs, such as `QLinearAdd`. They dequantize
//! their operands, compute in f32 and quantize the result once.

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

/// Returns a kernel of quantized values for both the CPU and the DSP.
pub(crate) const fn fixed_point(kernel: KernelDef) -> [KernelDef; 2] {
    [kernel, kernel.on(Core::DSP_V68)]
}

/// Returns the first element of an optional input, or `default` if the input is absent.
pub(crate) fn first<T: Element>(
    inputs: &Inputs<'_>,
    port: usize,
    default: T,
) -> Result<T, ExecError> {
    if !inputs.has(port) {
        return Ok(default);
    }
    inputs.get::<T>(port)?.first().copied().ok_or(ExecError::new(Status::BAD_CALL))
}

/// The quantized types.
pub(crate) const VALUES: TypeSet = types::U8.or(types::I8);

/// The ports of a scalar scale and zero point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodingPorts {
    pub(crate) scale: usize,
    /// A zero point that is absent, or past the last input, is 0.
    pub(crate) zero: usize,
}

impl EncodingPorts {
    /// Checks that scale and zero point are scalars and fit the type `values`.
    pub(crate) fn check(
        self,
        node: &Node<'_>,
        values: Option<udo_api::DType>,
    ) -> Result<(), Error> {
        for port in [self.scale, self.zero] {
            let is_present = port == self.scale || node.has_input(port);
            if is_present && node.input(port)?.len() != 1 {
                let found = node.input(port)?;
                return Err(Error::new(format!(
                    "input {port} is {found}, expected one element for the whole tensor"
                )));
            }
        }
        if node.has_input(self.zero) && node.input(self.zero)?.dtype() != values {
            let (port, found) = (self.zero, node.input(self.zero)?);
            let expected = values.map_or("absent", udo_api::DType::name);
            return Err(Error::new(format!(
                "input {port}, a zero point, is {found}, expected {expected} as its quantized values"
            )));
        }
        Ok(())
    }

    /// Returns the encoding of values of type `T`, if it is known before the run.
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

    /// Reads the encoding of values of type `T` in a run.
    pub(crate) fn read<T: QuantizedType>(self, inputs: &Inputs<'_>) -> Result<Encoding, ExecError> {
        let &[scale] = inputs.get::<f32>(self.scale)? else {
            return Err(ExecError::new(Status::BAD_CALL));
        };
        let zero = if inputs.has(self.zero) { inputs.get::<T>(self.zero)? } else { &[] };
        Ok(Encoding { scale, zero_point: zero.first().map_or(0, |zero| zero.to_i32()) })
    }
}
