//! One of two subgraphs.

use udo_runtime::compile::PlanOptions;

use super::Feed::{Flag, Floats};
use super::{compiled, elements, give, run, steps};

/// A choice between `first` and `second`, lines of branches that see `x`, `h` and `c`.
fn choice(first: &str, second: &str, behind: &str) -> String {
    let branch = |lines: &str| format!("      {}\n", lines.replace("; ", "\n      "));
    format!(
        "graph g\n  input c: bool[]\n  input x: f32[4]\n  constant m: f32[]{{-1.0}}\n  h = Mul@13(x, m) # h\n  r = If@16(c) # choice\n    then_branch: graph \
         \"then\"\n{}    else_branch: graph \"else\"\n{}  {behind}\n  output y\n",
        branch(first),
        branch(second)
    )
}

#[track_caller]
fn both(text: &str) -> [Vec<f32>; 2] {
    let x = [1.0, -2.0, 3.0, -4.0];
    let given = |truth| [("c", Flag(truth)), ("x", Floats(&x))];
    let mut results = elements(text, &[&given(true), &given(false), &given(true)]);
    let again = results.pop().unwrap();
    assert_eq!(results[0], again, "a branch that ran before changes nothing");
    results.try_into().unwrap()
}

#[test]
fn the_branch_runs_that_the_truth_says() {
    let text = choice(
        "capture x; a = Relu@14(x) # a; output a",
        "capture h; b = Sigmoid@13(h) # b; c = Relu@14(h) # c; d = Sub@14(b, c) # d; output d",
        "y = Add@14(r, x) # sum",
    );
    let [first, second] = both(&text);
    assert_eq!(first, [2.0, -2.0, 6.0, -4.0]);
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let wanted = [1f32, -2.0, 3.0, -4.0].map(|x| x + sigmoid(-x) - (-x).max(0.0));
    assert!(second.iter().zip(wanted).all(|(y, wanted)| (y - wanted).abs() < 1e-6), "{second:?}");
}

#[test]
fn branches_read_earlier_values_but_not_those_of_the_other_branch() {
    let text = choice(
        "capture x; a = Relu@14(x) # a; b = Neg@13(x) # b; d = Add@14(a, b) # d; output d",
        "capture x; b = Neg@13(x) # e; d = Neg@13(x) # f; e = Add@14(b, d) # g; output e",
        "p = Relu@14(x) # p; n = Neg@13(x) # n; y = Sum@13(r, p, n) # sum",
    );
    let text = text.replace("; ", "\n  ");
    let text = text
        .replace("  r = If", "  p0 = Relu@14(x) # p0\n  r = If")
        .replace("Sum@13(r", "Sum@13(p0, r");
    let model = compiled(&text, PlanOptions::default());
    let count = |op: &str| steps(&model).iter().filter(|(name, _)| *name == op).count();
    // The branch's Relu and the one behind are the one before; each place has a Neg of its own.
    assert_eq!((count("Relu"), count("Neg")), (1, 3), "{:?}", steps(&model));
    let [first, second] = both(&text);
    assert_eq!(first, [1.0, 4.0, 3.0, 8.0]);
    assert_eq!(second, [-1.0, 6.0, -3.0, 12.0]);
}

#[test]
fn results_lie_where_branches_write_them() {
    let text = choice(
        "capture x; a = Sigmoid@13(x) # a; output a",
        "capture h; b = Tanh@13(h) # b; output b",
        "y = Add@14(r, x) # sum",
    );
    let model = compiled(&text, PlanOptions::default());
    let wanted = [("Mul", 0), ("If", 0), ("Sigmoid", 1), ("If", 0), ("Tanh", 1), ("Add", 0)];
    assert_eq!(steps(&model), wanted);
    both(&text);
}

#[test]
fn branches_do_not_overwrite_earlier_values() {
    // The first branch gives what it captures, or a view of that; both are read again behind.
    for first in ["capture x; output x", "capture x; a = Identity@21(x) # a; output a"] {
        let text = choice(
            first,
            "capture h; b = Relu@14(h) # b; output b",
            "s = Add@14(r, x) # s; y = Add@14(s, h) # t".replace("; ", "\n  ").as_str(),
        );
        let [first, second] = both(&text);
        assert_eq!(first, [1.0, -2.0, 3.0, -4.0]);
        assert_eq!(second, [0.0, 2.0, 0.0, 4.0]);
    }
}

