//! Numerical guarantees of convolutions, for each algorithm and layout.

use udo_api::Dim;

use super::{Conv, ConvPlan, Direction};
use crate::family::layout::LayoutPorts;
use crate::family::matmul::Factors;
use crate::family::numerics::{SUBNORMAL, assert_rounds_factors, of_kernels, settled, with};
use crate::family::window::Window;
use crate::testing::{Bench, assert_near, bench, noise, tensor};

const EXTENT: usize = 9;

/// A 3 by 3 convolution of images padded by 1.
#[derive(Clone, Copy, Debug)]
struct Case {
    channels: usize,
    outputs: usize,
    groups: usize,
    /// Pixels around a NaN or infinity that may become NaN as well.
    leak: usize,
}

const CASES: [Case; 3] = [
    // A product of gathered rows, Winograd, and depthwise.
    Case { channels: 3, outputs: 5, groups: 1, leak: 0 },
    Case { channels: 48, outputs: 64, groups: 1, leak: 5 },
    Case { channels: 20, outputs: 20, groups: 20, leak: 0 },
];

impl Case {
    fn x(&self) -> Vec<f32> {
        noise(self.channels * EXTENT * EXTENT)
    }

    fn run(&self, x: &[f32]) -> Bench {
        let dims = [self.outputs, self.channels / self.groups, 3, 3];
        let w = tensor(&dims, &noise(dims.iter().product()));
        let run = bench("Conv").input(tensor(&[1, self.channels, EXTENT, EXTENT], x));
        run.constant(w).int("group", self.groups as i64).ints("pads", &[1; 4])
    }
}

#[test]
fn results_agree_between_runs_and_between_thread_counts() {
    for case in CASES {
        let x = case.x();
        let single_thread = settled(&case.run(&x)).values::<f32>();
        let single_thread: Vec<f64> = single_thread.into_iter().map(f64::from).collect();
        for threads in [2, 3, 8] {
            let y = settled(&case.run(&x).threads(threads)).values::<f32>();
            assert_near(&y, &single_thread, 1e-5);
        }
    }
}

#[test]
fn nan_reaches_dependent_outputs_and_winograd_tiles() {
    for case in CASES {
        let (x, plain) = (case.x(), of_kernels(&case.run(&case.x())));
        for at in [0, 4 * EXTENT + 4, EXTENT * EXTENT + EXTENT - 1] {
            let (channel, row, col) = (at / (EXTENT * EXTENT), at / EXTENT % EXTENT, at % EXTENT);
            let distance =
                |i: usize| (i / EXTENT % EXTENT).abs_diff(row).max((i % EXTENT).abs_diff(col));
            let is_dependent = |i: usize| case.groups == 1 || i / (EXTENT * EXTENT) == channel;
            for (y, plain) in of_kernels(&case.run(&with(&x, at, f32::NAN))).iter().zip(&plain) {
                for (i, (y, plain)) in y.iter().zip(plain).enumerate() {
                    let case_name = format!("{case:?} with a NaN at {at}: {y} at {i}");
                    if is_dependent(i) && distance(i) <= 1 {
                        assert!(y.is_nan(), "{case_name}");
                    } else if !is_dependent(i) || distance(i) > 1 + case.leak {
                        assert_eq!(y.to_bits(), plain.to_bits(), "{case_name}");
                    }
                }
            }
        }
    }
}

#[test]
fn subnormal_products_are_not_flushed_and_sums_overflow_to_infinity() {
    for groups in [1, 2] {
        let x = [SUBNORMAL, f32::MAX, -SUBNORMAL, -f32::MAX];
        for (factor, expected) in [
            (1f32, x),
            (2.0, [2.0 * SUBNORMAL, f32::INFINITY, -2.0 * SUBNORMAL, f32::NEG_INFINITY]),
        ] {
            let run = bench("Conv").input(tensor(&[1, groups, 1, 4], &x.repeat(groups)));
            let w = tensor(&[groups, 1, 1, 1], &vec![factor; groups]);
            let y = run.input(w).int("group", groups as i64).one();
            assert_eq!(y.values::<f32>(), expected.repeat(groups), "{groups} groups by {factor}");
        }
    }
}

