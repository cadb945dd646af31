//! GPU kernels on a real OpenCL device, which is looked for once, when the first GPU kernel needs it.
//!
//! A [`DeviceKernel`] is a package's launches of OpenCL C kernels, compiled for one node, with device memory for
//! the node's tensors, its scratch and its packed constants. It is an ordinary [`Kernel`] to the rest of the runtime, and a run of it uses
//! no Rust heap; what the driver allocates on its own side is the driver's.

mod build;
mod error;
mod source;

use std::ffi::c_void;
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_GPU, Device as DeviceId};
use opencl3::error_codes::{CL_PLATFORM_NOT_FOUND_KHR, ClError, DLOPEN_RUNTIME_LOAD_FAILED};
use opencl3::kernel::Kernel as ClKernel;
use opencl3::memory::{Buffer, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, ClMem, cl_mem_flags};
use opencl3::platform::get_platforms;
use opencl3::types::{CL_NON_BLOCKING, cl_uint};
use udo_api::abi::GpuArgKind;
use udo_api::{
    Bf16, Bool, DType, Element, Error, ExecError, F16, FinalizeCx, Inputs, Io, Kernel, KernelInfo,
    Outputs, PackedConstants, Status, TensorDesc,
};

use crate::memory::bytes_of;
pub use error::OpenClError;
use error::from;
use source::Ports;

/// The OpenCL device of this process.
///
/// The first GPU that works, else the first device of any kind. It is looked for on the first
/// call; `UDO_OPENCL=off` in the environment says not to.
///
/// # Errors
/// Why there is none, the same on every call.
pub fn find() -> Result<&'static Device, &'static OpenClError> {
    static FOUND: OnceLock<Result<Device, OpenClError>> = OnceLock::new();
    FOUND.get_or_init(open).as_ref()
}

/// The OpenCL device of this process, if there is one; [`find`] says why not.
pub fn device() -> Option<&'static Device> {
    find().ok()
}

fn open() -> Result<Device, OpenClError> {
    if std::env::var_os("UDO_OPENCL").is_some_and(|value| value == "off") {
        return Err(OpenClError::Disabled);
    }
    let platforms = get_platforms().map_err(|error| match error {
        ClError(DLOPEN_RUNTIME_LOAD_FAILED) => OpenClError::NoLibrary,
        ClError(CL_PLATFORM_NOT_FOUND_KHR) => OpenClError::NoDevice,
        other => from("clGetPlatformIDs")(other),
    })?;
    let mut failure = OpenClError::NoDevice;
    for kind in [CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ALL] {
        // A platform without devices of the kind answers with an error.
        for id in platforms.iter().filter_map(|p| p.get_devices(kind).ok()).flatten() {
            match Device::open(DeviceId::new(id)) {
                Ok(device) => return Ok(device),
                Err(error) => failure = error,
            }
        }
    }
    Err(failure)
}

/// An OpenCL device, ready to compile and run kernels.
pub struct Device {
    name: String,
    driver: String,
    id: DeviceId,
    context: Context,
    queue: CommandQueue,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.name)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

