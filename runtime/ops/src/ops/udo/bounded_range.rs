//! `Range` with start, limit and delta that the kernel reads in each run. The parameters `least` and `most` bound the
//! length of the output.

use udo_api::{
    Bf16, Core, DType, Element, Error, ExecError, F16, FinalizeCx, InferCx, Inputs, Io, Kernel,
    KernelDef, Op, OpSchema, Port, Status, TensorDesc, output,
};

use crate::Def;
use crate::family::bounded::{LEAST, MOST, shape};
use crate::family::steps::{Fill, NUMBERS, Steps, filler};
use crate::number::refuse_type;

pub(crate) const DEF: Def = Def::new::<BoundedRange>(KERNELS);

const KERNELS: &[KernelDef] =
    &[KernelDef::new::<Numbers>("BoundedRange", Core::CPU).ports(&[output(0, NUMBERS).bounded()])];

struct BoundedRange;

impl Op for BoundedRange {
    const SCHEMA: OpSchema = OpSchema::new(
        "BoundedRange",
        &[
            Port::required("start", NUMBERS),
            Port::required("limit", NUMBERS),
            Port::required("delta", NUMBERS),
        ],
        &[Port::required("output", NUMBERS)],
        &[LEAST, MOST],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = shape(cx)?;
        let dtype = Steps::dtype(cx)?;
        cx.set_output(0, TensorDesc::new(dtype, shape))
    }
}

struct Numbers {
    /// Reads the inputs for the element type.
    read: Read,
    /// Writes the output for the element type.
    fill: Fill,
}

/// Reads the progression and its length from the inputs of a run.
type Read = fn(&Inputs<'_>) -> Result<Option<(Steps, usize)>, ExecError>;

impl Kernel for Numbers {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.output(0)?.dtype();
        let read: Read = match dtype {
            Some(DType::F32) => |inputs| Ok(Steps::floats(read_scalars(inputs)?.map(f32::into))),
            Some(DType::F64) => |inputs| Ok(Steps::floats(read_scalars(inputs)?)),
            Some(DType::F16) => {
                |inputs| Ok(Steps::floats(read_scalars(inputs)?.map(|x: F16| x.to_f32().into())))
            }
            Some(DType::Bf16) => {
                |inputs| Ok(Steps::floats(read_scalars(inputs)?.map(|x: Bf16| x.to_f32().into())))
            }
            Some(DType::I16) => |inputs| Ok(Steps::ints(read_scalars(inputs)?.map(i16::into))),
            Some(DType::I32) => |inputs| Ok(Steps::ints(read_scalars(inputs)?.map(i32::into))),
            Some(DType::I64) => |inputs| Ok(Steps::ints(read_scalars(inputs)?)),
            other => return Err(refuse_type(other)),
        };
        Ok(Self { read, fill: filler(dtype)? })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (steps, count) = (self.read)(&io.inputs)?.ok_or(ExecError::new(Status::BAD_VALUE))?;
        io.outputs.set_shape(0, &[count])?;
        (self.fill)(steps, count, io)
    }
}

/// Reads the three scalar inputs.
fn read_scalars<T: Element>(inputs: &Inputs<'_>) -> Result<[T; 3], ExecError> {
    let scalar = |port: usize| {
        let numbers = inputs.get::<T>(port)?;
        numbers.first().copied().ok_or(ExecError::bad_value(0, port))
    };
    Ok([scalar(0)?, scalar(1)?, scalar(2)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, bench, tensor};

    fn bench_with<T: Element>(steps: [T; 3]) -> Bench {
        let run = bench("udo:BoundedRange").ints("least", &[0]).ints("most", &[4]);
        steps.into_iter().fold(run, |run, number| run.input(tensor(&[], &[number])))
    }

    #[test]
    fn start_limit_and_delta_are_read_in_the_run() {
        assert_eq!(bench_with([3i64, 9, 2]).one().values::<i64>(), [3, 5, 7]);
        assert_eq!(bench_with([3i32, 3, 2]).one().values::<i32>(), [0i32; 0]);
        assert_eq!(bench_with([3i16, 1, -1]).one().values::<i16>(), [3, 2]);
        assert_eq!(bench_with([0f32, 1.0, 0.5]).one().values::<f32>(), [0.0, 0.5]);
        assert_eq!(bench_with([0f64, 1.0, 0.25]).one().values::<f64>(), [0.0, 0.25, 0.5, 0.75]);
        let half = |x: f32| F16::from_f32(x);
        let half_values = bench_with([0.0, 1.0, 0.5].map(half)).one().values::<F16>();
        assert_eq!(half_values, [0.0, 0.5].map(half));
        let half = |x: f32| Bf16::from_f32(x);
        let half_values = bench_with([0.0, 1.0, 0.5].map(half)).one().values::<Bf16>();
        assert_eq!(half_values, [0.0, 0.5].map(half));
    }

    #[test]
    fn too_many_elements_and_endless_ranges_fail() {
        bench_with([0i64, 5, 1]).error();
        bench_with([0i64, 5, 0]).error();
        bench_with([0f32, f32::INFINITY, 1.0]).error();
    }
}
