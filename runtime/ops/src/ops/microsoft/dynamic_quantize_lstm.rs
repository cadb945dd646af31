//! Long short-term memory with quantized weights; inputs and states are quantized in the run, each by its own range.

use crate::Def;
use crate::family::recurrent::recurrent;
use crate::ops::lstm::Lstm;

pub(crate) const DEF: Def = recurrent::<Lstm<true>>();

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    const STEPS: usize = 3;
    const BATCH: usize = 2;
    const WIDTH: usize = 3;
    const HIDDEN: usize = 2;
    const SUMS: usize = 4 * HIDDEN;

    /// Quantizes values by their own range, and dequantizes them.
    fn rounded(x: &[f32]) -> Vec<f64> {
        let (low, high) = x.iter().fold((0f32, 0f32), |(low, high), &x| (low.min(x), high.max(x)));
        let scale = if low < high { (high - low) / 255.0 } else { 1.0 };
        let zero = (-low / scale).round_ties_even();
        let value = |x: f32| ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0);
        x.iter().map(|&x| f64::from(value(x) - zero) * f64::from(scale)).collect()
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
        fn number(&self, dir: usize, depth: usize, row: usize, column: usize) -> f64 {
            let each = self.scales.len() / 2;
            let at = dir * each + if each > 1 { column } else { 0 };
            let value = i32::from(self.values[(dir * depth + row) * SUMS + column]);
            f64::from(value - i32::from(self.zeros[at])) * f64::from(self.scales[at])
        }

        fn values(&self, run: Bench, depth: usize, signed: bool, constant: bool) -> Bench {
            let dims = [2, depth, SUMS];
            let lower = |values: &[u8]| values.iter().map(|v| (v ^ 128) as i8).collect::<Vec<_>>();
            let values = if signed {
                tensor(&dims, &lower(&self.values))
            } else {
                tensor(&dims, &self.values)
            };
            if constant { run.constant(values) } else { run.input(values) }
        }

        fn numbers(&self, run: Bench, signed: bool) -> Bench {
            let dims = if self.scales.len() > 2 { vec![2, SUMS] } else { vec![2] };
            let run = run.input(tensor(&dims, &self.scales));
            let zeros: Vec<i8> = self.zeros.iter().map(|zero| (zero ^ 128) as i8).collect();
            let is = if signed { tensor(&dims, &zeros) } else { tensor(&dims, &self.zeros) };
            run.input(is)
        }
    }

    /// Outputs `[STEPS, 2, BATCH, HIDDEN]`.
    fn naive(x: &[f32], bias: &[f32], w: &Weights, r: &Weights) -> Vec<f64> {
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let x = rounded(x);
        let mut y = vec![0.0; STEPS * 2 * BATCH * HIDDEN];
        for dir in 0..2 {
            let (mut h, mut c) = ([0f32; BATCH * HIDDEN], [0f64; BATCH * HIDDEN]);
            for i in 0..STEPS {
                let step = if dir == 0 { i } else { STEPS - 1 - i };
                let seen = rounded(&h);
                for row in 0..BATCH {
                    let sum = |k: usize| {
                        let bias = &bias[dir * 2 * SUMS..];
                        let mut sum = f64::from(bias[k]) + f64::from(bias[SUMS + k]);
                        for j in 0..WIDTH {
                            sum += x[(step * BATCH + row) * WIDTH + j] * w.number(dir, WIDTH, j, k);
                        }
                        for j in 0..HIDDEN {
                            sum += seen[row * HIDDEN + j] * r.number(dir, HIDDEN, j, k);
                        }
                        sum
                    };
                    for k in 0..HIDDEN {
                        let at = row * HIDDEN + k;
                        let (i, o) = (sigmoid(sum(k)), sigmoid(sum(HIDDEN + k)));
                        let (f, g) = (sigmoid(sum(2 * HIDDEN + k)), sum(3 * HIDDEN + k).tanh());
                        c[at] = f * c[at] + i * g;
                        h[at] = (o * c[at].tanh()) as f32;
                        y[((step * 2 + dir) * BATCH + row) * HIDDEN + k] = f64::from(h[at]);
                    }
                }
            }
        }
        y
    }

    fn node(x: &[f32], bias: &[f32], [w, r]: [&Weights; 2], signed: bool, constant: bool) -> Bench {
        let run = bench("com.microsoft:DynamicQuantizeLSTM").threads(2);
        let run = run.input(tensor(&[STEPS, BATCH, WIDTH], x));
        let run = w.values(run, WIDTH, signed, constant);
        let run = r.values(run, HIDDEN, signed, constant);
        let run = run.input(tensor(&[2, 2 * SUMS], bias)).absent().absent().absent().absent();
        let run = r.numbers(w.numbers(run, signed), signed);
        run.text("direction", "bidirectional").int("hidden_size", HIDDEN as i64).outputs(3)
    }

    #[test]
    fn sums_match_rounded_values() {
        let all = noise(STEPS * BATCH * WIDTH + 4 * SUMS);
        let (x, bias) = all.split_at(STEPS * BATCH * WIDTH);
        for per_column in [false, true] {
            let (w, r) = (Weights::new(WIDTH, per_column), Weights::new(HIDDEN, per_column));
            let expected = naive(x, bias, &w, &r);
            for (signed, constant) in [(false, false), (false, true), (true, false), (true, true)] {
                let y = node(x, bias, [&w, &r], signed, constant).all();
                assert_near(&y[0].values::<f32>(), &expected, 1e-5);
                assert_eq!(y[1].dims(), [2, BATCH, HIDDEN]);
            }
        }
    }

    #[test]
    fn invalid_scales_and_zero_points_are_refused() {
        let all = noise(STEPS * BATCH * WIDTH + 4 * SUMS);
        let (x, bias) = all.split_at(STEPS * BATCH * WIDTH);
        let (w, r) = (Weights::new(WIDTH, true), Weights::new(HIDDEN, false));
        let run = bench("com.microsoft:DynamicQuantizeLSTM");
        let run = w.values(run.input(tensor(&[STEPS, BATCH, WIDTH], x)), WIDTH, false, true);
        let run = r.values(run, HIDDEN, false, true).input(tensor(&[2, 2 * SUMS], bias));
        let run = run.absent().absent().absent().absent().text("direction", "bidirectional");
        let run = run.outputs(3);
        let error = w.numbers(run.clone(), false).input(tensor(&[3], &[1f32; 3]));
        let error = error.input(tensor(&[3], &[0u8; 3])).error();
        assert_eq!(error, "input 10 is f32[3], expected [2] or [2,8]");
        let error = w.numbers(run, false).input(tensor(&[2], &[1f32; 2]));
        let error = error.input(tensor(&[2], &[0i8; 2])).error();
        assert_eq!(
            error,
            "input 11 is i8[2], expected the type of u8[2,2,8] and the shape of f32[2]"
        );
    }
}
