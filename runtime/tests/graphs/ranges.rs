//! Models whose named dimensions have ranges: one plan gives, for every extent, the result of a model that is planned for
//! that extent alone.

use std::ops::RangeInclusive;

use udo_api::Shape;
use udo_api::guard::thread_heap_calls;
use udo_runtime::compile::BindOptions;
use udo_runtime::graph::Graph;
use udo_runtime::run::RunError;
use udo_runtime::{CompileOptions, Model, Session, Tensor};
use udo_test_support::compile::{built_in, compile_graph};

/// A transformer block: products with packed weights, heads split and merged by computed shapes, attention scores, softmax, a
/// residual, a normalization, counted positions, and a mask with a computed shape.
const ENCODER: &str = "graph encoder
  input x: f32[batch,seq,8]
  input mask: f32[batch,seq]
  constant w: f32[8,8]{0.25}
  constant scale: f32[8]{1.5}
  constant table: f32[64,8]{0.125}
  constant zero: i64[]{0}
  constant one: i64[]{1}
  constant ones: i64[1]{1}
  constant apart: i64[2]{2, 4}
  constant together: i64[1]{8}
  constant axes: i64[2]{1, 2}
  rows = Shape@21(x) start=0 end=2 # rows
  last = Shape@21(x) start=1 end=2 # last
  len = Squeeze@21(last) # len
  places = Range@11(zero, len, one) # places
  embedded = Gather@13(table, places) # embedded
  sum = Add@14(x, embedded) # sum
  q = MatMul@13(sum, w) # q
  split = Concat@13(rows, apart) axis=0 # split
  heads = Reshape@21(q, split) # heads
  a = Transpose@21(heads) perm=[0, 2, 1, 3] # a
  b = Transpose@21(heads) perm=[0, 2, 3, 1] # b
  scores = MatMul@13(a, b) # scores
  wide = Unsqueeze@21(mask, axes) # wide
  size = Shape@21(scores) # size
  filled = Expand@13(wide, size) # filled
  masked = Add@14(scores, filled) # masked
  shares = Softmax@13(masked) axis=-1 # shares
  mixed = MatMul@13(shares, a) # mixed
  back = Transpose@21(mixed) perm=[0, 2, 1, 3] # back
  whole = Concat@13(rows, together) axis=0 # whole
  joined = Reshape@21(back, whole) # joined
  residual = Add@14(joined, x) # residual
  y = LayerNormalization@17(residual, scale) # y
  output y
";

/// Attention whose queries, keys and values are split into heads by one computed shape, with a mask of keys, biases and a
/// residual.
const ATTENTION: &str = "graph attention
  input x: f32[batch,seq,8]
  input mask: f32[batch,seq]
  constant w: f32[8,8]{0.25}
  constant bias: f32[8]{0.5}
  constant scale: f32[8]{1.5}
  constant two: f32[]{2.0}
  constant apart: i64[2]{2, 4}
  constant together: i64[1]{8}
  constant axes: i64[2]{1, 2}
  rows = Shape@21(x) start=0 end=2 # rows
  split = Concat@13(rows, apart) axis=0 # split
  whole = Concat@13(rows, together) axis=0 # whole
  q1 = MatMul@13(x, w) # q1
  q2 = Add@14(q1, bias) # q2
  q3 = Reshape@21(q2, split) # q3
  q = Transpose@21(q3) perm=[0, 2, 1, 3] # q
  k1 = Reshape@21(x, split) # k1
  k = Transpose@21(k1) perm=[0, 2, 3, 1] # k
  v1 = Reshape@21(x, split) # v1
  v = Transpose@21(v1) perm=[0, 2, 1, 3] # v
  scores = MatMul@13(q, k) # scores
  scaled = Div@14(scores, two) # scaled
  wide = Unsqueeze@21(mask, axes) # wide
  masked = Add@14(scaled, wide) # masked
  shares = Softmax@13(masked) axis=-1 # shares
  mixed = MatMul@13(shares, v) # mixed
  back = Transpose@21(mixed) perm=[0, 2, 1, 3] # back
  joined = Reshape@21(back, whole) # joined
  out = MatMul@13(joined, w) # out
  biased = Add@14(out, bias) # biased
  residual = Add@14(biased, x) # residual
  y = LayerNormalization@17(residual, scale) # y
  output y
