//! The runtime: operators and devices.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use udo_runtime::device::{Devices, Result};
use udo_runtime::import::PackagedOp;
use udo_runtime::registry::Registry;

use crate::device::Device;
use crate::error::{Error, invalid, of_package};
use crate::ffi::{RuntimeOptionsAt, Texts, guard, hand_out, need, release};

/// Operators, built in and of packages, and devices. Threads may share it. What is made of it lives on by itself.
#[derive(Debug)]
pub struct Runtime {
    /// Models are compiled with clones of it, which share what they pack of constants.
    pub(crate) registry: Registry,
    pub(crate) devices: Devices,
}

/// What a runtime is made of. NULL in its place, or zeros, are the defaults.
#[repr(C)]
#[derive(Debug)]
pub struct RuntimeOptions {
    /// `sizeof(udo_runtime_options_t)`.
    pub size: usize,
    /// Paths of packages of operators: their folders, `dist` folders or registration libraries.
    pub packages: Texts,
    /// How many there are.
    pub package_count: usize,
}

impl Runtime {
    /// The operators of packages, which go before functions that a model has for them.
    pub(crate) fn packaged(&self) -> Vec<PackagedOp> {
        let of = |(name, domain): (&str, Option<&str>)| PackagedOp {
            name: name.to_owned(),
            domain: domain.map(str::to_owned),
        };
        self.registry.packaged_ops().map(of).collect()
    }
}

/// The built-in operators. Tables of operators stay for the life of the process, so that all runtimes have one copy.
fn built_in() -> Result<Registry> {
    static BUILT_IN: OnceLock<Registry> = OnceLock::new();
    if let Some(registry) = BUILT_IN.get() {
        return Ok(registry.clone());
    }
    let made = Registry::builtin().map_err(|error| of_package(&error))?;
    Ok(BUILT_IN.get_or_init(|| made).clone())
}

fn create(options: RuntimeOptionsAt) -> Result<Runtime> {
    let options = options.get()?;
    let mut registry = built_in()?;
    let packages = options.packages.get(options.package_count, "options.packages")?;
    for (at, path) in packages.iter().enumerate() {
        let path = path.path(&format!("options.packages[{at}]"))?;
        registry.open(path).map_err(|error| of_package(&error))?;
    }
    Ok(Runtime { registry, devices: Devices::default() })
}

/// The version of this library, as in "1.2.3".
#[unsafe(no_mangle)]
pub extern "C" fn udo_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Makes a runtime with the built-in operators, those of packages, and one emulated device of each kind.
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

/// Counts the devices of a runtime.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_device_count(
    runtime: Option<&Runtime>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (need(runtime, "runtime")?, need(out, "out")?);
        out.write(runtime.devices.iter().count());
        Ok(())
    })
}

/// Opens the device at a place among all that there are, from 0 on.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_device(
    runtime: Option<&Runtime>,
    index: usize,
    out: Option<&mut MaybeUninit<Option<Box<Device>>>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (need(runtime, "runtime")?, need(out, "out")?);
        let device = runtime.devices.iter().nth(index).ok_or_else(|| {
            let count = runtime.devices.iter().count();
            invalid(format!("there is no device at {index}; wanted a place below {count}"))
        })?;
        hand_out(out, Device::of(device.clone()));
        Ok(())
    })
}

/// Releases a runtime; NULL is fine. Devices, models and what else was made of it stay.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_release(runtime: Option<Box<Runtime>>) {
    release(runtime);
}
