//! Compares indirect products with a naive product of gathered rows, on every instruction set.

use super::*;
use crate::indirect::PADDING;
use crate::testing::Guarded;
use crate::testing::noise;

/// A product: number of pixels, extents of the table, and matrix sizes.
#[derive(Clone, Copy, Debug)]
struct Case {
    pixels: usize,
    lda: usize,
    m: usize,
    taps: usize,
    channels: usize,
    groups: usize,
    n: usize,
    row_map: RowMap,
}

/// Returns a map to contiguous rows of `C`.
fn dense() -> RowMap {
    RowMap::lines(usize::MAX, 0)
}

/// Returns pseudo-random table entries, some of which are out of range.
fn entries(len: usize, pixels: usize) -> Vec<u32> {
    let out_of_range = [PADDING, pixels as u32, PADDING - 1, pixels as u32 + 1, 1 << 31];
    let entry = |(i, x): (usize, f32)| match i % 7 {
        0 => out_of_range[i / 7 % out_of_range.len()],
        _ => ((x.abs() * 1e6) as usize % pixels.max(1)) as u32,
    };
    noise(len).into_iter().enumerate().map(entry).collect()
}

/// Runs the case with the kernels of an instruction set, on slices next to protected pages, and compares each element.
fn check(kernels: &MicroKernels, case: Case) {
    let Case { pixels, lda, m, taps, channels, groups, n, row_map } = case;
    let (all_channels, cols, k) = (groups * channels, groups * n, taps * channels);
    let ldc = cols + 1;
    let mut a =
        Guarded::at_end(&noise(if pixels == 0 { 0 } else { (pixels - 1) * lda + all_channels }));
    let mut table = Guarded::at_end(&entries(m * taps, pixels));
    let mut zeros = Guarded::at_end(&vec![0.0; all_channels]);
    let b = noise(groups * k * n);
    let len = kernels.packed_len(k, n);
    let mut packed = Guarded::at_end(&vec![f32::NAN; groups * len]);
    for group in 0..groups {
        let b = &b[group * k * n..][..k * n];
        kernels.pack_b(b, n, Layout::Rows, k, n, &mut packed[group * len..]);
    }
    let c_rows: Vec<usize> = (0..m).map(|row| row_map.row_of_c(row).unwrap()).collect();
    let c_len = c_rows.iter().max().unwrap() * ldc + cols;
    let mut c = Guarded::at_end(&vec![-7.5; c_len]);
    let indirect = IndirectA {
        a: a.slice(),
        lda,
        table: table.slice(),
        taps,
        channels,
        groups,
        zeros: zeros.slice(),
        row_map,
    };
    kernels.igemm(&indirect, m, packed.slice(), n, c.slice(), ldc, &Epilogue::default());
    let mut expected = vec![None; c_len];
    for (row, c_row) in c_rows.iter().enumerate() {
        for col in 0..cols {
            let (group, j) = (col / n, col % n);
            let (mut sum, mut magnitude) = (0.0, 0.0);
            for l in 0..k {
                let (tap, channel) = (l / channels, l % channels);
                let entry = table[row * taps + tap];
                let pixel = entry as usize;
                // With a stride of 0, every index is valid.
                if pixel < pixels || (lda == 0 && entry != PADDING) {
                    let a = a[pixel * lda + group * channels + channel];
                    let product = f64::from(a) * f64::from(b[(group * k + l) * n + j]);
                    sum += product;
                    magnitude += product.abs();
                }
            }
            expected[c_row * ldc + col] = Some((sum, (k as f64 + 3.0) * 1.2e-7 * magnitude));
        }
    }
    for (i, (&actual, expected)) in c.iter().zip(expected).enumerate() {
        match expected {
            None => assert_eq!(actual.to_bits(), (-7.5f32).to_bits(), "{i} of {case:?} is not C's"),
            Some((expected, bound)) => {
                let error = (f64::from(actual) - expected).abs();
                assert!(
                    error <= bound,
                    "{i} of {case:?} is {actual}, expected {expected} +- {bound}"
                );
            }
        }
    }
}

fn all_kernels() -> impl Iterator<Item = &'static MicroKernels> {
    Isa::available().iter().map(|&isa| kernels(isa))
}

#[test]
fn padding_entries_read_zeros() {
    for kernels in all_kernels() {
        for pixels in [0, 1, 2, 50] {
            for (taps, channels) in [(1, 1), (3, 5), (9, 16), (5, 33)] {
                for lda in [channels * 2, channels * 2 + 3] {
                    for (m, n) in [(1, 3), (13, 16), (50, 65)] {
                        let case =
                            Case { pixels, lda, m, taps, channels, groups: 2, n, row_map: dense() };
                        check(kernels, case);
                    }
                }
            }
        }
    }
}

