//! Compares 8-bit and 16-bit convolutions with 64-bit sums, tap by tap, on every instruction set.

use std::ops::Range;

use super::*;
use crate::indirect::PADDING;
use crate::indirect::Window;
use crate::isa::Isa;
use crate::testing::Guarded;

/// A pseudo-random number generator (xorshift), with the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// A convolution with its parameters; values are at most 255 for `conv`.
struct Case {
    shape: Shape,
    batch: Batch,
    table: Vec<u32>,
    quantized: Vec<u16>,
    pixel: usize,
    zero: u16,
    weights: Vec<i8>,
    weight_zeros: Vec<i8>,
    bias: Vec<i32>,
    scales: Vec<f32>,
    stride: usize,
}

impl Case {
    /// Creates a case with a table over images of this many pixels.
    fn new(
        random: &mut Random,
        shape: Shape,
        table: Vec<u32>,
        pixels: usize,
        highest: u16,
    ) -> Self {
        let Shape { groups, channels, outputs, taps, run } = shape;
        let pixel = if run > 1 { channels } else { groups * channels + random.below(3) };
        let width = groups * channels * run;
        let image = (pixels.max(1) - 1) * pixel + width + random.below(2) * 5;
        let n = groups * outputs;
        let stride = (n + random.below(2) * 3).max(1);
        let rows = table.len() / (taps / run);
        let count = 1 + random.below(2);
        let len = (count - 1) * image + (pixels.max(1) - 1) * pixel + width;
        let parameter_len = |random: &mut Random| [0, 1, n][random.below(3)];
        let (zero_count, bias_count) = (parameter_len(random), parameter_len(random));
        let unit_scale = 1.0 / (f32::from(highest) * ((taps * channels).max(1) as f32).sqrt());
        let scale = |random: &mut Random| match random.below(60) {
            0 => f32::NAN,
            1 => 3e30,
            _ => unit_scale * random.below(1000) as f32 / 300.0,
        };
        let value = |random: &mut Random| (random.next() % (u64::from(highest) + 1)) as u16;
        Self {
            shape,
            batch: Batch { count, input: image, output: (rows * stride + random.below(2)).max(1) },
            table,
            quantized: (0..len).map(|_| value(random)).collect(),
            pixel,
            zero: value(random),
            weights: (0..n * channels * taps).map(|_| random.next() as i8).collect(),
            weight_zeros: (0..zero_count).map(|_| random.next() as i8).collect(),
            bias: (0..bias_count).map(|_| random.next() as i32 >> 18).collect(),
            scales: (0..random.pick(&[1, n])).map(|_| scale(random)).collect(),
            stride,
        }
    }

    fn sum(&self, image: usize, row: usize, column: usize) -> i64 {
        let Shape { channels, outputs, taps, run, .. } = self.shape;
        let weight_zero = i64::from(pick(&self.weight_zeros, column).unwrap_or(0));
        let mut sum = i64::from(pick(&self.bias, column).unwrap_or(0));
        for tap in 0..taps {
            let entry = self.table[row * (taps / run) + tap / run];
            for channel in 0..channels {
                let weight = self.weights[(column * channels + channel) * taps + tap];
                let value = if entry == PADDING {
                    self.zero
                } else {
                    let pixel = image * self.batch.input + entry as usize * self.pixel;
                    self.quantized
                        [pixel + tap % run * channels + column / outputs * channels + channel]
                };
                let value = i64::from(value) - i64::from(self.zero);
                sum += value * (i64::from(weight) - weight_zero);
            }
        }
        sum
    }

