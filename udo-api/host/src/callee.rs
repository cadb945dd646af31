//! The operator or kernel that is being called before a run, for functions that answer for several: the ABI's functions
//! of describe and finalize get a node, but not the table entry.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

thread_local! {
    static CALLEE: Cell<*const c_void> = const { Cell::new(ptr::null()) };
}

/// Returns the address of the [`OpDef`](udo_api::OpDef) or [`KernelDef`](udo_api::KernelDef) whose function this thread
/// runs; null outside such calls.
pub fn callee() -> *const c_void {
    CALLEE.get()
}

/// Runs `call`, which calls a function of `def`.
pub(crate) fn calling<T, R>(def: &T, call: impl FnOnce() -> R) -> R {
    let _back = Back(CALLEE.replace(ptr::from_ref(def).cast()));
    call()
}

/// Restores the previous callee, also on unwinding.
struct Back(*const c_void);

impl Drop for Back {
    fn drop(&mut self) {
        CALLEE.set(self.0);
    }
}
