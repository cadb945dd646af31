//! Compares convolutions with a naive convolution, on every instruction set.

use super::*;
use crate::gemm_f32;
use crate::gemm_f32::{Activation, Epilogue, kernels};
use crate::indirect::Window;
use crate::isa::Isa;
use crate::testing::Guarded;
use crate::testing::noise;

/// The memory layout of a case, its epilogue, and the division of its output.
#[derive(Clone, Copy, Debug)]
struct Options {
    /// Gap between pixels in elements.
    gap: usize,
    bias: bool,
    residual: bool,
    activation: Activation,
    /// Number of parts that are computed separately.
    parts: usize,
}

const PLAIN: Options =
    Options { gap: 0, bias: false, residual: false, activation: Activation::None, parts: 1 };
const ALL: Options =
    Options { gap: 3, bias: true, residual: true, activation: Activation::Relu6, parts: 3 };

fn window(input: [usize; 3], kernel: [usize; 3], strides: [usize; 3]) -> Window {
    let output = [0, 1, 2].map(|i| (input[i] + 2 - kernel[i].min(input[i] + 2)) / strides[i] + 1);
    Window { input, output, kernel, strides, dilations: [1; 3], pads: [1; 3] }
}

fn square(extent: usize, kernel: usize, stride: usize, pad: usize) -> Window {
    Window::square([extent; 2], kernel, stride, pad)
}

fn shape(window: Window, channels: usize, outputs: usize, groups: usize) -> Shape {
    Shape { window, channels, outputs, groups }
}

fn positions([d, r, c]: [usize; 3]) -> Vec<[usize; 3]> {
    let positions = (0..d * r * c).map(|i| [i / (r * c), i / c % r, i % c]);
    positions.collect()
}

fn index(position: [usize; 3], extents: [usize; 3]) -> usize {
    (position[0] * extents[1] + position[1]) * extents[2] + position[2]
}

/// For each output pixel, the input pixels that it reads, each with its tap.
type Reads = Vec<Vec<(usize, usize)>>;

fn conv_reads(window: &Window) -> Reads {
    let mut reads = vec![vec![]; positions(window.output).len()];
    for output in positions(window.output) {
        for tap in positions(window.kernel) {
            let input = [0, 1, 2].map(|i| {
                (output[i] * window.strides[i] + tap[i] * window.dilations[i])
                    .wrapping_sub(window.pads[i])
            });
            if (0..3).all(|i| input[i] < window.input[i]) {
                reads[index(output, window.output)]
                    .push((index(input, window.input), index(tap, window.kernel)));
            }
        }
    }
    reads
}

/// Scatters each input pixel to the output pixels that it contributes to, which is the definition of the operator.
fn transposed_reads(window: &Window) -> Reads {
    let mut reads = vec![vec![]; positions(window.output).len()];
    for input in positions(window.input) {
        for tap in positions(window.kernel) {
            let output = [0, 1, 2].map(|i| {
                (input[i] * window.strides[i] + tap[i] * window.dilations[i])
                    .wrapping_sub(window.pads[i])
            });
            if (0..3).all(|i| output[i] < window.output[i]) {
                reads[index(output, window.output)]
                    .push((index(input, window.input), index(tap, window.kernel)));
            }
        }
    }
    reads
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Relu6 => x.clamp(0.0, 6.0),
        Activation::None => x,
        Activation::Relu | Activation::Clamp(..) | Activation::Gelu => {
            unreachable!("no case has it")
        }
    }
}

/// The operands of a convolution, next to protected pages.
struct Memory {
    a: Guarded<f32>,
    lda: usize,
    weights: Guarded<f32>,
    bias: Guarded<f32>,
    residual: Guarded<f32>,
    ld_residual: usize,
    c: Guarded<f32>,
    ldc: usize,
}

const UNTOUCHED: f32 = -7.5;