    /// Compares every instruction set and output with the sums, with 8-bit or 16-bit input values.
    fn check(&self, is_16_bit: bool) {
        let Self { shape, batch, stride, .. } = *self;
        let n = shape.groups * shape.outputs;
        let rows = self.table.len() / shape.columns().unwrap();
        let image = (rows * stride).saturating_sub(stride - n);
        let len = if rows == 0 { 0 } else { (batch.count - 1) * batch.output + image };
        let mut packed = Guarded::at_end(&vec![0x55i8; shape.packed_len().unwrap()]);
        let weights = Guarded::at_end(&self.weights);
        assert!(pack(&weights, &shape, packed.slice()));
        let bytes: Vec<u8> = self.quantized.iter().map(|&value| value as u8).collect();
        let (values8, values16) = (Guarded::at_end(&bytes), Guarded::at_end(&self.quantized));
        let padding = vec![self.zero; shape.padding_len().unwrap()];
        let bytes: Vec<u8> = padding.iter().map(|&value| value as u8).collect();
        let (padding8, padding16) = (Guarded::at_end(&bytes), Guarded::at_end(&padding));
        let table = Guarded::at_end(&self.table);
        let input8 = Input {
            data: &values8,
            stride: self.pixel,
            zero_point: self.zero as u8,
            padding: &padding8,
        };
        let input16 = Input {
            data: &values16,
            stride: self.pixel,
            zero_point: self.zero,
            padding: &padding16,
        };
        let zero_points = &self.weight_zeros;
        let filter = Weights { shape, packed: packed.slice(), zero_points };
        let position_of = |index: usize| {
            let (image, in_image) = if batch.count == 1 {
                (0, index)
            } else {
                (index / batch.output, index % batch.output)
            };
            let (row, column) = (in_image / stride, in_image % stride);
            (row < rows && column < n).then_some((image, row, column))
        };
        let sums: Vec<_> = (0..len)
            .map(|index| position_of(index).map(|(b, r, c)| (self.sum(b, r, c), c)))
            .collect();
        for &isa in Isa::available() {
            let label = format!("{isa:?} {shape:?} {batch:?} rows {rows} wide {is_16_bit}");
            self.compare(&sums, is_16_bit, &label, |output| {
                let (kernels, bias) = (kernels(isa), &self.bias);
                if is_16_bit {
                    conv_u16_by(kernels, &batch, &input16, &filter, &table, bias, output, stride)
                } else {
                    conv_by(kernels, &batch, &input8, &filter, &table, bias, output, stride)
                }
            });
        }
    }

