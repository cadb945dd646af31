//! Copies from and to pages that other processes may write at any time. Accesses are atomic words, because ordinary accesses would
//! be data races: words could be torn, and the compiler could assume that bytes do not change.
//!
//! All accesses of this process use the same words, at multiples of eight bytes, so that accesses of different size never mix, even
//! if the same pages are mapped twice. A partial word at either end of a copy is read or replaced with its whole word.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD_BYTES: usize = size_of::<u64>();

/// Returns the word that contains the byte at `at`, and the index of the byte in it.
///
/// # Safety
/// `at` points into mapped pages.
unsafe fn word<'a>(at: *mut u8) -> (&'a AtomicU64, usize) {
    let before = at.addr() % WORD_BYTES;
    let word = at.wrapping_sub(before).cast::<[u8; WORD_BYTES]>();
    // SAFETY: pages start and end with a word, so this one is mapped as `at` is, and it is aligned.
    (unsafe { AtomicU64::from_ptr(word.cast()) }, before)
}

/// Returns the number of bytes from `at` before the first whole word, at most `len`.
fn head(at: *const u8, len: usize) -> usize {
    (at.addr().next_multiple_of(WORD_BYTES) - at.addr()).min(len)
}

/// Copies bytes from the address `from`.
///
/// # Safety
/// `from` points to `into.len()` bytes in mapped pages, which this process writes only as atomic words.
pub(super) unsafe fn load(from: *const u8, into: &mut [u8]) {
    let from = from.cast_mut();
    let (first, rest) = into.split_at_mut(head(from, into.len()));
    // SAFETY: these are the first bytes behind `from`, and lie in one word.
    unsafe { load_part(from, first) };
    let mut at = from.wrapping_add(first.len());
    let (words, last) = rest.as_chunks_mut::<WORD_BYTES>();
    for bytes in words {
        // SAFETY: as many bytes as a word has lie behind `at`.
        let (word, _) = unsafe { word(at) };
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        at = at.wrapping_add(WORD_BYTES);
    }
    // SAFETY: these are the last bytes, and lie in one word.
    unsafe { load_part(at, last) };
}

/// Copies bytes of one word.
///
/// # Safety
/// As for [`load`].
unsafe fn load_part(from: *mut u8, into: &mut [u8]) {
    if into.is_empty() {
        return;
    }
    // SAFETY: there is a byte at `from`.
    let (word, at) = unsafe { word(from) };
    let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    if let Some(bytes) = bytes.get(at..at + into.len()) {
        into.copy_from_slice(bytes);
    }
}

/// Copies bytes to the address `to`.
///
/// # Safety
/// `to` points to `from.len()` bytes in mapped pages, which this process writes only as atomic words.
pub(super) unsafe fn store(to: *mut u8, from: &[u8]) {
    let (first, rest) = from.split_at(head(to, from.len()));
    // SAFETY: these go to the first bytes behind `to`, which lie in one word.
    unsafe { store_part(to, first) };
    let mut at = to.wrapping_add(first.len());
    let (words, last) = rest.as_chunks::<WORD_BYTES>();
    for bytes in words {
        // SAFETY: as many bytes as a word has lie behind `at`.
        let (word, _) = unsafe { word(at) };
        word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        at = at.wrapping_add(WORD_BYTES);
    }
    // SAFETY: these go to the last bytes, which lie in one word.
    unsafe { store_part(at, last) };
}

/// Writes bytes of one word. Its other bytes keep their value, even if they are written concurrently.
///
/// # Safety
/// As for [`store`].
unsafe fn store_part(to: *mut u8, from: &[u8]) {
    if from.is_empty() {
        return;
    }
    // SAFETY: there is a byte at `to`.
    let (word, at) = unsafe { word(to) };
    let replace = |old: u64| {
        let mut bytes = old.to_ne_bytes();
        bytes.get_mut(at..at + from.len())?.copy_from_slice(from);
        Some(u64::from_ne_bytes(bytes))
    };
    let _succeeds_always = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, replace);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_around_a_copy_do_not_change() {
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
                let mut expected = before.clone();
                expected[at..at + len].copy_from_slice(&from);
                let after: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                assert_eq!(after, expected, "{len} bytes at {at}");
            }
        }
    }
}
