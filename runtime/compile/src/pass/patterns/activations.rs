//! Fuses activations that models compute step by step: GELU, `SiLU`, `HardSwish` and Mish.
//!
//! Constants are compared with a relative tolerance, because models state them with few digits.

use crate::pass::{Candidate, Operand, Replacement};
use udo_graph::graph::{Attr, ValueId};

/// Returns the activation whose last step is this node.
pub(in crate::pass) fn find(node: &Candidate<'_>) -> Option<Replacement> {
    match node.op()? {
        "Mul" => product(node, gelu)
            .or_else(|| gated(node))
            .or_else(|| product(node, |factors| hard_swish(factors, 1.0 / 6.0))),
        "Div" => {
            let is_sixth = is_about(node.scalar(1), 6.0);
            let inner = node.made_by(0, "Mul").filter(|_| is_sixth)?;
            Candidate::either(|x, gate| clipped(&inner, x, gate))
        }
        _ => None,
    }
}

/// An operand of a node: the node, and the port.
type Factor<'a> = (Candidate<'a>, usize);

/// Tries `found` with the three factors of a nested product, in every order.
fn product<'a>(
    node: &Candidate<'a>,
    found: impl Fn([Factor<'a>; 3]) -> Option<Replacement>,
) -> Option<Replacement> {
    Candidate::either(|pair, other| {
        let inner = node.made_by(pair, "Mul")?;
        let [a, b, c] = [(*node, other), (inner, 0), (inner, 1)];
        let orders = [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]];
        orders.into_iter().find_map(&found)
    })
}

/// y = x * 0.5 * (1 + erf(x / sqrt(2))) -> Gelu(x), and y = x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
/// -> Gelu(x, approximate = tanh). Hendrycks and Gimpel, arXiv:1606.08415.
fn gelu([x, half, gate]: [Factor<'_>; 3]) -> Option<Replacement> {
    let of = x.0.input_id(x.1)?;
    let sum = gate.0.made_by(gate.1, "Add").filter(|_| is_about(half.0.scalar(half.1), 0.5))?;
    let approximate = Candidate::either(|curve, one| {
        if !is_about(sum.scalar(one), 1.0) {
            return None;
        }
        match sum.made_by(curve, "Erf") {
            Some(erf) => is_times(&erf, of, std::f64::consts::FRAC_1_SQRT_2).then_some("none"),
            None => is_tanh_of(&sum.made_by(curve, "Tanh")?, of).then_some("tanh"),
        }
    })?;
    let attrs = vec![("approximate", Attr::Text(approximate.to_owned()))];
    Some(activation("Gelu", of, attrs))
}

/// Returns whether a Tanh node computes `tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))`.
fn is_tanh_of(tanh: &Candidate<'_>, x: ValueId) -> bool {
    let cubic = |sum: &Candidate<'_>| {
        Candidate::either(|own, cube| {
            let cube = sum.made_by(cube, "Mul").filter(|_| sum.input_id(own) == Some(x))?;
            Candidate::either(|cube_of, factor| {
                let power = cube.made_by(cube_of, "Pow")?;
                (is_about(cube.scalar(factor), 0.044_715)
                    && is_about(power.scalar(1), 3.0)
                    && power.input_id(0) == Some(x))
                .then_some(())
            })
        })
    };
    let found = tanh.made_by(0, "Mul").and_then(|scaled| {
        Candidate::either(|sum, factor| {
            let root = (2.0 / std::f64::consts::PI).sqrt();
            let sum =
                scaled.made_by(sum, "Add").filter(|_| is_about(scaled.scalar(factor), root))?;
            cubic(&sum)
        })
    });
    found.is_some()
}

