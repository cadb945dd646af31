//! Numbers that only mask have no say in ranges, and all others have.

use udo_api::{Bool, Shape};
use udo_runtime::Tensor;
use udo_runtime::graph::{Attr, Graph, ValueId};
use udo_runtime::quant::{Bits, FloatOps, Method, Quantized, Settings};

use super::{Net, Numbers, assert_on_dsp, quantize, refusal_of_runs};

/// How many rows there are, and how long they are.
const ROWS: usize = 6;
const WIDTH: usize = 8;

/// Mask values of models.
const MASKS: [f32; 6] = [-100.0, -1e4, -65504.0, -1e9, f32::MIN, f32::NEG_INFINITY];

/// Attention over six rows, whose scores `masked` changes.
fn attention(masked: impl Fn(&mut Net, ValueId) -> ValueId) -> Graph {
    let mut net = Net::new();
    let x = net.input("x", &[2, ROWS, WIDTH]);
    let [queries, keys, values] = ["wq", "wk", "wv"].map(|name| {
        let weights = net.constant(name, &[WIDTH, WIDTH], 0.9);
        net.node("MatMul", &[x, weights], &[])
    });
    let keys = net.node("Transpose", &[keys], &[("perm", Attr::Ints(vec![0, 2, 1]))]);
    let scores = net.node("MatMul", &[queries, keys], &[]);
    let masked = masked(&mut net, scores);
    let shares = net.node("Softmax", &[masked], &[]);
    let output = net.node("MatMul", &[shares, values], &[]);
    net.ends(&[output])
}

/// Whether a row sees another one: none that comes later, and of the last rows none but itself.
fn sees(row: usize, other: usize) -> bool {
    other == row || other < row && other < 4
}

/// A number for each pair of rows.
fn of_pairs(number: impl Fn(usize, usize) -> f32) -> Tensor {
    let numbers: Vec<f32> = (0..ROWS * ROWS).map(|at| number(at / ROWS, at % ROWS)).collect();
    Tensor::from_slice(Shape::new(&[1, ROWS, ROWS]).unwrap(), &numbers).unwrap()
}

fn one(net: &mut Net, name: &str, number: f32) -> ValueId {
    net.graph.add_constant(name, Tensor::from_slice(Shape::SCALAR, &[number]).unwrap())
}

fn bools(name: &str, net: &mut Net) -> ValueId {
    let all: Vec<Bool> =
        (0..ROWS * ROWS).map(|at| Bool::from(sees(at / ROWS, at % ROWS))).collect();
    net.graph.add_constant(
        name,
        Tensor::from_slice(Shape::new(&[1, ROWS, ROWS]).unwrap(), &all).unwrap(),
    )
}

fn sets(more: &[(&str, Tensor)]) -> Vec<Vec<(String, Tensor)>> {
    let more = || more.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone()));
    let set = |seed| {
        let x = Numbers::new(seed).tensor(&[2, ROWS, WIDTH], 1.0);
        [("x".to_owned(), x)].into_iter().chain(more()).collect()
    };
    (1..=4).map(set).collect()
}

/// The largest width of what is stored of a value.
fn width(quantized: &Quantized, name: &str) -> f64 {
    let of = quantized.encoded.iter().find(|of| of.name == name).unwrap();
    let range = of.stored_range();
    range.max - range.min
}

/// A way in which a model has scores masked, and what it reads besides.
type MaskedModel = (&'static str, Graph, Vec<(&'static str, Tensor)>);

/// Models that add or subtract a mask that they are given.
fn with_mask_input(mask: f32) -> Vec<MaskedModel> {
    let added = of_pairs(|row, other| if sees(row, other) { 0.0 } else { mask });
    let taken = of_pairs(|row, other| if sees(row, other) { 0.0 } else { -mask });
    let sloped = of_pairs(|row, other| {
        let distance = f32::from(u8::try_from(row.abs_diff(other)).unwrap());
        if sees(row, other) { -0.5 * distance } else { mask }
    });
    let constant = |op: &'static str, of: &Tensor, is_first: bool| {
        let of = of.clone();
        attention(move |net, scores| {
            let m = net.graph.add_constant("m", of.clone());
            net.node(op, &if is_first { [m, scores] } else { [scores, m] }, &[])
        })
    };
    let input = |op: &'static str| {
        attention(move |net, scores| {
            let m = net.input("m", &[1, ROWS, ROWS]);
            net.node(op, &[scores, m], &[])
        })
    };
    vec![
        ("added", constant("Add", &added, false), vec![]),
        ("added first", constant("Add", &added, true), vec![]),
        ("added with a slope", constant("Add", &sloped, false), vec![]),
        ("subtracted", constant("Sub", &taken, false), vec![]),
        ("an input", input("Add"), vec![("m", added.clone())]),
        ("an input that is subtracted", input("Sub"), vec![("m", taken)]),
    ]
}

