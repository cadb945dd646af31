//! A package's launches, compiled for one node.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opencl3::command_queue::CommandQueue;
use opencl3::error_codes::ClError;
use opencl3::kernel::Kernel as ClKernel;
use opencl3::memory::{Buffer, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, ClMem};
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, cl_uint};
use udo_api::abi::{GpuArgKind, TensorArg};
use udo_api::{
    Error, ExecError, FinalizeCx, Inputs, Io, Kernel, KernelInfo, Outputs, PackedConstants, Status,
    TensorDesc,
};

use super::error::from;
use super::region::Region;
use super::source::{self, Ports};
use super::{ClDevice, OpenClError, build};

/// A package's OpenCL kernels, compiled for one node.
///
/// Sessions share them: only one run at a time sets arguments and enqueues commands. OpenCL errors during a run become
/// [`Status::DEVICE`] with the number of the [`DeviceCall`] and OpenCL's error code.
#[derive(Debug)]
pub struct DeviceKernel {
    device: &'static ClDevice,
    work: Mutex<Work>,
}

/// The calls of a run, as numbered in an [`ExecError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceCall {
    /// Copying a tensor or prepacked weights to the device.
    Write = 1,
    /// Starting a kernel.
    Launch = 2,
    /// Copying a tensor from the device, after all earlier commands.
    Read = 3,
    /// Copying a tensor within the device.
    Copy = 4,
}

/// Prepacked weights and their buffer on the device.
#[derive(Debug)]
struct PackedWire {
    index: u32,
    buffer: Buffer<u8>,
}

/// A launch. Arguments that do not change between runs are set once.
#[derive(Debug)]
struct Step {
    kernel: ClKernel,
    global: [usize; 3],
    local: Option<[usize; 3]>,
    ports: Vec<PortArg>,
    /// The kernel's program.
    _program: Arc<Program>,
}

/// An argument that is a tensor of the node.
#[derive(Clone, Copy, Debug)]
struct PortArg {
    index: cl_uint,
    port: Port,
    /// The address of the buffer that is currently set.
    bound: usize,
}

#[derive(Clone, Copy, Debug)]
enum Port {
    Input(usize),
    Output(usize),
}

/// The launches of a node, in order, and their device memory.
#[derive(Debug, Default)]
struct Work {
    steps: Vec<Step>,
    packed: Vec<PackedWire>,
    /// Whether the prepacked weights are on the device.
    is_loaded: bool,
    scratch: Vec<Buffer<u8>>,
}

impl ClDevice {
    /// Compiles the launches of a node with these inputs and outputs. Allocates device memory for their scratch buffers and
    /// for prepacked weights of these sizes.
    ///
    /// The local size of a launch is used if it divides the global size and the device supports it. Otherwise the driver
    /// chooses one.
    ///
    /// # Errors
    /// Fails if a source does not compile or does not define the kernel, or arguments do not fit its parameters.
    pub fn compile(
        &'static self,
        info: &KernelInfo,
        inputs: &[TensorDesc],
        outputs: &[TensorDesc],
        packed_bytes: &[usize],
    ) -> Result<DeviceKernel, OpenClError> {
        let ports = Ports { inputs, outputs };
        let scratch: Result<Vec<_>, _> =
            info.scratch.iter().map(|&bytes| self.filled(bytes, 0, CL_MEM_READ_WRITE)).collect();
        let mut work = Work { scratch: scratch?, ..Work::default() };
        for launch in &info.launches {
            let (kernel, program) = build::kernel(self, launch, ports)?;
            let local = build::group(self, launch, &kernel)?;
            let args = build::arguments(launch, &kernel, ports)?;
            let (global, ports_of) = (launch.global_size, Vec::new());
            let mut step = Step { kernel, global, local, ports: ports_of, _program: program };
            for (index, arg) in (0..).zip(args) {
                self.pass(&mut work, &mut step, index, arg, ports, packed_bytes)?;
            }
            work.steps.push(step);
        }
        Ok(DeviceKernel { device: self, work: Mutex::new(work) })
    }

    /// Sets an argument for all runs, or records which tensor it is.
    fn pass(
        &self,
        work: &mut Work,
        step: &mut Step,
        index: cl_uint,
        arg: GpuArgKind,
        ports: Ports<'_>,
        packed_bytes: &[usize],
    ) -> Result<(), OpenClError> {
        let number = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
        match arg {
            GpuArgKind::Input(port) => {
                let desc = source::desc_of(ports.inputs, port);
                step.pass_port(index, Port::Input(number(port)), desc)
            }
            GpuArgKind::Output(port) => {
                let desc = source::desc_of(ports.outputs, port);
                step.pass_port(index, Port::Output(number(port)), desc)
            }
            GpuArgKind::Scratch(scratch) => {
                let buffer = work.scratch.get(number(scratch));
                step.pass(index, buffer.map_or(std::ptr::null_mut(), ClMem::get))
            }
            GpuArgKind::Packed(constant) => {
                let bytes = packed_bytes.get(number(constant)).copied().unwrap_or(0);
                step.pass(index, self.packed(&mut work.packed, constant, bytes)?)
            }
            GpuArgKind::Local(bytes) => step.pass_local(index, bytes),
            GpuArgKind::I32(value) => step.pass(index, value),
            GpuArgKind::U32(value) => step.pass(index, value),
            GpuArgKind::F32(value) => step.pass(index, value),
        }
    }

