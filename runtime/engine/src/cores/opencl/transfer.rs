//! Copies between the host and the device, and within the device.

use udo_api::abi::TensorArg;
use udo_api::{DType, Error, ExecError, FinalizeCx, Io, Kernel};

use super::kernel::{failed, region_of};
use super::{ClDevice, DeviceCall};

/// Copies a tensor from the host to the device.
#[derive(Debug)]
pub struct Upload(pub &'static ClDevice);

/// Copies a tensor from the device to the host after it was computed.
#[derive(Debug)]
pub struct Download(pub &'static ClDevice);

/// Copies the rows of a tensor to their position in another tensor on the device.
#[derive(Debug)]
pub struct CopyThere(pub &'static ClDevice);

impl Kernel for Upload {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(unplanned())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        outputs.set_shape(0, inputs.shape(0)?)?;
        let (from, to) = (inputs.laid(0)?, outputs.take_laid(0)?);
        let bytes = bytes_of(from);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the session lays the input on the host, with as many bytes, which nothing writes to during the call.
        let bytes = unsafe { std::slice::from_raw_parts(from.data, bytes) };
        // SAFETY: the session lays the output on the device.
        unsafe { region_of(&to) }?.write(self.0, bytes).map_err(failed(DeviceCall::Write))
    }
}

impl Kernel for Download {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(unplanned())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        outputs.set_shape(0, inputs.shape(0)?)?;
        let (from, to) = (inputs.laid(0)?, outputs.take_laid(0)?);
        let bytes = bytes_of(&to);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the session lays the output on the host, with as many bytes, which nothing else reaches during the call.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.data, bytes) };
        // SAFETY: the session lays the input on the device.
        unsafe { region_of(from) }?.read(self.0, bytes).map_err(failed(DeviceCall::Read))
    }
}

impl Kernel for CopyThere {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(unplanned())
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let (from, to) = (inputs.laid(0)?, outputs.take_laid(0)?);
        // SAFETY: the session lays the input on the device.
        let source = unsafe { region_of(from) }?;
        // SAFETY: and the output as well.
        let target = unsafe { region_of(&to) }?;
        if from.is_dense() && to.is_dense() {
            let copied = source.copy(self.0, (0, target, 0), bytes_of(from));
            return copied.map_err(failed(DeviceCall::Copy));
        }
        let row = from.shape().last().copied().unwrap_or(1);
        let element = from.dtype().map_or(0, DType::size_bytes);
        for index in 0..from.len.checked_div(row).unwrap_or(0) {
            let [at, there] = [from.row_stride, to.row_stride].map(|row| index * row * element);
            let copied = source.copy(self.0, (at, target, there), row * element);
            copied.map_err(failed(DeviceCall::Copy))?;
        }
        Ok(())
    }
}

/// Returns the size of a tensor's elements in this run.
fn bytes_of(arg: &TensorArg) -> usize {
    arg.len * arg.dtype().map_or(0, DType::size_bytes)
}

fn unplanned() -> Error {
    Error::new("copies to and from a device cannot be finalized: plans create them")
}
