//! Convolution over one to three spatial axes, with groups, strides, dilations and padding.

use udo_api::{Error, Node, Param, TensorDesc};

use crate::Def;
use crate::family::conv::{Conv, FloatConv, PARAMS, float_conv};

pub(crate) const DEF: Def = float_conv::<Convolution>();

struct Convolution;

impl FloatConv for Convolution {
    const NAME: &'static str = "Conv";
    const PARAMS: &'static [Param] = PARAMS;

    fn read(node: &Node<'_>, x: &TensorDesc, w: &TensorDesc) -> Result<Conv, Error> {
        Conv::read(node, x, w)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Bf16, F16};

    use crate::family::elementwise::Stored;
    use crate::family::numerics::{assert_quantized, of_kernels, on_gpu_too};
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    #[derive(Clone, Copy)]
    struct Case {
        channels: usize,
        outputs: usize,
        groups: usize,
        kernel: [usize; 2],
        stride: usize,
        dilation: usize,
        pads: [usize; 4],
    }

    const PLAIN: Case = Case {
        channels: 3,
        outputs: 5,
        groups: 1,
        kernel: [3, 2],
        stride: 1,
        dilation: 1,
        pads: [0; 4],
    };

    const SIZE: [usize; 2] = [7, 9];

    fn naive(
        case: Case,
        x: &[f32],
        w: &[f32],
        bias: &[f32],
        [height, width]: [usize; 2],
    ) -> Vec<f64> {
        let Case { channels, outputs, groups, kernel: [kh, kw], stride, dilation, pads } = case;
        let (inputs, per_group) = (channels / groups, outputs / groups);
        let mut y = Vec::new();
        for i in 0..2 * outputs * height * width {
            let (n, o) = (i / (outputs * height * width), i / (height * width) % outputs);
            let (r, c) = (i / width % height, i % width);
            let mut sum = f64::from(bias[o]);
            for k in 0..inputs * kh * kw {
                let (ic, p, q) = (k / (kh * kw), k / kw % kh, k % kw);
                let row = (r * stride + p * dilation).wrapping_sub(pads[0]);
                let col = (c * stride + q * dilation).wrapping_sub(pads[1]);
                if row < SIZE[0] && col < SIZE[1] {
                    let plane = n * channels + o / per_group * inputs + ic;
                    let x = x[(plane * SIZE[0] + row) * SIZE[1] + col];
                    sum += f64::from(x) * f64::from(w[o * inputs * kh * kw + k]);
                }
            }
            y.push(sum);
        }
        y
    }

    #[test]
    fn sums_match_the_definition() {
        let cases = [
            PLAIN,
            Case { pads: [1, 0, 1, 1], ..PLAIN },
            Case { stride: 2, pads: [1, 1, 1, 1], ..PLAIN },
            Case { dilation: 2, pads: [2, 2, 2, 2], ..PLAIN },
            Case { channels: 4, outputs: 6, groups: 2, ..PLAIN },
            Case { channels: 4, outputs: 4, groups: 4, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { kernel: [1, 1], outputs: 9, ..PLAIN },
            Case { channels: 20, outputs: 40, groups: 20, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 33, outputs: 17, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 48, outputs: 64, kernel: [3, 3], pads: [1, 0, 2, 1], ..PLAIN },
        ];
        for (number, case) in cases.into_iter().enumerate() {
            let Case { channels, outputs, groups, kernel: [kh, kw], stride, dilation, pads } = case;
            let x = noise(2 * channels * SIZE[0] * SIZE[1]);
            let w = noise(outputs * channels / groups * kh * kw);
            let bias = noise(outputs);
            for (constant, threads) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
                let weights = tensor(&[outputs, channels / groups, kh, kw], &w);
                let run = bench("Conv")
                    .threads(threads)
                    .input(tensor(&[2, channels, SIZE[0], SIZE[1]], &x));
                let run = if constant { run.constant(weights) } else { run.input(weights) };
                let run = run
                    .input(tensor(&[outputs], &bias))
                    .int("group", groups as i64)
                    .ints("strides", &[stride as i64; 2])
                    .ints("dilations", &[dilation as i64; 2])
                    .ints("pads", &pads.map(|p| p as i64));
                let y = on_gpu_too(&run, 1e-4);
                let out = [y.dims()[2], y.dims()[3]];
                let height = (SIZE[0] + pads[0] + pads[2] - (kh - 1) * dilation - 1) / stride + 1;
                assert_eq!(out[0], height, "case {number}");
                // Winograd convolution, which is chosen for many channels, has a few times the rounding error.
                let tolerance = if channels > 32 { 1e-4 } else { 1e-5 };
                assert_near(&y.values::<f32>(), &naive(case, &x, &w, &bias, out), tolerance);
            }
        }
    }