";

/// The same but for keys of another input, with a mask that is as long as the queries.
const ACROSS: &str = "graph across
  input x: f32[seq,8]
  input z: f32[batch,8]
  input mask: f32[seq]
  constant axes: i64[2]{0, 1}
  q = Unsqueeze@21(x, axes) # q
  v = Unsqueeze@21(z, axes) # v
  k = Transpose@21(v) perm=[0, 1, 3, 2] # k
  scores = MatMul@13(q, k) # scores
  masked = Add@14(scores, mask) # masked
  shares = Softmax@13(masked) axis=-1 # shares
  y = MatMul@13(shares, v) # y
  output y
";

/// A decoder's step: keys and values of a token behind those of all before, by steps and by ONNX's operator.
const DECODER: &str = "graph decoder
  input x: f32[1,1,8]
  input past_k: f32[1,2,past,4]
  input past_v: f32[1,2,past,4]
  constant wq: f32[8,8]{0.25}
  constant wk: f32[8,8]{0.5}
  constant bias: f32[8]{0.5}
  constant two: f32[]{2.0}
  constant apart: i64[4]{1, 1, 2, 4}
  constant together: i64[3]{1, 1, 8}
  q1 = MatMul@13(x, wq) # q1
  q2 = Reshape@21(q1, apart) # q2
  q = Transpose@21(q2) perm=[0, 2, 1, 3] # q
  k1 = MatMul@13(x, wk) # k1
  k2 = Add@14(k1, bias) # k2
  k3 = Mul@14(k2, x) # k3
  k4 = Reshape@21(k3, apart) # k4
  k = Transpose@21(k4) perm=[0, 2, 1, 3] # k
  v1 = Reshape@21(x, apart) # v1
  v = Transpose@21(v1) perm=[0, 2, 1, 3] # v
  all_k = Concat@13(past_k, k) axis=2 # all_k
  all_v = Concat@13(past_v, v) axis=2 # all_v
  turned = Transpose@21(all_k) perm=[0, 1, 3, 2] # turned
  scores = MatMul@13(q, turned) # scores
  scaled = Div@14(scores, two) # scaled
  shares = Softmax@13(scaled) axis=-1 # shares
  mixed = MatMul@13(shares, all_v) # mixed
  back = Transpose@21(mixed) perm=[0, 2, 1, 3] # back
  a = Reshape@21(back, together) # a
  heads, present_k, present_v = Attention@24(q, k, v, _, past_k, past_v) is_causal=1 # attention
  b1 = Transpose@21(heads) perm=[0, 2, 1, 3] # b1
  b = Reshape@21(b1, together) # b
  output a, b, all_k, all_v, present_k, present_v
";

/// A decoder's step as models of language export it: masks say how many keys there are, and positions are turned.
const GROUPED: &str = "graph grouped
  input x: f32[batch,sequence,8]
  input mask: i64[batch,total]
  input past_k: f32[batch,1,past,4]
  input past_v: f32[batch,1,past,4]
  input cos: f32[40,2]
  input sin: f32[40,2]
  constant wq: f32[8,8]{0.25}
  constant wo: f32[8,8]{0.125}
  constant halves: i64[2]{4, 4}
  constant along: i64[1]{1}
  constant one: i64[]{1}
  q1 = MatMul@13(x, wq) # q1
  q = Mul@14(q1, x) # q
  k, v = Split@18(x, halves) axis=-1 # sides
  ones = ReduceSum@13(mask, along) keepdims=0 # ones
  last = Sub@14(ones, one) # last
  lengths = Cast@13(last) to=6 # lengths
  extents = Shape@21(mask) # extents
  all = Gather@13(extents, one) axis=0 # all
  total = Cast@13(all) to=6 # total
  a, present_k, present_v = com.microsoft:GroupQueryAttention@1(q, k, v, past_k, past_v, lengths, total, cos, sin) num_heads=2 kv_num_heads=1 do_rotary=1 # attention
  mixed = MatMul@13(a, wo) # mixed
  y = Add@14(x, mixed) # y
  output y, present_k, present_v
