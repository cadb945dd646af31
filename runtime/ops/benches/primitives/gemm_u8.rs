//! Rows of `gemm_u8`: weights packed beforehand, sums scaled back to codes.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on stops")]

use std::hint::black_box;

use udo_ops::simd::gemm_u8::{Left, Output, Right, Strides, gemm_on, pack_b, packed_len};
use udo_ops::simd::{Isa, isa};

use crate::harness::{self, Lines, Summary, Unit, geomean, section};

/// Of networks in wide use: the layer, output channels, pixels or tokens, depth.
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

/// AVX-512 instructions that a vector of 16 sums takes to become codes, on the ports of the products: two
/// conversions and a product, and a quarter of two packs to 16 bits, one to 8, a permutation and a flip.
/// At a depth of 32, whose products take 8, they alone leave 65 %.
const REQUANTIZE: f64 = 4.25;

/// Prints the rows: those of vectors, and then those of AMX where the machine has it.
pub(crate) fn run(summary: &mut Summary) {
    let vectors = isa().min(Isa::Avx512);
    section("gemm_u8: u8 x i8, requantized to u8; channels x pixels x depth");
    let figure = rows(vectors);
    let (layer, (channels, pixels, depth)) = ("fully connected", FULLY_CONNECTED);
    row(vectors, layer, channels, pixels, depth, Unit::Bytes);
    println!("  geometric mean without the fully connected row: {:.1} %", figure * 100.0);
    let bounds: Vec<f64> = SHAPES.iter().map(|&(.., depth)| bound(depth as f64 / 4.0)).collect();
    let bound = geomean(&bounds);
    println!("  the most that the way from sums to codes leaves AVX-512: {:.1} %", bound * 100.0);
    summary.add("u8_gemm", figure);
    if isa() == Isa::Amx {
        section("gemm_u8 by AMX, as a share of the peak of AVX-512");
        let figure = rows(Isa::Amx);
        println!("  geometric mean: {:.1} %", figure * 100.0);
        summary.add("u8_gemm_amx", figure);
    }
}

/// The share of the products where codes take [`REQUANTIZE`] besides.
fn bound(products: f64) -> f64 {
    products / (products + REQUANTIZE)
}

fn rows(isa: Isa) -> f64 {
    let shares: Vec<f64> = SHAPES
        .iter()
        .map(|&(layer, channels, pixels, depth)| {
            row(isa, layer, channels, pixels, depth, Unit::Ops8)
        })
        .collect();
    geomean(&shares)
}

fn row(isa: Isa, layer: &str, n: usize, m: usize, k: usize, unit: Unit) -> f64 {
    let mut codes = Lines::new(m * k);
    let codes = codes.slice();
    codes.iter_mut().zip((0..=255).cycle().step_by(31)).for_each(|(to, code)| *to = code);
    let weights: Vec<i8> = (-128..=127).cycle().step_by(37).take(n * k).collect();
    let mut packed = Lines::new(packed_len(k, n).unwrap());
    let packed = packed.slice();
    assert!(pack_b(&weights, Strides { k: 1, n: k }, k, n, packed));
    let (bias, scales) = (vec![77; n], vec![0.000_3; n]);
    let mut to = Lines::new(m * n);
    let to = to.slice();
    let name = format!("{layer} {n}x{m}x{k}");
    let work = match unit {
        Unit::Bytes => n * k,
        Unit::Flops | Unit::Ops8 => 2 * m * n * k,
    };
    harness::row(&name, unit, work as f64, || {
        let left = Left { codes: black_box(&*codes), rows: m, stride: k, zero_point: 9 };
        let right = Right { packed: black_box(&*packed), k, n, zero_points: &[] };
        let output = Output::U8 { to: black_box(&mut *to), scales: &scales, zero_point: 128 };
        gemm_on(isa, &left, &right, &bias, output, n).unwrap();
    })
}