    #[test]
    fn automatic_padding_keeps_the_extent() {
        let x = tensor(&[1, 1, 4], &[1f32, 2.0, 3.0, 4.0]);
        let w = tensor(&[1, 1, 2], &[1f32, 10.0]);
        let cases: [(&str, &[f32]); 3] = [
            ("SAME_UPPER", &[21.0, 32.0, 43.0, 4.0]),
            ("SAME_LOWER", &[10.0, 21.0, 32.0, 43.0]),
            ("VALID", &[21.0, 32.0, 43.0]),
        ];
        for (mode, expected) in cases {
            let run = bench("Conv").input(x.clone()).input(w.clone());
            assert_eq!(
                on_gpu_too(&run.text("auto_pad", mode), 0.0).values::<f32>(),
                expected,
                "{mode}"
            );
        }
    }

    #[test]
    fn volumes_match_the_definition() {
        let x: Vec<f32> = (0..27u8).map(f32::from).collect();
        let run = bench("Conv").input(tensor(&[1, 1, 3, 3, 3], &x));
        let y = run.input(tensor(&[1, 1, 2, 2, 2], &[1f32; 8])).one();
        let expected = [52.0, 60.0, 76.0, 84.0, 124.0, 132.0, 148.0, 156.0];
        assert_near(&y.values::<f32>(), &expected, 1e-6);
    }

    #[test]
    fn tables_beyond_memory_are_refused() {
        let side = 1 << 20;
        let run = bench("Conv").input(tensor::<f32>(&[0, 1, side, side], &[]));
        let run = run.input(tensor::<f32>(&[0, 1, side / 2, side / 2], &[]));
        assert_eq!(run.error(), "the convolution exceeds the address space");
    }

    #[test]
    fn half_precision_is_computed_in_f32() {
        fn check<T: Stored<f64>>(numbers: [&[f32]; 3], within: f64) {
            let [x, w, bias]: [Vec<T>; 3] =
                numbers.map(|x| x.iter().map(|&x| T::store(x.into())).collect());
            let widen = |x: &Vec<T>| x.iter().map(|x| x.load() as f32).collect::<Vec<_>>();
            let node = |run: Bench| run.int("group", 2).ints("pads", &[1; 4]);
            let run = bench("Conv").input(tensor(&[3, 4, 5, 7], &widen(&x)));
            let run = run.input(tensor(&[44, 2, 3, 3], &widen(&w)));
            let wide = node(run.input(tensor(&[44], &widen(&bias)))).one().values::<f32>();
            let wide: Vec<f64> = wide.into_iter().map(f64::from).collect();
            for threads in [1, 3] {
                let run = bench("Conv").threads(threads).input(tensor(&[3, 4, 5, 7], &x));
                let run = run.input(tensor(&[44, 2, 3, 3], &w));
                let y = node(run.input(tensor(&[44], &bias))).one().values::<T>();
                assert_near(&widen(&y), &wide, within);
            }
        }

        // More planes than parts that threads share.
        let (x, w, bias) = (noise(3 * 4 * 35), noise(44 * 2 * 9), noise(44));
        check::<F16>([&x, &w, &bias], 1e-3);
        check::<Bf16>([&x, &w, &bias], 8e-3);
    }

