//! Gathers slices of the data. Each row of `indices` is a tuple, the indices of a slice along the first axes after the
//! `batch_dims` that data and indices share.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Core, DType, Dim, Error, ExecError, Facts, FinalizeCx, InferCx, Io, KernelDef, MAX_RANK,
    OpSchema, Param, Port, Shape, Value, types,
};

use crate::Def;
use crate::family::movement::{
    Example, INDEXED, Indices, Movement, Setting, Tuples, kernel, movement,
};
use crate::family::partition::GRAIN;

pub(crate) const DEF: Def = movement::<GatherNd>();

struct GatherNd {
    batch_dims: usize,
}

impl Movement for GatherNd {
    const SCHEMA: OpSchema = OpSchema::new(
        "GatherND",
        &[Port::required("data", types::ANY), Port::required("indices", types::INDEX)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("batch_dims", DType::I64).default(Value::int(0))],
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] =
        &[kernel::<Self>(Core::CPU).ports(INDEXED), kernel::<Self>(Core::DSP_V68).ports(INDEXED)];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[2, 2]],
            ints: &[(&[2, 2], &[0, 0, -1, 1])],
            outputs: &[(&[2], &[0, 3])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 3, 2]],
            ints: &[(&[2, 1], &[2, -3])],
            params: &[("batch_dims", Setting::Int(1))],
            outputs: &[(&[2, 2], &[4, 5, 6, 7])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 3]],
            ints: &[(&[1, 2, 1], &[1, 0])],
            outputs: &[(&[1, 2, 3], &[3, 4, 5, 0, 1, 2])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 0]],
            ints: &[(&[1, 1], &[1])],
            outputs: &[(&[1, 0], &[])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (data, indices) = (cx.input(0)?, cx.input(1)?);
        let refused = |what: &str| {
            Error::new(format!("input 1 is {indices} for elements of {data}, expected {what}"))
        };
        let batch_dims = usize::try_from(cx.int("batch_dims")?).unwrap_or(usize::MAX);
        let index_dims: Vec<Dim> = indices.full_shape().iter().collect();
        let Some((last, outer)) = index_dims.split_last() else {
            return Err(refused("at least one axis"));
        };
        let Some(depth) = last.exact() else { return Err(refused("a fixed last axis")) };
        if batch_dims > outer.len() || batch_dims.saturating_add(depth) > data.rank() {
            return Err(refused(&format!("indices of {} axes at most", data.rank())));
        }
        let shape = data.full_shape();
        let mut batches = shape.iter().zip(outer).take(batch_dims);
        if batches.any(|(a, b)| a.bound() != b.bound()) {
            return Err(refused(&format!("the same {batch_dims} axes before")));
        }
        let after = shape.iter().skip(batch_dims + depth);
        let dims: Vec<Dim> = outer.iter().copied().chain(after).collect();
        cx.set_output(0, data.with_shape(Shape::from_dims(&dims)?))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let batch_dims = cx.int("batch_dims")?;
        Ok(Self { batch_dims: usize::try_from(batch_dims).unwrap_or(0) })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (data, indices) = (inputs.get_bits::<B>(0)?, Indices::get(&inputs, 1)?);
        let (data_dims, index_dims) = (inputs.shape(0)?, inputs.shape(1)?);
        let tuples = Tuples::new(data_dims, index_dims, self.batch_dims);
        let (inner, count) = (tuples.inner, tuples.count);
        if inner == 0 {
            // No slice is copied below, but indices out of range must fail nevertheless.
            (0..count).try_for_each(|index| tuples.slice(indices, index).map(drop))?;
        }
        // A bounded output buffer may be larger than this run's output.
        let y = &mut outputs.take_bits::<B>(0)?[..count * inner];
        let slices_per_chunk = (GRAIN / inner.max(1)).max(1);
        parallel.chunks_mut(y, slices_per_chunk * inner, |chunk, y| {
            for (index, y) in y.chunks_exact_mut(inner).enumerate() {
                let start = tuples.slice(indices, chunk * slices_per_chunk + index)?;
                match y {
                    // Single elements are assigned, because `copy_from_slice` would be a function call.
                    [y] => *y = data[start],
                    y => y.copy_from_slice(&data[start..][..inner]),
                }
            }
            Ok(())
        })?;
        let mut dims = [0; MAX_RANK];
        let (outer, depth) = (&index_dims[..index_dims.len() - 1], tuples.depth);
        let after = &data_dims[self.batch_dims + depth..];
        dims.iter_mut().zip(outer.iter().chain(after)).for_each(|(y_dim, &dim)| *y_dim = dim);
        outputs.set_shape(0, &dims[..outer.len() + after.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn slices_are_divided_among_threads() {
        let data: Vec<i32> = (0..40 * 30 * 9).collect();
        let indices: Vec<i32> = (0..2 * 9000).map(|i| i * 7 % 30 - i % 4 / 2 * 30).collect();
        let run = bench("GatherND").threads(3).input(tensor(&[40, 30, 9], &data));
        let y = run.input(tensor(&[9000, 2], &indices)).one().values::<i32>();
        for (y, tuple) in y.chunks(9).zip(indices.chunks(2)) {
            let rows = [tuple[0].rem_euclid(40), tuple[1].rem_euclid(30)];
            let first = (rows[0] * 30 + rows[1]) * 9;
            assert!(y.iter().copied().eq(first..first + 9), "{tuple:?}");
        }
    }

    #[test]
    fn an_index_beyond_the_end_is_a_bad_value() {
        let run = bench("GatherND").input(tensor(&[3], &[1u8, 2, 3]));
        let error = run.input(tensor(&[2, 1], &[1i64, -4])).error();
        assert_eq!(error, ExecError::bad_value(-4, 1).to_string());
    }

    #[test]
    fn bounded_indices_bound_the_output() {
        let indices = tensor(&[2, 1], &[2i64, 0]).bounded(&[Dim::UpTo(5), Dim::Fixed(1)]);
        let y =
            bench("GatherND").input(tensor(&[3, 2], &[1u8, 2, 3, 4, 5, 6])).input(indices).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5,2]");
        assert_eq!(y.values::<u8>(), [5, 6, 1, 2]);
    }

    #[test]
    fn mismatched_indices_are_refused() {
        let run = |dims: &[usize], batch_dims: i64| {
            let data = tensor(&[2, 1], &[1u8, 2]);
            let indices = tensor(dims, &vec![0i64; dims.iter().product()]);
            bench("GatherND").input(data).input(indices).int("batch_dims", batch_dims).error()
        };
        let message =
            |dims: &str| format!("input 1 is i64{dims} for elements of u8[2,1], expected ");
        assert_eq!(run(&[1, 3], 0), message("[1,3]") + "indices of 2 axes at most");
        assert_eq!(run(&[2, 2], 1), message("[2,2]") + "indices of 2 axes at most");
        assert_eq!(run(&[2], 1), message("[2]") + "indices of 2 axes at most");
        assert_eq!(run(&[3, 1], 1), message("[3,1]") + "the same 1 axes before");
        assert_eq!(run(&[], 0), message("[]") + "at least one axis");
    }
}