    /// Runs with every output, and compares with the sum and column of each element.
    fn compare(
        &self,
        sums: &[Option<(i64, usize)>],
        is_16_bit: bool,
        label: &str,
        run: impl Fn(Output<'_>) -> Result<(), ConvError>,
    ) {
        let scale = |column: usize| pick(&self.scales, column).unwrap();
        let (len, depth) = (sums.len(), self.shape.taps * self.shape.channels);
        let requantized = |(sum, column): (i64, usize), zero: f32| {
            let value = (sum as f32 * scale(column)).round_ties_even() + zero;
            if value.is_nan() { f32::NEG_INFINITY } else { value }
        };
        let scales = &self.scales;

        let mut output = Guarded::at_end(&vec![7i32; len]);
        let result = run(Output::I32(output.slice()));
        if is_16_bit && depth > MAX_K_U16_SUMS {
            assert_eq!(result, Err(ConvError::TooDeep), "{label}");
        } else {
            assert_eq!(result, Ok(()), "{label}");
            for (index, (&actual, sum)) in output.iter().zip(sums).enumerate() {
                assert_eq!(actual, sum.map_or(7, |(sum, _)| sum as i32), "{label} at {index}");
            }
        }

        let mut output = Guarded::at_end(&vec![7f32; len]);
        let (bias, activation) = (&[0.25], Activation::Relu);
        assert_eq!(
            run(Output::F32 { to: output.slice(), scales, bias, activation }),
            Ok(()),
            "{label}"
        );
        for (index, (actual, sum)) in output.iter().zip(sums).enumerate() {
            let expected = sum.map_or(7.0, |(sum, column)| {
                let value = sum as f32 * scale(column) + 0.25;
                if value < 0.0 { 0.0 } else { value }
            });
            let is_equal =
                actual.to_bits() == expected.to_bits() || actual.is_nan() && expected.is_nan();
            assert!(is_equal, "{label} at {index}: {actual} for {expected}");
        }

        for zero_point in [0, 128, 131] {
            let mut output = Guarded::at_end(&vec![7u8; len]);
            assert_eq!(
                run(Output::U8 { to: output.slice(), scales, zero_point }),
                Ok(()),
                "{label}"
            );
            for (index, (&actual, sum)) in output.iter().zip(sums).enumerate() {
                let expected = sum.map_or(7, |sum| requantized(sum, f32::from(zero_point)) as u8);
                assert_eq!(actual, expected, "{label} at {index}");
            }
        }

        for zero_point in [0, -5] {
            let mut output = Guarded::at_end(&vec![7i8; len]);
            assert_eq!(
                run(Output::I8 { to: output.slice(), scales, zero_point }),
                Ok(()),
                "{label}"
            );
            for (index, (&actual, sum)) in output.iter().zip(sums).enumerate() {
                let expected = sum.map_or(7, |sum| requantized(sum, f32::from(zero_point)) as i8);
                assert_eq!(actual, expected, "{label} at {index}");
            }
        }

        let mut output = Guarded::at_end(&vec![7u16; len]);
        let zero_point = 40_000;
        assert_eq!(run(Output::U16 { to: output.slice(), scales, zero_point }), Ok(()), "{label}");
        for (index, (&actual, sum)) in output.iter().zip(sums).enumerate() {
            let expected = sum.map_or(7, |sum| requantized(sum, 40_000.0) as u16);
            assert_eq!(actual, expected, "{label} at {index}");
        }
    }
}

/// Returns the element for a column from a slice with one element per column, one for all columns, or none.
fn pick<T: Copy>(values: &[T], column: usize) -> Option<T> {
    if let [one] = values { Some(*one) } else { values.get(column).copied() }
}

/// Returns the table of a window.
fn filled(window: &Window) -> Vec<u32> {
    let mut table = vec![0; window.table_len().unwrap()];
    assert!(window.fill(&mut table));
    table
}

fn one_group(channels: usize, outputs: usize, taps: usize) -> Shape {
    Shape { groups: 1, channels, outputs, taps, run: 1 }
}

#[test]
fn windows_over_one_to_three_axes_are_exact() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..150 {
        let axes = 1 + round % 3;
        let mut each = |values: [usize; 4], none: usize| {
            std::array::from_fn(|i| if i + axes < 3 { none } else { random.pick(&values) })
        };
        let (input, kernel): ([usize; 3], [usize; 3]) =
            (each([1, 2, 4, 5], 1), each([1, 2, 3, 3], 1));
        let (strides, dilations) = (each([1, 1, 2, 3], 1), each([1, 1, 1, 2], 1));
        let (pads, output) = (each([0, 1, 1, 2], 0), each([1, 2, 3, 5], 1));
        let window = Window { input, output, kernel, strides, dilations, pads };
        let taps = window.taps().unwrap();
        let shape = Shape {
            groups: random.pick(&[1, 1, 2, 3]),
            channels: random.pick(&[1, 2, 3, 4, 5, 7, 8, 16, 17]),
            outputs: random.pick(&[1, 2, 5, 16, 17, 33, 50, 64, 70]),
            taps,
            run: 1,
        };
        let table = filled(&window);
        let pixels = window.input_len().unwrap();
        let wide = round % 5 == 0;
        let highest = if wide { 65_535 } else { 255 };
        Case::new(&mut random, shape, table, pixels, highest).check(wide);
    }
}

#[test]
fn random_tables_are_exact() {
    let mut random = Random(99);
    for channels in [0, 1, 3, 4, 6, 31, 64] {
        for outputs in [0, 1, 16, 31, 48, 64, 100] {
            let (taps, pixels) = (1 + random.below(6), 1 + random.below(9));
            let rows = random.pick(&[0, 1, 2, 6, 7, 8, 9, 13]);
            let entry = |random: &mut Random| match random.below(5) {
                0 => PADDING,
                1 => pixels as u32 - 1,
                _ => random.below(pixels) as u32,
            };
            let table: Vec<u32> = (0..rows * taps).map(|_| entry(&mut random)).collect();
            let shape = one_group(channels, outputs, taps);
            Case::new(&mut random, shape, table.clone(), pixels, 255).check(false);
            Case::new(&mut random, shape, table, pixels, 65_535).check(true);
        }
    }
}

