//! Compares depthwise convolutions with sums in `f64` or `i64`, on every instruction set, with slices next to protected
//! pages.

use std::ops::Range;

use super::float::depthwise_on;
use super::quantized::depthwise_u8_on;
use super::*;
use crate::indirect::Window;
use crate::isa::Isa;
use crate::testing::Guarded;
use crate::testing::noise;

const CHANNELS: &[usize] =
    &[1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 79, 80, 127, 130];

/// Square and other windows: sizes, strides, dilations and pads of all kinds, on all axes.
fn windows() -> Vec<Window> {
    let mut windows = Vec::new();
    for kernel in [1, 2, 3, 5] {
        for stride in [1, 2, 3] {
            for side in [[1, 1], [2, 7], [9, 3], [6, 13]] {
                windows.push(Window::square(side, kernel, stride, kernel / 2));
            }
            windows.push(Window::square([11, 8], kernel, stride, 0));
        }
        // Stride 2 down and 1 across, as in text recognition networks.
        let down = Window::square([9, 13], kernel, 1, kernel / 2);
        let rows = (9 + kernel / 2 * 2 - kernel) / 2 + 1;
        windows.push(Window { strides: [1, 2, 1], output: [1, rows, down.output[2]], ..down });
    }
    let plain = Window::square([7, 9], 3, 1, 1);
    windows.extend([
        // More padding than kernel, and windows past the end.
        Window { pads: [0, 4, 5], output: [1, 14, 17], ..plain },
        Window { pads: [0, 0, 1], output: [1, 9, 12], strides: [1, 2, 2], ..plain },
        Window { dilations: [1, 2, 3], pads: [0, 2, 3], ..plain },
        Window { dilations: [1, 2, 1], strides: [1, 1, 2], output: [1, 3, 5], ..plain },
        Window { kernel: [1, 3, 5], pads: [0, 1, 2], ..plain },
        Window { input: [1, 0, 9], ..plain },
        Window { output: [1, 0, 9], ..plain },
        Window { kernel: [1, 0, 3], ..plain },
        Window {
            input: [3, 4, 5],
            output: [2, 4, 3],
            kernel: [2, 3, 3],
            strides: [1, 1, 2],
            dilations: [2, 1, 1],
            pads: [1, 1, 1],
        },
    ]);
    windows
}

/// Returns, for each output pixel of some rows, its taps inside the image and their pixels.
fn pixels(window: &Window, rows: Range<usize>) -> Vec<Vec<(usize, usize)>> {
    let [_, height, width] = window.output;
    let [kernel_planes, kernel_rows, kernel_cols] = window.kernel;
    let mut pixels = Vec::new();
    for (row, col) in rows.flat_map(|row| (0..width).map(move |col| (row, col))) {
        let output = [row / height, row % height, col];
        let mut taps = Vec::new();
        for tap in 0..kernel_planes * kernel_rows * kernel_cols {
            let pixel = window.pixel(
                output,
                [
                    tap / (kernel_rows * kernel_cols),
                    tap / kernel_cols % kernel_rows,
                    tap % kernel_cols,
                ],
            );
            if pixel != crate::indirect::PADDING {
                taps.push((tap, pixel as usize));
            }
        }
        pixels.push(taps);
    }
    pixels
}

/// Returns the length of a slice with this many pixels.
fn len(pixels: usize, stride: usize, channels: usize) -> usize {
    if pixels == 0 { 0 } else { (pixels - 1) * stride + channels }
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Relu6 => x.clamp(0.0, 6.0),
        Activation::Clamp(low, high) => x.clamp(low.into(), high.into()),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => {
            // By the series of the error function, which converges for the tested arguments.
            let z = x / std::f64::consts::SQRT_2;
            let (mut term, mut sum) = (z, z);
            for i in 1..80 {
                term *= -z * z / f64::from(i);
                sum += term / f64::from(2 * i + 1);
            }
            0.5 * x * (1.0 + sum * 2.0 / std::f64::consts::PI.sqrt())
        }
    }
}

