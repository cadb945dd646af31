//! Evaluates common operators, each written in the reference language in a file of `operators/`, and compares the
//! results with plain Rust functions (`naive.rs`), or with values in the file.

use std::{collections::BTreeSet, fs, path::Path};

use udo_reference::{Argument, Arithmetic, Elements, Extent, Settings, Storage, Tensor, Value};

use crate::{
    naive::{Call, NAIVE},
    support::{Case, Operator, reals},
};

/// Reads all operators with their names, sorted.
pub(crate) fn operators() -> Vec<(String, Operator)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operators");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "ref"));
    files.sort();
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files
        .iter()
        .map(|path| (name(path), Operator::parse(&fs::read_to_string(path).unwrap())))
        .collect()
}

/// Returns the outputs in the case, or those of the plain function of this name.
fn expected_outputs(name: &str, operator: &Operator, case: &Case) -> Vec<Tensor> {
    if !case.wanted.is_empty() {
        let ports = operator.signature.outputs.iter();
        return ports.map(|port| case.wanted[&port.name].clone()).collect();
    }
    let (_, naive) = NAIVE
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("{name} has no function"));
    let outputs = naive(&Call { signature: &operator.signature, arguments: &case.arguments });
    outputs.into_iter().map(|t| Tensor { dims: t.dims, elements: Elements::Float(t.v) }).collect()
}

#[test]
fn every_plain_function_has_an_operator_file() {
    let names: BTreeSet<String> = operators().into_iter().map(|(name, _)| name).collect();
    assert!(names.len() >= 70, "{}", names.len());
    let unknown: Vec<_> = NAIVE.iter().filter(|(name, _)| !names.contains(*name)).collect();
    assert!(
        unknown.is_empty(),
        "functions of no operator: {:?}",
        unknown.iter().map(|row| row.0).collect::<Vec<_>>()
    );
}

#[test]
fn values_agree_with_independent_implementations() {
    for (name, operator) in operators() {
        let program = operator.program();
        assert!(program.warnings().is_empty(), "{name}: {:?}", program.warnings());
        assert!(!operator.cases.is_empty(), "{name} has no case");
        for (number, case) in operator.cases.iter().enumerate() {
            let place = format!("{name}, case {number}");
            let settings = Settings::new(Arithmetic::F64, operator.storage(Storage::F64));
            let actual = program
                .evaluate(&case.arguments, &settings)
                .unwrap_or_else(|e| panic!("{place}: {e}"));
            for (actual, expected) in actual.iter().zip(expected_outputs(&name, &operator, case)) {
                assert_eq!(actual.tensor.dims, expected.dims, "{place}");
                let each =
                    reals(&actual.tensor).into_iter().zip(reals(&expected)).zip(&actual.allowed);
                for (index, ((a, b), allowed)) in each.enumerate() {
                    let is_near = (a - b).abs() <= 4.0 * allowed + 1e-15 * b.abs();
                    assert!(
                        is_near || a == b || a.is_nan() && b.is_nan(),
                        "{place}, element {index} is {a}, wanted {b} +- {allowed}"
                    );
                }
            }
        }
    }
}

#[test]
fn inferred_shapes_agree_with_the_values() {
    for (name, operator) in operators() {
        let program = operator.program();
        for case in &operator.cases {
            let mut arguments = case.arguments.clone();
            for (port, argument) in operator.signature.inputs.iter().zip(&mut arguments.inputs) {
                if let (false, Argument::Tensor(tensor)) = (port.is_static, &*argument) {
                    *argument = Argument::Dims(tensor.dims.clone());
                }
            }
            let shapes = program.infer(&arguments).unwrap_or_else(|e| panic!("{name}: {e}"));
            for (shape, expected) in shapes.iter().zip(expected_outputs(&name, &operator, case)) {
                assert_eq!(shape.len(), expected.dims.len(), "{name}");
                for (extent, dim) in shape.iter().zip(expected.dims) {
                    match extent {
                        Extent::Fixed(extent) => assert_eq!(*extent, dim, "{name}"),
                        Extent::UpTo(bound) => assert!(dim <= *bound, "{name}"),
                    }
                }
            }
        }
    }
}

#[test]
fn only_selections_have_bounded_dimensions() {
    let bounded: BTreeSet<_> = operators()
        .into_iter()
        .filter(|(_, operator)| {
            let shapes = operator.program().infer(&operator.cases[0].arguments).unwrap();
            shapes.iter().flatten().any(|extent| matches!(extent, Extent::UpTo(_)))
        })
        .map(|(name, _)| name)
        .collect();
    assert_eq!(bounded, ["compress", "nms", "non_zero", "top_k_above"].map(String::from).into());
}

/// A bound test alone would also pass with huge bounds.
#[test]
fn bounds_of_single_precision_are_small() {
    for (name, operator) in operators() {
        let program = operator.program();
        for (number, case) in operator.cases.iter().enumerate() {
            let settings = Settings::new(Arithmetic::F32, operator.storage(Storage::F32));
            for output in program.evaluate(&case.arguments, &settings).unwrap() {
                assert!(!output.extents_unsure, "{name}");
                for (index, (value, allowed)) in
                    reals(&output.tensor).iter().zip(&output.allowed).enumerate()
                {
                    let is_small = *allowed <= 1e-4 * (1.0 + value.abs())
                        || !value.is_finite() && *allowed == 0.0;
                    assert!(
                        is_small,
                        "{name}, case {number}, element {index}: {value} +- {allowed}"
                    );
                }
            }
        }
    }
}

#[test]
fn unsuitable_arguments_are_refused_with_a_message() {
    let change = |name: &str, change: &dyn Fn(&mut Case)| {
        let (_, operator) = operators().into_iter().find(|(known, _)| known == name).unwrap();
        let mut case = operator.cases[0].clone();
        change(&mut case);
        operator.program().infer(&case.arguments).unwrap_err().to_string()
    };
    let dims = |dims: &[usize]| Argument::Dims(dims.to_vec());
    let cases = [
        (
            change("add", &|case| case.arguments.inputs[0] = dims(&[2, 4])),
            "1:7: shapes [2, 4] and [3, 1] do not broadcast",
        ),
        (
            change("conv2d", &|case| case.arguments.inputs[0] = dims(&[1, 3, 5, 5])),
            "1:1: requirement not met: as many channels as the weights have, times `group`",
        ),
        (
            change("matmul", &|case| case.arguments.inputs[1] = dims(&[4, 4])),
            "1:5: requirement not met: as many columns on the left of `matmul` as rows on its right",
        ),
        (
            change("argmax", &|case| case.arguments.params[0] = Some(Value::Int(2))),
            "1:5: axis 2 is out of range for rank 2",
        ),
        (
            change("conv2d", &|case| case.arguments.inputs[0] = dims(&[1])),
            "1:9: item 1 is out of range for a list of 1",
        ),
        (
            change("relu", &|case| case.arguments.inputs[0] = Argument::Absent),
            "the input `x` is absent but not optional",
        ),
        (
            change("concat", &|case| case.arguments.params[0] = None),
            "the parameter `axis` is omitted but has no default",
        ),
        (
            change("expand", &|case| case.arguments.inputs[1] = dims(&[3])),
            "shapes depend on elements of the input `shape`, which are not known",
        ),
    ];
    for (actual, expected) in cases {
        assert_eq!(actual, expected);
    }
}
