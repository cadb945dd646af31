//! The page of the language: each of its examples is read, and gives what it says.

use udo_reference::{Arithmetic, Settings, Storage};

use crate::support::{Operator, reals};

const PAGE: &str = include_str!("../../../../docs/reference-language.md");

#[test]
fn examples_give_what_the_page_says() {
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
            for (port, found) in operator.signature.outputs.iter().zip(&outputs) {
                let wanted = &case.wanted[&port.name];
                assert_eq!(found.tensor.dims, wanted.dims, "{block}");
                for (a, b) in reals(&found.tensor).into_iter().zip(reals(wanted)) {
                    assert!((a - b).abs() <= 1e-4 * b.abs() || a == b, "{a}, wanted {b}\n{block}");
                }
            }
        }
    }
}

/// The page names every function, and every function that it names in its tables is there.
#[test]
fn functions_are_all_described() {
    let names = udo_reference::function_names();
    for name in &names {
        let is_named = ["(", "`", "["].iter().any(|end| PAGE.contains(&format!("`{name}{end}")));
        assert!(is_named, "{name}");
    }
    assert!(names.len() > 60, "{}", names.len());
}
