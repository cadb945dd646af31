//! Inputs and outputs in one place: caches that a run goes on with.

use std::slice;

use udo_api::Element;
use udo_runtime::device::{DeviceTensor, ErrorCode, TensorSpec};
use udo_runtime::graph::Graph;
use udo_runtime::run::{Copies, RunOptions};
use udo_runtime::{CompileOptions, LoadOptions, Model, Runtime, Session};

use super::{compile, cpu, elements, on};
use udo_compile::options::set_dim;
use udo_engine::device::Coded;

fn pairs(pairs: &[(&str, &str)]) -> CompileOptions {
    let pair = |&(input, output): &(&str, &str)| (input.to_owned(), output.to_owned());
    CompileOptions { in_place: pairs.iter().map(pair).collect(), ..CompileOptions::default() }
}

/// A run of each kind: on its caller's thread, and submitted.
fn run(
    session: &mut Session,
    is_submitted: bool,
    inputs: &[DeviceTensor],
    outputs: &[Option<DeviceTensor>],
) -> (Vec<DeviceTensor>, Copies) {
    if !is_submitted {
        let made = session.run_on(inputs, outputs).unwrap();
        return (made, session.copies());
    }
    let run = session.submit(inputs, outputs, RunOptions::default()).unwrap();
    run.wait().unwrap();
    let made = (0..outputs.len()).map(|at| run.output(at).unwrap());
    (made.collect(), run.copies().unwrap())
}

fn outputs_copied(n: usize, bytes: u64) -> Copies {
    Copies { inputs: 0, outputs: n, bytes }
}

/// A cache of 40 steps, and a reader of what is new in it.
const CACHE: &str = "graph g
  input past: f32[1,40,4]
  input step: f32[1,1,4]
  input at: i64[1]
  constant axis: i64[]{1}
  present = TensorScatter@24(past, step, at) axis=1
  y = CumSum@14(present, axis)
  output y, present
";

#[test]
fn a_cache_is_gone_on_with_step_by_step_without_copies() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let apart = compile(&runtime, CACHE, &CompileOptions::default());
    let model = compile(&runtime, CACHE, &pairs(&[("past", "present")]));
    assert_eq!(model.in_place().collect::<Vec<_>>(), [("past", "present")]);
    for is_submitted in [false, true] {
        let (mut apart, mut session) = (apart.session().unwrap(), model.session().unwrap());
        let cache = on(&cpu, &[1, 40, 4], &[0.5f32; 160]);
        let mut past = on(&cpu, &[1, 40, 4], &[0.5f32; 160]);
        for at in 0..40u8 {
            let step = [1.0, -2.0, 0.25, 1.0 / 3.0].map(|x: f32| x * (1.0 + f32::from(at)));
            let step = on(&cpu, &[1, 1, 4], &step);
            let at = on(&cpu, &[1], &[i64::from(at)]);
            let given = [past.clone(), step.clone(), at.clone()];
            let (right, _) = run(&mut apart, is_submitted, &given, &[None, None]);
            let given = [cache.clone(), step, at];
            let to = [None, Some(cache.clone())];
            let (made, copies) = run(&mut session, is_submitted, &given, &to);
            assert_eq!(copies, Copies::default());
            assert_eq!(made[1].memory(), cache.memory());
            for (made, right) in made.iter().zip(&right) {
                assert_eq!(made.to_host().unwrap().bytes(), right.to_host().unwrap().bytes());
            }
            past = on(&cpu, &[1, 40, 4], &elements::<f32>(&right[1]));
        }
        // What is given two places has two.
        let (step, at) = (on(&cpu, &[1, 1, 4], &[9.0f32; 4]), on(&cpu, &[1], &[0i64]));
        let given = [cache.clone(), step, at];
        let (made, copies) = run(&mut session, is_submitted, &given, &[None, None]);
        assert_eq!(copies, Copies::default());
        assert_eq!(elements::<f32>(&made[1])[..4], [9.0; 4]);
        assert_eq!(elements::<f32>(&cache), elements::<f32>(&past));
    }
}

