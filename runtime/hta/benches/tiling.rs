//! The cost of tiling: layers of `MobileNet` at 224x224, compiled for each SoC, compared with the primitive on the
//! whole image. `cargo bench -p udo-hta` prints a table of microseconds and ratios.
#![expect(
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::expect_used,
    reason = "a benchmark prints numbers, and stops where something is wrong"
)]

use std::hint::black_box;
use std::time::Instant;

use udo_hta::{
    Encoding, Layer, Limits, Network, Op, Program, SOCS, Soc, Tensor, TensorId, Values, Weights,
    Window, compile,
};
use udo_simd::conv_u8::{self, Batch, Input};
use udo_simd::depthwise::{self, Image, QuantizedWeights};
use udo_simd::gemm_u8::{self, Lhs, Output, Rhs};
use udo_simd::indirect;

/// Name, height and width, channels, outputs, kernel, stride, and whether the layer is depthwise.
const LAYERS: &[(&str, usize, usize, usize, usize, usize, bool)] = &[
    ("3x3 stride 2, 224, 3 to 32", 224, 3, 32, 3, 2, false),
    ("3x3 by channel, 112, 32", 112, 32, 32, 3, 1, true),
    ("1x1, 112, 32 to 64", 112, 32, 64, 1, 1, false),
    ("3x3 by channel, 56, 128", 56, 128, 128, 3, 1, true),
    ("1x1, 56, 128 to 128", 56, 128, 128, 1, 1, false),
    ("3x3, 56, 64 to 64", 56, 64, 64, 3, 1, false),
    ("1x1, 28, 256 to 256", 28, 256, 256, 1, 1, false),
    ("1x1, 14, 512 to 512", 14, 512, 512, 1, 1, false),
    ("1x1, 7, 1024 to 1024", 7, 1024, 1024, 1, 1, false),
];

const ENCODING: Encoding = Encoding { scale: 0.05, zero_point: 128 };
const SCALES: [f32; 1] = [0.002];
const ROUNDS: usize = 60;

/// A layer with its data. Shapes are height, width and channels.
struct Case {
    window: Window,
    input: [usize; 3],
    output: [usize; 3],
    is_depthwise: bool,
    weights: Vec<i8>,
    bias: Vec<i32>,
    values: Vec<u8>,
}

/// Returns bytes without a pattern.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

impl Case {
    fn new(row: &(&str, usize, usize, usize, usize, usize, bool)) -> Self {
        let &(_, extent, channels, outputs, kernel, stride, is_depthwise) = row;
        let pad = kernel / 2;
        // With stride 2, an even extent needs one row less before the image.
        let before = if stride == 2 { pad - 1 } else { pad };
        let window = Window {
            kernel: [kernel; 2],
            strides: [stride; 2],
            dilations: [1; 2],
            pads: [before, before, pad, pad],
        };
        let [height, width] = window.output(extent, extent).expect("a window within its image");
        let depth = kernel * kernel * if is_depthwise { 1 } else { channels };
        Self {
            window,
            input: [extent, extent, channels],
            output: [height, width, outputs],
            is_depthwise,
            weights: bytes(outputs * depth).into_iter().map(u8::cast_signed).collect(),
            bias: vec![100; outputs],
            values: bytes(extent * extent * channels),
        }
    }

