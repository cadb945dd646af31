//! Scatters single elements into a copy of the data. An update goes to its own position, except along `axis`, where its
//! index says the position.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{DType, OpSchema, Param, Port, Value, types};

use crate::Def;
use crate::family::scatter::{Elements, ScatterAlong, scatter};

pub(crate) const DEF: Def = scatter::<Elements<ScatterElements>>();

struct ScatterElements;

impl ScatterAlong for ScatterElements {
    const SCHEMA: OpSchema = OpSchema::new(
        "ScatterElements",
        &[
            Port::required("data", types::ANY),
            Port::required("indices", types::INDEX),
            Port::required("updates", types::ANY),
        ],
        &[Port::required("output", types::ANY)],
        &[
            Param::scalar("axis", DType::I64).default(Value::int(0)),
            Param::text("reduction").default(Value::text("none")),
        ],
    );
}

#[cfg(test)]
mod tests {
    use udo_api::{Bf16, Bool, Dim, Element, ExecError, F16};

    use crate::testing::{Bench, bench, tensor};

    fn bench_with<T: Element>(data: &[T], indices: &[i64], updates: &[T]) -> Bench {
        let run = bench("ScatterElements").input(tensor(&[data.len()], data));
        let run = run.input(tensor(&[indices.len()], indices));
        run.input(tensor(&[updates.len()], updates))
    }

    #[test]
    fn updates_apply_along_an_axis() {
        let data: Vec<u8> = (0..12).collect();
        let indices = tensor(&[2, 1, 2], &[-1i32, 0, 1, -2]);
        let run = bench("ScatterElements").input(tensor(&[2, 2, 3], &data)).input(indices);
        let y = run.input(tensor(&[2, 1, 2], &[20u8, 21, 22, 23])).int("axis", 2).one();
        assert_eq!(y.values::<u8>(), [21, 1, 20, 3, 4, 5, 6, 23, 8, 9, 10, 11]);
    }

    #[test]
    fn updates_of_the_same_element_apply_in_order() {
        let run = |reduction: &str| {
            bench_with(&[1i8, 2, 3], &[1, -2, 1], &[100, 100, -7])
                .text("reduction", reduction)
                .one()
        };
        assert_eq!(run("none").values::<i8>(), [1, -7, 3]);
        assert_eq!(run("add").values::<i8>(), [1, 2i8.wrapping_add(100).wrapping_add(93), 3]);
        assert_eq!(run("max").values::<i8>(), [1, 100, 3]);
        assert_eq!(run("min").values::<i8>(), [1, -7, 3]);
        assert_eq!(
            bench_with(&[1u8, 3], &[1, 1], &[5, 2]).text("reduction", "mul").one().values::<u8>(),
            [1, 30]
        );
    }

    #[test]
    fn every_type_is_combined() {
        fn check<T: Element>(convert: impl Fn(f32) -> T) {
            for (reduction, expected) in [("add", 8.0), ("mul", 15.0), ("max", 5.0), ("min", 3.0)] {
                let run = bench_with(&[convert(3.0), convert(1.0)], &[0], &[convert(5.0)])
                    .text("reduction", reduction);
                assert_eq!(
                    run.one().values::<T>(),
                    [convert(expected), convert(1.0)],
                    "{reduction} of {}",
                    T::DTYPE
                );
            }
        }
        check(|x| x);
        check(f64::from);
        check(F16::from_f32);
        check(Bf16::from_f32);
        check(|x| x as i8);
        check(|x| x as i16);
        check(|x| x as i32);
        check(|x| x as i64);
        check(|x| x as u8);
        check(|x| x as u16);
        check(|x| x as u32);
        check(|x| x as u64);
        let [no, yes] = [false, true].map(Bool::from);
        for (reduction, expected) in [("add", yes), ("mul", no), ("max", yes), ("min", no)] {
            let run = bench_with(&[yes, no], &[0, 1], &[no, no]).text("reduction", reduction);
            assert_eq!(run.one().values::<Bool>(), [expected, no], "{reduction}");
        }
    }

    #[test]
    fn nan_is_propagated() {
        for reduction in ["add", "mul", "max", "min"] {
            let run = bench_with(&[f32::NAN, 1.0], &[0, 1], &[1.0, f32::NAN])
                .text("reduction", reduction);
            assert!(run.one().values::<f32>().iter().all(|y| y.is_nan()), "{reduction}");
        }
    }

    #[test]
    fn rows_are_divided_among_threads() {
        let rows = 500;
        let data: Vec<i32> = (0..rows * 90).collect();
        let indices: Vec<i32> = (0..rows * 50).map(|i| i * 7 % 90).collect();
        let updates: Vec<i32> = (0..rows * 50).map(|i| -i).collect();
        let dims = |cols: usize| [rows as usize, cols];
        let run = bench("ScatterElements").threads(3).input(tensor(&dims(90), &data));
        let run = run.input(tensor(&dims(50), &indices)).input(tensor(&dims(50), &updates));
        let y = run.int("axis", 1).text("reduction", "add").one().values::<i32>();
        let mut expected = data;
        for (index, update) in updates.into_iter().enumerate() {
            expected[index / 50 * 90 + indices[index] as usize] += update;
        }
        assert!(y == expected);
    }

    #[test]
    fn the_output_has_the_bounds_of_the_data() {
        let bounded = |values: &[i64]| tensor(&[values.len()], values).bounded(&[Dim::UpTo(5)]);
        let run = bench("ScatterElements").input(bounded(&[1, 2, 3])).input(bounded(&[2, 0]));
        let y = run.input(bounded(&[7, 8])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5]");
        assert_eq!(y.values::<i64>(), [8, 2, 7]);
    }

    #[test]
    fn mismatched_updates_and_invalid_indices_are_refused() {
        let error = bench_with(&[1f32, 2.0], &[0, 1], &[1.0]).error();
        assert_eq!(error, "input 2 is f32[1], input 1 is i64[2]");
        let error = bench_with(&[1f32], &[-2], &[1.0]).error();
        assert_eq!(error, ExecError::bad_value(-2, 0).to_string());
        let error = bench_with(&[1f32], &[0], &[1.0]).text("reduction", "sub").error();
        let expected = "expected none, add, mul, max or min";
        assert_eq!(error, format!("parameter \"reduction\" is \"sub\", {expected}"));
    }
}
