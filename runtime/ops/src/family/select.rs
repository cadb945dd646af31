//! Operators based on the order of elements: `ArgMax` and `ArgMin`, `TopK`, Unique and `NonMaxSuppression`.

mod extreme;
mod gpu;
mod rank;
pub(crate) mod suppress;

pub(crate) use extreme::extreme;
pub(crate) use gpu::TopGpu;
pub(crate) use rank::{Ranked, least, positions_fit};

/// An extreme along an axis. The family provides schema, inference, a kernel for every type, and tests.
pub(crate) trait Extreme: Send + Sync + 'static {
    const NAME: &'static str;
    /// The f64 reference: returns the index, the first one on ties.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests read the reference"))]
    const TEST: fn(&[f64]) -> usize;

    /// The comparison of `x` and `best` in OpenCL, where neither is NaN.
    const OPENCL: &'static str;

    /// Whether `x` replaces `best`.
    fn wins<T: Ranked>(x: T, best: T) -> bool;
}