#[test]
fn pixels_may_overlap() {
    for kernels in all_kernels() {
        for lda in [0, 1, 3] {
            let case = Case {
                pixels: 40,
                lda,
                m: 31,
                taps: 3,
                channels: 7,
                groups: 1,
                n: 20,
                row_map: dense(),
            };
            check(kernels, case);
        }
    }
}

#[test]
fn any_number_of_taps_gives_the_product() {
    for kernels in all_kernels() {
        for taps in [63, 64, 65, 127, 129, 500, 3000] {
            for m in [1, 40, 70] {
                let row_map = RowMap::lines(7, 3);
                check(
                    kernels,
                    Case { pixels: 9, lda: 2, m, taps, channels: 2, groups: 1, n: 9, row_map },
                );
            }
        }
    }
}

#[test]
fn rows_are_written_where_the_row_map_says() {
    for kernels in all_kernels() {
        for width in [1, 2, 7, 14, 16, 33, 3000] {
            for first in [0, 1, 20] {
                for steps in [[500, 100, 1], [40 * width, 2 * width, 2], [9 * width, width, 1]] {
                    let row_map = RowMap { width, lines: 3, steps, first, start: 5, origin: 2 };
                    let case = Case {
                        pixels: 30,
                        lda: 4,
                        m: 47,
                        taps: 4,
                        channels: 4,
                        groups: 1,
                        n: 34,
                        row_map,
                    };
                    check(kernels, case);
                }
            }
        }
    }
}

#[test]
fn non_finite_values_reach_only_rows_that_read_them() {
    for kernels in all_kernels() {
        for value in [f32::NAN, f32::INFINITY] {
            let mut a = vec![0.5; 20 * 4];
            a[9 * 4 + 1] = value;
            let table: Vec<u32> =
                (0..40).map(|i| if i % 2 == 0 { i / 2 } else { PADDING }).collect();
            let (taps, channels, n) = (2, 4, 18);
            let b = vec![1.0; 8 * n];
            let mut packed = vec![0.0; kernels.packed_len(8, n)];
            kernels.pack_b(&b, n, Layout::Rows, 8, n, &mut packed);
            let mut c = vec![0.0; 20 * n];
            let zeros = [0.0; 4];
            let indirect = IndirectA {
                a: &a,
                lda: 4,
                table: &table,
                taps,
                channels,
                groups: 1,
                zeros: &zeros,
                row_map: dense(),
            };
            kernels.igemm(&indirect, 20, &packed, n, &mut c, n, &Epilogue::default());
            for (i, row) in c.chunks_exact(n).enumerate() {
                assert!(row.iter().all(|x| x.is_finite() == (i != 9)), "row {i} is {row:?}");
            }
        }
    }
}

#[test]
fn slices_that_are_too_short_for_gathered_rows_are_refused() {
    let packed_len = packed_len(6, 9);
    let is_refused = |table: usize, zeros: usize, packed: usize, c: usize, residual: usize| {
        std::panic::catch_unwind(|| {
            let (a, table, zeros) = ([0.0; 12], vec![0; table], vec![0.0; zeros]);
            let (packed, residual, mut c) = (vec![0.0; packed], vec![0.0; residual], vec![0.0; c]);
            // Four rows in lines of two; the lines are three rows apart.
            let row_map =
                RowMap { width: 2, lines: 9, steps: [0, 3, 1], first: 0, start: 0, origin: 0 };
            let indirect = IndirectA {
                a: &a,
                lda: 3,
                table: &table,
                taps: 2,
                channels: 3,
                groups: 1,
                zeros: &zeros,
                row_map,
            };
            let epilogue = Epilogue { residual: Some((&residual, 9)), ..Epilogue::default() };
            kernels(isa()).igemm(&indirect, 4, &packed, 9, &mut c, 9, &epilogue);
        })
        .is_err()
    };
    assert!(!is_refused(8, 3, packed_len, 45, 45));
    assert!(is_refused(7, 3, packed_len, 45, 45));
    assert!(is_refused(8, 2, packed_len, 45, 45));
    assert!(is_refused(8, 3, packed_len - 1, 45, 45));
    assert!(is_refused(8, 3, packed_len, 44, 45));
    assert!(is_refused(8, 3, packed_len, 45, 44));
}