impl Memory {
    fn new(shape: &Shape, gap: usize) -> Self {
        let (inputs, outputs) = (shape.groups * shape.channels, shape.groups * shape.outputs);
        let len = |pixels: [usize; 3], cols: usize, ld: usize| match pixels.iter().product() {
            0 => 0,
            _ if cols == 0 => 0,
            pixels => (pixels - 1) * ld + cols,
        };
        let Window { input, output, kernel, .. } = shape.window;
        let (lda, ldc, ld_residual) = (inputs + gap, outputs + gap, outputs + 2 * gap);
        let weights = kernel.iter().product::<usize>() * inputs * shape.outputs;
        Self {
            a: Guarded::at_end(&noise(len(input, inputs, lda))),
            lda,
            weights: Guarded::at_end(&noise(weights)),
            bias: Guarded::at_end(&noise(outputs)),
            residual: Guarded::at_end(&noise(len(output, outputs, ld_residual))),
            ld_residual,
            c: Guarded::at_end(&vec![UNTOUCHED; len(output, outputs, ldc)]),
            ldc,
        }
    }

    /// Returns the arguments for a part of the output that starts at a pixel.
    fn part(&mut self, pixel: usize, options: Options) -> (&[f32], &mut [f32], Epilogue<'_>) {
        let from = |len: usize, ld: usize| (pixel * ld).min(len);
        let residual = &self.residual[from(self.residual.len(), self.ld_residual)..];
        let epilogue = Epilogue {
            bias: options.bias.then_some(&self.bias[..]),
            residual: options.residual.then_some((residual, self.ld_residual)),
            activation: options.activation,
        };
        let c = from(self.c.len(), self.ldc);
        (&self.a, &mut self.c[c..], epilogue)
    }

    /// Compares each element. The error of a sum of `k` products is at most `(k + 3) eps sum |a b|`.
    fn check(&self, shape: &Shape, strides: &Strides, reads: &Reads, options: Options) {
        let Shape { channels, outputs, groups, .. } = *shape;
        for (i, &actual) in self.c.iter().enumerate() {
            let (pixel, col) = (i / self.ldc, i % self.ldc);
            if col >= groups * outputs {
                assert_eq!(actual.to_bits(), UNTOUCHED.to_bits(), "gap after {pixel} of {shape:?}");
                continue;
            }
            let (group, output) = (col / outputs, col % outputs);
            let (mut sum, mut magnitude) = (0.0, 0.0);
            let mut add = |x: f64| (sum += x, magnitude += x.abs());
            for &(input_pixel, tap) in &reads[pixel] {
                for channel in 0..channels {
                    let a = self.a[input_pixel * self.lda + group * channels + channel];
                    let w = group * strides.group
                        + output * strides.output
                        + channel * strides.channel
                        + tap * strides.tap;
                    add(f64::from(a) * f64::from(self.weights[w]));
                }
            }
            options.bias.then(|| add(self.bias[col].into()));
            options.residual.then(|| add(self.residual[pixel * self.ld_residual + col].into()));
            let expected = activate(options.activation, sum);
            let steps = (reads[pixel].len() * channels) as f64 + 3.0;
            let eps = f64::from(f32::EPSILON);
            let bound = 1.2 * steps * eps * magnitude + 4.0 * eps * expected.abs();
            let error = (f64::from(actual) - expected).abs();
            let case = (shape, options);
            assert!(
                error <= bound,
                "({pixel}, {col}) of {case:?} is {actual}, expected {expected}"
            );
        }
    }
}

/// Returns the ranges of nearly equal parts.
fn parts(len: usize, count: usize) -> Vec<std::ops::Range<usize>> {
    (0..count).map(|i| len * i / count..len * (i + 1) / count).collect()
}

