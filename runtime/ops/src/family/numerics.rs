//! Edge-case values, and checks of the numerical guarantees in `docs/numerics.md`, for the tests of families.

use udo_api::{Core, DType, Element, Encoding, FastMath, QuantizedType};

use crate::testing::{Bench, Tensor, tensor};

/// A denormal. Kernels must not flush it to 0.
pub(crate) const SUBNORMAL: f32 = f32::MIN_POSITIVE / 2.0;

/// Values at which formulas tend to fail.
pub(crate) const EDGES: [f32; 13] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    0.0,
    -0.0,
    SUBNORMAL,
    -SUBNORMAL,
    f32::MAX,
    f32::MIN,
    1.0,
    -1.0,
    2.5,
    -0.75,
];

/// Row lengths that cover full vectors of every instruction set, and remainders.
pub(crate) const LENGTHS: [usize; 7] = [1, 3, 8, 16, 17, 31, 67];

/// Returns `len` edge-case values, starting with number `first`.
pub(crate) fn edges(first: usize, len: usize) -> Vec<f32> {
    EDGES.iter().copied().cycle().skip(first).take(len).collect()
}

/// Returns the bits of each value, with one pattern for all NaNs, since their payload is not guaranteed.
pub(crate) fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| if x.is_nan() { f32::NAN } else { *x }.to_bits()).collect()
}

/// Returns the only output of a node, after checking that a second run gives the same bits.
#[track_caller]
pub(crate) fn settled(run: &Bench) -> Tensor {
    let y = run.clone().one();
    assert!(y.bytes() == run.clone().one().bytes(), "two runs differ");
    y
}

/// Returns the only output of a node, after checking that other runs and thread counts give the same bits.
#[track_caller]
pub(crate) fn settled_on_any_threads(run: &Bench) -> Tensor {
    let y = settled(run);
    for threads in [2, 3, 8] {
        let other = settled(&run.clone().threads(threads));
        assert!(y.bytes() == other.bytes(), "{threads} threads differ from one");
    }
    y
}

/// Returns the only f32 output of a node on the CPU, after checking that the GPU's differs by at most `within`.
#[track_caller]
pub(crate) fn on_gpu_too(run: &Bench, within: f64) -> Tensor {
    let y = run.clone().one();
    let gpu = run.clone().on(Core::GPU).one();
    assert_eq!(gpu.dims(), y.dims());
    // Compares the cores with each other; the caller compares one of them with a reference, which may be constant.
    for (actual, expected) in gpu.values::<f32>().into_iter().zip(y.values::<f32>()) {
        let is_same =
            actual.to_bits() == expected.to_bits() || actual.is_nan() && expected.is_nan();
        let (actual, expected) = (f64::from(actual), f64::from(expected));
        let is_near = (actual - expected).abs() / expected.abs().max(1.0) <= within;
        assert!(is_same || is_near, "the GPU makes {actual:e}, and the CPU {expected:e}");
    }
    y
}

/// Returns the first output of each kernel that accepts the node.
#[track_caller]
pub(crate) fn of_kernels(run: &Bench) -> Vec<Vec<f32>> {
    let kernels = run.run().unwrap_or_else(|fault| panic!("{fault}"));
    kernels.iter().map(|kernel| kernel.outputs[0].values()).collect()
}

/// Asserts that sums of `terms` f32 products, with a constant last input, are within the rounding bound of bf16 factors
/// if the user allows bf16, and that factors are rounded if the machine has bf16 instructions.
#[track_caller]
pub(crate) fn assert_rounds_factors(
    new_bench: impl Fn() -> Bench,
    inputs: [(&[usize], &[f32]); 2],
    terms: usize,
) {
    let [(x_dims, x), (w_dims, w)] = inputs;
    let in_f64 = |size: fn(f64) -> f64| {
        let wide = |values: &[f32]| values.iter().map(|&v| size(v.into())).collect::<Vec<f64>>();
        let run = new_bench().input(tensor(x_dims, &wide(x)));
        run.constant(tensor(w_dims, &wide(w))).one().values::<f64>()
    };
    let (expected, sizes) = (in_f64(|x| x), in_f64(f64::abs));
    // Relative to the sum of absolute products: two factors rounded to 8 bits (2 * 2^-8, and the product of both
    // errors), and f32 sums.
    let bound_per_size = 2f64.powi(-7) + 2f64.powi(-16) + (terms as f64 + 3.0) * 1.2e-7;
    let run = new_bench().input(tensor(x_dims, x)).constant(tensor(w_dims, w));
    for threads in [1, 3] {
        let exact = of_kernels(&run.clone().threads(threads));
        let rounded = of_kernels(&run.clone().threads(threads).fast_math(FastMath::Bf16));
        for (actual, exact) in rounded.iter().zip(&exact) {
            for ((&actual, &expected), &size) in actual.iter().zip(&expected).zip(&sizes) {
                let error = (f64::from(actual) - expected).abs();
                assert!(
                    error <= bound_per_size * size,
                    "{actual} is off {expected} by {error}, of {size}"
                );
            }
            let is_rounded = actual.iter().zip(exact).any(|(a, b)| a.to_bits() != b.to_bits());
            assert_eq!(is_rounded, udo_simd::gemm_bf16::is_available());
        }
    }
}

