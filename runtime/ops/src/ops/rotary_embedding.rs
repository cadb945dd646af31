//! Rotary position embedding (Su et al., 2021, <https://arxiv.org/abs/2104.09864>): rotates pairs of elements of every
//! attention head by an angle that depends on the position. Inputs hold the cosines and sines of the angles.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Node, Op, OpSchema,
    Param, Port, Value, input, input_like, output_like, types,
};

use crate::Def;
use crate::family::argument::count;
use crate::family::attention::rotate;
use crate::family::partition::row_grain;

pub(crate) const DEF: Def = Def::new::<RotaryEmbedding>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Rotation>("RotaryEmbedding", Core::CPU).ports(&[
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

/// The pairs of elements of a head, and the layout of heads.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// The number of heads if they share the last axis, `[batch, length, heads * elements]`; `None` for `[batch, heads,
    /// length, elements]`.
    packed_heads: Option<usize>,
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
        let (packed_heads, elements) = match *x.shape() {
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
        let requested = node.int(name)?;
        let rotated = if requested == 0 { Some(elements) } else { usize::try_from(requested).ok() };
        let rotated =
            rotated.filter(|&rotated| rotated <= elements && rotated % 2 == 0 && rotated > 0);
        let rotated = rotated.ok_or_else(|| {
            let expected = format!("expected an even number of the {elements} elements of a head");
            Error::new(format!("parameter {name:?} is {requested}, {expected}"))
        })?;
        let is_interleaved = node.flag("interleaved")?;
        Ok(Self { packed_heads, elements, pairs: rotated / 2, is_interleaved })
    }

    /// Checks that the caches hold one cosine and sine per pair of each position.
    fn check_angles(&self, node: &Node<'_>) -> Result<(), Error> {
        let x = node.input(X)?;
        let length = if self.packed_heads.is_some() { x.shape()[1] } else { x.shape()[2] };
        let position_dims = [x.shape()[0], length];
        let (cos, sin) = (node.input(COS)?, node.input(SIN)?);
        let fits = if node.has_input(POSITIONS) {
            let positions = node.input(POSITIONS)?;
            if positions.shape() != position_dims {
                let expected = format!("expected a position for each of {position_dims:?}");
                return Err(Error::new(format!("input {POSITIONS} is {positions}, {expected}")));
            }
            matches!(*cos.shape(), [_, pairs] if pairs == self.pairs)
        } else {
            cos.shape() == [position_dims[0], position_dims[1], self.pairs]
        };
        if fits && sin.shape() == cos.shape() {
            return Ok(());
        }
        let source = if node.has_input(POSITIONS) { "positions" } else { "batch and length" };
        let expected = format!("expected the {source} of {x} by {} angles", self.pairs);
        Err(Error::new(format!("inputs {COS} and {SIN} are {cos} and {sin}, {expected}")))
    }
}

/// The kernel.
struct Rotation(Rule);

impl Kernel for Rotation {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Rule::read(cx).map(Self)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let Self(rule) = self;
        let &Rule { packed_heads, elements, pairs, is_interleaved } = rule;
        let (x, cos, sin) = (inputs.get(X)?, inputs.get(COS)?, inputs.get(SIN)?);
        let positions =
            if inputs.has(POSITIONS) { Some(inputs.get::<i64>(POSITIONS)?) } else { None };
        let dims = inputs.shape(X)?;
        let ((Some(heads), &[batch, length, _]) | (None, &[batch, heads, length, _])) =
            (packed_heads, dims)
        else {
            return Err(ExecError::bad_value(dims.len() as i64, X));
        };
        let angle_rows = cos.len() / pairs;
        if positions.map_or(angle_rows, <[i64]>::len) != batch * length || sin.len() != cos.len() {
            return Err(ExecError::bad_value(angle_rows as i64, COS));
        }
        // Returns the cosines and sines of a token, an index over batch and length.
        let token_angles = |token: usize| {
            let row = match positions {
                Some(positions) => {
                    usize::try_from(positions[token]).ok().filter(|&row| row < angle_rows)
                }
                None => Some(token),
            };
            let out_of_range =
                || ExecError::bad_value(positions.map_or(0, |positions| positions[token]), token);
            let start = row.ok_or_else(out_of_range)? * pairs;
            Ok([&cos[start..][..pairs], &sin[start..][..pairs]])
        };
        let y = &mut outputs.take::<f32>(0)?[..x.len()];
        let grain = row_grain(elements);
        parallel.chunks_mut(y, grain, |chunk, y| {
            let x = &x[chunk * grain..][..y.len()];
            let rows = x.chunks_exact(elements).zip(y.chunks_exact_mut(elements));
            for (index, (x, y)) in rows.enumerate() {
                let row = chunk * (grain / elements) + index;
                let token = match packed_heads {
                    Some(heads) => row / heads,
                    None => row / (heads * length) * length + row % length,
                };
                rotate(is_interleaved, x, token_angles(token)?, y);
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

    #[derive(Clone, Copy, Debug)]
    struct Case {
        /// Batch, heads, length and elements of a head.
        extents: [usize; 4],
        /// Rotated elements of a head.
        rotated: usize,
        is_packed: bool,
        is_interleaved: bool,
        /// Position ids; empty for consecutive positions.
        positions: &'static [i64],
    }

    const PLAIN: Case = Case {
        extents: [2, 3, 4, 8],
        rotated: 8,
        is_packed: false,
        is_interleaved: false,
        positions: &[],
    };

    /// Position ids for a batch of 2 and a length of 4; the highest one is 4.
    const MIXED: &[i64] = &[4, 0, 1, 1, 3, 2, 4, 0];

    const CASES: &[Case] = &[
        PLAIN,
        Case { is_packed: true, ..PLAIN },
        Case { is_interleaved: true, ..PLAIN },
        Case { rotated: 4, ..PLAIN },
        Case { rotated: 6, is_interleaved: true, is_packed: true, ..PLAIN },
        Case { positions: MIXED, ..PLAIN },
        Case { positions: MIXED, is_packed: true, rotated: 2, ..PLAIN },
        Case { positions: MIXED, is_packed: true, is_interleaved: true, ..PLAIN },
        Case { extents: [1, 1, 1, 2], rotated: 2, ..PLAIN },
        Case { extents: [1, 2, 0, 4], rotated: 4, ..PLAIN },
        Case { extents: [2, 9, 70, 66], rotated: 34, ..PLAIN },
    ];

    impl Case {
        /// Returns the number of rows of the inputs with angles.
        fn angle_rows(&self) -> usize {
            let [batch, _, length, _] = self.extents;
            if self.positions.is_empty() { batch * length } else { 5 }
        }

        /// Returns input, cosines and sines. The operator does not require that cosines and sines belong to angles.
        fn values(&self) -> [Vec<f32>; 3] {
            let angles = self.angle_rows() * self.rotated / 2;
            let len = self.extents.iter().product();
            [noise(len), noise(angles + 1).split_off(1), noise(angles + 2).split_off(2)]
        }

        fn bench_with(&self) -> Bench {
            let [batch, heads, length, elements] = self.extents;
            let [x, cos, sin] = self.values();
            let dims = [batch, length, heads * elements];
            let dims = if self.is_packed { &dims[..] } else { &self.extents };
            let pairs = self.rotated / 2;
            let angles = [batch, length, pairs];
            let indexed_angles = [self.angle_rows(), pairs];
            let angles = if self.positions.is_empty() { &angles[..] } else { &indexed_angles };
            let run = bench("RotaryEmbedding").input(tensor(dims, &x));
            let run = run.input(tensor(angles, &cos)).input(tensor(angles, &sin));
            let run = match self.positions {
                [] => run,
                positions => run.input(tensor(&[batch, length], positions)),
            };
            let run = if self.is_packed { run.int("num_heads", heads as i64) } else { run };
            let run = run.int("interleaved", i64::from(self.is_interleaved));
            if self.rotated == elements {
                run
            } else {
                run.int("rotary_embedding_dim", self.rotated as i64)
            }
        }

        /// Computes the output by the definition.
        fn expected(&self) -> Vec<f64> {
            let [batch, heads, length, elements] = self.extents;
            let [x, cos, sin] = self.values().map(|x| x.into_iter().map(f64::from).collect());
            let (x, cos, sin): (Vec<f64>, Vec<f64>, Vec<f64>) = (x, cos, sin);
            let (mut y, pairs) = (x.clone(), self.rotated / 2);
            for index in 0..batch * heads * length * pairs {
                let (pair, step, head) =
                    (index % pairs, index / pairs % length, index / pairs / length % heads);
                let sequence = index / pairs / length / heads;
                let row = if self.is_packed {
                    (sequence * length + step) * heads + head
                } else {
                    (sequence * heads + head) * length + step
                };
                let token = sequence * length + step;
                let position = self.positions.get(token).map_or(token, |&id| id as usize);
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
