//! Images: convolutions, pooling, and what moves pixels.

use udo_api::DType::{F32, I8, I32, U8};
use udo_api::{AxisEncoding, Encodings};

use super::support::{Case, Nd, near, nnrt, operations};

/// Where a window's first element lies, how far it goes on, and how many windows there are, of an axis of images.
#[derive(Clone, Copy)]
struct Windows {
    len: usize,
    stride: usize,
    step: usize,
    before: usize,
    count: usize,
}

impl Windows {
    fn new(
        extent: usize,
        len: usize,
        stride: usize,
        step: usize,
        [before, behind]: [usize; 2],
    ) -> Self {
        let whole = (len - 1) * step + 1;
        let count = (extent + before + behind - whole) / stride + 1;
        Self { len, stride, step, before, count }
    }

    /// As many windows as there are strides, with what is missing around them.
    fn same(extent: usize, len: usize, stride: usize, step: usize) -> Self {
        let count = extent.div_ceil(stride);
        let pads = ((count - 1) * stride + (len - 1) * step + 1).saturating_sub(extent);
        Self { len, stride, step, before: pads / 2, count }
    }

    /// The element of the axis that element `k` of window `at` is, if it is none of the padding.
    fn place(&self, at: usize, k: usize, extent: usize) -> Option<usize> {
        let place = (at * self.stride + k * self.step).checked_sub(self.before)?;
        (place < extent).then_some(place)
    }
}

/// The convolution of images with channels last, and weights `[outputs, height, width, inputs of a group]`.
fn conv(x: &Nd, w: &Nd, bias: &Nd, [rows, columns]: [Windows; 2], group: usize) -> Nd {
    let outputs = w.dims[0];
    Nd::from(&[x.dims[0], rows.count, columns.count, outputs], |p| {
        let mut sum = bias.at(&[p[3]]);
        let first = p[3] / (outputs / group) * w.dims[3];
        for (i, j) in (0..rows.len).flat_map(|i| (0..columns.len).map(move |j| (i, j))) {
            let place = rows.place(p[1], i, x.dims[1]).zip(columns.place(p[2], j, x.dims[2]));
            let Some((row, column)) = place else { continue };
            for k in 0..w.dims[3] {
                sum += w.at(&[p[3], i, j, k]) * x.at(&[p[0], row, column, first + k]);
            }
        }
        sum
    })
}

/// The transposed convolution: each element of `x` is spread out by the weights.
fn spread(
    x: &Nd,
    w: &Nd,
    bias: &Nd,
    dims: [usize; 2],
    stride: usize,
    before: usize,
    group: usize,
) -> Nd {
    let outputs = w.dims[0];
    let mut y = Nd::from(&[x.dims[0], dims[0], dims[1], outputs], |p| bias.at(&[p[3]]));
    let all = y.dims.clone();
    for p in super::support::places(&x.dims) {
        let of_group = x.dims[3] / group;
        for q in super::support::places(&w.dims) {
            let (of, within) = (p[3] / of_group, p[3] % of_group);
            if q[3] != within || q[0] / (outputs / group) != of {
                continue;
            }
            let place = |at: usize, k: usize, most: usize| {
                (at * stride + k).checked_sub(before).filter(|&place| place < most)
            };
            let (Some(row), Some(column)) = (place(p[1], q[1], all[1]), place(p[2], q[2], all[2]))
            else {
                continue;
            };
            let at = ((p[0] * all[1] + row) * all[2] + column) * all[3] + q[0];
            y.of[at] += x.at(&p) * w.at(&q);
        }
    }
    y
}

fn pool(x: &Nd, [rows, columns]: [Windows; 2], of: fn(&[f64]) -> f64) -> Nd {
    Nd::from(&[x.dims[0], rows.count, columns.count, x.dims[3]], |p| {
        let taps = (0..rows.len).flat_map(|i| (0..columns.len).map(move |j| (i, j)));
        let taps = taps.filter_map(|(i, j)| {
            let row = rows.place(p[1], i, x.dims[1])?;
            Some(x.at(&[p[0], row, columns.place(p[2], j, x.dims[2])?, p[3]]))
        });
        of(&taps.collect::<Vec<_>>())
    })
}

