//! Long short-term memory over a sequence: forward, reverse or bidirectional.
//!
//! With the gates `i`, `o` and `f` and the cell input `g`, a step computes `c = f c + i g` and `h = o tanh(c)`, where
//! the activations are parameters.
//!
//! `recurrent` builds the operator and computes the products with the weights; `step` does the rest for one row of the
//! batch. `MEMORY` is the cell state. Peepholes are weights from the cell state to the gates.

use udo_api::{DType, Error, Node, Param, Value};

use crate::Def;
use crate::family::recurrent::{Cell, Step, recurrent};

pub(crate) const DEF: Def = recurrent::<Lstm<false>>();

/// The LSTM cell, with float or `QUANTIZED` weights.
pub(crate) struct Lstm<const QUANTIZED: bool> {
    /// Whether the forget gate is 1 minus the input gate (`input_forget`).
    couples_gates: bool,
}

impl<const QUANTIZED: bool> Cell for Lstm<QUANTIZED> {
    const NAME: &'static str = if QUANTIZED { "DynamicQuantizeLSTM" } else { "LSTM" };
    const IS_QUANTIZED: bool = QUANTIZED;
    // Input, output, forget and cell.
    const GATES: usize = 4;
    const MEMORY: Option<[&'static str; 2]> = Some(["initial_c", "Y_c"]);
    const PEEPHOLES: (usize, &'static str) = (3, "P");
    const ACTIVATIONS: &'static [&'static str] = &["Sigmoid", "Tanh", "Tanh"];
    const PARAMS: &'static [Param] =
        &[Param::scalar("input_forget", DType::I64).default(Value::int(0))];

    fn read(node: &Node<'_>) -> Result<Self, Error> {
        Ok(Self { couples_gates: node.flag("input_forget")? })
    }

    fn step(&self, step: Step<'_>) {
        let Step { input, gates, hidden, memory, peepholes, activations, .. } = step;
        let &[gate_activation, cell_activation, memory_activation] = activations else { return };
        gates.iter_mut().zip(input).for_each(|(gate, input)| *gate += input);
        let len = hidden.len();
        let (input, others) = gates.split_at_mut(len);
        let (output, others) = others.split_at_mut(len);
        let (forget, cell) = others.split_at_mut(len);
        let mut peepholes = peepholes.chunks_exact(len);
        let mut next_peepholes = || peepholes.next().unwrap_or(&[]);
        let [input_peepholes, output_peepholes, forget_peepholes] =
            [next_peepholes(), next_peepholes(), next_peepholes()];
        add_peepholes(input, input_peepholes, memory);
        add_peepholes(forget, forget_peepholes, memory);
        gate_activation.apply_to_sums(input);
        if self.couples_gates {
            forget.iter_mut().zip(&*input).for_each(|(forget, input)| *forget = 1.0 - input);
        } else {
            gate_activation.apply_to_sums(forget);
        }
        cell_activation.apply_to_sums(cell);
        let gated = input.iter().zip(&*cell).zip(&*forget);
        for (memory, ((input, cell), forget)) in memory.iter_mut().zip(gated) {
            *memory = forget * *memory + input * cell;
        }
        // The output gate's peephole reads the updated cell state.
        add_peepholes(output, output_peepholes, memory);
        gate_activation.apply_to_sums(output);
        hidden.copy_from_slice(memory);
        memory_activation.apply(hidden);
        hidden.iter_mut().zip(output).for_each(|(hidden, output)| *hidden *= *output);
    }
}

/// Adds the peephole terms, weights times cell states, to the sums of a gate; `peepholes` is empty if the node has no
/// such input.
fn add_peepholes(gate: &mut [f32], peepholes: &[f32], memory: &[f32]) {
    let terms = peepholes.iter().zip(memory).map(|(weight, state)| weight * state);
    gate.iter_mut().zip(terms).for_each(|(gate, term)| *gate += term);
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, noise, tensor};

    const STEPS: usize = 4;
    const BATCH: usize = 2;
    const WIDTH: usize = 3;
    const HIDDEN: usize = 2;

    /// Inputs `X`, `W`, `R`, `B` and `P` of ONNX, for up to two directions.
    struct Node {
        x: Vec<f32>,
        w: Vec<f32>,
        r: Vec<f32>,
        bias: Vec<f32>,
        peepholes: Vec<f32>,
    }

