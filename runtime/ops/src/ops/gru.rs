//! Gated recurrent units over a sequence: forward, reverse or bidirectional.
//!
//! With the update gate `z`, the reset gate `r` and the new state `n`, a step computes `h = (1 - z) n + z h`. The
//! parameter `linear_before_reset` selects `n = tanh(W x + r (R h))` instead of `n = tanh(W x + R (r h))`, biases
//! omitted.
//!
//! `recurrent` builds the operator and computes the products with the weights; `step` does the rest for one row of the
//! batch.

use udo_api::{DType, Error, Node, Param, Value};

use crate::Def;
use crate::family::recurrent::{Activation, Cell, Step, recurrent};

pub(crate) const DEF: Def = recurrent::<Gru>();

struct Gru {
    /// Whether the reset gate scales the state's sums (`linear_before_reset`) instead of the state itself.
    resets_sums: bool,
}

/// Index of the gate that computes the new state. The update and reset gates come before it.
const NEW: usize = 2;

impl Gru {
    /// Adds the input sums of the update and reset gates to their state sums, and applies the activation.
    fn activate_gates(gates: &mut [f32], input: &[f32], len: usize, activation: &Activation) {
        let gates = &mut gates[..NEW * len];
        gates.iter_mut().zip(input).for_each(|(gate, input)| *gate += input);
        activation.apply_to_sums(gates);
    }
}

impl Cell for Gru {
    const NAME: &'static str = "GRU";
    // Update, reset and new state.
    const GATES: usize = 3;
    const ACTIVATIONS: &'static [&'static str] = &["Sigmoid", "Tanh"];
    const PARAMS: &'static [Param] =
        &[Param::scalar("linear_before_reset", DType::I64).default(Value::int(0))];

    fn read(node: &Node<'_>) -> Result<Self, Error> {
        Ok(Self { resets_sums: node.flag("linear_before_reset")? })
    }

    // Without `linear_before_reset`, the sums of the new state need the reset gate first, so they are computed late,
    // from the reset state that `reset` writes.
    fn late(&self) -> Option<usize> {
        (!self.resets_sums).then_some(NEW)
    }

    fn reset(&self, step: Step<'_>, reset_state: &mut [f32]) {
        let Step { input, gates, hidden, activations, .. } = step;
        let len = hidden.len();
        Self::activate_gates(gates, input, len, &activations[0]);
        let products = hidden.iter().zip(&gates[len..]).map(|(hidden, reset)| hidden * reset);
        reset_state.iter_mut().zip(products).for_each(|(state, product)| *state = product);
    }

    fn step(&self, step: Step<'_>) {
        let Step { input, gates, hidden, late, activations, .. } = step;
        let len = hidden.len();
        if self.resets_sums {
            Self::activate_gates(gates, input, len, &activations[0]);
        }
        let (update, others) = gates.split_at_mut(len);
        let (reset, new) = others.split_at_mut(len);
        if self.resets_sums {
            new.iter_mut().zip(reset).for_each(|(new, reset)| *new *= *reset);
        } else {
            new.copy_from_slice(late);
        }
        new.iter_mut().zip(&input[NEW * len..]).for_each(|(new, input)| *new += input);
        activations[1].apply_to_sums(new);
        let states = hidden.iter_mut().zip(new).zip(update);
        states.for_each(|((hidden, new), update)| {
            *hidden = (1.0 - *update) * *new + *update * *hidden;
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, noise, tensor};

    const STEPS: usize = 4;
    const BATCH: usize = 2;
    const WIDTH: usize = 3;
    const HIDDEN: usize = 5;
    const GATES: usize = 3 * HIDDEN;

    /// Inputs `X`, `W`, `R` and `B` of ONNX.
    struct Node {
        x: Vec<f32>,
        w: Vec<f32>,
        r: Vec<f32>,
        bias: Vec<f32>,
    }

    impl Node {
        /// Computes the states of one row of the batch, step by step.
        fn naive(&self, row: usize, resets_sums: bool) -> Vec<[f64; HIDDEN]> {
            let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
            let (mut hidden, mut states) = ([0.0; HIDDEN], Vec::new());
            for step in 0..STEPS {
                let input = |gate: usize| {
                    let x = &self.x[(step * BATCH + row) * WIDTH..];
                    let term = |i: usize| f64::from(self.w[gate * WIDTH + i]) * f64::from(x[i]);
                    (0..WIDTH).map(term).sum::<f64>() + f64::from(self.bias[gate])
                };
                let recurrence = |gate: usize, state: &[f64; HIDDEN]| {
                    let term = |i: usize| f64::from(self.r[gate * HIDDEN + i]) * state[i];
                    (0..HIDDEN).map(term).sum::<f64>() + f64::from(self.bias[GATES + gate])
                };
                let gate = |gate: usize| sigmoid(input(gate) + recurrence(gate, &hidden));
                let reset: [f64; HIDDEN] = std::array::from_fn(|k| gate(HIDDEN + k));
                let reset_state: [f64; HIDDEN] = std::array::from_fn(|k| reset[k] * hidden[k]);
                hidden = std::array::from_fn(|k| {
                    let new = 2 * HIDDEN + k;
                    let recurrent_sum = if resets_sums {
                        reset[k] * recurrence(new, &hidden)
                    } else {
                        recurrence(new, &reset_state)
                    };
                    let update = gate(k);
                    (1.0 - update) * (input(new) + recurrent_sum).tanh() + update * hidden[k]
                });
                states.push(hidden);
            }
            states
        }
    }

    #[test]
    fn states_match_the_definition() {
        // Disjoint ranges of one noise with a fixed seed give unlike values.
        let values = noise(400);
        let node = Node {
            x: values[..STEPS * BATCH * WIDTH].to_vec(),
            w: values[30..30 + GATES * WIDTH].to_vec(),
            r: values[100..100 + GATES * HIDDEN].to_vec(),
            bias: values[300..300 + 2 * GATES].to_vec(),
        };
        for (resets_sums, has_constant_r) in [(0, false), (1, false), (0, true), (1, true)] {
            let run = bench("GRU").input(tensor(&[STEPS, BATCH, WIDTH], &node.x));
            let run = run.input(tensor(&[1, GATES, WIDTH], &node.w));
            let r = tensor(&[1, GATES, HIDDEN], &node.r);
            let run = if has_constant_r { run.constant(r) } else { run.input(r) };
            let run = run.input(tensor(&[1, 2 * GATES], &node.bias));
            let y = run.int("linear_before_reset", resets_sums).outputs(2).all();
            let rows = [0, 1].map(|row| node.naive(row, resets_sums == 1));
            let expected = (0..STEPS).flat_map(|step| [rows[0][step], rows[1][step]].concat());
            let expected: Vec<f64> = expected.collect();
            assert_near(&y[0].values::<f32>(), &expected, 1e-5);
            assert_near(&y[1].values::<f32>(), &expected[expected.len() - BATCH * HIDDEN..], 1e-5);
        }
    }
}