fn pools(name: &str, of: fn(&[f64]) -> f64) {
    let x = Nd::noise(&[2, 5, 6, 3], 1);
    let run = |y: &Nd| nnrt(name).x(&x).y(&y.dims);
    let kernel = |run: Case| run.ints("kernel_size", &[2, 3]);
    let wanted = pool(&x, [Windows::new(5, 2, 1, 1, [0, 0]), Windows::new(6, 3, 1, 1, [0, 0])], of);
    kernel(run(&wanted)).is(&[&wanted]);
    let wanted = pool(&x, [Windows::same(5, 2, 2, 1), Windows::same(6, 3, 2, 1)], of);
    kernel(run(&wanted)).ints("stride", &[2, 2]).text("pad_mode", "same").is(&[&wanted]);
    let wanted = pool(&x, [Windows::new(5, 2, 1, 1, [1, 0]), Windows::new(6, 3, 1, 1, [0, 2])], of);
    let wanted = wanted.map(|y| y.max(0.0));
    let run_with = kernel(run(&wanted)).ints("pad", &[1, 0, 0, 2]).text("activation", "relu");
    run_with.is(&[&wanted]);
    // A last window that is not whole.
    let part = |extent, len| Windows { count: 3, ..Windows::new(extent, len, 2, 1, [0, 0]) };
    let wanted = pool(&x, [part(5, 2), part(6, 3)], of);
    kernel(run(&wanted)).ints("stride", &[2, 2]).text("round_mode", "ceil").is(&[&wanted]);
    let wanted = pool(&x, [Windows::new(5, 5, 1, 1, [0, 0]), Windows::new(6, 6, 1, 1, [0, 0])], of);
    run(&wanted).int("global", 1).is(&[&wanted]);
    let error = run(&wanted).error();
    assert_eq!(error, format!("{name}_0: attribute \"kernel_size\" is missing"));
    let error = kernel(run(&wanted)).ints("pad", &[0; 4]).int("pad_mode", 0).error();
    assert!(error.ends_with("both given, expected one of them"), "{error}");
    let flat = Nd::noise(&[5, 6], 1);
    let error = kernel(nnrt(name).x(&flat).y(&[5, 6])).error();
    assert_eq!(error, format!("{name}_0: input 0 is f32[5,6], expected images of 4 dimensions"));
}

/// Pixels of images in blocks of other axes: where each of the output comes from.
fn moved(
    name: &str,
    x: &Nd,
    dims: &[usize],
    run: impl Fn(Case) -> Case,
    from: impl Fn(&[usize]) -> Vec<usize>,
) {
    let wanted = Nd::from(dims, |p| x.at(&from(p)));
    run(nnrt(name).x(x).y(dims)).is(&[&wanted]);
    // The same with channels second.
    let nchw = [0, 3, 1, 2];
    let (x, wanted) = (x.permuted(&nchw), wanted.permuted(&nchw));
    run(nnrt(name).nchw().x(&x).y(&wanted.dims)).is(&[&wanted]);
}

const SECOND: [usize; 4] = [0, 3, 1, 2];

