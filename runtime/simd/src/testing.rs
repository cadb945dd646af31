//! Support for tests of primitives: pseudo-random values, comparisons, and slices next to protected pages, so that an
//! access out of bounds ends the test process.

use std::ffi::{c_int, c_long};
use std::ops::{Deref, DerefMut};

/// Counts heap calls, so that tests can check that a primitive makes none.
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

/// Asserts that every value is within `tolerance` of the expected value, relative to it if it is above 1. Also asserts
/// that the expected values vary by more than the tolerance, so that a constant output cannot pass.
#[track_caller]
pub(crate) fn assert_near(actual: &[f32], expected: &[f64], tolerance: f64) {
    let allowed_error = |value: f64| tolerance * value.abs().max(1.0);
    let highest_lower_bound = expected
        .iter()
        .map(|&value| value - allowed_error(value))
        .fold(f64::NEG_INFINITY, f64::max);
    let lowest_upper_bound =
        expected.iter().map(|&value| value + allowed_error(value)).fold(f64::INFINITY, f64::min);
    assert!(
        expected.len() < 2 || highest_lower_bound > lowest_upper_bound,
        "a constant is within {tolerance} of {expected:?}"
    );
    assert_eq!(actual.len(), expected.len(), "elements");
    for (i, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        let actual = f64::from(actual);
        let are_equal = actual.total_cmp(&expected).is_eq() || actual.is_nan() && expected.is_nan();
        let error = (actual - expected).abs() / expected.abs().max(1.0);
        assert!(
            are_equal || error <= tolerance,
            "element {i} is {actual}, expected {expected} within {tolerance}"
        );
    }
}

const PAGE_BYTES: usize = 4096;
// `PROT_NONE`, `PROT_READ | PROT_WRITE` and `MAP_PRIVATE | MAP_ANONYMOUS` of `sys/mman.h`.
const NONE: c_int = 0;
const READ_WRITE: c_int = 3;
const PRIVATE_ANONYMOUS: c_int = 0x22;

// SAFETY: the signatures are those of `sys/mman.h` on 64-bit Linux.
unsafe extern "C" {
    fn mmap(
        address: *mut u8,
        bytes: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: c_long,
    ) -> *mut u8;
    fn mprotect(address: *mut u8, bytes: usize, prot: c_int) -> c_int;
    fn munmap(address: *mut u8, bytes: usize) -> c_int;
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

    /// Returns the slice, where dereferencing is not automatic.
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
        // SAFETY: the inner pages have at least `bytes` bytes at `first`, and nobody else uses them.
        unsafe { first.copy_from_nonoverlapping(values.as_ptr(), values.len()) }
        Self { map, map_bytes, first, len: values.len() }
    }
}

impl<T> Deref for Guarded<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` has written `len` values at `first`.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `new` has written `len` values at `first`, which `self` owns.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: `new` created the mapping, and no slice of it outlives `self`.
        unsafe { munmap(self.map, self.map_bytes) };
    }
}