/// Checks a window on every instruction set; `gap` elements separate pixels, and `rows` are computed.
fn check(shape: Shape, gap: usize, rows: Range<usize>, bias: bool, activation: Activation) {
    let window = &shape.window;
    let outputs = shape.outputs().unwrap();
    let (x_stride, y_stride) = (shape.channels + gap, outputs + 2 * gap);
    let taps = window.taps().unwrap();
    let mut x = Guarded::at_end(&noise(len(window.input_len().unwrap(), x_stride, shape.channels)));
    let weights = noise(taps * outputs + 7)[7..].to_vec();
    let biases = noise(outputs + 3)[3..].to_vec();
    let mut packed = Guarded::at_end(&vec![f32::NAN; packed_len(taps, outputs).unwrap()]);
    pack(Guarded::at_end(&weights).slice(), taps, outputs, packed.slice());
    let expected = pixels(window, rows.clone());
    for &isa in Isa::available() {
        let mut y = Guarded::at_end(&vec![-7.5; len(expected.len(), y_stride, outputs)]);
        let mut guarded_bias = Guarded::at_end(&biases);
        let parameters = Weights {
            packed: packed.slice(),
            bias: bias.then_some(guarded_bias.slice()),
            activation,
        };
        let image = Image { data: x.slice(), stride: x_stride };
        depthwise_on(isa, &shape, image, &parameters, rows.clone(), y.slice(), y_stride);
        for (index, &actual) in y.slice().iter().enumerate() {
            let (pixel, c) = (index / y_stride, index % y_stride);
            if c >= outputs {
                assert_eq!(actual.to_bits(), (-7.5f32).to_bits(), "gap of {shape:?}");
                continue;
            }
            let mut sum = if bias { f64::from(biases[c]) } else { 0.0 };
            let mut magnitude = sum.abs();
            for &(tap, input_pixel) in &expected[pixel] {
                let value = f64::from(x[input_pixel * x_stride + c / shape.multiplier]);
                let product = value * f64::from(weights[c * taps + tap]);
                (sum, magnitude) = (sum + product, magnitude + product.abs());
            }
            let expected_value = activate(activation, sum);
            let bound = 2e-7 * (taps as f64 + 3.0) * magnitude + 1e-6 * expected_value.abs();
            let error = (f64::from(actual) - expected_value).abs();
            assert!(
                error <= bound,
                "{isa:?} pixel {pixel} channel {c} of {shape:?}: {actual}, expected {expected_value}"
            );
        }
    }
}

fn all_rows(window: &Window) -> Range<usize> {
    0..window.output[0] * window.output[1]
}

#[test]
fn sums_match_for_every_window() {
    for window in windows() {
        for channels in [1, 5, 16, 19, 40] {
            let shape = Shape { window, channels, multiplier: 1 };
            check(shape, channels % 3, all_rows(&window), true, Activation::None);
        }
        for (channels, multiplier) in [(1, 3), (3, 7), (17, 2), (5, 16), (4, 0)] {
            let shape = Shape { window, channels, multiplier };
            check(shape, 1, all_rows(&window), false, Activation::Relu);
        }
    }
}

#[test]
fn sums_match_for_any_number_of_channels() {
    for &channels in CHANNELS {
        for (kernel, stride) in [(3, 1), (3, 2), (5, 1), (5, 2), (2, 1)] {
            for gap in [0, 3] {
                let window = Window::square([6, 7], kernel, stride, kernel / 2);
                let shape = Shape { window, channels, multiplier: 1 };
                check(shape, gap, all_rows(&window), gap == 0, Activation::Relu6);
            }
        }
    }
}

#[test]
fn sums_match_for_pixel_strides_that_conflict_in_the_cache() {
    let plain = Window::square([7, 6], 3, 1, 1);
    let sides = [[1, 1], [1, 6], [2, 2], [3, 5], [5, 1], [7, 6], [9, 3], [10, 4]];
    let mut windows = sides.map(|side| Window::square(side, 3, 1, 1)).to_vec();
    windows.extend([
        Window::square([7, 6], 3, 1, 0),
        Window { pads: [0, 1, 0], output: [1, 7, 4], ..plain },
        Window { pads: [0, 0, 1], output: [1, 6, 5], ..plain },
        Window { output: [1, 7, 7], ..plain },
        Window { output: [1, 3, 2], ..plain },
        Window { pads: [0, 2, 1], ..plain },
    ]);
    for window in windows {
        for channels in [16, 40, 250, 256, 275] {
            let shape = Shape { window, channels, multiplier: 1 };
            let gap = channels.next_multiple_of(256) - channels;
            check(shape, gap, all_rows(&window), channels != 16, Activation::Relu);
            check(shape, gap, window.output[1] / 3..window.output[1], true, Activation::None);
        }
    }
}

