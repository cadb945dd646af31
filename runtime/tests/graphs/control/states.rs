//! States that are not copied between iterations.

use udo_runtime::compile::PlanOptions;

use super::Feed::{Flag, Floats, Ints};
use super::{compiled, elements, give, steps};

/// Returns the number of loop steps that copy.
fn copies(text: &str) -> usize {
    let model = compiled(text, PlanOptions::default());
    steps(&model).iter().filter(|step| matches!(step, ("Copy", 1..))).count()
}

/// A loop over `states`, each with its first elements; `lines` make what `next` lists.
fn looped(states: &[(&str, &str)], lines: &str, next: &str, behind: &str) -> String {
    let inputs = states.iter().map(|(state, _)| format!("input {state}: f32[2]"));
    let body: Vec<_> = ["input i: i64[]", "input go: bool[]"]
        .map(str::to_owned)
        .into_iter()
        .chain(inputs)
        .chain(lines.split("; ").map(str::to_owned))
        .chain([format!("output go, {next}")])
        .collect();
    let lasts: Vec<_> = states.iter().map(|(state, _)| format!("{state}_last")).collect();
    let firsts: Vec<_> = states.iter().map(|&(_, first)| first).collect();
    format!(
        "graph g\n  input trips: i64[]\n  input x: f32[2]\n  input w: f32[2]\n  {} = Loop@16(trips, _, {}) # loop\n    body: graph \"body\"\n      {}\n  \
         {behind}\n  output y\n",
        lasts.join(", "),
        firsts.join(", "),
        body.join("\n      ")
    )
}

/// Returns `y` of consecutive runs of one session with these numbers of iterations.
#[track_caller]
fn after(text: &str, trips: &[i64]) -> Vec<Vec<f32>> {
    let trips: Vec<[i64; 1]> = trips.iter().map(|&count| [count]).collect();
    let given =
        |trips| [("trips", Ints(trips)), ("x", Floats(&[1.0, 2.0])), ("w", Floats(&[3.0, 5.0]))];
    let runs: Vec<_> = trips.iter().map(|trips| given(trips)).collect();
    elements(text, &runs.iter().map(|run| &run[..]).collect::<Vec<_>>())
}

#[test]
fn a_state_that_dies_where_the_next_one_is_made_is_overwritten() {
    let text =
        looped(&[("s", "x")], "capture w; t = Add@14(s, w) # t", "t", "y = Neg@13(s_last) # y");
    assert_eq!(copies(&text), 0);
    let model = compiled(&text, PlanOptions::default());
    let add = model.report().steps.iter().find(|step| step.op == "Add").unwrap();
    assert_eq!(add.in_place, [(0, 0)]);
    assert_eq!(
        after(&text, &[0, 1, 2, 5]),
        [[-1.0, -2.0], [-4.0, -7.0], [-7.0, -12.0], [-16.0, -27.0]]
    );
}

#[test]
fn states_trade_places_without_copies() {
    let text = looped(
        &[("a", "x"), ("b", "w")],
        "zero = Sub@14(a, b) # zero",
        "b, a",
        "y = Sub@14(a_last, b_last) # y",
    );
    assert_eq!(copies(&text), 0);
    // After an odd number of iterations the buffers stay exchanged, also for later runs.
    let (even, odd) = (vec![-2.0, -3.0], vec![2.0, 3.0]);
    assert_eq!(
        after(&text, &[0, 1, 1, 2, 3, 4]),
        [&even, &odd, &odd, &even, &odd, &even].map(Vec::clone)
    );
}

#[test]
fn states_trade_places_by_way_of_views() {
    let text = looped(
        &[("a", "x"), ("b", "w"), ("c", "x")],
        "p = Identity@21(b) # p; q = Identity@21(a) # q; r = Identity@21(c) # r; s = Add@14(a, b) # s",
        "p, q, r",
        "d = Sub@14(a_last, b_last) # d\n  y = Add@14(d, c_last) # y",
    );
    assert_eq!(copies(&text), 0);
    assert!(
        !steps(&compiled(&text, PlanOptions::default())).iter().any(|(op, _)| *op == "Identity")
    );
    let (even, odd) = (vec![-1.0, -1.0], vec![3.0, 5.0]);
    assert_eq!(after(&text, &[0, 1, 1, 2, 3]), [&even, &odd, &odd, &even, &odd].map(Vec::clone));
    // A view that somebody else reads, and one of a state that is overwritten otherwise.
    let text = looped(
        &[("a", "x"), ("b", "w")],
        "capture w; p = Identity@21(b) # p; q = Add@14(b, w) # q; r = Mul@13(p, q) # r; s = Add@14(r, a) # s",
        "p, s",
        "y = Sub@14(a_last, b_last) # y",
    );
    let (mut a, mut b, mut wanted) = (1.0, 3.0, Vec::new());
    for _ in 0..4 {
        wanted.push(a - b);
        (a, b) = (b, b * (b + 3.0) + a);
    }
    let results = after(&text, &[0, 1, 2, 3]);
    assert_eq!(results.iter().map(|y| y[0]).collect::<Vec<f32>>(), wanted);
}

