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
use crate::text::{store, text};

/// A package of a runtime. The strings live as long as the runtime.
#[repr(C)]
#[derive(Debug)]
pub struct PackageReport {
    /// The name.
    pub name: *const c_char,
    /// The version.
    pub version: *const c_char,
    /// The path of its registration library; "" for the operators built into this library.
    pub path: *const c_char,
    /// Whether its code runs in a separate process.
    pub is_contained: bool,
}

/// Returns the number of packages of a runtime, including the built-in operators.
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

/// Returns a package of a runtime, in the order of opening; the built-in operators are at 0.
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

/// Returns faults of packages that no call could report, such as those while kernels are freed,
/// since the last call of this function: one line each, or "". Call it at the end of a program to
/// be sure that everything succeeded. The string lives until the thread's next call of this
/// function.
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
        out.write(LAST.with_borrow_mut(|last| store(last, faults)));
        Ok(())
    })
}
