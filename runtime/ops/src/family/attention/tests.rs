//! Attention compared with its definition in f64.

use udo_api::Dim::{self, Fixed, UpTo};
use udo_api::{Bf16, Bool, Element, F16};

use crate::family::elementwise::Stored;
use crate::testing::{Bench, Tensor, assert_near, bench, noise, tensor};

/// An attention of `[batch, heads, length, elements]`.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    q_heads: usize,
    kv_heads: usize,
    queries: usize,
    past: usize,
    new: usize,
    depth: usize,
    width: usize,
    /// Extents of the mask; empty for no mask.
    mask: &'static [usize],
    is_bool: bool,
    is_causal: bool,
    softcap: f64,
    /// Number of keys of each batch; empty if all keys are valid.
    valid: &'static [i64],
    is_packed: bool,
    /// How far the bounds of batches, queries and keys exceed the run's extents; 0 for fixed extents.
    more: usize,
}

const CASE: Case = Case {
    batch: 1,
    q_heads: 2,
    kv_heads: 2,
    queries: 5,
    past: 0,
    new: 7,
    depth: 4,
    width: 3,
    mask: &[],
    is_bool: false,
    is_causal: false,
    softcap: 0.0,
    valid: &[],
    is_packed: false,
    more: 0,
};

/// Lengths on either side of a tile and a block, every kind of mask, shared heads, and cached keys.
const CASES: &[Case] = &[
    CASE,
    Case { queries: 1, new: 1, depth: 1, width: 1, ..CASE },
    Case { batch: 3, queries: 65, new: 130, depth: 33, width: 17, ..CASE },
    Case { queries: 66, new: 700, depth: 64, width: 64, is_causal: true, past: 9, ..CASE },
    Case { q_heads: 6, past: 11, mask: &[5, 18], ..CASE },
    Case { batch: 2, q_heads: 4, kv_heads: 1, mask: &[2, 1, 1, 7], is_packed: true, ..CASE },
    Case { batch: 2, mask: &[2, 5, 7], is_bool: true, softcap: 0.7, ..CASE },
    Case { batch: 2, mask: &[2, 2, 5, 7], softcap: 0.7, is_causal: true, ..CASE },
    Case { batch: 2, mask: &[1, 6], valid: &[3, 5], ..CASE },
    // Queries end at the last key of a sequence: those of the first one start before its keys.
    Case { batch: 3, valid: &[2, 5, 7], is_causal: true, ..CASE },
    Case { batch: 3, valid: &[0, 1, 7], is_causal: true, is_packed: true, ..CASE },
    Case { batch: 2, mask: &[5, 6], is_bool: true, valid: &[6, 4], is_causal: true, ..CASE },
    Case { batch: 2, mask: &[2, 1, 5, 7], valid: &[6, 4], is_causal: true, softcap: 0.7, ..CASE },
    Case {
        batch: 2,
        q_heads: 4,
        valid: &[690, 31],
        queries: 66,
        new: 700,
        is_causal: true,
        ..CASE
    },
    Case { mask: &[4], is_bool: true, is_packed: true, past: 2, ..CASE },
    Case { queries: 3, new: 1400, depth: 48, width: 80, mask: &[3, 1390], ..CASE },
    Case { q_heads: 2, new: 0, past: 8, ..CASE },
];

impl Case {
    fn total(&self) -> usize {
        self.past + self.new
    }

    /// Declares an input with these extents, of which some are bounded.
    fn bounded(&self, x: Tensor, dims: &[Dim]) -> Tensor {
        if self.more == 0 { x } else { x.bounded(dims) }
    }

    /// Returns a bound a few above `extent`.
    fn up_to(&self, extent: usize) -> Dim {
        UpTo(extent + self.more)
    }

    /// Returns the bounds of the mask's extents.
    fn mask_bounds(&self) -> Vec<Dim> {
        let last = self.mask.len().saturating_sub(1);
        let dim = |(axis, &extent): (usize, &usize)| match last - axis {
            0 => self.up_to(extent),
            1 | 3 if extent > 1 => self.up_to(extent),
            _ => Fixed(extent),
        };
        self.mask.iter().enumerate().map(dim).collect()
    }