#[test]
fn only_requested_rows_are_computed() {
    for (kernel, stride) in [(3, 1), (3, 2), (5, 1), (5, 2), (4, 1)] {
        let window = Window::square([12, 5], kernel, stride, 1);
        let shape = Shape { window, channels: 21, multiplier: 1 };
        for start in 0..window.output[1] {
            for end in start..=window.output[1] {
                check(shape, 2, start..end, true, Activation::Clamp(-0.25, 0.5));
                check_u8(shape, 2, start..end, false, true);
            }
        }
    }
}

#[test]
fn sums_do_not_depend_on_how_rows_are_split() {
    for (kernel, stride) in [(3, 1), (3, 2), (5, 1), (5, 2), (4, 1)] {
        for gap in [2, 235] {
            let window = Window::square([13, 6], kernel, stride, kernel / 2);
            let shape = Shape { window, channels: 21, multiplier: 1 };
            let (taps, [_, height, width]) = (kernel * kernel, window.output);
            let x_stride = 21 + gap;
            let x = noise(len(13 * 6, x_stride, 21));
            let mut packed = vec![0.0; packed_len(taps, 21).unwrap()];
            pack(&noise(taps * 21), taps, 21, &mut packed);
            let bias = noise(21);
            let weights =
                Weights { packed: &packed, bias: Some(&bias), activation: Activation::None };
            for &isa in Isa::available() {
                let run = |rows: Range<usize>| {
                    let mut y = vec![0.0; rows.len() * width * 21];
                    let image = Image { data: &x, stride: x_stride };
                    depthwise_on(isa, &shape, image, &weights, rows, &mut y, 21);
                    y.iter().map(|y| y.to_bits()).collect::<Vec<_>>()
                };
                let whole = run(0..height);
                for split in 1..height {
                    let parts = [run(0..split), run(split..height)].concat();
                    assert!(parts == whole, "{isa:?} {kernel} by {stride}, split at {split}");
                }
            }
        }
    }
}

#[test]
fn large_images_match() {
    let shape = Shape { window: Window::square([70, 75], 3, 1, 1), channels: 100, multiplier: 1 };
    check(shape, 0, 0..70, true, Activation::None);
    check_u8(shape, 0, 0..70, true, false);
}

#[test]
fn silu_and_gelu_match() {
    for activation in [Activation::Silu, Activation::Gelu] {
        for channels in [3, 16, 37] {
            for kernel in [2, 3] {
                let window = Window::square([5, 6], kernel, 1, 1);
                let shape = Shape { window, channels, multiplier: 1 };
                check(shape, 2, all_rows(&window), true, activation);
            }
        }
    }
}

#[test]
fn non_finite_values_stay_in_their_windows() {
    for &isa in Isa::available() {
        for kernel in [3, 5, 7] {
            for value in [f32::NAN, f32::INFINITY] {
                let window = Window::square([9, 9], kernel, 1, kernel / 2);
                let (channels, taps) = (20, kernel * kernel);
                let shape = Shape { window, channels, multiplier: 1 };
                let mut packed = vec![0.0; packed_len(taps, channels).unwrap()];
                pack(&vec![0.5; taps * channels], taps, channels, &mut packed);
                let mut x = vec![1.0; 81 * channels];
                x[40 * channels + 18] = value;
                let mut y = vec![0.0; 81 * channels];
                let weights = Weights { packed: &packed, bias: None, activation: Activation::Relu };
                let image = Image { data: &x, stride: channels };
                depthwise_on(isa, &shape, image, &weights, 0..9, &mut y, channels);
                for (i, y) in y.iter().enumerate() {
                    let (pixel, c) = (i / channels, i % channels);
                    let is_near = |position: usize| position.abs_diff(4) <= kernel / 2;
                    let is_reached = c == 18 && is_near(pixel / 9) && is_near(pixel % 9);
                    assert_eq!(y.is_finite(), !is_reached, "{isa:?} {kernel} {pixel} {c}");
                    assert_eq!(y.is_nan(), is_reached && value.is_nan());
                }
            }
        }
    }
}

