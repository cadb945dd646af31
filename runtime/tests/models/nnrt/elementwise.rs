//! Arithmetic, comparisons, products and types.

use udo_api::DType::{Bool, F32, F64, I8, I32, I64, U8};

use super::support::{Nd, near, nnrt, operations, places};

fn unary(name: &str, x: &Nd, of: impl Fn(f64) -> f64) {
    nnrt(name).x(x).y(&x.dims).is(&[&x.map(of)]);
}

/// Numbers of either sign.
fn x() -> Nd {
    Nd::noise(&[3, 5], 1)
}

/// Numbers above 0.
fn positive() -> Nd {
    x().map(|x| x.abs() + 0.25)
}

/// Another operand, whose one row is repeated.
fn row() -> Nd {
    Nd::noise(&[5], 2).map(|x| if x == 0.0 { 1.0 } else { x })
}

fn relu6(x: f64) -> f64 {
    x.clamp(0.0, 6.0)
}

/// An operation of two with an activation behind.
fn active(name: &str, of: fn(f64, f64) -> f64) {
    let (a, b) = (x().map(|x| x * 8.0), row());
    let wanted = a.zip(&b, of);
    let run = || nnrt(name).x(&a).x(&b).y(&wanted.dims);
    run().is(&[&wanted]);
    run().text("activation", "relu").is(&[&wanted.map(|y| y.max(0.0))]);
    run().int("activation", 2).is(&[&wanted.map(relu6)]);
}

fn compares(name: &str, of: fn(&f64, &f64) -> bool) {
    let (a, b) = (x(), x().map(|x| if x > 0.0 { x } else { 0.5 }));
    let wanted = a.zip(&b, |a, b| f64::from(of(&a, &b)));
    nnrt(name).x(&a).x(&b).makes(Bool, &wanted.dims).is(&[&wanted]);
}

fn bools(seed: u64) -> Nd {
    Nd::noise(&[2, 4], seed).map(|x| f64::from(x > 0.0))
}

fn logic(name: &str, of: fn(bool, bool) -> bool) {
    let (a, b) = (bools(3), bools(4));
    let wanted = a.zip(&b, |a, b| f64::from(of(a != 0.0, b != 0.0)));
    nnrt(name).input(Bool, &a).input(Bool, &b).makes(Bool, &wanted.dims).is(&[&wanted]);
}

fn erf(x: f64) -> f64 {
    // A sum of the series, which converges fast for numbers of this size.
    let terms = (0..60).scan(x, |term, n| {
        let n = f64::from(n);
        let now = *term / (2.0 * n + 1.0);
        *term *= -x * x / (n + 1.0);
        Some(now)
    });
    terms.sum::<f64>() * 2.0 / std::f64::consts::PI.sqrt()
}

fn picks(name: &str) {
    let (of, a, b) = (bools(5), Nd::noise(&[2, 4], 6), Nd::scalar(9.0));
    let a_or_0 = of.zip(&a, |of, a| of * a);
    let wanted = a_or_0.zip(&of, |a, of| if of == 0.0 { 9.0 } else { a });
    nnrt(name).input(Bool, &of).x(&a).x(&b).y(&wanted.dims).is(&[&wanted]);
}

/// Rows of `a` and columns of `b` multiplied, of matrices that stand in batches.
fn mat_mul(a: &Nd, b: &Nd) -> Nd {
    let [.., rows, depth] = a.dims[..] else { unreachable!() };
    let columns = *b.dims.last().unwrap();
    let mut dims = a.dims[..a.dims.len() - 2].to_vec();
    dims.extend([rows, columns]);
    Nd::from(&dims, |place| {
        let (batch, [row, column]) = place.split_at(place.len() - 2) else { unreachable!() };
        let get = |x: &Nd, at: [usize; 2]| {
            let own = if x.dims.len() == 2 { &[] } else { batch };
            x.at(&[own, &at].concat())
        };
        (0..depth).map(|k| get(a, [*row, k]) * get(b, [k, *column])).sum()
    })
}