    /// Returns the buffer of prepacked weights. It is created when an argument first refers to it.
    fn packed(
        &self,
        packed: &mut Vec<PackedWire>,
        index: u32,
        bytes: usize,
    ) -> Result<*mut c_void, OpenClError> {
        if let Some(wire) = packed.iter().find(|wire| wire.index == index) {
            return Ok(wire.buffer.get());
        }
        let buffer = self.filled(bytes, 0, CL_MEM_READ_ONLY)?;
        let handle = buffer.get();
        packed.push(PackedWire { index, buffer });
        Ok(handle)
    }
}

impl Step {
    /// Sets an argument to a number, or to the handle of a buffer that lives as long as the launch.
    fn pass<T: Copy>(&self, index: cl_uint, value: T) -> Result<(), OpenClError> {
        // SAFETY: OpenCL copies the value, checks index and size, and `compile` has checked the kind;
        // a buffer is in the same `Work` as the kernel.
        unsafe { self.kernel.set_arg(index, &value) }.map_err(from("clSetKernelArg"))
    }

    /// Sets an argument to local memory.
    fn pass_local(&self, index: cl_uint, bytes: usize) -> Result<(), OpenClError> {
        // SAFETY: OpenCL checks index and size, and `compile` has checked that the parameter is local.
        unsafe { self.kernel.set_arg_local_buffer(index, bytes) }.map_err(from("clSetKernelArg"))
    }

    /// Records that an argument is a tensor. A tensor that is left out becomes a null pointer.
    fn pass_port(
        &mut self,
        index: cl_uint,
        port: Port,
        desc: Option<&TensorDesc>,
    ) -> Result<(), OpenClError> {
        if desc.is_none_or(TensorDesc::is_absent) {
            return self.pass::<*mut c_void>(index, std::ptr::null_mut());
        }
        self.ports.push(PortArg { index, port, bound: 0 });
        Ok(())
    }

    /// Sets the tensors of this run and enqueues the kernel.
    fn enqueue(
        &mut self,
        queue: &CommandQueue,
        inputs: &Inputs<'_>,
        outputs: &Outputs<'_>,
    ) -> Result<(), ExecError> {
        if self.global.contains(&0) {
            return Ok(());
        }
        for arg in &mut self.ports {
            let tensor = match arg.port {
                Port::Input(port) => inputs.laid(port)?,
                Port::Output(port) => outputs.laid(port)?,
            };
            // SAFETY: the session lays tensors of steps on the device there.
            let handle = unsafe { region_of(tensor) }?.handle()?;
            if arg.bound == handle.addr() {
                continue;
            }
            arg.bound = 0;
            // SAFETY: OpenCL copies the handle, and the buffer lives until the kernel is done, as OpenCL counts who uses it.
            unsafe { self.kernel.set_arg(arg.index, &handle) }
                .map_err(failed(DeviceCall::Launch))?;
            arg.bound = handle.addr();
        }
        let local = self.local.as_ref().map_or(std::ptr::null(), |group| group.as_ptr());
        let (kernel, global) = (self.kernel.get(), self.global.as_ptr());
        // SAFETY: all arguments are set, and both sizes have three elements where they are not null.
        let done = unsafe {
            queue.enqueue_nd_range_kernel(kernel, 3, std::ptr::null(), global, local, &[])
        };
        done.map_err(failed(DeviceCall::Launch))?;
        Ok(())
    }
}

/// Returns the region of a tensor on the device.
///
/// # Safety
/// The tensor's address must be null or that of a region that lives as long as the borrow.
pub(super) unsafe fn region_of(tensor: &TensorArg) -> Result<&Region, ExecError> {
    #[expect(clippy::cast_ptr_alignment, reason = "the address is that of a region")]
    let region = tensor.data.cast::<Region>();
    // SAFETY: the caller guarantees the address.
    unsafe { region.as_ref() }.ok_or(ExecError::new(Status::BAD_CALL))
}

pub(super) fn failed(call: DeviceCall) -> impl Fn(ClError) -> ExecError {
    move |ClError(code)| {
        ExecError::with(Status::DEVICE, [call as u64, i64::from(code).cast_unsigned()])
    }
}

impl Work {
    /// Copies the prepacked weights to the device in the first run.
    fn load(
        &mut self,
        queue: &CommandQueue,
        packed: &PackedConstants<'_>,
    ) -> Result<(), ExecError> {
        for wire in &mut self.packed {
            let bytes = packed.bytes(wire.index)?;
            if bytes.is_empty() {
                continue;
            }
            // SAFETY: OpenCL checks that the bytes fit the buffer, and they are read when the call returns.
            let done =
                unsafe { queue.enqueue_write_buffer(&mut wire.buffer, CL_BLOCKING, 0, bytes, &[]) };
            done.map_err(failed(DeviceCall::Write))?;
        }
        self.is_loaded = true;
        Ok(())
    }
}

impl DeviceKernel {
    fn lock(&self) -> MutexGuard<'_, Work> {
        // An interrupted run leaves no invalid state: an argument is recorded as set only after it was set.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel for DeviceKernel {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(Error::new("a device's kernel is compiled by the host"))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, packed, .. } = io;
        for port in 0..outputs.len() {
            if outputs.has(port) {
                outputs.take_laid(port)?;
            }
        }
        let queue = &self.device.queue;
        let mut work = self.lock();
        if !work.is_loaded {
            work.load(queue, &packed)?;
        }
        work.steps.iter_mut().try_for_each(|step| step.enqueue(queue, &inputs, &outputs))
    }
}
