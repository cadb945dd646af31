//! Transposed convolution over one to three spatial axes: the gradient of a convolution with respect to its input.

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
        outputs: usize,
        groups: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        pads: [usize; 2],
        more: usize,
    }

    const PLAIN: Case = Case {
        channels: 4,
        outputs: 6,
        groups: 1,
        kernel: 3,
        stride: 2,
        dilation: 1,
        pads: [0; 2],
        more: 0,
    };

    const CASES: [Case; 7] = [
        PLAIN,
        Case { pads: [1, 1], more: 1, ..PLAIN },
        Case { groups: 2, stride: 3, ..PLAIN },
        Case { groups: 4, outputs: 4, kernel: 4, pads: [1, 1], ..PLAIN },
        Case { kernel: 2, dilation: 2, stride: 1, pads: [2, 0], ..PLAIN },
        Case { channels: 35, outputs: 19, kernel: 2, ..PLAIN },
        Case { kernel: 1, stride: 3, more: 2, ..PLAIN },
    ];

    fn node(case: Case, axes: usize, run: Bench) -> Bench {
        let Case { groups, stride, dilation, pads: [begin, end], more, .. } = case;
        let each = |n: usize| vec![n as i64; axes];
        run.int("group", groups as i64)
            .ints("strides", &each(stride))
            .ints("dilations", &each(dilation))
            .ints("pads", &[each(begin), each(end)].concat())
            .ints("output_padding", &each(more))
    }

    /// The reference: scatters each input element, over one axis of `rows` and one of 5.
    fn naive(case: Case, rows: usize, [x, w]: [&[f32]; 2]) -> (Vec<f64>, [usize; 2]) {
        let Case { channels, outputs, groups, kernel, stride, dilation, pads, more } = case;
        let out =
            |n: usize| (n - 1) * stride + (kernel - 1) * dilation + 1 + more - pads[0] - pads[1];
        let (height, width) = (if rows == 0 { 1 } else { out(rows) }, out(5));
        let (in_rows, taps) = (rows.max(1), if rows == 0 { 1 } else { kernel });
        let per_group = outputs / groups;
        let mut y = vec![0.0; 2 * outputs * height * width];
        let place = |at: usize, tap: usize, flat: bool| {
            if flat { Some(0) } else { (at * stride + tap * dilation).checked_sub(pads[0]) }
        };
        for (at, x) in x.iter().enumerate() {
            let (col, row, from) = (at % 5, at / 5 % in_rows, at / 5 / in_rows);
            let (image, channel) = (from / channels, from % channels);
            let group = channel / (channels / groups);
            for k in 0..per_group * taps * kernel {
                let (o, p, q) = (k / (taps * kernel), k / kernel % taps, k % kernel);
                let weight = w[channel * per_group * taps * kernel + k];
                let there = (place(row, p, rows == 0), place(col, q, false));
                if let (Some(r), Some(c)) = there
                    && r < height
                    && c < width
                {
                    let to = image * outputs + group * per_group + o;
                    y[(to * height + r) * width + c] += f64::from(x * weight);
                }
            }
        }
        (y, [height, width])
    }

    #[test]
    fn sums_match_the_definition() {
        for (case, rows) in CASES.into_iter().flat_map(|case| [(case, 4), (case, 0)]) {
            let Case { channels, outputs, groups, kernel, .. } = case;
            let axes = if rows == 0 { 1 } else { 2 };
            let mut dims = vec![2, channels, 4, 5];
            let mut filter = vec![channels, outputs / groups, kernel, kernel];
            if rows == 0 {
                dims.remove(2);
                filter.pop();
            }
            let x = noise(dims.iter().product());
            let w = noise(filter.iter().product());
            let (expected, [height, width]) = naive(case, rows, [&x, &w]);
            for threads in [1, 3] {
                let run = bench("ConvTranspose").threads(threads).input(tensor(&dims, &x));
                for run in
                    [run.clone().input(tensor(&filter, &w)), run.constant(tensor(&filter, &w))]
                {
                    let y = on_gpu_too(&node(case, axes, run), 1e-5);
                    assert_eq!(y.dims().last(), Some(&width), "{case:?}");
                    assert_eq!(y.dims()[2], if rows == 0 { width } else { height });
                    assert_near(&y.values::<f32>(), &expected, 1e-5);
                }
            }
            let wide = |x: &[f32]| x.iter().copied().map(f64::from).collect::<Vec<_>>();
            let run = bench("ConvTranspose").input(tensor(&dims, &wide(&x)));
            let y = node(case, axes, run.input(tensor(&filter, &wide(&w)))).one();
            assert_near(&y.values::<f64>(), &expected, 1e-6);
            let halve = |x: &[f32]| x.iter().copied().map(F16::from_f32).collect::<Vec<_>>();
            let run = bench("ConvTranspose").threads(3).input(tensor(&dims, &halve(&x)));
            let y = node(case, axes, run.input(tensor(&filter, &halve(&w)))).one();
            let y: Vec<f32> = y.values::<F16>().into_iter().map(F16::to_f32).collect();
            assert_near(&y, &expected, 4e-3);
        }
    }

    #[test]
    fn three_axes_and_a_bias() {
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
            node(PLAIN, 2, run.constant(tensor(&[4, 6, 3, 3], &w))).threads(2)
        };
        let sums = run().one();
        let (bias, residual) = (noise(6), noise(sums.values::<f32>().len()));
        let plane = sums.dims()[2] * sums.dims()[3];
        let after = run()
            .then_bias(1, tensor(&[6], &bias))
            .then_residual(tensor(&sums.dims(), &residual))
            .then_activation(Activation::Clip(-0.5, 0.75))
            .run()
            .unwrap();
        assert_eq!(after.iter().map(|after| after.epilogue_steps).max(), Some(3));
        for after in after {
            let finish = |(at, sum): (usize, f32)| {
                let sum = sum + if after.epilogue_steps > 0 { bias[at / plane] } else { 0.0 };
                let sum = sum + if after.epilogue_steps > 1 { residual[at] } else { 0.0 };
                let sum = if after.epilogue_steps > 2 { sum.clamp(-0.5, 0.75) } else { sum };
                f64::from(sum)
            };
            let expected: Vec<f64> =
                sums.values::<f32>().into_iter().enumerate().map(finish).collect();
            assert_near(&after.outputs[0].values::<f32>(), &expected, 1e-5);
        }
    }
}