impl Device {
    fn open(id: DeviceId) -> Result<Self, OpenClError> {
        let name = id.name().map_err(from("clGetDeviceInfo"))?.trim().to_owned();
        let driver = id.driver_version().map_err(from("clGetDeviceInfo"))?.trim().to_owned();
        let context = Context::from_device(&id).map_err(from("clCreateContext"))?;
        // In order: each launch may count on the writes before it.
        let queue =
            CommandQueue::create_default(&context, 0).map_err(from("clCreateCommandQueue"))?;
        Ok(Self { name, driver, id, context, queue })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of its driver.
    pub fn driver_version(&self) -> &str {
        &self.driver
    }

    /// Compiles the launches of a node with these inputs and outputs, and takes device memory for them, for their
    /// scratch, and for packed constants of so many bytes. Inputs that are constants are written once.
    ///
    /// The local size that a launch asks for is used where it divides the global size and the
    /// device takes it; the driver picks one otherwise.
    ///
    /// # Errors
    /// A source does not build, has no such kernel, or its parameters do not fit the arguments.
    pub fn compile(
        &'static self,
        info: &KernelInfo,
        inputs: &[TensorDesc],
        outputs: &[TensorDesc],
        constants: Constants<'_>,
    ) -> Result<DeviceKernel, OpenClError> {
        let ports = Ports { inputs, outputs };
        let scratch: Result<Vec<_>, _> =
            info.scratch.iter().map(|&bytes| self.zeroed(bytes, CL_MEM_READ_WRITE)).collect();
        let mut work = Work { scratch: scratch?, ..Work::default() };
        let mut programs = build::Programs::default();
        for launch in &info.launches {
            let kernel = programs.kernel(self, launch, ports)?;
            let local = build::group(self, launch, &kernel)?;
            let args = build::arguments(launch, &kernel, ports)?;
            let step = Step { kernel, global: launch.global_size, local };
            for (index, arg) in (0..).zip(args) {
                self.pass(&mut work, &step, index, arg, ports, constants)?;
            }
            work.steps.push(step);
        }
        self.queue.finish().map_err(from("clFinish"))?;
        Ok(DeviceKernel { device: self, work: Mutex::new(work) })
    }

    /// Sets an argument, for all runs.
    fn pass(
        &self,
        work: &mut Work,
        step: &Step,
        index: cl_uint,
        arg: GpuArgKind,
        ports: Ports<'_>,
        constants: Constants<'_>,
    ) -> Result<(), OpenClError> {
        let number = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
        match arg {
            GpuArgKind::Input(port) => {
                let desc = source::desc_of(ports.inputs, port);
                let is_constant = constants.is_constant.get(number(port)).is_some_and(|&is| is);
                let wires = if is_constant { &mut work.constants } else { &mut work.inputs };
                step.pass(index, self.wire(wires, port, desc, CL_MEM_READ_ONLY)?)
            }
            GpuArgKind::Output(port) => {
                let desc = source::desc_of(ports.outputs, port);
                step.pass(index, self.wire(&mut work.outputs, port, desc, CL_MEM_READ_WRITE)?)
            }
            GpuArgKind::Scratch(scratch) => {
                let buffer = work.scratch.get(number(scratch));
                step.pass(index, buffer.map_or(std::ptr::null_mut(), ClMem::get))
            }
            GpuArgKind::Packed(constant) => {
                let bytes = constants.packed_bytes.get(number(constant)).copied().unwrap_or(0);
                step.pass(index, self.packed(&mut work.packed, constant, bytes)?)
            }
            GpuArgKind::Local(bytes) => step.pass_local(index, bytes),
            GpuArgKind::I32(value) => step.pass(index, value),
            GpuArgKind::U32(value) => step.pass(index, value),
            GpuArgKind::F32(value) => step.pass(index, value),
        }
    }

    /// The buffer of a packed constant, made the first time that an argument names it.
    fn packed(
        &self,
        packed: &mut Vec<PackedWire>,
        index: u32,
        bytes: usize,
    ) -> Result<*mut c_void, OpenClError> {
        if let Some(wire) = packed.iter().find(|wire| wire.index == index) {
            return Ok(wire.buffer.get());
        }
        let buffer = self.zeroed(bytes, CL_MEM_READ_ONLY)?;
        let handle = buffer.get();
        packed.push(PackedWire { index, bytes, buffer });
        Ok(handle)
    }

    /// The buffer of a port, made the first time that an argument names it; null for a port that is left out.
    fn wire<A: PortAccess>(
        &self,
        wires: &mut Vec<Wire<A>>,
        port: u32,
        desc: Option<&TensorDesc>,
        flags: cl_mem_flags,
    ) -> Result<*mut c_void, OpenClError> {
        let port = usize::try_from(port).unwrap_or(usize::MAX);
        if let Some(wire) = wires.iter().find(|w| w.port == port) {
            return Ok(wire.buffer.get());
        }
        let Some((access, desc)) = desc.and_then(|d| Some((A::of(d.dtype()?)?, d))) else {
            return Ok(std::ptr::null_mut());
        };
        let bytes = desc.size_bytes();
        let buffer = self.zeroed(bytes, flags)?;
        let handle = buffer.get();
        wires.push(Wire { port, bytes, access, buffer });
        Ok(handle)
    }

    fn zeroed(&self, bytes: usize, flags: cl_mem_flags) -> Result<Buffer<u8>, OpenClError> {
        // OpenCL has no empty buffers.
        let bytes = bytes.max(1);
        // SAFETY: there is no host memory for the flags to misuse.
        let buffer = unsafe { Buffer::create(&self.context, flags, bytes, std::ptr::null_mut()) };
        let mut buffer = buffer.map_err(from("clCreateBuffer"))?;
        // SAFETY: the range is the whole buffer, and OpenCL copies the pattern before it returns.
        let filled = unsafe { self.queue.enqueue_fill_buffer(&mut buffer, &[0u8], 0, bytes, &[]) };
        filled.map_err(from("clEnqueueFillBuffer"))?;
        Ok(buffer)
    }
}

/// A package's OpenCL kernels, compiled for one node.
///
/// Sessions share them: one run at a time holds the device memory. OpenCL's errors in a run come
/// as [`Status::DEVICE`], with the number of the [`DeviceCall`] and of the reason.
#[derive(Debug)]
pub struct DeviceKernel {
    device: &'static Device,
    work: Mutex<Work>,
}

/// The calls of a run, as an [`ExecError`] numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceCall {
    /// Copying an input or a packed constant to the device.
    Write = 1,
    /// Starting a kernel.
    Launch = 2,
    /// Copying an output from the device.
    Read = 3,
    /// Waiting for all of it.
    Finish = 4,
}

