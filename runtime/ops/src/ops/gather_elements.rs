//! For each index the element that it asks for along an axis, all other positions kept.

use udo_api::{
    Bits, Core, DType, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, OpSchema, Param, Port,
    Value, types,
};

use crate::Def;
use crate::family::movement::{
    Along, Example, INDEXED, Indices, Movement, Setting, check_along, kernel, movement,
};
use crate::family::partition::row_grain;

pub(crate) const DEF: Def = movement::<GatherElements>();

struct GatherElements {
    axis: usize,
}

impl Movement for GatherElements {
    const SCHEMA: OpSchema = OpSchema::new(
        "GatherElements",
        &[Port::required("data", types::ANY), Port::required("indices", types::INDEX)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("axis", DType::I64).default(Value::int(0))],
    );
    const KERNELS: &'static [KernelDef] = &[kernel::<Self>(Core::CPU).ports(INDEXED)];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[2, 2]],
            ints: &[(&[2, 2], &[0, 0, 1, 0])],
            params: &[("axis", Setting::Int(1))],
            outputs: &[(&[2, 2], &[0, 0, 3, 2])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[3, 3]],
            ints: &[(&[2, 3], &[1, -1, 0, 2, 0, 0])],
            outputs: &[(&[2, 3], &[3, 7, 2, 6, 1, 2])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 2, 3]],
            ints: &[(&[1, 3, 2], &[1, 0, 0, 0, -1, -2])],
            params: &[("axis", Setting::Int(-2))],
            outputs: &[(&[1, 3, 2], &[3, 1, 0, 1, 3, 1])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 2]],
            ints: &[(&[2, 0], &[])],
            outputs: &[(&[2, 0], &[])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (data, indices) = (cx.input(0)?, cx.input(1)?);
        check_along(cx.axis("axis", data.rank())?, &data, &indices)?;
        cx.set_output(0, data.with_shape(indices.full_shape()))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { axis: cx.axis("axis", cx.input(0)?.rank())? })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (data, indices) = (inputs.get_bits::<B>(0)?, Indices::get(&inputs, 1)?);
        let (data_dims, dims) = (inputs.shape(0)?, inputs.shape(1)?);
        let along = Along::of(self.axis, data_dims, dims)?;
        // A bounded output has room for more than the run's elements.
        let y = &mut outputs.take_bits::<B>(0)?[..indices.len()];
        let grain = row_grain(along.row);
        parallel.chunks_mut(y, grain, |chunk, y| {
            let first = chunk * grain / along.row.max(1);
            for (row, y) in y.chunks_exact_mut(along.row).enumerate() {
                let places = along.places(indices, first + row);
                for (y, from) in y.iter_mut().zip(places) {
                    *y = data[from?];
                }
            }
            Ok(())
        })?;
        outputs.set_shape(0, dims)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn many_rows_are_shared_out() {
        let (rows, cols) = (20_000, 3);
        let data: Vec<i32> = (0..rows * 5).collect();
        let indices: Vec<i64> = (0..i64::from(rows * cols)).map(|i| i * 3 % 10 - 5).collect();
        let run = bench("GatherElements").threads(3).input(tensor(&[rows as usize, 5], &data));
        let run = run.input(tensor(&[rows as usize, cols as usize], &indices)).int("axis", 1);
        for (at, y) in run.one().values::<i32>().into_iter().enumerate() {
            let wanted = at / 3 * 5 + indices[at].rem_euclid(5) as usize;
            assert_eq!(y, wanted as i32, "{at}");
        }
    }

    #[test]
    fn an_index_beyond_the_end_is_a_bad_value() {
        let run = bench("GatherElements").input(tensor(&[3, 1], &[1u8, 2, 3]));
        let error = run.input(tensor(&[2, 1], &[1i64, 3])).error();
        assert_eq!(error, ExecError::bad_value(3, 1).to_string());
    }

    #[test]
    fn bounded_indices_bound_the_output() {
        let indices = tensor(&[2], &[2i64, 0]).bounded(&[Dim::UpTo(5)]);
        let y = bench("GatherElements").input(tensor(&[3], &[1u8, 2, 3])).input(indices).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5]");
        assert_eq!(y.values::<u8>(), [3, 1]);
    }

    #[test]
    fn indices_that_do_not_fit_are_refused() {
        let run = |dims: &[usize]| {
            let indices = tensor(dims, &vec![0i64; dims.iter().product()]);
            bench("GatherElements").input(tensor(&[2, 1], &[1u8, 2])).input(indices).error()
        };
        let wanted = "no more of any axis than u8[2,1] but for axis 0";
        assert_eq!(run(&[2]), format!("input 1 is i64[2], wanted {wanted}"));
        assert_eq!(run(&[2, 2]), format!("input 1 is i64[2,2], wanted {wanted}"));
    }
}
