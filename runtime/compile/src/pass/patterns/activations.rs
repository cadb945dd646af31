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

/// A factor of a product: an input of a node.
#[derive(Clone, Copy)]
struct Factor<'a> {
    node: Candidate<'a>,
    port: usize,
}

impl Factor<'_> {
    fn id(&self) -> Option<ValueId> {
        self.node.input_id(self.port)
    }

    /// Returns whether it is a constant scalar near `expected`.
    fn is_about(&self, expected: f64) -> bool {
        is_about(self.node.scalar(self.port), expected)
    }
}

/// Calls `find` with the three factors of a nested product, in every order.
fn product<'a>(
    node: &Candidate<'a>,
    find: impl Fn([Factor<'a>; 3]) -> Option<Replacement>,
) -> Option<Replacement> {
    Candidate::either(|pair, other| {
        let inner = node.made_by(pair, "Mul")?;
        let [a, b, c] =
            [(*node, other), (inner, 0), (inner, 1)].map(|(node, port)| Factor { node, port });
        let orders = [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]];
        orders.into_iter().find_map(&find)
    })
}

/// y = x * 0.5 * (1 + erf(x / sqrt(2))) -> Gelu(x), and y = x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
/// -> Gelu(x, approximate = tanh). Hendrycks and Gimpel, arXiv:1606.08415.
fn gelu([x, half, gate]: [Factor<'_>; 3]) -> Option<Replacement> {
    let x = x.id()?;
    let sum = gate.node.made_by(gate.port, "Add").filter(|_| half.is_about(0.5))?;
    let approximate = Candidate::either(|curve, one| {
        if !is_about(sum.scalar(one), 1.0) {
            return None;
        }
        match sum.made_by(curve, "Erf") {
            Some(erf) => is_times(&erf, x, std::f64::consts::FRAC_1_SQRT_2).then_some("none"),
            None => is_tanh_of(&sum.made_by(curve, "Tanh")?, x).then_some("tanh"),
        }
    })?;
    let attrs = vec![("approximate", Attr::Text(approximate.to_owned()))];
    Some(activation("Gelu", x, attrs))
}

/// Returns whether a Tanh node computes `tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))`.
fn is_tanh_of(tanh: &Candidate<'_>, x: ValueId) -> bool {
    let cubic = |sum: &Candidate<'_>| {
        Candidate::either(|addend, cubic| {
            let cubic = sum.made_by(cubic, "Mul").filter(|_| sum.input_id(addend) == Some(x))?;
            Candidate::either(|power, factor| {
                let power = cubic.made_by(power, "Pow")?;
                (is_about(cubic.scalar(factor), 0.044_715)
                    && is_about(power.scalar(1), 3.0)
                    && power.input_id(0) == Some(x))
                .then_some(())
            })
        })
    };
    let argument = tanh.made_by(0, "Mul").and_then(|scaled| {
        Candidate::either(|sum, factor| {
            let root = (2.0 / std::f64::consts::PI).sqrt();
            let sum =
                scaled.made_by(sum, "Add").filter(|_| is_about(scaled.scalar(factor), root))?;
            cubic(&sum)
        })
    });
    argument.is_some()
}

/// Fuses `y = x * gate(x)`:
///
/// * `x * sigmoid(alpha * x)` -> `Swish(x)` (arXiv:1710.05941)
/// * `x * HardSigmoid(x, 1 / 6, 0.5)` and `x * (clip(x + 3, 0, 6) / 6)` -> `HardSwish(x)` (arXiv:1905.02244)
/// * `x * tanh(softplus(x))` -> `Mish(x)` (arXiv:1908.08681)
fn gated(node: &Candidate<'_>) -> Option<Replacement> {
    Candidate::either(|x, gate| {
        let x = node.input_id(x)?;
        let producer = node.producer(gate)?;
        match producer.op()? {
            "Sigmoid" if producer.input_id(0) == Some(x) => Some(swish(x, 1.0)),
            "Sigmoid" => {
                let scaled = producer.made_by(0, "Mul")?;
                Candidate::either(|scaled_x, alpha| {
                    let alpha =
                        scaled.scalar(alpha).filter(|_| scaled.input_id(scaled_x) == Some(x))?;
                    Some(swish(x, f64::from(alpha)))
                })
            }
            "HardSigmoid" => {
                let reads_x = producer.input_id(0) == Some(x)
                    && producer
                        .float("alpha")
                        .is_some_and(|alpha| (alpha * 6.0 - 1.0).abs() < TOLERANCE)
                    && producer.float("beta").is_some_and(|beta| (beta - 0.5).abs() < TOLERANCE);
                reads_x.then(|| activation("HardSwish", x, Vec::new()))
            }
            "Tanh" => {
                let softplus = producer.made_by(0, "Softplus")?;
                let reads_x = softplus.input_id(0) == Some(x);
                reads_x.then(|| activation("Mish", x, Vec::new()))
            }
            "Div" if is_about(producer.scalar(1), 6.0) => clipped_of(x, &producer, 0),
            _ => None,
        }
    })
}

/// Matches `y = x * clip(x + 3, 0, 6) * sixth`, which is `HardSwish(x)`.
fn hard_swish([x, factor, gate]: [Factor<'_>; 3], sixth: f64) -> Option<Replacement> {
    clipped_of(x.id().filter(|_| factor.is_about(sixth))?, &gate.node, gate.port)
}

/// Matches `x * clip(x + 3, 0, 6)`, which is `HardSwish(x)` after the caller divides it by 6.
fn clipped(node: &Candidate<'_>, x: usize, gate: usize) -> Option<Replacement> {
    clipped_of(node.input_id(x)?, node, gate)
}

/// Returns `HardSwish(x)` if an input is `clip(x + 3, 0, 6)`.
fn clipped_of(x: ValueId, node: &Candidate<'_>, gate: usize) -> Option<Replacement> {
    let clip = node.made_by(gate, "Clip")?;
    let is_clip = is_about(clip.scalar(1), 0.0) && is_about(clip.scalar(2), 6.0);
    let sum = clip.made_by(0, "Add").filter(|_| is_clip)?;
    Candidate::either(|addend, three| {
        let matches = sum.input_id(addend) == Some(x) && is_about(sum.scalar(three), 3.0);
        matches.then(|| activation("HardSwish", x, Vec::new()))
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
    let Some(scaled) = node.producer(0) else { return false };
    match scaled.op() {
        Some("Div") => scaled.input_id(0) == Some(x) && is_about(scaled.scalar(1), factor.recip()),
        Some("Mul") => Candidate::either(|operand, number| {
            let matches =
                scaled.input_id(operand) == Some(x) && is_about(scaled.scalar(number), factor);
            matches.then_some(())
        })
        .is_some(),
        _ => false,
    }
}

/// The relative tolerance of constants.
const TOLERANCE: f64 = 1e-4;

fn is_about(actual: Option<f32>, expected: f64) -> bool {
    actual.is_some_and(|actual| (f64::from(actual) - expected).abs() <= TOLERANCE * expected.abs())
}
