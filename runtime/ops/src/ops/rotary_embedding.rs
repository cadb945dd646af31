//! Rotary position embedding: rotates pairs of elements of every head by an angle that depends on the position.

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op, OpSchema,
    Param, Port, Value, input, input_like, output_like, types,
};

use crate::Def;
use crate::family::argument::count;
use crate::family::attention::rotate;
use crate::family::partition::row_grain;

pub(crate) const DEF: Def = Def::new::<RotaryEmbedding>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Turned>("RotaryEmbedding", Core::CPU).ports(&[
    input(0, types::F32).bounded(),
    input_like(1, 0).bounded(),
    input_like(2, 0).bounded(),
    input(3, types::I64).bounded(),
    output_like(0, 0).bounded(),
])];

const X: usize = 0;
const COS: usize = 1;
const SIN: usize = 2;
const POSITIONS: usize = 3;

struct RotaryEmbedding;

impl Op for RotaryEmbedding {
    const SCHEMA: OpSchema = OpSchema::new(
        "RotaryEmbedding",
        &[
            Port::required("X", types::F32),
            Port::required("cos_cache", types::F32),
            Port::required("sin_cache", types::F32),
            Port::optional("position_ids", types::I64),
        ],
        &[Port::required("Y", types::F32)],
        &[
            Param::scalar("interleaved", DType::I64).default(Value::int(0)),
            Param::scalar("num_heads", DType::I64).optional(),
            Param::scalar("rotary_embedding_dim", DType::I64).default(Value::int(0)),
        ],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let rule = Rule::read(cx)?;
        rule.check_angles(cx)?;
        let x = cx.input(X)?;
        cx.set_output(0, x)
    }
}

/// How the elements of a head are paired, and where heads are.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// The number of heads for a packed layout, `[batch, length, heads * elements]`; `None` for `[batch, heads, length,
    /// elements]`.
    packed: Option<usize>,
    /// Elements of a head.
    elements: usize,
    /// Pairs that are rotated; the remaining elements are copied.
    pairs: usize,
    /// Whether pairs are neighbours, `(2i, 2i + 1)`, instead of `(i, i + pairs)`.
    is_interleaved: bool,
}

impl Rule {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let x = node.input(X)?;
        let (packed, elements) = match *x.shape() {
            [_, _, _, elements] => (None, elements),
            [_, _, hidden] => {
                let name = "num_heads";
                if !node.has_param(name) {
                    let expected = format!("which asks for parameter {name:?}");
                    return Err(Error::new(format!("input {X} is {x}, {expected}")));
                }
                let heads = count(node, name)?;
                if !hidden.is_multiple_of(heads) {
                    let expected = format!("expected rows of {heads} heads");
                    return Err(Error::new(format!("input {X} is {x}, {expected}")));
                }
                (Some(heads), hidden / heads)
            }
            _ => return Err(Error::new(format!("input {X} is {x}, expected rank 3 or 4"))),
        };
        let name = "rotary_embedding_dim";
        let found = node.int(name)?;
        let turned = if found == 0 { Some(elements) } else { usize::try_from(found).ok() };
        let turned = turned.filter(|&turned| turned <= elements && turned % 2 == 0 && turned > 0);
        let turned = turned.ok_or_else(|| {
            let expected = format!("expected an even number of the {elements} elements of a head");
            Error::new(format!("parameter {name:?} is {found}, {expected}"))
        })?;
        let is_interleaved = node.flag("interleaved")?;
        Ok(Self { packed, elements, pairs: turned / 2, is_interleaved })
    }

    /// Checks that the caches hold one cosine and sine per pair of each position.
    fn check_angles(&self, node: &Node<'_>) -> Result<(), Error> {
        let x = node.input(X)?;
        let length = if self.packed.is_some() { x.shape()[1] } else { x.shape()[2] };
        let places = [x.shape()[0], length];
        let (cos, sin) = (node.input(COS)?, node.input(SIN)?);
        let fits = if node.has_input(POSITIONS) {
            let positions = node.input(POSITIONS)?;
            if positions.shape() != places {
                let expected = format!("expected a position for each of {places:?}");
                return Err(Error::new(format!("input {POSITIONS} is {positions}, {expected}")));
            }
            matches!(*cos.shape(), [_, pairs] if pairs == self.pairs)
        } else {
            cos.shape() == [places[0], places[1], self.pairs]
        };
        if fits && sin.shape() == cos.shape() {
            return Ok(());
        }
        let source = if node.has_input(POSITIONS) { "positions" } else { "batch and length" };
        let expected = format!("expected the {source} of {x} by {} angles", self.pairs);
        Err(Error::new(format!("inputs {COS} and {SIN} are {cos} and {sin}, {expected}")))
    }
}

