//! Look-ups of bytes in a table of 256 values.

use crate::isa::{Isa, isa};

/// Computes `y[i] = table[x[i]]`.
pub fn lookup(x: &[u8], table: &[u8; 256], y: &mut [u8]) {
    lookup_on(isa(), x, table, y);
}

pub(super) fn lookup_on(isa: Isa, x: &[u8], table: &[u8; 256], y: &mut [u8]) {
    debug_assert_eq!(x.len(), y.len(), "slices of one length");
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx512
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512bw")
    {
        // SAFETY: the machine has both.
        unsafe { vbmi(x, table, y) };
        return;
    }
    let _ = isa;
    portable(x, table, y);
}

fn portable(x: &[u8], table: &[u8; 256], y: &mut [u8]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = table[usize::from(*x)];
    }
}

/// Looks up 64 bytes at a time with AVX512-VBMI: one instruction looks up the low 7 bits in 128 bytes, once for each
/// half of the table, and the top bit selects the half.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn vbmi(x: &[u8], table: &[u8; 256], y: &mut [u8]) {
    use std::arch::x86_64::{
        _mm512_loadu_si512, _mm512_mask_blend_epi8, _mm512_movepi8_mask, _mm512_permutex2var_epi8,
        _mm512_storeu_si512,
    };
    let quarter = |k: usize| {
        // SAFETY: `k` is below 4, and a table has four times 64 bytes.
        unsafe { _mm512_loadu_si512(table.as_ptr().add(64 * k).cast()) }
    };
    let (quarter_0, quarter_1, quarter_2, quarter_3) =
        (quarter(0), quarter(1), quarter(2), quarter(3));
    let mut chunks = y.chunks_exact_mut(64);
    let mut inputs = x.chunks_exact(64);
    let processed = inputs.len().min(chunks.len()) * 64;
    for (y, x) in chunks.by_ref().zip(inputs.by_ref()) {
        // SAFETY: a chunk has 64 bytes.
        let x = unsafe { _mm512_loadu_si512(x.as_ptr().cast()) };
        let low = _mm512_permutex2var_epi8(quarter_0, x, quarter_1);
        let high = _mm512_permutex2var_epi8(quarter_2, x, quarter_3);
        let results = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
        // SAFETY: the chunk of `y` has 64 bytes as well.
        unsafe { _mm512_storeu_si512(y.as_mut_ptr().cast(), results) }
    }
    if let (Some(x), Some(y)) = (x.get(processed..), y.get_mut(processed..)) {
        portable(x, table, y);
    }
}
