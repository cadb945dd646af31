//! Tests of the error bounds that an evaluation returns: single-precision results are within them, known bounds have
//! their exact size, and an undecided value, which rounding could change, allows both outcomes.

use udo_reference::{
    Argument, Arguments, Arithmetic, Class, Elements, EvalError, Evaluated, Input, Output, Program,
    Settings, Signature, Storage, Tensor,
};

fn signature(class: Class) -> Signature {
    let x = Input {
        name: "x".to_owned(),
        class: Class::Float,
        optional: false,
        is_static: false,
        default: None,
    };
    Signature {
        inputs: vec![x],
        outputs: vec![Output { name: "y".to_owned(), class }],
        params: vec![],
    }
}

fn evaluate(source: &str, class: Class, x: &[f64], storage: Storage) -> Evaluated {
    let program =
        Program::read(source, &signature(class)).unwrap_or_else(|e| panic!("{source}: {e}"));
    let x = Tensor { dims: vec![x.len()], elements: Elements::Float(x.to_vec()) };
    let arguments = Arguments { inputs: vec![Argument::Tensor(x)], params: vec![] };
    let settings = Settings::new(Arithmetic::F32, vec![storage]);
    program.evaluate(&arguments, &settings).unwrap_or_else(|e| panic!("{source}: {e}")).remove(0)
}

/// Returns the first element and its bound.
fn value(output: &Evaluated) -> (f64, f64) {
    (crate::support::reals(&output.tensor)[0], output.allowed[0])
}

/// The unit roundoff of single precision.
const UNIT_ROUNDOFF: f64 = 1.0 / (1_u32 << 24) as f64;

#[test]
fn bounds_count_the_roundings_of_a_result() {
    let third = 1.0_f32 / 3.0;
    let x = f64::from(third);
    let tiny = f64::from(f32::MIN_POSITIVE);
    let cases = [
        // One rounding.
        ("y = x * x", x * x, UNIT_ROUNDOFF * x * x),
        // Exact operations.
        ("y = x + x", 2.0 * x, 0.0),
        ("y = x - x", 0.0, 0.0),
        // A product of a rounded factor.
        ("y = (x * x) * x", x * x * x, 2.0 * UNIT_ROUNDOFF * x * x * x),
        ("y = floor(x)", 0.0, 0.0),
        ("y = max(x, 0)", x, 0.0),
        // Two units of an exponential of three units in the last place.
        ("y = exp(x)", x.exp(), 6.0 * UNIT_ROUNDOFF * x.exp()),
        ("y = 0.1 * x", 0.1 * x, 2.0 * UNIT_ROUNDOFF * 0.1 * x),
    ];
    for (source, expected, bound) in cases {
        let (actual, allowed) = value(&evaluate(source, Class::Float, &[x], Storage::F32));
        assert!((actual - expected).abs() <= 1e-15, "{source}: {actual}, wanted {expected}");
        let stored = if bound == 0.0 { 0.0 } else { UNIT_ROUNDOFF * expected.abs() };
        let is_close = (allowed - bound - stored).abs() <= 1e-6 * bound + tiny;
        assert!(is_close, "{source}: {allowed}, wanted {bound} and {stored} of storage");
    }
}

#[test]
fn undecided_integers_widen_the_bounds_of_lists_and_folds() {
    let third = f64::from(1.0_f32 / 3.0);
    let number = "int(floor(x[0] * 3.0))";
    let sources = [
        (format!("y[i < 1] = x[unravel({number}, dims(x))..]"), 1.0),
        (format!("y[i < 1] = float(dims(x)[{number} - 1])"), 1.0),
        (format!("y[i < 1] = float(ravel([{number}], dims(x)))"), 1.0),
        (format!("y[i < 1] = sum[k < {number}](1.0)"), 1.0),
    ];
    for (source, min_bound) in &sources {
        let (_, allowed) = value(&evaluate(source, Class::Float, &[third, 5.0], Storage::F32));
        assert!(allowed >= *min_bound, "{source}: {allowed}");
        let (_, allowed) = value(&evaluate(source, Class::Float, &[0.5, 5.0], Storage::F32));
        assert!(allowed < 1e-5, "{source}: {allowed}");
    }
}