#[test]
fn weights_are_packed_alike_for_all_sizes_of_open_images() {
    let recipe = |side: usize, has_open_images: bool| {
        let window = Window {
            input: [1, side, side],
            output: [1, side, side],
            kernel: [1, 3, 3],
            strides: [1; 3],
            dilations: [1; 3],
            pads: [0, 1, 1],
            end_pads: [0, 1, 1],
        };
        let direction = Direction::Forward;
        let conv = Conv {
            direction,
            window,
            batch: 1,
            groups: 1,
            inputs: 48,
            outputs: 64,
            has_open_images,
        };
        let plan = ConvPlan::new(&conv, Some(0), Factors::F32, LayoutPorts::BOTH).unwrap();
        (plan.recipe(), plan.packed_len())
    };
    assert_ne!(recipe(1, false), recipe(56, false), "what is fastest differs");
    for side in [1, 4, 56] {
        assert_eq!(recipe(side, true), recipe(224, true), "{side} pixels");
    }
}

#[test]
fn open_images_of_any_size_match_the_definition() {
    let (channels, outputs) = (48, 64);
    let dims = [outputs, channels, 3, 3];
    let w = noise(dims.iter().product());
    for (size, pads) in [
        ([1, 1], [1, 1, 1, 1]),
        ([1, 1], [2, 0, 0, 2]),
        ([1, 2], [1, 1, 2, 3]),
        ([2, 1], [3, 3, 3, 3]),
        ([3, 3], [0, 0, 0, 0]),
        ([3, 3], [1, 1, 1, 1]),
        ([5, 4], [0, 1, 2, 0]),
        ([3, 7], [4, 5, 1, 0]),
    ] {
        let x = noise(2 * channels * size[0] * size[1]);
        let out = [0, 1].map(|axis| size[axis] + pads[axis] + pads[axis + 2] - 2);
        let pixel = |image: usize, channel: usize, [row, col]: [usize; 2]| {
            let at = |[row, col]: [usize; 2]| {
                ((image * channels + channel) * size[0] + row) * size[1] + col
            };
            let is_inside = row < size[0] && col < size[1];
            if is_inside { f64::from(x[at([row, col])]) } else { 0.0 }
        };
        let mut expected = Vec::new();
        for i in 0..2 * outputs * out[0] * out[1] {
            let (image, o) = (i / (outputs * out[0] * out[1]), i / (out[0] * out[1]) % outputs);
            let (row, col) = (i / out[1] % out[0], i % out[1]);
            let tap = |k: usize| {
                let at =
                    [(row + k / 3 % 3).wrapping_sub(pads[0]), (col + k % 3).wrapping_sub(pads[1])];
                pixel(image, k / 9, at) * f64::from(w[o * channels * 9 + k])
            };
            expected.push((0..channels * 9).map(tap).sum::<f64>());
        }
        let open = [2, channels, size[0], size[1]].map(Dim::Open);
        let x = tensor(&[2, channels, size[0], size[1]], &x).bounded(&open);
        for threads in [1, 3] {
            let run = bench("Conv").input(x.clone()).constant(tensor(&dims, &w)).threads(threads);
            let y = run.ints("pads", &pads.map(|p| p as i64)).one();
            assert_eq!(y.dims(), [2, outputs, out[0], out[1]], "{size:?}, {pads:?}");
            assert_near(&y.values::<f32>(), &expected, 1e-4);
        }
    }
}

#[test]
fn reduced_precision_rounds_the_factors() {
    // One tap, several with padding and strides, few channels, and groups; kernels too large for Winograd.
    let cases = [
        ([2usize, 33, 9, 8], [20usize, 33, 1, 1], [1i64, 0, 1]),
        ([1, 18, 11, 10], [40, 18, 5, 3], [2, 2, 1]),
        ([1, 3, 20, 21], [17, 3, 7, 7], [2, 3, 1]),
        ([1, 24, 9, 9], [48, 12, 3, 3], [2, 1, 2]),
    ];
    for (x_dims, w_dims, [stride, pad, groups]) in cases {
        let conv = || {
            let run = bench("Conv").int("group", groups);
            run.ints("strides", &[stride; 2]).ints("pads", &[pad; 4])
        };
        let (x, w) = (noise(x_dims.iter().product()), noise(w_dims.iter().product()));
        let terms = w_dims[1..].iter().product();
        assert_rounds_factors(conv, [(&x_dims, &x), (&w_dims, &w)], terms);
    }
}