";

fn compiled(text: &str, ranges: &[(&str, RangeInclusive<usize>)]) -> Model {
    let ranges = ranges.iter().map(|(name, range)| ((*name).to_owned(), range.clone())).collect();
    let options = CompileOptions {
        bind: BindOptions { ranges, ..BindOptions::default() },
        ..CompileOptions::default()
    };
    compile_graph(Graph::parse(text).unwrap(), &built_in(), &options).unwrap()
}

fn noise(dims: &[usize], seed: usize) -> Tensor {
    let count: usize = dims.iter().product();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let number = |i: usize| ((i * 7919 + seed * 131) % 1009) as f32 / 1009.0 - 0.5;
    let elements: Vec<f32> = (0..count).map(number).collect();
    Tensor::from_slice(Shape::new(dims).unwrap(), &elements).unwrap()
}

fn inputs(batch: usize, seq: usize) -> [Tensor; 2] {
    [noise(&[batch, seq, 8], seq), noise(&[batch, seq], batch)]
}

fn set(session: &mut Session, [x, mask]: &[Tensor; 2]) {
    session.set_input("x", x).unwrap();
    session.set_input("mask", mask).unwrap();
}

#[test]
fn one_plan_runs_every_extent_of_a_range_without_the_heap() {
    let (open, ranged) =
        (compiled(ENCODER, &[]), compiled(ENCODER, &[("batch", 1..=3), ("seq", 1..=20)]));
    let plan = ranged.plan().unwrap();
    assert!(plan.report().notices.is_empty(), "{:?}", plan.report().notices);
    let (mut exact, mut session) = (open.session().unwrap(), ranged.session().unwrap());
    // Each thread's first run looks its guards up.
    session.run().unwrap();
    let extents = [(1, 1), (3, 20), (2, 7), (1, 20), (2, 7), (3, 1), (1, 13)];
    let given = extents.map(|(batch, seq)| inputs(batch, seq));
    for ((batch, seq), given) in extents.into_iter().zip(&given) {
        set(&mut exact, given);
        exact.run().unwrap();
        let before = thread_heap_calls();
        set(&mut session, given);
        session.run().unwrap();
        assert_eq!(thread_heap_calls() - before, 0, "{batch},{seq}");
        let (wanted, y) = (exact.output_tensor("y").unwrap(), session.output_tensor("y").unwrap());
        assert_eq!(y.dims(), [batch, seq, 8]);
        let pairs = y.get::<f32>().unwrap().iter().zip(wanted.get::<f32>().unwrap());
        for (y, wanted) in pairs {
            assert!((y - wanted).abs() <= 1e-5, "{batch},{seq}: {y} and {wanted}");
        }
    }
    assert_eq!(session.replans(), 0);
}

/// The operators of a model's steps.
fn steps(model: &Model) -> Vec<String> {
    let steps = &model.plan().unwrap().report().steps;
    steps.iter().map(|step| step.op.clone()).collect()
}

#[test]
fn fusions_for_a_fixed_shape_also_hold_for_a_range() {
    let ranged = compiled(ATTENTION, &[("batch", 1..=3), ("seq", 1..=20)]);
    let names = steps(&ranged);
    let count = |op: &str| names.iter().filter(|name| *name == op).count();
    assert_eq!((count("Attention"), count("MatMul"), count("LayerNormalization")), (1, 2, 1));
    // Biases and the residual are added by products, and the shape of one head is that of all.
    assert_eq!((count("Add"), count("Softmax"), count("Transpose")), (0, 0, 0), "{names:?}");
    let (mut exact, mut session) =
        (compiled(ATTENTION, &[]).session().unwrap(), ranged.session().unwrap());
    session.run().unwrap();
    let extents = [(1, 1), (3, 20), (2, 7), (1, 20), (3, 1), (1, 13)];
    let given = extents.map(|(batch, seq)| inputs(batch, seq));
    for ((batch, seq), given) in extents.into_iter().zip(&given) {
        set(&mut exact, given);
        exact.run().unwrap();
        let before = thread_heap_calls();
        set(&mut session, given);
        session.run().unwrap();
        assert_eq!(thread_heap_calls() - before, 0, "{batch},{seq}");
        let (wanted, y) = (exact.output_tensor("y").unwrap(), session.output_tensor("y").unwrap());
        assert_eq!(y.dims(), [batch, seq, 8]);
        let pairs = y.get::<f32>().unwrap().iter().zip(wanted.get::<f32>().unwrap());
        pairs.for_each(|(y, wanted)| assert!((y - wanted).abs() <= 1e-5, "{batch},{seq}"));
    }
    assert_eq!(session.replans(), 0);
}

