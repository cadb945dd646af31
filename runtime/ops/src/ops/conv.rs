//! Convolution over one to three spatial axes, with groups, strides, dilations and padding.
//!
//! `float_conv` builds the operator from `read`, which reads the parameters and the extents of the node.

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
        filters: usize,
        groups: usize,
        kernel: [usize; 2],
        stride: usize,
        dilation: usize,
        pads: [usize; 4],
    }

    const PLAIN: Case = Case {
        channels: 3,
        filters: 5,
        groups: 1,
        kernel: [3, 2],
        stride: 1,
        dilation: 1,
        pads: [0; 4],
    };

    /// Height and width of images.
    const SIZE: [usize; 2] = [7, 9];

    /// Computes the output, of `height` by `width` pixels, by the definition.
    fn reference(
        case: Case,
        x: &[f32],
        w: &[f32],
        bias: &[f32],
        [height, width]: [usize; 2],
    ) -> Vec<f64> {
        let Case { channels, filters, groups, kernel, stride, dilation, pads } = case;
        let [kernel_height, kernel_width] = kernel;
        let (group_channels, group_filters) = (channels / groups, filters / groups);
        let taps = kernel_height * kernel_width;
        let mut y = Vec::new();
        for index in 0..2 * filters * height * width {
            let (image, filter) =
                (index / (filters * height * width), index / (height * width) % filters);
            let (y_row, y_col) = (index / width % height, index % width);
            let mut sum = f64::from(bias[filter]);
            for term in 0..group_channels * taps {
                let (channel, row_tap, col_tap) =
                    (term / taps, term / kernel_width % kernel_height, term % kernel_width);
                let row = (y_row * stride + row_tap * dilation).wrapping_sub(pads[0]);
                let col = (y_col * stride + col_tap * dilation).wrapping_sub(pads[1]);
                if row < SIZE[0] && col < SIZE[1] {
                    let first_channel = filter / group_filters * group_channels;
                    let plane = image * channels + first_channel + channel;
                    let x = x[(plane * SIZE[0] + row) * SIZE[1] + col];
                    sum += f64::from(x) * f64::from(w[filter * group_channels * taps + term]);
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
            Case { channels: 4, filters: 6, groups: 2, ..PLAIN },
            Case { channels: 4, filters: 4, groups: 4, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { kernel: [1, 1], filters: 9, ..PLAIN },
            Case { channels: 20, filters: 40, groups: 20, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 33, filters: 17, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 48, filters: 64, kernel: [3, 3], pads: [1, 0, 2, 1], ..PLAIN },
        ];
        for (number, case) in cases.into_iter().enumerate() {
            let Case { channels, filters, groups, kernel: [kh, kw], stride, dilation, pads } = case;
            let x = noise(2 * channels * SIZE[0] * SIZE[1]);
            let w = noise(filters * channels / groups * kh * kw);
            let bias = noise(filters);
            for (has_constant_weights, threads) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
                let weights = tensor(&[filters, channels / groups, kh, kw], &w);
                let run = bench("Conv")
                    .threads(threads)
                    .input(tensor(&[2, channels, SIZE[0], SIZE[1]], &x));
                let run =
                    if has_constant_weights { run.constant(weights) } else { run.input(weights) };
                let run = run
                    .input(tensor(&[filters], &bias))
                    .int("group", groups as i64)
                    .ints("strides", &[stride as i64; 2])
                    .ints("dilations", &[dilation as i64; 2])
                    .ints("pads", &pads.map(|pad| pad as i64));
                let y = on_gpu_too(&run, 1e-4);
                let y_size = [y.dims()[2], y.dims()[3]];
                let height = (SIZE[0] + pads[0] + pads[2] - (kh - 1) * dilation - 1) / stride + 1;
                assert_eq!(y_size[0], height, "case {number}");
                // Winograd convolution, which is chosen for many channels, has a few times the rounding error.
                let tolerance = if channels > 32 { 1e-4 } else { 1e-5 };
                assert_near(&y.values::<f32>(), &reference(case, &x, &w, &bias, y_size), tolerance);
            }
        }
    }

    #[test]
    fn automatic_padding_keeps_the_extent_unless_it_is_valid() {
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
    fn convolutions_beyond_the_address_space_are_refused() {
        let side = 1 << 20;
        let run = bench("Conv").input(tensor::<f32>(&[0, 1, side, side], &[]));
        let run = run.input(tensor::<f32>(&[0, 1, side / 2, side / 2], &[]));
        assert_eq!(run.error(), "the convolution exceeds the address space");
    }

    #[test]
    fn half_precision_matches_f32() {
        fn check<T: Stored<f64>>(values: [&[f32]; 3], tolerance: f64) {
            let [x, w, bias]: [Vec<T>; 3] =
                values.map(|x| x.iter().map(|&x| T::store(x.into())).collect());
            let widen = |x: &Vec<T>| x.iter().map(|x| x.load() as f32).collect::<Vec<_>>();
            let with_params = |run: Bench| run.int("group", 2).ints("pads", &[1; 4]);
            let run = bench("Conv").input(tensor(&[3, 4, 5, 7], &widen(&x)));
            let run = run.input(tensor(&[44, 2, 3, 3], &widen(&w)));
            let expected =
                with_params(run.input(tensor(&[44], &widen(&bias)))).one().values::<f32>();
            let expected: Vec<f64> = expected.into_iter().map(f64::from).collect();
            for threads in [1, 3] {
                let run = bench("Conv").threads(threads).input(tensor(&[3, 4, 5, 7], &x));
                let run = run.input(tensor(&[44, 2, 3, 3], &w));
                let y = with_params(run.input(tensor(&[44], &bias))).one().values::<T>();
                assert_near(&widen(&y), &expected, tolerance);
            }
        }

        // More planes than the work is divided into.
        let (x, w, bias) = (noise(3 * 4 * 35), noise(44 * 2 * 9), noise(44));
        check::<F16>([&x, &w, &bias], 1e-3);
        check::<Bf16>([&x, &w, &bias], 8e-3);
    }

    #[test]
    fn quantized_outputs_match_quantized_f32_outputs() {
        // In this order: through a table of positions, as a matrix product, by Winograd, with one input channel per
        // filter, and with so many channels that sums are computed block by block. Images have more pixels than a
        // kernel computes at once.
        let cases = [
            Case { channels: 5, filters: 40, kernel: [3, 3], stride: 2, pads: [1; 4], ..PLAIN },
            Case { channels: 24, filters: 70, kernel: [1, 1], ..PLAIN },
            Case { channels: 48, filters: 64, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 20, filters: 20, groups: 20, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 900, filters: 8, kernel: [1, 1], ..PLAIN },
        ];
        for Case { channels, filters, groups, kernel: [kh, kw], pads, stride, .. } in cases {
            let side = if channels > 500 { 20 } else { 40 };
            let x = tensor(&[2, channels, side, side], &noise(2 * channels * side * side));
            let dims = [filters, channels / groups, kh, kw];
            let w = tensor(&dims, &noise(dims.iter().product()));
            for threads in [1, 3] {
                let run = bench("Conv").threads(threads).input(x.clone()).constant(w.clone());
                let run = run.int("group", groups as i64).ints("pads", &pads.map(|pad| pad as i64));
                let run = run.ints("strides", &[stride as i64; 2]);
                let run = run.constant(tensor(&[filters], &noise(filters)));
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
            Case { channels: 33, filters: 17, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 48, filters: 64, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 20, filters: 40, groups: 20, kernel: [3, 3], pads: [1; 4], ..PLAIN },
            Case { channels: 4, filters: 6, groups: 2, pads: [1, 0, 1, 1], ..PLAIN },
            Case { kernel: [1, 1], filters: 9, ..PLAIN },
        ];
        for (number, case) in cases.into_iter().enumerate() {
            let Case { channels, filters, groups, kernel: [kh, kw], pads, .. } = case;
            let x = tensor(&[2, channels, 7, 9], &noise(2 * channels * 63));
            let dims = [filters, channels / groups, kh, kw];
            let w = tensor(&dims, &noise(dims.iter().product()));
            // Every kernel runs with the convolution, and with the nodes after it.
            let plain = || {
                let run = bench("Conv").threads(3).input(x.clone()).constant(w.clone());
                run.int("group", groups as i64).ints("pads", &pads.map(|pad| pad as i64))
            };
            let unfused_runs = plain().run().unwrap();
            let sums = unfused_runs[0].outputs[0].clone();
            let dims = sums.dims();
            let (bias, residual) = (noise(filters), noise(sums.values::<f32>().len()));
            let run = plain().then_bias(1, tensor(&[filters], &bias));
            let run = run.then_residual(tensor(&dims, &residual));
            let run = run.then_activation(udo_api::Activation::Clip(-0.5, 0.75));
            let fused_runs = run.run().unwrap();
            assert_eq!(unfused_runs.len(), fused_runs.len(), "case {number}");
            let image_len = dims[2] * dims[3];
            for (unfused, fused) in unfused_runs.iter().zip(&fused_runs) {
                let steps = fused.epilogue_steps;
                let finish = |(index, sum): (usize, f32)| {
                    let sum = if steps > 0 { sum + bias[index / image_len % filters] } else { sum };
                    let sum = if steps > 1 { sum + residual[index] } else { sum };
                    if steps > 2 { sum.clamp(-0.5, 0.75) } else { sum }
                };
                let sums = unfused.outputs[0].values::<f32>().into_iter().enumerate();
                let expected: Vec<f64> = sums.map(finish).map(f64::from).collect();
                // The fused kernel adds biases and residuals in another order.
                assert_near(&fused.outputs[0].values::<f32>(), &expected, 1e-5);
            }
            let clipped = plain().then_activation(udo_api::Activation::Clip(-0.5, 0.75));
            for (unfused, fused) in unfused_runs.iter().zip(clipped.run().unwrap()) {
                let sums = unfused.outputs[0].values::<f32>().into_iter();
                let expected: Vec<f32> = sums.map(|sum| sum.clamp(-0.5, 0.75)).collect();
                assert_eq!(fused.outputs[0].values::<f32>(), expected, "case {number}");
            }
            // All kernels but the one for channels on the second axis.
            assert_quantized(&plain(), unfused_runs.len() - 1);
            let most_steps = fused_runs.iter().map(|fused| fused.epilogue_steps).max();
            let is_depthwise = groups == channels;
            assert_eq!(most_steps, Some(if is_depthwise { 1 } else { 3 }), "case {number}");
        }
    }
}