/// Checks a window of 8-bit values on every instruction set.
fn check_u8(shape: Shape, gap: usize, rows: Range<usize>, has_zero_points: bool, is_signed: bool) {
    let window = &shape.window;
    let outputs = shape.outputs().unwrap();
    let (x_stride, y_stride) = (shape.channels + gap, outputs + 2 * gap);
    let taps = window.taps().unwrap();
    let random = |len: usize, seed: usize| {
        noise(len + seed)[seed..].iter().map(|x| (x * 128.0).floor() as i32).collect::<Vec<_>>()
    };
    let x: Vec<u8> = random(len(window.input_len().unwrap(), x_stride, shape.channels), 1)
        .iter()
        .map(|x| (x + 128) as u8)
        .collect();
    let weights: Vec<i8> = random(taps * outputs, 2).iter().map(|&x| x as i8).collect();
    let zero_points: Vec<i8> = random(outputs, 3).iter().map(|&x| x as i8).collect();
    let zero_points = if has_zero_points { &zero_points[..] } else { &[] };
    let bias: Vec<i32> = random(outputs, 4).iter().map(|x| x * 50).collect();
    // Some scales are above 1, and one is NaN.
    let mut scales: Vec<f32> =
        noise(outputs).iter().map(|x| if gap > 2 { x * 3.0 } else { x.abs() * 0.01 }).collect();
    if gap > 2 {
        scales[0] = f32::NAN;
    }
    let mut packed = Guarded::at_end(&vec![99; packed_len_u8(window.kernel, outputs).unwrap()]);
    pack_u8(Guarded::at_end(&weights).slice(), window.kernel, outputs, packed.slice());
    let (zero_point, y_zero) = (131u8, if is_signed { -3 } else { 77 });
    let expected = pixels(window, rows.clone());
    for &isa in Isa::available() {
        let (mut x, mut zero_points, mut guarded_bias, mut guarded_scales) = (
            Guarded::at_end(&x),
            Guarded::at_end(zero_points),
            Guarded::at_end(&bias),
            Guarded::at_end(&scales),
        );
        let quantized = QuantizedWeights {
            packed: packed.slice(),
            zero_point,
            zero_points: zero_points.slice(),
            bias: guarded_bias.slice(),
            scales: guarded_scales.slice(),
        };
        let image = Image { data: x.slice(), stride: x_stride };
        let mut y = Guarded::at_end(&vec![85u8; len(expected.len(), y_stride, outputs)]);
        let mut y_signed = Guarded::at_end(&vec![85i8; y.len()]);
        let output = if is_signed {
            Output::I8 { to: y_signed.slice(), zero_point: y_zero as i8 }
        } else {
            Output::U8 { to: y.slice(), zero_point: y_zero as u8 }
        };
        depthwise_u8_on(isa, &shape, image, &quantized, rows.clone(), output, y_stride);
        let mut sums = Guarded::at_end(&vec![85i32; y.len()]);
        let unscaled = QuantizedWeights { scales: &[], ..quantized };
        let output = Output::I32(sums.slice());
        depthwise_u8_on(isa, &shape, image, &unscaled, rows.clone(), output, y_stride);
        for index in 0..y.len() {
            let actual = if is_signed { i32::from(y_signed[index]) } else { i32::from(y[index]) };
            let (pixel, c) = (index / y_stride, index % y_stride);
            if c >= outputs {
                assert_eq!((actual, sums[index]), (85, 85), "gap of {shape:?}");
                continue;
            }
            let mut sum = i64::from(bias[c]);
            for &(tap, input_pixel) in &expected[pixel] {
                let value = i64::from(x[input_pixel * x_stride + c / shape.multiplier]);
                let zero = zero_points.get(c).copied().map_or(0, i64::from);
                let weight = i64::from(weights[c * taps + tap]) - zero;
                sum += (value - i64::from(zero_point)) * weight;
            }
            assert_eq!(
                i64::from(sums[index]),
                sum,
                "{isa:?} pixel {pixel} channel {c} of {shape:?}"
            );
            let (low, high) = if is_signed { (-128, 127) } else { (0, 255) };
            let value = (sum as f32 * scales[c]).round_ties_even() + y_zero as f32;
            let value = if value.is_nan() { low } else { (value as i32).clamp(low, high) };
            assert_eq!(actual, value, "{isa:?} pixel {pixel} channel {c} of {shape:?}");
        }
    }
}

