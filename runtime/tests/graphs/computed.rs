//! Models in which nodes want elements that only a run says: cut there, and planned behind the cut for what the run
//! computed.

use udo_api::guard::thread_heap_calls;
use udo_api::{Bool, Shape};
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Model, Session, Tensor};
use udo_test_support::compile::{built_in, compile_graph};

fn model(text: &str) -> Model {
    let graph = Graph::parse(text).unwrap();
    compile_graph(graph, &built_in(), &CompileOptions::default()).unwrap()
}

fn refusal(text: &str) -> String {
    let graph = Graph::parse(text).unwrap();
    compile_graph(graph, &built_in(), &CompileOptions::default()).unwrap_err().to_string()
}

fn tensor<T: udo_api::Element>(dims: &[usize], elements: &[T]) -> Tensor {
    Tensor::from_slice(Shape::new(dims).unwrap(), elements).unwrap()
}

fn run(session: &mut Session, inputs: &[(&str, Tensor)]) {
    for (name, tensor) in inputs {
        session.set_input(name, tensor).unwrap();
    }
    session.run().unwrap();
}

/// The numbers below the largest one, whose last part is computed of them.
const COUNT: &str = "graph count
  input x: i64[3]
  constant zero: i64[]{0}
  constant one: i64[]{1}
  constant half: f32[]{0.5}
  most = ReduceMax@18(x) keepdims=0 # most
  numbers = Range@11(zero, most, one) # numbers
  real = Cast@13(numbers) to=1 # real
  y = Mul@14(real, half) # y
  output y
  output most
";

#[test]
fn a_range_to_a_computed_number_is_planned_in_the_run() {
    let model = model(COUNT);
    assert_eq!(
        model.report().notices,
        [
            "node \"numbers\" (Range) and its consumers are planned in the run, for the elements of \"most\": input \
             \"limit\" is computed, expected a constant in the model"
        ]
    );
    let first: Vec<_> = model.report().nodes.iter().map(|node| node.name.clone()).collect();
    assert_eq!(first, ["most"]);
    let mut session = model.session().unwrap();
    for (most, replans) in [(3, 1), (5, 2), (3, 2), (0, 3), (5, 3)] {
        run(&mut session, &[("x", tensor(&[3], &[-1, most, 0]))]);
        let wanted: Vec<f32> =
            (0u8..).take(usize::try_from(most).unwrap()).map(|n| f32::from(n) / 2.0).collect();
        assert_eq!(session.output::<f32>("y").unwrap(), wanted);
        assert_eq!(session.output::<i64>("most").unwrap(), [most]);
        assert_eq!(session.output_desc("y").unwrap().shape(), [wanted.len()]);
        assert_eq!((session.replans(), session.plans().count()), (replans, 2));
    }
    assert!(
        session.output::<f32>("real").is_err(),
        "a value that one part passes to another is not an output"
    );
}

#[test]
fn elements_that_were_met_before_run_without_the_heap() {
    let mut session = model(COUNT).session().unwrap();
    let inputs = [4i64, 7].map(|most| tensor(&[3], &[0, 1, most]));
    for x in &inputs {
        run(&mut session, &[("x", x.clone())]);
    }
    for x in inputs.iter().chain(&inputs) {
        let before = thread_heap_calls();
        session.set_input("x", x).unwrap();
        session.run().unwrap();
        assert_eq!(thread_heap_calls() - before, 0);
        let most = usize::try_from(x.get::<i64>().unwrap()[2]).unwrap();
        assert_eq!(session.output::<f32>("y").unwrap().len(), most);
    }
    assert_eq!(session.replans(), 2);
}

#[test]
fn no_more_plans_are_kept_than_were_asked_for() {
    let options = CompileOptions { max_plans: 1.try_into().unwrap(), ..CompileOptions::default() };
    let graph = Graph::parse(COUNT).unwrap();
    let model = compile_graph(graph, &built_in(), &options).unwrap();
    let mut session = model.session().unwrap();
    for (most, replans) in [(2i64, 1), (2, 1), (3, 2), (2, 3)] {
        run(&mut session, &[("x", tensor(&[3], &[most, 0, 0]))]);
        assert_eq!(session.replans(), replans);
    }
}

/// The shape is an input of the model, another one is computed of what was reshaped by it.
const TWICE: &str = "graph twice
  input x: f32[rows,2]
  input shape: i64[2]
  reshaped = Reshape@21(x, shape) # first
  doubled = Add@14(reshaped, reshaped) # doubled
  places = NonZero@13(doubled) # places
  found = Shape@21(places) start=1 # found
  two = Concat@13(found, found) axis=0 # two
  constant one: f32[1]{1.0}
  grid = Expand@13(one, two) # grid
  output doubled
  output grid
";

