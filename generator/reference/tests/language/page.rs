//! Evaluates the examples of `docs/reference-language.md` and compares the results with those on the page.

use udo_reference::{Arithmetic, Settings, Storage};

use crate::support::{Operator, reals};

const PAGE: &str = include_str!("../../../../docs/reference-language.md");

#[test]
fn examples_evaluate_to_the_documented_results() {
    let blocks: Vec<&str> = PAGE
        .split("```reference\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 12, "{} examples", blocks.len());
    for block in blocks {
        let operator = Operator::parse(block);
        let program = operator.program();
        for case in &operator.cases {
            assert_eq!(case.wanted.len(), operator.signature.outputs.len(), "{block}");
            let settings = Settings::new(Arithmetic::F64, operator.storage(Storage::F64));
            let outputs = program
                .evaluate(&case.arguments, &settings)
                .unwrap_or_else(|e| panic!("{e}\n{block}"));
            for (port, actual) in operator.signature.outputs.iter().zip(&outputs) {
                let expected = &case.wanted[&port.name];
                assert_eq!(actual.tensor.dims, expected.dims, "{block}");
                for (actual_value, expected_value) in
                    reals(&actual.tensor).into_iter().zip(reals(expected))
                {
                    assert!(
                        (actual_value - expected_value).abs() <= 1e-4 * expected_value.abs()
                            || actual_value == expected_value,
                        "{actual_value}, wanted {expected_value}\n{block}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_page_documents_every_function() {
    let names = udo_reference::function_names();
    for name in &names {
        let is_named = ["(", "`", "["].iter().any(|end| PAGE.contains(&format!("`{name}{end}")));
        assert!(is_named, "{name}");
    }
    assert!(names.len() > 60, "{}", names.len());
}
