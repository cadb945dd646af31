//! Long short-term memory with quantized weights; each run quantizes inputs and states to the range of their values.

use crate::Def;
use crate::family::recurrent::recurrent;
use crate::ops::lstm::Lstm;

// `true` selects quantized weights.
pub(crate) const DEF: Def = recurrent::<Lstm<true>>();

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    const STEPS: usize = 3;
    const BATCH: usize = 2;
    const WIDTH: usize = 3;
    const HIDDEN: usize = 2;
    /// Input and state sums per step: four gates.
    const SUMS: usize = 4 * HIDDEN;

    /// Quantizes values to their range, and dequantizes them.
    fn quantize_and_dequantize(x: &[f32]) -> Vec<f64> {
        let (low, high) = x.iter().fold((0f32, 0f32), |(low, high), &x| (low.min(x), high.max(x)));
        let scale = if low < high { (high - low) / 255.0 } else { 1.0 };
        let zero = (-low / scale).round_ties_even();
        let quantized = |x: f32| ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0);
        x.iter().map(|&x| f64::from(quantized(x) - zero) * f64::from(scale)).collect()
    }

    struct Weights {
        values: Vec<u8>,
        scales: Vec<f32>,
        zeros: Vec<u8>,
    }

    impl Weights {
        fn new(depth: usize, per_column: bool) -> Self {
            let count = if per_column { 2 * SUMS } else { 2 };
            Self {
                values: (0..2 * depth * SUMS).map(|i| (i * 67 % 256) as u8).collect(),
                scales: (0..count).map(|i| 0.004 + 0.001 * i as f32).collect(),
                zeros: (0..count).map(|i| (120 + i) as u8).collect(),
            }
        }

        /// Dequantizes a weight; the u8 representation and the one shifted by 128 give the same value.
        fn dequantized(&self, direction: usize, depth: usize, row: usize, column: usize) -> f64 {
            let scales_per_direction = self.scales.len() / 2;
            let index = direction * scales_per_direction
                + if scales_per_direction > 1 { column } else { 0 };
            let value = i32::from(self.values[(direction * depth + row) * SUMS + column]);
            f64::from(value - i32::from(self.zeros[index])) * f64::from(self.scales[index])
        }

        /// Adds the weights as the next input.
        fn add_values(
            &self,
            run: Bench,
            depth: usize,
            is_signed: bool,
            is_constant: bool,
        ) -> Bench {
            let dims = [2, depth, SUMS];
            let values = if is_signed {
                let values: Vec<i8> = self.values.iter().map(|value| (value ^ 128) as i8).collect();
                tensor(&dims, &values)
            } else {
                tensor(&dims, &self.values)
            };
            if is_constant { run.constant(values) } else { run.input(values) }
        }

        /// Adds the scales and zero points as the next inputs.
        fn add_encoding(&self, run: Bench, is_signed: bool) -> Bench {
            let dims = if self.scales.len() > 2 { vec![2, SUMS] } else { vec![2] };
            let run = run.input(tensor(&dims, &self.scales));
            let zeros: Vec<i8> = self.zeros.iter().map(|zero| (zero ^ 128) as i8).collect();
            let zeros = if is_signed { tensor(&dims, &zeros) } else { tensor(&dims, &self.zeros) };
            run.input(zeros)
        }
    }

    /// Computes output `Y`, of shape `[STEPS, 2, BATCH, HIDDEN]`.
    fn reference(x: &[f32], bias: &[f32], w: &Weights, r: &Weights) -> Vec<f64> {
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let x = quantize_and_dequantize(x);
        let mut y = vec![0.0; STEPS * 2 * BATCH * HIDDEN];
        for direction in 0..2 {
            let (mut hidden, mut cell) = ([0f32; BATCH * HIDDEN], [0f64; BATCH * HIDDEN]);
            for iteration in 0..STEPS {
                let step = if direction == 0 { iteration } else { STEPS - 1 - iteration };
                let state = quantize_and_dequantize(&hidden);
                for row in 0..BATCH {
                    let sum = |k: usize| {
                        let bias = &bias[direction * 2 * SUMS..];
                        let mut sum = f64::from(bias[k]) + f64::from(bias[SUMS + k]);
                        for j in 0..WIDTH {
                            sum += x[(step * BATCH + row) * WIDTH + j]
                                * w.dequantized(direction, WIDTH, j, k);
                        }
                        for j in 0..HIDDEN {
                            sum += state[row * HIDDEN + j] * r.dequantized(direction, HIDDEN, j, k);
                        }
                        sum
                    };
                    for k in 0..HIDDEN {
                        let index = row * HIDDEN + k;
                        // ONNX orders the gates as input, output, forget and cell.
                        let (input, output) = (sigmoid(sum(k)), sigmoid(sum(HIDDEN + k)));
                        let forget = sigmoid(sum(2 * HIDDEN + k));
                        cell[index] = forget * cell[index] + input * sum(3 * HIDDEN + k).tanh();
                        hidden[index] = (output * cell[index].tanh()) as f32;
                        y[((step * 2 + direction) * BATCH + row) * HIDDEN + k] =
                            f64::from(hidden[index]);
                    }
                }
            }
        }
        y
    }

    fn node(
        x: &[f32],
        bias: &[f32],
        [w, r]: [&Weights; 2],
        is_signed: bool,
        is_constant: bool,
    ) -> Bench {
        let run = bench("com.microsoft:DynamicQuantizeLSTM").threads(2);
        let run = run.input(tensor(&[STEPS, BATCH, WIDTH], x));
        let run = w.add_values(run, WIDTH, is_signed, is_constant);
        let run = r.add_values(run, HIDDEN, is_signed, is_constant);
        let run = run.input(tensor(&[2, 2 * SUMS], bias)).absent().absent().absent().absent();
        let run = r.add_encoding(w.add_encoding(run, is_signed), is_signed);
        run.text("direction", "bidirectional").int("hidden_size", HIDDEN as i64).outputs(3)
    }

    #[test]
    fn outputs_match_the_definition_on_quantized_inputs_and_states() {
        let values = noise(STEPS * BATCH * WIDTH + 4 * SUMS);
        let (x, bias) = values.split_at(STEPS * BATCH * WIDTH);
        for per_column in [false, true] {
            let (w, r) = (Weights::new(WIDTH, per_column), Weights::new(HIDDEN, per_column));
            let expected = reference(x, bias, &w, &r);
            for (is_signed, is_constant) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let y = node(x, bias, [&w, &r], is_signed, is_constant).all();
                assert_near(&y[0].values::<f32>(), &expected, 1e-5);
                assert_eq!(y[1].dims(), [2, BATCH, HIDDEN]);
            }
        }
    }

    #[test]
    fn invalid_scales_and_zero_points_are_refused() {
        let values = noise(STEPS * BATCH * WIDTH + 4 * SUMS);
        let (x, bias) = values.split_at(STEPS * BATCH * WIDTH);
        let (w, r) = (Weights::new(WIDTH, true), Weights::new(HIDDEN, false));
        let run = bench("com.microsoft:DynamicQuantizeLSTM");
        let run = w.add_values(run.input(tensor(&[STEPS, BATCH, WIDTH], x)), WIDTH, false, true);
        let run = r.add_values(run, HIDDEN, false, true).input(tensor(&[2, 2 * SUMS], bias));
        let run = run.absent().absent().absent().absent().text("direction", "bidirectional");
        let run = run.outputs(3);
        let run_with_r = w.add_encoding(run.clone(), false).input(tensor(&[3], &[1f32; 3]));
        let error = run_with_r.input(tensor(&[3], &[0u8; 3])).error();
        assert_eq!(error, "input 10 is f32[3], expected [2] or [2,8]");
        let run_with_r = w.add_encoding(run, false).input(tensor(&[2], &[1f32; 2]));
        let error = run_with_r.input(tensor(&[2], &[0i8; 2])).error();
        assert_eq!(
            error,
            "input 11 is i8[2], expected the type of u8[2,2,8] and the shape of f32[2]"
        );
    }
}