#[test]
fn a_part_behind_is_cut_again() {
    let mut session = model(TWICE).session().unwrap();
    for (dims, elements, count) in [
        ([4, 1], [1.0, 0.0, 2.0, 3.0], 3),
        ([1, 4], [1.0, 0.0, 0.0, 0.0], 1),
        ([4, 1], [0.0; 4], 0),
    ] {
        let shape = tensor(&[2], &dims.map(|n| i64::try_from(n).unwrap()));
        run(&mut session, &[("x", tensor::<f32>(&[2, 2], &elements)), ("shape", shape)]);
        assert_eq!(session.output_desc("doubled").unwrap().shape(), dims);
        assert_eq!(session.output::<f32>("doubled").unwrap(), elements.map(|x| 2.0 * x));
        assert_eq!(session.output_desc("grid").unwrap().shape(), [count, count]);
        assert!(
            session.output::<f32>("grid").unwrap().iter().all(|&x| x.to_bits() == 1f32.to_bits())
        );
        assert_eq!(session.plans().count(), 3);
    }
    // The last shape was known, the number of places was not.
    assert_eq!(session.replans(), 1 + 2 + 2 + 1);
}

#[test]
fn kernels_without_bounded_extents_are_planned_during_the_run() {
    let text = "graph places
  input x: f32[6]
  constant square: i64[2]{-1, 2}
  constant all: i64[1]{-1}
  places = NonZero@13(x) # places
  flat = Reshape@21(places, all) # flat
  picked = Gather@13(x, flat) # picked
  pairs = Reshape@21(picked, square) # pairs
  gram = Einsum@12(pairs, pairs) equation=\"ij,ik->jk\" # gram
  real = Det@22(gram) # det
  output picked
  output real
";
    let model = model(text);
    assert!(model.report().notices.iter().any(|notice| notice.contains("for the extents of")));
    let mut session = model.session().unwrap();
    for (x, wanted) in
        [([1.0, 0.0, 2.0, 0.0, 3.0, 4.0], 4.0), ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 24.0)]
    {
        session.set_input("x", &tensor::<f32>(&[6], &x)).unwrap();
        session.run().unwrap();
        let left: Vec<f32> = x.into_iter().filter(|&x| x > 0.0).collect();
        assert_eq!(session.output::<f32>("picked").unwrap(), left);
        assert!((session.output::<f32>("real").unwrap()[0] - wanted).abs() < 1e-3);
    }
    assert_eq!(session.replans(), 2);
}

/// A branch computes the shape that its next node wants.
const CHOICE: &str = "graph choice
  input x: f32[2,3]
  input is_flat: bool[]
  y = If@21(is_flat) # choice
    then_branch: graph \"then\"
      capture x
      whole = Size@21(x) # size
      constant list: i64[1]{1}
      shape = Reshape@21(whole, list) # list
      flat = Reshape@21(x, shape) # flat
      output flat
    else_branch: graph \"else\"
      capture x
      most = ReduceMax@18(x) keepdims=0 # most
      count = Cast@13(most) to=7 # count
      constant list: i64[1]{1}
      times = Reshape@21(count, list) # times
      constant row: f32[1]{7.0}
      rows = Expand@13(row, times) # rows
      output rows
  z = Neg@13(y) # z
  output z
";

#[test]
fn branches_with_computed_shapes_are_planned_when_taken() {
    let model = model(CHOICE);
    assert!(
        model.report().notices[0].contains("for the elements of \"is_flat\""),
        "{:?}",
        model.report().notices
    );
    let mut session = model.session().unwrap();
    let x = tensor::<f32>(&[2, 3], &[1.0, 2.0, 4.0, 0.0, 0.0, 0.0]);
    for (is_flat, wanted, parts) in
        [(true, vec![-1.0f32, -2.0, -4.0, 0.0, 0.0, 0.0], 2), (false, vec![-7.0; 4], 3)]
    {
        run(&mut session, &[("x", x.clone()), ("is_flat", tensor(&[], &[Bool::from(is_flat)]))]);
        assert_eq!(session.output::<f32>("z").unwrap(), wanted);
        assert_eq!(session.plans().count(), parts);
    }
}

#[test]
fn branches_of_different_ranks_are_planned_once_one_is_taken() {
    let text = "graph ranks
  input x: f32[2,3]
  input is_row: bool[]
  y = If@21(is_row) # choice
    then_branch: graph \"then\"
      capture x
      constant axis: i64[1]{0}
      row = ReduceSum@13(x, axis) keepdims=0 # row
      output row
    else_branch: graph \"else\"
      capture x
      output x
  output y
";
    let mut session = model(text).session().unwrap();
    session.set_input("x", &tensor::<f32>(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])).unwrap();
    session.set_input("is_row", &tensor(&[], &[Bool::from(true)])).unwrap();
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), [5.0, 7.0, 9.0]);
    assert_eq!(session.output_desc("y").unwrap().shape(), [3]);
    session.set_input("is_row", &tensor(&[], &[Bool::from(false)])).unwrap();
    session.run().unwrap();
    assert_eq!(session.output_desc("y").unwrap().shape(), [2, 3]);
}

