//! `x / sqrt(mean(x^2) + epsilon) * scale` for each row. A row spans the axes from `axis` on.
//!
//! `row_norm` builds the operator: `rows` computes `f32`, `row` one row of `f64`, and `TEST` is the reference of
//! tests.

use udo_api::Port;
use udo_simd::{Map2, Simd, fold, map2};

use crate::Def;
use crate::family::norm::{ROWS, RowNorm, RowReference, row_norm};
use crate::family::reduce::SumOfSquares;

pub(crate) const DEF: Def = row_norm::<RmsNormalization>();

struct RmsNormalization;

impl RowNorm for RmsNormalization {
    const NAME: &'static str = "RMSNormalization";
    const INPUTS: &'static [Port] = &[Port::required("X", ROWS), Port::required("scale", ROWS)];
    const OUTPUTS: &'static [Port] = &[Port::required("Y", ROWS)];
    const IS_CENTRED: bool = false;
    const TEST: RowReference = |x, [scale, _], epsilon| {
        let mean_square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        x.iter().zip(scale).map(|(x, scale)| x / (mean_square + epsilon).sqrt() * scale).collect()
    };

    fn rows(x: &[f32], scale: &[f32], _: &[f32], epsilon: f32, y: &mut [f32]) {
        let len = scale.len();
        for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
            let mean_square = fold(SumOfSquares, x) / len as f32;
            map2(Scaled(1.0 / (mean_square + epsilon).sqrt()), x, scale, y);
        }
    }

    fn row(x: &[f64], scale: &[f64], _: &[f64], epsilon: f64, y: &mut [f64]) {
        let mean_square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let inverse = 1.0 / (mean_square + epsilon).sqrt();
        y.iter_mut().zip(x.iter().zip(scale)).for_each(|(y, (x, scale))| *y = x * inverse * scale);
    }
}

/// Computes `x * factor * scale`, where the field is the factor.
#[derive(Clone, Copy)]
struct Scaled(f32);

#[expect(clippy::inline_always, reason = "takes on the features of its caller")]
impl Map2 for Scaled {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F, scale: S::F) -> S::F {
        s.mul(s.mul(x, s.splat(self.0)), scale)
    }
}
