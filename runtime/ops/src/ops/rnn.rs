//! A simple recurrent network: `h = activation(W x + R h + b)` over a sequence.
//!
//! `recurrent` builds the operator and computes the products with the weights; `step` does the rest for one row of the
//! batch.

use udo_api::{Error, Node};

use crate::Def;
use crate::family::recurrent::{Cell, Step, recurrent};

pub(crate) const DEF: Def = recurrent::<Rnn>();

struct Rnn;

impl Cell for Rnn {
    const NAME: &'static str = "RNN";
    const GATES: usize = 1;
    const ACTIVATIONS: &'static [&'static str] = &["Tanh"];

    fn read(_: &Node<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn step(&self, step: Step<'_>) {
        let Step { input, gates, hidden, activations, .. } = step;
        let sums = hidden.iter_mut().zip(input).zip(gates);
        sums.for_each(|((hidden, input), gate)| *hidden = input + *gate);
        for activation in activations {
            activation.apply_to_sums(hidden);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, noise, tensor};

    #[test]
    fn states_match_the_definition() {
        // Inputs `X`, `W`, `R` and `B` of ONNX: a sequence of 4, inputs of 3 and a state of 2 units. `noise` has a
        // fixed seed, so disjoint ranges of it give unlike weights.
        let (x, w, r, bias) = (noise(4 * 3), noise(2 * 3), noise(100), noise(50));
        let (r, bias) = (&r[90..94], &bias[40..44]);
        let y = bench("RNN")
            .input(tensor(&[4, 1, 3], &x))
            .input(tensor(&[1, 2, 3], &w))
            .input(tensor(&[1, 2, 2], r))
            .input(tensor(&[1, 4], bias))
            .one();
        let (mut state, mut expected) = ([0f64; 2], Vec::new());
        for x in x.chunks(3) {
            state = [0, 1].map(|unit| {
                let input: f64 = (0..3).map(|i| f64::from(x[i]) * f64::from(w[unit * 3 + i])).sum();
                let recurrence: f64 = (0..2).map(|i| state[i] * f64::from(r[unit * 2 + i])).sum();
                (input + recurrence + f64::from(bias[unit]) + f64::from(bias[2 + unit])).tanh()
            });
            expected.extend(state);
        }
        assert_near(&y.values::<f32>(), &expected, 1e-5);
    }
}
