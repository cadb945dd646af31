//! Helpers for tests of primitives: fenced memory, pseudo-random values, comparisons.

use std::ffi::{c_int, c_long};
use std::ops::{Deref, DerefMut};

#[global_allocator]
static GUARD: udo_api::GuardAlloc = udo_api::GuardAlloc;

/// Returns pseudo-random values between -1 and 1, the same in every run.
pub(crate) fn noise(len: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Asserts that every value is within `tolerance` of the expected one, relative to it if that is above 1. The expected
/// values must vary by more than that, so that no constant passes.
#[track_caller]
pub(crate) fn assert_near(actual: &[f32], expected: &[f64], tolerance: f64) {
    let reach = |value: f64| tolerance * value.abs().max(1.0);
    let low = expected.iter().map(|&value| value - reach(value)).fold(f64::NEG_INFINITY, f64::max);
    let high = expected.iter().map(|&value| value + reach(value)).fold(f64::INFINITY, f64::min);
    assert!(expected.len() < 2 || low > high, "a constant is within {tolerance} of {expected:?}");
    assert_eq!(actual.len(), expected.len(), "elements");
    for (i, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        let actual = f64::from(actual);
        let same = actual.total_cmp(&expected).is_eq() || actual.is_nan() && expected.is_nan();
        let error = (actual - expected).abs() / expected.abs().max(1.0);
        assert!(
            same || error <= tolerance,
            "element {i} is {actual}, expected {expected} within {tolerance}"
        );
    }
}

const PAGE_BYTES: usize = 4096;
const NONE: c_int = 0;
const READ_WRITE: c_int = 3;
const PRIVATE_ANONYMOUS: c_int = 0x22;

// SAFETY: the signatures are those of `sys/mman.h` on 64-bit Linux.
unsafe extern "C" {
    fn mmap(
        at: *mut u8,
        bytes: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        from: c_long,
    ) -> *mut u8;
    fn mprotect(at: *mut u8, bytes: usize, prot: c_int) -> c_int;
    fn munmap(at: *mut u8, bytes: usize) -> c_int;
}

/// The end of a slice that touches a protected page.
#[derive(Clone, Copy)]
pub(crate) enum Edge {
    Start,
    End,
}

/// A slice next to a protected page; access past its edge ends the process.
pub(crate) struct Guarded<T> {
    map: *mut u8,
    map_bytes: usize,
    first: *mut T,
    len: usize,
}

impl<T: Copy> Guarded<T> {
    /// Copies `values` so that they end at a protected page.
    pub(crate) fn at_end(values: &[T]) -> Self {
        Self::new(values, Edge::End)
    }

    /// Returns the whole slice.
    pub(crate) fn slice(&mut self) -> &mut [T] {
        self
    }

    /// Copies `values` so that they touch a protected page at `edge`.
    pub(crate) fn new(values: &[T], edge: Edge) -> Self {
        let bytes = size_of_val(values);
        let inner_bytes = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let map_bytes = inner_bytes + 2 * PAGE_BYTES;
        // SAFETY: a new mapping anywhere.
        let map = unsafe { mmap(std::ptr::null_mut(), map_bytes, NONE, PRIVATE_ANONYMOUS, -1, 0) };
        assert!(map.addr() != usize::MAX, "no memory for a test");
        let inner = map.wrapping_byte_add(PAGE_BYTES);
        // SAFETY: the pages between the first and the last of the new mapping.
        assert_eq!(unsafe { mprotect(inner, inner_bytes, READ_WRITE) }, 0);
        let offset = match edge {
            Edge::Start => 0,
            Edge::End => inner_bytes - bytes,
        };
        let first: *mut T = inner.wrapping_byte_add(offset).cast();
        // SAFETY: the inner pages have room for all values from there on, and nothing else is there.
        unsafe { first.copy_from_nonoverlapping(values.as_ptr(), values.len()) }
        Self { map, map_bytes, first, len: values.len() }
    }
}

impl<T> Deref for Guarded<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` has put `len` values there.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `new` has put `len` values there, which `self` owns.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; no slice of it outlives `self`.
        unsafe { munmap(self.map, self.map_bytes) };
    }
}