#[test]
fn quantized_values_match_for_every_window() {
    for window in windows() {
        for (i, channels) in [1, 5, 19, 64, 70].into_iter().enumerate() {
            let shape = Shape { window, channels, multiplier: 1 };
            check_u8(shape, i % 4, all_rows(&window), i == 2, i % 2 == 0);
        }
        for (channels, multiplier) in [(1, 3), (3, 7), (17, 5)] {
            let shape = Shape { window, channels, multiplier };
            check_u8(shape, 1, all_rows(&window), channels == 3, true);
        }
    }
}

#[test]
fn quantized_values_match_for_any_number_of_channels() {
    for &channels in CHANNELS {
        for (kernel, stride) in [(3, 1), (3, 2), (5, 1), (5, 2), (2, 1)] {
            for gap in [0, 3] {
                let window = Window::square([7, 6], kernel, stride, kernel / 2);
                let shape = Shape { window, channels, multiplier: 1 };
                check_u8(shape, gap, all_rows(&window), false, gap == 0);
                check_u8(shape, gap, all_rows(&window), true, gap != 0);
            }
        }
    }
}

#[test]
fn extreme_values_are_exact() {
    for &isa in Isa::available() {
        let window = Window::square([6, 6], 5, 1, 2);
        let shape = Shape { window, channels: 64, multiplier: 1 };
        for (x, weight, zero_point) in [(255, -128, 0), (0, -128, 255), (255, 127, 0)] {
            let mut packed = vec![0; packed_len_u8(window.kernel, 64).unwrap()];
            pack_u8(&vec![weight; 25 * 64], window.kernel, 64, &mut packed);
            let product = (i32::from(x) - i32::from(zero_point)) * i32::from(weight);
            // A value for each tap in the window.
            let scales = [1.0 / product as f32; 64];
            let quantized = QuantizedWeights {
                packed: &packed,
                zero_point,
                zero_points: &[],
                bias: &[],
                scales: &scales,
            };
            let (image, mut to) = (vec![x; 36 * 64], vec![0; 36 * 64]);
            let output = Output::U8 { to: &mut to, zero_point: 3 };
            let image = Image { data: &image, stride: 64 };
            depthwise_u8_on(isa, &shape, image, &quantized, 0..6, output, 64);
            let inside = [3, 4, 5, 5, 4, 3];
            for (i, &value) in to.iter().enumerate() {
                let taps = inside[i / 64 / 6] * inside[i / 64 % 6];
                assert_eq!(value, 3 + taps, "{isa:?}");
            }
        }
    }
}

#[test]
fn slices_that_are_too_short_are_refused() {
    let window = Window::square([4, 5], 3, 1, 1);
    let shape = Shape { window, channels: 6, multiplier: 1 };
    let is_refused = |x: usize, packed: usize, bias: usize, y: usize, rows: Range<usize>| {
        let quantized = std::panic::catch_unwind(|| {
            let (packed, bias) =
                (vec![0; packed_len_u8([1, packed, 3], 6).unwrap()], vec![0; bias]);
            let quantized = QuantizedWeights {
                packed: &packed,
                zero_point: 0,
                zero_points: &[],
                bias: &bias,
                scales: &[1.0; 6],
            };
            let image = Image { data: &vec![0; x], stride: 6 };
            let output = Output::U8 { to: &mut vec![0; y], zero_point: 0 };
            depthwise_u8(&shape, image, &quantized, rows.clone(), output, 6);
        });
        let floats = std::panic::catch_unwind(|| {
            let (packed, bias) = (vec![0.0; packed * 3 * 16], vec![0.0; bias]);
            let weights =
                Weights { packed: &packed, bias: Some(&bias), activation: Activation::None };
            let image = Image { data: &vec![0.0; x], stride: 6 };
            depthwise(&shape, image, &weights, rows.clone(), &mut vec![0.0; y], 6);
        });
        assert_eq!(quantized.is_err(), floats.is_err());
        floats.is_err()
    };
    assert!(!is_refused(120, 3, 6, 120, 0..4));
    assert!(!is_refused(120, 3, 6, 30, 3..4));
    assert!(is_refused(119, 3, 6, 120, 0..4));
    assert!(is_refused(120, 2, 6, 120, 0..4));
    assert!(is_refused(120, 3, 5, 120, 0..4));
    assert!(is_refused(120, 3, 6, 119, 0..4));
    assert!(is_refused(120, 3, 6, 120, 0..5));
}

