//! The tile registers of AMX, used by inline assembly, because the intrinsics are not stable yet.
//!
//! Registers 0 to 3 hold sums between the calls of these functions. This is sound because the compiler never uses tile
//! registers: that would need a target feature that is not enabled anywhere here.

use std::arch::asm;

use crate::gemm_u8::{Row, pack::LINE};

/// Rows of a register.
pub(super) const TILE: usize = 16;
/// Bytes per row of a register.
pub(super) const STEP: usize = 64;

/// The shapes of the registers ("Intel 64 and IA-32 Architectures Software Developer's Manual", volume 1, 18.2).
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight registers of 16 rows of 64 bytes.
static CONFIG: Config = Config {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Configures the tile registers of this thread.
///
/// # Safety
///
/// The machine has AMX, and the process may use it.
pub(super) unsafe fn configure() {
    // SAFETY: every machine with AMX supports this configuration.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, readonly)) }
}

/// Releases the registers, so that the system need not save them for the thread.
///
/// # Safety
///
/// As for [`configure`].
pub(super) unsafe fn release() {
    // SAFETY: only registers change.
    unsafe { asm!("tilerelease", options(nostack, nomem)) }
}

/// Loads initial sums: `VECTORS` cache lines per row, with a row stride of `stride` bytes.
///
/// # Safety
///
/// As for [`step`], and the lines are readable.
#[inline(always)]
pub(super) unsafe fn load<const VECTORS: usize>(from: *const i32, stride: usize) {
    // SAFETY: the tile registers are configured, and 16 lines of sums are readable at `from`, `stride` bytes apart.
    unsafe {
        asm!(
            "tileloadd tmm0, [{from} + {stride}]",
            ".if {vectors} > 1",
            "tileloadd tmm1, [{from} + {stride} + 64]",
            ".endif",
            ".if {vectors} > 2",
            "tileloadd tmm2, [{from} + {stride} + 128]",
            ".endif",
            ".if {vectors} > 3",
            "tileloadd tmm3, [{from} + {stride} + 192]",
            ".endif",
            vectors = const VECTORS,
            from = in(reg) from,
            stride = in(reg) stride,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            options(nostack, readonly),
        );
    }
}

/// Adds the products of 16 rows of 64 values, with a stride of `stride` bytes, and 16 groups of `VECTORS` cache lines
/// of weights.
///
/// # Safety
///
/// This thread is between [`configure`] and [`release`]; the values and the weights are readable.
#[inline(always)]
pub(super) unsafe fn step<const VECTORS: usize>(a: *const u8, stride: usize, b: *const i8) {
    // SAFETY: the tile registers are configured; 16 lines of values are readable at `a`, `stride` bytes apart, and 16
    // times `VECTORS` lines of weights at `b`.
    unsafe {
        asm!(
            "tileloadd tmm4, [{a} + {stride}]",
            "tileloadd tmm5, [{b} + {line}]",
            "tdpbusd tmm0, tmm4, tmm5",
            ".if {vectors} > 1",
            "tileloadd tmm6, [{b} + {line} + 64]",
            "tdpbusd tmm1, tmm4, tmm6",
            ".endif",
            ".if {vectors} > 2",
            "tileloadd tmm7, [{b} + {line} + 128]",
            "tdpbusd tmm2, tmm4, tmm7",
            ".endif",
            ".if {vectors} > 3",
            "tileloadd tmm5, [{b} + {line} + 192]",
            "tdpbusd tmm3, tmm4, tmm5",
            ".endif",
            vectors = const VECTORS,
            a = in(reg) a,
            stride = in(reg) stride,
            b = in(reg) b,
            line = in(reg) VECTORS * LINE,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly),
        );
    }
}

/// Stores the sums of 16 rows.
///
/// # Safety
///
/// As for [`step`], and 16 rows of sums are writable at `to`.
#[inline(always)]
pub(super) unsafe fn store<const VECTORS: usize>(to: *mut Row) {
    // SAFETY: the tile registers are configured, and 16 rows of sums are writable at `to`.
    unsafe {
        asm!(
            "tilestored [{to} + {stride}], tmm0",
            ".if {vectors} > 1",
            "tilestored [{to} + {stride} + 64], tmm1",
            ".endif",
            ".if {vectors} > 2",
            "tilestored [{to} + {stride} + 128], tmm2",
            ".endif",
            ".if {vectors} > 3",
            "tilestored [{to} + {stride} + 192], tmm3",
            ".endif",
            vectors = const VECTORS,
            to = in(reg) to,
            stride = in(reg) size_of::<Row>(),
            options(nostack),
        );
    }
}

/// Executes products in registers, `steps` times sixteen instructions. Returns the number of operations: two per
/// product.
///
/// # Safety
///
/// As for [`configure`].
pub(in crate::gemm_u8) unsafe fn peak(steps: usize) -> f64 {
    // SAFETY: the registers are configured, and are released after their last use; no memory is
    // accessed.
    unsafe {
        configure();
        for _ in 0..steps {
            asm!(
                ".rept 4",
                "tdpbusd tmm0, tmm4, tmm5",
                "tdpbusd tmm1, tmm4, tmm6",
                "tdpbusd tmm2, tmm7, tmm5",
                "tdpbusd tmm3, tmm7, tmm6",
                ".endr",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                options(nostack, nomem),
            );
        }
        release();
    }
    (steps * 16 * TILE * TILE * STEP * 2) as f64
}
