//! Gated recurrent units over a sequence: forward, reverse or bidirectional.
//!
//! With the update gate `z`, the reset gate `r` and the new state `n`, a step computes `h = (1 - z) n + z h`. The
//! parameter `linear_before_reset` selects `n = tanh(W x + r (R h))` instead of `n = tanh(W x + R (r h))`, biases
//! omitted.

use udo_api::{DType, Error, Node, Param, Value};

use crate::Def;
use crate::family::recurrent::{Activation, Cell, Step, recurrent};

pub(crate) const DEF: Def = recurrent::<Gru>();

struct Gru {
    /// Whether the reset gate scales the state's sums (`linear_before_reset`) instead of the state itself.
    resets_sums: bool,
}

/// Index of the new-state gate, after update and reset.
const NEW: usize = 2;

impl Gru {
    /// Applies the activation to the sums of the update and reset gates.
    fn open(gates: &mut [f32], input: &[f32], len: usize, activation: &Activation) {
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

    fn late(&self) -> Option<usize> {
        (!self.resets_sums).then_some(NEW)
    }

    fn reset(&self, step: Step<'_>, seen: &mut [f32]) {
        let Step { input, gates, hidden, activations, .. } = step;
        let len = hidden.len();
        Self::open(gates, input, len, &activations[0]);
        let pairs = hidden.iter().zip(&gates[len..]);
        seen.iter_mut().zip(pairs).for_each(|(seen, (h, r))| *seen = h * r);
    }

    fn step(&self, step: Step<'_>) {
        let Step { input, gates, hidden, late, activations, .. } = step;
        let len = hidden.len();
        if self.resets_sums {
            Self::open(gates, input, len, &activations[0]);
        }
        let (update, others) = gates.split_at_mut(len);
        let (reset, new) = others.split_at_mut(len);
        if self.resets_sums {
            new.iter_mut().zip(reset).for_each(|(new, r)| *new *= *r);
        } else {
            new.copy_from_slice(late);
        }
        new.iter_mut().zip(&input[NEW * len..]).for_each(|(new, input)| *new += input);
        activations[1].apply_to_sums(new);
        let states = hidden.iter_mut().zip(new).zip(update);
        states.for_each(|((h, new), z)| *h = (1.0 - *z) * *new + *z * *h);
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

    struct Node {
        x: Vec<f32>,
        w: Vec<f32>,
        r: Vec<f32>,
        bias: Vec<f32>,
    }

    impl Node {
        /// The states of one row of the batch, step by step.
        fn naive(&self, row: usize, resets_sums: bool) -> Vec<[f64; HIDDEN]> {
            let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
            let (mut h, mut all) = ([0.0; HIDDEN], Vec::new());
            for step in 0..STEPS {
                let input = |gate: usize| {
                    let x = &self.x[(step * BATCH + row) * WIDTH..];
                    let term = |i: usize| f64::from(self.w[gate * WIDTH + i]) * f64::from(x[i]);
                    (0..WIDTH).map(term).sum::<f64>() + f64::from(self.bias[gate])
                };
                let state = |gate: usize, h: &[f64; HIDDEN]| {
                    let term = |i: usize| f64::from(self.r[gate * HIDDEN + i]) * h[i];
                    (0..HIDDEN).map(term).sum::<f64>() + f64::from(self.bias[GATES + gate])
                };
                let gate = |gate: usize| sigmoid(input(gate) + state(gate, &h));
                let reset: [f64; HIDDEN] = std::array::from_fn(|k| gate(HIDDEN + k));
                let reset_state: [f64; HIDDEN] = std::array::from_fn(|k| reset[k] * h[k]);
                h = std::array::from_fn(|k| {
                    let new = 2 * HIDDEN + k;
                    let seen = if resets_sums {
                        reset[k] * state(new, &h)
                    } else {
                        state(new, &reset_state)
                    };
                    let z = gate(k);
                    (1.0 - z) * (input(new) + seen).tanh() + z * h[k]
                });
                all.push(h);
            }
            all
        }
    }

    #[test]
    fn states_match_the_definition() {
        let all = noise(400);
        let node = Node {
            x: all[..STEPS * BATCH * WIDTH].to_vec(),
            w: all[30..30 + GATES * WIDTH].to_vec(),
            r: all[100..100 + GATES * HIDDEN].to_vec(),
            bias: all[300..300 + 2 * GATES].to_vec(),
        };
        for (resets_sums, constant) in (0..4).map(|i| (i & 1, i >> 1)) {
            let run = bench("GRU").input(tensor(&[STEPS, BATCH, WIDTH], &node.x));
            let run = run.input(tensor(&[1, GATES, WIDTH], &node.w));
            let r = tensor(&[1, GATES, HIDDEN], &node.r);
            let run = if constant == 1 { run.constant(r) } else { run.input(r) };
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
