//! Benchmarks of `pooling`, relative to copying as many bytes as are read and written.

use std::hint::black_box;

use udo_simd::indirect::Window;
use udo_simd::pooling::{
    Divisor, Image, average_pool, average_pool_u8, global_average, global_sums, max_pool,
    max_pool_u8,
};

use crate::harness::{self, Lines, Summary, Unit, geomean, section};

/// Layers of widely used networks: side length of the input in pixels, channels, kernel, stride.
const SHAPES: &[(usize, usize, usize, usize)] =
    &[(112, 64, 3, 2), (56, 128, 2, 2), (28, 256, 3, 1), (14, 512, 2, 2)];

/// Side length in pixels, channels.
const GLOBAL: &[(usize, usize)] = &[(7, 1024), (7, 2048), (14, 512), (112, 32)];

/// Prints the rows.
pub(crate) fn run(summary: &mut Summary) {
    section("pooling: a side of the input, channels, kernel, stride; against a copy of the bytes");
    let mut fractions = Vec::new();
    for &(side, channels, kernel, stride) in SHAPES {
        let window = Window::square([side, side], kernel, stride, kernel / 3);
        let (rows, pixels) = (window.output[1], window.output[1] * window.output[2]);
        let (mut x, mut y) =
            (Lines::<f32>::new(side * side * channels), Lines::new(pixels * channels));
        let (mut x_u8, mut y_u8) =
            (Lines::<u8>::new(side * side * channels), Lines::new(pixels * channels));
        x.slice().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 17) as f32 - 8.0);
        x_u8.slice().iter_mut().enumerate().for_each(|(i, x)| *x = (i % 251) as u8);
        let (y, y_u8) = (y.slice(), y_u8.slice());
        let x = Image { data: &*x.slice(), stride: channels };
        let x_u8 = Image { data: &*x_u8.slice(), stride: channels };
        let u8_bytes = ((side * side + pixels) * channels) as f64;
        let label = format!("{side}x{side}x{channels}, {kernel}x{kernel} by {stride}");
        fractions.extend([
            harness::row(&format!("max f32 {label}"), Unit::Bytes, u8_bytes * 4.0, || {
                max_pool(&window, channels, black_box(x), 0..rows, black_box(y), channels);
            }),
            harness::row(&format!("average f32 {label}"), Unit::Bytes, u8_bytes * 4.0, || {
                let (x, y) = (black_box(x), black_box(&mut *y));
                average_pool(&window, channels, x, Divisor::Inside, 0..rows, y, channels);
            }),
            harness::row(&format!("max u8 {label}"), Unit::Bytes, u8_bytes, || {
                let (x, y) = (black_box(x_u8), black_box(&mut *y_u8));
                max_pool_u8(&window, channels, x, 0..rows, y, channels);
            }),
            harness::row(&format!("average u8 {label}"), Unit::Bytes, u8_bytes, || {
                let (x, y) = (black_box(x_u8), black_box(&mut *y_u8));
                average_pool_u8(&window, channels, x, Divisor::Inside, 0, 0..rows, y, channels);
            }),
        ]);
    }
    for &(side, channels) in GLOBAL {
        let len = side * side * channels;
        let (x, x_u8) = (vec![0.5f32; len], vec![3u8; len]);
        let (mut y, mut sums) = (vec![0.0f32; channels], vec![0u32; channels]);
        let label = format!("{side}x{side}x{channels}");
        fractions.extend([
            harness::row(&format!("global f32 {label}"), Unit::Bytes, (len * 4) as f64, || {
                let x = Image { data: black_box(&x[..]), stride: channels };
                global_average(x, side * side, black_box(&mut y));
            }),
            harness::row(&format!("global u8 {label}"), Unit::Bytes, len as f64, || {
                let x = Image { data: black_box(&x_u8[..]), stride: channels };
                global_sums(x, side * side, black_box(&mut sums));
            }),
        ]);
    }
    println!("  geometric mean {:.1} %", geomean(&fractions) * 100.0);
    summary.add("pooling", geomean(&fractions));
}
