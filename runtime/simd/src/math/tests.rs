//! Compares the functions with their `f64` counterparts, over all exponents.

use super::{
    Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Erf, Exp, Expm1, Log, Log1p, Rsqrt, Sigmoid,
    Sin, Sinh, Tan, Tanh,
};
use crate::formula::{Map1, map1_in_place_on, map1_on};
use crate::isa::Isa;
use crate::testing::{Edge, Guarded};

/// Returns arguments: every sign and exponent, each with extreme and many random mantissas, and special values.
fn sweep() -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut values = Vec::new();
    // The sign and the exponent are the high 9 bits.
    for high in 0..512u32 {
        for low in [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff] {
            values.push(f32::from_bits(high << 23 | low));
        }
        for _ in 0..1500 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            values.push(f32::from_bits(high << 23 | (state >> 41) as u32));
        }
    }
    // Neighbours of multiples of an eighth turn, where sine and cosine are small or the reduction changes.
    for n in 0..20_000 {
        let near = (f64::from(n) * std::f64::consts::FRAC_PI_4) as f32;
        values.extend([near.next_down(), near, near.next_up(), -near]);
    }
    // Known bad cases of argument reduction: close to a multiple of pi / 2, and around the switch between two methods.
    values.extend([
        16_367_173.0 * 2f32.powi(72),
        5.378_252e36,
        1.570_796_4,
        8192.0,
        8192.001,
        8191.999,
    ]);
    for n in -4000..4000i16 {
        values.push(f32::from(n) * 0.03);
    }
    values
}

/// Returns the distance of `actual` to the exact value in ulp; 0 or infinity if one of them is not finite.
pub(crate) fn ulps(actual: f32, exact: f64) -> f64 {
    if exact.is_nan() || actual.is_nan() {
        return if exact.is_nan() && actual.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if exact.is_infinite() || exact == 0.0 {
        return if actual.to_bits() == (exact as f32).to_bits() { 0.0 } else { f64::INFINITY };
    }
    if exact.abs() >= 2f64.powi(128) {
        return if actual.is_infinite() && (actual > 0.0) == (exact > 0.0) {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let beyond = 2f64.powi(128).copysign(f64::from(actual));
    let actual = if actual.is_infinite() { beyond } else { f64::from(actual) };
    let exponent = ((exact.to_bits() >> 52 & 0x7ff) as i32 - 1023).clamp(-126, 127);
    (actual - exact).abs() / 2f64.powi(exponent - 23)
}

/// Asserts that a formula is within `bound` ulp of the exact function on every instruction set.
fn check<F: Map1>(formula: F, bound: f64, exact: impl Fn(f64) -> f64) {
    let x = sweep();
    let mut failures = Vec::new();
    for &isa in Isa::available() {
        let mut y = vec![0.0; x.len()];
        map1_on(isa, formula, &x, &mut y);
        let errors = x.iter().zip(&y).map(|(&x, &y)| (ulps(y, exact(f64::from(x))), x, y));
        let worst = errors.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        println!("{isa:?}: {worst:?}");
        if worst.0 > bound {
            failures.push((isa, worst));
        }
    }
    assert!(failures.is_empty(), "beyond {bound} ulp: {failures:?}");
}

/// Computes erf by `2 / sqrt(pi) * exp(-x^2) * sum of 2^n x^(2n+1) / (2n+1)!!`, whose terms have the same sign.
fn erf_exact(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        return x;
    }
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > 1e-18 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn exp_is_within_its_error() {
    check(Exp, 1.1, f64::exp);
}

#[test]
fn log_is_within_its_error() {
    check(Log, 1.0, f64::ln);
}

#[test]
fn tanh_is_within_its_error() {
    check(Tanh, 2.5, f64::tanh);
}

#[test]
fn sigmoid_is_within_its_error() {
    check(
        Sigmoid,
        2.5,
        |x| {
            if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
        },
    );
}

#[test]
fn erf_is_within_its_error() {
    check(Erf, 1.2, erf_exact);
}

#[test]
fn sin_is_within_its_error() {
    check(Sin, 2.0, f64::sin);
}

#[test]
fn cos_is_within_its_error() {
    check(Cos, 2.0, f64::cos);
}

#[test]
fn rsqrt_is_within_its_error() {
    check(Rsqrt, 1.5, |x| 1.0 / x.sqrt());
}

#[test]
fn tan_is_within_its_error() {
    check(Tan, 4.0, f64::tan);
}

#[test]
fn expm1_and_log1p_are_within_their_error() {
    check(Expm1, 2.0, f64::exp_m1);
    check(Log1p, 2.0, f64::ln_1p);
}

#[test]
fn inverse_functions_are_within_their_error() {
    check(Asin, 3.0, f64::asin);
    check(Acos, 3.0, f64::acos);
    check(Atan, 3.0, f64::atan);
}

#[test]
fn hyperbolic_functions_are_within_their_error() {
    check(Sinh, 4.0, f64::sinh);
    check(Cosh, 4.0, f64::cosh);
    check(Asinh, 4.0, f64::asinh);
    check(Acosh, 4.0, f64::acosh);
    check(Atanh, 4.0, f64::atanh);
}

#[test]
fn slices_of_any_length_are_processed_to_their_end() {
    for &isa in Isa::available() {
        for len in 0..40u8 {
            let x: Vec<f32> = (0..len).map(|i| f32::from(i) * 0.3).collect();
            for edge in [Edge::Start, Edge::End] {
                let input = Guarded::new(&x, edge);
                let mut output = Guarded::new(&vec![7.0f32; x.len()], edge);
                map1_on(isa, Exp, &input, &mut output);
                let mut in_place = Guarded::new(&x, edge);
                map1_in_place_on(isa, Exp, &mut in_place);
                for (i, x) in x.iter().enumerate() {
                    assert!(ulps(output[i], f64::from(*x).exp()) < 1.1, "{isa:?} {len} {i}");
                    assert_eq!(output[i].to_bits(), in_place[i].to_bits());
                }
            }
        }
    }
}

#[test]
fn no_function_allocates() {
    let x = [0.5f32; 77];
    let mut y = [0.0f32; 77];
    // Detection of the instruction set may allocate in the first run.
    let quiet = (0..100_000).any(|_| {
        let before = udo_api::guard::thread_heap_calls();
        super::exp(&x, &mut y);
        super::sin(&x, &mut y);
        super::erf_in_place(&mut y);
        udo_api::guard::thread_heap_calls() == before
    });
    assert!(quiet);
}