operations! {
    2 avg_pool { pools("AVG_POOL", |x| x.iter().sum::<f64>() / x.len() as f64) }

    21 max_pool { pools("MAX_POOL", |x| x.iter().copied().fold(f64::MIN, f64::max)) }

    8 conv2d {
        let (x, w, bias) = (Nd::noise(&[2, 5, 6, 4], 1), Nd::noise(&[6, 3, 2, 4], 2), Nd::noise(&[6], 3));
        let run = |w: &Nd, y: &Nd| {
            nnrt("CONV2D").x(&x).constant(F32, w).constant(F32, &bias).y(&y.dims)
        };
        let wanted = conv(&x, &w, &bias, [Windows::new(5, 3, 1, 1, [0, 0]), Windows::new(6, 2, 1, 1, [0, 0])], 1);
        run(&w, &wanted).is(&[&wanted]);
        let wanted = conv(&x, &w, &bias, [Windows::same(5, 3, 2, 1), Windows::same(6, 2, 2, 1)], 1);
        let wanted = wanted.map(|y| y.clamp(0.0, 6.0));
        let case = run(&w, &wanted).ints("stride", &[2, 2]).int("pad_mode", 0);
        case.text("activation", "relu6").is(&[&wanted]);
        let grouped = Nd::noise(&[6, 3, 2, 2], 4);
        let rows = [Windows::new(5, 3, 1, 2, [1, 0]), Windows::new(6, 2, 1, 2, [0, 1])];
        let wanted = conv(&x, &grouped, &bias, rows, 2);
        let case = run(&grouped, &wanted).ints("dilation", &[2, 2]).ints("pad", &[1, 0, 0, 1]);
        case.int("group", 2).is(&[&wanted]);
        // Weights that a run is given, and images with their channels second.
        let wanted = conv(&x, &w, &bias, [Windows::new(5, 3, 1, 1, [0, 0]), Windows::new(6, 2, 1, 1, [0, 0])], 1);
        let run = nnrt("CONV2D").nchw().x(&x.permuted(&SECOND)).x(&w).x(&bias);
        run.y(&wanted.permuted(&SECOND).dims).is(&[&wanted.permuted(&SECOND)]);
        let error = nnrt("CONV2D").x(&x).x(&bias).x(&bias).y(&[1, 1, 1, 1]).error();
        assert_eq!(error, "CONV2D_0: input 1 is f32[6], expected 4 dimensions");
    }

    10 depthwise_conv2d_native {
        let (x, w, bias) = (Nd::noise(&[1, 5, 5, 3], 1), Nd::noise(&[6, 3, 3, 1], 2), Nd::noise(&[6], 3));
        let run = |y: &Nd| {
            nnrt("DEPTHWISE_CONV2D_NATIVE").x(&x).constant(F32, &w).x(&bias).y(&y.dims)
        };
        let wanted = conv(&x, &w, &bias, [Windows::new(5, 3, 1, 1, [0, 0]); 2], 3);
        run(&wanted).is(&[&wanted]);
        let wanted = conv(&x, &w, &bias, [Windows::same(5, 3, 2, 1); 2], 3).map(|y| y.max(0.0));
        run(&wanted).ints("stride", &[2, 2]).int("pad_mode", 0).int("activation", 1).is(&[&wanted]);
    }

    9 conv2d_transpose {
        let (x, bias) = (Nd::noise(&[1, 3, 4, 4], 1), Nd::noise(&[6], 3));
        let w = Nd::noise(&[6, 3, 2, 4], 2);
        let run = |w: &Nd, y: &Nd| {
            nnrt("CONV2D_TRANSPOSE").x(&x).constant(F32, w).constant(F32, &bias).y(&y.dims)
        };
        let wanted = spread(&x, &w, &bias, [5, 5], 1, 0, 1);
        run(&w, &wanted).is(&[&wanted]);
        let wanted = spread(&x, &w, &bias, [6, 7], 2, 1, 1).map(|y| y.max(0.0));
        let case = run(&w, &wanted).ints("stride", &[2, 2]).ints("pad", &[1, 1, 1, 1]);
        case.ints("output_padding", &[1, 1]).int("activation", 1).is(&[&wanted]);
        let grouped = Nd::noise(&[6, 3, 2, 2], 4);
        let wanted = spread(&x, &grouped, &bias, [5, 5], 1, 0, 2);
        run(&grouped, &wanted).int("group", 2).is(&[&wanted]);
        let error = run(&grouped, &wanted).int("group", 4).error();
        assert_eq!(error, "CONV2D_TRANSPOSE_0: attribute \"group\" is 4, expected a divisor of 6");
    }

    3 batch_norm {
        let x = Nd::noise(&[2, 3, 2, 4], 1);
        let [scale, offset, mean] = [2, 3, 4].map(|seed| Nd::noise(&[4], seed));
        let variance = Nd::noise(&[4], 5).map(|x| x.abs() + 0.5);
        let wanted = |epsilon: f64| {
            let deviation = variance.map(|x| (x + epsilon).sqrt());
            let normal = x.zip(&mean, |x, m| x - m).zip(&deviation, |x, d| x / d);
            normal.zip(&scale, |x, s| x * s).zip(&offset, |x, o| x + o)
        };
        let run = |x: &Nd| {
            let run = nnrt("BATCH_NORM").x(x).constant(F32, &scale).constant(F32, &offset);
            run.constant(F32, &mean).constant(F32, &variance).y(&x.dims)
        };
        run(&x).is(&[&wanted(1e-4)]);
        run(&x).float("epsilon", 0.5).is(&[&wanted(0.5)]);
        let rows = [12, 4];
        run(&x.reshaped(&rows)).is(&[&wanted(1e-4).reshaped(&rows)]);
    }

    67 instance_norm {
        let x = Nd::noise(&[2, 3, 4, 5], 1);
        let (scale, bias) = (Nd::noise(&[5], 2), Nd::noise(&[5], 3));
        let wanted = |epsilon: f64| {
            Nd::from(&x.dims, |p| {
                let all = (0..12).map(|at| x.at(&[p[0], at / 4, at % 4, p[3]]));
                let mean = all.clone().sum::<f64>() / 12.0;
                let spread = all.map(|x| (x - mean) * (x - mean)).sum::<f64>() / 12.0;
                (x.at(p) - mean) / (spread + epsilon).sqrt() * scale.at(&[p[3]]) + bias.at(&[p[3]])
            })
        };
        let run = || nnrt("INSTANCE_NORM").x(&x).x(&scale).x(&bias).y(&x.dims);
        run().is(&[&wanted(1e-5)]);
        run().float("epsilon", 0.5).is(&[&wanted(0.5)]);
    }

    5 bias_add {
        let (x, bias) = (Nd::noise(&[2, 3, 3, 4], 1), Nd::noise(&[4], 2));
        let wanted = x.zip(&bias, |x, b| x + b);
        nnrt("BIAS_ADD").x(&x).x(&bias).y(&x.dims).is(&[&wanted]);
        let second = x.permuted(&SECOND);
        let run = nnrt("BIAS_ADD").nchw().x(&second).x(&bias).y(&second.dims);
        run.is(&[&wanted.permuted(&SECOND)]);
        let error = nnrt("BIAS_ADD").x(&x).x(&Nd::noise(&[1, 4], 2)).y(&x.dims).error();
        assert_eq!(error, "BIAS_ADD_0: input 1 is f32[1,4], expected one dimension");
    }

    46 prelu {
        let (x, slopes) = (Nd::noise(&[2, 3, 3, 4], 1), Nd::noise(&[4], 2));
        let of = |x: f64, slope: f64| if x < 0.0 { x * slope } else { x };
        let wanted = x.zip(&slopes, of);
        nnrt("PRELU").x(&x).x(&slopes).y(&x.dims).is(&[&wanted]);
        let one = Nd::list(&[0.25]);
        nnrt("PRELU").x(&x).x(&one).y(&x.dims).is(&[&x.zip(&one, of)]);
        let second = x.permuted(&SECOND);
        let run = nnrt("PRELU").nchw().x(&second).x(&slopes).y(&second.dims);
        run.is(&[&wanted.permuted(&SECOND)]);
    }

    96 lrn {
        let x = Nd::noise(&[1, 2, 2, 7], 1);
        let wanted = |radius: usize, bias: f64, alpha: f64, beta: f64| {
            Nd::from(&x.dims, |p| {
                let near = (0..7).filter(|&c| c + radius >= p[3] && c <= p[3] + radius);
                let squares: f64 = near.map(|c| x.at(&[p[0], p[1], p[2], c]).powi(2)).sum();
                x.at(p) / (bias + alpha * squares).powf(beta)
            })
        };
        let run = || nnrt("LRN").x(&x).y(&x.dims);
        run().is(&[&wanted(5, 1.0, 1.0, 0.5)]);
        let case = run().int("depth_radius", 1).float("bias", 2.0).float("alpha", 0.5);
        case.float("beta", 0.75).text("norm_region", "ACROSS_CHANNELS").is(&[&wanted(1, 2.0, 0.5, 0.75)]);
        let error = run().int("depth_radius", -1).error();
        assert_eq!(error, "LRN_0: attribute \"depth_radius\" is -1, expected a number of channels");
    }

    43 resize_bilinear {
        let x = Nd::noise(&[1, 4, 3, 2], 1);
        let resized = |high: usize, wide: usize, place: &dyn Fn(usize, usize, usize) -> f64| {
            Nd::from(&[1, high, wide, 2], |p| {
                let pair = |at: usize, to: usize, from: usize| {
                    let place = place(at, to, from).clamp(0.0, (from - 1) as f64);
                    let first = place.floor() as usize;
                    [(first, 1.0 - place.fract()), ((first + 1).min(from - 1), place.fract())]
                };
                let (rows, columns) = (pair(p[1], high, 4), pair(p[2], wide, 3));
                let all = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
                all.map(|((i, a), (j, b))| a * b * x.at(&[0, *i, *j, p[3]])).sum()
            })
        };
        let run = |high: i64, wide: i64, y: &Nd| {
            nnrt("RESIZE_BILINEAR").x(&x).y(&y.dims).int("new_height", high).int("new_width", wide)
        };
        let ratio = |at: usize, to: usize, from: usize| at as f64 * from as f64 / to as f64;
        let wanted = resized(8, 6, &ratio);
        run(8, 6, &wanted).is(&[&wanted]);
        let wanted = resized(7, 5, &|at, to, from| at as f64 * (from - 1) as f64 / (to - 1) as f64);
        run(7, 5, &wanted).text("coordinate_mode", "align_corners").is(&[&wanted]);
        let wanted = resized(6, 6, &|at, to, from| (at as f64 + 0.5) * from as f64 / to as f64 - 0.5);
        run(6, 6, &wanted).int("coordinate_mode", 2).int("exclude_outside", 0).is(&[&wanted]);
        // Of twice the height and four times the width the lesser one is for both.
        let wanted = resized(8, 6, &ratio);
        run(8, 12, &wanted).int("preserve_aspect_ratio", 1).is(&[&wanted]);
        let error = nnrt("RESIZE_BILINEAR").x(&x).y(&[1, 8, 6, 2]).int("new_height", 8).error();
        assert_eq!(error, "RESIZE_BILINEAR_0: attribute \"new_width\" is missing");
    }

    4 batch_to_space_nd {
        let x = Nd::noise(&[6, 2, 3, 2], 1);
        let from = |p: &[usize]| vec![p[1] % 2 * 3 + p[2] % 3 + p[0], p[1] / 2, p[2] / 3, p[3]];
        moved("BATCH_TO_SPACE_ND", &x, &[1, 4, 9, 2], |run| run.ints("block_shape", &[2, 3]), from);
        let from = |p: &[usize]| {
            let (row, column) = (p[1] + 1, p[2] + 2);
            vec![row % 2 * 3 + column % 3, row / 2, column / 3, p[3]]
        };
        let run = |run: Case| run.ints("block_shape", &[2, 3]).ints("crops", &[1, 0, 2, 1]);
        moved("BATCH_TO_SPACE_ND", &x, &[1, 3, 6, 2], run, from);
        let error = nnrt("BATCH_TO_SPACE_ND").x(&x).y(&x.dims).ints("block_shape", &[2]).error();
        let words = "attribute \"block_shape\" has 1 numbers, expected 2";
        assert_eq!(error, format!("BATCH_TO_SPACE_ND_0: {words}"));
    }

    31 space_to_batch_nd {
        let x = Nd::noise(&[1, 4, 6, 2], 1);
        let from = |p: &[usize]| vec![0, p[1] * 2 + p[0] / 3, p[2] * 3 + p[0] % 3, p[3]];
        moved("SPACE_TO_BATCH_ND", &x, &[6, 2, 2, 2], |run| run.ints("block_shape", &[2, 3]), from);
        // Zeros around: in the padded image all is as before.
        let padded = Nd::from(&[1, 6, 6, 2], |p| {
            if (1..5).contains(&p[1]) { x.at(&[0, p[1] - 1, p[2], p[3]]) } else { 0.0 }
        });
        let wanted = Nd::from(&[6, 3, 2, 2], |p| padded.at(&from(p)));
        let run = nnrt("SPACE_TO_BATCH_ND").x(&x).y(&wanted.dims).ints("block_shape", &[2, 3]);
        run.ints("paddings", &[1, 1, 0, 0]).is(&[&wanted]);
    }

    65 depth_to_space {
        let x = Nd::noise(&[2, 2, 3, 8], 1);
        let dims = [2, 4, 6, 2];
        let from = |p: &[usize]| {
            vec![p[0], p[1] / 2, p[2] / 2, (p[1] % 2 * 2 + p[2] % 2) * 2 + p[3]]
        };
        moved("DEPTH_TO_SPACE", &x, &dims, |run| run.int("block_size", 2), from);
        let from = |p: &[usize]| vec![p[0], p[1] / 2, p[2] / 2, p[3] * 4 + p[1] % 2 * 2 + p[2] % 2];
        moved("DEPTH_TO_SPACE", &x, &dims, |run| run.int("block_size", 2).text("mode", "CRD"), from);
        let error = nnrt("DEPTH_TO_SPACE").x(&x).y(&dims).error();
        assert_eq!(error, "DEPTH_TO_SPACE_0: attribute \"block_size\" is missing");
    }

    104 space_to_depth {
        let x = Nd::noise(&[2, 4, 6, 2], 1);
        let from = |p: &[usize]| {
            let block = p[3] / 2;
            vec![p[0], p[1] * 2 + block / 2, p[2] * 2 + block % 2, p[3] % 2]
        };
        moved("SPACE_TO_DEPTH", &x, &[2, 2, 3, 8], |run| run.int("block_size", 2), from);
    }
}