    /// Returns values in the order of heads that the node expects.
    fn packed<T: Element>(&self, x: &[T], [heads, rows, cols]: [usize; 3]) -> Tensor {
        let (batch, length) = (self.up_to(self.batch), self.up_to(rows));
        if !self.is_packed {
            let x = tensor(&[self.batch, heads, rows, cols], x);
            return self.bounded(x, &[batch, Fixed(heads), length, Fixed(cols)]);
        }
        let mut to = vec![T::default(); x.len()];
        for (at, x) in x.iter().enumerate() {
            let (col, row, head) = (at % cols, at / cols % rows, at / cols / rows % heads);
            let batch = at / cols / rows / heads;
            to[((batch * rows + row) * heads + head) * cols + col] = *x;
        }
        self.bounded(
            tensor(&[self.batch, rows, heads * cols], &to),
            &[batch, length, Fixed(heads * cols)],
        )
    }
}

/// Inputs of eighths below 1, which all types store exactly enough.
struct Numbers {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    past: [Vec<f64>; 2],
    mask: Vec<f64>,
}

impl Numbers {
    fn new(case: &Case) -> Self {
        let Case { batch, q_heads, kv_heads, queries, past, new, depth, width, .. } = *case;
        let mut seed = 0;
        let mut numbers = |len: usize| {
            seed += 1;
            let x = noise(len + seed);
            x[seed..].iter().map(|x| (f64::from(*x) * 8.0).round() / 8.0).collect::<Vec<f64>>()
        };
        Self {
            q: numbers(batch * q_heads * queries * depth),
            k: numbers(batch * kv_heads * new * depth),
            v: numbers(batch * kv_heads * new * width),
            past: [
                numbers(batch * kv_heads * past * depth),
                numbers(batch * kv_heads * past * width),
            ],
            mask: numbers(case.mask.iter().product()),
        }
    }
}

/// Returns the expected outputs, and the scores of each stage.
fn expected(case: &Case, x: &Numbers) -> (Vec<f64>, [Vec<f64>; 4]) {
    let Case { q_heads, kv_heads, queries, past, new, depth, width, .. } = *case;
    let total = case.total();
    let row = |side: usize, b: usize, h: usize, key: usize| {
        let (cols, x, before) =
            if side == 0 { (depth, &x.k, &x.past[0]) } else { (width, &x.v, &x.past[1]) };
        let head = b * kv_heads + h / (q_heads / kv_heads);
        if key < past {
            &before[(head * past + key) * cols..][..cols]
        } else {
            &x[(head * new + key - past) * cols..][..cols]
        }
    };
    let (mut y, mut stages) = (Vec::new(), [const { Vec::new() }; 4]);
    for at in 0..case.batch * q_heads * queries {
        let (b, h, i) = (at / queries / q_heads, at / queries % q_heads, at % queries);
        let q = &x.q[at * depth..][..depth];
        let dot = |key: usize| q.iter().zip(row(0, b, h, key)).map(|(a, b)| a * b).sum::<f64>();
        let mut scores: Vec<f64> = (0..total).map(|key| dot(key) / (depth as f64).sqrt()).collect();
        stages[0].extend(&scores);
        if case.softcap > 0.0 {
            for s in &mut scores {
                *s = (*s / case.softcap).tanh() * case.softcap;
            }
        }
        stages[1].extend(&scores);
        for (key, score) in scores.iter_mut().enumerate() {
            let valid = case.valid.get(b).is_none_or(|&valid| key < valid as usize);
            let first = case.valid.get(b).map_or(past as i64, |&len| len - queries as i64);
            let is_seen = !case.is_causal || key as i64 <= first + i as i64;
            let added = match case.mask.split_last() {
                None => 0.0,
                Some((&len, _)) if key >= len => f64::NEG_INFINITY,
                Some((&len, outer)) => {
                    let mut place = 0;
                    for (axis, &extent) in outer.iter().enumerate() {
                        let own = [b, h, i][3 - outer.len() + axis];
                        place = place * extent + if extent == 1 { 0 } else { own };
                    }
                    let number = x.mask[place * len + key];
                    match case.is_bool {
                        true if number > -0.5 => 0.0,
                        true => f64::NEG_INFINITY,
                        false => number,
                    }
                }
            };
            *score = if valid && is_seen { *score + added } else { f64::NEG_INFINITY };
        }
        stages[2].extend(&scores);
        let sum: f64 = scores.iter().map(|s| s.exp()).sum();
        let share = |s: &f64| if sum > 0.0 { s.exp() / sum } else { 0.0 };
        let shares: Vec<f64> = scores.iter().map(share).collect();
        stages[3].extend(&shares);
        y.extend((0..width).map(|col| -> f64 {
            shares.iter().enumerate().map(|(key, p)| p * row(1, b, h, key)[col]).sum()
        }));
    }
    (y, stages)
}

