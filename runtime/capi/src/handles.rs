//! A runtime and its devices, as C has them: what most other files ask for.

use std::ffi::CString;

use udo_engine::{device, package};

use crate::born::{Born, handles};
use crate::ffi::{HandleAt, named_pointers};
use crate::text::text;

/// Built-in operators, operators of packages, and devices. Threads may share it. Everything created
/// from it outlives it.
#[derive(Debug)]
pub struct Runtime(pub(crate) udo_runtime::Runtime, pub(crate) Vec<Package>, pub(crate) Born);

/// A package in the form that C takes.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: CString,
    pub(crate) version: CString,
    pub(crate) path: CString,
    pub(crate) is_contained: bool,
}

/// A device. Threads may share it. Its memories outlive it.
#[derive(Debug)]
pub struct Device {
    pub(crate) inner: device::Device,
    pub(crate) name: CString,
    pub(crate) born: Born,
}

handles! {
    Device, born;
    Runtime, 2;
}

named_pointers! {
    /// A device, or NULL.
    DeviceAt(HandleAt<Device>);
}

impl Runtime {
    pub(crate) fn new(runtime: udo_runtime::Runtime) -> Self {
        let packages = packages(&runtime);
        Self(runtime, packages, Born::here())
    }
}

/// The packages of a runtime.
fn packages(runtime: &udo_runtime::Runtime) -> Vec<Package> {
    let package = |of: &package::Package| Package {
        name: text(&of.name),
        version: text(&of.version),
        path: of.path.as_ref().map(|path| text(&path.to_string_lossy())).unwrap_or_default(),
        is_contained: of.is_contained,
    };
    runtime.operators().packages().map(package).collect()
}

impl Device {
    pub(crate) fn new(device: device::Device) -> Self {
        let name = text(device.name());
        Self { inner: device, name, born: Born::here() }
    }
}