#[test]
fn convolutions_make_no_heap_calls() {
    let shape = Shape { window: Window::square([9, 9], 3, 1, 1), channels: 70, multiplier: 1 };
    let (x, weights) = (noise(81 * 70), noise(9 * 70));
    let (x_quantized, quantized_weights) = (vec![7; 81 * 70], vec![-3; 9 * 70]);
    let (mut y, mut y_quantized) = (vec![0.0; 81 * 70], vec![0; 81 * 70]);
    let mut packed = vec![0.0; packed_len(9, 70).unwrap()];
    let mut packed_values = vec![0; packed_len_u8([1, 3, 3], 70).unwrap()];
    let scales = vec![0.5; 70];
    for &isa in Isa::available() {
        // The first run may allocate, while it detects the instruction set.
        let quiet = (0..1000).any(|_| {
            let before = udo_api::guard::thread_heap_calls();
            pack(&weights, 9, 70, &mut packed);
            let weights = Weights { packed: &packed, bias: None, activation: Activation::Silu };
            let image = Image { data: &x, stride: 70 };
            depthwise_on(isa, &shape, image, &weights, 0..9, &mut y, 70);
            pack_u8(&quantized_weights, [1, 3, 3], 70, &mut packed_values);
            let quantized = QuantizedWeights {
                packed: &packed_values,
                zero_point: 1,
                zero_points: &[],
                bias: &[],
                scales: &scales,
            };
            let image = Image { data: &x_quantized, stride: 70 };
            let output = Output::U8 { to: &mut y_quantized, zero_point: 0 };
            depthwise_u8_on(isa, &shape, image, &quantized, 0..9, output, 70);
            udo_api::guard::thread_heap_calls() == before
        });
        assert!(quiet, "each of many convolutions called the heap");
    }
}

#[test]
fn the_stride_of_a_single_pixel_does_not_matter() {
    let shape = Shape { window: Window::square([1, 1], 3, 1, 1), channels: 70, multiplier: 1 };
    let (x, x_quantized) = (noise(70), [200; 70]);
    let mut packed = vec![0.0; packed_len(9, 70).unwrap()];
    pack(&noise(9 * 70), 9, 70, &mut packed);
    let mut packed_values = vec![0; packed_len_u8([1, 3, 3], 70).unwrap()];
    pack_u8(&[5; 9 * 70], [1, 3, 3], 70, &mut packed_values);
    for &isa in Isa::available() {
        let floats = [0, 70].map(|stride| {
            let mut y = vec![0.0; 70];
            let weights = Weights { packed: &packed, bias: None, activation: Activation::None };
            let image = Image { data: &x, stride };
            depthwise_on(isa, &shape, image, &weights, 0..1, &mut y, stride);
            y.iter().map(|y| y.to_bits()).collect::<Vec<_>>()
        });
        assert_eq!(floats[0], floats[1], "{isa:?}");
        let mut y = [0; 70];
        let quantized = QuantizedWeights {
            packed: &packed_values,
            zero_point: 0,
            zero_points: &[],
            bias: &[],
            scales: &[0.1; 70],
        };
        let image = Image { data: &x_quantized, stride: 0 };
        let output = Output::U8 { to: &mut y, zero_point: 0 };
        depthwise_u8_on(isa, &shape, image, &quantized, 0..1, output, 0);
        assert_eq!(y, [100; 70], "{isa:?}");
    }
}

#[test]
fn the_last_row_that_fits_usize_is_computed() {
    for kernel in [3, 5] {
        let rows = usize::MAX - kernel + 2;
        let window =
            Window { output: [1, rows, 1], ..Window::square([3, 3], kernel, 1, kernel / 2) };
        let shape = Shape { window, channels: 20, multiplier: 1 };
        let mut packed = vec![0.0; packed_len(kernel * kernel, 20).unwrap()];
        pack(&noise(kernel * kernel * 20), kernel * kernel, 20, &mut packed);
        let weights = Weights { packed: &packed, bias: None, activation: Activation::None };
        let x = noise(9 * 20);
        for &isa in Isa::available() {
            let mut y = [7.0; 20];
            let image = Image { data: &x, stride: 20 };
            depthwise_on(isa, &shape, image, &weights, rows - 1..rows, &mut y, 20);
            assert!(y.iter().all(|&y| y == 0.0), "{isa:?} {kernel}");
        }
    }
}