fn bench_with<T: Stored<f64>>(case: &Case, x: &Numbers) -> Bench {
    let Case { batch, q_heads, kv_heads, queries, past, new, depth, width, .. } = *case;
    let stored = |x: &[f64]| x.iter().map(|&x| T::store(x)).collect::<Vec<_>>();
    let run = bench("Attention").input(case.packed(&stored(&x.q), [q_heads, queries, depth]));
    let run = run.input(case.packed(&stored(&x.k), [kv_heads, new, depth]));
    let run = run.input(case.packed(&stored(&x.v), [kv_heads, new, width]));
    let run = match (case.mask, case.is_bool) {
        ([], _) => run.absent(),
        (dims, false) => {
            run.input(case.bounded(tensor(dims, &stored(&x.mask)), &case.mask_bounds()))
        }
        (dims, true) => {
            let bools: Vec<Bool> = x.mask.iter().map(|&x| Bool::from(x > -0.5)).collect();
            run.input(case.bounded(tensor(dims, &bools), &case.mask_bounds()))
        }
    };
    let run = if past == 0 {
        run.absent().absent()
    } else {
        let cache = |x: &[f64], elements: usize| {
            let bounds = [case.up_to(batch), Fixed(kv_heads), case.up_to(past), Fixed(elements)];
            case.bounded(tensor(&[batch, kv_heads, past, elements], &stored(x)), &bounds)
        };
        run.input(cache(&x.past[0], depth)).input(cache(&x.past[1], width))
    };
    let run = match case.valid {
        [] => run,
        valid => run.input(case.bounded(tensor(&[batch], valid), &[case.up_to(batch)])),
    };
    let run = if case.is_packed {
        run.int("q_num_heads", q_heads as i64).int("kv_num_heads", kv_heads as i64)
    } else {
        run
    };
    run.int("is_causal", i64::from(case.is_causal)).float("softcap", case.softcap)
}

fn check<T: Stored<f64>>(case: &Case, within: f64) {
    println!("{case:?}");
    let Case { batch, q_heads, kv_heads, queries, depth, width, .. } = *case;
    let x = Numbers::new(case);
    let (y, stages) = expected(case, &x);
    let load =
        |y: &Tensor| y.values::<T>().into_iter().map(|y| y.load() as f32).collect::<Vec<_>>();
    let y_dims = case.packed(&y, [q_heads, queries, width]);
    for threads in [1, 3] {
        let actual = bench_with::<T>(case, &x).threads(threads).one();
        assert_eq!(actual.dims(), y_dims.dims());
        assert_near(&load(&actual), &y_dims.values::<f64>(), within);
    }
    for (mode, expected) in stages.iter().enumerate() {
        let run = bench_with::<T>(case, &x).int("qk_matmul_output_mode", mode as i64).outputs(4);
        let outputs = run.run().unwrap().remove(0).outputs;
        assert_near(&load(&outputs[0]), &y_dims.values::<f64>(), within);
        assert_eq!(outputs[1].dims(), [batch, kv_heads, case.total(), depth]);
        assert_eq!(outputs[2].dims(), [batch, kv_heads, case.total(), width]);
        let last =
            |x: &Tensor, cols: usize| load(x)[(case.past * cols).min(x.desc().len())..].to_vec();
        let first = |x: &[f64], cols: usize| x[..(case.new * cols).min(x.len())].to_vec();
        let keys = last(&outputs[1], depth);
        assert_near(&keys[..case.new * depth], &first(&x.k, depth), 1e-6);
        let values = last(&outputs[2], width);
        assert_near(&values[..case.new * width], &first(&x.v, width), 1e-6);
        let actual = load(&outputs[3]);
        assert_eq!(actual.len(), expected.len());
        for (actual, expected) in actual.iter().zip(expected) {
            let actual = f64::from(*actual);
            let near = (actual - expected).abs() <= within * expected.abs().max(1.0);
            assert!(
                near || actual.to_bits() == expected.to_bits(),
                "mode {mode}: {actual}, expected {expected}"
            );
        }
    }
}