/// Asserts, for every quantized type, that `takers` kernels fuse the quantization of their output, and that they store
/// the same values as quantizing their f32 output.
#[track_caller]
pub(crate) fn assert_quantized(run: &Bench, takers: usize) {
    assert_quantized_as::<u8>(run, DType::U8, 128, takers);
    assert_quantized_as::<i8>(run, DType::I8, -3, takers);
    assert_quantized_as::<u16>(run, DType::U16, 40_000, takers);
    assert_quantized_as::<i16>(run, DType::I16, 0, takers);
}

#[track_caller]
fn assert_quantized_as<T: QuantizedType + Element + PartialEq>(
    run: &Bench,
    dtype: DType,
    zero_point: i32,
    takers: usize,
) {
    let scale = if size_of::<T>() == 1 { 0.011 } else { 1e-4 };
    let encoding = Encoding { scale, zero_point };
    let numbers = of_kernels(run);
    let quantized = run.clone().then_quantize(dtype, scale, zero_point).run();
    let quantized = quantized.unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(quantized.len(), numbers.len(), "kernels");
    let matching = quantized.iter().zip(numbers).filter(|(kernel, _)| kernel.epilogue_steps == 1);
    let mut count = 0;
    for (kernel, floats) in matching {
        let expected: Vec<T> = floats.into_iter().map(|x| encoding.quantize(x)).collect();
        let actual = kernel.outputs[0].values::<T>();
        let differs =
            actual.iter().zip(&expected).position(|(actual, expected)| actual != expected);
        assert_eq!((actual.len(), differs), (expected.len(), None), "quantized values of {dtype}");
        count += 1;
    }
    assert_eq!(count, takers, "kernels that quantize");
}

/// Asserts that `actual` is `exact` rounded to f32: NaN, infinities and the sign of zero match, and the relative error
/// is at most `tolerance`.
#[track_caller]
pub(crate) fn assert_rounded(actual: f32, exact: f64, tolerance: f64, name: &str) {
    let expected = exact as f32;
    let same = actual.to_bits() == expected.to_bits() || actual.is_nan() && expected.is_nan();
    let error = (f64::from(actual) - f64::from(expected)).abs();
    // Denormals have fewer digits.
    let bound = tolerance * f64::from(expected).abs() + 2.0 * f64::from(f32::from_bits(1));
    let is_near = actual.is_finite() && expected.is_finite() && expected != 0.0 && error <= bound;
    assert!(same || is_near, "{name} is {actual:e}, expected {expected:e}");
}

/// Returns all pairs of 8-bit integers.
pub(crate) fn pairs_of_i8() -> (Vec<i8>, Vec<i8>) {
    let all = || i8::MIN..=i8::MAX;
    all().flat_map(|a| all().map(move |b| (a, b))).unzip()
}

/// Returns `x` with the element at `index` replaced by `value`.
pub(crate) fn with(x: &[f32], index: usize, value: f32) -> Vec<f32> {
    let mut x = x.to_vec();
    x[index] = value;
    x
}

/// Converts a result in f64 to i8: truncates, then wraps; 0 if not finite. `None` if f64 may have rounded the result.
pub(crate) fn wrapped(exact: f64) -> Option<i8> {
    if !exact.is_finite() {
        return Some(0);
    }
    (exact.abs() < (1u64 << 53) as f64).then_some(exact as i64 as i8)
}