/// Sums in any order stay within `(n - 1) u` of the sum of magnitudes, and no bound is much larger.
#[test]
fn bounds_of_sums_are_proportional_to_the_number_of_terms() {
    let x: Vec<f64> = (0..1000).map(|k| f64::from(1.0_f32 / (k as f32 + 3.0))).collect();
    let output = evaluate("y = sum(x, axis = 0)", Class::Float, &x, Storage::F32);
    let (actual, allowed) = value(&output);
    let bound = 1000.0 * UNIT_ROUNDOFF * x.iter().sum::<f64>();
    assert!(allowed <= 1.01 * bound && allowed > 0.9 * bound, "{allowed}, wanted about {bound}");
    for order in [1_usize, 3, 7, 501] {
        let sum = (0..1000).fold(0.0_f32, |sum, k| sum + x[k * order % 1000] as f32);
        assert!((f64::from(sum) - actual).abs() <= allowed, "order {order}");
    }
}

#[test]
fn undecided_conditions_allow_both_outcomes() {
    let x = f64::from(0.1_f32);
    // 0.1 * 10 is 1 within a rounding, from either side.
    let (_, allowed) =
        value(&evaluate("y = if x * 10 > 1 then 5 else 3", Class::Float, &[x], Storage::F32));
    assert_eq!(allowed.to_bits(), 2.0_f64.to_bits());
    let (_, allowed) = value(&evaluate("y = floor(x * 10)", Class::Float, &[x], Storage::F32));
    assert_eq!(allowed.to_bits(), 1.0_f64.to_bits());
    let output =
        evaluate("y = argmax(x * 0.1, axis = 0)", Class::Int, &[x, x * 0.5, x], Storage::F32);
    assert_eq!(value(&output), (0.0, 2.0));
    let output = evaluate("y = x * 10 > 1", Class::Bool, &[x], Storage::Bool);
    assert_eq!(output.allowed, [1.0]);
    // Inputs are exact, so comparisons of them are decided.
    let output = evaluate("y = argmax(x, axis = 0)", Class::Int, &[x, x * 0.5, x], Storage::F32);
    assert_eq!(value(&output), (0.0, 0.0));
    let (_, allowed) =
        value(&evaluate("y = if x > 0 then 5 else 3", Class::Float, &[0.0], Storage::F32));
    assert_eq!(allowed.to_bits(), 0);
    // An undecided index may read either of two neighbours.
    let source = "y[i < 1] = x[int(floor(x[0] * 10))]";
    let output = evaluate(source, Class::Float, &[x, 4.0, 7.0], Storage::F32);
    assert!(output.allowed[0] >= 4.0 - x && output.allowed[0].is_finite(), "{output:?}");
    let source = "let k = select[r < dim(x, 0)](x[r] * 10 > 1)\ny[j < dim(k, 0)] = x[k[j]]";
    assert!(evaluate(source, Class::Float, &[x, 4.0], Storage::F32).extents_unsure);
}

#[test]
fn results_near_poles_and_overflows_are_unbounded() {
    let x = f64::from(0.1_f32);
    for source in [
        "y = 1 / (x * 10 - 1)",
        "y = log(x * 10 - 1)",
        "y = x * 1e38 * 1e38",
        "y = tan(x * 1e30 * 1e5)",
    ] {
        let (_, allowed) = value(&evaluate(source, Class::Float, &[x], Storage::F32));
        assert_eq!(allowed.to_bits(), f64::INFINITY.to_bits(), "{source}");
    }
    for source in ["y = 1 / x", "y = -x / x", "y = x * inf"] {
        let (actual, allowed) = value(&evaluate(source, Class::Float, &[0.0], Storage::F32));
        assert!(!actual.is_finite() && allowed == 0.0, "{source}: {actual} +- {allowed}");
    }
}

#[test]
fn declared_tolerances_never_tighten_a_bound() {
    let loose =
        "y = exp(x)\ntolerance y relative 0.01 absolute 0.5 because \"a table of eight entries\"";
    let tight = "y = exp(x)\ntolerance y relative 0 absolute 0 because \"none\"";
    let bound = |source| value(&evaluate(source, Class::Float, &[1.0], Storage::F32)).1;
    assert!((bound(loose) - (0.01 * 1.0_f64.exp() + 0.5)).abs() < 1e-12);
    assert_eq!(bound(tight).to_bits(), bound("y = exp(x)").to_bits());
    let program = Program::read(loose, &signature(Class::Float)).unwrap();
    assert_eq!(program.tolerances().next().unwrap().unwrap().reason, "a table of eight entries");
}