/// A model, its pairs, and how many outputs a run over tensors in one place copies.
struct Case {
    text: &'static str,
    pairs: &'static [(&'static str, &'static str)],
    copied: usize,
    inputs_copied: usize,
}

/// Models of inputs and outputs of four numbers.
const CASES: &[Case] = &[
    // By steps that work in place, of which the first one reads the input.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  a = Add@14(x, s)
  y = Relu@14(a)
  output y
",
        pairs: &[("x", "y")],
        copied: 0,
        inputs_copied: 0,
    },
    // The second input of a sum is read as the output is written, and its kernel works in the place of the first.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  y = Sub@14(s, x)
  output y
",
        pairs: &[("x", "y")],
        copied: 1,
        inputs_copied: 0,
    },
    // Nothing reads the input by the time that the output is made.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  constant at: i64[]{0}
  a = Softmax@13(x) axis=-1
  b = CumSum@14(a, at)
  y = CumSum@14(b, at)
  output y
",
        pairs: &[("x", "y")],
        copied: 0,
        inputs_copied: 0,
    },
    // The input is read again behind the step that would overwrite it, in the end.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  a = Neg@13(x)
  b = Relu@14(a)
  y = Sub@14(b, x)
  output y
",
        pairs: &[("x", "y")],
        copied: 1,
        inputs_copied: 0,
    },
    // Twice in one step.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  y = Mul@14(x, x)
  output y
",
        pairs: &[("x", "y")],
        copied: 1,
        inputs_copied: 0,
    },
    // The input itself, which is there.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  y = Identity@16(x)
  z = Add@14(x, s)
  output y, z
",
        pairs: &[("x", "y")],
        copied: 0,
        inputs_copied: 0,
    },
    // Another output that is the input as it was.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  before = Identity@16(x)
  y = Add@14(x, s)
  output y, before
",
        pairs: &[("x", "y")],
        copied: 1,
        inputs_copied: 1,
    },
    // Each in the place of the other one.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  y = Identity@16(s)
  z = Identity@16(x)
  output y, z
",
        pairs: &[("x", "y"), ("s", "z")],
        copied: 2,
        inputs_copied: 2,
    },
    // Two at once.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  y = Neg@13(x)
  z = Exp@13(s)
  output z, y
",
        pairs: &[("x", "y"), ("s", "z")],
        copied: 0,
        inputs_copied: 0,
    },
    // A loop reads the input in each iteration.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  constant trips: i64[]{3}
  y = Loop@16(trips, _, s) # loop
    body: graph \"body\"
      input i: i64[]
      input go: bool[]
      input state: f32[4]
      capture x
      next = Add@14(state, x) # next
      output go, next
  output y
",
        pairs: &[("x", "y")],
        copied: 1,
        inputs_copied: 0,
    },
    // What a view of the input goes into.
    Case {
        text: "graph g
  input x: f32[4]
  input s: f32[4]
  constant flat: i64[2]{2,2}
  constant back: i64[1]{4}
  a = Reshape@21(x, flat)
  b = Neg@13(a)
  y = Reshape@21(b, back)
  output y
",
        pairs: &[("x", "y")],
        copied: 0,
        inputs_copied: 0,
    },
];

