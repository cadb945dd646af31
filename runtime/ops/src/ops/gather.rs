//! The slices along an axis that indices ask for.

use udo_api::{
    Core, DType, Dim, Element, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    KernelFlags, MAX_RANK, Op, OpSchema, Param, Port, Shape, Value, input, output_like,
    resolve_axis, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;

pub(crate) const DEF: Def = Def::of::<Gather>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Slices>("Gather", Core::CPU)
    .types(&[input(0, types::ANY), input(1, types::INDEX), output_like(0, 0)])
    .flags(KernelFlags::BOUNDED)];

struct Gather;

impl Op for Gather {
    const SCHEMA: OpSchema = OpSchema::new(
        "Gather",
        &[Port::required("data", types::ANY), Port::required("indices", types::INDEX)],
        &[Port::required("output", types::ANY)],
        &[Param::scalar("axis", DType::I64).default(Value::int(0))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let (data, indices) = (cx.input(0)?, cx.input(1)?);
        let axis = cx.axis("axis", data.rank())?;
        let mut dims: Vec<Dim> = data.full_shape().iter().collect();
        dims.splice(axis..=axis, indices.full_shape().iter());
        cx.set_output(0, data.with_shape(Shape::of_dims(&dims)?))
    }
}

struct Slices {
    axis: usize,
    run: fn(usize, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Slices {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let data = cx.input(0)?;
        let axis = cx.axis("axis", data.rank())?;
        let run = of_any!(data.dtype(), T => {
            of_type!(cx.input(1)?.dtype(), [I32 = i32, I64 = i64], I => execute::<T, I>)
        })??;
        Ok(Self { axis, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.axis, io)
    }
}

fn execute<T: Element, I: Element + Into<i64>>(
    axis: usize,
    mut io: Io<'_>,
) -> Result<(), ExecError> {
    let (data, indices) = (io.inputs.get::<T>(0)?, io.inputs.get::<I>(1)?);
    let (data_dims, index_dims) = (io.inputs.shape(0)?, io.inputs.shape(1)?);
    let y = io.outputs.take::<T>(0)?;
    let AxisSplit { outer, len, inner } = AxisSplit::at(data_dims, axis);
    for block in 0..outer {
        for (at, &index) in indices.iter().enumerate() {
            let index = index.into();
            let from = resolve_axis(index, len).ok_or(ExecError::bad_value(index, at))?;
            let to = &mut y[(block * indices.len() + at) * inner..][..inner];
            to.copy_from_slice(&data[(block * len + from) * inner..][..inner]);
        }
    }
    let mut dims = [0; MAX_RANK];
    let (before, after) = data_dims.split_at(axis);
    let extents = before.iter().chain(index_dims).chain(after.iter().skip(1));
    dims.iter_mut().zip(extents).for_each(|(to, &dim)| *to = dim);
    io.outputs.set_shape(0, &dims[..data_dims.len() - 1 + index_dims.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn indices_count_from_either_end() {
        let data = tensor(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let run = bench("Gather").input(data.clone()).input(tensor(&[2, 1], &[0i64, -1]));
        let y = run.int("axis", 1).one();
        assert_eq!((y.dims(), y.values::<f32>()), (vec![2, 2, 1], vec![1.0, 3.0, 4.0, 6.0]));
        let y = bench("Gather").input(data).input(tensor(&[], &[1i32])).one();
        assert_eq!((y.dims(), y.values::<f32>()), (vec![3], vec![4.0, 5.0, 6.0]));
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