    fn node() -> Node {
        // Disjoint ranges of one noise with a fixed seed give unlike values.
        let values = noise(400);
        Node {
            x: values[..24].to_vec(),
            w: values[30..78].to_vec(),
            r: values[100..132].to_vec(),
            bias: values[200..232].to_vec(),
            peepholes: values[300..312].to_vec(),
        }
    }

    /// Computes the outputs of one direction and row of the batch, in the order of steps, and the last cell state.
    fn reference(
        node: &Node,
        [direction, row]: [usize; 2],
        order: &[usize],
        (couples_gates, clip): (bool, f64),
    ) -> (Vec<[f64; 2]>, [f64; 2]) {
        let (mut hidden, mut cell, mut outputs) = ([0.0; 2], [0.0; 2], Vec::new());
        let value = |values: &[f32], index: usize| f64::from(values[index]);
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        for &step in order {
            let sum = |gate: usize| {
                let mut sum = value(&node.bias, direction * 16 + gate)
                    + value(&node.bias, direction * 16 + 8 + gate);
                for i in 0..WIDTH {
                    let x = value(&node.x, (step * BATCH + row) * WIDTH + i);
                    sum += value(&node.w, (direction * 8 + gate) * WIDTH + i) * x;
                }
                for (i, hidden) in hidden.iter().enumerate() {
                    sum += value(&node.r, (direction * 8 + gate) * HIDDEN + i) * hidden;
                }
                sum
            };
            let sums: Vec<f64> = (0..8).map(sum).collect();
            for k in 0..HIDDEN {
                let peephole =
                    |gate: usize| value(&node.peepholes, direction * 6 + gate * 2 + k) * cell[k];
                let clipped = |sum: f64| sum.clamp(-clip, clip);
                let input = sigmoid(clipped(sums[k] + peephole(0)));
                let forget = if couples_gates {
                    1.0 - input
                } else {
                    sigmoid(clipped(sums[4 + k] + peephole(2)))
                };
                cell[k] = forget * cell[k] + input * clipped(sums[6 + k]).tanh();
                let output_peephole = value(&node.peepholes, direction * 6 + 2 + k) * cell[k];
                hidden[k] = sigmoid(clipped(sums[2 + k] + output_peephole)) * cell[k].tanh();
            }
            outputs.push(hidden);
        }
        (outputs, cell)
    }

    #[test]
    fn every_direction_matches_the_definition() {
        let node = node();
        for (direction, directions, couples_gates, clip) in [
            ("forward", 1, 0, None),
            ("reverse", 1, 1, None),
            ("forward", 1, 0, Some(0.2)),
            ("bidirectional", 2, 1, Some(0.3)),
        ] {
            let run = bench("LSTM").int("input_forget", couples_gates);
            let run = clip.map_or(run.clone(), |clip| run.float("clip", clip));
            let y = run
                .input(tensor(&[STEPS, BATCH, WIDTH], &node.x))
                .input(tensor(&[directions, 8, WIDTH], &node.w[..directions * 24]))
                .input(tensor(&[directions, 8, HIDDEN], &node.r[..directions * 16]))
                .input(tensor(&[directions, 16], &node.bias[..directions * 16]))
                .input(tensor(&[BATCH], &[4i32, 3]))
                .absent()
                .absent()
                .input(tensor(&[directions, 6], &node.peepholes[..directions * 6]))
                .text("direction", direction)
                .int("hidden_size", 2)
                .outputs(3)
                .all();
            let mut expected = vec![0.0; STEPS * directions * BATCH * HIDDEN];
            let (mut last_hidden, mut last_cell) = (Vec::new(), Vec::new());
            for (direction_index, row) in
                (0..directions).flat_map(|index| (0..BATCH).map(move |row| (index, row)))
            {
                let mut order: Vec<usize> = (0..[4, 3][row]).collect();
                if direction == "reverse" || direction_index == 1 {
                    order.reverse();
                }
                let options = (couples_gates == 1, clip.unwrap_or(1e9));
                let (outputs, cell) = reference(&node, [direction_index, row], &order, options);
                for (&step, hidden) in order.iter().zip(&outputs) {
                    let start = ((step * directions + direction_index) * BATCH + row) * HIDDEN;
                    expected[start..start + HIDDEN].copy_from_slice(hidden);
                }
                last_hidden.extend(outputs[outputs.len() - 1]);
                last_cell.extend(cell);
            }
            assert_near(&y[0].values::<f32>(), &expected, 1e-5);
            assert_near(&y[1].values::<f32>(), &last_hidden, 1e-5);
            assert_near(&y[2].values::<f32>(), &last_cell, 1e-5);
        }
    }
}
