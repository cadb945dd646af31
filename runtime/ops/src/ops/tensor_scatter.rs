//! Writes new steps into a cache of sequences, such as the keys of attention. Each sequence has its own start position,
//! from `write_indices`.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    DType, Error, ExecError, Inputs, Node, OpSchema, Parallel, Param, Port, PortRule, Value, input,
    input_like, output_like, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::movement::Indices;
use crate::family::scatter::{Combine, Scatter, Width, combine_all, scatter};

pub(crate) const DEF: Def = scatter::<TensorScatter>();

struct TensorScatter {
    /// The axis of steps.
    axis: usize,
    past_the_end: PastTheEnd,
}

/// How steps past the end of the cache are handled.
#[derive(Clone, Copy, PartialEq)]
enum PastTheEnd {
    /// They fail the run: mode `linear`.
    Refused,
    /// They wrap around to its start: mode `circular`.
    Wrapped,
}

impl Scatter for TensorScatter {
    const SCHEMA: OpSchema = OpSchema::new(
        "TensorScatter",
        &[
            Port::required("past_cache", types::ANY),
            Port::required("update", types::ANY),
            Port::optional("write_indices", types::INDEX),
        ],
        &[Port::required("present_cache", types::ANY)],
        &[
            Param::text("mode").default(Value::text("linear")),
            Param::scalar("axis", DType::I64).default(Value::int(-2)),
        ],
    );
    const RULES: &'static [PortRule] = &[
        input(0, types::ANY).bounded(),
        input_like(1, 0).bounded(),
        input(2, types::INDEX).bounded(),
        output_like(0, 0).bounded(),
    ];

    fn plan(node: &Node<'_>) -> Result<Self, Error> {
        let (cache, update) = (node.input(0)?, node.input(1)?);
        let axis = node.axis("axis", cache.rank())?;
        if axis == 0 {
            return Err(Error::new("parameter \"axis\" is 0, the batch axis"));
        }
        let mut extents = update.shape().iter().zip(cache.shape()).enumerate();
        let fits = |(index, (new, cached)): (usize, (&usize, &usize))| {
            new == cached || index == axis && new < cached
        };
        if update.rank() != cache.rank() || !extents.all(fits) {
            let expected = format!("no more than {cache} along axis {axis}, and the same else");
            return Err(Error::new(format!("input 1 is {update}, expected {expected}")));
        }
        let batch = &cache.shape()[..1];
        if node.has_input(2) && node.input(2)?.shape() != batch {
            let indices = node.input(2)?;
            return Err(Error::new(format!(
                "input 2 is {indices}, expected one index for each of {batch:?}"
            )));
        }
        let past_the_end = match node.text("mode")? {
            "linear" => PastTheEnd::Refused,
            "circular" => PastTheEnd::Wrapped,
            mode => {
                let expected = "expected linear or circular";
                return Err(Error::new(format!("parameter \"mode\" is {mode:?}, {expected}")));
            }
        };
        Ok(Self { axis, past_the_end })
    }

    fn scatter<B: Width>(
        &self,
        inputs: &Inputs<'_>,
        combine: Combine,
        _: Parallel<'_>,
        y: &mut [B],
    ) -> Result<(), ExecError> {
        let (cache_dims, update_dims) = (inputs.shape(0)?, inputs.shape(1)?);
        let update = inputs.get_bits::<B>(1)?;
        let AxisSplit { outer, len, inner } = AxisSplit::at(cache_dims, self.axis);
        let new_steps = update_dims[self.axis];
        let starts = if inputs.has(2) { Some(Indices::get(inputs, 2)?) } else { None };
        let batch = cache_dims[0];
        if update.len() != outer * new_steps * inner
            || starts.is_some_and(|starts| starts.len() != batch)
        {
            return Err(ExecError::bad_value(update.len() as i64, 0));
        }
        if update.is_empty() {
            return Ok(());
        }
        for (block, update) in update.chunks_exact(new_steps * inner).enumerate() {
            let sequence = block / (outer / batch);
            let write_index = starts.map_or(0, |starts| starts.value(sequence));
            let refused = ExecError::bad_value(write_index, sequence);
            let start = usize::try_from(write_index).map_err(|_| refused)?;
            let y = &mut y[block * len * inner..][..len * inner];
            // The second value is the number of steps before the end of the cache.
            let (start, fitting_steps) = match self.past_the_end {
                PastTheEnd::Refused if start > len - new_steps => return Err(refused),
                PastTheEnd::Refused => (start, new_steps),
                PastTheEnd::Wrapped => (start % len, new_steps.min(len - start % len)),
            };
            let (before_end, wrapped) = update.split_at(fitting_steps * inner);
            combine_all(combine, &mut y[start * inner..][..before_end.len()], before_end);
            combine_all(combine, &mut y[..wrapped.len()], wrapped);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, bench, tensor};

    /// Two sequences of four steps of two elements, and two new steps for each.
    fn bench_with(starts: &[i64]) -> Bench {
        let update: Vec<i32> = (1..=8).collect();
        let run = bench("TensorScatter").input(tensor(&[2, 4, 2], &[0i32; 16]));
        run.input(tensor(&[2, 2, 2], &update)).input(tensor(&[starts.len()], starts))
    }

    #[test]
    fn steps_are_written_at_each_sequence_position() {
        let y = bench_with(&[0, 2]).one().values::<i32>();
        assert_eq!(y, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8]);
        let y = bench_with(&[3, 5]).text("mode", "circular").one().values::<i32>();
        assert_eq!(y, [3, 4, 0, 0, 0, 0, 1, 2, 0, 0, 5, 6, 7, 8, 0, 0]);
        let run = bench("TensorScatter").input(tensor(&[1, 2, 2], &[0u8; 4]));
        let y = run.input(tensor(&[1, 2, 1], &[7u8, 8])).int("axis", 2).one();
        assert_eq!(y.values::<u8>(), [7, 0, 8, 0]);
    }

    #[test]
    fn mismatched_inputs_are_refused() {
        let error = bench_with(&[0, 3]).error();
        assert_eq!(error, ExecError::bad_value(3, 1).to_string());
        let error = bench_with(&[-1, 0]).error();
        assert_eq!(error, ExecError::bad_value(-1, 0).to_string());
        let error = bench_with(&[0]).error();
        assert_eq!(error, "input 2 is i64[1], expected one index for each of [2]");
        let error = bench_with(&[0, 0]).int("axis", 0).error();
        assert_eq!(error, "parameter \"axis\" is 0, the batch axis");
        let error = bench_with(&[0, 0]).int("axis", 2).error();
        let expected = "no more than i32[2,4,2] along axis 2, and the same else";
        assert_eq!(error, format!("input 1 is i32[2,2,2], expected {expected}"));
        let error = bench_with(&[0, 0]).text("mode", "ring").error();
        assert_eq!(error, "parameter \"mode\" is \"ring\", expected linear or circular");
    }
}