/// The result of a run with tensors in one place, wherever a pair is declared, next to one with tensors apart.
#[test]
fn pairs_in_one_place_are_right_with_copies_and_without() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let (x, s) = ([1.0f32, -2.0, 3.0, -4.0], [0.5f32, 8.0, -1.0, 2.0]);
    for Case { text, pairs: declared, copied, inputs_copied } in CASES {
        let apart = compile(&runtime, text, &CompileOptions::default());
        let model = compile(&runtime, text, &pairs(declared));
        let given = [on(&cpu, &[4], &x), on(&cpu, &[4], &s)];
        let none = vec![None; model.outputs().len()];
        let right = apart.session().unwrap().run_on(&given, &none).unwrap();
        let mut session = model.session().unwrap();
        for is_submitted in [false, true, false] {
            let given = [on(&cpu, &[4], &x), on(&cpu, &[4], &s)];
            let to: Vec<_> =
                model.outputs().iter().map(|name| place(&model, &given, name)).collect();
            let (made, copies) = run(&mut session, is_submitted, &given, &to);
            for (made, right) in made.iter().zip(&right) {
                assert_eq!(elements::<f32>(made), elements::<f32>(right), "{text}");
            }
            assert_eq!((copies.inputs, copies.outputs), (*inputs_copied, *copied), "{text}");
            // Tensors apart stay apart.
            let given = [on(&cpu, &[4], &x), on(&cpu, &[4], &s)];
            let (made, _) = run(&mut session, is_submitted, &given, &none);
            for (made, right) in made.iter().zip(&right) {
                assert_eq!(elements::<f32>(made), elements::<f32>(right), "{text}");
            }
            assert_eq!(
                (elements::<f32>(&given[0]), elements::<f32>(&given[1])),
                (x.to_vec(), s.to_vec())
            );
        }
        // What the session has of its own stays as well.
        session.input_mut::<f32>("x").unwrap().copy_from_slice(&x);
        session.input_mut::<f32>("s").unwrap().copy_from_slice(&s);
        for _ in 0..2 {
            session.run().unwrap();
            let name = &model.outputs()[0];
            assert_eq!(session.output::<f32>(name).unwrap(), elements::<f32>(&right[0]), "{text}");
        }
    }
}

/// The tensor of the input that an output is in the place of, if it has one.
fn place(model: &Model, given: &[DeviceTensor], output: &str) -> Option<DeviceTensor> {
    let (input, _) = model.in_place().find(|(_, other)| *other == output)?;
    let at = model.inputs().iter().position(|of| of.name == input)?;
    given.get(at).cloned()
}

#[test]
fn segments_planned_during_the_run_are_right_on_one_device() {
    let text = "graph g
  input x: i64[4]
  input n: i64[]
  constant zero: i64[]{0}
  constant one: i64[]{1}
  r = Range@11(zero, n, one)
  most = ReduceMax@18(r) keepdims=0
  y = Add@14(x, most)
  output y
";
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let mut session = compile(&runtime, text, &pairs(&[("x", "y")])).session().unwrap();
    let (x, n) = (on(&cpu, &[4], &[1i64, 2, 3, 4]), on(&cpu, &[], &[3i64]));
    for (is_submitted, right) in [(false, [3i64, 4, 5, 6]), (true, [5, 6, 7, 8])] {
        let to = [Some(x.clone())];
        let (_, copies) = run(&mut session, is_submitted, &[x.clone(), n.clone()], &to);
        assert_eq!((elements::<i64>(&x), copies.outputs), (right.to_vec(), 1));
    }
    // One that turns out to be of another shape is refused.
    let text = "graph g
  input x: i64[4]
  constant zero: i64[]{0}
  constant one: i64[]{1}
  n = ReduceMax@18(x) keepdims=0
  y = Range@11(zero, n, one)
  output y
";
    let mut session = compile(&runtime, text, &pairs(&[("x", "y")])).session().unwrap();
    let x = on(&cpu, &[4], &[4i64, 2, 3, 1]);
    session.run_on(slice::from_ref(&x), &[Some(x.clone())]).unwrap();
    assert_eq!(elements::<i64>(&x), [0, 1, 2, 3]);
    let error = session.run_on(slice::from_ref(&x), &[Some(x.clone())]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ShapeMismatch);
    let why = "output 0 is i64[3], but shares memory with input 0, i64[4]";
    assert!(error.to_string().starts_with(why), "{error}");
}

#[test]
fn shapes_that_are_open_or_bounded_are_right_in_one_place() {
    let text = "graph g\n  input x: f32[n]\n  y = Neg@13(x)\n  output y\n";
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let open = pairs(&[("x", "y")]);
    let mut bounded = open.clone();
    set_dim(&mut bounded.bind, "n", 1..=8);
    for (options, copies) in [(open, 0), (bounded, 1)] {
        let mut session = compile(&runtime, text, &options).session().unwrap();
        for n in [3, 5, 3] {
            let x = on(&cpu, &[n], &vec![2.0f32; n]);
            for is_submitted in [false, true] {
                let to = [Some(x.clone())];
                let (_, found) = run(&mut session, is_submitted, slice::from_ref(&x), &to);
                assert_eq!(found.outputs, copies);
                let right = if is_submitted { 2.0 } else { -2.0 };
                assert_eq!(elements::<f32>(&x), vec![right; n]);
            }
        }
    }
}

