//! Permission to use the tile registers of AMX, Intel's matrix extensions. A process must ask Linux for them, because
//! they enlarge each thread's saved state ("Using XSTATE features in user space applications", kernel.org).

use std::arch::x86_64::__cpuid_count;
use std::ffi::{c_int, c_long};
use std::sync::OnceLock;

// The number of the system call `arch_prctl` on x86-64, its request from `asm/prctl.h`, and the number of the requested
// state component.
const ARCH_PRCTL: c_long = 158;
const ARCH_REQ_XCOMP_PERM: c_int = 0x1023;
const XFEATURE_XTILEDATA: c_long = 18;

/// The bits of AMX-TILE and AMX-INT8 in the EDX that CPUID returns for leaf 7.
const FEATURES: u32 = 1 << 24 | 1 << 25;

// SAFETY: the signature is that of `unistd.h`.
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Requests the registers; returns whether the machine has AMX-INT8 and the system permits its use.
pub(super) fn is_granted() -> bool {
    static GRANTED: OnceLock<bool> = OnceLock::new();
    *GRANTED.get_or_init(|| has_amx() && request())
}

fn has_amx() -> bool {
    !cfg!(miri) && __cpuid_count(0, 0).eax >= 7 && __cpuid_count(7, 0).edx & FEATURES == FEATURES
}

/// Requests the registers for the process; returns whether the system grants them.
fn request() -> bool {
    // SAFETY: the request changes no memory; a system that does not know it refuses it.
    unsafe { syscall(ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}