    #[test]
    fn quantized_outputs_match_quantized_f32_outputs() {
        // More pixels than a strip has; through a table, as a matrix product, by Winograd, with one input channel per
        // filter, and with a depth that is split into blocks.
        let cases = [
            Case { channels: 5, outputs: 40, kernel: [3, 3], stride: 2, pads: [1; 4], ..PLAIN },
            Case { channels: 24, outputs: 70, kernel: [1, 1], ..PLAIN },
            Case { channels: 48, outputs: 64, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 20, outputs: 20, groups: 20, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 900, outputs: 8, kernel: [1, 1], ..PLAIN },
        ];
        for Case { channels, outputs, groups, kernel: [kh, kw], pads, stride, .. } in cases {
            let side = if channels > 500 { 20 } else { 40 };
            let x = tensor(&[2, channels, side, side], &noise(2 * channels * side * side));
            let dims = [outputs, channels / groups, kh, kw];
            let w = tensor(&dims, &noise(dims.iter().product()));
            for threads in [1, 3] {
                let run = bench("Conv").threads(threads).input(x.clone()).constant(w.clone());
                let run = run.int("group", groups as i64).ints("pads", &pads.map(|p| p as i64));
                let run = run.ints("strides", &[stride as i64; 2]);
                let run = run.constant(tensor(&[outputs], &noise(outputs)));
                assert_quantized(&run, of_kernels(&run).len() - 1);
            }
        }
        let x = tensor(&[2, 5, 20, 20], &noise(4000));
        let w = tensor(&[5, 7, 3, 3], &noise(315));
        let run = bench("ConvTranspose").threads(3).input(x).constant(w).ints("strides", &[2; 2]);
        assert_quantized(&run, of_kernels(&run).len() - 1);
    }

    #[test]
    fn fused_epilogues_match_consumer_nodes() {
        let cases = [
            Case { channels: 33, outputs: 17, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 48, outputs: 64, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 20, outputs: 40, groups: 20, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 4, outputs: 6, groups: 2, pads: [1, 0, 1, 1], ..PLAIN },
            Case { kernel: [1, 1], outputs: 9, ..PLAIN },
        ];
        for (number, case) in cases.into_iter().enumerate() {
            let Case { channels, outputs, groups, kernel: [kh, kw], pads, .. } = case;
            let x = tensor(&[2, channels, 7, 9], &noise(2 * channels * 63));
            let dims = [outputs, channels / groups, kh, kw];
            let w = tensor(&dims, &noise(dims.iter().product()));
            let plain = || {
                let run = bench("Conv").threads(3).input(x.clone()).constant(w.clone());
                run.int("group", groups as i64).ints("pads", &pads.map(|p| p as i64))
            };
            let before = plain().run().unwrap();
            let sums = before[0].outputs[0].clone();
            let dims = sums.dims();
            let (bias, residual) = (noise(outputs), noise(sums.values::<f32>().len()));
            let run = plain().then_bias(1, tensor(&[outputs], &bias));
            let run = run.then_residual(tensor(&dims, &residual));
            let run = run.then_activation(udo_api::Activation::Clip(-0.5, 0.75));
            let after = run.run().unwrap();
            assert_eq!(before.len(), after.len(), "case {number}");
            let image = dims[2] * dims[3];
            for (before, after) in before.iter().zip(&after) {
                let steps = after.epilogue_steps;
                let finish = |(i, sum): (usize, f32)| {
                    let sum = if steps > 0 { sum + bias[i / image % outputs] } else { sum };
                    let sum = if steps > 1 { sum + residual[i] } else { sum };
                    if steps > 2 { sum.clamp(-0.5, 0.75) } else { sum }
                };
                let sums = before.outputs[0].values::<f32>().into_iter().enumerate();
                let expected: Vec<f64> = sums.map(finish).map(f64::from).collect();
                // The fused kernel adds biases and residuals in another order.
                assert_near(&after.outputs[0].values::<f32>(), &expected, 1e-5);
            }
            let cut = plain().then_activation(udo_api::Activation::Clip(-0.5, 0.75));
            for (before, after) in before.iter().zip(cut.run().unwrap()) {
                let sums = before.outputs[0].values::<f32>().into_iter();
                let expected: Vec<f32> = sums.map(|sum| sum.clamp(-0.5, 0.75)).collect();
                assert_eq!(after.outputs[0].values::<f32>(), expected, "case {number}");
            }
            // All cases but the one with channels on the second axis.
            assert_quantized(&plain(), before.len() - 1);
            let most = after.iter().map(|after| after.epilogue_steps).max();
            let is_depthwise = groups == channels;
            assert_eq!(most, Some(if is_depthwise { 1 } else { 3 }), "case {number}");
        }
    }
}
