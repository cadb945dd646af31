//! Activation functions of gates, with their parameters and the clip of their arguments.

use udo_api::{Error, Node};
use udo_simd::math;

/// An activation function of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Activation {
    function: Function,
    /// Arguments are clipped to this absolute value, if given.
    clip: Option<f32>,
}

/// A function with ONNX's parameters `alpha` and `beta`, in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Affine(f32, f32),
    Elu(f32),
    HardSigmoid(f32, f32),
    LeakyRelu(f32),
    Relu,
    ScaledTanh(f32, f32),
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu(f32),
}

/// Accepted names, for messages.
const NAMES: &str = "Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, Softsign, Tanh or ThresholdedRelu";

impl Function {
    /// Parses a function by its case-insensitive name. A function that has `alpha` or `beta` consumes the next element
    /// of the node's list, or uses ONNX's default if the list has ended.
    fn parse(
        name: &str,
        alphas: &mut impl Iterator<Item = f32>,
        betas: &mut impl Iterator<Item = f32>,
    ) -> Option<Self> {
        let mut alpha = |default: f32| alphas.next().unwrap_or(default);
        let mut beta = |default: f32| betas.next().unwrap_or(default);
        Some(match name.to_ascii_lowercase().as_str() {
            "affine" => Self::Affine(alpha(1.0), beta(0.0)),
            "elu" => Self::Elu(alpha(1.0)),
            "hardsigmoid" => Self::HardSigmoid(alpha(0.2), beta(0.5)),
            "leakyrelu" => Self::LeakyRelu(alpha(0.01)),
            "relu" => Self::Relu,
            "scaledtanh" => Self::ScaledTanh(alpha(1.0), beta(1.0)),
            "sigmoid" => Self::Sigmoid,
            "softplus" => Self::Softplus,
            "softsign" => Self::Softsign,
            "tanh" => Self::Tanh,
            "thresholdedrelu" => Self::ThresholdedRelu(alpha(1.0)),
            _ => return None,
        })
    }

    fn apply(self, x: &mut [f32]) {
        let each = |x: &mut [f32], function: &dyn Fn(f32) -> f32| {
            for x in x {
                *x = function(*x);
            }
        };
        match self {
            Self::Sigmoid => math::sigmoid_in_place(x),
            Self::Tanh => math::tanh_in_place(x),
            Self::Affine(alpha, beta) => each(x, &|x| alpha * x + beta),
            Self::Elu(alpha) => each(x, &|x| if x < 0.0 { alpha * x.exp_m1() } else { x }),
            Self::HardSigmoid(alpha, beta) => each(x, &|x| (alpha * x + beta).clamp(0.0, 1.0)),
            Self::LeakyRelu(alpha) => each(x, &|x| if x < 0.0 { alpha * x } else { x }),
            Self::Relu => each(x, &|x| if x < 0.0 { 0.0 } else { x }),
            Self::ScaledTanh(alpha, beta) => each(x, &|x| alpha * (beta * x).tanh()),
            Self::Softplus => each(x, &|x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
            Self::Softsign => each(x, &|x| x / (1.0 + x.abs())),
            Self::ThresholdedRelu(alpha) => each(x, &|x| if x <= alpha { 0.0 } else { x }),
        }
    }
}

impl Activation {
    /// Reads the functions of all directions; `defaults` for each direction if the node does not name any.
    pub(super) fn read(
        node: &Node<'_>,
        dirs: usize,
        defaults: &[&str],
    ) -> Result<Vec<Self>, Error> {
        let names = if node.has_param("activations") {
            node.strings("activations")?
        } else {
            defaults.repeat(dirs)
        };
        if names.len() != dirs * defaults.len() {
            return Err(Error::new(format!(
                "parameter \"activations\" has {} strings, expected {} for each of {dirs} directions",
                names.len(),
                defaults.len()
            )));
        }
        let clip = if node.has_param("clip") { Some(node.float32("clip")?) } else { None };
        if let Some(clip) = clip.filter(|clip| clip.is_nan() || *clip < 0.0) {
            return Err(Error::new(format!("parameter \"clip\" is {clip}, expected 0 or more")));
        }
        let numbers = |name: &str| {
            let all = if node.has_param(name) { node.floats(name)? } else { &[] };
            Ok::<_, Error>(all.iter().map(|&number| number as f32))
        };
        let (mut alphas, mut betas) = (numbers("activation_alpha")?, numbers("activation_beta")?);
        let parse = |name: &&str| match Function::parse(name, &mut alphas, &mut betas) {
            Some(function) => Ok(Self { function, clip }),
            None => {
                Err(Error::new(format!("parameter \"activations\" has {name:?}, expected {NAMES}")))
            }
        };
        names.iter().map(parse).collect()
    }

    /// Applies the function without clipping.
    pub(crate) fn apply(&self, x: &mut [f32]) {
        self.function.apply(x);
    }

    /// Clips the sums of a gate, then applies the function.
    pub(crate) fn apply_to_sums(&self, sums: &mut [f32]) {
        if let Some(clip) = self.clip {
            for sum in &mut *sums {
                *sum = sum.clamp(-clip, clip);
            }
        }
        self.function.apply(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_near;

    #[test]
    fn functions_match_their_formulas_and_parameters_are_read_in_order() {
        type Curve = (&'static str, fn(f64) -> f64);
        let curves: [Curve; 11] = [
            ("Affine", |x| 0.75 * x + 0.25),
            ("elu", |x| if x < 0.0 { 0.75 * x.exp_m1() } else { x }),
            ("HardSigmoid", |x| (0.75 * x + 0.25).clamp(0.0, 1.0)),
            ("LeakyRelu", |x| if x < 0.0 { 0.75 * x } else { x }),
            ("RELU", |x| x.max(0.0)),
            ("ScaledTanh", |x| 0.75 * (0.25 * x).tanh()),
            ("Sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
            ("Softplus", |x| x.exp().ln_1p()),
            ("Softsign", |x| x / (1.0 + x.abs())),
            ("tanh", f64::tanh),
            ("ThresholdedRelu", |x| if x > 0.75 { x } else { 0.0 }),
        ];
        let x: Vec<f32> = (-40..=40).map(|i| i as f32 / 8.0).collect();
        for (name, curve) in curves {
            let numbers = || [0.75f32].into_iter();
            let function = Function::parse(name, &mut numbers(), &mut [0.25f32].into_iter());
            let mut y = x.clone();
            function.unwrap().apply(&mut y);
            let expected: Vec<f64> = x.iter().map(|&x| curve(x.into())).collect();
            assert_near(&y, &expected, 2e-6);
        }
        let mut alphas = [0.5f32, 0.25].into_iter();
        let mut none = [].into_iter();
        let names = ["LeakyRelu", "Tanh", "Elu", "Elu"];
        let actual = names.map(|name| Function::parse(name, &mut alphas, &mut none).unwrap());
        let expected =
            [Function::LeakyRelu(0.5), Function::Tanh, Function::Elu(0.25), Function::Elu(1.0)];
        assert_eq!(actual, expected);
    }
}
