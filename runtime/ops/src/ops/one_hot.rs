//! One-hot encoding along a new axis: one value at the index, another elsewhere.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Inputs, Io, Kernel, KernelDef,
    MAX_RANK, Node, Op, OpSchema, Param, Port, PortRule, Shape, Value, input, output_like,
    resolve_axis, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::partition::row_grain;
use crate::number::Number;

pub(crate) const DEF: Def = Def::new::<OneHot>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<OneHotKernel>("OneHot", Core::CPU).ports(RULES)];

const RULES: &[PortRule] = &[
    input(0, types::F32.or(types::F64).or(types::INTS)).bounded(),
    input(2, types::ANY),
    output_like(0, 2).bounded(),
];

struct OneHot;

impl Op for OneHot {
    const SCHEMA: OpSchema = OpSchema::new(
        "OneHot",
        &[
            Port::required("indices", types::NUMBERS),
            Port::required("depth", types::NUMBERS).constant(),
            Port::required("values", types::ANY),
        ],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("axis", DType::I64).default(Value::int(-1))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (indices, values) = (cx.input(0)?, cx.input(2)?);
        if values.shape() != [2] {
            return Err(Error::new(format!(
                "input 2 is {values}, expected two elements, the off and on values"
            )));
        }
        let shape = indices.full_shape();
        let mut dims: Vec<Dim> = shape.iter().collect();
        dims.insert(axis(cx)?, Dim::Fixed(depth(cx)?));
        cx.set_output(0, values.with_shape(Shape::from_dims(&dims)?))
    }
}

/// Returns the new axis of the output.
fn axis(node: &Node<'_>) -> Result<usize, Error> {
    let rank = node.input(0)?.rank() + 1;
    let axis = node.int("axis")?;
    resolve_axis(axis, rank).ok_or_else(|| {
        Error::new(format!("parameter \"axis\" is {axis}, expected an axis of rank {rank}"))
    })
}

/// Returns the extent of the new axis.
fn depth(node: &Node<'_>) -> Result<usize, Error> {
    let depth = of_number!(node.input(1)?.dtype(), T => match node.constant::<T>(1)? {
        Some([depth]) => Some(depth.to_f64()),
        _ => None,
    })?;
    let depth = depth.ok_or_else(|| Error::new("input 1, the depth, is not a single constant"))?;
    if (0.0..=MAX_DEPTH).contains(&depth) {
        // A fractional depth truncates.
        return Ok(depth as usize);
    }
    Err(Error::new(format!("input 1, the depth, is {depth}")))
}

/// The largest depth that f64 holds exactly.
const MAX_DEPTH: f64 = (1u64 << 53) as f64;