#[test]
fn extents_of_one_range_are_not_one_extent() {
    let across = compiled(ACROSS, &[("batch", 1..=9), ("seq", 1..=9)]);
    assert!(steps(&across).contains(&"Softmax".to_owned()));
    // One element of a mask counts for every key.
    let (x, z) = (noise(&[1, 8], 1), noise(&[7, 8], 2));
    let mut results = Vec::new();
    for mask in [0.0f32, -3.0] {
        let mut session = across.session().unwrap();
        session.set_input("x", &x).unwrap();
        session.set_input("z", &z).unwrap();
        let mask = Tensor::from_slice(Shape::new(&[1]).unwrap(), &[mask]).unwrap();
        session.set_input("mask", &mask).unwrap();
        session.run().unwrap();
        results.push(session.output_tensor("y").unwrap().get::<f32>().unwrap().to_vec());
    }
    let pairs = results[0].iter().zip(&results[1]);
    pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-6));
    // Keys that are as many as queries in every run are.
    let own = ACROSS.replace("[batch,8]", "[seq,8]");
    let own = compiled(&own, &[("seq", 1..=9)]);
    assert!(steps(&own).contains(&"Attention".to_owned()), "{:?}", steps(&own));
}

#[test]
fn one_plan_decodes_every_token() {
    const TOKENS: usize = 40;
    let ranged = compiled(DECODER, &[("past", 0..=TOKENS - 1)]);
    let plan = ranged.plan().unwrap();
    assert!(plan.report().notices.is_empty(), "{:?}", plan.report().notices);
    assert!(!steps(&ranged).contains(&"Softmax".to_owned()), "{:?}", steps(&ranged));
    let (mut exact, mut session) =
        (compiled(DECODER, &[]).session().unwrap(), ranged.session().unwrap());
    session.run().unwrap();
    let mut caches = [noise(&[1, 2, 0, 4], 1), noise(&[1, 2, 0, 4], 2)];
    for token in 0..TOKENS {
        let x = noise(&[1, 1, 8], token);
        for session in [&mut exact, &mut session] {
            session.set_input("x", &x).unwrap();
            session.set_input("past_k", &caches[0]).unwrap();
            session.set_input("past_v", &caches[1]).unwrap();
        }
        exact.run().unwrap();
        let before = thread_heap_calls();
        session.run().unwrap();
        assert_eq!(thread_heap_calls() - before, 0, "{token}");
        let result = |name: &str| session.output_tensor(name).unwrap();
        for name in ["a", "b", "all_k", "all_v", "present_k", "present_v"] {
            let (wanted, y) = (exact.output_tensor(name).unwrap(), result(name));
            assert_eq!(y.dims(), wanted.dims(), "{name} {token}");
            let pairs = y.get::<f32>().unwrap().iter().zip(wanted.get::<f32>().unwrap());
            for (y, wanted) in pairs {
                assert!((y - wanted).abs() <= 1e-5, "{name} {token}: {y} and {wanted}");
            }
        }
        caches = ["present_k", "present_v"].map(|name| {
            let y = result(name);
            Tensor::from_slice(Shape::new(y.dims()).unwrap(), y.get::<f32>().unwrap()).unwrap()
        });
        assert_eq!(caches[0].desc().shape(), [1, 2, token + 1, 4]);
    }
    assert_eq!(session.replans(), 0);
}

