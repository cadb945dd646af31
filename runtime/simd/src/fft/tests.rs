//! Compares transforms of many lengths with the definition, on every instruction set.

use super::*;

fn noise(len: usize) -> Vec<f64> {
    let mut state = 7u64;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Computes a transform of complex elements by the definition.
fn exact(x: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let n = x.len();
    let sum_at = |k: usize| {
        x.iter().enumerate().fold([0.0; 2], |[re, im], (i, [a, b])| {
            let [c, s] = root(i as u128 * k as u128, n);
            [re + a * c - b * s, im + a * s + b * c]
        })
    };
    (0..n).map(sum_at).collect()
}

/// Returns random complex signals, one per lane.
fn signals(len: usize, lanes: usize) -> Vec<Vec<[f64; 2]>> {
    let all = noise(2 * len * lanes);
    (0..lanes).map(|lane| all[2 * len * lane..][..2 * len].as_chunks::<2>().0.to_vec()).collect()
}

/// Interleaves the signals of `L` lanes in `memory_len` values; the rest is NaN.
fn spread<T: Lane, const L: usize>(signals: &[Vec<[f64; 2]>], memory_len: usize) -> Vec<T> {
    let mut data = vec![T::of_f64(f64::NAN); memory_len];
    for (lane, signal) in signals.iter().enumerate() {
        for (k, parts) in signal.iter().enumerate() {
            data[2 * L * k + lane] = T::of_f64(parts[0]);
            data[2 * L * k + L + lane] = T::of_f64(parts[1]);
        }
    }
    data
}

/// Asserts that the first `bins` elements of each lane are near the expected ones, relative to the largest.
fn assert_spectra<T: Lane + Into<f64>, const L: usize>(
    data: &[T],
    expected: &[Vec<[f64; 2]>],
    bins: usize,
    tolerance: f64,
) {
    for (lane, expected) in expected.iter().enumerate() {
        let largest = expected.iter().flatten().fold(1e-3f64, |largest, x| largest.max(x.abs()));
        for (k, expected) in expected.iter().take(bins).enumerate() {
            for (part, expected) in expected.iter().enumerate() {
                let actual: f64 = data[2 * L * k + L * part + lane].into();
                let is_near = (actual - expected).abs() <= tolerance * largest;
                assert!(
                    is_near,
                    "part {part} of {k} in lane {lane} is {actual}, expected {expected}"
                );
            }
        }
    }
}

fn check<T: Lane + Into<f64>, const L: usize>(len: usize, tolerance: f64) {
    let fft = Fft::new(len).unwrap();
    let signals = signals(len, L);
    let expected: Vec<_> = signals.iter().map(|signal| exact(signal)).collect();
    let mut table = vec![T::default(); fft.table_len()];
    fft.fill(&mut table);
    for &isa in Isa::available() {
        let mut data = spread::<T, L>(&signals, fft.memory_len(L));
        let mut scratch = vec![T::of_f64(f64::NAN); fft.memory_len(L)];
        fft.run_on::<T, L>(isa, &table, &mut data, &mut scratch);
        assert_spectra::<T, L>(&data, &expected, len, tolerance);
    }
}

#[test]
fn transforms_of_every_length_match_the_definition() {
    for len in (1..=67).chain([100, 128, 200, 211, 400, 509, 961]) {
        check::<f32, 16>(len, 1e-6);
        check::<f64, 16>(len, 1e-14);
        check::<f64, 1>(len, 1e-14);
    }
}

#[test]
fn real_signals_have_half_a_spectrum() {
    for len in (1..=40).chain([64, 134, 400, 512, 962]) {
        let fft = RealFft::new(len).unwrap();
        let mut signals = signals(len, 4);
        signals.iter_mut().flatten().for_each(|x| x[1] = 0.0);
        let expected: Vec<_> = signals.iter().map(|signal| exact(signal)).collect();
        let input: Vec<Vec<[f64; 2]>> = if fft.is_halved() {
            let halved = |x: &Vec<[f64; 2]>| x.chunks(2).map(|x| [x[0][0], x[1][0]]).collect();
            signals.iter().map(halved).collect()
        } else {
            signals
        };
        let mut table = vec![0f32; fft.table_len()];
        fft.fill(&mut table);
        for &isa in Isa::available() {
            let mut data = spread::<f32, 4>(&input, fft.memory_len(4));
            let mut scratch = vec![f32::NAN; fft.memory_len(4)];
            fft.run_on::<f32, 4>(isa, &table, &mut data, &mut scratch);
            assert_spectra::<f32, 4>(&data, &expected, fft.bins(), 1e-6);
        }
    }
}

/// Returns the relative error of the bin of a tone 100 dB below another one.
fn error_of_a_small_bin(len: usize) -> f64 {
    let (loud, quiet) = (len / 9, len / 3);
    let tones = |i: usize| {
        let [re, _] = root(i as u128 * loud as u128, len);
        let [other, _] = root(i as u128 * quiet as u128, len);
        f64::from((re + 1e-5 * other) as f32)
    };
    let signal: Vec<_> = (0..len).map(|i| [tones(i), 0.0]).collect();
    let expected = exact(&signal)[quiet];
    let fft = RealFft::new(len).unwrap();
    let signal = if fft.is_halved() {
        signal.chunks(2).map(|x| [x[0][0], x[1][0]]).collect()
    } else {
        signal
    };
    let mut table = vec![0f32; fft.table_len()];
    fft.fill(&mut table);
    let error = |&isa: &Isa| {
        let mut data = spread::<f32, 1>(std::slice::from_ref(&signal), fft.memory_len(1));
        let mut scratch = vec![f32::NAN; fft.memory_len(1)];
        fft.run_on::<f32, 1>(isa, &table, &mut data, &mut scratch);
        let [re, im] = [0, 1].map(|part| f64::from(data[2 * quiet + part]) - expected[part]);
        re.hypot(im) / expected[0].hypot(expected[1])
    };
    Isa::available().iter().map(error).fold(0.0, f64::max)
}

#[test]
fn small_bins_keep_precision_next_to_large_ones() {
    for len in [256, 375, 384, 400, 480, 512, 1024, 401, 509, 1018] {
        let error = error_of_a_small_bin(len);
        assert!(error < 5e-3, "a transform of {len} is off by {error}");
    }
}

#[test]
fn large_primes_become_convolutions() {
    let plan = |len| Fft::new(len).unwrap();
    assert!(!plan(400).is_convolution() && !plan(31 * 31).is_convolution());
    assert_eq!((plan(37).size, plan(2 * 509).size), (128, 2048));
    assert!(Fft::new(usize::MAX / 2).is_none());
}

#[test]
fn length_zero_has_no_transform() {
    let fft = Fft::new(0).unwrap();
    assert!(fft.is_empty());
    fft.run::<f32, 4>(&[], &mut [], &mut []);
}
