//! Which operator or kernel is being asked before a run, for functions that answer for several: the ABI's functions of
//! describe and finalize are given a node, and not what the host took them from.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

thread_local! {
    static CALLEE: Cell<*const c_void> = const { Cell::new(ptr::null()) };
}

/// The address of the [`OpDef`](udo_api::OpDef) or [`KernelDef`](udo_api::KernelDef) whose function this thread is in; null in none.
pub fn callee() -> *const c_void {
    CALLEE.get()
}

/// Runs `call`, which calls a function of `def`.
pub(crate) fn calling<T, R>(def: &T, call: impl FnOnce() -> R) -> R {
    let _back = Back(CALLEE.replace(ptr::from_ref(def).cast()));
    call()
}

/// Puts back what was asked before, when a panic unwinds as well.
struct Back(*const c_void);

impl Drop for Back {
    fn drop(&mut self) {
        CALLEE.set(self.0);
    }
}
