//! Operators that go by the order of elements: which is the greatest, the first `k`, or the same as another.

mod extreme;
mod gpu;
mod rank;
pub(crate) mod suppress;

pub(crate) use extreme::extreme;
pub(crate) use gpu::TopGpu;
pub(crate) use rank::{Ranked, least, positions_fit};

/// What is sought along an axis. Its family has schema, inference, a kernel for every type, and tests.
pub(crate) trait Extreme: Send + Sync + 'static {
    const NAME: &'static str;
    /// Which of numbers in `f64` it is, the first of several.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests hold the positions against it"))]
    const TEST: fn(&[f64]) -> usize;

    /// The same of the numbers `x` and `best` in OpenCL, where neither is a NaN.
    const OPENCL: &'static str;

    /// Whether `x` comes before `best` however late it is found.
    fn wins<T: Ranked>(x: T, best: T) -> bool;
}