#[test]
fn a_result_that_is_given_twice_is_two_tensors() {
    let text = "graph g
  input c: bool[]
  input x: f32[2]
  p, q = If@16(c) # choice
    then_branch: graph \"then\"
      capture x
      constant m: f32[]{-1.0}
      a = Mul@13(x, m) # a
      output a, a
    else_branch: graph \"else\"
      capture x
      a = Relu@14(x) # a
      b = Add@14(x, x) # b
      output a, b
  d = Sub@14(p, q) # d
  y = Add@14(d, x) # y
  output y
";
    let given = |truth| [("c", Flag(truth)), ("x", Floats(&[1.0, -2.0]))];
    let results = elements(text, &[&given(true), &given(false)]);
    assert_eq!(results, [[1.0, -2.0], [0.0, 2.0]]);
}

#[test]
fn extents_that_differ_are_the_branchs() {
    let text = "graph g
  input c: bool[]
  input x: f32[3,2]
  r = If@16(c) # choice
    then_branch: graph \"then\"
      capture x
      a = Relu@14(x) # a
      output a
    else_branch: graph \"else\"
      capture x
      constant at: i64[2]{2, 0}
      b = Gather@13(x, at) axis=0 # b
      output b
  y = Identity@21(r) # y
  output y
";
    let x = [1.0, -2.0, 3.0, 4.0, -5.0, 6.0];
    let given = |truth| [("c", Flag(truth)), ("x", Floats(&x))];
    let results = run(text, &[&given(false), &given(true), &given(false)]);
    let (short, long) = (vec![-5.0, 6.0, 1.0, -2.0], vec![1.0, 0.0, 3.0, 4.0, 0.0, 6.0]);
    let wanted = [(short.clone(), vec![2, 2]), (long, vec![3, 2]), (short, vec![2, 2])];
    assert_eq!(results, wanted);
}

#[test]
fn a_branch_that_is_known_stands_for_its_node() {
    // What is not taken fits nothing, and names no operator that there is.
    let text = "graph g
  constant c: bool[1]{1}
  input x: f32[2]
  y, z = If@16(c) # choice
    then_branch: graph \"then\"
      capture x
      constant k: f32[]{3.0}
      a = Mul@14(x, k) # a
      output a, x
    else_branch: graph \"else\"
      capture x
      b = Mystery@1(x) # b
      output b
  output y, z
";
    let model = compiled(text, PlanOptions::default());
    let ran: Vec<&str> = model.report().nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(ran, ["choice/then_branch/a", "choice/then_branch/output_1"]);
    assert_eq!(elements(text, &[&[("x", Floats(&[1.0, -2.0]))]]), [[3.0, -6.0]]);
}

#[test]
fn branches_are_nested_and_share_memory() {
    let text = "graph g
  input c: bool[]
  input x: f32[64]
  y = If@16(c) # outer
    then_branch: graph \"then\"
      capture x
      capture c
      constant m: f32[]{-1.0}
      a = Mul@13(x, m) # a
      r = If@16(c) # inner
        then_branch: graph \"then\"
          capture a
          b = Tanh@13(a) # b
          d = Add@14(b, a) # d
          output d
        else_branch: graph \"else\"
          capture a
          e = Sigmoid@13(a) # e
          output e
      output r
    else_branch: graph \"else\"
      capture x
      f = Sigmoid@13(x) # f
      g = Add@14(f, x) # g
      output g
  output y
";
    let x: Vec<f32> = (-32..32).map(|x: i8| f32::from(x) / 8.0).collect();
    let given = |truth| [("c", Flag(truth)), ("x", Floats(&x))];
    let results = elements(text, &[&given(true), &given(false)]);
    for (at, x) in x.iter().enumerate() {
        assert!((results[0][at] - ((-x).tanh() - x)).abs() < 1e-6);
        assert!((results[1][at] - (1.0 / (1.0 + (-x).exp()) + x)).abs() < 1e-6);
    }
    let model = compiled(text, PlanOptions::default());
    let depths: Vec<usize> = model.report().nodes.iter().map(|node| node.depth).collect();
    assert_eq!(depths, [0, 1, 1, 2, 2, 1, 2, 1, 0, 1, 1, 0]);
    // The input, the output, and one tensor in between at a time.
    assert!(model.report().memories[0].arena_bytes <= 4 * 64 * 4, "{:?}", model.report().memories);
}

/// A branch that fits, one whose last node does not after others have been bound, and why.
const FITS: &str = "capture x; k = Neg@13(x) # k; output k, x";
const UNFIT: &str = "capture x; u = Unsqueeze@13(x, at) # u; v = Neg@13(u) # v; w = MatMul@13(v, x) # w; output w, x";