/// What of a node is known before any run.
#[derive(Clone, Copy, Debug)]
pub struct Constants<'a> {
    /// Which inputs are.
    pub is_constant: &'a [bool],
    /// The bytes of each packed constant.
    pub packed_bytes: &'a [usize],
}

/// How to reach the bytes of a port, chosen by its type before any run.
trait PortAccess: Sized {
    fn of(dtype: DType) -> Option<Self>;
}

#[derive(Clone, Copy, Debug)]
struct Load(for<'a> fn(&Inputs<'a>, usize) -> Result<&'a [u8], ExecError>);

#[derive(Clone, Copy, Debug)]
struct Store(for<'a> fn(&mut Outputs<'a>, usize) -> Result<&'a mut [u8], ExecError>);

fn load<'a, T: Element>(inputs: &Inputs<'a>, port: usize) -> Result<&'a [u8], ExecError> {
    inputs.get::<T>(port).map(bytes_of)
}

fn store<'a, T: Element>(
    outputs: &mut Outputs<'a>,
    port: usize,
) -> Result<&'a mut [u8], ExecError> {
    let elements = outputs.take::<T>(port)?;
    let bytes = size_of_val(elements);
    // SAFETY: the bytes are those of the slice, which is given up for them; elements are plain old
    // data, so that any bytes may be written.
    Ok(unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), bytes) })
}

macro_rules! port_access {
    ($access:ident, $function:ident) => {
        impl PortAccess for $access {
            fn of(dtype: DType) -> Option<Self> {
                Some(Self(match dtype {
                    DType::F32 => $function::<f32>,
                    DType::F64 => $function::<f64>,
                    DType::F16 => $function::<F16>,
                    DType::Bf16 => $function::<Bf16>,
                    DType::I8 => $function::<i8>,
                    DType::I16 => $function::<i16>,
                    DType::I32 => $function::<i32>,
                    DType::I64 => $function::<i64>,
                    DType::U8 => $function::<u8>,
                    DType::U16 => $function::<u16>,
                    DType::U32 => $function::<u32>,
                    DType::U64 => $function::<u64>,
                    DType::Bool => $function::<Bool>,
                    DType::Str => return None,
                }))
            }
        }
    };
}

port_access!(Load, load);
port_access!(Store, store);

/// A port and its memory on the device.
#[derive(Debug)]
struct Wire<A> {
    port: usize,
    bytes: usize,
    access: A,
    buffer: Buffer<u8>,
}

/// A packed constant and its memory on the device.
#[derive(Debug)]
struct PackedWire {
    index: u32,
    bytes: usize,
    buffer: Buffer<u8>,
}

