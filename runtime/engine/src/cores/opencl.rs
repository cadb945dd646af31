//! GPU kernels on a real OpenCL device, which is looked for once, when the first GPU kernel needs it.
//!
//! A [`DeviceKernel`] is a package's launches of OpenCL C kernels, compiled for one node, with device memory for
//! its scratch and its packed constants. It is an ordinary [`Kernel`](udo_api::Kernel) to the rest of the runtime, and a run of it uses
//! no Rust heap; what the driver allocates on its own side is the driver's.
//!
//! Tensors stay on the device. A session has an arena there, and a tensor of a step on the device points to its region
//! of it instead of to elements. Kernels and copies are enqueued one behind the other, and the host waits where a value
//! crosses to it.

mod build;
mod error;
mod kernel;
mod region;
mod source;
mod transfer;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock, Weak};

use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_GPU, Device as DeviceId};
use opencl3::error_codes::{CL_PLATFORM_NOT_FOUND_KHR, ClError, DLOPEN_RUNTIME_LOAD_FAILED};
use opencl3::memory::{Buffer, cl_mem_flags};
use opencl3::platform::get_platforms;

use udo_api::Launch;

use super::OpenCl;
use crate::exit_guard::PerProcess;
pub use error::OpenClError;
use error::from;
pub use kernel::{DeviceCall, DeviceKernel};
pub use region::{Arena, Region};
pub use source::{Storage, for_compiler};
pub use transfer::{CopyThere, Download, Upload};

/// The OpenCL device of this process.
///
/// The first GPU that works, else the first device of any kind. It is looked for on the first
/// call; `UDO_OPENCL=off` in the environment says not to.
///
/// # Errors
/// Why there is none, the same on every call.
pub fn find() -> Result<&'static ClDevice, &'static OpenClError> {
    static FOUND: PerProcess<OnceLock<Result<ClDevice, OpenClError>>> =
        PerProcess::new(OnceLock::new());
    FOUND.get().get_or_init(open).as_ref()
}

/// The OpenCL device of this process, if there is one; [`find`] says why not.
pub fn device() -> Option<&'static ClDevice> {
    find().ok()
}

/// The device that GPU kernels run on under this setting.
///
/// # Errors
/// Why there is none.
pub fn of(setting: OpenCl) -> Result<&'static ClDevice, String> {
    match setting {
        OpenCl::Auto => find().map_err(ToString::to_string),
        OpenCl::Off => Err("OpenCL is switched off by the profile".to_owned()),
    }
}

fn open() -> Result<ClDevice, OpenClError> {
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
            match ClDevice::open(DeviceId::new(id)) {
                Ok(device) => return Ok(device),
                Err(error) => failure = error,
            }
        }
    }
    Err(failure)
}

/// An OpenCL device, ready to compile and run kernels.
pub struct ClDevice {
    name: String,
    driver: String,
    id: DeviceId,
    context: Context,
    queue: CommandQueue,
    /// What the first byte of a buffer in a buffer is a multiple of.
    align_bytes: usize,
    /// Programs by their sources and options, for as long as a kernel has them.
    programs: Mutex<build::Known>,
    /// Constants by the ids of their tensors, for as long as a plan has them.
    constants: Mutex<HashMap<u64, Weak<Region>>>,
}

impl fmt::Debug for ClDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClDevice")
            .field("name", &self.name)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

impl ClDevice {
    fn open(id: DeviceId) -> Result<Self, OpenClError> {
        let name = id.name().map_err(from("clGetDeviceInfo"))?.trim().to_owned();
        let driver = id.driver_version().map_err(from("clGetDeviceInfo"))?.trim().to_owned();
        let context = Context::from_device(&id).map_err(from("clCreateContext"))?;
        // In order: each launch may count on the writes before it.
        let queue =
            CommandQueue::create_default(&context, 0).map_err(from("clCreateCommandQueue"))?;
        let align_bits = id.mem_base_addr_align().map_err(from("clGetDeviceInfo"))?;
        let align_bytes = usize::try_from(align_bits).unwrap_or(0).div_ceil(8).max(1);
        let (programs, constants) = (Mutex::default(), Mutex::default());
        Ok(Self { name, driver, id, context, queue, align_bytes, programs, constants })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of its driver.
    pub fn driver_version(&self) -> &str {
        &self.driver
    }

    /// Compiles a source for what the compiler says of it, in which it goes by the name `file`.
    ///
    /// # Errors
    /// It does not compile, or OpenCL refuses.
    pub fn check_source(
        &self,
        file: &str,
        source: &str,
        storage: Storage,
        options: &str,
    ) -> Result<(), OpenClError> {
        let launch = Launch::new(source.to_owned(), file.to_owned()).options(options.to_owned());
        build::program(self, &launch, &for_compiler(source, file, storage)).map(|_| ())
    }

    /// What the first byte of each tensor in an arena is a multiple of.
    pub fn align_bytes(&self) -> usize {
        self.align_bytes
    }

    /// Waits until all that is enqueued is done.
    pub fn finish(&self) {
        // What went wrong is met again where a result is read.
        let _ = self.queue.finish();
    }

    /// A buffer each of whose bytes is `fill`, once the queue has got there.
    fn filled(
        &self,
        bytes: usize,
        fill: u8,
        flags: cl_mem_flags,
    ) -> Result<Buffer<u8>, OpenClError> {
        // OpenCL has no empty buffers.
        let bytes = bytes.max(1);
        // SAFETY: there is no host memory for the flags to misuse.
        let buffer = unsafe { Buffer::create(&self.context, flags, bytes, std::ptr::null_mut()) };
        let mut buffer = buffer.map_err(from("clCreateBuffer"))?;
        // SAFETY: the range is the whole buffer, and OpenCL copies the pattern before it returns.
        let filled = unsafe { self.queue.enqueue_fill_buffer(&mut buffer, &[fill], 0, bytes, &[]) };
        filled.map_err(from("clEnqueueFillBuffer"))?;
        Ok(buffer)
    }
}
