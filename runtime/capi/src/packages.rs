//! The packages of a runtime: how they are contained, whom they have to be signed by, and which there are.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

use udo_runtime::contain::Containment;
use udo_runtime::device::Result;
use udo_runtime::exit_guard;
use udo_runtime::package::{self, Trust};
use udo_runtime::runtime::{self, Builder};

use crate::born::live;
use crate::codes::{Contain, contain};
use crate::error::{Error, invalid, text};
use crate::ffi::{guard, need};
use crate::ports::place;
use crate::report::kept;
use crate::runtime::{Runtime, RuntimeOptions};

/// A package of a runtime. Texts are the runtime's and go with it.
#[repr(C)]
#[derive(Debug)]
pub struct PackageReport {
    /// Its name.
    pub name: *const c_char,
    /// Its version.
    pub version: *const c_char,
    /// Its registration library; "" for what is linked into this library.
    pub path: *const c_char,
    /// Whether its code runs in a process of its own.
    pub is_contained: bool,
}

/// A package in the form that C takes.
#[derive(Debug)]
pub(crate) struct Package {
    name: CString,
    version: CString,
    path: CString,
    is_contained: bool,
}

/// With the packages that a structure asks for.
pub(crate) fn opened(mut builder: Builder, options: &RuntimeOptions) -> Result<Builder> {
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
        return Err(invalid(format!("options.reserved is {}; wanted 0", options.reserved)));
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
        trust.keys_of(path.path(&format!("{what}[{at}]"))?)?;
    }
    if let Some(keys) = options.trusted_keys.option("options.trusted_keys")? {
        trust.keys_in(keys)?;
    }
    if let Some(path) = options.lock_file.option("options.lock_file")? {
        trust.lock_of(Path::new(path))?;
    }
    Ok(trust)
}

/// The packages of a runtime.
pub(crate) fn of(runtime: &runtime::Runtime) -> Vec<Package> {
    let package = |of: &package::Package| Package {
        name: text(&of.name),
        version: text(&of.version),
        path: of.path.as_ref().map(|path| text(&path.to_string_lossy())).unwrap_or_default(),
        is_contained: of.is_contained,
    };
    runtime.operators().packages().map(package).collect()
}

/// Counts the packages of a runtime: what is built in, and those that were opened.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_package_count(
    runtime: Option<&Runtime>,
    out: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        out.write(runtime.1.len());
        Ok(())
    })
}

/// A package of a runtime, in the order in which they were opened; what is built in is at 0.
#[unsafe(no_mangle)]
pub extern "C" fn udo_runtime_package(
    runtime: Option<&Runtime>,
    index: usize,
    out: Option<&mut MaybeUninit<PackageReport>>,
) -> Option<Box<Error>> {
    guard(|| {
        let (runtime, out) = (live(runtime, "runtime")?, need(out, "out")?);
        let package = place(&runtime.1, "package", index)?;
        out.write(PackageReport {
            name: package.name.as_ptr(),
            version: package.version.as_ptr(),
            path: package.path.as_ptr(),
            is_contained: package.is_contained,
        });
        Ok(())
    })
}

/// What packages of this process did wrong, since this was called last, where no call could tell: as their kernels were freed; a line
/// each, and "" where there is nothing. A program that wants to be sure that all went well asks at its end. The text is the calling
/// thread's, and goes with its next call of this function.
#[unsafe(no_mangle)]
pub extern "C" fn udo_take_faults(
    out: Option<&mut MaybeUninit<*const c_char>>,
) -> Option<Box<Error>> {
    thread_local! {
        static LAST: RefCell<CString> = RefCell::default();
    }
    guard(|| {
        let out = need(out, "out")?;
        let faults = text(&exit_guard::take_faults().join("\n"));
        out.write(LAST.with_borrow_mut(|last| kept(last, faults)));
        Ok(())
    })
}
