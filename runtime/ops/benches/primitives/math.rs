//! Rows of `math` and of the primitives over rows: shares of the bandwidth of copies.

use std::hint::black_box;

use udo_ops::simd::{math, rows};

use crate::harness::{self, Summary, Unit, geomean, section};

/// Elements that stay in the second cache, and that do not.
const LENS: [(usize, &str); 2] = [(64 << 10, "L2"), (32 << 20, "DRAM")];
const COLS: usize = 1024;

type Function = fn(&[f32], &mut [f32]);

const FUNCTIONS: [(&str, Function); 8] = [
    ("exp", math::exp),
    ("log", math::log),
    ("tanh", math::tanh),
    ("sigmoid", math::sigmoid),
    ("erf", math::erf),
    ("sin", math::sin),
    ("cos", math::cos),
    ("rsqrt", math::rsqrt),
];

/// Prints the rows.
pub(crate) fn run(summary: &mut Summary) {
    section("math and rows, as shares of a copy's bandwidth");
    let (mut functions, mut softmax, mut norm, mut transposes) = (vec![], vec![], vec![], vec![]);
    for (len, place) in LENS {
        let x: Vec<f32> = (0..len).map(|i| (i % 1000) as f32 * 0.005 + 0.1).collect();
        let mut y = vec![0.0f32; len];
        let bytes = (len * 8) as f64;
        let mut row = |name: &str, bytes: f64, body: &dyn Fn(&[f32], &mut [f32])| {
            harness::row(&format!("{name} {place}"), Unit::Bytes, bytes, || {
                body(black_box(&x), black_box(&mut y));
            })
        };
        for (name, function) in FUNCTIONS {
            functions.push(row(name, bytes, &function));
        }
        softmax.push(row("softmax, rows of 1024", bytes, &|x, y| rows::softmax(x, COLS, y)));
        softmax.push(row("softmax, rows of 64", bytes, &|x, y| rows::softmax(x, 64, y)));
        norm.push(row("layer norm, rows of 1024", bytes, &|x, y| {
            rows::layer_norm(x, &x[..COLS], &x[COLS..2 * COLS], 1e-5, y);
        }));
        row("row sums", bytes / 2.0, &|x, y| rows::row_sums(x, COLS, &mut y[..x.len() / COLS]));
        row("row maxima", bytes / 2.0, &|x, y| rows::row_maxima(x, COLS, &mut y[..x.len() / COLS]));
        let square = len.isqrt() / 16 * 16;
        let area = square * square;
        transposes.push(row("transpose f32, square", (area * 8) as f64, &|x, y| {
            rows::transpose(&x[..area], &[square, square], &[1, 0], &mut y[..area]);
        }));
        transposes.push(row("transpose f32, NCHW to NHWC", bytes, &|x, y| {
            rows::transpose(x, &[4, 64, x.len() / 256], &[0, 2, 1], y);
        }));
        bytes_rows(len, place, &mut transposes);
    }
    summary.add("softmax", geomean(&softmax));
    summary.add("layer_norm", geomean(&norm));
    summary.add("transpose", geomean(&transposes));
    summary.add("math", geomean(&functions));
}

fn bytes_rows(len: usize, place: &str, transposes: &mut Vec<f64>) {
    let floats: Vec<f32> = (0..len).map(|i| (i % 1000) as f32 * 0.005).collect();
    let mut back = vec![0.0f32; len];
    let (mut halves, mut bytes) = (vec![0u16; len], vec![0u8; len]);
    let mut copy = vec![0u8; len];
    let table = std::array::from_fn(|i| u8::try_from(255 - i).unwrap_or(0));
    let n = len as f64;
    let name = |name: &str| format!("{name} {place}");
    harness::row(&name("f32 to f16"), Unit::Bytes, n * 6.0, || {
        rows::f32_to_f16(black_box(&floats), black_box(&mut halves));
    });
    harness::row(&name("f16 to f32"), Unit::Bytes, n * 6.0, || {
        rows::f16_to_f32(black_box(&halves), black_box(&mut back));
    });
    harness::row(&name("f32 to bf16"), Unit::Bytes, n * 6.0, || {
        rows::f32_to_bf16(black_box(&floats), black_box(&mut halves));
    });
    harness::row(&name("bf16 to f32"), Unit::Bytes, n * 6.0, || {
        rows::bf16_to_f32(black_box(&halves), black_box(&mut back));
    });
    harness::row(&name("quantize to u8"), Unit::Bytes, n * 5.0, || {
        rows::quantize(black_box(&floats), 0.02, 3, black_box(&mut bytes));
    });
    harness::row(&name("dequantize u8"), Unit::Bytes, n * 5.0, || {
        rows::dequantize(black_box(&bytes), 0.02, 3, black_box(&mut back));
    });
    harness::row(&name("lookup u8"), Unit::Bytes, n * 2.0, || {
        rows::lookup(black_box(&bytes), &table, black_box(&mut copy));
    });
    let square = len.isqrt() / 64 * 64;
    let area = square * square;
    transposes.push(harness::row(
        &name("transpose u8, square"),
        Unit::Bytes,
        (area * 2) as f64,
        || {
            rows::transpose(
                black_box(&bytes[..area]),
                &[square, square],
                &[1, 0],
                &mut copy[..area],
            );
        },
    ));
}
