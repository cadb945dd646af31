//! The error function: `x + x p(x^2)` for `|x|` below 0.9, and `1 - exp(x p(x))` above, with a polynomial `p` each.
//!
//! Both polynomials are least-squares fits with Lawson's weights, computed in 120 bits: the first minimizes the
//! relative error (1.2e-8), the second the error of the result (8e-10).

use crate::isa::Simd;

/// Computes `erf` of every lane.
#[inline(always)]
pub(in crate::isa) fn erf_of<S: Simd>(simd: S, x: S::F) -> S::F {
    // From 3.93 on the result rounds to 1.
    let magnitude = simd.min(simd.splat(3.95), simd.abs(x));
    let square = simd.mul(magnitude, magnitude);
    let p = simd.poly(
        square,
        [
            -6.090_347e-4,
            5.011_960_2e-3,
            -2.677_890_7e-2,
            1.128_214_1e-1,
            -3.761_252_3e-1,
            1.283_791_5e-1,
        ],
    );
    let small = simd.fma(magnitude, p, magnitude);

    let p = simd.poly(
        magnitude,
        [
            -1.076_688_9e-5,
            3.180_957_7e-4,
            -3.623_060_1e-3,
            2.372_047_2e-2,
            -1.061_879_26e-1,
            -6.351_813e-1,
            -1.128_641,
        ],
    );
    let large = simd.sub(simd.splat(1.0), simd.exp(simd.mul(magnitude, p)));
    let is_small = simd.lt(magnitude, simd.splat(0.9));
    simd.with_sign(simd.select(is_small, small, large), x)
}
