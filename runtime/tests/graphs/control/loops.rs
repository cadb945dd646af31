//! Subgraphs that run again and again.

use std::time::Instant;

use udo_runtime::compile::PlanOptions;
use udo_runtime::run::StepProfile;

use super::Feed::{Flag, Floats, Ints};
use super::{compiled, elements, give, run, steps};

const SUMS: &str = "graph g
  input trips: i64[]
  input x: f32[2]
  constant one: f32[]{1.0}
  y = Loop@16(trips, _, x) # sums
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input s: f32[2]
      capture x
      n = Cast@13(i) to=1 # n
      t = Add@14(x, n) # t
      next = Add@14(s, t) # next
      output go, next
  output y
";

#[test]
fn the_iteration_count_is_an_input_of_each_run() {
    let given = |trips: &'static [i64]| [("trips", Ints(trips)), ("x", Floats(&[1.0, 10.0]))];
    let runs = [given(&[3]), given(&[0]), given(&[-2]), given(&[1]), given(&[5])];
    let results = elements(SUMS, &runs.each_ref().map(|run| &run[..]));
    let wanted = [[7.0, 43.0], [1.0, 10.0], [1.0, 10.0], [2.0, 20.0], [16.0, 70.0]];
    assert_eq!(results, wanted);
}

#[test]
fn a_condition_ends_the_iterations() {
    let text = "graph g
  input x: f32[]
  input c: bool[]
  constant limit: f32[]{100.0}
  constant most: i64[]{20}
  last, all = Loop@16(most, c, x) # doubling
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input s: f32[]
      capture limit
      twice = Add@14(s, s) # twice
      on = Less@13(twice, limit) # on
      output on, twice, s
  y = Identity@21(all) # y
  output y, last
";
    let given = |x: &'static [f32], c| [("x", Floats(x)), ("c", Flag(c))];
    let runs =
        [given(&[30.0], true), given(&[9.0], true), given(&[1.0], false), given(&[0.0], true)];
    let results = run(text, &runs.each_ref().map(|run| &run[..]));
    assert_eq!(results[0], (vec![30.0, 60.0], vec![2]));
    assert_eq!(results[1], (vec![9.0, 18.0, 36.0, 72.0], vec![4]));
    assert_eq!(results[2], (vec![], vec![0]));
    assert_eq!(results[3], (vec![0.0; 20], vec![20]));
}

#[test]
fn states_swap_and_alias_each_other() {
    let text = "graph g
  constant trips: i64[]{5}
  input a: f32[2]
  input b: f32[2]
  p, q, r, rows = Loop@16(trips, _, a, b, a) # fibonacci
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input p: f32[2]
      input q: f32[2]
      input r: f32[2]
      also = Identity@21(go) # also
      view = Identity@21(p) # view
      sum = Add@14(p, q) # sum
      output also, q, sum, view, p
  s = Add@14(p, r) # s
  constant at: i64[]{4}
  row = Gather@13(rows, at) axis=0 # row
  y = Sub@14(s, row) # y
  output y
";
    // p is 1 1 2 3 5 8; r and the last row are the p before, 5; so y = 8 + 5 - 5.
    let results = elements(text, &[&[("a", Floats(&[1.0, 0.0])), ("b", Floats(&[1.0, 0.0]))]]);
    assert_eq!(results, [[8.0, 0.0]]);
}

#[test]
fn nested_loops_and_branches_read_outer_values() {
    let text = "graph g
  input n: i64[]
  input m: i64[]
  input x: f32[3]
  constant one: i64[]{1}
  y = Loop@16(n, _, x) # outer
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input s: f32[3]
      capture m
      capture x
      capture one
      first = Less@13(i, one) # first
      t = Loop@16(m, _, s) # inner
        body: graph \"body\"
          input j: i64[]
          input go: bool[]
          input u: f32[3]
          capture first
          capture x
          v = If@16(first) # choice
            then_branch: graph \"then\"
              capture u
              capture x
              w = Add@14(u, x) # w
              output w
            else_branch: graph \"else\"
              capture u
              constant m: f32[]{-1.0}
              w = Mul@13(u, m) # w
              output w
          output go, v
      output go, t
  output y
";
    let given = |n: &'static [i64], m: &'static [i64]| {
        [("n", Ints(n)), ("m", Ints(m)), ("x", Floats(&[1.0, -2.0, 0.5]))]
    };
    let runs = [given(&[1], &[3]), given(&[2], &[3]), given(&[3], &[2]), given(&[0], &[9])];
    let results = elements(text, &runs.each_ref().map(|run| &run[..]));
    let x = |by: f32| vec![by, -2.0 * by, 0.5 * by];
    assert_eq!(results, [x(4.0), x(-4.0), x(3.0), x(1.0)]);
}

