//! Sources that the checker of the reference language refuses, with their messages.

use udo_reference::{Class, Fault, Input, Output, Param, ParamKind, Program, Signature, Value};
use udo_test_support::random::Random;

/// Inputs `x` and `k` (integers) and an optional `b`, parameters `axis`, `mode` and `perm`, an output `y`.
fn signature() -> Signature {
    let input = |name: &str, class, optional| Input {
        name: name.to_owned(),
        class,
        optional,
        is_static: false,
        default: None,
    };
    let param = |name: &str, kind, default| Param { name: name.to_owned(), kind, default };
    Signature {
        inputs: vec![
            input("x", Class::Float, false),
            input("k", Class::Int, false),
            input("b", Class::Float, true),
        ],
        outputs: vec![Output { name: "y".to_owned(), class: Class::Float }],
        params: vec![
            param("axis", ParamKind::Scalar(Class::Int), Some(Value::Int(0))),
            param("mode", ParamKind::Text, None),
            param("perm", ParamKind::Tensor(Class::Int), None),
        ],
    }
}

/// Returns the messages of an invalid source.
fn faults(source: &str) -> Vec<String> {
    let faults = Program::read(source, &signature()).err().unwrap_or_else(|| panic!("{source}"));
    faults.0.iter().map(Fault::to_string).collect()
}

#[test]
fn the_suggested_comparison_of_lists_is_valid() {
    let source = "require all[a < len(dims(x))](dims(x)[a] == dims(x)[-1]), \"all\"\ny = x";
    assert_eq!(Program::read(source, &signature()).err().map(|faults| faults.to_string()), None);
}

/// Sources, and the first fault of each.
const FAULTS: &[(&str, &str)] = &[
    ("y = z", "1:5: `z` is not defined; did you mean `x`?"),
    ("y = wieghts", "1:5: `wieghts` is not defined"),
    ("y = softmax(x)", "1:5: no function `softmax`"),
    ("y = expp(x)", "1:5: no function `expp`; did you mean `exp`?"),
    ("z = x", "1:1: no output `z`; did you mean `y`?"),
    ("result = x", "1:1: no output `result`; define other names with `let`"),
    ("let y = x", "1:1: `y` is an output; define it without `let`"),
    ("let x = 1\ny = 1", "1:1: the name `x` is in use"),
    ("y[x < 3] = 1", "1:3: the name `x` is in use"),
    ("y = x\ny = x", "2:1: the output `y` is defined twice"),
    ("let a = x", "1:1: the output `y` is not defined"),
    ("y = b", "1:5: the input `b` is optional; use it in the `then` branch of `if present(b)`"),
    (
        "y = if present(b) then x else b",
        "1:31: the input `b` is optional; use it in the `then` branch of `if present(b)`",
    ),
    ("y = if present(c) then x else x", "1:16: no input `c`; did you mean `x`?"),
    ("y = x == x", "1:7: found bool, expected float; convert it with `float(..)`"),
    ("y = x + (x > 0)", "1:7: found `+` of float and bool, expected two values of the same type"),
    (
        "y = k / k",
        "1:7: found `/` of two integers, expected `//`, `trunc_div`, or `float(..)` of an operand",
    ),
    ("y = x // x", "1:7: found `//` of floats, expected `floor(a / b)`"),
    ("y = if x then 1 else 2", "1:8: found float, expected bool; convert it with `bool(..)`"),
    (
        "y = if x > 0 then 1 else x > 0",
        "1:5: found int after `then` and bool after `else`, expected two values of the same type",
    ),
    ("y = not x", "1:5: found float, expected bool; convert it with `bool(..)`"),
    ("y = mode", "1:5: found a string, expected numbers; strings can only be compared"),
    ("y = if mode < \"a\" then 1 else 2", "1:13: found `<` of strings, expected `==` or `!=`"),
    (
        "require dims(x) == dims(x), \"all\"\ny = x",
        "1:17: found a list, expected a scalar or a tensor; `l[k]` reads one item; `all[k < len(l)](l[k] == m[k])` compares two lists",
    ),
    (
        "y[i < 3] = x",
        "1:12: found a float tensor, expected a scalar; read one element as `name[i, ..]`",
    ),
    (
        "y[i < k[0]] = 1",
        "1:1: the bound of an index of a definition must depend on shapes and parameters only, and reads `k`",
    ),
    ("y[i < 3] = x[0.5]", "1:14: found float, expected int; convert it with `int(..)`"),
    (
        "y[i < 3] = sum(x * i)",
        "1:12: found an index or a local name in a whole-tensor expression, expected an expression over indices, as in `sum[k < n](x[i, k])`",
    ),
    (
        "let t[i < 3] = i\ny[i < 3] = t[i, i]",
        "2:13: found 2 indices, expected 1, the rank of the tensor",
    ),
    ("y = sum(x, axes = 1)", "1:12: found argument `axes` of `sum`, expected `axis` or `keep`"),
    (
        "y = sum(x, axis = k)",
        "1:19: a list must depend on shapes and parameters only, and reads `k`",
    ),
    ("y = any(x)", "1:5: found `any` of float, expected bools"),
    (
        "y = sum(1)",
        "1:9: found `sum` of an int scalar, expected a tensor, or indices as in `sum[k < n](..)`",
    ),
    ("y = exp(x, x)", "1:5: found 2 arguments of `exp`, expected 1"),
    ("y = concat(x, k, axis = 0)", "1:5: found `concat` of several types, expected one type"),
    ("y = x[0:1]", "1:7: found a slice, expected one slice of a list"),
    ("y = dims(x)[0, 1]", "1:12: a list is indexed as `list[k]` or sliced as `list[from:to]`"),
    (
        "require x[0] > 0, \"more\"\ny = x",
        "1:14: a condition of `require` must depend on shapes and parameters only, and reads `x`",
    ),
    ("y = x\ntolerance z relative 1 because \"w\"", "2:1: no output `z`; did you mean `y`?"),
    (
        "y = select[r < 3](x[r] > 0, order = 1)",
        "1:29: found argument `order` of `select`, expected `by`, `limit` or `unless`",
    ),
    (
        "y = select[r < 3](true, unless = true)",
        "1:5: `select` has `unless` without a name after `;`, or the name without `unless`; write `select[r < n; s](.., unless = near[r, s])`",
    ),
    (
        "y = let n = x[0] in expand(x, [int(n)])",
        "1:14: `n` is part of a shape and must depend on shapes and parameters only",
    ),
    (
        "y[a < 1, b1 < 1, c < 1, d < 1, e < 1, f < 1, g < 1, h < 1, i < 1] = 1",
        "1:1: found rank 9, expected at most 8",
    ),
];