struct Turned(Rule);

impl Kernel for Turned {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Rule::read(cx).map(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let Self(rule) = self;
        let &Rule { packed, elements, pairs, is_interleaved } = rule;
        let (x, cos, sin) = (inputs.get(X)?, inputs.get(COS)?, inputs.get(SIN)?);
        let positions =
            if inputs.has(POSITIONS) { Some(inputs.get::<i64>(POSITIONS)?) } else { None };
        let dims = inputs.shape(X)?;
        let ((Some(heads), &[batch, length, _]) | (None, &[batch, heads, length, _])) =
            (packed, dims)
        else {
            return Err(ExecError::bad_value(dims.len() as i64, X));
        };
        let known = cos.len() / pairs;
        if positions.map_or(known, <[i64]>::len) != batch * length || sin.len() != cos.len() {
            return Err(ExecError::bad_value(known as i64, COS));
        }
        let angles_of = |place: usize| {
            let row = match positions {
                Some(positions) => {
                    usize::try_from(positions[place]).ok().filter(|&row| row < known)
                }
                None => Some(place),
            };
            let refused =
                || ExecError::bad_value(positions.map_or(0, |positions| positions[place]), place);
            let from = row.ok_or_else(refused)? * pairs;
            Ok([&cos[from..][..pairs], &sin[from..][..pairs]])
        };
        let y = &mut outputs.take::<f32>(0)?[..x.len()];
        let grain = row_grain(elements);
        parallel.chunks_mut(y, grain, |chunk, y| {
            let x = &x[chunk * grain..][..y.len()];
            let rows = x.chunks_exact(elements).zip(y.chunks_exact_mut(elements));
            for (at, (x, y)) in rows.enumerate() {
                let row = chunk * (grain / elements) + at;
                let place = match packed {
                    Some(heads) => row / heads,
                    None => row / (heads * length) * length + row % length,
                };
                rotate(is_interleaved, x, angles_of(place)?, y);
            }
            Ok(())
        })?;
        outputs.set_shape(0, dims)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::ExecError;

    use crate::family::numerics::settled_on_any_threads;
    use crate::testing::{Bench, assert_near, bench, noise, tensor};

    /// Batch, heads, length, elements of a head, and rotated elements.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        extents: [usize; 4],
        turned: usize,
        is_packed: bool,
        is_interleaved: bool,
        /// Position ids; empty for consecutive positions.
        positions: &'static [i64],
    }

    const CASE: Case = Case {
        extents: [2, 3, 4, 8],
        turned: 8,
        is_packed: false,
        is_interleaved: false,
        positions: &[],
    };

    const MIXED: &[i64] = &[4, 0, 1, 1, 3, 2, 4, 0];

    const CASES: &[Case] = &[
        CASE,
        Case { is_packed: true, ..CASE },
        Case { is_interleaved: true, ..CASE },
        Case { turned: 4, ..CASE },
        Case { turned: 6, is_interleaved: true, is_packed: true, ..CASE },
        Case { positions: MIXED, ..CASE },
        Case { positions: MIXED, is_packed: true, turned: 2, ..CASE },
        Case { positions: MIXED, is_packed: true, is_interleaved: true, ..CASE },
        Case { extents: [1, 1, 1, 2], turned: 2, ..CASE },
        Case { extents: [1, 2, 0, 4], turned: 4, ..CASE },
        Case { extents: [2, 9, 70, 66], turned: 34, ..CASE },
    ];

    impl Case {
        fn rows(&self) -> usize {
            let [batch, _, length, _] = self.extents;
            if self.positions.is_empty() { batch * length } else { 5 }
        }

        /// Input, cosines and sines; the latter need not belong to an angle.
        fn numbers(&self) -> [Vec<f32>; 3] {
            let angles = self.rows() * self.turned / 2;
            let len = self.extents.iter().product();
            [noise(len), noise(angles + 1).split_off(1), noise(angles + 2).split_off(2)]
        }