#[test]
fn one_plan_runs_prompts_and_tokens_of_grouped_heads() {
    let names = [("batch", 1..=2), ("sequence", 1..=8), ("past", 0..=39), ("total", 1..=40)];
    let ranged = compiled(GROUPED, &names);
    let notices = &ranged.plan().unwrap().report().notices;
    assert!(notices.is_empty(), "{notices:?}");
    // The residual is added by the product, as all extents of both are known to be equal.
    assert!(!steps(&ranged).contains(&"Add".to_owned()), "{:?}", steps(&ranged));
    let mut session = ranged.session().unwrap();
    let mut exact = compiled(GROUPED, &[]).session().unwrap();
    // A mask of zeros leaves no key; the thread looks its guards up all the same.
    session.run().unwrap_err();
    let angles = [noise(&[40, 2], 1), noise(&[40, 2], 2)];
    for (batch, pieces) in [(2, vec![5, 1, 1, 8, 1]), (1, vec![1; 40]), (1, vec![8, 8, 8, 8, 8])] {
        let mut caches = [noise(&[batch, 1, 0, 4], 1), noise(&[batch, 1, 0, 4], 2)];
        let mut past = 0;
        for sequence in pieces {
            let total = past + sequence;
            // The second sequence of two has fewer keys, where it has some before.
            let hidden = |at: usize| at >= 3 * total && past > 2 && at % total >= total - 2;
            let mask: Vec<i64> =
                (0..batch * total).map(|at| i64::from(!hidden(at + 2 * total))).collect();
            let mask = Tensor::from_slice(Shape::new(&[batch, total]).unwrap(), &mask).unwrap();
            let x = noise(&[batch, sequence, 8], total);
            let [k, v] = &caches;
            let tensors = [&x, &mask, k, v, &angles[0], &angles[1]];
            let mut heap = 0;
            for session in [&mut exact, &mut session] {
                for (name, tensor) in
                    ["x", "mask", "past_k", "past_v", "cos", "sin"].iter().zip(tensors)
                {
                    session.set_input(name, tensor).unwrap();
                }
                let before = thread_heap_calls();
                session.run().unwrap();
                heap = thread_heap_calls() - before;
            }
            assert_eq!(heap, 0, "{batch} {past}+{sequence}");
            for name in ["y", "present_k", "present_v"] {
                let result = |session: &Session| session.output_tensor(name).unwrap();
                let (wanted, y) = (result(&exact), result(&session));
                assert_eq!(y.dims(), wanted.dims(), "{name} {past}+{sequence}");
                let pairs = y.get::<f32>().unwrap().iter().zip(wanted.get::<f32>().unwrap());
                for (y, wanted) in pairs {
                    assert!(
                        (y - wanted).abs() <= 1e-5,
                        "{name} {past}+{sequence}: {y} and {wanted}"
                    );
                }
            }
            caches = ["present_k", "present_v"].map(|name| session.output_tensor(name).unwrap());
            past = total;
        }
    }
    assert_eq!(session.replans(), 0);
}

/// The same of operators that join caches themselves: `attention` is its lines, over these caches.
#[track_caller]
fn decodes(attention: &str, caches: &[&str], dims: fn(usize, usize) -> Vec<usize>, shape: &str) {
    let inputs = caches.iter().map(|cache| format!("input past_{cache}: f32[{shape}]"));
    let inputs = inputs.collect::<Vec<_>>().join("\n  ");
    let presents: Vec<String> = caches.iter().map(|cache| format!("present_{cache}")).collect();
    let presents = presents.join(", ");
    let text = format!(
        "graph decoder\n  input x: f32[batch,sequence,8]\n  {inputs}\n{attention}  y = Add@14(x, a) # y\n  output y, {presents}\n"
    );
    let ranged = compiled(&text, &[("batch", 1..=2), ("sequence", 1..=4), ("past", 0..=19)]);
    let notices = &ranged.plan().unwrap().report().notices;
    assert!(notices.is_empty(), "{notices:?}");
    let mut sessions = [compiled(&text, &[]), ranged].map(|model| model.session().unwrap());
    sessions[1].run().unwrap();
    for (batch, pieces) in [(1, vec![1; 20]), (2, vec![4, 1, 3])] {
        let mut states: Vec<_> =
            (0..caches.len()).map(|seed| noise(&dims(batch, 0), seed)).collect();
        let mut past = 0;
        for sequence in pieces {
            let x = noise(&[batch, sequence, 8], past);
            let mut heap = 0;
            for session in &mut sessions {
                session.set_input("x", &x).unwrap();
                for (cache, state) in caches.iter().zip(&states) {
                    session.set_input(&format!("past_{cache}"), state).unwrap();
                }
                let before = thread_heap_calls();
                session.run().unwrap();
                heap = thread_heap_calls() - before;
            }
            assert_eq!(heap, 0, "{batch} {past}+{sequence}");
            past += sequence;
            let named = caches.iter().map(|cache| format!("present_{cache}"));
            let results: Vec<_> = named
                .chain(["y".to_owned()])
                .map(|name| {
                    sessions.each_ref().map(|session| session.output_tensor(&name).unwrap())
                })
                .collect();
            for [wanted, y] in &results {
                assert_eq!(y.dims(), wanted.dims());
                let mut pairs = y.get::<f32>().unwrap().iter().zip(wanted.get::<f32>().unwrap());
                assert!(pairs.all(|(y, wanted)| (y - wanted).abs() <= 1e-5), "{past}");
            }
            states = results.into_iter().map(|[_, y]| y).take(caches.len()).collect();
            assert_eq!(states[0].dims(), dims(batch, past));
        }
    }
    assert_eq!(sessions[1].replans(), 0);
}

