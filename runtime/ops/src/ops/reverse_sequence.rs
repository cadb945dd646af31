//! Reverses the first `sequence_lens[b]` steps of sequence `b`; the other steps stay in place.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, OpSchema, Param, Port,
    Value, types,
};

use crate::Def;
use crate::family::movement::{Example, INDEXED, Indices, Movement, Setting, kernel, movement};
use crate::family::partition::row_grain;

pub(crate) const DEF: Def = movement::<ReverseSequence>();

struct ReverseSequence {
    /// 0 or 1. The other one of the first two axes is the batch.
    time_axis: usize,
}

impl Movement for ReverseSequence {
    const SCHEMA: OpSchema = OpSchema::new(
        "ReverseSequence",
        &[Port::required("input", types::ANY), Port::required("sequence_lens", types::INDEX)],
        &[Port::required("Y", types::ANY)],
        &[
            Param::scalar("batch_axis", DType::I64).default(Value::int(1)),
            Param::scalar("time_axis", DType::I64).default(Value::int(0)),
        ],
    );
    const KERNELS: &'static [KernelDef] = &[kernel::<Self>(Core::CPU).ports(INDEXED)];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[3, 2]],
            ints: &[(&[2], &[3, 2])],
            outputs: &[(&[3, 2], &[4, 3, 2, 1, 0, 5])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 3, 2]],
            ints: &[(&[2], &[2, 0])],
            params: &[("batch_axis", Setting::Int(0)), ("time_axis", Setting::Int(1))],
            outputs: &[(&[2, 3, 2], &[2, 3, 0, 1, 4, 5, 6, 7, 8, 9, 10, 11])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (x, lens) = (cx.input(0)?, cx.input(1)?);
        let axes = (cx.int("batch_axis")?, cx.int("time_axis")?);
        let batch_axis = match axes {
            (0, 1) => 0,
            (1, 0) => 1,
            _ => {
                let expected = "expected 0 and 1, or 1 and 0";
                return Err(Error::new(format!(
                    "parameters \"batch_axis\" and \"time_axis\" are {axes:?}, {expected}"
                )));
            }
        };
        let batch = x.shape().get(batch_axis).copied();
        if x.rank() < 2 || lens.rank() != 1 || lens.shape().first().copied() != batch {
            let expected = format!("a length for each position of axis {batch_axis} of {x}");
            return Err(Error::new(format!("input 1 is {lens}, expected {expected}")));
        }
        cx.set_output(0, x)
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { time_axis: usize::from(cx.int("time_axis")? != 0) })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (x, dims) = (inputs.get_bits::<B>(0)?, inputs.shape(0)?);
        let lens = Indices::get(&inputs, 1)?;
        let &[outer, middle, ref after @ ..] = dims else {
            return Err(ExecError::bad_value(0, 0));
        };
        let inner: usize = after.iter().product();
        let (steps, batch) = if self.time_axis == 0 { (outer, middle) } else { (middle, outer) };
        if lens.len() != batch {
            return Err(ExecError::bad_value(lens.len() as i64, 0));
        }
        let y = &mut outputs.take_bits::<B>(0)?[..x.len()];
        let grain = row_grain(inner);
        parallel.chunks_mut(y, grain, |chunk, y| {
            for (index, y) in y.chunks_exact_mut(inner).enumerate() {
                let y_row = chunk * grain / inner + index;
                let (outer_index, middle_index) = (y_row / middle, y_row % middle);
                let (step, sequence) = match self.time_axis {
                    0 => (outer_index, middle_index),
                    _ => (middle_index, outer_index),
                };
                let len = lens.value(sequence);
                let len = usize::try_from(len).ok().filter(|&len| len <= steps);
                let len = len.ok_or(ExecError::bad_value(lens.value(sequence), sequence))?;
                let x_step = if step < len { len - 1 - step } else { step };
                let x_row = match self.time_axis {
                    0 => x_step * middle + sequence,
                    _ => sequence * middle + x_step,
                };
                y.copy_from_slice(&x[x_row * inner..][..inner]);
            }
            Ok(())
        })?;
        outputs.set_shape(0, dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, bench, tensor};

    fn bench_with(lens: &[i64]) -> Bench {
        let run = bench("ReverseSequence").input(tensor(&[2, 2], &[1u8, 2, 3, 4]));
        run.input(tensor(&[lens.len()], lens))
    }

    #[test]
    fn invalid_lengths_are_refused() {
        assert_eq!(bench_with(&[3, 0]).error(), ExecError::bad_value(3, 0).to_string());
        assert_eq!(bench_with(&[0, -1]).error(), ExecError::bad_value(-1, 1).to_string());
        let error = bench_with(&[1]).error();
        assert_eq!(
            error,
            "input 1 is i64[1], expected a length for each position of axis 1 of u8[2,2]"
        );
        let error = bench_with(&[1, 1]).int("batch_axis", 0).error();
        let expected = "expected 0 and 1, or 1 and 0";
        assert_eq!(
            error,
            format!("parameters \"batch_axis\" and \"time_axis\" are (0, 0), {expected}")
        );
    }

    #[test]
    fn steps_are_divided_among_threads() {
        let x: Vec<i32> = (0..600 * 4 * 31).collect();
        let lens: Vec<i64> = vec![600, 300, 1, 0];
        let run = bench("ReverseSequence").threads(3).input(tensor(&[600, 4, 31], &x));
        let y = run.input(tensor(&[4], &lens)).one().values::<i32>();
        for (index, y) in y.into_iter().enumerate() {
            // Extents are 600 steps, 4 sequences and 31 elements.
            let (step, sequence) = (index / 124, index / 31 % 4);
            let len = lens[sequence] as usize;
            let x_step = if step < len { len - 1 - step } else { step };
            assert_eq!(y, (x_step * 124 + index % 124) as i32);
        }
    }
}
