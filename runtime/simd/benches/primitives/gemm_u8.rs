//! Benchmarks of `gemm_u8`: prepacked weights, requantized output.
//!
//! Below each row, the plain sums compared with `rten-gemm`, which must be equal.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::hint::black_box;

use rten_gemm::{BiasVector, GemmExecutor, GemmInputA, GemmInputB, GemmOptions, QuantParams};
use rten_tensor::NdTensorView;
use udo_simd::gemm_u8::{Lhs, Output, Rhs, Strides, gemm_on, pack_b, packed_len};
use udo_simd::{Isa, isa};

use crate::harness::{self, Lines, Summary, Unit, geomean, section};

/// Layers of widely used networks: name, output channels, pixels or tokens, depth.
const SHAPES: &[(&str, usize, usize, usize)] = &[
    ("ResNet 1x1", 64, 3136, 64),
    ("ResNet 1x1", 256, 3136, 64),
    ("ResNet 3x3", 64, 3136, 576),
    ("ResNet 3x3", 128, 784, 1152),
    ("ResNet 1x1", 512, 784, 128),
    ("ResNet 3x3", 256, 196, 2304),
    ("ResNet 1x1", 1024, 196, 256),
    ("ResNet 3x3", 512, 49, 4608),
    ("ResNet 1x1", 2048, 49, 512),
    ("MobileNet 1x1", 64, 12544, 32),
    ("MobileNet 1x1", 512, 196, 512),
    ("MobileNet 1x1", 1024, 49, 1024),
    ("transformer", 384, 128, 384),
    ("transformer", 1536, 128, 384),
    ("transformer", 384, 128, 1536),
];

/// Output channels, pixels and depth of a layer that reads each weight once.
const FULLY_CONNECTED: (usize, usize, usize) = (1000, 1, 2048);

/// Zero point of the left side.
const ZERO_POINT: u8 = 9;

/// AVX-512 instructions per vector of 16 sums for requantization, on the ports of the products: two conversions and a
/// product, and a quarter of two packs to 16 bits, one to 8, a permutation and an inversion. At a depth of 32, whose
/// products take 8 instructions, this alone limits the products to 65 %.
const REQUANTIZE_INSTRUCTIONS: f64 = 4.25;

/// Prints the rows of the vector kernels, then those of AMX if the machine has it.
pub(crate) fn run(summary: &mut Summary) {
    let vector_isa = isa().without_amx();
    section(
        "gemm_u8: u8 x i8, requantized to u8; channels x pixels x depth; then the sums alone as a\n\
         multiple of rten-gemm's rate",
    );
    summary.add("u8_gemm", rows(vector_isa));
    let (n, m, k) = FULLY_CONNECTED;
    let (mut layer, name) = (Layer::new(n, m, k), format!("fully connected {n}x{m}x{k}"));
    harness::row(&name, Unit::Bytes, (n * k) as f64, || layer.run_quantized(vector_isa));
    let bounds: Vec<f64> = SHAPES.iter().map(|&(.., depth)| bound(depth as f64 / 4.0)).collect();
    let bound = geomean(&bounds);
    println!(
        "  the most that the way from sums to quantized values leaves AVX-512: {:.1} %",
        bound * 100.0
    );
    if isa().is_amx() {
        section("gemm_u8 by AMX, as a fraction of the peak of AVX-512; then as above");
        summary.add("u8_gemm_amx", rows(isa()));
    }
}

/// Returns the attainable fraction of the peak if the products of a vector of sums take this many instructions, given
/// [`REQUANTIZE_INSTRUCTIONS`].
fn bound(instructions: f64) -> f64 {
    instructions / (instructions + REQUANTIZE_INSTRUCTIONS)
}

/// Prints the rows of an instruction set, and returns the mean fraction of the peak.
fn rows(isa: Isa) -> f64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let row = |&(name, n, m, k): &(&str, usize, usize, usize)| {
        let mut layer = Layer::new(n, m, k);
        let (name, ops) = (format!("{name} {n}x{m}x{k}"), (2 * m * n * k) as f64);
        let fraction = harness::row(&name, Unit::Ops8, ops, || layer.run_quantized(isa));
        // In the pool's single thread, because rten-gemm uses the pool that it is called from.
        (fraction, pool.install(|| layer.ratio(isa)))
    };
    let (fractions, ratios): (Vec<f64>, Vec<f64>) = SHAPES.iter().map(row).unzip();
    let (fraction, ratio) = (geomean(&fractions), geomean(&ratios));
    println!("  geometric means {:>46.1} %  {ratio:.2} x", fraction * 100.0);
    fraction
}