#[test]
fn faults_name_the_place_the_problem_and_what_is_expected() {
    for (source, expected) in FAULTS {
        let actual = faults(source);
        assert_eq!(actual.first().map(String::as_str), Some(*expected), "{source}");
    }
}

#[test]
fn each_fault_is_reported_once() {
    let actual = faults("let a = zz + 1\nlet c = a * 2\ny = k / k\nlet d = pipe");
    let expected = [
        "1:9: `zz` is not defined",
        "3:7: found `/` of two integers, expected `//`, `trunc_div`, or `float(..)` of an operand",
        "4:9: `pipe` is not defined",
    ];
    assert_eq!(actual, expected);
}

#[test]
fn unused_names_are_warnings() {
    let program = Program::read("let a = 1\nlet c = axis\ny = x * c", &signature()).unwrap();
    let actual: Vec<_> = program.warnings().iter().map(Fault::to_string).collect();
    let expected = [
        "1:1: the input `k` is not used",
        "1:1: the input `b` is not used",
        "1:1: the parameter `mode` is not used",
        "1:1: the parameter `perm` is not used",
        "1:1: the name `a` is not used",
    ];
    assert_eq!(actual, expected);
}

#[test]
fn repeated_names_in_a_signature_are_refused() {
    let mut signature = signature();
    signature.outputs.push(Output { name: "x".to_owned(), class: Class::Float });
    let faults = Program::read("y = x", &signature).unwrap_err();
    assert_eq!(faults.to_string(), "1:1: the signature uses the name `x` twice");
}

/// Swaps and removes words of valid sources.
#[test]
fn damaged_sources_never_panic() {
    let mut random = Random::with_state(7);
    let mut valid_programs = 0;
    for (_, operator) in crate::operators::operators() {
        let words: Vec<&str> =
            operator.source.split_inclusive([' ', '(', '[', ',', ')', ']']).collect();
        for _ in 0..20 {
            let mut words = words.clone();
            let random_index = |random: &mut Random| random.bits() as usize % words.len();
            let (first, second) = (random_index(&mut random), random_index(&mut random));
            words.swap(first, second);
            if random.bits().is_multiple_of(2) {
                words.remove(first);
            }
            if let Ok(program) = Program::read(&words.concat(), &operator.signature) {
                valid_programs += 1;
                for case in &operator.cases {
                    // An error is fine; a panic is not.
                    let _ = program.infer(&case.arguments);
                }
            }
        }
    }
    assert!(valid_programs > 50, "{valid_programs}");
}
