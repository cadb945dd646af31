//! Sums and means of many numbers, and of large numbers with small deviations. Printed kernels carry the rounding error
//! of a sum, so the bounds here are a few roundings of a result instead of the bounds of a plain sum.

use udo_reference::{Argument, Elements, Evaluated};

use crate::{
    items::hold_items,
    kernels::hold_kernels,
    support::{Operator, reals},
};

/// The tolerance relative to the largest result.
const RELATIVE_TOLERANCE: f64 = 2e-6;

/// The mean and the deviation of elements, which are drawn between -1 and 1.
const MEANS_AND_DEVIATIONS: [(f64, f64); 4] = [(1e4, 1e-2), (-3e5, 0.5), (0.0, 1.0), (7.0, 1e-5)];

/// Operators of one tensor.
const OPERATORS: [(&str, &str); 12] = [
    (
        "layer_norm",
        "let centred = x - mean(x, axis = -1, keep = true)
         y = centred / sqrt(mean(square(centred), axis = -1, keep = true) + 1e-12)",
    ),
    (
        "instance_norm",
        "let size = float(dim(x, 1))
         let means[i < dim(x, 0)] = sum[k < dim(x, 1)](x[i, k]) / size
         let spread[i < dim(x, 0)] = sum[k < dim(x, 1)](square(x[i, k] - means[i])) * (1 / size)
         y[i < dim(x, 0), j < dim(x, 1)] = (x[i, j] - means[i]) * rsqrt(spread[i] + 1e-12)",
    ),
    (
        "variance",
        "y[i < dim(x, 0)] = let middle = mean[k < dim(x, 1)](x[i, k]) in
             mean[k < dim(x, 1)](let apart = x[i, k] - middle in apart * apart)",
    ),
    (
        "deviation",
        "let middle = mean(x)
         let apart = if dim(x, 0) > 1 then x + -middle else middle - x
         y = sqrt(sum(square(apart), axis = 1))",
    ),
    (
        "weighted",
        "let weight[j < dim(x, 1)] = if j % 3 == 0 then 2.0 else 0.5
         let middle = sum(weight * x, axis = 1, keep = true) / sum(weight)
         y = x - middle",
    ),
    (
        "weighted_unevenly",
        "let weight[j < dim(x, 1)] = 1.0 / float(3 + j % 7)
         let middle[i < dim(x, 0)] = sum[k < dim(x, 1)](weight[k] * x[i, k]) / sum(weight)
         y[i < dim(x, 0), j < dim(x, 1)] = x[i, j] - middle[i]",
    ),
    (
        "weighted_sums",
        "let share[j < dim(x, 1)] = 1.0 / 1024.0
         let middle = sum(x * share, axis = 1, keep = true) / (float(dim(x, 1)) / 1024.0)
         y = middle - x",
    ),
    ("middle_at_once", "y[i < dim(x, 0)] = x[i, 0] - mean[k < dim(x, 1)](x[i, k])"),
    (
        "chosen",
        "let middle = if rank(x) > 2 then x else mean(x, axis = 1, keep = true)
         y = (if dim(x, 0) < 9 then middle else x) - x",
    ),
    (
        "chosen_by_elements",
        "let middle = mean(x, axis = 1)
         y[i < dim(x, 0), j < dim(x, 1)] = x[i, j] - (if x[i, j] < 1e9 then middle[i] else middle[0])",
    ),
    ("differences_of_means", "y = mean(x, axis = 1) - mean(x)"),
    ("sum", "y = sum(x, axis = 1)"),
];

/// The dimensions of a tensor with a range of random elements, and the function that is applied to each element: it
/// takes the element's number and value.
type Transform<'a> = (&'a str, &'a dyn Fn(usize, f64) -> f64);

/// Replaces the bounds of an evaluation by the tolerance.
fn bounds(evaluated: Evaluated) -> Evaluated {
    let sizes = reals(&evaluated.tensor).into_iter().map(f64::abs);
    let largest = sizes.filter(|size| size.is_finite()).fold(0.0, f64::max);
    Evaluated {
        allowed: evaluated.allowed.iter().map(|_| RELATIVE_TOLERANCE * largest).collect(),
        ..evaluated
    }
}

/// Returns the operators with a case for each of these tensors.
fn with_cases(tensors: &[Transform<'_>]) -> Vec<(String, Operator)> {
    let named_operators = OPERATORS.iter().map(|(name, source)| {
        let cases: Vec<String> =
            tensors.iter().map(|(dims, _)| format!("case\nx = {dims}")).collect();
        let text =
            format!("input x: float\noutput y: float\n---\n{source}\n---\n{}", cases.join("\n"));
        let mut operator = Operator::parse(&text);
        for (case, (_, transform)) in operator.cases.iter_mut().zip(tensors) {
            let Some(Argument::Tensor(tensor)) = case.arguments.inputs.first_mut() else {
                panic!("{name}")
            };
            let Elements::Float(values) = &mut tensor.elements else { panic!("{name}") };
            for (index, value) in values.iter_mut().enumerate() {
                // Kernels get single-precision inputs.
                *value = f64::from(transform(index, *value) as f32);
            }
        }
        ((*name).to_owned(), operator)
    });
    named_operators.collect()
}

fn assert_all_kernels(operators: Vec<(String, Operator)>, file: &str) {
    hold_kernels(&operators, &format!("{file}_kernels"), &bounds);
    let bounded = hold_items(operators, &format!("{file}_items"), &bounds);
    assert!(bounded.is_empty(), "{bounded:?}");
}

#[test]
fn small_deviations_from_large_means_are_accurate() {
    let transform = MEANS_AND_DEVIATIONS
        .map(|(mean, deviation)| move |_: usize, value: f64| mean + deviation * value);
    let tensors = transform
        .each_ref()
        .map(|transform| ("[3, 203] in -1 1", transform as &dyn Fn(usize, f64) -> f64));
    assert_all_kernels(with_cases(&tensors), "printed_deviations");
}

#[test]
fn long_sums_have_few_rounding_errors() {
    let transform =
        |index: usize, value: f64| 0.1 + value * if index.is_multiple_of(7) { 300.0 } else { 1e-4 };
    assert_all_kernels(with_cases(&[("[1, 6000] in 0 1", &transform)]), "printed_long_sums");
}

#[test]
fn infinities_and_nans_propagate_through_sums() {
    let replacing = |special_value: fn(usize) -> Option<f64>| {
        move |index: usize, value: f64| special_value(index).unwrap_or(value)
    };
    let transform = [
        replacing(|index| (index == 3).then_some(f64::INFINITY)),
        replacing(|index| (index == 5).then_some(f64::NEG_INFINITY)),
        replacing(|index| {
            [(2, f64::INFINITY), (6, f64::NEG_INFINITY)]
                .iter()
                .find(|(place, _)| *place == index)
                .map(|(_, value)| *value)
        }),
        replacing(|index| (index == 0).then_some(f64::NAN)),
    ];
    let tensors = transform
        .each_ref()
        .map(|transform| ("[2, 9] in -1 1", transform as &dyn Fn(usize, f64) -> f64));
    assert_all_kernels(with_cases(&tensors), "printed_infinities");
}