#[test]
fn every_variant_matches_the_definition() {
    for case in CASES {
        check::<f32>(case, 2e-6);
        check::<f64>(case, 1e-6);
    }
}

#[test]
fn bounded_extents_are_read_in_the_run() {
    for case in CASES {
        let case = &Case { more: 3, ..*case };
        check::<f32>(case, 2e-6);
        check::<f64>(case, 1e-6);
        check::<F16>(case, 1e-3);
    }
    // A run fails if keys and values differ in number, or the mask's extents do not match.
    let x = |dims: &[usize], bounds: &[Dim]| {
        tensor(dims, &vec![0f32; dims.iter().product()]).bounded(bounds)
    };
    let heads = [Fixed(1), Fixed(1), UpTo(4), Fixed(2)];
    let run = |keys: usize, values: usize| {
        let q = bench("Attention").input(x(&[1, 1, 2, 2], &heads));
        q.input(x(&[1, 1, keys, 2], &heads)).input(x(&[1, 1, values, 2], &heads))
    };
    run(3, 3).one();
    run(3, 2).error();
    run(3, 3).input(x(&[2, 3], &[UpTo(4), UpTo(4)])).one();
    run(3, 3).input(x(&[3, 3], &[UpTo(4), UpTo(4)])).error();
    let elements = [Fixed(1), Fixed(1), Fixed(2), UpTo(4)];
    let q = bench("Attention").input(x(&[1, 1, 2, 2], &elements));
    let run = q.input(x(&[1, 1, 2, 2], &elements)).input(x(&[1, 1, 2, 2], &elements));
    let expected = "expected the number and size of heads to be known before the run";
    let error = run.error();
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn half_precision_is_computed_in_f32() {
    for case in CASES {
        check::<F16>(case, 1e-3);
        check::<Bf16>(case, 8e-3);
    }
}

#[test]
fn queries_without_keys_give_zeros_and_others_their_output() {
    fn both<T: Stored<f64>>(case: &Case, x: &Numbers) -> [Vec<f32>; 2] {
        let run = bench_with::<T>(case, x).int("qk_matmul_output_mode", 3).outputs(4).all();
        [&run[0], &run[3]].map(|y| y.values::<T>().into_iter().map(|y| y.load() as f32).collect())
    }
    let [never, small] = [f64::NEG_INFINITY, 0.5];
    let dead = |row: usize| (0..35).map(|at| if at / 7 == row { never } else { small }).collect();
    let by_numbers = Case { mask: &[5, 7], ..CASE };
    let cases = [
        Case { batch: 2, valid: &[0, 7], ..CASE },
        Case { batch: 2, valid: &[0, 2], is_causal: true, is_packed: true, ..CASE },
        by_numbers,
        Case { is_bool: true, is_causal: true, ..by_numbers },
        Case { batch: 2, valid: &[1, 7], is_causal: true, ..by_numbers },
        Case { new: 700, mask: &[5, 7], past: 3, softcap: 0.7, ..CASE },
    ];
    for case in &cases {
        let mut x = Numbers::new(case);
        if !case.mask.is_empty() {
            x.mask = dead(2);
        }
        println!("{case:?}");
        let (expected, stages) = expected(case, &x);
        assert!(expected.chunks(case.width).any(|row| row.iter().all(|y| *y == 0.0)));
        let load = |actual: [Vec<f32>; 2], within: f64| {
            let (y, scores) = (case.packed(&expected, [2, 5, case.width]), &stages[3]);
            assert_near(&actual[0], &y.values::<f64>(), within);
            assert_near(&actual[1], scores, within);
        };
        load(both::<f32>(case, &x), 2e-6);
        load(both::<f64>(case, &x), 1e-6);
        load(both::<F16>(case, &x), 1e-3);
        load(both::<Bf16>(case, &x), 8e-3);
    }
    // NaN reaches the output of its query, or of all queries that see its key.
    let mut x = Numbers::new(&CASE);
    x.q[0] = f64::NAN;
    for y in [bench_with::<f32>(&CASE, &x).one().values(), both::<f64>(&CASE, &x)[0].clone()] {
        let count = y.iter().filter(|y: &&f32| y.is_nan()).count();
        assert!(y[..CASE.width].iter().all(|y| y.is_nan()) && count == CASE.width);
    }
    // NaN in a key that no query sees has no effect.
    let case = Case { batch: 2, valid: &[0, 7], is_causal: true, ..CASE };
    let mut x = Numbers::new(&case);
    x.v[0] = f64::NAN;
    assert!(both::<f32>(&case, &x)[0].iter().all(|y| y.is_finite()));
}

#[test]
fn keys_of_earlier_calls_are_joined_without_an_output_for_them() {
    let case = Case { past: 4, ..CASE };
    let x = Numbers::new(&case);
    let run = bench_with::<f32>(&case, &x);
    let outcome = run.run().unwrap().remove(0);
    assert!(outcome.scratch_used_bytes > 0);
    assert_near(&outcome.outputs[0].values::<f32>(), &expected(&case, &x).0, 2e-6);
}

#[test]
fn mismatched_inputs_are_refused() {
    let x = |dims: &[usize]| tensor(dims, &vec![0f32; dims.iter().product()]);
    let run = |q: &[usize], k: &[usize], v: &[usize]| {
        bench("Attention").input(x(q)).input(x(k)).input(x(v))
    };
    let four: &[usize] = &[1, 2, 3, 4];
    let cases = [
        (
            run(four, &[1, 3, 8], &[1, 3, 8]),
            "inputs are f32[1,2,3,4], f32[1,3,8] and f32[1,3,8], expected one rank",
        ),
        (
            run(four, &[1, 2, 3, 5], four),
            "inputs are f32[1,2,3,4], f32[1,2,3,5] and f32[1,2,3,4], which do not fit",
        ),
        (
            run(&[1, 3, 8], &[1, 3, 8], &[1, 3, 8]),
            "input 0 is f32[1,3,8], which asks for parameter \"q_num_heads\"",
        ),
        (
            run(&[1, 3, 8], &[1, 3, 8], &[1, 3, 8]).int("q_num_heads", 3),
            "input 0 is f32[1,3,8], expected rows of 3 heads",
        ),
        (
            run(four, four, four).int("q_num_heads", 3),
            "input 0 is f32[1,2,3,4], and parameter \"q_num_heads\" is 3",
        ),
        (
            run(four, four, four).int("kv_num_heads", 0),
            "parameter \"kv_num_heads\" is 0, expected a positive integer",
        ),
        (run(&[2, 3], &[2, 3], &[2, 3]), "input 0 is f32[2,3], expected rank 3 or 4"),
        (
            run(&[1, 3, 2, 4], &[1, 2, 3, 4], &[1, 2, 3, 4]),
            "3 query heads are not a multiple of 2 heads of keys",
        ),
        (run(&[1, 2, 3, 0], &[1, 2, 3, 0], four), "heads have 0 elements, expected 1 or more"),
        (
            run(four, four, four).input(x(&[3, 4])),
            "input 3 is f32[3,4], expected what broadcasts to [1,2,3,3], or has fewer keys",
        ),
        (
            run(four, four, four).input(x(&[2, 3])),
            "input 3 is f32[2,3], expected what broadcasts to [1,2,3,3], or has fewer keys",
        ),
        (run(four, four, four).input(tensor(&[3], &[0i8; 3])), "input 3 is i8[3], expected f32"),
        (run(four, four, four).absent().input(x(four)), "input 5 is missing"),
        (
            run(four, four, four).absent().input(x(four)).input(x(&[1, 2, 2, 4])),
            "inputs 4 and 5 are f32[1,2,3,4] and f32[1,2,2,4], expected [1,2,length,4] and [1,2,length,4]",
        ),
        (
            run(four, four, four).absent().absent().absent().input(tensor(&[2], &[0i64; 2])),
            "input 6 is i64[2], expected a length for each of 1",
        ),
        (
            run(four, four, four).int("qk_matmul_output_mode", 4),
            "parameter \"qk_matmul_output_mode\" is 4, expected 0, 1, 2 or 3",
        ),
    ];
    for (run, expected) in cases {
        assert_eq!(run.error(), expected);
    }
    let run = run(four, four, four).absent().absent().absent().input(tensor(&[1], &[4i64]));
    assert_eq!(run.error(), udo_api::ExecError::bad_value(4, 0).to_string());
}
