//! Loops whose iterations differ in shape: each iteration is planned by itself, and repeating a run with the same shapes
//! uses no heap.

use udo_api::guard::thread_heap_calls;
use udo_runtime::compile::PlanOptions;
use udo_runtime::graph::Graph;
use udo_runtime::{CompileOptions, Session};

use super::Feed::{Floats, Ints};
use super::{Feed, compiled, give, plans};
use udo_test_support::compile::{built_in, compile_graph};

/// A loop over the state `s`, which begins as `x`. `body` computes the condition (`on` or `go`), the next state `t`, and
/// `r`, one row of the output `rows`. A limit or condition `_` is absent.
fn looped(limit: &str, condition: &str, body: &str) -> String {
    let body = body.replace("; ", "\n      ");
    format!(
        "graph g\n  input n: i64[]\n  input x: f32[2]\n  input c: f32[]\n  last, rows = Loop@16({limit}, {condition}, x) # loop\n    \
         body: graph \"body\"\n      input i: i64[]\n      input on: bool[]\n      input s\n      {body}\n  y = Neg@13(last) # y\n  output y, rows\n"
    )
}

const GROWS: &str = "capture x; t = Concat@13(s, x) axis=0 # more; r = ReduceSum@13(t) keepdims=0 # sum; output on, t, r";

/// The outputs `y` (the negated state) and `rows` of `GROWS` after `iterations` iterations with `x = [1, 2]`.
fn grown(iterations: usize) -> (Vec<f32>, Vec<f32>) {
    let state = [-1.0, -2.0].repeat(iterations + 1);
    let mut rows = Vec::new();
    let mut sum = 3.0;
    for _ in 0..iterations {
        sum += 3.0;
        rows.push(sum);
    }
    (state, rows)
}

/// `y` and `rows` of a run, with how many plans the run made.
fn results(session: &mut Session, given: &[(&str, Feed<'_>)]) -> ((Vec<f32>, Vec<f32>), usize) {
    give(session, given);
    let before = session.replans();
    session.run().unwrap();
    let rows = session.output::<f32>("rows").unwrap().to_vec();
    ((session.output::<f32>("y").unwrap().to_vec(), rows), session.replans() - before)
}

#[test]
fn each_run_chooses_how_often_the_state_grows() {
    let text = looped("n", "_", GROWS);
    for plan in plans() {
        let model = compiled(&text, plan);
        let mut session = model.session().unwrap();
        for iterations in [0usize, 1, 4, 9, 2] {
            let n = [i64::try_from(iterations).unwrap()];
            let given = [("n", Ints(&n)), ("x", Floats(&[1.0, 2.0]))];
            let (found, planned) = results(&mut session, &given);
            assert_eq!((found, planned > 0), (grown(iterations), true), "{plan:?}");
            // A second run with the same inputs uses no heap.
            let before = thread_heap_calls();
            session.run().unwrap();
            assert_eq!(thread_heap_calls(), before);
        }
    }
}

#[test]
fn a_known_number_of_iterations_needs_no_plan_in_the_run() {
    let text = looped("n", "_", GROWS).replace("input n: i64[]", "constant n: i64[]{3}");
    let model = compiled(&text, PlanOptions::default());
    let mut session = model.session().unwrap();
    let found = results(&mut session, &[("x", Floats(&[1.0, 2.0]))]);
    assert_eq!(found, (grown(3), 0));
    let notices = &model.report().notices;
    let is_named =
        |notice: &String| notice.starts_with("node \"loop\" (Loop) is unrolled: a state grows");
    assert!(notices.iter().any(is_named), "{notices:?}");
}

#[test]
fn a_condition_alone_ends_a_loop_that_stacks() {
    // The state stays as it is; only the stack has no bound.
    let body = "capture c; capture x; t = Add@14(s, x) # t; r = ReduceSum@13(t) keepdims=0 # r; go = Less@13(r, c) # go; \
                output go, t, r";
    for limit in ["_", "huge"] {
        let text = looped(limit, "_", body)
            .replace("  input x", "  constant huge: i64[]{4611686018427387904}\n  input x");
        let mut session = compiled(&text, PlanOptions::default()).session().unwrap();
        for (until, expected) in [(5.0, vec![6.0]), (20.0, vec![6.0, 9.0, 12.0, 15.0, 18.0, 21.0])]
        {
            let count = f32::from(u8::try_from(expected.len()).unwrap());
            let given = [("c", Floats(&[until])), ("x", Floats(&[1.0, 2.0]))];
            let (found, _) = results(&mut session, &given);
            assert_eq!(found, (vec![-1.0 - count, -2.0 * (1.0 + count)], expected));
        }
    }
}

#[test]
fn slice_bounds_may_depend_on_values_of_the_iteration() {
    let text = looped(
        "n",
        "_",
        "capture x; capture zero; capture two; k = Mod@13(i, two) # k; e = Unsqueeze@13(k, zero) # e; \
         p = Slice@13(x, zero, e) # p; t = Concat@13(s, p) axis=0 # t; r = Size@13(t) # r; output on, t, r",
    )
    .replace("  input x", "  constant zero: i64[1]{0}\n  constant two: i64[]{2}\n  input x");
    let mut session = compiled(&text, PlanOptions::default()).session().unwrap();
    give(&mut session, &[("n", Ints(&[5])), ("x", Floats(&[1.0, 2.0]))]);
    session.run().unwrap();
    assert_eq!(session.output::<f32>("y").unwrap(), [-1.0, -2.0, -1.0, -1.0]);
    assert_eq!(session.output::<i64>("rows").unwrap(), [2, 3, 3, 4, 4]);
}

#[test]
fn a_loop_that_grows_without_an_end_is_refused() {
    let text = looped("n", "_", "capture x; t = Concat@13(s, x) axis=0 # t; output on, t, i")
        .replace("input n: i64[]", "constant n: i64[]{9223372036854775807}");
    let graph = Graph::parse(&text).unwrap();
    let model = compile_graph(graph, &built_in(), &CompileOptions::default());
    let error = model.map(drop).unwrap_err().to_string();
    let expected = "node \"loop\" (Loop): it has more than 16384 iterations whose shapes differ, expected at most 16384 with at \
                    most 131072 nodes in total";
    assert_eq!(error, expected);
}