/// A launch whose arguments are set once and for all.
#[derive(Debug)]
struct Step {
    kernel: ClKernel,
    global: [usize; 3],
    local: Option<[usize; 3]>,
}

/// The launches of a node, in order, and the device memory that they share.
#[derive(Debug, Default)]
struct Work {
    steps: Vec<Step>,
    inputs: Vec<Wire<Load>>,
    /// Inputs that are constants.
    constants: Vec<Wire<Load>>,
    outputs: Vec<Wire<Store>>,
    packed: Vec<PackedWire>,
    /// Whether the constants are on the device, packed or as they are.
    is_loaded: bool,
    scratch: Vec<Buffer<u8>>,
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

    fn enqueue(&self, queue: &CommandQueue) -> Result<(), ExecError> {
        if self.global.contains(&0) {
            return Ok(());
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

/// Enqueues a copy to the device, of bytes that must stay as they are until the queue is finished.
fn write(
    queue: &CommandQueue,
    buffer: &mut Buffer<u8>,
    capacity: usize,
    bytes: &[u8],
) -> Result<(), ExecError> {
    if bytes.len() > capacity {
        return Err(ExecError::of(Status::BAD_CALL));
    }
    if !bytes.is_empty() {
        // SAFETY: the bytes fit the buffer, and stay until the caller has finished the queue.
        let done = unsafe { queue.enqueue_write_buffer(buffer, CL_NON_BLOCKING, 0, bytes, &[]) };
        done.map_err(failed(DeviceCall::Write))?;
    }
    Ok(())
}

impl Work {
    /// Enqueues one run over memory that must stay as it is until the queue is finished.
    fn enqueue(
        &mut self,
        queue: &CommandQueue,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs<'_>,
        packed: &PackedConstants<'_>,
    ) -> Result<(), ExecError> {
        if !self.is_loaded {
            for wire in &mut self.packed {
                write(queue, &mut wire.buffer, wire.bytes, packed.bytes(wire.index)?)?;
            }
            for wire in &mut self.constants {
                write(queue, &mut wire.buffer, wire.bytes, (wire.access.0)(inputs, wire.port)?)?;
            }
        }
        for wire in &mut self.inputs {
            write(queue, &mut wire.buffer, wire.bytes, (wire.access.0)(inputs, wire.port)?)?;
        }
        for step in &self.steps {
            step.enqueue(queue)?;
        }
        for wire in &self.outputs {
            let bytes = (wire.access.0)(outputs, wire.port)?;
            if bytes.len() > wire.bytes {
                return Err(ExecError::of(Status::BAD_CALL));
            }
            if !bytes.is_empty() {
                // SAFETY: the buffer has the bytes, and they stay until the caller has finished the queue.
                let done = unsafe {
                    queue.enqueue_read_buffer(&wire.buffer, CL_NON_BLOCKING, 0, bytes, &[])
                };
                done.map_err(failed(DeviceCall::Read))?;
            }
        }
        Ok(())
    }
}

fn failed(call: DeviceCall) -> impl Fn(ClError) -> ExecError {
    move |ClError(code)| {
        ExecError::with(Status::DEVICE, [call as u64, i64::from(code).cast_unsigned()])
    }
}

impl DeviceKernel {
    fn lock(&self) -> MutexGuard<'_, Work> {
        // Nothing breaks when a run is cut short: every run writes its inputs anew.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel for DeviceKernel {
    fn finalize(_: &FinalizeCx<'_>) -> Result<Self, Error> {
        Err(Error::new("a device's kernel is compiled by the host"))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, packed, .. } = io;
        let mut work = self.lock();
        if work.steps.iter().all(|step| step.global.contains(&0)) {
            return Ok(());
        }
        let queue = &self.device.queue;
        let enqueued = work.enqueue(queue, &inputs, &mut outputs, &packed);
        // Also after a failure: what was enqueued before it still uses the memory of this run.
        let finished = queue.finish().map_err(failed(DeviceCall::Finish));
        let outcome = enqueued.and(finished);
        work.is_loaded |= outcome.is_ok();
        outcome
    }
}
