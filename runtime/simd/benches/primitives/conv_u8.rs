//! Benchmarks of `conv_u8`: prepacked weights and prepared table, requantized output.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::hint::black_box;

use udo_simd::conv_u8::{Batch, Input, Output, Shape, Weights, conv, pack, pad};
use udo_simd::indirect::Window;

use crate::harness::{self, Lines, Summary, Unit, geomean, section};

/// ResNet-50: side length in pixels, channels, output channels, stride; all 3x3 with a padding of 1.
const LAYERS: &[(usize, usize, usize, usize)] = &[
    (56, 64, 64, 1),
    (28, 128, 128, 1),
    (14, 256, 256, 1),
    (7, 512, 512, 1),
    (56, 128, 128, 2),
    (28, 256, 256, 2),
    (14, 512, 512, 2),
];

/// Prints the rows.
pub(crate) fn run(summary: &mut Summary) {
    section("conv_u8: u8 x i8, requantized to u8; side x side x channels -> output channels");
    let mut fractions = Vec::new();
    for &(side, channels, outputs, stride) in LAYERS {
        let window = Window::square([side, side], 3, stride, 1);
        let shape = Shape { groups: 1, channels, outputs, taps: 9, run: 1 };
        let name = format!("3x3 {side}x{side}x{channels}->{outputs} stride {stride}");
        fractions.push(row(&name, &window, shape, None));
    }
    let fraction = geomean(&fractions);
    println!("  geometric mean of 3x3: {:.1} %", fraction * 100.0);
    summary.add("conv3x3_u8", fraction);
    let window = Window::square([224, 224], 7, 2, 3);
    let shape = Shape { groups: 1, channels: 3, outputs: 64, taps: 49, run: 1 };
    row("7x7 224x224x3->64 stride 2, tap by tap", &window, shape, None);
    let runs = Window { input: [1, 230, 230], kernel: [1, 7, 1], pads: [0; 3], ..window };
    let shape = Shape { run: 7, ..shape };
    row("7x7 224x224x3->64 stride 2, padded, in runs", &runs, shape, Some(3));
}

/// Measures a layer, and returns the fraction of the peak. With a border, the window is of a padded image, and the copy
/// into it is measured too.
fn row(name: &str, window: &Window, shape: Shape, border: Option<usize>) -> f64 {
    let Shape { channels, outputs, taps, .. } = shape;
    let mut table = vec![0; window.table_len().unwrap()];
    assert!(window.fill(&mut table));
    let pads = [border.unwrap_or(0); 2];
    let size = [window.input[1] - 2 * pads[0], window.input[2] - 2 * pads[1]];
    let image: Vec<u8> = (0..=255).cycle().step_by(31).take(size[0] * size[1] * channels).collect();
    let mut padded = Lines::new(window.input_len().unwrap() * channels);
    let padded = padded.slice();
    let weights: Vec<i8> =
        (-128..=127).cycle().step_by(37).take(outputs * channels * taps).collect();
    let mut packed = Lines::new(shape.packed_len().unwrap());
    let packed = packed.slice();
    assert!(pack(&weights, &shape, packed));
    let padding = vec![9; shape.padding_len().unwrap()];
    let (bias, scales) = (vec![77; outputs], vec![0.000_3; outputs]);
    let pixels = window.rows().unwrap();
    let mut result = Lines::new(pixels * outputs);
    let result = result.slice();
    let ops = 2 * pixels * outputs * channels * taps;
    harness::row(name, Unit::Ops8, ops as f64, || {
        if border.is_some() {
            assert!(pad(black_box(&image), size, channels, pads, pads, 9, padded));
        }
        let data = black_box(if border.is_some() { &*padded } else { &image });
        let input = Input { data, stride: channels, zero_point: 9, padding: &padding };
        let filter = Weights { shape, packed: black_box(&*packed), zero_points: &[] };
        let output = Output::U8 { to: black_box(&mut *result), scales: &scales, zero_point: 128 };
        conv(&Batch::ONE, &input, &filter, black_box(&table), &bias, output, outputs).unwrap();
    })
}