#[test]
fn states_go_around_in_a_ring() {
    let text = looped(
        &[("a", "x"), ("b", "w"), ("c", "x")],
        "d = Add@14(a, c) # d",
        "b, c, d",
        "p = Sub@14(a_last, b_last) # p\n  y = Sum@13(p, c_last, c_last) # y",
    );
    assert_eq!(copies(&text), 0);
    let (mut states, mut wanted) = ([1.0, 3.0, 1.0], Vec::new());
    for _ in 0..6 {
        let [a, b, c] = states;
        wanted.push(a - b + 2.0 * c);
        states = [b, c, a + c];
    }
    let results = after(&text, &[0, 1, 2, 3, 4, 5]);
    assert_eq!(results.iter().map(|y| y[0]).collect::<Vec<f32>>(), wanted);
}

#[test]
fn a_state_that_is_read_behind_the_next_one_keeps_its_elements() {
    let text = looped(
        &[("s", "x"), ("sum", "w")],
        "next = Add@14(s, s) # next; both = Mul@14(s, next) # both; total = Add@14(sum, both) # total",
        "next, total",
        "y = Add@14(s_last, sum_last) # y",
    );
    assert_eq!(copies(&text), 0);
    // s doubles, and twice its square is added.
    let wanted = |trips: i32| {
        let of = |s: f32, sum: f32| {
            (0..trips).fold((s, sum), |(s, sum), _| (2.0 * s, sum + 2.0 * s * s))
        };
        [of(1.0, 3.0), of(2.0, 5.0)].map(|(s, sum)| s + sum).to_vec()
    };
    assert_eq!(after(&text, &[1, 2, 3, 0, 3]), [1, 2, 3, 0, 3].map(wanted));
}

#[test]
fn states_of_one_value_and_captured_ones_are_copied() {
    let text = looped(
        &[("a", "x"), ("b", "w"), ("c", "x")],
        "capture x; capture w; s = Sum@13(a, b, c, x) # s",
        "s, s, w",
        "p = Sub@14(a_last, b_last) # p\n  q = Add@14(a_last, c_last) # q\n  r = Add@14(q, x) # r\n  y = Sub@14(r, p) # y",
    );
    // One of the two that are the same value, and the captured one.
    assert_eq!(copies(&text), 2);
    let (mut states, mut wanted) = ([1.0, 3.0, 1.0], Vec::new());
    for _ in 0..4 {
        let [a, b, c] = states;
        wanted.push(a + c + 1.0 - (a - b));
        let s = a + b + c + 1.0;
        states = [s, s, 3.0];
    }
    let results = after(&text, &[0, 1, 2, 3]);
    assert_eq!(results.iter().map(|y| y[0]).collect::<Vec<f32>>(), wanted);
}

#[test]
fn a_condition_ends_after_an_odd_or_an_even_trip() {
    let text = "graph g
  input x: f32[1]
  input limit: f32[1]
  constant most: i64[]{50}
  constant axis: i64[1]{0}
  a, y = Loop@16(most, _, x, limit) # loop
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input a: f32[1]
      input b: f32[1]
      capture limit
      capture axis
      next = Add@14(a, a) # next
      less = Less@13(next, limit) # less
      on = Squeeze@13(less, axis) # on
      output on, next, a
  output y
";
    let given = |limit: &'static [f32]| [("x", Floats(&[1.0])), ("limit", Floats(limit))];
    let runs = [given(&[1.0]), given(&[3.0]), given(&[5.0]), given(&[9.0]), given(&[5.0])];
    let results = elements(text, &runs.each_ref().map(|run| &run[..]));
    assert_eq!(results, [[1.0], [2.0], [4.0], [8.0], [4.0]]);
}

