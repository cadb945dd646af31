//! Table look-ups of bytes.

use crate::isa::{Isa, isa};

/// `y[i] = table[x[i]]`.
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

/// Two look-ups in 128 bytes each; the top bit selects one.
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
    let (a, b, c, d) = (quarter(0), quarter(1), quarter(2), quarter(3));
    let mut chunks = y.chunks_exact_mut(64);
    let mut from = x.chunks_exact(64);
    let done = from.len().min(chunks.len()) * 64;
    for (y, x) in chunks.by_ref().zip(from.by_ref()) {
        // SAFETY: a chunk has 64 bytes.
        let x = unsafe { _mm512_loadu_si512(x.as_ptr().cast()) };
        let low = _mm512_permutex2var_epi8(a, x, b);
        let high = _mm512_permutex2var_epi8(c, x, d);
        let chosen = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
        // SAFETY: the chunk of `y` has 64 bytes as well.
        unsafe { _mm512_storeu_si512(y.as_mut_ptr().cast(), chosen) }
    }
    if let (Some(x), Some(y)) = (x.get(done..), y.get_mut(done..)) {
        portable(x, table, y);
    }
}
