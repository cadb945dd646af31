//! Benchmarks of `math` and of row primitives: fractions of the binding limit.
//!
//! After each row's bytes comes the number of slots that the AVX-512 code takes on the two vector ports per 16
//! elements: one per instruction, or the measured occupancy of longer ones (3 for reciprocal root estimates, 20 for
//! divisions, 24 for roots, as they do not overlap), and two per shuffle where shuffles are more than half, since only
//! one port has them.

use std::hint::black_box;

use udo_simd::{isa, math, rows};

use crate::harness::{self, Lines, Summary, Unit, bound, geomean, section};

/// Element counts that fit the second-level cache, and that do not.
const LENS: [(usize, &str); 2] = [(64 << 10, "L2"), (32 << 20, "L3/DRAM")];
const COLS: usize = 1024;

type Function = fn(&[f32], &mut [f32]);

const FUNCTIONS: [(&str, f64, Function); 8] = [
    ("exp", 11.0, math::exp),
    ("log", 13.0, math::log),
    ("tanh", 18.0, math::tanh),
    ("sigmoid", 20.0, math::sigmoid),
    ("erf", 18.0, math::erf),
    ("sin", 18.0, math::sin),
    ("cos", 19.0, math::cos),
    ("rsqrt", 8.0, math::rsqrt),
];

/// Returns the axes of a transpose of this many elements, and their order.
type Axes = fn(usize) -> (Vec<usize>, &'static [usize]);

const TRANSPOSES: [(&str, Axes); 4] = [
    ("square", |len| (vec![len.isqrt() / 64 * 64; 2], &[1, 0])),
    ("NCHW to NHWC", |len| (vec![4, 64, len / 256], &[0, 2, 1])),
    ("NHWC to NCHW", |len| (vec![4, len / 256, 64], &[0, 2, 1])),
    ("5-D, reversed", |len| (vec![32, 8, 1, len / 8192, 32], &[4, 3, 2, 1, 0])),
];

/// Returns the work equal to issuing this many vector instructions, as multiply-adds of 16 lanes. Only the AVX-512
/// kernels are modelled.
fn issues(vectors: f64) -> (Unit, f64) {
    (Unit::Flops, if isa().is_avx512() { vectors * 32.0 } else { 0.0 })
}

/// Prints the rows.
pub(crate) fn run(summary: &mut Summary) {
    section("math and rows, as fractions of the limit that binds");
    let (mut functions, mut softmax, mut layer_norm, mut lrn) = (vec![], vec![], vec![], vec![]);
    let mut transposes = vec![];
    for (len, place) in LENS {
        let (mut x, mut y) = (Lines::new(len), Lines::new(len));
        let (x, y) = (x.slice(), y.slice());
        x.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 1000) as f32 * 0.005 + 0.1);
        let (bytes, vectors) = ((len * 8) as f64, (len / 16) as f64);
        let mut row = |name: &str, bytes, slots: f64, body: &dyn Fn(&[f32], &mut [f32])| {
            bound(name, place, bytes, issues(slots * vectors), || {
                body(black_box(&*x), black_box(&mut *y));
            })
        };
        for (name, slots, function) in FUNCTIONS {
            functions.push(row(name, bytes, slots, &function));
        }
        softmax.push(row("softmax, rows of 1024", bytes, 15.0, &|x, y| rows::softmax(x, COLS, y)));
        softmax.push(row("softmax, rows of 64", bytes, 16.5, &|x, y| rows::softmax(x, 64, y)));
        for cols in [COLS, 64] {
            layer_norm.push(row(&format!("layer norm, rows of {cols}"), bytes, 7.0, &|x, y| {
                rows::layer_norm(x, &x[..cols], &x[cols..2 * cols], 1e-5, y);
            }));
        }
        for (beta, slots) in [(0.5, 15.0), (0.75, 24.0), (0.6, 32.0)] {
            let params = rows::Lrn { size: 5, alpha: 1e-4, beta, bias: 1.0 };
            lrn.push(row(&format!("LRN, 64 channels, beta {beta}"), bytes, slots, &|x, y| {
                rows::lrn(x, 64, &params, y);
            }));
        }
        row("row sums", bytes / 2.0, 1.0, &|x, y| {
            rows::row_sums(x, COLS, &mut y[..x.len() / COLS]);
        });
        row("row maxima", bytes / 2.0, 4.0, &|x, y| {
            rows::row_maxima(x, COLS, &mut y[..x.len() / COLS]);
        });
        for (name, axes) in TRANSPOSES {
            let (shape, perm) = axes(len);
            let count: usize = shape.iter().product();
            let fraction =
                row(&format!("transpose f32, {name}"), (count * 8) as f64, 5.0, &|x, y| {
                    rows::transpose(&x[..count], &shape, perm, &mut y[..count]);
                });
            if !name.starts_with("5-D") {
                transposes.push(fraction);
            }
        }
        row("transpose f32, heads", bytes, 0.0, &|x, y| {
            rows::transpose(x, &[1, len / 512, 8, 1, 64], &[0, 2, 1, 3, 4], y);
        });
        conversion_rows(len, place, &mut transposes);
    }
    summary.add("softmax", geomean(&softmax));
    summary.add("layer_norm", geomean(&layer_norm));
    summary.add("lrn", geomean(&lrn));
    summary.add("transpose", geomean(&transposes));
    summary.add("math", geomean(&functions));
}

