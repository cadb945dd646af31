//! Tests that every recurrent operator runs: directions, layouts, lengths and constant weights agree with plain forward
//! runs.

use udo_api::ExecError;

use super::{Cell, FIRST_HIDDEN, LENGTHS};
use crate::family::numerics::with;
use crate::testing::{Bench, Tensor, bench, noise, tensor};

const STEPS: usize = 4;
const BATCH: usize = 3;
const WIDTH: usize = 5;
const HIDDEN: usize = 7;
/// Elements of a state.
const STATE: usize = BATCH * HIDDEN;

pub(super) fn run_all<C: Cell>(name: &str) {
    println!("{name}: a family member");
    directions_match_forward_runs_of_reversed_sequences::<C>();
    layout_1_has_the_batch_first::<C>();
    outputs_after_the_end_of_a_sequence_are_zero::<C>();
    initial_states_continue_a_sequence::<C>();
    nan_reaches_later_steps_of_its_row_only::<C>();
    let error = node::<C>(x(), &[0], Bench::input).float("clip", -1.0).error();
    assert_eq!(error, "parameter \"clip\" is -1, expected 0 or more");
    activations_and_clip_are_applied::<C>();
    let error = node::<C>(x(), &[0], Bench::input).int("hidden_size", 2).error();
    assert!(error.starts_with("parameter \"hidden_size\" is 2, input 2 is f32["), "{error}");
}

fn activations_and_clip_are_applied<C: Cell>() {
    let run = |names: &[&str]| {
        let run = node::<C>(x(), &[0, 1], Bench::input).text("direction", "bidirectional");
        run.strings("activations", names)
    };
    let defaults = [C::ACTIVATIONS, C::ACTIVATIONS].concat();
    let mut names = defaults.clone();
    let default_outputs = node::<C>(x(), &[0, 1], Bench::input).text("direction", "bidirectional");
    assert_eq!(outputs::<C>(run(&names)), outputs::<C>(default_outputs));
    let error = run(C::ACTIVATIONS).error();
    let count = C::ACTIVATIONS.len();
    let expected = format!("expected {count} for each of 2 directions");
    assert_eq!(error, format!("parameter \"activations\" has {count} strings, {expected}"));
    let default_outputs = outputs::<C>(node::<C>(x(), &[0], Bench::input));
    let clipped = |clip| outputs::<C>(node::<C>(x(), &[0], Bench::input).float("clip", clip));
    assert_eq!(clipped(1e3), default_outputs);
    assert_ne!(clipped(0.1), default_outputs);
    names[2 * count - 1] = "Relu";
    assert_ne!(outputs::<C>(run(&names))[0], outputs::<C>(run(&defaults))[0]);
    names[2 * count - 1] = "Swish";
    let error = run(&names).error();
    assert!(
        error.starts_with("parameter \"activations\" has \"Swish\", expected Affine"),
        "{error}"
    );
}

fn x_values() -> Vec<f32> {
    noise(STEPS * BATCH * WIDTH)
}

fn steps(x: &[f32]) -> Tensor {
    tensor(&[STEPS, BATCH, WIDTH], x)
}

fn x() -> Tensor {
    steps(&x_values())
}

/// Returns a node over `x` with the weights of the directions `dirs`, which `add` makes inputs or constants.
fn node<C: Cell>(x: Tensor, dirs: &[usize], add: fn(Bench, Tensor) -> Bench) -> Bench {
    let values = noise(2 * C::GATES * HIDDEN * (WIDTH + HIDDEN + 2));
    let mut start = 0;
    let mut weights = |dims: [usize; 2]| {
        let len = dims[0] * dims[1];
        let both = &values[start..start + 2 * len];
        start += 2 * len;
        let selected = dirs.iter().flat_map(|dir| both[dir * len..][..len].to_vec());
        let selected: Vec<f32> = selected.collect();
        let extents = [dirs.len(), dims[0], dims[1]];
        if extents[2] == 1 { tensor(&extents[..2], &selected) } else { tensor(&extents, &selected) }
    };
    let gates = C::GATES * HIDDEN;
    let run = bench(C::NAME).input(x);
    let run = add(run, weights([gates, WIDTH]));
    let run = add(run, weights([gates, HIDDEN]));
    run.input(weights([2 * gates, 1]))
}

/// Returns the values of all outputs.
fn outputs<C: Cell>(run: Bench) -> Vec<Vec<f32>> {
    let outputs = run.outputs(if C::MEMORY.is_some() { 3 } else { 2 }).all();
    outputs.iter().map(Tensor::values).collect()
}

/// Returns the steps of `x` in reverse order, `step` elements each.
fn backwards(x: &[f32], step: usize) -> Vec<f32> {
    x.chunks(step).rev().flatten().copied().collect()
}

