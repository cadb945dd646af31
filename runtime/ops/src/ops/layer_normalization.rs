//! `(x - mean) / sqrt(variance + epsilon) * scale + bias` for each row. A row spans the axes from `axis` on.
//!
//! `row_norm` builds the operator: `rows` computes `f32`, `row` one row of `f64`, and `TEST` is the reference of
//! tests. Outputs `Mean` and `InvStdDev` come from `statistic`.

use udo_api::{Port, types};
use udo_simd::rows::layer_norm;

use crate::Def;
use crate::family::norm::{ROWS, RowNorm, RowReference, row_norm};
use crate::number::Number;

pub(crate) const DEF: Def = row_norm::<LayerNormalization>();

struct LayerNormalization;

impl RowNorm for LayerNormalization {
    const NAME: &'static str = "LayerNormalization";
    const INPUTS: &'static [Port] =
        &[Port::required("X", ROWS), Port::required("Scale", ROWS), Port::optional("B", ROWS)];
    const OUTPUTS: &'static [Port] = &[
        Port::required("Y", ROWS),
        Port::optional("Mean", types::F32),
        Port::optional("InvStdDev", types::F32),
    ];
    const IS_CENTRED: bool = true;
    const STATISTICS: usize = 2;
    const TEST: RowReference = |x, [scale, bias], epsilon| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let scaled =
            x.iter().zip(scale).map(|(x, scale)| (x - mean) / (variance + epsilon).sqrt() * scale);
        scaled.enumerate().map(|(index, y)| y + bias.get(index).unwrap_or(&0.0)).collect()
    };

    fn rows(x: &[f32], scale: &[f32], bias: &[f32], epsilon: f32, y: &mut [f32]) {
        layer_norm(x, scale, bias, epsilon, y);
    }

    fn row(x: &[f64], scale: &[f64], bias: &[f64], epsilon: f64, y: &mut [f64]) {
        let (mean, inverse_deviation) = (mean(x), inverse_deviation(x, epsilon));
        for (index, (y, (x, scale))) in y.iter_mut().zip(x.iter().zip(scale)).enumerate() {
            *y = (x - mean) * inverse_deviation * scale + bias.get(index).unwrap_or(&0.0);
        }
    }

    fn statistic<T: Number>(index: usize, x: &[T], epsilon: f64) -> f64 {
        if index == 0 { mean(x) } else { inverse_deviation(x, epsilon) }
    }
}

/// Computes the mean of a row in f64.
fn mean<T: Number>(x: &[T]) -> f64 {
    x.iter().map(|x| x.to_f64()).sum::<f64>() / x.len() as f64
}

/// Computes `1 / sqrt(variance + epsilon)` of a row in f64.
fn inverse_deviation<T: Number>(x: &[T], epsilon: f64) -> f64 {
    let mean = mean(x);
    let squares: f64 = x.iter().map(|x| (x.to_f64() - mean).powi(2)).sum();
    1.0 / (squares / x.len() as f64 + epsilon).sqrt()
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn statistics_are_the_mean_and_the_inverse_deviation() {
        let x = tensor(&[2, 2], &[1f32, 3.0, -2.0, -2.0]);
        let run = bench("LayerNormalization").input(x).input(tensor(&[2], &[1f32, 2.0]));
        let actual = run.float("epsilon", 0.25).outputs(3).all();
        let inverse = 1.0 / 1.25f64.sqrt();
        assert_near(&actual[0].values::<f32>(), &[-inverse, 2.0 * inverse, 0.0, 0.0], 1e-6);
        assert_near(&actual[1].values::<f32>(), &[2.0, -2.0], 1e-6);
        assert_near(&actual[2].values::<f32>(), &[inverse, 2.0], 1e-6);
    }
}