/// Models that make a mask, or put its number in place.
fn with_computed_mask(mask: f32) -> Vec<MaskedModel> {
    let added = of_pairs(|row, other| if sees(row, other) { 0.0 } else { mask });
    let mut ways = vec![
        (
            "put in place",
            attention(|net, scores| {
                let (c, n) = (bools("c", net), one(net, "n", mask));
                net.node("Where", &[c, scores, n], &[])
            }),
            vec![],
        ),
        (
            "chosen, expanded, reshaped and added",
            attention(|net, scores| {
                let (c, n, zero) = (bools("c", net), one(net, "n", mask), one(net, "zero", 0.0));
                let m = net.node("Where", &[c, zero, n], &[]);
                let shape = |net: &mut Net, name: &str, dims: &[i64]| {
                    let of = Tensor::from_slice(Shape::new(&[dims.len()]).unwrap(), dims).unwrap();
                    net.graph.add_constant(name, of)
                };
                let (wide, flat) = (shape(net, "wide", &[2, 6, 6]), shape(net, "flat", &[12, 6]));
                let m = net.node("Expand", &[m, wide], &[]);
                let sum = net.node("Add", &[scores, m], &[]);
                let sum = net.node("Reshape", &[sum, flat], &[]);
                net.node("Reshape", &[sum, wide], &[])
            }),
            vec![],
        ),
        (
            "added twice and scaled",
            attention(|net, scores| {
                let m = net.graph.add_constant("m", added.clone());
                let half = one(net, "half", 0.5);
                let sum = net.node("Add", &[scores, m], &[]);
                let sum = net.node("Add", &[m, sum], &[]);
                net.node("Mul", &[sum, half], &[])
            }),
            vec![],
        ),
    ];
    if mask.is_finite() {
        let keeps = of_pairs(|row, other| if sees(row, other) { 1.0 } else { 0.0 });
        ways.push((
            "made of what is kept",
            attention(|net, scores| {
                let keeps = net.input("keeps", &[1, ROWS, ROWS]);
                let (all, n) = (one(net, "all", 1.0), one(net, "n", mask));
                let masked = net.node("Sub", &[all, keeps], &[]);
                let m = net.node("Mul", &[masked, n], &[]);
                net.node("Add", &[scores, m], &[])
            }),
            vec![("keeps", keeps)],
        ));
        ways.push((
            "added, and no less than itself",
            attention(|net, scores| {
                let m = net.graph.add_constant("m", added.clone());
                let n = one(net, "n", mask);
                let sum = net.node("Add", &[scores, m], &[]);
                net.node("Max", &[sum, n], &[])
            }),
            vec![],
        ));
    }
    ways
}

/// All of them.
fn ways(mask: f32) -> Vec<MaskedModel> {
    with_mask_input(mask).into_iter().chain(with_computed_mask(mask)).collect()
}

#[test]
fn masks_of_scores_do_not_widen_them() {
    for mask in MASKS {
        for (way, graph, more) in ways(mask) {
            let sets = sets(&more);
            let settings = [
                Settings::default(),
                Settings { method: Method::Percentile(99.99), ..Settings::default() },
                Settings { float_ops: FloatOps::Stored, ..Settings::default() },
            ];
            for settings in settings {
                let (quantized, decibels) = quantize(&graph, settings.clone(), &sets);
                assert!(decibels > 22.0, "{mask} {way}: {decibels} dB with {settings:?}");
                let softmax = graph.nodes.iter().find(|node| node.op == "Softmax").unwrap();
                let read = &graph.value(softmax.inputs[0].unwrap()).unwrap().name;
                let width = width(&quantized, read);
                assert!(width < 40.0, "{mask} {way}: scores are {width} wide");
                assert_on_dsp(&quantized, &sets[0], way);
            }
        }
    }
}

#[test]
fn more_bits_have_masks_farther_out() {
    let (_, graph, _) = ways(f32::NEG_INFINITY).swap_remove(0);
    let settings = Settings { activation_bits: Bits::Sixteen, ..Settings::default() };
    let (_, decibels) = quantize(&graph, settings, &sets(&[]));
    assert!(decibels > 38.0, "weights of 8 bits, values of 16: {decibels} dB");
}

