//! The runtime: operators and devices.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

use udo_api::Core;
use udo_engine::device;
use udo_engine::device::Result;
use udo_runtime::Builder;
use udo_runtime::package::{Containment, Trust};

use crate::argument::{invalid, need};
use crate::born::live;
use crate::codes::{CoherenceCode, Contain, ContainCode, coherence, contain};
use crate::error::Error;
use crate::ffi::{List, Options, OptionsAt, Text, Texts, guard, hand_out, named_pointers, release};
use crate::handles::{Device, Runtime};

/// Options of a runtime. NULL or zeros select the defaults.
#[repr(C)]
#[derive(Debug)]
pub struct RuntimeOptions {
    /// `sizeof(udo_runtime_options_t)`.
    pub size: usize,
    /// Paths of operator packages: their folders, `dist` folders or registration libraries.
    pub packages: Texts,
    /// Length of the array above.
    pub package_count: usize,
    /// The devices to create; NULL means one of each kind.
    pub devices: DeviceSpecs,
    /// Number of specifications.
    pub device_count: usize,
    /// Paths of packages, in addition to `packages`, whose code runs in a separate worker process.
    /// Faults of this code become errors of the call that caused them. Requires Linux.
    pub contained: Texts,
    /// Length of the array above.
    pub contained_count: usize,
    /// Which of `packages` are contained too.
    pub contain: ContainCode,
    /// Must be 0.
    pub reserved: u32,
    /// Time limit in nanoseconds for a call of a contained package's code, after which its worker
    /// is ended; 0 means a minute.
    pub contain_timeout_ns: u64,
    /// The worker program; NULL means the file `udo-worker` next to the program or this library, in
    /// the folder above, or in its folder `bin`.
    pub worker: Text,
    /// Files with trusted public keys, as `udo sign --new-key` writes them. If any keys are given
    /// here or in `trusted_keys`, packages without a signature of one of them are refused.
    pub trusted_key_files: Texts,
    /// Length of the array above.
    pub trusted_key_file_count: usize,
    /// Trusted keys as a string, with the lines of such files. An empty string trusts nobody; NULL
    /// means none.
    pub trusted_keys: Text,
    /// A lock file of `udo lock` that packages must match; NULL means none. The library does not
    /// search for one.
    pub lock_file: Text,
}

/// Devices of one kind to create. Devices of the same kind are numbered in order.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceSpec {
    /// The core whose kernels they run, such as "dsp:v68".
    pub core: Text,
    /// How many; at most 1024 devices in total.
    pub count: u32,
    /// Cores of each, at most 64; 0 means all processors of this process for the CPU, and one for
    /// other kinds.
    pub cores: u32,
    /// Bytes of memory of each; 0 means the memory of the machine.
    pub memory_bytes: u64,
    /// Whether host and device see each other's writes at once.
    pub coherence: CoherenceCode,
}

named_pointers! {
    /// Devices to be made.
    DeviceSpecs(List<DeviceSpec>);
    /// Options, or NULL.
    RuntimeOptionsAt(OptionsAt<RuntimeOptions>);
}

// SAFETY: its fields are a size, pointers and numbers.
unsafe impl Options for RuntimeOptions {}

fn create(options: RuntimeOptionsAt) -> Result<Runtime> {
    let options = options.get()?;
    let builder = opened(udo_runtime::Runtime::builder(), &options)?;
    let devices = options.devices.get(options.device_count, "options.devices")?;
    let devices = devices.iter().enumerate().map(|(at, spec)| device_spec(spec, at));
    let devices: Vec<_> = devices.collect::<Result<_>>()?;
    Ok(Runtime::new(builder.devices(devices).build()?))
}

/// With the packages that a structure asks for.
fn opened(mut builder: Builder, options: &RuntimeOptions) -> Result<Builder> {
    let packages = options.packages.get(options.package_count, "options.packages")?;
    let containment = containment(options)?;
    let contain = contain(options.contain)?;
    for (at, path) in packages.iter().enumerate() {
        let path = path.path(&format!("options.packages[{at}]"))?;
        builder = match contain {
            Contain::All => builder.contained(path, containment.clone()),
            Contain::Listed | Contain::Unsigned => builder.package(path),
        };
    }
    let contained = options.contained.get(options.contained_count, "options.contained")?;
    for (at, path) in contained.iter().enumerate() {
        let path = path.path(&format!("options.contained[{at}]"))?;
        builder = builder.contained(path, containment.clone());
    }
    if let Contain::Unsigned = contain {
        builder = builder.contain_unsigned(containment);
    }
    Ok(builder.trust(trust(options)?))
}