/// Prints the rows of conversions and of primitives of bytes. Adds the fractions of transposes to `transposes`.
fn conversion_rows(len: usize, place: &str, transposes: &mut Vec<f64>) {
    let (mut floats, mut converted) = (Lines::new(len), Lines::new(len));
    let (mut halves, mut quantized, mut copy) = (Lines::new(len), Lines::new(len), Lines::new(len));
    let (floats, converted) = (floats.slice(), converted.slice());
    let (halves, quantized, copy) = (halves.slice(), quantized.slice(), copy.slice());
    floats.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 1000) as f32 * 0.005);
    let table = std::array::from_fn(|i| u8::try_from(255 - i).unwrap_or(0));
    let n = len as f64;
    let vectors = n / 16.0;
    bound("f32 to f16", place, n * 6.0, issues(2.0 * vectors), || {
        rows::f32_to_f16(black_box(&*floats), black_box(&mut *halves));
    });
    bound("f16 to f32", place, n * 6.0, issues(2.0 * vectors), || {
        rows::f16_to_f32(black_box(&*halves), black_box(&mut *converted));
    });
    bound("f32 to bf16", place, n * 6.0, issues(10.0 * vectors), || {
        rows::f32_to_bf16(black_box(&*floats), black_box(&mut *halves));
    });
    bound("bf16 to f32", place, n * 6.0, issues(2.0 * vectors), || {
        rows::bf16_to_f32(black_box(&*halves), black_box(&mut *converted));
    });
    bound("quantize to u8", place, n * 5.0, issues(14.0 * vectors), || {
        rows::quantize(black_box(&*floats), 0.02, 3, black_box(&mut *quantized));
    });
    bound("dequantize u8", place, n * 5.0, issues(4.0 * vectors), || {
        rows::dequantize(black_box(&*quantized), 0.02, 3, black_box(&mut *converted));
    });
    harness::row(&format!("lookup u8 {place}"), Unit::Bytes, n * 2.0, || {
        rows::lookup(black_box(&*quantized), &table, black_box(&mut *copy));
    });
    for (name, axes) in &TRANSPOSES[..2] {
        let (shape, perm) = axes(len);
        let count: usize = shape.iter().product();
        let name = format!("transpose u8, {name}");
        // Two slots for each of the 64 shuffles per 16 vectors of 64 values.
        transposes.push(bound(
            &name,
            place,
            (count * 2) as f64,
            issues(count as f64 / 64.0 * 8.0),
            || {
                rows::transpose(
                    black_box(&quantized[..count]),
                    &shape,
                    perm,
                    black_box(&mut copy[..count]),
                );
            },
        ));
    }
}