        fn bench_with(&self) -> Bench {
            let [batch, heads, length, elements] = self.extents;
            let [x, cos, sin] = self.numbers();
            let dims = [batch, length, heads * elements];
            let dims = if self.is_packed { &dims[..] } else { &self.extents };
            let pairs = self.turned / 2;
            let angles = [batch, length, pairs];
            let known = [self.rows(), pairs];
            let angles = if self.positions.is_empty() { &angles[..] } else { &known };
            let run = bench("RotaryEmbedding").input(tensor(dims, &x));
            let run = run.input(tensor(angles, &cos)).input(tensor(angles, &sin));
            let run = match self.positions {
                [] => run,
                positions => run.input(tensor(&[batch, length], positions)),
            };
            let run = if self.is_packed { run.int("num_heads", heads as i64) } else { run };
            let run = run.int("interleaved", i64::from(self.is_interleaved));
            let is_whole = self.turned == elements;
            if is_whole { run } else { run.int("rotary_embedding_dim", self.turned as i64) }
        }

        fn expected(&self) -> Vec<f64> {
            let [batch, heads, length, elements] = self.extents;
            let [x, cos, sin] = self.numbers().map(|x| x.into_iter().map(f64::from).collect());
            let (x, cos, sin): (Vec<f64>, Vec<f64>, Vec<f64>) = (x, cos, sin);
            let (mut y, pairs) = (x.clone(), self.turned / 2);
            for at in 0..batch * heads * length * pairs {
                let (pair, place, head) =
                    (at % pairs, at / pairs % length, at / pairs / length % heads);
                let b = at / pairs / length / heads;
                let row = if self.is_packed {
                    (b * length + place) * heads + head
                } else {
                    (b * heads + head) * length + place
                };
                let position = b * length + place;
                let position = self.positions.get(position).map_or(position, |&at| at as usize);
                let (cos, sin) = (cos[position * pairs + pair], sin[position * pairs + pair]);
                let [first, second] = if self.is_interleaved {
                    [2 * pair, 2 * pair + 1]
                } else {
                    [pair, pair + pairs]
                };
                let [first, second] = [first, second].map(|element| row * elements + element);
                y[first] = cos * x[first] - sin * x[second];
                y[second] = sin * x[first] + cos * x[second];
            }
            y
        }
    }

    #[test]
    fn pairs_are_rotated_by_their_angles() {
        for case in CASES {
            println!("{case:?}");
            let y = settled_on_any_threads(&case.bench_with());
            assert_near(&y.values::<f32>(), &case.expected(), 1e-6);
        }
    }

    #[test]
    fn positions_without_angles_are_refused() {
        let run = |positions: &[i64]| {
            let run = bench("RotaryEmbedding").input(tensor(&[1, 1, 2, 2], &[1f32; 4]));
            let run = run.input(tensor(&[3, 1], &[0f32; 3])).input(tensor(&[3, 1], &[1f32; 3]));
            run.input(tensor(&[1, positions.len()], positions))
        };
        assert_eq!(run(&[0, 3]).error(), ExecError::bad_value(3, 1).to_string());
        assert_eq!(run(&[-1, 0]).error(), ExecError::bad_value(-1, 0).to_string());
        assert_eq!(
            run(&[0]).error(),
            "input 3 is i64[1,1], expected a position for each of [1, 2]"
        );
    }

    #[test]
    fn mismatched_inputs_are_refused() {
        let run = |dims: &[usize], angles: &[usize]| {
            let zeros = |dims: &[usize]| tensor(dims, &vec![0f32; dims.iter().product()]);
            let run = bench("RotaryEmbedding").input(zeros(dims));
            run.input(zeros(angles)).input(zeros(angles))
        };
        assert_eq!(run(&[2, 4], &[2, 2]).error(), "input 0 is f32[2,4], expected rank 3 or 4");
        let packed = || run(&[1, 2, 6], &[1, 2, 1]);
        assert_eq!(
            packed().error(),
            "input 0 is f32[1,2,6], which asks for parameter \"num_heads\""
        );
        assert_eq!(
            packed().int("num_heads", 0).error(),
            "parameter \"num_heads\" is 0, expected a positive integer"
        );
        assert_eq!(
            packed().int("num_heads", 4).error(),
            "input 0 is f32[1,2,6], expected rows of 4 heads"
        );
        let error = "parameter \"rotary_embedding_dim\" is 0, expected an even number of the 3 elements of a head";
        assert_eq!(packed().int("num_heads", 2).error(), error);
        let error = run(&[1, 1, 2, 4], &[1, 2, 3]).int("rotary_embedding_dim", 6).error();
        assert!(error.contains("is 6, expected an even number of the 4 elements"), "{error}");
        assert_eq!(
            run(&[1, 1, 2, 4], &[1, 2, 1]).error(),
            "inputs 1 and 2 are f32[1,2,1] and f32[1,2,1], expected the batch and length of f32[1,1,2,4] by 2 angles"
        );
    }
}
