//! Sequences of tensors. The length of a sequence is known when the model is compiled, or only during a run.

use udo_api::guard::thread_heap_calls;
use udo_runtime::CompileOptions;
use udo_runtime::compile::PlanOptions;
use udo_runtime::graph::Graph;

use super::Feed::{Flag, Floats, Ints};
use super::{Feed, compiled, give};
use udo_test_support::compile::{built_in, compile_graph};

/// Returns a graph with the inputs `x` (4 rows of 2), `p` (a position or count) and `b` (a condition), some constants, and `lines`. A line
/// ends with `#` and the name of its node; `_` stands for an omitted input.
fn graph(lines: &str) -> String {
    let inputs = "input x: f32[4,2]\n  input p: i64[]\n  input b: bool[]\n  constant two: i64[]{2}\n  constant minus_one: i64[]{-1}\n  \
                  constant zero: i64[]{0}\n  constant nine: i64[]{9}\n  constant lengths: i64[2]{1, 3}\n";
    format!("graph g\n  {inputs}  {lines}\n", lines = lines.replace("; ", "\n  "))
}

const X: [f32; 8] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];

/// Runs twice, checks that the second run makes no heap calls, and returns the shape and the elements of `y`.
#[track_caller]
fn run(lines: &str, given: &[(&str, Feed<'_>)]) -> (Vec<usize>, Vec<f32>) {
    let mut session = compiled(&graph(lines), PlanOptions::default()).session().unwrap();
    give(&mut session, &[("x", Floats(&X))]);
    give(&mut session, given);
    session.run().unwrap();
    let before = thread_heap_calls();
    session.run().unwrap();
    assert_eq!(thread_heap_calls(), before);
    let dims = session.output_desc("y").unwrap().shape().to_vec();
    (dims, session.output::<f32>("y").unwrap().to_vec())
}

#[track_caller]
fn refusal(lines: &str) -> String {
    let graph = Graph::parse(&graph(lines)).unwrap();
    let model = compile_graph(graph, &built_in(), &CompileOptions::default());
    model.map(drop).unwrap_err().to_string()
}

#[test]
fn parts_of_a_split_are_joined_or_taken() {
    let parts = "s = SplitToSequence@11(x) axis=0 keepdims=0 # s; ";
    let rows = |axis: i64| {
        format!("{parts}y = ConcatFromSequence@11(s) axis={axis} new_axis=1 # y; output y")
    };
    assert_eq!(run(&rows(0), &[]), (vec![4, 2], X.to_vec()));
    let columns = vec![1.0, 3.0, 5.0, 7.0, 2.0, 4.0, 6.0, 8.0];
    assert_eq!(run(&rows(-1), &[]), (vec![2, 4], columns));
    let uneven =
        "s = SplitToSequence@11(x, lengths) # s; y = SequenceAt@11(s, minus_one) # y; output y";
    assert_eq!(run(uneven, &[]), (vec![3, 2], X[2..].to_vec()));
    let chunks =
        "s = SplitToSequence@11(x, two) axis=-1 # s; y = SequenceAt@11(s, zero) # y; output y";
    assert_eq!(run(chunks, &[]), (vec![4, 2], X.to_vec()));
}

#[test]
fn tensors_are_inserted_and_erased() {
    let lines = "a = Neg@13(x) # a; s = SequenceConstruct@11(x, a) # s; t = SequenceInsert@11(s, x, zero) # t; \
                 u = SequenceInsert@11(t, a, minus_one) # u; v = SequenceErase@11(u, zero) # v; w = SequenceErase@11(v) # w; ";
    // x, x, a; then x, x, a, a; then x, a, a; then x, a.
    let y = run(&format!("{lines}y = SequenceAt@11(w, minus_one) # y; output y"), &[]);
    assert_eq!(y, (vec![4, 2], X.map(|x| -x).to_vec()));
    let length = format!("{lines}n = SequenceLength@11(w) # n; y = Cast@13(n) to=1 # y; output y");
    assert_eq!(run(&length, &[]), (vec![], vec![2.0]));
    let empty = "e = SequenceEmpty@11() # e; s = SequenceInsert@11(e, x) # s; i = Identity@16(s) # i; \
                 y = SequenceAt@11(i, zero) # y; output y";
    assert_eq!(run(empty, &[]), (vec![4, 2], X.to_vec()));
}

#[test]
fn a_position_may_be_computed() {
    // If all tensors have one shape, the position is looked up; otherwise what follows is planned during the run.
    let alike = "s = SplitToSequence@11(x) # s; y = SequenceAt@11(s, p) # y; output y";
    assert_eq!(run(alike, &[("p", Ints(&[2]))]), (vec![1, 2], vec![5.0, 6.0]));
    assert_eq!(run(alike, &[("p", Ints(&[-4]))]), (vec![1, 2], vec![1.0, 2.0]));
    let other = "s = SplitToSequence@11(x, lengths) # s; y = SequenceAt@11(s, p) # y; output y";
    assert_eq!(run(other, &[("p", Ints(&[0]))]), (vec![1, 2], vec![1.0, 2.0]));
    assert_eq!(run(other, &[("p", Ints(&[1]))]), (vec![3, 2], X[2..].to_vec()));
    // The part that is planned during the run gets the sequence as separate tensors.
    let erased = "s = SplitToSequence@11(x, lengths) # s; t = SequenceErase@11(s, p) # t; y = ConcatFromSequence@11(t) axis=0 # y; output y";
    assert_eq!(run(erased, &[("p", Ints(&[0]))]), (vec![3, 2], X[2..].to_vec()));
}

#[test]
fn a_map_runs_its_body_for_each_tensor() {
    let lines = "s = SplitToSequence@11(x, lengths) # s; t = SequenceMap@17(s, p) # map\n    body: graph \"b\"\n      input e\n      input k\n      \
                 f = Cast@13(k) to=1 # f\n      o = Mul@14(e, f) # o\n      output o\n  y = ConcatFromSequence@11(t) axis=0 # y; output y";
    assert_eq!(run(lines, &[("p", Ints(&[3]))]), (vec![4, 2], X.map(|x| 3.0 * x).to_vec()));
}

#[test]
fn branches_give_sequences_of_different_lengths() {
    let lines = "s = If@16(b) # pick\n    then_branch: graph \"t\"\n      capture x\n      o = SequenceConstruct@11(x, x) # o\n      output o\n    \
                 else_branch: graph \"e\"\n      capture x\n      o = SequenceConstruct@11(x) # o\n      output o\n  \
                 y = ConcatFromSequence@11(s) axis=0 # y; output y";
    assert_eq!(run(lines, &[("b", Flag(true))]), (vec![8, 2], X.repeat(2)));
    assert_eq!(run(lines, &[("b", Flag(false))]), (vec![4, 2], X.to_vec()));
}

#[test]
fn a_loop_makes_and_reads_sequences() {
    let lines = "e = SequenceEmpty@11() # e; s = Loop@16(p, _, e) # go\n    body: graph \"b\"\n      input i: i64[]\n      input on: bool[]\n      \
                 input q\n      capture x\n      r = SequenceInsert@11(q, x) # r\n      output on, r\n  \
                 y = ConcatFromSequence@11(s) axis=0 # y; output y";
    assert_eq!(run(lines, &[("p", Ints(&[3]))]), (vec![12, 2], X.repeat(3)));
    let lines = "s = SplitToSequence@11(x, lengths) # s; n = SequenceLength@11(s) # n; z = ReduceSum@13(x) keepdims=0 # z; \
                 y = Loop@16(n, _, z) # go\n    body: graph \"b\"\n      input i: i64[]\n      input on: bool[]\n      input a: f32[]\n      \
                 capture s\n      r = SequenceAt@11(s, i) # r\n      m = ReduceMax@13(r) keepdims=0 # m\n      t = Mul@14(a, m) # t\n      output on, t\n  output y";
    assert_eq!(run(lines, &[]), (vec![], vec![36.0 * 2.0 * 8.0]));
}

#[test]
fn misused_sequences_are_refused_when_the_model_is_compiled() {
    let rows = [
        (
            "s = SplitToSequence@11(x) # s; y = Relu@14(s) # y; output y",
            "node \"y\" (Relu): input 0 \"s\" is a sequence of 4 tensors, expected a tensor",
        ),
        (
            "y = SequenceAt@11(x, zero) # y; output y",
            "node \"y\" (SequenceAt): input 0 \"x\" is f32[4,2], expected a sequence",
        ),
        (
            "s = SequenceConstruct@11(x) # s; y = SequenceAt@11(s, nine) # y; output y",
            "node \"y\" (SequenceAt): its position is 9, expected one from -1 to 0",
        ),
        (
            "s = SequenceConstruct@11(x) # s; t = SequenceInsert@11(s, x, nine) # t; y = SequenceAt@11(t, zero) # y; output y",
            "node \"t\" (SequenceInsert): its position is 9, expected one from -1 to 1",
        ),
        (
            "e = SequenceEmpty@11() # e; t = SequenceErase@11(e) # t; y = SequenceLength@11(t) # y; output y",
            "node \"t\" (SequenceErase): its sequence is empty, expected a tensor to erase",
        ),
        (
            "e = SequenceEmpty@11() # e; t = SequenceErase@11(e, zero) # t; y = SequenceLength@11(t) # y; output y",
            "node \"t\" (SequenceErase): its sequence is empty, expected a tensor",
        ),
        (
            "e = SequenceEmpty@11() # e; y = ConcatFromSequence@11(e) axis=0 # y; output y",
            "node \"y\" (ConcatFromSequence): its sequence is empty, expected tensors to join",
        ),
        (
            "s = SplitToSequence@11(x, lengths) axis=1 # s; y = SequenceAt@11(s, zero) # y; output y",
            "node \"s\" (SplitToSequence): its parts are [1, 3] long, expected 2 elements in all",
        ),
        (
            "y = SplitToSequence@11(x) # y; output y",
            "graph output \"y\" is a sequence of 4 tensors, expected a tensor",
        ),
    ];
    for (lines, expected) in rows {
        assert_eq!(refusal(lines), expected);
    }
}
