//! The slices along an axis that indices ask for.

use udo_api::{
    Bits, Core, DType, Dim, Error, ExecError, FinalizeCx, InferCx, Io, KernelDef, MAX_RANK,
    OpSchema, Param, Port, Shape, Value, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::movement::{Example, INDEXED, Indices, Movement, Setting, kernel, movement};
use crate::family::partition::GRAIN;

pub(crate) const DEF: Def = movement::<Gather>();

struct Gather {
    axis: usize,
}

impl Movement for Gather {
    const SCHEMA: OpSchema = OpSchema::new(
        "Gather",
        &[Port::required("data", types::ANY), Port::required("indices", types::INDEX)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("axis", DType::I64).default(Value::int(0))],
    );
    const KERNELS: &'static [KernelDef] = &[kernel::<Self>(Core::CPU).ports(INDEXED)];
    const EXAMPLES: &'static [Example] = &[
        Example {
            inputs: &[&[2, 3]],
            ints: &[(&[2, 1], &[0, -1])],
            params: &[("axis", Setting::Int(1))],
            outputs: &[(&[2, 2, 1], &[0, 2, 3, 5])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 3]],
            ints: &[(&[], &[1])],
            outputs: &[(&[3], &[3, 4, 5])],
            ..Example::NONE
        },
        Example {
            inputs: &[&[2, 0]],
            ints: &[(&[1], &[1])],
            outputs: &[(&[1, 0], &[])],
            ..Example::NONE
        },
    ];

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (data, indices) = (cx.input(0)?, cx.input(1)?);
        let axis = cx.axis("axis", data.rank())?;
        let mut dims: Vec<Dim> = data.full_shape().iter().collect();
        dims.splice(axis..=axis, indices.full_shape().iter());
        cx.set_output(0, data.with_shape(Shape::of_dims(&dims)?))
    }

    fn plan(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self { axis: cx.axis("axis", cx.input(0)?.rank())? })
    }

    fn execute<B: Bits>(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, parallel, .. } = io;
        let (data, indices) = (inputs.get_bits::<B>(0)?, Indices::get(&inputs, 1)?);
        let (data_dims, index_dims) = (inputs.shape(0)?, inputs.shape(1)?);
        let y = outputs.take_bits::<B>(0)?;
        let AxisSplit { outer, len, inner } = AxisSplit::at(data_dims, self.axis);
        let (count, slices) = (indices.len(), (GRAIN / inner.max(1)).max(1));
        if inner == 0 {
            (0..count).try_for_each(|at| indices.position(at, len).map(drop))?;
        }
        // A bounded output has room for more than the run's elements.
        let y = &mut y[..outer * count * inner];
        parallel.chunks_mut(y, slices * inner, |chunk, y| {
            let (mut block, mut at) = (chunk * slices / count, chunk * slices % count);
            for y in y.chunks_exact_mut(inner) {
                let from = (block * len + indices.position(at, len)?) * inner;
                match y {
                    // A copy of one element is a call for others.
                    [y] => *y = data[from],
                    y => y.copy_from_slice(&data[from..][..inner]),
                }
                at += 1;
                if at == count {
                    (block, at) = (block + 1, 0);
                }
            }
            Ok(())
        })?;
        let mut dims = [0; MAX_RANK];
        let (before, after) = data_dims.split_at(self.axis);
        let extents = before.iter().chain(index_dims).chain(after.iter().skip(1));
        dims.iter_mut().zip(extents).for_each(|(to, &dim)| *to = dim);
        outputs.set_shape(0, &dims[..data_dims.len() - 1 + index_dims.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn many_slices_are_shared_out() {
        let data: Vec<i32> = (0..1000 * 37).collect();
        let indices: Vec<i32> = (0..3000).map(|i| i * 7 % 1000 - i % 2 * 1000).collect();
        let run = bench("Gather").threads(3).input(tensor(&[1000, 37], &data));
        let y = run.input(tensor(&[3000], &indices)).one().values::<i32>();
        for (y, index) in y.chunks(37).zip(indices) {
            let first = index.rem_euclid(1000) * 37;
            assert!(y.iter().copied().eq(first..first + 37));
        }
    }

    #[test]
    fn an_index_beyond_the_end_is_a_bad_value() {
        let run = bench("Gather").input(tensor(&[3], &[1u8, 2, 3]));
        let error = run.input(tensor(&[2], &[1i64, 3])).error();
        assert_eq!(error, ExecError::bad_value(3, 1).to_string());
    }

    #[test]
    fn bounded_indices_bound_the_output() {
        let indices = tensor(&[2], &[2i64, 0]).bounded(&[Dim::UpTo(5)]);
        let y = bench("Gather").input(tensor(&[3, 2], &[1u8, 2, 3, 4, 5, 6])).input(indices).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5,2]");
        assert_eq!((y.dims(), y.values::<u8>()), (vec![2, 2], vec![5, 6, 1, 2]));
    }
}