#[test]
fn a_branch_that_takes_no_bounded_extents_is_planned_once_it_is_taken() {
    let text = "graph picks
  input x: f32[4]
  input picks: bool[]
  y = If@21(picks) # choice
    then_branch: graph \"then\"
      capture x
      constant first: i64[1]{0}
      places = NonZero@13(x) # places
      flat = Squeeze@21(places, first) # flat
      picked = Gather@13(x, flat) # picked
      output picked
    else_branch: graph \"else\"
      capture x
      output x
  output y
";
    let mut session = model(text).session().unwrap();
    session.set_input("x", &tensor::<f32>(&[4], &[1.0, 0.0, 3.0, 0.0])).unwrap();
    for (picks, wanted) in [(true, vec![1.0f32, 3.0]), (false, vec![1.0, 0.0, 3.0, 0.0])] {
        session.set_input("picks", &tensor(&[], &[Bool::from(picks)])).unwrap();
        session.run().unwrap();
        assert_eq!(session.output::<f32>("y").unwrap(), wanted);
    }
}

#[test]
fn a_shape_that_each_iteration_computes_is_planned_for_it() {
    let text = "graph trips
  input x: f32[4]
  constant trips: i64[]{3}
  constant goes: bool[]{1}
  constant row: f32[1]{7.0}
  y = Loop@21(trips, goes, x) # go
    body: graph \"body\"
      input trip: i64[]
      input goes: bool[]
      input before: f32[4]
      capture row
      constant list: i64[1]{1}
      times = Reshape@21(trip, list) # times
      rows = Expand@13(row, times) # rows
      sum = ReduceSum@13(rows) keepdims=0 # sum
      after = Add@14(before, sum) # after
      output goes
      output after
  output y
";
    let mut session = model(text).session().unwrap();
    run(&mut session, &[("x", tensor(&[4], &[0.5f32, -1.0, 2.0, 0.0]))]);
    // No row in the first iteration, one in the second, two in the third.
    assert_eq!(session.output::<f32>("y").unwrap(), [21.5, 20.0, 23.0, 21.0]);
}

#[test]
fn errors_of_later_segments_are_reported_by_the_run() {
    let text = "graph wrong
  input x: f32[2,3]
  input shape: i64[1]
  y = Reshape@21(x, shape) # flat
  output y
";
    let mut session = model(text).session().unwrap();
    session.set_input("x", &tensor::<f32>(&[2, 3], &[1.0; 6])).unwrap();
    session.set_input("shape", &tensor(&[1], &[5i64])).unwrap();
    let error = session.run().unwrap_err().to_string();
    assert!(error.starts_with("node \"flat\" (Reshape): "), "{error}");
    session.set_input("shape", &tensor(&[1], &[6i64])).unwrap();
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), [1.0; 6]);
}

#[test]
fn nodes_without_a_seed_draw_numbers_of_their_own_and_the_same_in_every_session() {
    let model = model(
        "graph drawn
  input x: f32[4,8]
  a = RandomUniformLike@22(x) # first
  b = RandomUniformLike@22(x) # second
  c = RandomUniformLike@22(x) seed=3.0 # third
  d = RandomUniformLike@22(x) seed=3.0 # fourth
  output a
  output b
  output c
  output d
",
    );
    let run = || {
        let mut session = model.session().unwrap();
        session.run().unwrap();
        ["a", "b", "c", "d"].map(|name| session.output::<f32>(name).unwrap().to_vec())
    };
    let [a, b, c, d] = run();
    assert!(a != b && a != c && b != c && c == d);
    assert!(a.iter().all(|x| (0.0..=1.0).contains(x)));
    assert_eq!(run(), [a, b, c, d]);
}

#[test]
fn unknown_operators_are_reported_before_the_run() {
    let error = refusal(
        "graph missing
  input x: f32[2,3]
  input shape: i64[1]
  y = Reshape@21(x, shape) # flat
  z = Nobodys@1(y) # nobody
  output z
",
    );
    assert!(error.contains("Nobodys"), "{error}");
}

/// Slices two rows and removes the axes of extent 1.
const ROWS: &str = "graph rows
  input x: f32[3,2,1]
  input keep: bool[2]
  kept = Compress@11(x, keep) axis=1 # kept
  y = Squeeze@13(kept) # y
  output y
";

#[test]
fn how_many_axes_are_left_is_for_the_run_to_say() {
    let mut session = model(ROWS).session().unwrap();
    let x = tensor(&[3, 2, 1], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (keep, dims, wanted) in [
        ([true, true], &[3, 2][..], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0][..]),
        ([false, true], &[3], &[2.0, 4.0, 6.0]),
        ([false, false], &[3, 0], &[]),
    ] {
        let keep = tensor(&[2], &keep.map(Bool::from));
        run(&mut session, &[("x", x.clone()), ("keep", keep)]);
        assert_eq!(session.output::<f32>("y").unwrap(), wanted);
        assert_eq!(session.output_desc("y").unwrap().shape(), dims);
    }
}