#[test]
fn convolutions_of_several_blocks_are_exact() {
    let mut random = Random(3);
    let window = Window::square([25, 24], 3, 1, 1);
    Case::new(&mut random, one_group(4, 65, 9), filled(&window), 600, 255).check(false);
    let window = Window::square([3, 3], 3, 1, 1);
    Case::new(&mut random, one_group(130, 20, 9), filled(&window), 9, 255).check(false);
    Case::new(&mut random, one_group(130, 20, 9), filled(&window), 9, 65_535).check(true);
    for channels in [20, 48, 64, 65, 96] {
        let window = Window::square([13, 12], 3, 1, 1);
        Case::new(&mut random, one_group(channels, 70, 9), filled(&window), 156, 255).check(false);
    }
}

/// Compares unpadded images read tap by tap with padded ones read in runs.
#[test]
fn runs_of_padded_images_match_their_taps() {
    let (size, channels, outputs, zero) = ([9, 8], 3, 20, 77u8);
    let mut random = Random(8);
    let image: Vec<u8> = (0..size[0] * size[1] * channels).map(|_| random.next() as u8).collect();
    let weights: Vec<i8> = (0..outputs * channels * 25).map(|_| random.next() as i8).collect();
    let window = Window::square(size, 5, 2, 2);
    let convolved = |shape: Shape, quantized: &[u8], table: &[u32]| {
        let mut packed = vec![0; shape.packed_len().unwrap()];
        assert!(pack(&weights, &shape, &mut packed));
        let padding = vec![zero; shape.padding_len().unwrap()];
        let input =
            Input { data: quantized, stride: channels, zero_point: zero, padding: &padding };
        let filter = Weights { shape, packed: &packed, zero_points: &[3] };
        let mut sums = vec![0; window.rows().unwrap() * outputs];
        let output = Output::I32(&mut sums);
        assert_eq!(conv(&Batch::ONE, &input, &filter, table, &[], output, outputs), Ok(()));
        sums
    };
    let shape = one_group(channels, outputs, 25);
    let expected = convolved(shape, &image, &filled(&window));
    let padded_size = [size[0] + 4, size[1] + 4];
    let mut padded = vec![0; padded_size[0] * padded_size[1] * channels];
    assert!(pad(&image, size, channels, [2, 2], [2, 2], zero, &mut padded));
    let runs = Window {
        input: [1, padded_size[0], padded_size[1]],
        kernel: [1, 5, 1],
        pads: [0; 3],
        ..window
    };
    let shape = Shape { run: 5, ..shape };
    assert_eq!(convolved(shape, &padded, &filled(&runs)), expected);
    Case::new(&mut random, shape, filled(&runs), runs.input_len().unwrap() - 4, 255).check(false);
    Case::new(&mut random, shape, filled(&runs), runs.input_len().unwrap() - 4, 65_535).check(true);
}

#[test]
fn padding_surrounds_the_image() {
    let mut padded = [9; 4 * 5];
    assert!(pad(&[1, 2, 3, 4], [1, 2], 2, [1, 1], [2, 2], 0, &mut [0; 40]));
    assert!(pad(&[1, 2, 3, 4], [2, 2], 1, [1, 2], [1, 1], 0, &mut padded));
    assert_eq!(padded, [0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0]);
    assert!(!pad(&[1, 2, 3], [2, 2], 1, [1, 2], [1, 1], 0, &mut padded));
    assert!(!pad(&[1, 2, 3, 4], [2, 2], 1, [1, usize::MAX], [1, 1], 0, &mut padded));
    assert!(pad::<u8>(&[], [0, 3], 1, [0, 0], [0, 0], 0, &mut []));
}

#[test]
fn weights_of_one_tap_are_those_of_a_matrix() {
    use crate::gemm_u8::{Strides, pack_b, packed_len};
    let weights: Vec<i8> = (0..70 * 13).map(|i| i as i8).collect();
    let shape = one_group(13, 70, 1);
    assert_eq!(shape.packed_len(), packed_len(13, 70));
    let mut packed = [vec![0; packed_len(13, 70).unwrap()], vec![1; packed_len(13, 70).unwrap()]];
    assert!(pack(&weights, &shape, &mut packed[0]));
    assert!(pack_b(&weights, Strides { k: 1, n: 13 }, 13, 70, &mut packed[1]));
    assert_eq!(packed[0], packed[1]);
}