    fn network(&self) -> Network<'_> {
        let tensor = |name: &str, [height, width, channels]: [usize; 3]| Tensor {
            name: name.to_owned(),
            shape: [1, height, width, channels],
            encoding: ENCODING,
            values: None,
        };
        let values = Values::I8 { weights: &self.weights, zero_points: &[0] };
        let weights = Weights { values, scales: &SCALES, bias: &self.bias };
        let window = self.window;
        let op = if self.is_depthwise {
            Op::Depthwise { window, weights }
        } else {
            Op::Conv { window, weights }
        };
        let (x, y) = (TensorId(0), TensorId(1));
        let layer = Layer { name: "layer".to_owned(), op, inputs: vec![x], output: y };
        let tensors = vec![tensor("x", self.input), tensor("y", self.output)];
        Network::new(tensors, vec![layer], vec![x], vec![y]).expect("a network")
    }

    /// Returns the microseconds of a run on a SoC, and its output.
    fn run_on(&self, soc: &Soc) -> (f64, Vec<u8>) {
        let bytes = compile(&self.network(), soc).expect("a layer that the SoC takes");
        let program = Program::load(&bytes, &Limits::DEFAULT).expect("a program");
        let program = program.prepare().expect("a program of this machine");
        let mut output = vec![0; self.output.iter().product()];
        let mut scratch = vec![0; program.scratch_len()];
        let time = fastest(|| {
            let result = program.run(&[&self.values], &mut [&mut output], &mut scratch);
            result.expect("a run");
        });
        (time, output)
    }

    /// Returns the microseconds and the output of the primitive on the whole image.
    fn run_directly(&self) -> (f64, Vec<u8>) {
        let pair = |first: usize, [down, across]: [usize; 2]| [first, down, across];
        let ([height, width, channels], [down, across, outputs]) = (self.input, self.output);
        let Window { kernel, strides, dilations, pads } = self.window;
        let window = indirect::Window {
            input: [1, height, width],
            output: [1, down, across],
            kernel: pair(1, kernel),
            strides: pair(1, strides),
            dilations: pair(1, dilations),
            pads: [0, pads[0], pads[1]],
        };
        let scales = vec![SCALES[0]; outputs];
        let mut output = vec![0; down * across * outputs];
        if self.is_depthwise {
            let shape = depthwise::Shape { window, channels, multiplier: 1 };
            let len = depthwise::packed_len_u8(window.kernel, outputs).expect("a kernel");
            let mut packed = vec![0; len];
            depthwise::pack_u8(&self.weights, window.kernel, outputs, &mut packed);
            let weights = QuantizedWeights {
                packed: &packed,
                zero_point: ENCODING.zero_point,
                zero_points: &[],
                bias: &self.bias,
                scales: &scales,
            };
            let time = fastest(|| {
                let x = Image { data: &self.values, stride: channels };
                let y = depthwise::Output::U8 { to: &mut output, zero_point: ENCODING.zero_point };
                depthwise::depthwise_u8(&shape, x, &weights, 0..down, y, outputs);
            });
            return (time, output);
        }
        let is_narrow = channels < 16;
        let run = if is_narrow { kernel[1] } else { 1 };
        let taps = kernel[0] * kernel[1];
        let shape = conv_u8::Shape { groups: 1, channels, outputs, taps, run };
        let mut packed = vec![0; shape.packed_len().expect("a shape")];
        assert!(conv_u8::pack(&self.weights, &shape, &mut packed));
        let (before, after) = ([pads[0], pads[1]], [pads[2], pads[3]]);
        let padded = [height + pads[0] + pads[2], width + pads[1] + pads[3]];
        let table_window = indirect::Window {
            input: pair(1, padded),
            kernel: [1, kernel[0], 1],
            pads: [0; 3],
            ..window
        };
        let table_window = if is_narrow { table_window } else { window };
        let mut table = vec![0; table_window.table_len().expect("a table")];
        assert!(table_window.fill(&mut table));
        let mut bordered = vec![0; padded[0] * padded[1] * channels];
        let padding = vec![ENCODING.zero_point; shape.padding_len().expect("a shape")];
        let time = fastest(|| {
            let y =
                Output::U8 { to: &mut output, scales: &scales, zero_point: ENCODING.zero_point };
            if taps == 1 {
                let (data, rows) = (&*self.values, height * width);
                let lhs = Lhs { data, rows, stride: channels, zero_point: ENCODING.zero_point };
                let rhs = Rhs { packed: &packed, k: channels, n: outputs, zero_points: &[] };
                gemm_u8::gemm(&lhs, &rhs, &self.bias, y, outputs).expect("a product");
                return;
            }
            let data = if is_narrow {
                let (size, fill) = ([height, width], ENCODING.zero_point);
                let fits =
                    conv_u8::pad(&self.values, size, channels, before, after, fill, &mut bordered);
                assert!(fits);
                &*bordered
            } else {
                &*self.values
            };
            let (stride, padding, zero_point) = (channels, &*padding, ENCODING.zero_point);
            let input = Input { data, stride, zero_point, padding };
            let weights = conv_u8::Weights { shape, packed: &packed, zero_points: &[] };
            conv_u8::conv(&Batch::ONE, &input, &weights, &table, &self.bias, y, outputs)
                .expect("a convolution");
        });
        (time, output)
    }
}

/// Returns the microseconds of the fastest of several calls.
fn fastest(mut call: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        call();
        black_box(start.elapsed().as_secs_f64() * 1e6)
    };
    (0..ROUNDS).map(time).fold(f64::INFINITY, f64::min)
}

fn main() {
    print!("{:28} {:>10}", "layer", "primitive");
    for soc in SOCS {
        print!(" {:>18}", soc.name);
    }
    println!();
    for row in LAYERS {
        let case = Case::new(row);
        let (primitive_us, expected) = case.run_directly();
        print!("{:28} {primitive_us:>10.1}", row.0);
        for soc in SOCS {
            // Inner layers of networks have more channels than inputs may have.
            let soc = Soc { input_channels: soc.extent, ..*soc };
            let (hta_us, outputs) = case.run_on(&soc);
            assert!(outputs == expected, "{} on {}", row.0, soc.name);
            print!(" {hta_us:>10.1} ({:.2}x)", hta_us / primitive_us);
        }
        println!();
    }
}