#[test]
fn one_plan_decodes_with_the_operators_of_onnx_runtimes_optimizer() {
    decodes(
        "  constant w: f32[8,8]{0.25}
  q = MatMul@13(x, w) # q
  k = Mul@14(q, x) # k
  a, present_k, present_v = com.microsoft:MultiHeadAttention@1(q, k, x, _, _, _, past_k, past_v) num_heads=2 unidirectional=1 # attention
",
        &["k", "v"],
        |batch, past| vec![batch, 2, past, 4],
        "batch,2,past,4",
    );
    decodes(
        "  constant w: f32[8,24]{0.25}
  constant b: f32[24]{0.125}
  a, present_kv = com.microsoft:Attention@1(x, w, b, _, past_kv) num_heads=2 unidirectional=1 # attention
",
        &["kv"],
        |batch, past| vec![2, batch, 2, past, 4],
        "2,batch,2,past,4",
    );
}

#[test]
fn ranges_that_do_not_fit_each_other_are_named() {
    let text = "graph g
  input x: f32[long,4]
  input y: f32[short,4]
  input flat: f32[any]
  sum = Add@14(x, y) # sum
  extents = Shape@21(sum) # extents
  z = Reshape@21(flat, extents) # z
  output z
";
    let notices = |short: usize| {
        let ranges = [("long", 1..=6), ("short", 1..=short), ("any", 4..=24)];
        compiled(text, &ranges).plan().unwrap().report().notices.clone()
    };
    assert!(notices(6).is_empty(), "{:?}", notices(6));
    let named = notices(5);
    assert!(
        named
            .iter()
            .any(|notice| notice.starts_with("ranges conflict") && notice.contains("\"sum\"")),
        "{named:?}"
    );
}

#[test]
fn grouped_heads_refuse_lengths_that_do_not_fit() {
    let ranged = compiled(
        GROUPED,
        &[("sequence", 1..=8), ("past", 0..=31), ("total", 1..=64)]
            .into_iter()
            .chain([("batch", 1..=1)])
            .collect::<Vec<_>>(),
    );
    let mut session = ranged.session().unwrap();
    for (past, total, reason) in [(3, 9, "8"), (3, 45, "45"), (6, 1, "1")] {
        let cache = noise(&[1, 1, past, 4], 1);
        let ones = vec![1i64; total];
        session.set_input("x", &noise(&[1, 2, 8], 1)).unwrap();
        session
            .set_input(
                "mask",
                &Tensor::from_slice(Shape::new(&[1, total]).unwrap(), &ones).unwrap(),
            )
            .unwrap();
        session.set_input("past_k", &cache).unwrap();
        session.set_input("past_v", &cache).unwrap();
        let error = session.run().unwrap_err().to_string();
        assert!(error.contains("\"attention\"") && error.contains(reason), "{error}");
    }
}