#[test]
fn contradictory_arguments_are_refused() {
    let shape = one_group(5, 2, 2);
    let packed = vec![0; shape.packed_len().unwrap()];
    let run = |shape: Shape, packed: &[i8], quantized: usize, padding: usize, table: &[u32]| {
        let (quantized, padding) = (vec![0u8; quantized], vec![0; padding]);
        let input = Input { data: &quantized, stride: 6, zero_point: 0, padding: &padding };
        let filter = Weights { shape, packed, zero_points: &[] };
        let mut to = [0; 4];
        conv(&Batch::ONE, &input, &filter, table, &[], Output::I32(&mut to), 2)
    };
    assert_eq!(run(shape, &packed, 11, 0, &[0, 1, 1, 1]), Ok(()));
    assert_eq!(run(shape, &packed, 11, 8, &[0, PADDING, 1, 1]), Ok(()));
    assert_eq!(run(shape, &packed, 0, 8, &[PADDING; 4]), Ok(()));
    assert_eq!(run(shape, &packed, 11, 7, &[0, PADDING, 1, 1]), Err(ConvError::Padding));
    assert_eq!(run(shape, &packed, 11, 8, &[0, 1, 2, 1]), Err(ConvError::Table));
    assert_eq!(run(shape, &packed, 11, 8, &[0, 1, PADDING - 1, 1]), Err(ConvError::Table));
    assert_eq!(run(shape, &packed, 4, 8, &[0, PADDING]), Err(ConvError::Table));
    assert_eq!(run(shape, &packed, 11, 8, &[0, 1, 1]), Err(ConvError::Table));
    assert_eq!(run(shape, &packed, 11, 8, &[0; 6]), Err(ConvError::Output));
    assert_eq!(run(shape, &packed[1..], 11, 8, &[0; 4]), Err(ConvError::Weights));
    assert_eq!(run(Shape { taps: 0, ..shape }, &packed, 11, 8, &[]), Err(ConvError::Weights));
    assert_eq!(run(Shape { run: 0, ..shape }, &packed, 11, 8, &[]), Err(ConvError::Weights));
    let grouped = Shape { run: 2, groups: 2, ..shape };
    assert_eq!(run(grouped, &packed, 11, 8, &[]), Err(ConvError::Weights));
    let deep = Shape { taps: MAX_K, ..shape };
    assert_eq!(run(deep, &packed, 11, 8, &[]), Err(ConvError::TooDeep));
    let input = Input { data: &[0u8; 11], stride: 6, zero_point: 0, padding: &[] };
    let filter = Weights { shape, packed: &packed, zero_points: &[0; 3] };
    let mut sums = [0; 8];
    let result = conv(&Batch::ONE, &input, &filter, &[0, 1], &[], Output::I32(&mut sums), 2);
    assert_eq!(result, Err(ConvError::Columns));
    let filter = Weights { zero_points: &[], ..filter };
    let batched = |batch: Batch| {
        let mut to = [0; 8];
        conv(&batch, &input, &filter, &[0, 0], &[], Output::I32(&mut to), 2)
    };
    assert_eq!(batched(Batch { count: 2, input: 6, output: 6 }), Ok(()));
    assert_eq!(batched(Batch { count: 2, input: 7, output: 6 }), Err(ConvError::Table));
    assert_eq!(batched(Batch { count: 2, input: 6, output: 7 }), Err(ConvError::Output));
    assert_eq!(batched(Batch { count: 2, input: 6, output: 1 }), Err(ConvError::Output));
    assert_eq!(batched(Batch { count: 0, input: 6, output: 1 }), Ok(()));
    assert_eq!(Shape { channels: usize::MAX, ..shape }.packed_len(), None);
    let none = Shape { groups: 0, ..shape };
    assert_eq!(run(none, &[], 11, 8, &[0, 1]), Ok(()));
}

