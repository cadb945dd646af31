//! Long short-term memory over a sequence: forward, reverse or bidirectional.
//!
//! With the gates `i`, `o` and `f` and the cell input `g`, a step computes `c = f c + i g` and `h = o tanh(c)`, where
//! the activations are parameters.

use udo_api::{DType, Error, Node, Param, Value};

use crate::Def;
use crate::family::recurrent::{Cell, Step, recurrent};

pub(crate) const DEF: Def = recurrent::<Lstm<false>>();

/// The LSTM cell, with float or `QUANTIZED` weights.
pub(crate) struct Lstm<const QUANTIZED: bool> {
    /// Whether the forget gate is 1 less the input gate (`input_forget`).
    couples: bool,
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
        Ok(Self { couples: node.flag("input_forget")? })
    }

    fn step(&self, step: Step<'_>) {
        let Step { input, gates, hidden, memory, peepholes, activations, .. } = step;
        let &[of_gates, of_cell, of_memory] = activations else { return };
        gates.iter_mut().zip(input).for_each(|(gate, input)| *gate += input);
        let len = hidden.len();
        let (input, rest) = gates.split_at_mut(len);
        let (output, rest) = rest.split_at_mut(len);
        let (forget, cell) = rest.split_at_mut(len);
        let mut peepholes = peepholes.chunks_exact(len);
        let mut peep = || peepholes.next().unwrap_or(&[]);
        let [input_peep, output_peep, forget_peep] = [peep(), peep(), peep()];
        look(input, input_peep, memory);
        look(forget, forget_peep, memory);
        of_gates.apply_to_sums(input);
        if self.couples {
            forget.iter_mut().zip(&*input).for_each(|(forget, input)| *forget = 1.0 - input);
        } else {
            of_gates.apply_to_sums(forget);
        }
        of_cell.apply_to_sums(cell);
        let gated = input.iter().zip(&*cell).zip(&*forget);
        memory.iter_mut().zip(gated).for_each(|(c, ((i, g), f))| *c = f * *c + i * g);
        // The output gate's peephole reads the updated cell state.
        look(output, output_peep, memory);
        of_gates.apply_to_sums(output);
        hidden.copy_from_slice(memory);
        of_memory.apply(hidden);
        hidden.iter_mut().zip(output).for_each(|(h, o)| *h *= *o);
    }
}

/// Adds the peephole term `weights * cell state` to a gate; `peepholes` is empty if the node has no such input.
fn look(gate: &mut [f32], peepholes: &[f32], memory: &[f32]) {
    let seen = peepholes.iter().zip(memory);
    gate.iter_mut().zip(seen).for_each(|(gate, (weight, c))| *gate += weight * c);
}

#[cfg(test)]
mod tests {
    use crate::testing::{assert_near, bench, noise, tensor};

    const STEPS: usize = 4;
    const BATCH: usize = 2;
    const WIDTH: usize = 3;
    const HIDDEN: usize = 2;

    struct Node {
        x: Vec<f32>,
        w: Vec<f32>,
        r: Vec<f32>,
        bias: Vec<f32>,
        peepholes: Vec<f32>,
    }

    fn node() -> Node {
        let all = noise(400);
        Node {
            x: all[..24].to_vec(),
            w: all[30..78].to_vec(),
            r: all[100..132].to_vec(),
            bias: all[200..232].to_vec(),
            peepholes: all[300..312].to_vec(),
        }
    }

    /// The outputs of one direction and row of the batch, in step order, and the last states.
    fn naive(
        node: &Node,
        [dir, row]: [usize; 2],
        order: &[usize],
        (couples, clip): (bool, f64),
    ) -> (Vec<[f64; 2]>, [f64; 2]) {
        let (mut h, mut c, mut all) = ([0.0; 2], [0.0; 2], Vec::new());
        let at = |v: &[f32], i: usize| f64::from(v[i]);
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        for &step in order {
            let sum = |gate: usize| {
                let mut sum = at(&node.bias, dir * 16 + gate) + at(&node.bias, dir * 16 + 8 + gate);
                for i in 0..WIDTH {
                    let x = at(&node.x, (step * BATCH + row) * WIDTH + i);
                    sum += at(&node.w, (dir * 8 + gate) * WIDTH + i) * x;
                }
                (0..2).for_each(|i| sum += at(&node.r, (dir * 8 + gate) * 2 + i) * h[i]);
                sum
            };
            let sums: Vec<f64> = (0..8).map(sum).collect();
            for k in 0..HIDDEN {
                let p = |gate: usize| at(&node.peepholes, dir * 6 + gate * 2 + k);
                let clipped = |sum: f64| sum.clamp(-clip, clip);
                let i = sigmoid(clipped(sums[k] + p(0) * c[k]));
                let f = if couples { 1.0 - i } else { sigmoid(clipped(sums[4 + k] + p(2) * c[k])) };
                c[k] = f * c[k] + i * clipped(sums[6 + k]).tanh();
                h[k] = sigmoid(clipped(sums[2 + k] + p(1) * c[k])) * c[k].tanh();
            }
            all.push(h);
        }
        (all, c)
    }

    #[test]
    fn every_direction_matches_the_definition() {
        let node = node();
        for (direction, dirs, couples, clip) in [
            ("forward", 1, 0, None),
            ("reverse", 1, 1, None),
            ("forward", 1, 0, Some(0.2)),
            ("bidirectional", 2, 1, Some(0.3)),
        ] {
            let run = bench("LSTM").int("input_forget", couples);
            let run = clip.map_or(run.clone(), |clip| run.float("clip", clip));
            let y = run
                .input(tensor(&[STEPS, BATCH, WIDTH], &node.x))
                .input(tensor(&[dirs, 8, WIDTH], &node.w[..dirs * 24]))
                .input(tensor(&[dirs, 8, HIDDEN], &node.r[..dirs * 16]))
                .input(tensor(&[dirs, 16], &node.bias[..dirs * 16]))
                .input(tensor(&[BATCH], &[4i32, 3]))
                .absent()
                .absent()
                .input(tensor(&[dirs, 6], &node.peepholes[..dirs * 6]))
                .text("direction", direction)
                .int("hidden_size", 2)
                .outputs(3)
                .all();
            let mut expected = vec![0.0; STEPS * dirs * BATCH * HIDDEN];
            let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
            for (dir, row) in (0..dirs).flat_map(|d| (0..BATCH).map(move |b| (d, b))) {
                let mut order: Vec<usize> = (0..[4, 3][row]).collect();
                if direction == "reverse" || dir == 1 {
                    order.reverse();
                }
                let (all, c) =
                    naive(&node, [dir, row], &order, (couples == 1, clip.unwrap_or(1e9)));
                for (&step, h) in order.iter().zip(&all) {
                    let at = ((step * dirs + dir) * BATCH + row) * HIDDEN;
                    expected[at..at + 2].copy_from_slice(h);
                }
                last_h.extend(all[all.len() - 1]);
                last_c.extend(c);
            }
            assert_near(&y[0].values::<f32>(), &expected, 1e-5);
            assert_near(&y[1].values::<f32>(), &last_h, 1e-5);
            assert_near(&y[2].values::<f32>(), &last_c, 1e-5);
        }
    }
}
