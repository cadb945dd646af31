//! Benchmarks of `conv_f32`.
#![expect(clippy::unwrap_used, reason = "the shapes are within memory")]

use std::hint::black_box;

use udo_simd::conv_f32::{Algorithm, Plan, Shape, Strides, Transposed};
use udo_simd::gemm_f32::Epilogue;
use udo_simd::indirect::Window;

use crate::harness::{self, Lines, Summary, Unit, geomean, section};

/// A layer: height and width, input and output channels of all groups, kernel, stride, dilation, groups. The output
/// size is the input size divided by the stride.
type Layer = (&'static str, usize, usize, usize, usize, usize, usize, usize);

/// The 3x3 layers of ResNet-50.
const RESNET: &[Layer] = &[
    ("resnet50 3x3", 56, 64, 64, 3, 1, 1, 1),
    ("resnet50 3x3", 28, 128, 128, 3, 1, 1, 1),
    ("resnet50 3x3", 14, 256, 256, 3, 1, 1, 1),
    ("resnet50 3x3", 7, 512, 512, 3, 1, 1, 1),
];

/// Layers of other networks.
const OTHER_LAYERS: &[Layer] = &[
    ("resnet50 3x3 s2", 56, 128, 128, 3, 2, 1, 1),
    ("resnet50 3x3 s2", 28, 256, 256, 3, 2, 1, 1),
    ("resnet50 3x3 s2", 14, 512, 512, 3, 2, 1, 1),
    ("first 7x7 s2", 224, 3, 64, 7, 2, 1, 1),
    ("first 3x3 s2", 224, 3, 32, 3, 2, 1, 1),
    ("dilation 2", 28, 128, 128, 3, 1, 2, 1),
    ("32 groups", 28, 256, 256, 3, 1, 1, 32),
    ("1x1", 28, 128, 512, 1, 1, 1, 1),
    ("1x1 s2", 56, 256, 512, 1, 2, 1, 1),
];

/// Transposed layers with stride 2: height and width, channels in and out, kernel.
const TRANSPOSED: &[(&str, usize, usize, usize, usize)] =
    &[("transposed 4x4 s2", 28, 128, 64, 4), ("transposed 3x3 s2", 28, 128, 64, 3)];

/// Prints the rows.
pub(crate) fn run(summary: &mut Summary) {
    section("conv_f32: height x width x channels -> channels; padding counts as work");
    let fractions: Vec<f64> = RESNET.iter().map(row).collect();
    for layer in OTHER_LAYERS {
        row(layer);
    }
    TRANSPOSED.iter().for_each(transposed);
    let fraction = geomean(&fractions);
    println!("  geometric mean of the first four {:>30.1} %", fraction * 100.0);
    summary.add("conv3x3", fraction);
}

/// Fills `values` with numbers between -0.5 and 0.5 that repeat after `period` values.
fn fill(values: &mut [f32], period: usize) {
    for (i, x) in values.iter_mut().enumerate() {
        *x = (i % period) as f32 / period as f32 - 0.5;
    }
}

/// Measures a layer, and returns the fraction of the peak.
fn row(&(name, extent, channels, outputs, kernel, stride, dilation, groups): &Layer) -> f64 {
    let mut window = Window::square([extent; 2], kernel, stride, kernel / 2 * dilation);
    window.dilations = [1, dilation, dilation];
    window.output = [1, extent.div_ceil(stride), extent.div_ceil(stride)];
    let shape = Shape { window, channels: channels / groups, outputs: outputs / groups, groups };
    let plan = Plan::new(&shape).unwrap();
    let mut table = vec![0; plan.table_len()];
    assert!(plan.fill(&mut table), "the table has another length");
    let taps = kernel * kernel;
    let mut weights = vec![0.0; outputs * shape.channels * taps];
    fill(&mut weights, 23);
    let mut packed = Lines::new(plan.packed_len());
    plan.pack(&weights, &Strides::onnx(&shape), packed.slice());
    let mut input = Lines::new(extent * extent * channels);
    fill(input.slice(), 17);
    let mut workspace = Lines::new(plan.workspace_len());
    let mut output = Lines::new(plan.rows() * outputs);
    let (input, packed) = (input.slice(), packed.slice());
    let (output, workspace) = (output.slice(), workspace.slice());
    let ops = 2.0 * (plan.rows() * outputs * shape.channels * taps) as f64;
    let label = format!("{name} {extent}x{extent}x{channels}->{outputs}");
    harness::row(&label, Unit::Flops, ops, || {
        plan.pad(input, [channels, 1], workspace);
        let padded = plan.algorithm() == Algorithm::IndirectRows;
        let image = if padded { &*workspace } else { &*input };
        let rows = 0..plan.rows();
        plan.run(image, channels, &table, packed, rows, output, outputs, &Epilogue::default());
        black_box(&mut *output);
    })
}

/// Measures a transposed layer.
fn transposed(&(name, extent, channels, outputs, kernel): &(&str, usize, usize, usize, usize)) {
    let mut window = Window::square([extent; 2], kernel, 2, 1);
    window.output = [1, 2 * extent, 2 * extent];
    let shape = Shape { window, channels, outputs, groups: 1 };
    let plan = Transposed::new(&shape).unwrap();
    let mut table = vec![0; plan.table_len()];
    assert!(plan.fill(&mut table), "the table has another length");
    let mut weights = vec![0.0; outputs * channels * kernel * kernel];
    fill(&mut weights, 23);
    let mut packed = Lines::new(plan.packed_len());
    plan.pack(&weights, &Strides::onnx_transposed(&shape), packed.slice());
    let mut input = Lines::new(extent * extent * channels);
    let mut output = Lines::new(4 * extent * extent * outputs);
    fill(input.slice(), 17);
    let (input, packed, output) = (input.slice(), packed.slice(), output.slice());
    let ops = 2.0 * (extent * extent * channels * outputs * kernel * kernel) as f64;
    let label = format!("{name} {extent}x{extent}x{channels}->{outputs}");
    harness::row(&label, Unit::Flops, ops, || {
        let lines = 0..plan.lines();
        plan.run(input, channels, &table, packed, lines, output, outputs, &Epilogue::default());
        black_box(&mut *output);
    });
}
