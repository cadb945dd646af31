//! Gathers slices along an axis by index.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Buffers, Core, DType, Dim, Error, ExecError, Facts, FinalizeCx, GpuArg, GpuKernel,
    InferCx, Io, KernelDef, KernelInfo, Launch, MAX_RANK, OpSchema, Param, Port, Shape, Value,
    WorkItemFn, input, output_like, types,
};

use crate::Def;
use crate::family::axes::AxisSplit;
use crate::family::gpu::{check_lens, ints};
use crate::family::movement::{
    Example, INDEXED, Indices, Movement, Setting, element, kernel, movement, position,
};
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
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Self>(Core::CPU).ports(INDEXED),
        KernelDef::gpu::<OnGpu>("Gather").ports(&[
            input(0, types::ANY),
            input(1, types::INDEX),
            output_like(0, 0),
        ]),
        kernel::<Self>(Core::DSP_V68).ports(INDEXED),
    ];
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
        cx.set_output(0, data.with_shape(Shape::from_dims(&dims)?))
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
        let (count, slices_per_chunk) = (indices.len(), (GRAIN / inner.max(1)).max(1));
        if inner == 0 {
            // No slice is copied below, but indices out of range must fail nevertheless.
            (0..count).try_for_each(|index| indices.position(index, len).map(drop))?;
        }
        // A bounded output buffer may be larger than this run's output.
        let y = &mut y[..outer * count * inner];
        parallel.chunks_mut(y, slices_per_chunk * inner, |chunk, y| {
            let first_slice = chunk * slices_per_chunk;
            let (mut block, mut index) = (first_slice / count, first_slice % count);
            for y in y.chunks_exact_mut(inner) {
                let start = (block * len + indices.position(index, len)?) * inner;
                match y {
                    // Single elements are assigned, because `copy_from_slice` would be a function call.
                    [y] => *y = data[start],
                    y => y.copy_from_slice(&data[start..][..inner]),
                }
                index += 1;
                if index == count {
                    (block, index) = (block + 1, 0);
                }
            }
            Ok(())
        })?;
        let mut dims = [0; MAX_RANK];
        let (before, after) = data_dims.split_at(self.axis);
        let extents = before.iter().chain(index_dims).chain(after.iter().skip(1));
        dims.iter_mut().zip(extents).for_each(|(y_dim, &dim)| *y_dim = dim);
        outputs.set_shape(0, &dims[..data_dims.len() - 1 + index_dims.len()])
    }
}

/// GPU kernel: one element per work item. A device cannot report errors, so there an index out of range yields zeros.
/// The emulated work item reports it.
struct OnGpu {
    split: AxisSplit,
    /// Number of indices.
    count: usize,
    /// Whether indices are i64.
    is_long: bool,
    /// Compiler option that defines `ELEMENT`, the type of elements in OpenCL.
    element: String,
    /// The work item in Rust, for elements of one width.
    item: fn(&Self, usize, &Buffers<'_>) -> Result<(), ExecError>,
}

const SOURCE: &str = "
__kernel void udo_gather(__global const ELEMENT *x, __global const INDEX *indices, __global ELEMENT *y,
    const int count, const int len, const int inner) {
    const int i = get_global_id(0), slice = i / inner;
    const INDEX index = indices[slice % count], at = index < 0 ? index + len : index;
    y[i] = at >= 0 && at < len ? x[(slice / count * len + (int)at) * inner + i % inner] : 0;
}
";

impl GpuKernel for OnGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let (data, indices) = (cx.input(0)?, cx.input(1)?);
        let item = of_width!(data.dtype(), B => {
            let item: fn(&Self, usize, &Buffers<'_>) -> Result<(), ExecError> = Self::item::<B>;
            item
        })?;
        Ok(Self {
            split: AxisSplit::at(data.shape(), cx.axis("axis", data.rank())?),
            count: indices.len(),
            is_long: indices.dtype() == Some(DType::I64),
            element: element(data.dtype()),
            item,
        })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let AxisSplit { outer, len, inner } = self.split;
        let index = if self.is_long { "long" } else { "int" };
        let launch = Launch::new(SOURCE, "udo_gather")
            .options(format!("{} -DINDEX={index}", self.element))
            .args([GpuArg::input(0), GpuArg::input(1), GpuArg::output(0)])
            .args(ints([self.count, len, inner])?);
        info.push_launch(launch.global_size([outer * self.count * inner, 1, 1]));
        Ok(())
    }
}

impl OnGpu {
    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let AxisSplit { len, inner, .. } = self.split;
        let (slice, index_position) = (i / inner, i / inner % self.count);
        let index = if self.is_long {
            buffers.get::<i64>(1, index_position)?
        } else {
            i64::from(buffers.get::<i32>(1, index_position)?)
        };
        let data_slice = slice / self.count * len + position(index, index_position, len)?;
        buffers.set_bits(0, i, buffers.get_bits::<B>(0, data_slice * inner + i % inner)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn slices_are_divided_among_threads() {
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
        for core in [Core::CPU, Core::GPU] {
            let run = bench("Gather").on(core).input(tensor(&[3], &[1u8, 2, 3]));
            let error = run.input(tensor(&[2], &[1i64, 3])).error();
            assert_eq!(error, ExecError::bad_value(3, 1).to_string());
        }
    }

    #[test]
    fn bounded_indices_bound_the_output() {
        let indices = tensor(&[2], &[2i64, 0]).bounded(&[Dim::UpTo(5)]);
        let y = bench("Gather").input(tensor(&[3, 2], &[1u8, 2, 3, 4, 5, 6])).input(indices).one();
        assert_eq!(y.desc().full_shape().to_string(), "[<=5,2]");
        assert_eq!((y.dims(), y.values::<u8>()), (vec![2, 2], vec![5, 6, 1, 2]));
    }
}