#[test]
fn bounded_outputs_are_reallocated_for_their_bounds() {
    // Nothing reads the input any more once the output is written.
    let text = "graph g\n  input x: f32[n]\n  a = Neg@13(x)\n  y = Exp@13(a)\n  output y\n";
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let mut options = pairs(&[("x", "y")]);
    set_dim(&mut options.bind, "n", 1..=8);
    let mut session = compile(&runtime, text, &options).session().unwrap();
    for n in [3usize, 8, 5] {
        let mut x = on(&cpu, &[8], &[0.0f32; 8]);
        x.reshape(&[n]).unwrap();
        for is_submitted in [false, true] {
            fill(&x, &vec![0.0f32; n]);
            let to = [Some(x.clone())];
            let (_, found) = run(&mut session, is_submitted, slice::from_ref(&x), &to);
            assert_eq!(found, Copies::default());
            let all = x.memory().read_all().unwrap();
            let all: Vec<f32> = all.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            let right = |at: usize| if at < n { 1.0 } else { 0.0 };
            assert_eq!(all, (0..8).map(right).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_session_has_one_tensor_for_both_of_a_pair() {
    let runtime = Runtime::new().unwrap();
    let model = compile(&runtime, CASES[0].text, &pairs(&[("x", "y")]));
    let mut session = model.session().unwrap();
    let io = session.io(None).unwrap().clone();
    assert_eq!(io.inputs[0].memory(), io.outputs[0].memory());
    assert_ne!(io.inputs[1].memory(), io.outputs[0].memory());
    fill(&io.inputs[0], &[1.0f32, 2.0, 3.0, 4.0]);
    fill(&io.inputs[1], &[1.0f32; 4]);
    let to: Vec<_> = io.outputs.iter().cloned().map(Some).collect();
    for _ in 0..3 {
        session.run_on(&io.inputs, &to).unwrap();
    }
    assert_eq!(elements::<f32>(&io.outputs[0]), [4.0, 5.0, 6.0, 7.0]);
    assert_eq!(session.copies(), Copies::default());
}

fn fill<T: Element>(tensor: &DeviceTensor, elements: &[T]) {
    let dims = tensor.spec().dims().unwrap().to_vec();
    tensor.copy_from(&on(tensor.memory().device(), &dims, elements)).unwrap();
}

/// Pairs go with a model's graph: to its networks, and into what is exported of it.
#[test]
fn pairs_stay_with_their_model() {
    let runtime = Runtime::new().unwrap();
    let text = format!("{CACHE}  in_place past=present\n");
    let networks = runtime.networks(text.as_bytes(), &LoadOptions::default()).unwrap();
    let of_network = networks.get(None).unwrap().stage(0).unwrap();
    let options = LoadOptions {
        compile: pairs(&[("past", "present")]),
        is_exportable: true,
        ..LoadOptions::default()
    };
    let exported = runtime.load(CACHE.as_bytes(), &options).unwrap().export().unwrap();
    let again = runtime.load(&exported, &LoadOptions::default()).unwrap();
    // Said twice it is one pair.
    let twice = runtime.load(&exported, &options).unwrap();
    for model in [of_network, again, twice] {
        assert_eq!(model.in_place().collect::<Vec<_>>(), [("past", "present")]);
    }
}

#[test]
fn invalid_in_place_pairs_are_refused() {
    let runtime = Runtime::new().unwrap();
    let text = "graph g
  input x: f32[4]
  input s: f32[4]
  y = Add@14(x, s)
  z = Neg@13(s)
  n = Cast@19(x) to=7
  t = Concat@13(x, s) axis=0
  output y, z, n, t
";
    let cases: &[(&[(&str, &str)], &str)] = &[
        (
            &[("w", "y")],
            "\"w\" is to be the input of a pair in one place, and is none of the model: inputs are \"x\", \"s\"",
        ),
        (
            &[("x", "x")],
            "\"x\" is to be the output of a pair in one place, and is none of the model: outputs are \"y\", \"z\", \"n\", \"t\"",
        ),
        (
            &[("x", "y"), ("x", "z")],
            "input \"x\" is in two pairs in one place; expected one at most",
        ),
        (
            &[("x", "y"), ("s", "y")],
            "output \"y\" is in two pairs in one place; expected one at most",
        ),
        (
            &[("x", "n")],
            "input \"x\" is f32[4] and output \"n\", which is to be in its place, is i64[4]; expected the same",
        ),
        (
            &[("x", "t")],
            "input \"x\" is f32[4] and output \"t\", which is to be in its place, is f32[8]; expected the same",
        ),
    ];
    for (declared, message) in cases {
        let error = runtime
            .load(Graph::parse(text).unwrap(), &LoadOptions::from(pairs(declared)))
            .unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (ErrorCode::InvalidArgument, *message)
        );
    }
    // Where a shape is open, once it is known.
    let open = "graph g\n  input x: f32[n]\n  y = Concat@13(x, x) axis=0\n  output y\n";
    let model = compile(&runtime, open, &pairs(&[("x", "y")]));
    let error = model.session().unwrap().prepare(&[("x", &[2])]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().ends_with("is f32[4]; expected the same"), "{error}");
}

#[test]
fn in_place_outputs_must_share_the_exact_range_of_their_input() {
    let runtime = Runtime::new().unwrap();
    let cpu = cpu(&runtime);
    let text = CASES[0].text;
    let declared = compile(&runtime, text, &pairs(&[("x", "y")]));
    let other = compile(&runtime, text, &pairs(&[("s", "y")]));
    let plain = compile(&runtime, text, &CompileOptions::default());
    let memory = cpu.alloc(64).unwrap();
    let spec = TensorSpec::fixed(udo_api::DType::F32, &[4]).unwrap();
    let part = |at: u64, len: u64| {
        DeviceTensor::from_memory(spec, memory.view(at..at + len).unwrap()).unwrap()
    };
    let (x, s) = (part(0, 16), on(&cpu, &[4], &[1.0f32; 4]));
    let place = "output 0 overlaps input 0; use separate memory";
    let second = "output 0 overlaps input 1; use separate memory";
    let cases = [
        (&plain, [x.clone(), s.clone()], x.clone(), place),
        (&other, [x.clone(), s.clone()], x.clone(), place),
        (&declared, [x.clone(), s.clone()], part(8, 16), place),
        (&declared, [part(8, 16), s.clone()], x.clone(), place),
        (&declared, [x.clone(), s.clone()], s.clone(), second),
        (&declared, [x.clone(), x.clone()], x.clone(), second),
    ];
    for (model, inputs, output, message) in cases {
        let mut session = model.session().unwrap();
        let to = [Some(output)];
        let refused = session.submit(&inputs, &to, RunOptions::default()).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidArgument);
        assert!(refused.to_string().starts_with(message), "{refused}");
        assert!(session.run_on(&inputs, &to).unwrap_err().to_string().starts_with(message));
    }
    // The same bytes by way of another tensor, with more behind them, are the same place.
    fill(&x, &[1.0f32, -2.0, 3.0, -4.0]);
    let mut session = declared.session().unwrap();
    session.run_on(&[x.clone(), s.clone()], &[Some(part(0, 32))]).unwrap();
    assert_eq!(
        (elements::<f32>(&x), session.copies()),
        (vec![2.0, 0.0, 4.0, 0.0], outputs_copied(0, 0))
    );
    // It is written while the run is there, and nobody else is at it.
    let reading = x.memory().map(0..4).unwrap();
    let error = session.run_on(&[x.clone(), s], &[Some(x.clone())]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Busy);
    assert!(error.to_string().starts_with("output 0: "), "{error}");
    drop(reading);
}