fn check(
    kernels: &'static gemm_f32::MicroKernels,
    shape: &Shape,
    strides: &Strides,
    options: Options,
) {
    let plan = Plan::with_kernels(kernels, shape).unwrap();
    let mut memory = Memory::new(shape, options.gap);
    let mut table = Guarded::at_end(&vec![9; plan.table_len()]);
    assert!(plan.fill(table.slice()));
    let mut packed = Guarded::at_end(&vec![f32::NAN; plan.packed_len()]);
    plan.pack(memory.weights.slice(), strides, packed.slice());
    let mut workspace = Guarded::at_end(&vec![f32::NAN; plan.workspace_len()]);
    let (lda, ldc) = (memory.lda, memory.ldc);
    plan.pad(&memory.a, [lda, 1], workspace.slice());
    for rows in parts(plan.rows(), options.parts) {
        let (a, c, epilogue) = memory.part(rows.start, options);
        let a = if plan.algorithm() == Algorithm::IndirectRows { &workspace[..] } else { a };
        plan.run(a, lda, &table, &packed, rows, c, ldc, &epilogue);
    }
    memory.check(shape, strides, &conv_reads(&shape.window), options);
}

fn check_transposed(kernels: &'static gemm_f32::MicroKernels, shape: &Shape, options: Options) {
    let plan = Transposed::with_kernels(kernels, shape).unwrap();
    let mut memory = Memory::new(shape, options.gap);
    let mut table = Guarded::at_end(&vec![9; plan.table_len()]);
    assert!(plan.fill(table.slice()));
    let mut packed = Guarded::at_end(&vec![f32::NAN; plan.packed_len()]);
    let strides = Strides::onnx_transposed(shape);
    plan.pack(memory.weights.slice(), &strides, packed.slice());
    let (lda, ldc) = (memory.lda, memory.ldc);
    for lines in parts(plan.lines(), options.parts) {
        let (a, c, epilogue) = memory.part(lines.start * shape.window.output[2], options);
        plan.run(a, lda, &table, &packed, lines, c, ldc, &epilogue);
    }
    memory.check(shape, &strides, &transposed_reads(&shape.window), options);
}

fn all_kernels() -> impl Iterator<Item = &'static gemm_f32::MicroKernels> {
    Isa::available().iter().map(|&isa| kernels(isa))
}

fn both_ways(kernels: &'static gemm_f32::MicroKernels, shape: &Shape) {
    check(kernels, shape, &Strides::onnx(shape), PLAIN);
    check(kernels, shape, &Strides::hwio(shape), ALL);
}

#[test]
fn convolutions_match_for_any_number_of_channels() {
    for kernels in all_kernels() {
        for channels in [1, 2, 7, 8, 9, 16, 31] {
            for outputs in [1, 2, 7, 8, 9, 15, 16, 17, 33, 47, 48, 49, 64, 65, 97] {
                both_ways(kernels, &shape(square(5, 3, 1, 1), channels, outputs, 1));
            }
        }
    }
}