#[test]
fn convolutions_make_no_heap_calls() {
    let shape = one_group(7, 40, 9);
    let window = Window::square([6, 6], 3, 1, 1);
    let mut table = vec![0; window.table_len().unwrap()];
    let weights = vec![3i8; 7 * 40 * 9];
    let mut packed = vec![0; shape.packed_len().unwrap()];
    let (values8, values16) = (vec![200u8; 36 * 7], vec![60_000u16; 36 * 7]);
    let mut bytes = vec![0u8; 36 * 40];
    // The first run may allocate, while it detects the instruction set.
    let clean = (0..1000).any(|_| {
        let before = udo_api::guard::thread_heap_calls();
        assert!(window.fill(&mut table));
        assert!(pack(&weights, &shape, &mut packed));
        let filter = Weights { shape, packed: &packed, zero_points: &[1] };
        for &isa in Isa::available() {
            let (kernels, batch) = (kernels(isa), &Batch::ONE);
            let input = Input { data: &values8, stride: 7, zero_point: 3, padding: &[3; 8] };
            let output = Output::U8 { to: &mut bytes, scales: &[0.1], zero_point: 1 };
            assert_eq!(conv_by(kernels, batch, &input, &filter, &table, &[], output, 40), Ok(()));
            let input = Input { data: &values16, stride: 7, zero_point: 3, padding: &[3; 8] };
            let output = Output::U8 { to: &mut bytes, scales: &[0.1], zero_point: 1 };
            assert_eq!(
                conv_u16_by(kernels, batch, &input, &filter, &table, &[], output, 40),
                Ok(())
            );
        }
        udo_api::guard::thread_heap_calls() == before
    });
    assert!(clean);
}

#[test]
fn the_stride_of_a_single_pixel_does_not_matter() {
    let shape = one_group(64, 5, 3);
    let mut packed = vec![0; shape.packed_len().unwrap()];
    assert!(pack(&[1; 64 * 5 * 3], &shape, &mut packed));
    let filter = Weights { shape, packed: &packed, zero_points: &[] };
    let (quantized, padding) = (Guarded::at_end(&[1; 64]), Guarded::at_end(&[0; 64]));
    let table = [PADDING, 0, 0].repeat(20);
    for &isa in Isa::available() {
        for stride in [0, 64, usize::MAX / 2, usize::MAX] {
            let input = Input { data: &quantized, stride, zero_point: 0, padding: &padding };
            let (kernels, mut sums) = (kernels(isa), [0; 100]);
            let output = Output::I32(&mut sums);
            let result = conv_by(kernels, &Batch::ONE, &input, &filter, &table, &[], output, 5);
            assert_eq!((result, sums), (Ok(()), [128; 100]), "{isa:?} stride {stride}");
        }
    }
}

// Transposed convolution on every instruction set, compared with scattering each input pixel.

/// Returns the sums of a transposed convolution by scattering each input pixel: output pixels with channels last.
fn scattered(
    window: &Window,
    [groups, channels, outputs]: [usize; 3],
    (values, zero): (&[u8], u8),
    (weights, weight_zeros): (&[i8], &[i8]),
    bias: &[i32],
) -> Vec<i32> {
    let Window { input, output, kernel, strides, dilations, pads } = *window;
    let n = groups * outputs;
    let taps = window.taps().unwrap();
    let mut sums: Vec<i32> =
        (0..window.rows().unwrap() * n).map(|index| pick(bias, index % n).unwrap_or(0)).collect();
    let positions = |ends: [usize; 3]| {
        (0..ends.iter().product()).map(move |index: usize| {
            [index / ends[2] / ends[1], index / ends[2] % ends[1], index % ends[2]]
        })
    };
    for (pixel, input_position) in positions(input).enumerate() {
        for (tap, kernel_position) in positions(kernel).enumerate() {
            let output_position = [0, 1, 2].map(|i| {
                (input_position[i] * strides[i] + kernel_position[i] * dilations[i])
                    .checked_sub(pads[i])
            });
            let [Some(d), Some(r), Some(c)] = output_position else { continue };
            if d >= output[0] || r >= output[1] || c >= output[2] {
                continue;
            }
            let output_position = (d * output[1] + r) * output[2] + c;
            for (column, channel) in (0..n).flat_map(|n| (0..channels).map(move |c| (n, c))) {
                let channel = column / outputs * channels + channel;
                let weight = weights[(channel * outputs + column % outputs) * taps + tap];
                let weight = i32::from(weight) - i32::from(pick(weight_zeros, column).unwrap_or(0));
                let value = i32::from(values[pixel * groups * channels + channel]);
                sums[output_position * n + column] += (value - i32::from(zero)) * weight;
            }
        }
    }
    sums
}

