//! Loops that reach the machine's peak throughput of multiply-adds, in registers. Benchmarks time them, and compare the
//! primitives with this limit.
//!
//! Each loop has enough independent sums (12 to 32) to hide the latency of an instruction.

use crate::isa::{Isa, isa};

/// Runs `steps` rounds of independent multiply-adds, and returns the number of floating-point operations: two per
/// multiply-add and lane.
pub fn peak_flops(steps: usize) -> f64 {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` returns only instruction sets that this machine supports.
        Isa::Avx512 | Isa::Amx => unsafe { avx512(steps) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` returns only instruction sets that this machine supports.
        Isa::Avx2 => unsafe { avx2(steps) },
        _ => portable(steps),
    }
}

fn portable(steps: usize) -> f64 {
    let mut sums = [1.0f32; 32];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = *sum * 1.000_000_1 + 1e-9;
        }
    }
    std::hint::black_box(sums);
    (steps * 32 * 2) as f64
}

/// Like [`peak_flops`] for products of 8-bit values with 32-bit sums; two operations per product.
///
/// An AMX instruction multiplies 16 rows of 64 values by 16 columns. An AVX-512 instruction adds four products per
/// 32-bit lane. Other instruction sets widen to 16 bits first to be exact: two products per lane with AVX2.
pub fn peak_ops8(steps: usize) -> f64 {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` returns only instruction sets that this machine supports.
        Isa::Amx => unsafe { crate::gemm_u8::amx_peak(steps) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` returns only instruction sets that this machine supports.
        Isa::Avx512 => unsafe { avx512_ops8(steps) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa` returns only instruction sets that this machine supports.
        Isa::Avx2 => unsafe { avx2_ops8(steps) },
        _ => portable_ops8(steps),
    }
}

fn portable_ops8(steps: usize) -> f64 {
    let mut sums = [1i32; 32];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = sum.wrapping_mul(3).wrapping_add(7);
        }
    }
    std::hint::black_box(sums);
    (steps * 32 * 2) as f64
}

/// Like [`peak_flops`] for bf16 products with `f32` sums; `None` if the machine lacks them.
pub fn peak_bf16(steps: usize) -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    if isa().is_avx512() && is_x86_feature_detected!("avx512bf16") {
        // SAFETY: the machine has AVX-512 and AVX512-BF16.
        return Some(unsafe { avx512_bf16(steps) });
    }
    let _ = steps;
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
fn avx512_bf16(steps: usize) -> f64 {
    use std::arch::x86_64::{
        _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_reduce_add_ps, _mm512_set1_ps,
    };
    let factors = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5), _mm512_set1_ps(-0.5));
    let mut sums = [_mm512_set1_ps(1.0); 16];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_dpbf16_ps(*sum, factors, factors);
        }
    }
    for sum in sums {
        std::hint::black_box(_mm512_reduce_add_ps(sum));
    }
    (steps * 16 * 32 * 2) as f64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn avx512_ops8(steps: usize) -> f64 {
    use std::arch::x86_64::{_mm512_dpbusd_epi32, _mm512_reduce_add_epi32, _mm512_set1_epi8};
    let (left, right) = (_mm512_set1_epi8(3), _mm512_set1_epi8(-5));
    let mut sums = [left; 16];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, left, right);
        }
    }
    for sum in sums {
        std::hint::black_box(_mm512_reduce_add_epi32(sum));
    }
    (steps * 16 * 64 * 2) as f64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2_ops8(steps: usize) -> f64 {
    use std::arch::x86_64::{
        _mm256_add_epi32, _mm256_extract_epi32, _mm256_madd_epi16, _mm256_set1_epi16,
    };
    let left = _mm256_set1_epi16(3);
    let mut sums = [left; 12];
    for step in 0..steps {
        let right = _mm256_set1_epi16(step as i16);
        for sum in &mut sums {
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(std::hint::black_box(left), right));
        }
    }
    for sum in sums {
        std::hint::black_box(_mm256_extract_epi32::<0>(sum));
    }
    (steps * 12 * 16 * 2) as f64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512(steps: usize) -> f64 {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_reduce_add_ps, _mm512_set1_ps};
    let (factor, term) = (_mm512_set1_ps(1.000_000_1), _mm512_set1_ps(1e-9));
    let mut sums = [_mm512_set1_ps(1.0); 16];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, factor, term);
        }
    }
    for sum in sums {
        std::hint::black_box(_mm512_reduce_add_ps(sum));
    }
    (steps * 16 * 16 * 2) as f64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(steps: usize) -> f64 {
    use std::arch::x86_64::{_mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps};
    let (factor, term) = (_mm256_set1_ps(1.000_000_1), _mm256_set1_ps(1e-9));
    let mut sums = [_mm256_set1_ps(1.0); 12];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, factor, term);
        }
    }
    for sum in sums {
        std::hint::black_box(_mm256_cvtss_f32(sum));
    }
    (steps * 12 * 8 * 2) as f64
}