/// A product with its output memory.
struct Layer {
    /// Output channels, pixels and depth.
    shape: (usize, usize, usize),
    lhs: Lines<u8>,
    weights: Vec<i8>,
    packed: Lines<i8>,
    bias: Vec<i32>,
    scales: Vec<f32>,
    quantized: Lines<u8>,
    sums: Lines<i32>,
}

impl Layer {
    fn new(n: usize, m: usize, k: usize) -> Self {
        let mut lhs = Lines::new(m * k);
        let values = (0..=255).cycle().step_by(31);
        lhs.slice().iter_mut().zip(values).for_each(|(x, value)| *x = value);
        let weights: Vec<i8> = (-128..=127).cycle().step_by(37).take(n * k).collect();
        let mut packed = Lines::new(packed_len(k, n).unwrap());
        assert!(pack_b(&weights, Strides { k: 1, n: k }, k, n, packed.slice()));
        Self {
            shape: (n, m, k),
            lhs,
            weights,
            packed,
            bias: vec![77; n],
            scales: vec![0.000_3; n],
            quantized: Lines::new(m * n),
            sums: Lines::new(m * n),
        }
    }

    /// Computes the requantized product.
    fn run_quantized(&mut self, isa: Isa) {
        let Self { shape: (n, m, k), lhs, packed, bias, scales, quantized, .. } = self;
        let (lhs, rhs) = operands(lhs.slice(), packed.slice(), *n, *m, *k);
        let output = Output::U8 { to: black_box(quantized.slice()), scales, zero_point: 128 };
        gemm_on(isa, &lhs, &rhs, bias, output, *n).unwrap();
    }

    /// Returns the speed of its sums relative to rten-gemm.
    fn ratio(&mut self, isa: Isa) -> f64 {
        let Self { shape: (n, m, k), lhs, weights, packed, bias, sums, .. } = self;
        let (n, m, k) = (*n, *m, *k);
        let (a, packed, sums) = (&*lhs.slice(), packed.slice(), sums.slice());
        let run_udo = || {
            let (lhs, rhs) = operands(a, packed, n, m, k);
            gemm_on(isa, &lhs, &rhs, bias, Output::I32(black_box(&mut *sums)), n).unwrap();
        };
        let executor = GemmExecutor::<u8, i8, i32>::new();
        let weights = NdTensorView::from_data([n, k], weights.as_slice());
        let rten_packed = executor.prepack_b(weights.transposed());
        let (zero_points, bias) = (vec![ZERO_POINT; m], BiasVector::Row(bias));
        let mut rten_sums = vec![0; m * n];
        let run_rten = || {
            let lhs = GemmInputA::Unpacked(NdTensorView::from_data([m, k], a));
            let rhs = GemmInputB::Packed(&rten_packed);
            let options = GemmOptions {
                bias: Some(bias),
                a_quant: Some(QuantParams { zero_point: &zero_points }),
                ..GemmOptions::default()
            };
            let result = executor.gemm(&mut rten_sums, lhs, rhs, options);
            assert!(result.is_ok(), "rten-gemm refuses");
        };
        let ratio = harness::ratio("", run_udo, run_rten);
        assert_eq!(sums, rten_sums, "other sums than rten-gemm's");
        ratio
    }
}

/// Returns the operands of a product, hidden from the optimizer.
fn operands<'a>(
    lhs: &'a [u8],
    packed: &'a [i8],
    n: usize,
    m: usize,
    k: usize,
) -> (Lhs<'a, u8>, Rhs<'a>) {
    let lhs = Lhs { data: black_box(lhs), rows: m, stride: k, zero_point: ZERO_POINT };
    (lhs, Rhs { packed: black_box(packed), k, n, zero_points: &[] })
}
