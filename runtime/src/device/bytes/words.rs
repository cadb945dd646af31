//! Copies from and to pages that other processes write at any time: word by word, so that no word is torn and no compiler
//! counts on what it read before.
//!
//! All of this process do it in the same words, those at multiples of eight bytes, so that it may also map the same pages
//! twice. The bytes at either end of a copy that are no whole word are exchanged with the word around them.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD_BYTES: usize = size_of::<u64>();

/// The word around `at`, and which byte of it that is.
///
/// # Safety
/// `at` points into mapped pages.
unsafe fn word<'a>(at: *mut u8) -> (&'a AtomicU64, usize) {
    let before = at.addr() % WORD_BYTES;
    let word = at.wrapping_sub(before).cast::<[u8; WORD_BYTES]>();
    // SAFETY: pages start and end with a word, so this one is mapped as `at` is, and it is aligned.
    (unsafe { AtomicU64::from_ptr(word.cast()) }, before)
}

/// Copies the bytes from `from` on.
///
/// # Safety
/// From `from` on there are as many bytes as `into` has, in mapped pages that are written by words alone in this process.
pub(super) unsafe fn load(from: *const u8, into: &mut [u8]) {
    let mut from = from.cast_mut();
    let mut rest = into;
    while !rest.is_empty() {
        // SAFETY: as many bytes as `rest` has lie behind `from`, at least one.
        let (word, at) = unsafe { word(from) };
        let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        let now = rest.len().min(WORD_BYTES - at);
        let (first, behind) = rest.split_at_mut(now);
        first.copy_from_slice(bytes.get(at..at + now).unwrap_or_default());
        rest = behind;
        from = from.wrapping_add(now);
    }
}

/// Writes `from` to the bytes from `to` on.
///
/// # Safety
/// From `to` on there are as many bytes as `from` has, in mapped pages that are at hand by words alone in this process.
pub(super) unsafe fn store(to: *mut u8, from: &[u8]) {
    let mut to = to;
    let mut rest = from;
    while !rest.is_empty() {
        // SAFETY: as many bytes as `rest` has lie behind `to`, at least one.
        let (word, at) = unsafe { word(to) };
        let now = rest.len().min(WORD_BYTES - at);
        let (first, behind) = rest.split_at(now);
        let put = |old: u64| {
            let mut bytes = old.to_ne_bytes();
            if let Some(room) = bytes.get_mut(at..at + now) {
                room.copy_from_slice(first);
            }
            u64::from_ne_bytes(bytes)
        };
        if now == WORD_BYTES {
            word.store(put(0), Ordering::Relaxed);
        } else {
            let _always =
                word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(put(old)));
        }
        rest = behind;
        to = to.wrapping_add(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beside_a_copy_stay() {
        let words: Vec<u64> = (0..6).map(|word| u64::from_ne_bytes([word; 8])).collect();
        let before: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for at in 0..20 {
            for len in 0..=before.len() - at {
                let mut words = words.clone();
                let first = words.as_mut_ptr().cast::<u8>().wrapping_add(at);
                let from: Vec<u8> = (100..).take(len).collect();
                // SAFETY: the words have `at + len` bytes at least, and are this test's alone.
                unsafe { store(first, &from) };
                let mut read = vec![0; len];
                // SAFETY: as above.
                unsafe { load(first, &mut read) };
                assert_eq!(read, from, "{len} bytes at {at}");
                let mut wanted = before.clone();
                wanted[at..at + len].copy_from_slice(&from);
                let now: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                assert_eq!(now, wanted, "{len} bytes at {at}");
            }
        }
    }
}
