//! `x` if not negative, else `slope * x`, with the slope broadcast to `x`.
//!
//! `binary` builds the operator from this function of two elements: `apply` computes every type but `f32`, `lanes` one
//! SIMD vector of `f32`, and `F64` is the reference of tests.

use udo_simd::Simd;

use crate::Def;
use crate::family::elementwise::{Binary, Pairs, Shapes, binary};
use crate::number::Number;

pub(crate) const DEF: Def = binary::<PRelu>();

struct PRelu;

impl Binary for PRelu {
    const NAME: &'static str = "PRelu";
    const PORTS: [&'static str; 3] = ["X", "slope", "Y"];
    const SHAPES: Shapes = Shapes::OfFirst;
    const OPENCL: Option<&'static str> = Some("a < 0.0f ? b * a : a");
}

impl Pairs for PRelu {
    const F64: fn(f64, f64) -> f64 = |x, slope| if x < 0.0 { slope * x } else { x };

    #[inline]
    fn apply<T: Number>(a: T, b: T) -> T {
        if a < T::ZERO { a.mul(b) } else { a }
    }

    #[inline(always)]
    fn lanes<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
        s.select(s.lt(a, s.splat(0.0)), s.mul(b, a), a)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn slopes_must_broadcast_to_the_input() {
        let x = tensor(&[2, 1, 2], &[-1f32, 2.0, -3.0, 4.0]);
        let y = bench("PRelu").input(x.clone()).input(tensor(&[1, 1], &[0.5f32])).one();
        assert_eq!(y.values::<f32>(), [-0.5, 2.0, -1.5, 4.0]);
        let error = bench("PRelu").input(x).input(tensor(&[3, 1], &[0.5f32; 3])).error();
        let expected =
            "slope is f32[3,1], expected a shape that broadcasts to that of X, f32[2,1,2]";
        assert_eq!(error, expected);
    }
}
