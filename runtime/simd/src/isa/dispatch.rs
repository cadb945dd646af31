//! Work that is written once, over [`Vector`], and runs with the instructions chosen.

use super::set::Isa;
use super::token::Portable;
#[cfg(target_arch = "x86_64")]
use super::token::{Avx2, Avx512};
use super::vector::Vector;

/// Work that is written once and compiled for every instruction set.
pub(crate) trait Task {
    type Out;

    /// Must be `#[inline(always)]`, as all that it calls, so that it takes on the features of its caller.
    fn run<S: Vector>(self, simd: S) -> Self::Out;
}

/// Runs a task with the instructions of `isa`, or the best that this machine has.
#[inline]
pub(crate) fn on<T: Task>(isa: Isa, task: T) -> T::Out {
    let best = Isa::available().last().copied().unwrap_or(Isa::Portable);
    match isa.min(best) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine has it, as `best` says.
        Isa::Avx512 | Isa::Amx => unsafe { on_avx512(task) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { on_avx2(task) },
        _ => task.run(Portable),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn on_avx512<T: Task>(task: T) -> T::Out {
    // SAFETY: this function has the features.
    task.run(unsafe { Avx512::new() })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn on_avx2<T: Task>(task: T) -> T::Out {
    // SAFETY: this function has the features.
    task.run(unsafe { Avx2::new() })
}