/// Fuses `y = x * gate(x)`:
///
/// * `x * sigmoid(alpha * x)` -> `Swish(x)` (arXiv:1710.05941)
/// * `x * HardSigmoid(x, 1 / 6, 0.5)` and `x * (clip(x + 3, 0, 6) / 6)` -> `HardSwish(x)` (arXiv:1905.02244)
/// * `x * tanh(softplus(x))` -> `Mish(x)` (arXiv:1908.08681)
fn gated(node: &Candidate<'_>) -> Option<Replacement> {
    Candidate::either(|x, gate| {
        let of = node.input_id(x)?;
        let maker = node.maker(gate)?;
        match maker.op()? {
            "Sigmoid" if maker.input_id(0) == Some(of) => Some(swish(of, 1.0)),
            "Sigmoid" => {
                let scaled = maker.made_by(0, "Mul")?;
                Candidate::either(|own, alpha| {
                    let alpha =
                        scaled.scalar(alpha).filter(|_| scaled.input_id(own) == Some(of))?;
                    Some(swish(of, f64::from(alpha)))
                })
            }
            "HardSigmoid" => {
                let is_of = maker.input_id(0) == Some(of)
                    && maker.float("alpha").is_some_and(|alpha| (alpha * 6.0 - 1.0).abs() < CLOSE)
                    && maker.float("beta").is_some_and(|beta| (beta - 0.5).abs() < CLOSE);
                is_of.then(|| activation("HardSwish", of, Vec::new()))
            }
            "Tanh" => {
                let softplus = maker.made_by(0, "Softplus")?;
                let is_of = softplus.input_id(0) == Some(of);
                is_of.then(|| activation("Mish", of, Vec::new()))
            }
            "Div" if is_about(maker.scalar(1), 6.0) => clipped_of(of, &maker, 0),
            _ => None,
        }
    })
}

/// y = x * clip(x + 3, 0, 6) * sixth -> HardSwish(x)
fn hard_swish([x, factor, gate]: [Factor<'_>; 3], sixth: f64) -> Option<Replacement> {
    let of = x.0.input_id(x.1).filter(|_| is_about(factor.0.scalar(factor.1), sixth))?;
    clipped_of(of, &gate.0, gate.1)
}

/// y = x * clip(x + 3, 0, 6), of which the caller takes a sixth -> HardSwish(x)
fn clipped(node: &Candidate<'_>, x: usize, gate: usize) -> Option<Replacement> {
    clipped_of(node.input_id(x)?, node, gate)
}

/// Returns `HardSwish(x)` if an input is `clip(x + 3, 0, 6)`.
fn clipped_of(x: ValueId, node: &Candidate<'_>, gate: usize) -> Option<Replacement> {
    let clip = node.made_by(gate, "Clip")?;
    let is_clip = is_about(clip.scalar(1), 0.0) && is_about(clip.scalar(2), 6.0);
    let sum = clip.made_by(0, "Add").filter(|_| is_clip)?;
    Candidate::either(|own, three| {
        let is_of = sum.input_id(own) == Some(x) && is_about(sum.scalar(three), 3.0);
        is_of.then(|| activation("HardSwish", x, Vec::new()))
    })
}

fn swish(x: ValueId, alpha: f64) -> Replacement {
    activation("Swish", x, vec![("alpha", Attr::Float(alpha))])
}

fn activation(op: &'static str, x: ValueId, attrs: Vec<(&'static str, Attr)>) -> Replacement {
    Replacement { attrs, ..Replacement::new("", op, vec![Operand::Value(x)]) }
}

/// Returns whether a node's input is `x * factor` or `x / (1 / factor)`.
fn is_times(node: &Candidate<'_>, x: ValueId, factor: f64) -> bool {
    let Some(scaled) = node.maker(0) else { return false };
    match scaled.op() {
        Some("Div") => scaled.input_id(0) == Some(x) && is_about(scaled.scalar(1), factor.recip()),
        Some("Mul") => Candidate::either(|own, number| {
            let is = scaled.input_id(own) == Some(x) && is_about(scaled.scalar(number), factor);
            is.then_some(())
        })
        .is_some(),
        _ => false,
    }
}

/// The relative tolerance of constants.
const CLOSE: f64 = 1e-4;

fn is_about(found: Option<f32>, wanted: f64) -> bool {
    found.is_some_and(|found| (f64::from(found) - wanted).abs() <= CLOSE * wanted.abs())
}
