//! Transposed convolution over one to three spatial axes: the gradient of a convolution with respect to its input.
//!
//! `float_conv` builds the operator from `read`, which reads the parameters and the extents of the node.

use udo_api::{Error, Node, Param, TensorDesc};

use crate::Def;
use crate::family::conv::{Conv, FloatConv, TRANSPOSED_PARAMS, float_conv};

pub(crate) const DEF: Def = float_conv::<ConvTranspose>();

struct ConvTranspose;

impl FloatConv for ConvTranspose {
    const NAME: &'static str = "ConvTranspose";
    const PARAMS: &'static [Param] = TRANSPOSED_PARAMS;

    fn read(node: &Node<'_>, x: &TensorDesc, w: &TensorDesc) -> Result<Conv, Error> {
        Conv::read_transposed(node, x, w)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::{Activation, F16};

    use crate::family::numerics::on_gpu_too;
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    #[derive(Clone, Copy, Debug)]
    struct Case {
        channels: usize,
        filters: usize,
        groups: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        pads: [usize; 2],
        /// Extra extent of the output, `output_padding`.
        output_padding: usize,
    }

    const PLAIN: Case = Case {
        channels: 4,
        filters: 6,
        groups: 1,
        kernel: 3,
        stride: 2,
        dilation: 1,
        pads: [0; 2],
        output_padding: 0,
    };

    const CASES: [Case; 7] = [
        PLAIN,
        Case { pads: [1, 1], output_padding: 1, ..PLAIN },
        Case { groups: 2, stride: 3, ..PLAIN },
        Case { groups: 4, filters: 4, kernel: 4, pads: [1, 1], ..PLAIN },
        Case { kernel: 2, dilation: 2, stride: 1, pads: [2, 0], ..PLAIN },
        Case { channels: 35, filters: 19, kernel: 2, ..PLAIN },
        Case { kernel: 1, stride: 3, output_padding: 2, ..PLAIN },
    ];

    /// Adds the parameters of a case, the same for each axis.
    fn with_params(case: Case, axes: usize, run: Bench) -> Bench {
        let Case { groups, stride, dilation, pads: [begin, end], output_padding, .. } = case;
        let per_axis = |value: usize| vec![value as i64; axes];
        run.int("group", groups as i64)
            .ints("strides", &per_axis(stride))
            .ints("dilations", &per_axis(dilation))
            .ints("pads", &[per_axis(begin), per_axis(end)].concat())
            .ints("output_padding", &per_axis(output_padding))
    }

    /// Computes the reference by scattering each element of two images of `rows` by 5 pixels, or of 5 pixels if `rows`
    /// is 0.
    fn reference(case: Case, rows: usize, [x, w]: [&[f32]; 2]) -> (Vec<f64>, [usize; 2]) {
        let Case { channels, filters, groups, kernel, stride, dilation, pads, output_padding } =
            case;
        let out = |extent: usize| {
            let full = (extent - 1) * stride + (kernel - 1) * dilation + 1;
            full + output_padding - pads[0] - pads[1]
        };
        let (height, width) = (if rows == 0 { 1 } else { out(rows) }, out(5));
        let (x_rows, row_taps) = (rows.max(1), if rows == 0 { 1 } else { kernel });
        let group_filters = filters / groups;
        let mut y = vec![0.0; 2 * filters * height * width];
        let y_position =
            |position: usize, tap: usize| (position * stride + tap * dilation).checked_sub(pads[0]);
        for (index, x) in x.iter().enumerate() {
            let (col, row, plane) = (index % 5, index / 5 % x_rows, index / 5 / x_rows);
            let (image, channel) = (plane / channels, plane % channels);
            let group = channel / (channels / groups);
            let channel_weights = group_filters * row_taps * kernel;
            for weight_index in 0..channel_weights {
                let weight = w[channel * channel_weights + weight_index];
                let filter = weight_index / (row_taps * kernel);
                let (row_tap, col_tap) = (weight_index / kernel % row_taps, weight_index % kernel);
                let y_row = if rows == 0 { Some(0) } else { y_position(row, row_tap) };
                if let (Some(y_row), Some(y_col)) = (y_row, y_position(col, col_tap))
                    && y_row < height
                    && y_col < width
                {
                    let y_plane = image * filters + group * group_filters + filter;
                    y[(y_plane * height + y_row) * width + y_col] += f64::from(x * weight);
                }
            }
        }
        (y, [height, width])
    }

    #[test]
    fn sums_match_the_definition() {
        for (case, rows) in CASES.into_iter().flat_map(|case| [(case, 4), (case, 0)]) {
            let Case { channels, filters, groups, kernel, .. } = case;
            let axes = if rows == 0 { 1 } else { 2 };
            let mut dims = vec![2, channels, 4, 5];
            let mut w_dims = vec![channels, filters / groups, kernel, kernel];
            if rows == 0 {
                dims.remove(2);
                w_dims.pop();
            }
            let x = noise(dims.iter().product());
            let w = noise(w_dims.iter().product());
            let (expected, [height, width]) = reference(case, rows, [&x, &w]);
            for threads in [1, 3] {
                let run = bench("ConvTranspose").threads(threads).input(tensor(&dims, &x));
                for run in
                    [run.clone().input(tensor(&w_dims, &w)), run.constant(tensor(&w_dims, &w))]
                {
                    let y = on_gpu_too(&with_params(case, axes, run), 1e-5);
                    assert_eq!(y.dims().last(), Some(&width), "{case:?}");
                    assert_eq!(y.dims()[2], if rows == 0 { width } else { height });
                    assert_near(&y.values::<f32>(), &expected, 1e-5);
                }
            }
            let to_f64 = |x: &[f32]| x.iter().copied().map(f64::from).collect::<Vec<_>>();
            let run = bench("ConvTranspose").input(tensor(&dims, &to_f64(&x)));
            let y = with_params(case, axes, run.input(tensor(&w_dims, &to_f64(&w)))).one();
            assert_near(&y.values::<f64>(), &expected, 1e-6);
            let to_f16 = |x: &[f32]| x.iter().copied().map(F16::from_f32).collect::<Vec<_>>();
            let run = bench("ConvTranspose").threads(3).input(tensor(&dims, &to_f16(&x)));
            let y = with_params(case, axes, run.input(tensor(&w_dims, &to_f16(&w)))).one();
            let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
            assert_near(&y, &expected, 4e-3);
        }
    }

    #[test]
    fn three_axes_and_a_bias_are_supported() {
        let run = bench("ConvTranspose").input(tensor(&[1, 1, 1, 1, 2], &[1f32, 2.0]));
        let run = run.input(tensor(&[1, 1, 2, 1, 2], &[1f32, 10.0, 100.0, 1000.0]));
        let y = on_gpu_too(&run.input(tensor(&[1], &[0.5f32])), 1e-6);
        assert_eq!(y.dims(), [1, 1, 2, 1, 3]);
        assert_near(&y.values::<f32>(), &[1.5, 12.5, 20.5, 100.5, 1200.5, 2000.5], 1e-6);
    }

    #[test]
    fn output_extents_may_be_requested() {
        let run = || {
            let run = bench("ConvTranspose").input(tensor(&[1, 1, 2], &[1f32, 2.0]));
            run.input(tensor(&[1, 1, 3], &[1f32, 10.0, 100.0])).ints("strides", &[2])
        };
        // The full output is 1, 10, 102, 20, 200.
        let cases: [(&str, &[i64], &[f64]); 5] = [
            ("SAME_UPPER", &[], &[1.0, 10.0, 102.0, 20.0]),
            ("SAME_LOWER", &[], &[10.0, 102.0, 20.0, 200.0]),
            ("NOTSET", &[3], &[10.0, 102.0, 20.0]),
            ("NOTSET", &[1, 1, 4], &[10.0, 102.0, 20.0, 200.0]),
            ("NOTSET", &[6], &[1.0, 10.0, 102.0, 20.0, 200.0, 0.0]),
        ];
        for (mode, shape, expected) in cases {
            let run = run().text("auto_pad", mode);
            let run = if shape.is_empty() { run } else { run.ints("output_shape", shape) };
            assert_near(&on_gpu_too(&run, 1e-6).values::<f32>(), expected, 1e-6);
        }
        let error = run().ints("pads", &[3, 2]).error();
        assert_eq!(error, "the pads [0, 0, 3] and [0, 0, 2] cut off all of an output of 5");
    }

    #[test]
    fn fused_epilogues_match_consumer_nodes() {
        let dims = [1, 4, 3, 5];
        let (x, w) = (noise(60), noise(4 * 6 * 9));
        let run = || {
            let run = bench("ConvTranspose").input(tensor(&dims, &x));
            with_params(PLAIN, 2, run.constant(tensor(&[4, 6, 3, 3], &w))).threads(2)
        };
        let sums = run().one();
        let (bias, residual) = (noise(6), noise(sums.values::<f32>().len()));
        let plane = sums.dims()[2] * sums.dims()[3];
        let runs = run()
            .then_bias(1, tensor(&[6], &bias))
            .then_residual(tensor(&sums.dims(), &residual))
            .then_activation(Activation::Clip(-0.5, 0.75))
            .run()
            .unwrap();
        assert_eq!(runs.iter().map(|run| run.epilogue_steps).max(), Some(3));
        // Each run fuses a number of the nodes, from none to all three.
        for run in runs {
            let finish = |(index, sum): (usize, f32)| {
                let sum = sum + if run.epilogue_steps > 0 { bias[index / plane] } else { 0.0 };
                let sum = sum + if run.epilogue_steps > 1 { residual[index] } else { 0.0 };
                let sum = if run.epilogue_steps > 2 { sum.clamp(-0.5, 0.75) } else { sum };
                f64::from(sum)
            };
            let expected: Vec<f64> =
                sums.values::<f32>().into_iter().enumerate().map(finish).collect();
            assert_near(&run.outputs[0].values::<f32>(), &expected, 1e-5);
        }
    }
}