operations! {
    1 add { active("ADD", |a, b| a + b) }

    11 div { active("DIV", |a, b| a / b) }

    22 mul { active("MUL", |a, b| a * b) }

    38 sub { active("SUB", |a, b| a - b) }

    20 maximum {
        let (a, b) = (x(), row());
        nnrt("MAXIMUM").x(&a).x(&b).y(&a.dims).is(&[&a.zip(&b, f64::max)]);
    }

    97 minimum {
        let (a, b) = (x(), row());
        nnrt("MINIMUM").x(&a).x(&b).y(&a.dims).is(&[&a.zip(&b, f64::min)]);
    }

    34 squared_difference {
        let (a, b) = (x(), row());
        let wanted = a.zip(&b, |a, b| (a - b) * (a - b));
        nnrt("SQUARED_DIFFERENCE").x(&a).x(&b).y(&a.dims).is(&[&wanted]);
    }

    83 modulus {
        let (a, b) = (x().map(|x| x * 7.0), row());
        nnrt("MOD").x(&a).x(&b).y(&a.dims).is(&[&a.zip(&b, |a, b| a % b)]);
        let (a, b) = (Nd::list(&[-7.0, 7.0, -7.0, 7.0]), Nd::list(&[3.0, 3.0, -3.0, -3.0]));
        let run = nnrt("MOD").input(I32, &a).input(I32, &b).makes(I32, &[4]);
        run.is(&[&a.zip(&b, |a, b| a % b)]);
    }

    12 eltwise {
        let (a, b) = (x(), row());
        let run = || nnrt("ELTWISE").x(&a).x(&b).y(&a.dims);
        run().int("mode", 0).is(&[&a.zip(&b, |a, b| a * b)]);
        run().text("mode", "sum").is(&[&a.zip(&b, |a, b| a + b)]);
        run().int("mode", 2).is(&[&a.zip(&b, f64::max)]);
        assert_eq!(run().error(), "ELTWISE_0: attribute \"mode\" is missing");
    }

    25 pow {
        let (a, b) = (positive(), row());
        let run = || nnrt("POW").x(&a).x(&b).y(&a.dims);
        run().is(&[&a.zip(&b, f64::powf)]);
        let wanted = a.map(|x| 2.0 * x + 0.5).zip(&b, f64::powf);
        run().float("scale", 2.0).float("shift", 0.5).is(&[&wanted]);
    }

    26 scale {
        let x = Nd::noise(&[2, 3, 4], 1);
        let (last, middle) = (Nd::noise(&[4], 2), Nd::noise(&[3], 3));
        let wanted = x.zip(&last, |x, s| x * s).zip(&last, |x, b| x + b);
        nnrt("SCALE").x(&x).x(&last).x(&last).y(&x.dims).is(&[&wanted]);
        let column = middle.reshaped(&[3, 1]);
        let wanted = x.zip(&column, |x, s| x * s).zip(&column, |x, b| relu6(x + b));
        let run = nnrt("SCALE").x(&x).x(&middle).x(&middle).y(&x.dims);
        run.int("axis", 1).text("activation", "relu6").is(&[&wanted]);
        let error = nnrt("SCALE").x(&x).x(&column).x(&last).y(&x.dims).error();
        assert_eq!(error, "SCALE_0: input 1 has 2 dimensions from axis 2 on, expected fewer");
    }

    28 sigmoid { unary("SIGMOID", &x(), |x| 1.0 / (1.0 + (-x).exp())) }

    33 sqrt { unary("SQRT", &positive(), f64::sqrt) }

    39 tanh { unary("TANH", &x(), f64::tanh) }

    44 rsqrt { unary("RSQRT", &positive(), |x| 1.0 / x.sqrt()) }

    47 relu { unary("RELU", &x(), |x| x.max(0.0)) }

    48 relu6_of_input { unary("RELU6", &x().map(|x| x * 8.0), relu6) }

    17 hswish { unary("HSWISH", &x().map(|x| x * 3.0), |x| x * relu6(x + 3.0) / 6.0) }

    107 hard_sigmoid { unary("HARD_SIGMOID", &x().map(|x| x * 3.0), |x| relu6(x + 3.0) / 6.0) }

    105 swish { unary("SWISH", &x(), |x| x / (1.0 + (-x).exp())) }

    58 abs { unary("ABS", &x(), f64::abs) }

    59 error_function { unary("ERF", &x(), erf) }

    63 square { unary("SQUARE", &x(), |x| x * x) }

    79 cos { unary("COS", &x(), f64::cos) }

    86 sin { unary("SIN", &x(), f64::sin) }

    80 log { unary("LOG", &positive(), f64::ln) }

    84 neg { unary("NEG", &x(), |x| -x) }

    85 reciprocal { unary("RECIPROCAL", &positive(), |x| 1.0 / x) }

    90 ceil { unary("CEIL", &x(), f64::ceil) }

    93 floor { unary("FLOOR", &x(), f64::floor) }

    102 round { unary("ROUND", &x().map(|x| x * 2.0), f64::round_ties_even) }

    56 gelu {
        unary("GELU", &x(), |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())));
        let root = (2.0 / std::f64::consts::PI).sqrt();
        let wanted = x().map(|x| 0.5 * x * (1.0 + (root * (x + 0.044_715 * x * x * x)).tanh()));
        nnrt("GELU").x(&x()).y(&[3, 5]).int("approximate", 1).is(&[&wanted]);
    }

    60 exp {
        unary("EXP", &x(), f64::exp);
        let wanted = x().map(|x| 2f64.powf(0.5 * x + 1.0));
        let run = || nnrt("EXP").x(&x()).y(&[3, 5]).float("scale", 0.5).float("shift", 1.0);
        run().float("base", 2.0).is(&[&wanted]);
        let error = run().float("base", 0.0).error();
        assert_eq!(error, "EXP_0: attribute \"base\" is 0, expected a number above 0, or -1 for e");
    }

    74 leaky_relu {
        unary("LEAKY_RELU", &x(), |x| if x < 0.0 { 0.01 * x } else { x });
        let wanted = x().map(|x| if x < 0.0 { 0.25 * x } else { x });
        nnrt("LEAKY_RELU").x(&x()).y(&[3, 5]).float("negative_slope", 0.25).is(&[&wanted]);
    }

    76 clip {
        let run = || nnrt("CLIP").x(&x()).y(&[3, 5]);
        run().is(&[&x()]);
        run().float("min", -0.5).is(&[&x().map(|x| x.max(-0.5))]);
        run().float("min", -1.0).float("max", 0.5).is(&[&x().map(|x| x.clamp(-1.0, 0.5))]);
    }

    18 less_equal { compares("LESS_EQUAL", f64::le) }

    61 less { compares("LESS", f64::lt) }

    70 equal { compares("EQUAL", f64::eq) }

    71 greater { compares("GREATER", f64::gt) }

    72 not_equal { compares("NOT_EQUAL", f64::ne) }

    73 greater_equal { compares("GREATER_EQUAL", f64::ge) }

    81 and { logic("AND", |a, b| a && b) }

    89 or { logic("OR", |a, b| a || b) }

    82 not {
        let a = bools(3);
        nnrt("NOT").input(Bool, &a).makes(Bool, &a.dims).is(&[&a.map(|a| 1.0 - a)]);
    }

    62 select { picks("SELECT") }

    87 where_a_truth_holds { picks("WHERE") }

    6 cast {
        let x = Nd::list(&[-1.5, 0.0, 2.75, 100.0]);
        let run = |to: i64| nnrt("CAST").x(&x).constant(I32, &Nd::scalar(to as f64));
        run(4).makes(I32, &[4]).is(&[&x.map(f64::trunc)]);
        run(1).makes(Bool, &[4]).is(&[&x.map(|x| f64::from(x != 0.0))]);
        run(12).makes(F64, &[4]).is(&[&x]);
        let error = run(4).makes(I64, &[4]).error();
        assert_eq!(error, "CAST_0: input 1 is 4, expected 5, as its tensor is i64");
    }

    52 quant_dtype_cast {
        let x = Nd::list(&[-1.0, 0.0, 0.26, 100.0]);
        let stored = Nd::list(&[-1.0, 3.0, 4.0, 127.0]);
        let run = nnrt("QUANT_DTYPE_CAST").x(&x).makes(I8, &[4]).output_encoded(0.25, 3);
        run.int("src_t", 11).int("dst_t", 2).is(&[&stored]);
        let run = nnrt("QUANT_DTYPE_CAST").input(I8, &stored).encoded(0.25, 3).y(&[4]);
        run.is(&[&stored.map(|q| (q - 3.0) * 0.25)]);
        let run = nnrt("QUANT_DTYPE_CAST").input(I8, &stored).encoded(0.25, 3);
        let run = run.makes(U8, &[4]).output_encoded(0.5, 128);
        let wanted = stored.map(|q| ((q - 3.0) * 0.25 / 0.5).round_ties_even() + 128.0);
        run.is(&[&wanted]);
        let error = nnrt("QUANT_DTYPE_CAST").x(&x).y(&[4]).error();
        assert!(error.ends_with("expected one of them quantized"), "{error}");
        let error = nnrt("QUANT_DTYPE_CAST").x(&x).y(&[4]).int("src_t", 10).error();
        assert!(error.ends_with("is 10, expected 11, as its tensor is f32"), "{error}");
    }

    19 mat_mul_of_sides {
        let (a, b) = (Nd::noise(&[2, 3, 4], 1), Nd::noise(&[2, 4, 5], 2));
        let wanted = mat_mul(&a, &b);
        nnrt("MATMUL").x(&a).x(&b).y(&[2, 3, 5]).is(&[&wanted]);
        let (at, bt) = (a.permuted(&[0, 2, 1]), b.permuted(&[0, 2, 1]));
        let run = || nnrt("MATMUL").x(&at).x(&bt).y(&[2, 3, 5]).int("transpose_a", 1);
        let run = run().int("transpose_b", 1).int("activation", 1);
        run.is(&[&wanted.map(|y| y.max(0.0))]);
        let error = nnrt("MATMUL").x(&Nd::list(&[1.0])).x(&b).y(&[5]).int("transpose_a", 1).error();
        assert_eq!(error, "MATMUL_0: input 0 is f32[1], expected two dimensions to transpose");
    }

    15 full_connection {
        let (x, w, bias) = (Nd::noise(&[3, 4], 1), Nd::noise(&[5, 4], 2), Nd::noise(&[5], 3));
        let product = mat_mul(&x, &w.permuted(&[1, 0]));
        nnrt("FULL_CONNECTION").x(&x).constant(F32, &w).y(&[3, 5]).is(&[&product]);
        let wanted = product.zip(&bias, |y, b| (y + b).max(0.0));
        let run = || nnrt("FULL_CONNECTION").x(&x).constant(F32, &w).constant(F32, &bias);
        let run_with = || run().y(&[3, 5]).int("has_bias", 1).int("activation", 1);
        run_with().is(&[&wanted]);
        let error = run().y(&[3, 5]).int("has_bias", 0).error();
        let words = "attribute \"has_bias\" does not go with 3 inputs, expected 3 with a bias, else 2";
        assert_eq!(error, format!("FULL_CONNECTION_0: {words}"));
        // Images become rows, all of each or of what is behind an axis.
        let images = Nd::noise(&[3, 2, 2], 4);
        let rows = images.reshaped(&[3, 4]);
        let wanted = mat_mul(&rows, &w.permuted(&[1, 0])).zip(&bias, |y, b| y + b);
        let run = || nnrt("FULL_CONNECTION").x(&images).x(&w).x(&bias);
        run().y(&[3, 5]).int("use_axis", 1).is(&[&wanted]);
        let stacked = Nd::noise(&[2, 3, 4], 5);
        let wanted = mat_mul(&stacked, &w.permuted(&[1, 0])).zip(&bias, |y, b| y + b);
        let run = nnrt("FULL_CONNECTION").x(&stacked).x(&w).x(&bias).y(&[2, 3, 5]);
        run.int("use_axis", 1).int("axis", 2).is(&[&wanted]);
        let run = nnrt("FULL_CONNECTION").x(&stacked).x(&w).x(&bias).y(&[6, 5]);
        run.is(&[&wanted.reshaped(&[6, 5])]);
    }
}

#[test]
fn quantized_operands_are_their_numbers() {
    let (a, b) = (Nd::list(&[-128.0, 3.0, 127.0]), Nd::list(&[0.0, 10.0, 255.0]));
    let run = nnrt("ADD").input(I8, &a).encoded(0.5, 3).input(U8, &b).encoded(0.25, 10);
    let made = run.makes(I8, &[3]).output_encoded(1.0, -2).run();
    let real = a.map(|q| (q - 3.0) * 0.5).zip(&b.map(|q| (q - 10.0) * 0.25), |a, b| a + b);
    near(&made, &[&real.map(|y| (y.round_ties_even() - 2.0).clamp(-128.0, 127.0))], 0.0);
    assert_eq!(places(&[0, 3]).len(), 0);
}