/// N03: within one step of the numbers that integers stand for.
#[test]
fn quantized_convolutions_are_within_a_step() {
    let x = Nd::noise(&[1, 5, 5, 4], 1).map(|x| (x * 50.0).round());
    let w = Nd::noise(&[3, 3, 3, 4], 2).map(|x| (x * 50.0).round());
    let bias = Nd::list(&[1000.0, -200.0, 37.0]);
    let real_x = x.map(|q| (q - 4.0) * 0.02);
    let windows = [Windows::same(5, 3, 1, 1); 2];
    let check = |scales: [f64; 3], encodings: Encodings| {
        let of_output = |at: usize| scales[at];
        let real_w = Nd::from(&w.dims, |p| w.at(p) * of_output(p[0]));
        let real_bias = Nd::from(&[3], |p| bias.at(p) * 0.02 * of_output(p[0]));
        let real = conv(&real_x, &real_w, &real_bias, windows, 1);
        let wanted =
            real.map(|y| (y / 0.25).round_ties_even() + 100.0).map(|q| q.clamp(0.0, 255.0));
        let run = nnrt("CONV2D").input(I8, &x).encoded(0.02, 4).constant(I8, &w);
        let run = run.input_encodings(encodings).constant(I32, &bias).makes(U8, &wanted.dims);
        let made = run.output_encoded(0.25, 100).int("pad_mode", 0).run();
        let apart = made[0].zip(&wanted, |y, wanted| (y - wanted).abs());
        assert!(apart.of.iter().all(|&apart| apart <= 1.0), "{apart:?}");
        near(&[apart.map(|apart| apart / 1000.0)], &[&apart.map(|_| 0.0)], 0.01);
    };
    let one = udo_api::Encoding { scale: 0.01, zero_point: 0 };
    check([0.01; 3], Encodings::PerTensor(one));
    let each = AxisEncoding::intern(0, &[0.01, 0.02, 0.005], &[0, 0, 0]).unwrap();
    check([0.01, 0.02, 0.005], Encodings::PerAxis(each));
}