#[test]
fn inputs_can_be_written_in_place_for_shapes_that_are_prepared() {
    let model = compiled(ENCODER, &[("batch", 1..=3), ("seq", 1..=20)]);
    let mut session = model.session().unwrap();
    assert_eq!(session.input_mut::<f32>("x").unwrap().len(), 3 * 20 * 8);
    session.prepare(&[("x", &[2, 5, 8])]).unwrap();
    let [x, mask] = inputs(2, 5);
    session.input_mut("x").unwrap().copy_from_slice(x.get::<f32>().unwrap());
    session.input_mut("mask").unwrap().copy_from_slice(mask.get::<f32>().unwrap());
    session.run().unwrap();
    let found = session.output_tensor("y").unwrap();
    set(&mut session, &[x, mask]);
    session.run().unwrap();
    assert_eq!(found.bytes(), session.output_tensor("y").unwrap().bytes());
}

#[test]
fn dimensions_without_a_range_are_planned_for_as_they_come() {
    let model = compiled(ENCODER, &[("seq", 1..=20)]);
    assert!(model.plan().is_none());
    let mut session = model.session().unwrap();
    for (batch, seq, replans) in [(1, 4, 1), (1, 9, 1), (2, 9, 2), (2, 3, 2), (1, 20, 2)] {
        set(&mut session, &inputs(batch, seq));
        session.run().unwrap();
        assert_eq!(session.output_tensor("y").unwrap().dims(), [batch, seq, 8]);
        assert_eq!(session.replans(), replans, "{batch},{seq}");
    }
}

#[test]
fn extents_out_of_range_and_unequal_ones_are_refused_and_the_session_stays() {
    let model = compiled(ENCODER, &[("batch", 1..=3), ("seq", 2..=20)]);
    let mut session = model.session().unwrap();
    let mut refused = |x: &[usize], mask: &[usize], wanted: &str| {
        session.set_input("x", &noise(x, 1)).unwrap();
        session.set_input("mask", &noise(mask, 1)).unwrap();
        let Err(RunError::Prepare(error)) = session.run() else { panic!("it ran") };
        assert_eq!(error.to_string(), wanted);
        set(&mut session, &inputs(2, 6));
        session.run().unwrap();
    };
    refused(&[1, 21, 8], &[1, 21], "dimension \"seq\" is 21, expected 2 to 20");
    refused(&[1, 1, 8], &[1, 1], "dimension \"seq\" is 1, expected 2 to 20");
    refused(
        &[1, 4, 8],
        &[1, 5],
        "dimension \"seq\" is 4 in input \"x\" and 5 in input \"mask\", expected one extent",
    );
}

#[test]
fn ranges_that_hold_nothing_or_have_no_dimension_are_refused() {
    let refused = |name: &str, range: RangeInclusive<usize>| {
        let ranges = [(name.to_owned(), range)].into();
        let bind = BindOptions { ranges, ..BindOptions::default() };
        let options = CompileOptions { bind, ..CompileOptions::default() };
        let operators = &mut built_in();
        compile_graph(Graph::parse(ENCODER).unwrap(), operators, &options).unwrap_err().to_string()
    };
    #[expect(clippy::reversed_empty_ranges, reason = "that is the case")]
    let empty = refused("seq", 5..=4);
    assert_eq!(empty, "the range 5..4 of dimension \"seq\" is empty");
    let unknown = refused("length", 1..=4);
    assert_eq!(unknown, "no input has a dimension \"length\", expected one of \"batch\", \"seq\"");
}

#[test]
fn shapes_at_hand_keep_their_elements_when_they_are_prepared_again() {
    let model = compiled(ENCODER, &[]);
    let mut session = model.session().unwrap();
    session.prepare(&[("x", &[1, 4, 8])]).unwrap();
    session.prepare(&[("x", &[2, 4, 8]), ("mask", &[2, 4])]).unwrap();
    session.input_mut::<f32>("mask").unwrap().fill(3.0);
    session.prepare(&[("x", &[2, 4, 8])]).unwrap();
    assert_eq!(session.input_mut::<f32>("mask").unwrap(), [3.0; 8]);
}
