//! Scatters slices into a copy of the data. Each row of `indices` is a tuple, the indices of a slice along the first
//! axes.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{Error, ExecError, Inputs, Node, OpSchema, Parallel, Param, Port, Value, types};

use crate::Def;
use crate::family::movement::{Indices, Tuples};
use crate::family::scatter::{Combine, Scatter, Width, combine_all, scatter};

pub(crate) const DEF: Def = scatter::<ScatterNd>();

struct ScatterNd;

impl Scatter for ScatterNd {
    const SCHEMA: OpSchema = OpSchema::new(
        "ScatterND",
        &[
            Port::required("data", types::ANY),
            Port::required("indices", types::INDEX),
            Port::required("updates", types::ANY),
        ],
        &[Port::required("output", types::ANY)],
        &[Param::text("reduction").default(Value::text("none"))],
    );

    fn plan(node: &Node<'_>) -> Result<Self, Error> {
        let (data, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
        let fits = match indices.shape().split_last() {
            Some((&depth, outer)) => data
                .shape()
                .get(depth..)
                .is_some_and(|inner| updates.shape().iter().eq(outer.iter().chain(inner))),
            None => false,
        };
        let message = || format!("input 1 is {indices} and input 2 {updates}, input 0 is {data}");
        if fits { Ok(Self) } else { Err(Error::new(message())) }
    }

    fn scatter<B: Width>(
        &self,
        inputs: &Inputs<'_>,
        combine: Combine,
        _: Parallel<'_>,
        y: &mut [B],
    ) -> Result<(), ExecError> {
        let (indices, updates) = (Indices::get(inputs, 1)?, inputs.get_bits::<B>(2)?);
        let tuples = Tuples::new(inputs.shape(0)?, inputs.shape(1)?, 0);
        if updates.len() != tuples.count * tuples.inner {
            return Err(ExecError::bad_value(updates.len() as i64, tuples.count));
        }
        for index in 0..tuples.count {
            let start = tuples.slice(indices, index)?;
            let update = &updates[index * tuples.inner..][..tuples.inner];
            combine_all(combine, &mut y[start..][..tuples.inner], update);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use super::*;
    use crate::testing::{Bench, bench, tensor};

    fn bench_with(indices: &[usize], index_values: &[i64], updates: &[usize]) -> Bench {
        let data: Vec<u16> = (0..6).collect();
        let values: Vec<u16> = (10..).take(updates.iter().product()).collect();
        let run = bench("ScatterND").input(tensor(&[3, 2], &data));
        run.input(tensor(indices, index_values)).input(tensor(updates, &values))
    }

    #[test]
    fn updates_apply_to_slices_and_elements() {
        let y = bench_with(&[2, 1], &[-1, 0], &[2, 2]).one();
        assert_eq!(y.values::<u16>(), [12, 13, 2, 3, 10, 11]);
        let y = bench_with(&[1, 2, 2], &[0, 1, -2, -2], &[1, 2]).one();
        assert_eq!(y.values::<u16>(), [0, 10, 11, 3, 4, 5]);
        let y = bench_with(&[1, 0], &[], &[1, 3, 2]).one();
        assert_eq!(y.values::<u16>(), [10, 11, 12, 13, 14, 15], "an empty tuple selects all data");
        assert_eq!(bench_with(&[0, 1], &[], &[0, 2]).one().values::<u16>(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn updates_of_one_slice_apply_in_order() {
        let run = || bench_with(&[2, 1], &[1, 1], &[2, 2]);
        assert_eq!(run().one().values::<u16>(), [0, 1, 12, 13, 4, 5]);
        let sum = run().text("reduction", "add").one();
        assert_eq!(sum.values::<u16>(), [0, 1, 24, 27, 4, 5]);
        let product = run().text("reduction", "mul").one();
        assert_eq!(product.values::<u16>(), [0, 1, 240, 429, 4, 5]);
    }

    #[test]
    fn bounded_updates_are_read_in_the_run() {
        let data = tensor(&[3], &[1i64, 2, 3]);
        let indices = tensor(&[1, 1], &[2i64]).bounded(&[Dim::UpTo(4), Dim::Fixed(1)]);
        let updates = tensor(&[1], &[9i64]).bounded(&[Dim::UpTo(4)]);
        let y = bench("ScatterND").input(data).input(indices).input(updates).one();
        assert_eq!(y.values::<i64>(), [1, 2, 9]);
    }

    #[test]
    fn mismatched_updates_and_indices_out_of_range_are_refused() {
        let message = |indices: &str, updates: &str| {
            format!("input 1 is i64{indices} and input 2 u16{updates}, input 0 is u16[3,2]")
        };
        assert_eq!(bench_with(&[2, 1], &[0, 0], &[2, 3]).error(), message("[2,1]", "[2,3]"));
        assert_eq!(bench_with(&[1, 3], &[0, 0, 0], &[1]).error(), message("[1,3]", "[1]"));
        let error = bench_with(&[1, 1], &[3], &[1, 2]).error();
        assert_eq!(error, ExecError::bad_value(3, 0).to_string());
    }
}