/// Checks a transposed convolution on every instruction set, with the rows computed in parts.
fn check_transposed(random: &mut Random, window: Window, shape: [usize; 3]) {
    let [groups, channels, outputs] = shape;
    let plan = Transposed::new(window, groups, channels, outputs).unwrap();
    let (n, columns, pixels) = (groups * outputs, plan.columns(), window.rows().unwrap());
    let mut bytes = |len: usize| (0..len).map(|_| random.next() as u8).collect::<Vec<_>>();
    let values = bytes(window.input_len().unwrap() * groups * channels);
    let signed = |bytes: Vec<u8>| bytes.into_iter().map(u8::cast_signed).collect::<Vec<_>>();
    let weights = signed(bytes(groups * channels * outputs * window.taps().unwrap()));
    let zeros = signed(bytes(n));
    let bias: Vec<i32> = bytes(n).into_iter().map(|b| i32::from(b) * 31 - 4000).collect();
    let zero_point = bytes(1)[0];
    let expected = scattered(&window, shape, (&values, zero_point), (&weights, &zeros), &bias);
    let mut packed = Guarded::at_end(&vec![0x55i8; plan.packed_len()]);
    assert!(plan.pack(&Guarded::at_end(&weights), packed.slice()));
    let mut table = Guarded::at_end(&vec![7u32; plan.table_len()]);
    assert!(plan.fill(table.slice()));
    let (bias, zeros) = (bias.repeat(plan.repeats()), zeros.repeat(plan.repeats()));
    let (values, padding) =
        (Guarded::at_end(&values), Guarded::at_end(&vec![zero_point; plan.padding_len()]));
    let (data, stride) = (&values, groups * channels);
    let input = Input { data, stride, zero_point, padding: &padding };
    for &isa in Isa::available() {
        let mut sums = Guarded::at_end(&vec![9i32; plan.rows() * columns]);
        let height = plan.rows().div_ceil(3).max(1);
        for first in (0..plan.rows()).step_by(height) {
            let rows = first..(first + height).min(plan.rows());
            let to = &mut sums.slice()[rows.start * columns..rows.end * columns];
            let filter = (&packed[..], &zeros[..]);
            let result =
                plan.run_on(isa, rows, &input, filter, &table, &bias, Output::I32(to), columns);
            assert_eq!(result, Ok(()));
        }
        let lines = window.output[0] * window.output[1];
        for pitch in [n, n + 3] {
            let mut y = vec![-1; pixels * pitch];
            let middle = lines / 2;
            let (top, bottom) = y.split_at_mut(middle * window.output[2] * pitch);
            plan.arrange(&sums, 0..middle, top, pitch);
            plan.arrange(&sums, middle..lines, bottom, pitch);
            for (index, expected) in expected.iter().enumerate() {
                let actual = y[index / n * pitch + index % n];
                assert_eq!(actual, *expected, "{isa:?} {window:?} {shape:?} at {index}");
            }
            assert!(pitch == n || y.chunks(pitch).all(|pixel| pixel[n..] == [-1; 3]));
        }
        assert!(!plan.is_in_order() || sums[..] == expected[..]);
    }
}