#[test]
fn branches_make_the_next_state_or_leave_it() {
    let text = "graph g
  input trips: i64[]
  input c: bool[]
  input x: f32[2]
  constant two: i64[]{2}
  y = Loop@16(trips, _, x) # loop
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input s: f32[2]
      capture two
      capture c
      early = Less@13(i, two) # early
      which = Xor@7(early, c) # which
      next = If@16(which) # choice
        then_branch: graph \"then\"
          capture s
          t = Neg@13(s) # t
          u = Add@14(t, t) # u
          output u
        else_branch: graph \"else\"
          capture s
          output s
      output go, next
  output y
";
    let given = |trips: &'static [i64], c| {
        [("trips", Ints(trips)), ("c", Flag(c)), ("x", Floats(&[1.0, -3.0]))]
    };
    let runs = [given(&[3], false), given(&[3], true), given(&[1], false), given(&[5], true)];
    let results = elements(text, &runs.each_ref().map(|run| &run[..]));
    assert_eq!(results, [[4.0, -12.0], [-2.0, 6.0], [-2.0, 6.0], [-8.0, 24.0]]);
    assert_eq!(copies(text), 1, "that of the branch that leaves it");
}

#[test]
fn a_run_that_fails_in_a_trip_leaves_the_session_as_good_as_it_was() {
    let text = looped(
        &[("a", "x"), ("b", "w")],
        "constant axis: i64[1]{0}; capture x; at = Unsqueeze@21(i, axis) # at; t = Gather@13(x, at) axis=0 # t; s = Add@14(a, t) # s",
        "b, s",
        "y = Sub@14(a_last, b_last) # y",
    );
    let mut session = compiled(&text, PlanOptions::default()).session().unwrap();
    for (trips, wanted) in [
        (1, Some([1.0, 2.0])),
        (5, None),
        (2, Some([-3.0, -4.0])),
        (3, None),
        (1, Some([1.0, 2.0])),
    ] {
        give(
            &mut session,
            &[("trips", Ints(&[trips])), ("x", Floats(&[1.0, 2.0])), ("w", Floats(&[3.0, 5.0]))],
        );
        let ran = session.run();
        assert_eq!(ran.is_ok(), wanted.is_some(), "{trips}: {ran:?}");
        if let Some(wanted) = wanted {
            assert_eq!(session.output::<f32>("y").unwrap(), wanted, "{trips}");
        }
    }
}

#[test]
fn a_state_that_an_inner_loop_reads_stays_until_that_loop_ends() {
    let text = "graph g
  input n: i64[]
  input m: i64[]
  input x: f32[2]
  input w: f32[2]
  y = Loop@16(n, _, x) # outer
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input s: f32[2]
      capture m
      capture w
      t = Loop@16(m, _, w) # inner
        body: graph \"body\"
          input j: i64[]
          input go: bool[]
          input u: f32[2]
          capture s
          turned = Neg@13(s) # turned
          v = Sub@14(u, turned) # v
          output go, v
      output go, t
  output y
";
    let given = |n: &'static [i64], m: &'static [i64]| {
        [("n", Ints(n)), ("m", Ints(m)), ("x", Floats(&[1.0, 2.0])), ("w", Floats(&[3.0, 5.0]))]
    };
    let runs = [given(&[1], &[3]), given(&[2], &[2]), given(&[3], &[0])];
    let results = elements(text, &runs.each_ref().map(|run| &run[..]));
    assert_eq!(results, [[6.0, 11.0], [13.0, 23.0], [3.0, 5.0]]);
}

#[test]
fn states_of_nested_loops_are_exchanged_once_per_own_iteration() {
    let text = "graph g
  input n: i64[]
  input m: i64[]
  input x: f32[2]
  input w: f32[2]
  p, q = Loop@16(n, _, x, w) # outer
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input p: f32[2]
      input q: f32[2]
      capture m
      s, t = Loop@16(m, _, p, q) # inner
        body: graph \"body\"
          input j: i64[]
          input go: bool[]
          input s: f32[2]
          input t: f32[2]
          capture p
          sum = Sum@13(s, t, p) # sum
          output go, t, sum
      r = Sub@14(t, q) # r
      output go, r, s
  y = Sub@14(p, q) # y
  output y
";
    let given = |n: &'static [i64], m: &'static [i64]| {
        [("n", Ints(n)), ("m", Ints(m)), ("x", Floats(&[1.0, 2.0])), ("w", Floats(&[3.0, 5.0]))]
    };
    let pairs = [(&[3], &[3]), (&[2], &[1]), (&[1], &[2]), (&[4], &[0]), (&[3], &[3])];
    let runs = pairs.map(|(n, m)| given(n, m));
    let results = elements(text, &runs.each_ref().map(|run| &run[..]));
    let wanted = pairs.map(|(n, m)| {
        let of = |x: f32, w: f32| {
            let (mut p, mut q) = (x, w);
            for _ in 0..n[0] {
                let (s, t) = (0..m[0]).fold((p, q), |(s, t), _| (t, s + t + p));
                (p, q) = (t - q, s);
            }
            p - q
        };
        vec![of(1.0, 3.0), of(2.0, 5.0)]
    });
    assert_eq!(results, wanted);
}
