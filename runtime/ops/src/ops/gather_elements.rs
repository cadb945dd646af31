//! Gathers single elements. An output element comes from its own position in the data, except along `axis`, where its
//! index says the position.
//!
//! `movement` builds the operator, which only moves elements. `EXAMPLES` are tests, in which the elements of the
//! inputs count up from 0. Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bits, Buffers, Core, DType, Error, ExecError, Facts, FinalizeCx, GpuArg, GpuKernel, InferCx,
    Io, KernelDef, KernelInfo, Launch, OpSchema, Param, Port, Value, WorkItemFn, input,
    output_like, types,
};

use crate::Def;
use crate::family::axes::strides;
use crate::family::gpu::{Steps, StridedAccess, check_lens, ints};
use crate::family::movement::{
    Along, Example, INDEXED, Indices, Movement, Setting, check_along, element, kernel, movement,
    position,
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
    )
    .facts(Facts::SAME_ENCODING);
    const KERNELS: &'static [KernelDef] = &[
        kernel::<Self>(Core::CPU).ports(INDEXED),
        KernelDef::gpu::<OnGpu>("GatherElements").ports(&[
            input(0, types::ANY),
            input(1, types::INDEX),
            output_like(0, 0),
        ]),
        kernel::<Self>(Core::DSP_V68).ports(INDEXED),
    ];
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
        let along = Along::new(self.axis, data_dims, dims)?;
        // A bounded output buffer may be larger than this run's output.
        let y = &mut outputs.take_bits::<B>(0)?[..indices.len()];
        let grain = row_grain(along.row);
        parallel.chunks_mut(y, grain, |chunk, y| {
            let first_row = chunk * grain / along.row.max(1);
            for (row, y) in y.chunks_exact_mut(along.row).enumerate() {
                let positions = along.places(indices, first_row + row);
                for (y, position) in y.iter_mut().zip(positions) {
                    *y = data[position?];
                }
            }
            Ok(())
        })?;
        outputs.set_shape(0, dims)
    }
}

/// GPU kernel: one element per work item. A device cannot report errors, so there an index out of range yields zeros.
/// The emulated work item reports it.
struct OnGpu {
    /// Offset of the element at axis position 0, for each index in output order.
    first: StridedAccess,
    /// Extent of the gathered axis.
    len: usize,
    /// Stride of the gathered axis in elements.
    step: usize,
    /// Whether indices are i64.
    is_long: bool,
    /// Compiler option that defines `ELEMENT`, the type of elements in OpenCL.
    element: String,
    /// The work item in Rust, for elements of one width.
    item: fn(&Self, usize, &Buffers<'_>) -> Result<(), ExecError>,
}

impl GpuKernel for OnGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> =
        Some(|kernel, item, buffers| (kernel.item)(kernel, item.global_id[0], buffers));

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        check_lens(cx)?;
        let (data, indices) = (cx.input(0)?, cx.input(1)?);
        let axis = cx.axis("axis", data.rank())?;
        let strides = strides(data.shape());
        let mut along: Vec<isize> =
            strides.iter().take(data.rank()).map(|stride| stride.cast_signed()).collect();
        along[axis] = 0;
        let item = of_width!(data.dtype(), B => {
            let item: fn(&Self, usize, &Buffers<'_>) -> Result<(), ExecError> = Self::item::<B>;
            item
        })?;
        Ok(Self {
            first: StridedAccess::new(indices.shape(), &[Steps { start: 0, along }]),
            len: data.shape()[axis],
            step: strides[axis],
            is_long: indices.dtype() == Some(DType::I64),
            element: element(data.dtype()),
            item,
        })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let text = format!(
            "__kernel void udo_gather(__global const ELEMENT *x, __global const INDEX *indices,\n    \
             __global ELEMENT *y, const int len, const int step{}) {{\n    \
             const int i = get_global_id(0);\n{}    \
             const INDEX index = indices[i], at = index < 0 ? index + len : index;\n    \
             y[i] = at >= 0 && at < len ? x[p0 + (int)at * step] : 0;\n}}\n",
            self.first.params(),
            self.first.places()
        );
        let index = if self.is_long { "long" } else { "int" };
        let launch = Launch::new(text, "udo_gather")
            .options(format!("{} -DINDEX={index}", self.element))
            .args([GpuArg::input(0), GpuArg::input(1), GpuArg::output(0)])
            .args(ints([self.len, self.step])?)
            .args(self.first.args()?);
        info.push_launch(launch.global_size([self.first.len(), 1, 1]));
        Ok(())
    }
}

impl OnGpu {
    fn item<B: Bits>(&self, i: usize, buffers: &Buffers<'_>) -> Result<(), ExecError> {
        let index = if self.is_long {
            buffers.get::<i64>(1, i)?
        } else {
            i64::from(buffers.get::<i32>(1, i)?)
        };
        let data_index = self.first.place(0, i) + position(index, i, self.len)? * self.step;
        buffers.set_bits(0, i, buffers.get_bits::<B>(0, data_index)?)
    }
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn rows_are_divided_among_threads() {
        let (rows, cols) = (20_000, 3);
        let data: Vec<i32> = (0..rows * 5).collect();
        let indices: Vec<i64> = (0..i64::from(rows * cols)).map(|i| i * 3 % 10 - 5).collect();
        let run = bench("GatherElements").threads(3).input(tensor(&[rows as usize, 5], &data));
        let run = run.input(tensor(&[rows as usize, cols as usize], &indices)).int("axis", 1);
        for (index, y) in run.one().values::<i32>().into_iter().enumerate() {
            let expected = index / 3 * 5 + indices[index].rem_euclid(5) as usize;
            assert_eq!(y, expected as i32, "at {index}");
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
    fn mismatched_indices_are_refused() {
        let run = |dims: &[usize]| {
            let indices = tensor(dims, &vec![0i64; dims.iter().product()]);
            bench("GatherElements").input(tensor(&[2, 1], &[1u8, 2])).input(indices).error()
        };
        let expected = "no more of any axis than u8[2,1] but for axis 0";
        assert_eq!(run(&[2]), format!("input 1 is i64[2], expected {expected}"));
        assert_eq!(run(&[2, 2]), format!("input 1 is i64[2,2], expected {expected}"));
    }
}