#[test]
fn convolutions_match_for_any_extent_and_stride() {
    for kernels in all_kernels() {
        for extent in [1, 2, 3, 7, 8, 13, 14, 17] {
            for kernel in [1, 2, 3, 5] {
                for stride in [1, 2, 3] {
                    for pad in [0, 1, 2] {
                        for channels in [3, 12] {
                            let window = square(extent, kernel, stride, pad);
                            both_ways(kernels, &shape(window, channels, 10, 1));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn convolutions_match_over_three_axes_with_dilations_and_groups() {
    for kernels in all_kernels() {
        for (groups, channels, outputs) in [(1, 3, 5), (1, 9, 40), (2, 4, 8), (3, 5, 17), (8, 1, 1)]
        {
            for dilations in [[1; 3], [1, 2, 1], [2, 1, 3]] {
                for (input, kernel, strides) in [
                    ([4, 5, 6], [2, 3, 3], [1, 2, 1]),
                    ([1, 1, 23], [1, 1, 4], [1, 1, 2]),
                    ([3, 9, 2], [3, 1, 2], [2, 1, 1]),
                ] {
                    let window = Window { dilations, ..window(input, kernel, strides) };
                    both_ways(kernels, &shape(window, channels, outputs, groups));
                }
            }
        }
    }
}

#[test]
fn convolutions_of_several_blocks_match() {
    for kernels in all_kernels() {
        for (window, channels, outputs, groups) in [
            (square(29, 3, 1, 1), 5, 20, 2),
            (square(20, 11, 1, 5), 9, 7, 1),
            (square(20, 11, 2, 5), 3, 20, 1),
            (square(6, 3, 1, 1), 1200, 3, 1),
            (square(3, 2, 1, 0), 2500, 50, 1),
            (square(9, 3, 1, 1), 150, 70, 1),
            (square(48, 1, 1, 0), 3, 2, 2),
            (square(96, 1, 2, 0), 4, 3, 1),
        ] {
            both_ways(kernels, &shape(window, channels, outputs, groups));
        }
    }
}

#[test]
fn windows_beyond_the_image_are_padding() {
    for kernels in all_kernels() {
        let far = Window { pads: [0, 9, 9], output: [1, 4, 30], ..square(4, 3, 1, 0) };
        for channels in [2, 20] {
            both_ways(kernels, &shape(far, channels, 18, 1));
            both_ways(kernels, &shape(Window { output: [1, 1, 2], ..far }, channels, 18, 1));
        }
        let silu = Options { activation: Activation::Silu, ..ALL };
        let shape = shape(far, 11, 33, 1);
        check(kernels, &shape, &Strides::onnx(&shape), silu);
    }
}

#[test]
fn transposed_convolutions_match() {
    for kernels in all_kernels() {
        for (extent, kernel, stride, pad) in [
            (5, 3, 1, 1),
            (5, 4, 2, 1),
            (14, 3, 2, 1),
            (3, 2, 3, 0),
            (4, 1, 2, 0),
            (1, 5, 4, 2),
            (9, 6, 3, 0),
        ] {
            let full = (extent - 1) * stride + kernel;
            for (channels, outputs, groups) in [(3, 5, 1), (20, 64, 1), (4, 8, 3), (7, 17, 2)] {
                for (more, dilation) in [(0, 1), (1, 1), (0, 2), (2, 3)] {
                    let output = full - 2 * pad + more + (dilation - 1) * (kernel - 1);
                    let mut window = square(extent, kernel, stride, pad);
                    window.output = [1, output, output];
                    window.dilations = [1, dilation, dilation];
                    let shape = shape(window, channels, outputs, groups);
                    check_transposed(kernels, &shape, PLAIN);
                    check_transposed(kernels, &shape, ALL);
                }
            }
        }
    }
}

#[test]
fn transposed_convolutions_match_over_three_axes() {
    for kernels in all_kernels() {
        for strides in [[2, 3, 1], [1, 2, 4], [3, 1, 2]] {
            let input = [3, 4, 5];
            let kernel = [2, 3, 3];
            let output = [0, 1, 2].map(|i| (input[i] - 1) * strides[i] + kernel[i] - 1);
            let window =
                Window { input, output, kernel, strides, dilations: [1; 3], pads: [1, 0, 1] };
            for parts in [1, 2, 5, 40] {
                check_transposed(kernels, &shape(window, 6, 9, 2), Options { parts, ..ALL });
            }
        }
    }
}

#[test]
fn empty_sums_are_the_bias_and_residual() {
    for kernels in all_kernels() {
        for shape in [
            shape(square(4, 3, 1, 1), 0, 5, 2),
            shape(Window { kernel: [1, 0, 3], ..square(4, 3, 1, 1) }, 5, 5, 1),
            shape(Window { kernel: [1, 0, 3], ..square(4, 3, 1, 1) }, 12, 5, 1),
            shape(square(4, 3, 1, 1), 5, 0, 2),
            shape(square(4, 1, 1, 0), 0, 5, 1),
            shape(Window { output: [1, 0, 4], ..square(4, 3, 1, 1) }, 5, 5, 1),
            shape(Window { input: [1, 0, 4], ..square(4, 3, 1, 1) }, 12, 5, 1),
        ] {
            check(kernels, &shape, &Strides::onnx(&shape), PLAIN);
            check(kernels, &shape, &Strides::onnx(&shape), ALL);
            check_transposed(kernels, &shape, PLAIN);
            check_transposed(kernels, &shape, ALL);
        }
    }
}

#[test]
fn algorithms_are_chosen_as_documented() {
    let algorithm = |window: Window, channels: usize, groups: usize| {
        Plan::new(&shape(window, channels, 8, groups)).unwrap().algorithm()
    };
    assert_eq!(algorithm(square(8, 1, 1, 0), 16, 2), Algorithm::Gemm);
    assert_eq!(algorithm(square(8, 1, 2, 0), 16, 1), Algorithm::Indirect);
    assert_eq!(algorithm(square(8, 1, 1, 1), 16, 1), Algorithm::Indirect);
    assert_eq!(algorithm(square(8, 3, 2, 1), 3, 1), Algorithm::IndirectRows);
    assert_eq!(algorithm(square(8, 3, 2, 1), 3, 2), Algorithm::Indirect);
    let dilated = Window { dilations: [1, 1, 2], ..square(8, 3, 2, 1) };
    assert_eq!(algorithm(dilated, 3, 1), Algorithm::Indirect);
}

#[test]
fn padded_copies_do_not_depend_on_the_image_layout() {
    for isa in Isa::available() {
        for (channels, extent, pad) in [(1, 9, 1), (2, 40, 0), (3, 37, 1), (4, 35, 2), (3, 5, 3)] {
            let shape = shape(square(extent, 3, 2, pad), channels, 4, 1);
            let plan = Plan::new(&shape).unwrap();
            let (len, pixels) = (plan.workspace_len(), extent * extent);
            let image = noise(pixels * channels);
            let planar: Vec<f32> =
                (0..image.len()).map(|i| image[i % pixels * channels + i / pixels]).collect();
            // Pixels with gaps between them, except after the last.
            let mut spaced = vec![f32::NAN; pixels * (channels + 2) - 2];
            for (pixel, source) in spaced.chunks_mut(channels + 2).zip(image.chunks(channels)) {
                pixel[..channels].copy_from_slice(source);
            }
            let width = plan.padded_line_len() / channels;
            let padded_value = |line: usize, x: usize, channel: usize| {
                let [line, x] = [line, x].map(|padded_value| {
                    padded_value.checked_sub(pad).filter(|&padded_value| padded_value < extent)
                });
                line.zip(x).map_or(0.0, |(line, x)| image[(line * extent + x) * channels + channel])
            };
            let expected: Vec<f32> = (0..len)
                .map(|i| padded_value(i / channels / width, i / channels % width, i % channels))
                .collect();
            for (image, strides) in
                [(&image, [channels, 1]), (&planar, [1, pixels]), (&spaced, [channels + 2, 1])]
            {
                // In pieces of some lines.
                let mut copy = Guarded::at_end(&vec![f32::NAN; len]);
                let lines_len = plan.padded_line_len() * 4;
                for (index, copy) in copy.slice().chunks_mut(lines_len).enumerate() {
                    let mut image = Guarded::at_end(image);
                    plan.pad_lines_on(*isa, image.slice(), strides, index * 4, copy);
                }
                assert_eq!(copy.slice(), expected, "{channels} channels, {isa:?}");
            }
        }
    }
}

#[test]
fn onnx_weights_are_packed_like_those_of_a_plan() {
    for (channels, outputs, groups, kernel) in
        [(2, 3, 1, 3), (5, 17, 2, 3), (3, 70, 1, 7), (9, 8, 1, 1)]
    {
        let shape = shape(square(12, kernel, 1, kernel / 2), channels, outputs, groups);
        let weights = noise(groups * outputs * channels * kernel * kernel);
        let plan = Plan::new(&shape).unwrap();
        // Previous contents must not affect the result, in particular the zeros that padding reads.
        let [mut packed, mut packed_onnx] =
            [1e30, 2e30].map(|contents| vec![contents; plan.packed_len()]);
        plan.pack(&weights, &Strides::onnx(&shape), &mut packed);
        Plan::pack_onnx([groups, outputs, channels, kernel * kernel], &weights, &mut packed_onnx);
        assert_eq!(packed, packed_onnx, "{shape:?}");
    }
}

#[test]
fn shapes_that_overflow_have_no_plan() {
    let huge = shape(square(1 << 20, 3, 1, 1), 3, 8, 1);
    assert!(Plan::new(&huge).is_none());
    let wide = shape(square(4, 3, 1, 1), usize::MAX / 4, 8, 1);
    assert!(Plan::new(&wide).is_none());
    assert!(Transposed::new(&wide).is_none());
    let deep = shape(square(4, 3, 1, 1), 8, usize::MAX - 3, 1);
    assert!(Plan::new(&deep).is_none());
    assert!(Transposed::new(&deep).is_none());
    let still = shape(Window { strides: [1, 0, 1], ..square(4, 3, 1, 1) }, 8, 8, 1);
    assert!(Transposed::new(&still).is_none());
}

#[test]
fn convolutions_make_no_heap_calls() {
    for kernels in all_kernels() {
        let (taps, runs) =
            (shape(square(9, 3, 1, 1), 40, 50, 2), shape(square(9, 3, 2, 1), 3, 9, 1));
        for shape in [taps, runs] {
            let plan = Plan::with_kernels(kernels, &shape).unwrap();
            let weights = noise(9 * 40 * 100);
            let a = noise(81 * 80);
            let mut packed = vec![0.0; plan.packed_len()];
            let mut table = vec![0; plan.table_len()];
            let mut workspace = vec![0.0; plan.workspace_len()];
            let mut c = vec![0.0; 81 * 100];
            // The first run may allocate, while it detects the instruction set.
            let quiet = (0..1000).any(|_| {
                let before = udo_api::guard::thread_heap_calls();
                let filled = plan.fill(&mut table);
                plan.pack(&weights, &Strides::onnx(&shape), &mut packed);
                plan.pad(&a, [3, 1], &mut workspace);
                let image = if workspace.is_empty() { &a } else { &workspace };
                let rows = 0..plan.rows();
                plan.run(image, 80, &table, &packed, rows, &mut c, 100, &Epilogue::default());
                filled && udo_api::guard::thread_heap_calls() == before
            });
            assert!(quiet, "each of many convolutions called the heap");
        }
        let shape = shape(square(9, 3, 2, 1), 40, 50, 2);
        let plan = Transposed::with_kernels(kernels, &shape).unwrap();
        let (weights, a) = (noise(9 * 40 * 100), noise(81 * 80));
        let mut packed = vec![0.0; plan.packed_len()];
        let mut table = vec![0; plan.table_len()];
        let mut c = vec![0.0; 81 * 100];
        let quiet = (0..1000).any(|_| {
            let before = udo_api::guard::thread_heap_calls();
            let filled = plan.fill(&mut table);
            plan.pack(&weights, &Strides::onnx_transposed(&shape), &mut packed);
            let lines = 0..plan.lines();
            plan.run(&a, 80, &table, &packed, lines, &mut c, 100, &Epilogue::default());
            filled && udo_api::guard::thread_heap_calls() == before
        });
        assert!(quiet, "each of many transposed convolutions called the heap");
    }
}

#[test]
fn inconsistent_shapes_have_no_plan() {
    let shape = Shape {
        window: Window::square([4, 4], 3, 1, 1),
        channels: usize::MAX,
        outputs: 8,
        groups: 0,
    };
    assert!(Plan::new(&shape).is_none());
    assert!(Transposed::new(&shape).is_none());
}
