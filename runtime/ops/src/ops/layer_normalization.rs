//! Each row less its mean, over its deviation, scaled and moved. A row is what lies behind an axis.

use udo_api::{Port, types};
use udo_simd::rows::layer_norm;

use crate::Def;
use crate::family::norm::{RowNorm, RowReference, row_norm};

pub(crate) const DEF: Def = row_norm::<LayerNormalization>();

struct LayerNormalization;

impl RowNorm for LayerNormalization {
    const NAME: &'static str = "LayerNormalization";
    const INPUTS: &'static [Port] = &[
        Port::required("X", types::F32),
        Port::required("Scale", types::F32),
        Port::optional("B", types::F32),
    ];
    const OUTPUTS: &'static [Port] = &[
        Port::required("Y", types::F32),
        Port::optional("Mean", types::F32),
        Port::optional("InvStdDev", types::F32),
    ];
    const STATISTICS: &'static [fn(&[f32], f32) -> f32] =
        &[|x, _| mean(x) as f32, |x, epsilon| inverse_deviation(x, epsilon) as f32];
    const TEST: RowReference = |x, [scale, bias], epsilon| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let scaled =
            x.iter().zip(scale).map(|(x, scale)| (x - mean) / (variance + epsilon).sqrt() * scale);
        scaled.enumerate().map(|(at, y)| y + bias.get(at).unwrap_or(&0.0)).collect()
    };

    fn rows(x: &[f32], scale: &[f32], bias: &[f32], epsilon: f32, y: &mut [f32]) {
        layer_norm(x, scale, bias, epsilon, y);
    }
}

fn mean(x: &[f32]) -> f64 {
    x.iter().copied().map(f64::from).sum::<f64>() / x.len() as f64
}

fn inverse_deviation(x: &[f32], epsilon: f32) -> f64 {
    let mean = mean(x);
    let squares: f64 = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum();
    1.0 / (squares / x.len() as f64 + f64::from(epsilon)).sqrt()
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, tensor};

    #[test]
    fn statistics_are_the_mean_and_the_inverse_deviation() {
        let x = tensor(&[2, 2], &[1f32, 3.0, -2.0, -2.0]);
        let run = bench("LayerNormalization").input(x).input(tensor(&[2], &[1f32, 2.0]));
        let found = run.float("epsilon", 0.25).outputs(3).all();
        let inverse = 1.0 / 1.25f64.sqrt();
        assert_near(&found[0].values::<f32>(), &[-inverse, 2.0 * inverse, 0.0, 0.0], 1e-6);
        assert_near(&found[1].values::<f32>(), &[2.0, -2.0], 1e-6);
        assert_near(&found[2].values::<f32>(), &[inverse, 2.0], 1e-6);
    }
}
