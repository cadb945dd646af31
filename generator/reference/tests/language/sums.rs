//! Sums and means of many numbers, and of large ones with small deviations: printed kernels add them up with what rounding takes, and
//! subtract both. The bounds here are a few roundings of a result, and not those of sums in any order.

use udo_reference::{Argument, Elements, Evaluated};

use crate::{
    items::hold_items,
    kernels::hold_kernels,
    support::{Operator, reals},
};

/// The tolerance relative to the largest result.
const WITHIN: f64 = 2e-6;

/// The mean and the deviation of elements, which are drawn between -1 and 1.
const MOVED: [(f64, f64); 4] = [(1e4, 1e-2), (-3e5, 0.5), (0.0, 1.0), (7.0, 1e-5)];

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

/// The extents of a tensor, and what becomes of each random element by its number.
type Moved<'a> = (&'a str, &'a dyn Fn(usize, f64) -> f64);

fn bounds(evaluated: Evaluated) -> Evaluated {
    let sizes = reals(&evaluated.tensor).into_iter().map(f64::abs);
    let most = sizes.filter(|size| size.is_finite()).fold(0.0, f64::max);
    Evaluated { allowed: evaluated.allowed.iter().map(|_| WITHIN * most).collect(), ..evaluated }
}

/// The operators, with cases of all of these numbers in place of the elements that the text has.
fn with_cases(tensors: &[Moved<'_>]) -> Vec<(String, Operator)> {
    let each = OPERATORS.iter().map(|(name, source)| {
        let cases: Vec<String> =
            tensors.iter().map(|(dims, _)| format!("case\nx = {dims}")).collect();
        let text =
            format!("input x: float\noutput y: float\n---\n{source}\n---\n{}", cases.join("\n"));
        let mut operator = Operator::parse(&text);
        for (case, (_, moved)) in operator.cases.iter_mut().zip(tensors) {
            let Some(Argument::Tensor(tensor)) = case.arguments.inputs.first_mut() else {
                panic!("{name}")
            };
            let Elements::Float(values) = &mut tensor.elements else { panic!("{name}") };
            for (at, value) in values.iter_mut().enumerate() {
                // Rounded to what kernels are given.
                *value = f64::from(moved(at, *value) as f32);
            }
        }
        ((*name).to_owned(), operator)
    });
    each.collect()
}

fn hold_everywhere(operators: Vec<(String, Operator)>, file: &str) {
    hold_kernels(&operators, &format!("{file}_kernels"), &bounds);
    let bounded = hold_items(operators, &format!("{file}_items"), &bounds);
    assert!(bounded.is_empty(), "{bounded:?}");
}

#[test]
fn a_large_mean_costs_no_digits_of_small_deviations() {
    let moved = MOVED.map(|(mean, deviation)| move |_: usize, value: f64| mean + deviation * value);
    let tensors =
        moved.each_ref().map(|moved| ("[3, 203] in -1 1", moved as &dyn Fn(usize, f64) -> f64));
    hold_everywhere(with_cases(&tensors), "printed_deviations");
}

#[test]
fn sums_of_many_are_rounded_a_few_times() {
    let moved =
        |at: usize, value: f64| 0.1 + value * if at.is_multiple_of(7) { 300.0 } else { 1e-4 };
    hold_everywhere(with_cases(&[("[1, 6000] in 0 1", &moved)]), "printed_long_sums");
}

#[test]
fn infinities_and_nans_reach_sums_as_they_are() {
    let with = |of: fn(usize) -> Option<f64>| move |at: usize, value: f64| of(at).unwrap_or(value);
    let moved = [
        with(|at| (at == 3).then_some(f64::INFINITY)),
        with(|at| (at == 5).then_some(f64::NEG_INFINITY)),
        with(|at| {
            [(2, f64::INFINITY), (6, f64::NEG_INFINITY)]
                .iter()
                .find(|(place, _)| *place == at)
                .map(|(_, value)| *value)
        }),
        with(|at| (at == 0).then_some(f64::NAN)),
    ];
    let tensors =
        moved.each_ref().map(|moved| ("[2, 9] in -1 1", moved as &dyn Fn(usize, f64) -> f64));
    hold_everywhere(with_cases(&tensors), "printed_infinities");
}
