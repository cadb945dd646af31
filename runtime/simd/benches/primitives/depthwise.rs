//! Benchmarks of `depthwise`, relative to the slower of copying the bytes and computing the multiply-adds.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::hint::black_box;

use udo_simd::depthwise::{
    Activation, Image, Output, QuantizedWeights, Shape, Weights, depthwise, depthwise_u8, pack,
    pack_u8, packed_len, packed_len_u8,
};
use udo_simd::indirect::{PADDING, Window};
use udo_simd::isa;

use crate::harness::{self, Lines, Summary, Unit, geomean, section};

/// `MobileNet` and `EfficientNet`: side length of the input in pixels, channels, kernel, stride.
const SHAPES: &[(usize, usize, usize, usize)] = &[
    (112, 32, 3, 1),
    (112, 64, 3, 2),
    (56, 128, 3, 1),
    (28, 256, 3, 1),
    (14, 512, 3, 1),
    (7, 1024, 3, 1),
    (28, 240, 5, 1),
    (56, 72, 5, 2),
];

/// AVX-512 instructions per vector of 16 sums for requantization, on the ports of the products: two conversions and a
/// product, and a quarter of three packs, two additions and an inversion.
const REQUANTIZE_INSTRUCTIONS: f64 = 4.5;
/// Operations of an instruction that multiplies and adds a vector.
const OPS_PER_VECTOR: f64 = 128.0;

/// Prints the rows.
pub(crate) fn run(summary: &mut Summary) {
    section("depthwise: a side of the input, channels, kernel, stride; against what binds");
    for (name, row) in [("depthwise", row_f32 as fn(_) -> _), ("depthwise_u8", row_u8)] {
        let fractions: Vec<f64> = SHAPES.iter().map(|&shape| row(shape)).collect();
        println!("  geometric mean {:.1} %", geomean(&fractions) * 100.0);
        summary.add(name, geomean(&fractions));
    }
}

/// Returns the window, and the number of its taps inside the image.
fn window(side: usize, kernel: usize, stride: usize) -> (Window, usize) {
    let window = Window::square([side, side], kernel, stride, kernel / 2);
    let mut table = vec![0; window.table_len().unwrap()];
    assert!(window.fill(&mut table));
    (window, table.iter().filter(|&&pixel| pixel != PADDING).count())
}

/// Measures a layer of floating-point numbers, and returns the fraction of the binding limit.
fn row_f32((side, channels, kernel, stride): (usize, usize, usize, usize)) -> f64 {
    let (window, taps) = window(side, kernel, stride);
    let shape = Shape { window, channels, multiplier: 1 };
    let (inputs, outputs) = (side * side * channels, window.rows().unwrap() * channels);
    let (mut x, mut y) = (Lines::new(inputs), Lines::new(outputs));
    x.slice().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 17) as f32 / 17.0 - 0.5);
    let weights: Vec<f32> =
        (0..kernel * kernel * channels).map(|i| (i % 23) as f32 / 23.0).collect();
    let mut packed = Lines::new(packed_len(kernel * kernel, channels).unwrap());
    pack(&weights, kernel * kernel, channels, packed.slice());
    let bias = vec![0.5; channels];
    let (x, y, packed) = (x.slice(), y.slice(), packed.slice());
    // The final clamp takes as long as two multiply-adds.
    let (bytes, ops) =
        (((inputs + outputs) * 4) as f64, (2 * (taps * channels + 2 * outputs)) as f64);
    let name = format!("f32 {side}x{side}x{channels}, {kernel}x{kernel} by {stride}");
    harness::bound(&name, "bytes", bytes, (Unit::Flops, ops), || {
        let weights = Weights { packed, bias: Some(&bias), activation: Activation::Relu6 };
        let x = Image { data: black_box(&*x), stride: channels };
        depthwise(&shape, x, &weights, 0..window.output[1], black_box(y), channels);
    })
}

/// Measures a quantized layer, and returns the fraction of the binding limit.
fn row_u8((side, channels, kernel, stride): (usize, usize, usize, usize)) -> f64 {
    let (window, taps) = window(side, kernel, stride);
    let shape = Shape { window, channels, multiplier: 1 };
    let (inputs, outputs) = (side * side * channels, window.rows().unwrap() * channels);
    let (mut x, mut y) = (Lines::new(inputs), Lines::new(outputs));
    x.slice().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 251) as u8);
    let weights: Vec<i8> =
        (-128..=127).cycle().step_by(37).take(window.taps().unwrap() * channels).collect();
    let mut packed = Lines::new(packed_len_u8(window.kernel, channels).unwrap());
    pack_u8(&weights, window.kernel, channels, packed.slice());
    let (bias, scales) = (vec![77; channels], vec![0.000_3; channels]);
    let (x, y, packed) = (x.slice(), y.slice(), packed.slice());
    let name = format!("u8 {side}x{side}x{channels}, {kernel}x{kernel} by {stride}");
    // Requantization competes with the products for ports.
    let requantize_ops = if isa().is_avx512() {
        outputs as f64 / 16.0 * REQUANTIZE_INSTRUCTIONS * OPS_PER_VECTOR
    } else {
        0.0
    };
    let (bytes, ops) = ((inputs + outputs) as f64, (2 * taps * channels) as f64 + requantize_ops);
    harness::bound(&name, "bytes", bytes, (Unit::Ops8, ops), || {
        let weights = QuantizedWeights {
            packed,
            zero_point: 9,
            zero_points: &[],
            bias: &bias,
            scales: &scales,
        };
        let x = Image { data: black_box(&*x), stride: channels };
        let output = Output::U8 { to: black_box(&mut *y), zero_point: 128 };
        depthwise_u8(&shape, x, &weights, 0..window.output[1], output, channels);
    })
}