/// A graph of text over pictures of 8 by 8.
fn picture(constants: &str, nodes: &str) -> (Graph, Vec<Vec<(String, Tensor)>>) {
    let keeps = ["1", "1", "0", "1"].repeat(16).join(",");
    let text = format!(
        "graph g\n  input x: f32[1,4,8,8]\n  constant c: bool[1,1,8,8]{{{keeps}}}\n  constant pads: i64[8]{{0,0,1,1,0,0,1,1}}\n{constants}{nodes}  output y\n"
    );
    let set = |seed| vec![("x".to_owned(), Numbers::new(seed).tensor(&[1, 4, 8, 8], 2.0))];
    (Graph::parse(&text).unwrap(), (1..=3).map(set).collect())
}

#[test]
fn numbers_that_pad_or_fill_for_a_maximum_do_not_widen_others() {
    for mask in ["-1e4", "-3.4e38", "-inf"] {
        let fill = |by: &str| format!("  constant n: f32[]{{{by}}}\n");
        let pool =
            "  a = Pad@17(x, pads, n)\n  y = MaxPool@17(a) kernel_shape=[3,3] strides=[2,2]\n";
        let lows = "  a = Where@17(c, x, n)\n  y = ReduceMax@17(a) axes=[2,3]\n";
        let highs = "  a = Where@17(c, x, n)\n  y = ReduceMin@17(a) axes=[2,3]\n";
        let gate = "  a = Where@17(c, x, n)\n  y = Sigmoid@17(a)\n";
        let cut = "  a = Where@17(c, x, n)\n  b = Concat@17(a, x) axis=1\n  y = Relu@17(b)\n";
        let positive = mask.trim_start_matches('-');
        let all = [(pool, mask), (lows, mask), (highs, positive), (gate, mask), (cut, mask)];
        for (nodes, by) in all {
            let (graph, sets) = picture(&fill(by), nodes);
            let (quantized, decibels) = quantize(&graph, Settings::default(), &sets);
            assert!(decibels > 30.0, "{by}: {decibels} dB of\n{nodes}");
            assert_on_dsp(&quantized, &sets[0], nodes);
        }
    }
}

#[test]
fn masks_are_only_values_that_results_do_not_depend_on() {
    let fill = "  constant n: f32[]{-10000.0}\n";
    let wide = "  constant wide: i64[8]{0,0,2,2,0,0,2,2}\n";
    let cases = [
        "  y = Where@17(c, x, n)\n",
        "  a = Where@17(c, x, n)\n  y = LeakyRelu@17(a)\n",
        "  a = Where@17(c, x, n)\n  b = Softmax@17(a)\n  y = Add@17(a, b)\n",
        "  a = Pad@17(x, wide, n)\n  y = MaxPool@17(a) kernel_shape=[2,2] strides=[2,2]\n",
    ];
    for nodes in cases {
        let (graph, sets) = picture(&format!("{fill}{wide}"), nodes);
        let (quantized, decibels) = quantize(&graph, Settings::default(), &sets);
        assert!(decibels > 35.0, "-10000 is a result: {decibels} dB of\n{nodes}");
        assert_on_dsp(&quantized, &sets[0], nodes);
        let infinite = fill.replace("-10000.0", "-inf");
        let (graph, sets) = picture(&format!("{infinite}{wide}"), nodes);
        let said = refusal_of_runs(&graph, &sets);
        assert!(said.ends_with("is infinite for some inputs, expected numbers"), "{said}");
    }
}

#[test]
fn a_mask_may_be_infinite_in_the_data_and_scores_may_not() {
    let (_, graph, more) = ways(f32::NEG_INFINITY).swap_remove(4);
    let good = sets(&more);
    quantize(&graph, Settings::default(), &good);
    for number in [f32::NAN, f32::INFINITY] {
        let m = of_pairs(|row, other| if sees(row, other) { 0.0 } else { number });
        let said = refusal_of_runs(&graph, &sets(&[("m", m)]));
        assert!(said.starts_with("value \"m\" is "), "{said}");
    }
    let mut bad = good;
    bad[1][0].1 =
        Tensor::from_slice(Shape::new(&[2, ROWS, WIDTH]).unwrap(), &[f32::NEG_INFINITY; 96])
            .unwrap();
    let said = refusal_of_runs(&graph, &bad);
    assert_eq!(said, "value \"x\" is infinite for some inputs, expected numbers");
}