/// How packages are contained.
fn containment(options: &RuntimeOptions) -> Result<Containment> {
    if options.reserved != 0 {
        return Err(invalid(format!("options.reserved is {}; expected 0", options.reserved)));
    }
    let mut containment = Containment::default();
    if options.contain_timeout_ns > 0 {
        containment = containment.timeout(Duration::from_nanos(options.contain_timeout_ns));
    }
    Ok(match options.worker.option("options.worker")? {
        Some(program) => containment.worker(program),
        None => containment,
    })
}

/// Which packages may be opened.
fn trust(options: &RuntimeOptions) -> Result<Trust> {
    let mut trust = Trust::default();
    let what = "options.trusted_key_files";
    let files = options.trusted_key_files.get(options.trusted_key_file_count, what)?;
    for (at, path) in files.iter().enumerate() {
        trust.add_key_file(path.path(&format!("{what}[{at}]"))?)?;
    }
    if let Some(keys) = options.trusted_keys.option("options.trusted_keys")? {
        trust.add_keys(keys)?;
    }
    if let Some(path) = options.lock_file.option("options.lock_file")? {
        trust.set_lock_file(Path::new(path))?;
    }
    Ok(trust)
}

/// The devices that a structure asks for.
fn device_spec(asked: &DeviceSpec, at: usize) -> Result<device::DeviceSpec> {
    let place = |field: &str| format!("options.devices[{at}].{field}");
    let name = asked.core.get(&place("core"))?;
    let core = Core::from_name(name).ok_or_else(|| {
        invalid(format!("{} is {name:?}; expected one of {}", place("core"), Core::NAMES))
    })?;
    let mut spec = device::DeviceSpec::new(core);
    spec.count = asked.count;
    if asked.cores > 0 {
        spec.cores = asked.cores;
    }
    spec.memory_bytes = Some(asked.memory_bytes).filter(|&bytes| bytes > 0);
    spec.coherence = coherence(asked.coherence)?;
    Ok(spec)
}

/// Returns the version of this library, such as "1.2.3".
#[unsafe(no_mangle)]
pub extern "C" fn udo_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Creates a runtime with the built-in operators, the operators of packages, and devices.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_create(
    options: RuntimeOptionsAt,
    out: Option<&mut MaybeUninit<Option<Box<Runtime>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let out = need(out, "out")?;
        hand_out(out, create(options)?);
        Ok(())
    })
}

/// Returns the number of devices of a runtime.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_device_count(
    runtime: Option<&Runtime>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        out.write(runtime.0.devices().iter().count());
        Ok(())
    })
}

/// Returns the device at an index among all devices, from 0.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_device(
    runtime: Option<&Runtime>,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<Device>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        let device = runtime.0.devices().iter().nth(index).ok_or_else(|| {
            let count = runtime.0.devices().iter().count();
            invalid(format!("no device {index}; expected an index below {count}"))
        })?;
        hand_out(out, Device::new(device.clone()));
        Ok(())
    })
}

/// Simulates the loss of a device, for tests of error handling: its runs in progress and in its
/// queue fail once each, and new submissions fail until it is reset.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_lose_device(
    runtime: Option<&Runtime>,
    device: Option<&Device>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, device) = (live(runtime, "runtime")?, live(device, "device")?);
        runtime.0.lose_device(&device.inner);
        Ok(())
    })
}

/// Restores a lost device. The contents of its memory are unchanged.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_reset_device(
    runtime: Option<&Runtime>,
    device: Option<&Device>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, device) = (live(runtime, "runtime")?, live(device, "device")?);
        runtime.0.reset_device(&device.inner);
        Ok(())
    })
}

/// Releases a runtime. NULL is allowed. Devices, models and other objects created from it stay
/// valid.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_release(runtime: Option<Box<Runtime>>) {
    release(runtime);
}
