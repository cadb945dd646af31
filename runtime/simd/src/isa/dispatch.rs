//! Dispatch: runs an operation that is written once over [`Vector`] with the instructions of a set that the machine
//! has.

use super::set::{Isa, highest};
use super::token::Portable;
#[cfg(target_arch = "x86_64")]
use super::token::{Avx2, Avx512};
use super::vector::Vector;

/// An operation that is compiled for every instruction set.
pub(crate) trait SimdOp {
    type Out;

    /// Runs the operation. Must be `#[inline(always)]`, like everything that it calls, to be compiled with the caller's
    /// features.
    fn run<S: Vector>(self, simd: S) -> Self::Out;
}

/// Runs an operation with the instructions of `isa`, or the best that this machine supports if that is less.
#[inline]
pub(crate) fn dispatch<O: SimdOp>(isa: Isa, op: O) -> O::Out {
    match isa.min(highest()) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `highest` found that the machine supports it.
        Isa::Avx512 | Isa::Amx => unsafe { dispatch_avx512(op) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `highest` found that the machine supports it.
        Isa::Avx2 => unsafe { dispatch_avx2(op) },
        _ => dispatch_portable(op),
    }
}

/// Runs an operation in plain Rust. A function of its own, so that each operation is compiled once for the portable
/// set.
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