#[test]
fn transposed_convolutions_are_exact() {
    let mut random = Random(0x51);
    for round in 0..250 {
        let axes = 1 + round % 3;
        let mut each = |values: [usize; 4], none: usize| -> [usize; 3] {
            std::array::from_fn(|i| if i + axes < 3 { none } else { random.pick(&values) })
        };
        let (input, kernel) = (each([1, 2, 3, 5], 1), each([1, 2, 3, 4], 1));
        let (strides, dilations) = (each([1, 2, 2, 3], 1), each([1, 1, 1, 2], 1));
        let (mut pads, more) = (each([0, 0, 1, 2], 0), each([0, 0, 1, 4], 0));
        let mut output = [1; 3];
        for axis in 3 - axes..3 {
            let full = (input[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1;
            pads[axis] = pads[axis].min(full - 1);
            output[axis] = full - pads[axis] + more[axis];
        }
        let window = Window { input, output, kernel, strides, dilations, pads };
        let shape = [
            random.pick(&[1, 1, 2, 3]),
            random.pick(&[1, 2, 3, 4, 5, 8, 17]),
            random.pick(&[1, 2, 5, 16, 17, 33]),
        ];
        check_transposed(&mut random, window, shape);
    }
    for (kernel, channels, outputs) in [(2, 24, 24), (2, 24, 1), (3, 5, 64), (1, 8, 8)] {
        let window = Window {
            output: [1, 4 * kernel, 7 * kernel],
            strides: [1, kernel, kernel],
            ..Window::square([4, 7], kernel, 1, 0)
        };
        let plan = Transposed::new(window, 1, channels, outputs).unwrap();
        assert_eq!((plan.repeats(), plan.table_len()), (kernel * kernel, 0));
        check_transposed(&mut random, window, [1, channels, outputs]);
    }
}

#[test]
fn inconsistent_transposed_convolutions_are_refused() {
    let window =
        Window { output: [1, 5, 5], strides: [1, 2, 2], ..Window::square([2, 2], 3, 1, 0) };
    let plan = Transposed::new(window, 1, 3, 2).unwrap();
    assert_eq!(Transposed::new(Window { strides: [1, 0, 1], ..window }, 1, 3, 2), None);
    assert_eq!(Transposed::new(window, 1, usize::MAX, 2), None);
    assert_eq!(Transposed::new(window, usize::MAX, 3, 2), None);
    let (mut packed, mut table) = (vec![0; plan.packed_len()], vec![0; plan.table_len()]);
    assert!(!plan.pack(&[0; 53], &mut packed) && !plan.pack(&[0; 54], &mut packed[1..]));
    assert!(plan.pack(&[0; 54], &mut packed) && plan.fill(&mut table));
    assert!(!plan.fill(&mut table[1..]));
    let padding = [0; 4];
    let input = Input { data: &[0u8; 12], stride: 3, zero_point: 0, padding: &padding };
    let run = |input: &Input<'_, u8>, packed: &[i8], table: &[u32], rows: usize, len: usize| {
        let mut to = vec![0; len];
        plan.run(0..rows, input, (packed, &[]), table, &[], Output::I32(&mut to), 2)
    };
    assert_eq!(run(&input, &packed, &table, 25, 50), Ok(()));
    assert_eq!(run(&input, &packed, &table, 26, 52), Err(ConvError::Table));
    assert_eq!(run(&input, &packed, &table[1..], 25, 50), Err(ConvError::Table));
    assert_eq!(run(&input, &packed[1..], &table, 25, 50), Err(ConvError::Weights));
    assert_eq!(run(&input, &packed, &table, 25, 49), Err(ConvError::Output));
    assert_eq!(run(&input, &packed, &table, 25, 3), Err(ConvError::Output));
    let short = Input { data: &[0u8; 11], ..input };
    assert_eq!(run(&short, &packed, &table, 25, 50), Err(ConvError::Table));
    let window =
        Window { output: [1, 4, 4], strides: [1, 2, 2], ..Window::square([2, 2], 2, 1, 0) };
    let plan = Transposed::new(window, 1, 3, 2).unwrap();
    let packed = vec![0; plan.packed_len()];
    let run = |data: &[u8], rows: Range<usize>, len: usize, bias: &[i32]| {
        let (input, mut to) = (Input { data, ..input }, vec![0; len]);
        plan.run(rows, &input, (&packed, &[]), &[], bias, Output::I32(&mut to), 8)
    };
    assert_eq!(run(&[0; 12], 0..4, 32, &[]), Ok(()));
    assert_eq!(run(&[0; 11], 0..4, 32, &[]), Err(ConvError::Table));
    assert_eq!(run(&[0; 5], 3..4, 32, &[]), Err(ConvError::Table));
    assert_eq!(run(&[0; 12], 0..4, 31, &[]), Err(ConvError::Output));
    assert_eq!(run(&[0; 12], 0..4, 32, &[0; 2]), Err(ConvError::Columns));
}
