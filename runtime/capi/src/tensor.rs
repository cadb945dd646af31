//! Tensors in the memory of devices.

use std::mem::MaybeUninit;

use udo_engine::device::Result;
use udo_runtime::device::DeviceTensor;

use crate::argument::need;
use crate::born::{Born, handles, live};
use crate::error::Error;
use crate::ffi::{
    Bytes, BytesMut, Dims, HandleList, HandlePlaces, guard, hand_out, named_pointers, release,
};
use crate::handles::Device;
use crate::memory::Memory;
use crate::spec::{TensorSpec, extents};

/// A tensor: its description, and its memory, which it keeps alive.
#[derive(Debug)]
pub struct Tensor(pub(crate) DeviceTensor, pub(crate) Born);

handles! {
    Tensor, 1;
}

named_pointers! {
    /// Inputs of a run.
    Tensors(HandleList<Tensor>);
    /// Outputs of a run, and where such go.
    TensorPlaces(HandlePlaces<Tensor>);
}

/// The tensors of a run, as C passes them.
#[derive(Clone, Copy)]
pub(crate) struct RunTensors {
    pub(crate) inputs: Tensors,
    pub(crate) input_count: usize,
    pub(crate) outputs: TensorPlaces,
    pub(crate) output_count: usize,
}

/// The same as the runtime has them; none for an output that the run is to make.
pub(crate) struct DeviceTensors {
    pub(crate) inputs: Vec<DeviceTensor>,
    pub(crate) outputs: Vec<Option<DeviceTensor>>,
}

impl RunTensors {
    /// The tensors, whose number the run checks.
    pub(crate) fn get(&self) -> Result<DeviceTensors> {
        let inputs = self.inputs.get(self.input_count, "inputs")?;
        let outputs = self.outputs.get(self.output_count, "outputs")?;
        let inputs = inputs.into_iter().map(|tensor| tensor.0.clone()).collect();
        let outputs = outputs.into_iter().map(|tensor| tensor.map(|tensor| tensor.0.clone()));
        Ok(DeviceTensors { inputs, outputs: outputs.collect() })
    }
}

/// Creates a tensor in new memory of the required size.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_create(
    device: Option<&Device>,
    spec: Option<&TensorSpec>,
    out: Option<&mut MaybeUninit<Option<Box<Tensor>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, spec) = (live(device, "device")?, live(spec, "spec")?);
        let out = need(out, "out")?;
        hand_out(out, Tensor(DeviceTensor::new(&device.inner, spec.0)?, Born::here()));
        Ok(())
    })
}

/// Creates a tensor in new memory of `size` bytes, which may be larger than required. A tensor with
/// open dimensions gets its shape from `udo_tensor_reshape`, or from the run that writes it.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_create_sized(
    device: Option<&Device>,
    spec: Option<&TensorSpec>,
    size: u64,
    out: Option<&mut MaybeUninit<Option<Box<Tensor>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (device, spec) = (live(device, "device")?, live(spec, "spec")?);
        let out = need(out, "out")?;
        hand_out(
            out,
            Tensor(DeviceTensor::with_capacity(&device.inner, spec.0, size)?, Born::here()),
        );
        Ok(())
    })
}

/// Creates a tensor in existing memory, which may be larger than required. A tensor with open
/// dimensions gets its shape as with `udo_tensor_create_sized`.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_create_from_memory(
    spec: Option<&TensorSpec>,
    memory: Option<&Memory>,
    out: Option<&mut MaybeUninit<Option<Box<Tensor>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (spec, memory) = (live(spec, "spec")?, live(memory, "memory")?);
        let out = need(out, "out")?;
        hand_out(out, Tensor(DeviceTensor::from_memory(spec.0, memory.0.clone())?, Born::here()));
        Ok(())
    })
}

/// Returns the memory of a tensor, as a new handle.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_memory(
    tensor: Option<&Tensor>,
    out: Option<&mut MaybeUninit<Option<Box<Memory>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (tensor, out) = (live(tensor, "tensor")?, need(out, "out")?);
        hand_out(out, Memory(tensor.0.memory().clone(), Born::here()));
        Ok(())
    })
}

/// Returns the description of a tensor, as a new object. After a run it has the shape that the run
/// set.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_spec(
    tensor: Option<&Tensor>,
    out: Option<&mut MaybeUninit<Option<Box<TensorSpec>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (tensor, out) = (live(tensor, "tensor")?, need(out, "out")?);
        hand_out(out, TensorSpec(*tensor.0.spec(), Born::here()));
        Ok(())
    })
}

/// Changes the shape of a tensor. Its memory must be large enough, and its bytes do not change. A
/// tensor that was created with open dimensions accepts the shapes that these allow.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_reshape(
    tensor: Option<&mut Tensor>,
    dims: Dims,
    rank: usize,
) -> Option<Box<Error>> {
    guard(|| {
        let tensor = live(tensor, "tensor")?;
        tensor.0.reshape(&extents(dims.get(rank, "dims")?)?)
    })
}

/// Copies all elements of a tensor, `len` bytes with batches one after the other, to the device.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_write(
    tensor: Option<&Tensor>,
    from: Bytes,
    len: usize,
) -> Option<Box<Error>> {
    guard(|| live(tensor, "tensor")?.0.write(from.get(len, "from")?))
}

/// Copies all elements of a tensor, `len` bytes with batches one after the other, to the host.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_read(
    tensor: Option<&Tensor>,
    mut into: BytesMut,
    len: usize,
) -> Option<Box<Error>> {
    guard(|| live(tensor, "tensor")?.0.read(into.get(len, "into")?))
}

/// Releases a tensor. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn udo_tensor_release(tensor: Option<Box<Tensor>>) {
    release(tensor);
}