#[test]
fn slices_and_stacks_go_along_axes_in_both_directions() {
    let text = "graph g
  input s: f32[2]
  input a: f32[3,2]
  input b: f32[2,3]
  last, y, z = Scan@16(s, a, b) num_scan_inputs=2 scan_input_axes=[0, -1] scan_input_directions=[0, 1] scan_output_axes=[1, 0] scan_output_directions=[1, 0] # scan
    body: graph \"body\"
      input s: f32[2]
      input a: f32[2]
      input b: f32[2]
      t = Add@14(s, a) # t
      u = Sub@14(t, b) # u
      output t, u, t
  output y, z, last
";
    let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    let given = [("s", Floats(&[100.0, 200.0])), ("a", Floats(&a)), ("b", Floats(&b))];
    // The states are [101, 202], [104, 206] and [109, 212]; the loop reads the columns of b, the last one first.
    let wanted = vec![99.0, 84.0, 71.0, 172.0, 156.0, 142.0];
    assert_eq!(run(text, &[&given]), [(wanted, vec![2, 3])]);
    let mut session = compiled(text, PlanOptions::default()).session().unwrap();
    give(&mut session, &given);
    session.run().unwrap();
    assert_eq!(session.output::<f32>("z").unwrap(), [101.0, 202.0, 104.0, 206.0, 109.0, 212.0]);
    assert_eq!(session.output::<f32>("last").unwrap(), [109.0, 212.0]);
}

#[test]
fn sizes_that_depend_on_data_are_computed_in_each_iteration() {
    // The sum of the positions of the elements that are larger than the number of the iteration.
    let text = "graph g
  constant trips: i64[]{4}
  input x: f32[6]
  constant zero: f32[1]{0.0}
  n, y = Loop@16(trips, _, zero) # sums
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input s: f32[1]
      capture x
      number = Cast@13(i) to=1 # number
      above = Greater@13(x, number) # above
      places = NonZero@13(above) # places
      flat = Cast@13(places) to=1 # flat
      constant axes: i64[2]{0, 1}
      sum = ReduceSum@13(flat, axes) keepdims=0 # sum
      next = Add@14(s, sum) # next
      output go, next, sum
  output y
";
    let given = |x: &'static [f32]| [("x", Floats(x))];
    let runs = [given(&[9.0, 1.0, 2.0, -1.0, 3.0, 0.0]), given(&[0.0; 6]), given(&[5.0; 6])];
    let results = elements(text, &runs.each_ref().map(|run| &run[..]));
    assert_eq!(results, [[7.0, 6.0, 4.0, 0.0], [0.0; 4], [15.0; 4]]);
}

#[test]
fn memory_is_independent_of_the_iteration_count_and_time_is_linear() {
    let model = compiled(SUMS, PlanOptions::default());
    assert!(model.report().memories[0].arena_bytes < 4096, "{:?}", model.report().memories);
    let mut session = model.session().unwrap();
    let mut shortest_time = |trips: i64| {
        let times = (0..5).map(|_| {
            give(&mut session, &[("trips", Ints(&[trips])), ("x", Floats(&[0.0, 1.0]))]);
            let start = Instant::now();
            session.run().unwrap();
            start.elapsed()
        });
        times.min().unwrap()
    };
    let (few, many) = (shortest_time(10_000), shortest_time(100_000));
    assert!(many < 40 * few, "{few:?} and {many:?}");
    let y = session.output::<f32>("y").unwrap()[1];
    assert!((y / 4_999_950_000.0 - 1.0).abs() < 1e-2, "{y}");
}

#[test]
fn a_profile_sums_iterations_and_lists_each_step_once() {
    let model = compiled(SUMS, PlanOptions::default());
    // The depth in loops of each step. The last one starts the next iteration.
    let expected = [("Copy", 0), ("Loop", 0), ("Cast", 1), ("Add", 1), ("Add", 1), ("Loop", 1)];
    assert_eq!(steps(&model), expected);
    let mut session = model.session().unwrap();
    let mut profile = vec![StepProfile::default(); expected.len()];
    for trips in [1000, 0] {
        give(&mut session, &[("trips", Ints(&[trips])), ("x", Floats(&[0.0, 1.0]))]);
        session.run_profiled(&mut profile).unwrap();
        // The first Add of the body.
        assert_eq!(profile[3].time.is_zero(), trips == 0);
    }
}
