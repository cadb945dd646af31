//! Work that is written once, over [`Vector`], and runs with the instructions chosen.

use super::set::{Isa, highest};
use super::token::Portable;
#[cfg(target_arch = "x86_64")]
use super::token::{Avx2, Avx512};
use super::vector::Vector;

/// An op: work that is written once and compiled for every instruction set.
pub(crate) trait SimdOp {
    type Out;

    /// Must be `#[inline(always)]`, as all that it calls, so that it takes on the features of its caller.
    fn run<S: Vector>(self, simd: S) -> Self::Out;
}

/// Runs an op with the instructions of `isa`, or the best that this machine has.
#[inline]
pub(crate) fn dispatch<O: SimdOp>(isa: Isa, op: O) -> O::Out {
    match isa.min(highest()) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has it, as `highest` says.
        Isa::Avx512 | Isa::Amx => unsafe { dispatch_avx512(op) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has it, as `highest` says.
        Isa::Avx2 => unsafe { dispatch_avx2(op) },
        _ => dispatch_portable(op),
    }
}

/// Apart from `dispatch`, so that there is one copy of it however often an op is called.
#[inline(never)]
fn dispatch_portable<O: SimdOp>(op: O) -> O::Out {
    op.run(Portable)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn dispatch_avx512<O: SimdOp>(op: O) -> O::Out {
    // SAFETY: this function has the features.
    op.run(unsafe { Avx512::new() })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn dispatch_avx2<O: SimdOp>(op: O) -> O::Out {
    // SAFETY: this function has the features.
    op.run(unsafe { Avx2::new() })
}