type SinglePrecisionFn = fn(f32) -> f32;

#[test]
fn results_of_single_precision_are_within_the_bounds() {
    let x: Vec<f64> = (1..200).map(|k| f64::from(k as f32 / 37.0 - 2.6)).collect();
    let cases: [(&str, SinglePrecisionFn); 9] = [
        ("y = exp(x) * x - x", |x| x.exp() * x - x),
        ("y = x / (1 + abs(x))", |x| x / (1.0 + x.abs())),
        ("y = tanh(x) * sigmoid(x)", |x| x.tanh() / (1.0 + (-x).exp())),
        ("y = sin(3 * x) + cos(x * x)", |x| (3.0 * x).sin() + (x * x).cos()),
        ("y = log1p(exp(x)) - x", |x| x.exp().ln_1p() - x),
        ("y = sqrt(abs(x)) * pow(abs(x), 1.5)", |x| x.abs().sqrt() * x.abs().powf(1.5)),
        ("y = atan(x * 5) - asinh(x)", |x| (x * 5.0).atan() - x.asinh()),
        ("y = (x + 1000) - 1000", |x| (x + 1000.0) - 1000.0),
        ("y = cosh(x) * sinh(x) - tan(x / 3)", |x| x.cosh() * x.sinh() - (x / 3.0).tan()),
    ];
    for (source, single) in cases {
        let output = evaluate(source, Class::Float, &x, Storage::F32);
        let expected_values =
            crate::support::reals(&output.tensor).into_iter().zip(&output.allowed);
        for ((expected, allowed), x) in expected_values.zip(&x) {
            let actual = f64::from(single(*x as f32));
            assert!(
                (actual - expected).abs() <= *allowed,
                "{source} at {x}: {actual}, wanted {expected} +- {allowed}"
            );
        }
    }
}

#[test]
fn evaluation_steps_are_limited() {
    let program =
        Program::read("y = x * sum[i < 1000000000](i)", &signature(Class::Float)).unwrap();
    let x = Tensor { dims: vec![1], elements: Elements::Float(vec![1.0]) };
    let arguments = Arguments { inputs: vec![Argument::Tensor(x)], params: vec![] };
    let mut settings = Settings::new(Arithmetic::F32, vec![Storage::F32]);
    settings.limit = 10_000;
    let error = program.evaluate(&arguments, &settings).unwrap_err();
    assert!(matches!(error, EvalError::Work { limit: 10_000, .. }), "{error}");
    let huge = Program::read("y[i < 1000000, j < 1000000] = 1", &signature(Class::Float)).unwrap();
    assert!(matches!(huge.evaluate(&arguments, &settings).unwrap_err(), EvalError::Work { .. }));
}

#[test]
fn evaluation_errors_have_positions() {
    let cases = [
        ("y[i < 3] = x[i]", "1:13: the input `x` is read at [1], outside of its dimensions [1]"),
        ("y[i < 1] = x[i, i]", "1:13: the input `x` has rank 1 and is read with 2 indices"),
        ("y[i < 1] = 1 // i", "1:14: an integer division by 0"),
        ("y[i < dim(x, 2)] = 1", "1:7: item 2 is out of range for a list of 1"),
        ("y[i < 0 - 3] = 1", "1:1: the dimension -3 is negative"),
        (
            "y = reshape(x, [2])",
            "1:5: requirement not met: a shape of as many elements in `reshape`",
        ),
        ("y = sum(x, axis = [0, -1])", "1:5: axis -1 is given twice"),
        ("y = x[argmax[i < 0](i)]", "1:7: an extreme of no elements"),
        ("y = expand(x, [for a < 20: 1])", "1:5: a list has more than 16 items"),
    ];
    for (source, expected) in cases {
        let program = Program::read(source, &signature(Class::Float))
            .unwrap_or_else(|e| panic!("{source}: {e}"));
        let x = Tensor { dims: vec![1], elements: Elements::Float(vec![1.0]) };
        let arguments = Arguments { inputs: vec![Argument::Tensor(x)], params: vec![] };
        let settings = Settings::new(Arithmetic::F32, vec![Storage::F32]);
        assert_eq!(
            program.evaluate(&arguments, &settings).unwrap_err().to_string(),
            expected,
            "{source}"
        );
    }
}
