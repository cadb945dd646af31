//! The packages of a runtime.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use udo_engine::exit_guard;

use crate::argument::{need, place};
use crate::born::live;
use crate::error::Error;
use crate::ffi::guard;
use crate::handles::Runtime;
use crate::text::{kept, text};

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