fn directions_match_forward_runs_of_reversed_sequences<C: Cell>() {
    let forward = outputs::<C>(node::<C>(x(), &[0], Bench::input));
    assert_eq!(outputs::<C>(node::<C>(x(), &[0], Bench::constant).threads(3)), forward);
    assert_eq!(forward[0][(STEPS - 1) * STATE..], forward[1]);
    let reversed =
        outputs::<C>(node::<C>(steps(&backwards(&x_values(), BATCH * WIDTH)), &[1], Bench::input));
    let reverse = outputs::<C>(node::<C>(x(), &[1], Bench::input).text("direction", "reverse"));
    assert_eq!(reverse[0], backwards(&reversed[0], STATE));
    assert_eq!(reverse[1..], reversed[1..]);
    let both = node::<C>(x(), &[0, 1], Bench::constant).text("direction", "bidirectional");
    let both = outputs::<C>(both);
    let pairs = forward[0].chunks(STATE).zip(reverse[0].chunks(STATE));
    assert_eq!(both[0], pairs.flat_map(|(a, b)| [a, b].concat()).collect::<Vec<_>>());
    for ((both, forward), reverse) in both[1..].iter().zip(&forward[1..]).zip(&reverse[1..]) {
        assert_eq!(both[..], [&forward[..], reverse].concat());
    }
}

/// Transposes `rows` by `cols` groups of `inner` elements.
fn transposed(x: &[f32], [rows, cols, inner]: [usize; 3]) -> Vec<f32> {
    let starts = (0..cols).flat_map(|col| (0..rows).map(move |row| (row * cols + col) * inner));
    starts.flat_map(|start| x[start..start + inner].to_vec()).collect()
}

fn layout_1_has_the_batch_first<C: Cell>() {
    let steps_first = outputs::<C>(node::<C>(x(), &[0], Bench::input));
    let batch_first =
        tensor(&[BATCH, STEPS, WIDTH], &transposed(&x_values(), [STEPS, BATCH, WIDTH]));
    let run = node::<C>(batch_first, &[0], Bench::input).int("layout", 1);
    let actual = run.outputs(steps_first.len()).all();
    assert_eq!(actual[0].dims(), [BATCH, STEPS, 1, HIDDEN]);
    let expected = transposed(&steps_first[0], [STEPS, BATCH, HIDDEN]);
    assert_eq!(actual[0].values::<f32>(), expected);
    assert_eq!(actual[1].values::<f32>(), steps_first[1]);
}

fn outputs_after_the_end_of_a_sequence_are_zero<C: Cell>() {
    let whole = outputs::<C>(node::<C>(x(), &[0], Bench::input));
    let lengths = [4, 0, 2];
    let run = |lengths| node::<C>(x(), &[0], Bench::input).input(tensor(&[BATCH], lengths));
    let actual = outputs::<C>(run(&lengths));
    for (step, row) in (0..STEPS).flat_map(|step| (0..BATCH).map(move |row| (step, row))) {
        let at = (step * BATCH + row) * HIDDEN;
        let (actual, whole) = (&actual[0][at..at + HIDDEN], &whole[0][at..at + HIDDEN]);
        let expected = if step < lengths[row] as usize { whole } else { &[0.0; HIDDEN] };
        assert_eq!(actual, expected, "step {step} of row {row}");
    }
    let last: Vec<f32> = [3, 0, 1]
        .iter()
        .enumerate()
        .flat_map(|(row, step)| {
            let at = (step * BATCH + row) * HIDDEN;
            if row == 1 { vec![0.0; HIDDEN] } else { whole[0][at..at + HIDDEN].to_vec() }
        })
        .collect();
    assert_eq!(actual[1], last);
    assert_eq!(run(&[4, 5, 4]).error(), ExecError::bad_value(5, 1).to_string());
}

fn initial_states_continue_a_sequence<C: Cell>() {
    let whole = outputs::<C>(node::<C>(x(), &[0], Bench::input));
    let first =
        outputs::<C>(node::<C>(x(), &[0], Bench::input).input(tensor(&[BATCH], &[1i32; BATCH])));
    // After its first step, the sequence continues with the others.
    let mut rest = x_values();
    rest.rotate_left(BATCH * WIDTH);
    let mut run = node::<C>(steps(&rest), &[0], Bench::input);
    assert_eq!((LENGTHS, FIRST_HIDDEN), (4, 5));
    run = run.input(tensor(&[BATCH], &[3i32; BATCH]));
    for state in &first[1..] {
        run = run.input(tensor(&[1, BATCH, HIDDEN], state));
    }
    let actual = outputs::<C>(run);
    assert_eq!(actual[0][..3 * STATE], whole[0][STATE..]);
    assert_eq!(actual[1..], whole[1..]);
}

fn nan_reaches_later_steps_of_its_row_only<C: Cell>() {
    let plain = outputs::<C>(node::<C>(x(), &[0], Bench::input));
    assert_eq!(outputs::<C>(node::<C>(x(), &[0], Bench::input)), plain, "two runs differ");
    let (step, row) = (1, 2);
    let at = (step * BATCH + row) * WIDTH + 1;
    let y = outputs::<C>(node::<C>(steps(&with(&x_values(), at, f32::NAN)), &[0], Bench::input));
    for (i, (y, plain)) in y[0].iter().zip(&plain[0]).enumerate() {
        let is_affected = i / STATE >= step && i / HIDDEN % BATCH == row;
        let actual = if is_affected { y.is_nan() } else { y.to_bits() == plain.to_bits() };
        assert!(actual, "{}: {y} at {i}", C::NAME);
    }
}