/// A choice of two outputs, which are told apart and added.
fn pair(first: &str, second: &str) -> String {
    let branch = |lines: &str| {
        let at = if lines.contains("at)") { "      constant at: i64[2]{0, 2}\n" } else { "" };
        let lines = lines.replacen("capture x; ", &format!("capture x\n{at}      "), 1);
        format!("      {}\n", lines.replace("; ", "\n      "))
    };
    format!(
        "graph g\n  input c: bool[]\n  input x: f32[3]\n  p, q = If@16(c) # choice\n    then_branch: graph \"then\"\n{}    \
         else_branch: graph \"else\"\n{}  s = Sub@14(p, q) # s\n  y = Add@14(s, x) # y\n  output y\n",
        branch(first),
        branch(second)
    )
}

#[test]
fn a_branch_that_does_not_fit_fails_where_it_is_taken() {
    let x = [1.0, -2.0, 3.0];
    for (text, taken, branch) in
        [(pair(FITS, UNFIT), true, "else_branch"), (pair(UNFIT, FITS), false, "then_branch")]
    {
        let given = |truth| [("c", Flag(truth)), ("x", Floats(&x))];
        assert_eq!(elements(&text, &[&given(taken)]), [[-1.0, 2.0, -3.0]]);
        let model = compiled(&text, PlanOptions::default());
        let reason = format!(
            "takes its {branch:?}, which does not fit: node \"choice/{branch}/w\" (MatMul): "
        );
        let notices = &model.report().notices;
        assert_eq!(notices.len(), 1, "{notices:?}");
        let notice = format!("a run fails if node \"choice\" {reason}");
        assert!(notices[0].starts_with(&notice), "{notices:?}");
        let mut session = model.session().unwrap();
        give(&mut session, &given(!taken));
        let error = session.run().unwrap_err().to_string();
        assert!(error.starts_with("node \"choice\": "), "{error}");
        assert!(error.contains(&format!("If on cpu {reason}")), "{error}");
        assert!(notices[0].ends_with(error.split_once(&reason).unwrap().1), "{error}");
        // The session can run again.
        give(&mut session, &given(taken));
        session.run().unwrap();
        assert_eq!(session.output::<f32>("y").unwrap(), [-1.0, 2.0, -3.0]);
    }
}

#[test]
fn nothing_is_left_of_a_branch_that_does_not_fit() {
    for (text, branch) in [(pair(FITS, UNFIT), "then"), (pair(UNFIT, FITS), "else")] {
        let model = compiled(&text, PlanOptions::default());
        let nodes = &model.report().nodes;
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let way = |name: &str| format!("choice/{branch}_branch/{name}");
        let wanted = ["choice", &way("k"), "s", "y"];
        assert_eq!(names, wanted);
        assert!(nodes.iter().all(|node| node.depth == 0), "{nodes:?}");
        assert_eq!(steps(&model), [("If", 0), ("Neg", 0), ("Sub", 0), ("Add", 0)]);
    }
}

#[test]
fn a_branch_that_does_not_fit_is_met_only_where_its_node_runs() {
    let text = "graph g
  input c: bool[]
  input d: bool[]
  input x: f32[3]
  y = If@16(c) # outer
    then_branch: graph \"then\"
      capture x
      capture d
      a = Neg@13(x) # a
      r = If@16(d) # inner
        then_branch: graph \"then\"
          capture a
          b = Add@14(a, a) # b
          output b
        else_branch: graph \"else\"
          capture a
          constant k: f32[2]{1.0, 2.0}
          e = Add@14(a, k) # e
          output e
      n = Neg@13(r) # n
      output n
    else_branch: graph \"else\"
      capture x
      f = Neg@13(x) # f
      output f
  output y
";
    let given = |c, d| [("c", Flag(c)), ("d", Flag(d)), ("x", Floats(&[1.0, -2.0, 3.0]))];
    let results = elements(text, &[&given(true, true), &given(false, false), &given(false, true)]);
    assert_eq!(results, [[2.0, -4.0, 6.0], [-1.0, 2.0, -3.0], [-1.0, 2.0, -3.0]]);
    let model = compiled(text, PlanOptions::default());
    let wanted = [("If", 0), ("Neg", 1), ("If", 1), ("Add", 1), ("Neg", 1), ("If", 0), ("Neg", 1)];
    assert_eq!(steps(&model), wanted);
    let mut session = model.session().unwrap();
    give(&mut session, &given(true, false));
    let error = session.run().unwrap_err().to_string();
    assert!(error.contains("node \"outer/then_branch/inner/else_branch/e\" (Add): "), "{error}");
}