struct OneHotKernel {
    axis: usize,
    depth: usize,
    /// Reads the index at a position, truncated to an integer.
    index: fn(&Inputs<'_>, usize) -> Result<i64, ExecError>,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for OneHotKernel {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let index: fn(&Inputs<'_>, usize) -> _ = of_number!(cx.input(0)?.dtype(), T => {
            |inputs: &Inputs<'_>, position: usize| Ok(inputs.get::<T>(0)?[position].to_f64() as i64)
        })?;
        let run: fn(&Self, Io<'_>) -> _ = of_width!(cx.input(2)?.dtype(), B => Self::run::<B>)?;
        Ok(Self { axis: axis(cx)?, depth: depth(cx)?, index, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

impl OneHotKernel {
    fn run<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let &[off, on] = inputs.get_bits::<B>(2)? else {
            return Err(ExecError::bad_value(0, 0));
        };
        let dims = inputs.shape(0)?;
        let mut extents = [0; MAX_RANK];
        let (before, after) = dims.split_at(self.axis);
        let y_dims = before.iter().chain([&self.depth]).chain(after);
        extents.iter_mut().zip(y_dims).for_each(|(extent, &dim)| *extent = dim);
        let extents = &extents[..=dims.len()];
        let AxisSplit { outer, len, inner } = AxisSplit::at(extents, self.axis);
        let block = len * inner;
        let y = &mut outputs.take_bits::<B>(0)?[..outer * block];
        let grain = row_grain(block);
        parallel.chunks_mut(y, grain, |chunk, y| {
            y.fill(off);
            let first_block = chunk * grain / block;
            for (block_index, y) in y.chunks_exact_mut(block).enumerate() {
                for inner_index in 0..inner {
                    let index =
                        (self.index)(&inputs, (first_block + block_index) * inner + inner_index)?;
                    // An index out of range selects nothing.
                    if let Some(hot) = resolve_axis(index, len) {
                        y[hot * inner + inner_index] = on;
                    }
                }
            }
            Ok(())
        })?;
        outputs.set_shape(0, extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, bench, tensor};

    fn bench_with(indices: &[i64], depth: i64) -> Bench {
        let run = bench("OneHot").input(tensor(&[indices.len()], indices));
        run.constant(tensor(&[], &[depth])).input(tensor(&[2], &[0u8, 7]))
    }

    #[test]
    fn negative_indices_count_from_the_end_and_invalid_ones_select_nothing() {
        let y = bench_with(&[0, -1, 3, -4], 3).one();
        assert_eq!(
            (y.dims(), y.values::<u8>()),
            (vec![4, 3], vec![7, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0])
        );
        let y = bench_with(&[1, 0], 2).int("axis", 0).one();
        assert_eq!(y.values::<u8>(), [0, 7, 7, 0]);
        assert_eq!(bench_with(&[1, 0], 0).one().dims(), [2, 0]);
    }

    #[test]
    fn indices_values_and_depth_may_have_unlike_types() {
        let run = bench("OneHot").input(tensor(&[1, 2], &[1f32, 0.0]));
        let run = run.constant(tensor(&[1], &[2f64])).input(tensor(&[2], &[-1f64, 0.5]));
        let y = run.int("axis", 1).one();
        assert_eq!((y.dims(), y.values::<f64>()), (vec![1, 2, 2], vec![-1.0, 0.5, 0.5, -1.0]));
    }

    #[test]
    fn rows_are_divided_among_threads() {
        let indices: Vec<i32> = (0..5000).map(|i| i * 7 % 30).collect();
        let run = bench("OneHot").threads(3).input(tensor(&[5000], &indices));
        let run = run
            .constant(tensor(&[], &[30i64]))
            .input(tensor(&[2], &[false, true].map(udo_api::Bool::from)));
        for (row, index) in run.one().bytes().chunks(30).zip(indices) {
            assert!(row.iter().enumerate().all(|(col, &y)| (y == 1) == (col as i32 == index)));
        }
    }

    #[test]
    fn bounded_indices_are_read_in_the_run() {
        let indices = tensor(&[1], &[1i64]).bounded(&[Dim::UpTo(4)]);
        let run = bench("OneHot").input(indices).constant(tensor(&[], &[2i64]));
        let y = run.input(tensor(&[2], &[1i16, 2])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=4,2]");
        assert_eq!(y.values::<i16>(), [1, 2]);
    }

    #[test]
    fn invalid_inputs_are_refused() {
        assert_eq!(bench_with(&[0], -1).error(), "input 1, the depth, is -1");
        let run = bench("OneHot").input(tensor(&[1], &[0i64])).input(tensor(&[], &[2i64]));
        let error = run.input(tensor(&[2], &[0u8, 1])).error();
        assert_eq!(error, "input 1, the depth, is not a single constant");
        let error = bench_with(&[0], 2).int("axis", 2).error();
        assert_eq!(error, "parameter \"axis\" is 2, expected an axis of rank 2");
        let run = bench("OneHot").input(tensor(&[1], &[0i64])).constant(tensor(&[], &[2i64]));
        let error = run.input(tensor(&[3], &[0u8, 1, 2])).error();
        assert_eq!(error, "input 2 is u8[3], expected two elements, the off and on values");
    }
}
