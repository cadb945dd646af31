//! Whether this process may use the tile registers: Linux keeps them for those that ask, as they make the
//! state of a thread much larger ("Using XSTATE features in user space applications", kernel.org).

use std::arch::x86_64::__cpuid_count;
use std::ffi::{c_int, c_long};
use std::sync::OnceLock;

/// `arch_prctl`, its request of `asm/prctl.h`, and the state that it asks for.
const ARCH_PRCTL: c_long = 158;
const ARCH_REQ_XCOMP_PERM: c_int = 0x1023;
const XFEATURE_XTILEDATA: c_long = 18;

/// AMX-TILE and AMX-INT8 in EDX of leaf 7.
const FEATURES: u32 = 1 << 24 | 1 << 25;

// SAFETY: the signature is that of `unistd.h`.
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Whether the machine has AMX for values of 8 bits, and the system lets this process use it from now on.
pub(super) fn is_granted() -> bool {
    static GRANTED: OnceLock<bool> = OnceLock::new();
    *GRANTED.get_or_init(|| has_amx() && ask())
}

fn has_amx() -> bool {
    !cfg!(miri) && __cpuid_count(0, 0).eax >= 7 && __cpuid_count(7, 0).edx & FEATURES == FEATURES
}

fn ask() -> bool {
    // SAFETY: the request changes no memory; a system that does not know it refuses it.
    unsafe { syscall(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}
