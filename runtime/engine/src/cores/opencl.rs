//! GPU kernels on a real OpenCL device. The device is opened once, when the first GPU kernel needs it.
//!
//! A [`DeviceKernel`] is a package's launches of OpenCL C kernels, compiled for one node, with device memory for scratch buffers
//! and prepacked weights. The rest of the runtime treats it as an ordinary [`Kernel`](udo_api::Kernel). Its execution does not
//! use the Rust heap; the driver may allocate.
//!
//! Tensors stay on the device. A session has an arena there, and the data pointer of a tensor on the device points to its
//! [`Region`] instead of elements. Kernels and copies are enqueued in order. The host waits only where a value is transferred to
//! it.

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

/// Returns the OpenCL device of this process.
///
/// This is the first GPU that works, or else the first device of any kind. It is opened on the first call. `UDO_OPENCL=off` in
/// the environment disables it.
///
/// # Errors
/// Returns the reason if there is no device. Every call returns the same error.
pub fn find() -> Result<&'static ClDevice, &'static OpenClError> {
    static FOUND: PerProcess<OnceLock<Result<ClDevice, OpenClError>>> =
        PerProcess::new(OnceLock::new());
    FOUND.get().get_or_init(open).as_ref()
}

/// Returns the OpenCL device of this process, if there is one; [`find`] returns the reason if not.
pub fn device() -> Option<&'static ClDevice> {
    find().ok()
}

/// Returns the device that GPU kernels run on with this setting.
///
/// # Errors
/// Returns the reason if there is no device.
pub fn device_for(setting: OpenCl) -> Result<&'static ClDevice, String> {
    match setting {
        OpenCl::Auto => find().map_err(ToString::to_string),
        OpenCl::Off => Err("OpenCL is disabled by the profile".to_owned()),
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
        // A platform without devices of this kind returns an error.
        for id in platforms.iter().filter_map(|p| p.get_devices(kind).ok()).flatten() {
            match ClDevice::open(DeviceId::new(id)) {
                Ok(device) => return Ok(device),
                Err(error) => failure = error,
            }
        }
    }
    Err(failure)
}

/// An opened OpenCL device that compiles and runs kernels.
pub struct ClDevice {
    name: String,
    driver: String,
    id: DeviceId,
    context: Context,
    queue: CommandQueue,
    /// The alignment of sub-buffers.
    align_bytes: usize,
    /// Programs by source and options, while a kernel uses them.
    programs: Mutex<build::Known>,
    /// Constants by tensor id, while a plan uses them.
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
        // In-order execution: each launch depends on the writes before it.
        let queue =
            CommandQueue::create_default(&context, 0).map_err(from("clCreateCommandQueue"))?;
        let align_bits = id.mem_base_addr_align().map_err(from("clGetDeviceInfo"))?;
        let align_bytes = usize::try_from(align_bits).unwrap_or(0).div_ceil(8).max(1);
        let (programs, constants) = (Mutex::default(), Mutex::default());
        Ok(Self { name, driver, id, context, queue, align_bytes, programs, constants })
    }

    /// Returns the device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version of the device's driver.
    pub fn driver_version(&self) -> &str {
        &self.driver
    }

    /// Compiles a source to check it. The compiler's messages call it `file`.
    ///
    /// # Errors
    /// Fails if the source does not compile, or OpenCL reports an error.
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

    /// Returns the alignment of tensors in an arena.
    pub fn align_bytes(&self) -> usize {
        self.align_bytes
    }

    /// Waits until all enqueued commands are finished.
    pub fn finish(&self) {
        // An error is reported again when a result is read.
        let _ = self.queue.finish();
    }

    /// Creates a buffer and enqueues a command that fills it with `fill`.
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
