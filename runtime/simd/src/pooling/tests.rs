//! Compares pooling with references in `f64` or `i64`, on every instruction set, with slices next to protected pages.

use super::bytes::{ByteVector, Quotient};
use super::float::pool_on;
use super::global::{global_average_on, global_sums_on};
use super::quantized::{Average, average_on, max_on};
use super::*;
use crate::isa::Isa;
use crate::testing::Guarded;
use crate::testing::noise;

const CHANNELS: &[usize] = &[1, 3, 7, 8, 9, 16, 17, 33, 63, 64, 65, 128, 131, 259];

/// Returns windows with and without padding, strides and dilations, and special ones.
fn windows() -> Vec<Window> {
    let plain = Window::square([7, 9], 3, 2, 1);
    let mut windows: Vec<Window> =
        [(1, 1, 0), (2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 3, 2), (5, 2, 2)]
            .into_iter()
            .flat_map(|(kernel, stride, pad)| {
                [[1, 1], [6, 5], [9, 12]].map(|side| Window::square(side, kernel, stride, pad))
            })
            .collect();
    windows.extend([
        plain,
        Window { output: [1, 5, 6], ..plain },
        Window { dilations: [1, 2, 3], pads: [0, 2, 3], output: [1, 4, 5], ..plain },
        // Windows without a tap inside the image.
        Window { pads: [0, 5, 4], output: [1, 8, 8], ..plain },
        // More columns than a buffer holds, then more in a single window.
        Window::square([5, 140], 3, 1, 1),
        Window::square([4, 290], 3, 2, 1),
        Window { dilations: [1, 1, 40], output: [1, 5, 12], ..Window::square([5, 90], 3, 1, 1) },
        // Strides that skip columns.
        Window::square([9, 8], 1, 2, 0),
        Window::square([9, 10], 2, 5, 1),
        // Many taps, with a sum that does not fit 16 bits.
        Window::square([12, 13], 6, 3, 2),
        Window::square([18, 17], 17, 1, 2),
        Window { output: [1, 0, 4], ..plain },
        Window { input: [1, 4, 0], ..plain },
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

/// Returns, for each window of some rows, its pixels inside the image, and its taps inside the image or the padding.
fn pixels(window: &Window, rows: Range<usize>, after: [usize; 3]) -> Vec<(Vec<usize>, usize)> {
    let [_, height, width] = window.output;
    let [kernel_planes, kernel_rows, kernel_cols] = window.kernel;
    let mut windows = Vec::new();
    for (row, col) in rows.flat_map(|row| (0..width).map(move |col| (row, col))) {
        let output = [row / height, row % height, col];
        let (mut inside, mut padded) = (Vec::new(), 0);
        for tap in 0..kernel_planes * kernel_rows * kernel_cols {
            let tap = [
                tap / (kernel_rows * kernel_cols),
                tap / kernel_cols % kernel_rows,
                tap % kernel_cols,
            ];
            let pixel = window.pixel(output, tap);
            if pixel != crate::indirect::PADDING {
                inside.push(pixel as usize);
            }
            padded += usize::from((0..3).all(|i| {
                output[i] * window.strides[i] + tap[i] * window.dilations[i]
                    < window.pads[i] + window.input[i] + after[i]
            }));
        }
        windows.push((inside, padded));
    }
    windows
}

/// Returns the length of a slice with this many pixels.
fn len(pixels: usize, stride: usize, channels: usize) -> usize {
    if pixels == 0 { 0 } else { (pixels - 1) * stride + channels }
}

/// Checks maxima and averages of `f32` and 8-bit values. `gap` elements separate pixels, and `rows` are computed.
fn check(window: &Window, channels: usize, gap: usize, rows: Range<usize>) {
    let (x_stride, y_stride) = (channels + gap, channels + 2 * gap);
    let x_len = len(window.input_len().unwrap(), x_stride, channels);
    let mut x = Guarded::at_end(&noise(x_len));
    let x_quantized: Vec<u8> = x.iter().map(|x| (x * 127.0 + 128.0) as u8).collect();
    let mut x_quantized = Guarded::at_end(&x_quantized);
    let after = [0, 1, 2];
    let expected = pixels(window, rows.clone(), after);
    let y_len = len(expected.len(), y_stride, channels);
    for &isa in Isa::available() {
        for divisor in [None, Some(Divisor::Inside), Some(Divisor::Padded(after))] {
            let mut y = Guarded::at_end(&vec![-7.5; y_len]);
            let image = Image { data: x.slice(), stride: x_stride };
            pool_on(isa, window, channels, image, divisor, rows.clone(), y.slice(), y_stride);
            let mut y_quantized = Guarded::at_end(&vec![99; y_len]);
            let image = Image { data: x_quantized.slice(), stride: x_stride };
            let (rows, output) = (rows.clone(), y_quantized.slice());
            match divisor {
                None => max_on(isa, window, channels, image, rows, output, y_stride),
                Some(divisor) => {
                    let average = Average { divisor, padding: 77 };
                    average_on(isa, window, channels, image, average, rows, output, y_stride);
                }
            }
            for (index, (&actual, &value)) in y.iter().zip(y_quantized.iter()).enumerate() {
                let (pixel, c) = (index / y_stride, index % y_stride);
                let label = (isa, divisor, pixel, c, window);
                if c >= channels {
                    assert_eq!((actual.to_bits(), value), ((-7.5f32).to_bits(), 99), "{label:?}");
                    continue;
                }
                let (inside, padded) = &expected[pixel];
                let values = inside.iter().map(|i| x[i * x_stride + c]);
                let quantized = inside.iter().map(|i| x_quantized[i * x_stride + c]);
                let divisor_of_window = match divisor {
                    None => {
                        let max = values.fold(f32::NEG_INFINITY, f32::max);
                        assert_eq!(actual.to_bits(), max.to_bits(), "{label:?}");
                        assert_eq!(value, quantized.max().unwrap_or(0), "{label:?}");
                        continue;
                    }
                    Some(Divisor::Inside) => inside.len(),
                    Some(Divisor::Padded(_)) => *padded,
                };
                let sum: f64 = values.map(f64::from).sum();
                let mean = sum / divisor_of_window.max(1) as f64;
                assert!((f64::from(actual) - mean).abs() < 3e-6, "{label:?}: {actual}, not {mean}");
                let sum: i64 = quantized.map(i64::from).sum();
                let sum = sum + (divisor_of_window.max(1) - inside.len()) as i64 * 77;
                let mean = (sum as f64 / divisor_of_window.max(1) as f64).round_ties_even();
                assert_eq!(i64::from(value), mean as i64, "{label:?}");
            }
        }
    }
}

#[test]
fn windows_match_the_reference() {
    for window in windows() {
        for &channels in CHANNELS {
            let rows = 0..window.output[0] * window.output[1];
            check(&window, channels, channels % 3, rows);
        }
    }
}

#[test]
fn only_requested_rows_are_computed() {
    let window = Window::square([9, 5], 3, 2, 1);
    for start in 0..=5 {
        for end in start..=5 {
            check(&window, 20, 1, start..end);
        }
    }
}

#[test]
fn nan_is_the_maximum_at_any_position() {
    let window = Window::square([3, 3], 3, 1, 1);
    for &isa in Isa::available() {
        for channels in [5, 16, 70] {
            for special_pixel in 0..9 {
                let mut x = noise(9 * channels);
                x[special_pixel * channels + channels - 1] = f32::NAN;
                x[special_pixel * channels] = f32::INFINITY;
                let mut y = vec![0.0; 9 * channels];
                let image = Image { data: &x, stride: channels };
                pool_on(isa, &window, channels, image, None, 0..3, &mut y, channels);
                for (i, y) in y.iter().enumerate() {
                    let (pixel, c) = (i / channels, i % channels);
                    let is_near = (pixel / 3).abs_diff(special_pixel / 3) < 2
                        && (pixel % 3).abs_diff(special_pixel % 3) < 2;
                    assert_eq!(y.is_nan(), is_near && c == channels - 1, "{isa:?}");
                    assert_eq!(y.is_infinite(), is_near && c == 0, "{isa:?}");
                }
            }
        }
    }
}

#[test]
fn global_pooling_matches_the_reference() {
    for &isa in Isa::available() {
        for &channels in CHANNELS {
            for pixels in [0, 1, 2, 49, 63, 64, 65, 1000] {
                for gap in [0, 3] {
                    let stride = channels + gap;
                    let mut x = Guarded::at_end(&noise(len(pixels, stride, channels)));
                    let quantized: Vec<u8> = x.iter().map(|x| (x * 127.0 + 128.0) as u8).collect();
                    let mut quantized = Guarded::at_end(&quantized);
                    let mut y = Guarded::at_end(&vec![0.0; channels]);
                    let mut sums = Guarded::at_end(&vec![0; channels]);
                    let image = Image { data: x.slice(), stride };
                    global_average_on(isa, image, pixels, y.slice());
                    let image = Image { data: quantized.slice(), stride };
                    global_sums_on(isa, image, pixels, sums.slice());
                    for c in 0..channels {
                        let values = (0..pixels).map(|i| f64::from(x[i * stride + c]));
                        let expected = values.sum::<f64>() / pixels as f64;
                        let error = (f64::from(y[c]) - expected).abs();
                        assert!(error < 1e-5 || pixels == 0 && y[c].is_nan(), "{isa:?}");
                        let values = (0..pixels).map(|i| u32::from(quantized[i * stride + c]));
                        assert_eq!(sums[c], values.sum::<u32>(), "{isa:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn ties_round_to_even() {
    let window = Window::square([1, 2], 2, 2, 0);
    let window = Window { kernel: [1, 1, 2], output: [1, 1, 1], ..window };
    for (quantized, expected) in [([0, 1], 0), ([1, 2], 2), ([2, 3], 2), ([254, 255], 254)] {
        let mut y = [0];
        let x = Image { data: &quantized, stride: 1 };
        average_pool_u8(&window, 1, x, Divisor::Inside, 0, 0..1, &mut y, 1);
        assert_eq!(y, [expected]);
    }
}

#[test]
fn quotients_match_float_division() {
    for divisor in 1..=Quotient::MAX_DIVISOR {
        for sum in 0..=255 * divisor {
            let padding = sum % 77;
            let quotient = Quotient::new(divisor, padding);
            let expected = (sum as f32 / divisor as f32).round_ties_even() as u8;
            // SAFETY: plain Rust, which reads and writes no memory.
            let actual = unsafe { <[u8; 1]>::divide([(sum - padding) as u16], quotient) };
            assert_eq!(actual, [expected], "{sum} / {divisor}");
        }
    }
}

#[test]
fn quotients_of_vectors_match_float_division() {
    let channels = 100;
    for divisor in 1..=Quotient::MAX_DIVISOR {
        let (input, kernel) = ([1, 1, divisor], [1, 1, divisor]);
        let window = Window { input, kernel, output: [1; 3], ..Window::square([1, 1], 1, 1, 0) };
        // Sums from the smallest to the largest.
        let sum = |channel: usize| 255 * divisor * channel / (channels - 1);
        let quantized: Vec<u8> = (0..divisor)
            .flat_map(|pixel| (0..channels).map(move |c| (pixel, c)))
            .map(|(pixel, c)| sum(c).saturating_sub(255 * pixel).min(255) as u8)
            .collect();
        for &isa in Isa::available() {
            let mut y = [0; 100];
            let image = Image { data: &quantized, stride: channels };
            let average = Average { divisor: Divisor::Inside, padding: 0 };
            average_on(isa, &window, channels, image, average, 0..1, &mut y, channels);
            for (c, &y) in y.iter().enumerate() {
                let expected = (sum(c) as f32 / divisor as f32).round_ties_even() as u8;
                assert_eq!(y, expected, "{isa:?} {} / {divisor}", sum(c));
            }
        }
    }
}

#[test]
fn means_of_infinities_follow_ieee() {
    let window = Window::square([2, 3], 2, 1, 0);
    for &isa in Isa::available() {
        for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 3.0] {
            let (x, mut y) = (vec![value; 6 * 20], vec![0.0; 2 * 20]);
            let image = Image { data: &x, stride: 20 };
            pool_on(isa, &window, 20, image, Some(Divisor::Inside), 0..1, &mut y, 20);
            assert!(
                y.iter().all(|y| y.to_bits() == value.to_bits() || (y.is_nan() && value.is_nan())),
                "{isa:?}"
            );
        }
    }
}

#[test]
fn slices_that_are_too_short_are_refused() {
    let window = Window::square([4, 5], 3, 1, 1);
    let is_refused = |x: usize, y: usize, rows: Range<usize>| {
        std::panic::catch_unwind(|| {
            let image = Image { data: &vec![0.0; x], stride: 6 };
            max_pool(&window, 6, image, rows.clone(), &mut vec![0.0; y], 6);
        })
        .is_err()
    };
    assert!(!is_refused(120, 120, 0..4));
    assert!(is_refused(119, 120, 0..4));
    assert!(is_refused(120, 119, 0..4));
    assert!(is_refused(120, 120, 0..5));
    let global = std::panic::catch_unwind(|| {
        global_average(Image { data: &[0.0; 11], stride: 4 }, 3, &mut [0.0; 4]);
    });
    assert!(global.is_err());
}

#[test]
fn pooling_makes_no_heap_calls() {
    let window = Window::square([6, 6], 3, 1, 1);
    let (x, quantized) = (noise(36 * 70), vec![9; 36 * 70]);
    let (mut y, mut y_quantized, mut sums) = (vec![0.0; 36 * 70], vec![0; 36 * 70], vec![0; 70]);
    for &isa in Isa::available() {
        // The first run may allocate, while it detects the instruction set.
        let quiet = (0..1000).any(|_| {
            let before = udo_api::guard::thread_heap_calls();
            let image = Image { data: &x, stride: 70 };
            pool_on(isa, &window, 70, image, None, 0..6, &mut y, 70);
            pool_on(isa, &window, 70, image, Some(Divisor::Inside), 0..6, &mut y, 70);
            global_average_on(isa, image, 36, &mut y[..70]);
            let image = Image { data: &quantized, stride: 70 };
            max_on(isa, &window, 70, image, 0..6, &mut y_quantized, 70);
            let average = Average { divisor: Divisor::Inside, padding: 0 };
            average_on(isa, &window, 70, image, average, 0..6, &mut y_quantized, 70);
            global_sums_on(isa, image, 36, &mut sums);
            udo_api::guard::thread_heap_calls() == before
        });
        assert!(quiet, "each of many poolings called the heap");
    }
}

#[test]
fn the_stride_of_a_single_pixel_does_not_matter() {
    let window = Window::square([1, 1], 1, 1, 0);
    let quantized: [u8; 70] = std::array::from_fn(|i| i as u8);
    for &isa in Isa::available() {
        let mut y = [0; 70];
        let image = Image { data: &quantized, stride: 0 };
        max_on(isa, &window, 70, image, 0..1, &mut y, 0);
        assert_eq!(y, quantized, "{isa:?}");
        let mut y = [0; 70];
        let average = Average { divisor: Divisor::Inside, padding: 0 };
        average_on(isa, &window, 70, image, average, 0..1, &mut y, 0);
        assert_eq!(y, quantized, "{isa:?}");
    }
}

#[test]
fn zero_channels_terminate() {
    global_sums(Image { data: &[], stride: 0 }, usize::MAX, &mut []);
}

#[test]
fn strides_without_a_next_tap_may_overflow() {
    let image = [3; 70];
    let values = image.map(f32::from);
    let one_pixel = Window::square([1, 1], 1, 1, 0);
    let taps = |kernel, dilation| Window {
        kernel: [1, 1, kernel],
        dilations: [1, 1, dilation],
        ..Window::square([1, 1], 1, 1, 0)
    };
    // The second window is outside the image.
    let two_windows = Window { output: [1, 1, 2], ..one_pixel };
    for window in
        [two_windows, taps(1, usize::MAX - 5), taps(2, usize::MAX), taps(3, usize::MAX / 2)]
    {
        let count = window.output[2];
        for &isa in Isa::available() {
            let (mut y, mut y_quantized) = (vec![0.0; count * 70], vec![0; count * 70]);
            let x = Image { data: &values, stride: usize::MAX };
            pool_on(isa, &window, 70, x, None, 0..1, &mut y, 70);
            let expected = [&values[..], &[f32::NEG_INFINITY; 70]].concat();
            assert_eq!(y, expected[..y.len()], "{isa:?} {window:?}");
            let x = Image { data: &image, stride: usize::MAX };
            max_on(isa, &window, 70, x, 0..1, &mut y_quantized, 70);
            assert_eq!(
                y_quantized,
                [image, [0; 70]].concat()[..y_quantized.len()],
                "{isa:?} {window:?}"
            );
        }
    }
}
