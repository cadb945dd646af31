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
const OTHERS: &[Layer] = &[
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
    for layer in OTHERS {
        row(layer);
    }
    TRANSPOSED.iter().for_each(transposed);
    let fraction = geomean(&fractions);
    println!("  geometric mean of the first four {:>30.1} %", fraction * 100.0);
    summary.add("conv3x3", fraction);
}

fn fill(values: &mut [f32], period: usize) {
    for (i, x) in values.iter_mut().enumerate() {
        *x = (i % period) as f32 / period as f32 - 0.5;
    }
}

fn row(&(name, extent, input, output, kernel, stride, dilation, groups): &Layer) -> f64 {
    let mut window = Window::square([extent; 2], kernel, stride, kernel / 2 * dilation);
    window.dilations = [1, dilation, dilation];
    window.output = [1, extent.div_ceil(stride), extent.div_ceil(stride)];
    let shape = Shape { window, channels: input / groups, outputs: output / groups, groups };
    let plan = Plan::new(&shape).unwrap();
    let mut table = vec![0; plan.table_len()];
    assert!(plan.fill(&mut table), "the table has another length");
    let taps = kernel * kernel;
    let mut weights = vec![0.0; output * shape.channels * taps];
    fill(&mut weights, 23);
    let mut packed = Lines::new(plan.packed_len());
    plan.pack(&weights, &Strides::onnx(&shape), packed.slice());
    let mut a = Lines::new(extent * extent * input);
    fill(a.slice(), 17);
    let mut workspace = Lines::new(plan.workspace_len());
    let mut c = Lines::new(plan.rows() * output);
    let (a, packed, c, workspace) = (a.slice(), packed.slice(), c.slice(), workspace.slice());
    let work = 2.0 * (plan.rows() * output * shape.channels * taps) as f64;
    let label = format!("{name} {extent}x{extent}x{input}->{output}");
    harness::row(&label, Unit::Flops, work, || {
        plan.pad(a, [input, 1], workspace);
        let a = if plan.algorithm() == Algorithm::IndirectRows { &*workspace } else { &*a };
        let rows = 0..plan.rows();
        plan.run(a, input, &table, packed, rows, c, output, &Epilogue::default());
        black_box(&mut *c);
    })
}

fn transposed(&(name, extent, input, output, kernel): &(&str, usize, usize, usize, usize)) {
    let mut window = Window::square([extent; 2], kernel, 2, 1);
    window.output = [1, 2 * extent, 2 * extent];
    let shape = Shape { window, channels: input, outputs: output, groups: 1 };
    let plan = Transposed::new(&shape).unwrap();
    let mut table = vec![0; plan.table_len()];
    assert!(plan.fill(&mut table), "the table has another length");
    let mut weights = vec![0.0; output * input * kernel * kernel];
    fill(&mut weights, 23);
    let mut packed = Lines::new(plan.packed_len());
    plan.pack(&weights, &Strides::onnx_transposed(&shape), packed.slice());
    let (mut a, mut c) =
        (Lines::new(extent * extent * input), Lines::new(4 * extent * extent * output));
    fill(a.slice(), 17);
    let (a, packed, c) = (a.slice(), packed.slice(), c.slice());
    let work = 2.0 * (extent * extent * input * output * kernel * kernel) as f64;
    let label = format!("{name} {extent}x{extent}x{input}->{output}");
    harness::row(&label, Unit::Flops, work, || {
        let lines = 0..plan.lines();
        plan.run(a, input, &table, packed, lines, c, output, &Epilogue::default());
        black_box(&mut *c);
    });
}
