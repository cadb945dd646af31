//! The CPU time of a thread, which other programs on the machine do not affect.

use std::time::Duration;

/// Returns the CPU time of this thread.
pub(crate) fn worked() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure; if the clock is not available, the structure stays
    // unchanged.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_with_work_and_not_with_waiting() {
        let before = worked();
        std::thread::park_timeout(Duration::from_millis(30));
        let waited = worked().saturating_sub(before);
        assert!(waited < Duration::from_millis(20), "{waited:?}");
        let before = worked();
        let mut sum = 0u64;
        for number in 0..100_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        assert!(worked() > before, "{sum}");
    }
}
