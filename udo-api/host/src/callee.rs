//! The table entry whose function the host calls on this thread, before a run.
//!
//! The functions of the ABI's describe and finalize phases get a node, but not their table entry. A function that
//! several entries share reads the entry here.

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
    let _restore = Restore(CALLEE.replace(ptr::from_ref(def).cast()));
    call()
}

/// Restores the previous callee, also on unwinding.
struct Restore(*const c_void);

impl Drop for Restore {
    fn drop(&mut self) {
        CALLEE.set(self.0);
    }
}
