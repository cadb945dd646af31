//! An arithmetic progression from `start` up or down to `limit`, exclusive, in steps of `delta`.

use udo_api::{
    Bf16, Core, DType, Element, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    Node, Op, OpSchema, Param, Port, Shape, TensorDesc, Value,
};

use crate::Def;
use crate::family::steps::{Fill, NUMBERS, Steps, filler};

pub(crate) const DEF: Def = Def::new::<Range>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Progression>("Range", Core::CPU)];

struct Range;

impl Op for Range {
    const SCHEMA: OpSchema = OpSchema::new(
        "Range",
        &[
            Port::required("start", NUMBERS).constant(),
            Port::required("limit", NUMBERS).constant(),
            Port::required("delta", NUMBERS).constant(),
        ],
        &[Port::required("output", NUMBERS)],
        &[Param::scalar("stash_type", DType::I64).default(Value::int(1))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let dtype = Steps::dtype(cx)?;
        let count = constant_range(cx)?.1;
        cx.set_output(0, TensorDesc::new(dtype, Shape::new(&[count])?))
    }
}

/// Returns the progression of constant inputs, and its length.
fn constant_range(node: &Node<'_>) -> Result<(Steps, usize), Error> {
    if Steps::dtype(node)?.is_float() {
        let [start, limit, delta] = [float(node, 0)?, float(node, 1)?, float(node, 2)?];
        let endless = || Error::new(format!("{start} to {limit} by {delta} does not end"));
        return Steps::floats([start, limit, delta]).ok_or_else(endless);
    }
    let [start, limit, delta] = [int(node, 0)?, int(node, 1)?, int(node, 2)?];
    let endless = || Error::new(format!("{start} to {limit} by {delta} does not end"));
    Steps::ints([start, limit, delta]).ok_or_else(endless)
}

fn float(node: &Node<'_>, port: usize) -> Result<f64, Error> {
    match node.input(port)?.dtype() {
        Some(DType::F32) => Ok(f64::from(single::<f32>(node.constant(port)?, port)?)),
        Some(DType::F16) => Ok(f64::from(single::<F16>(node.constant(port)?, port)?.to_f32())),
        Some(DType::Bf16) => Ok(f64::from(single::<Bf16>(node.constant(port)?, port)?.to_f32())),
        _ => single(node.constant(port)?, port),
    }
}

fn int(node: &Node<'_>, port: usize) -> Result<i64, Error> {
    match node.input(port)?.dtype() {
        Some(DType::I16) => Ok(i64::from(single::<i16>(node.constant(port)?, port)?)),
        _ => single(node.constant_ints(port)?.as_deref(), port),
    }
}

/// Returns the single element of a constant input.
fn single<T: Element>(values: Option<&[T]>, port: usize) -> Result<T, Error> {
    match values {
        Some([value]) => Ok(*value),
        Some(values) => {
            Err(Error::new(format!("input {port} has {} elements, expected one", values.len())))
        }
        None => Err(Error::new(format!("input {port} is not known before the run"))),
    }
}

struct Progression {
    steps: Steps,
    count: usize,
    /// Writes the output for the element type.
    fill: Fill,
}

impl Kernel for Progression {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (steps, count) = constant_range(cx)?;
        Ok(Self { steps, count, fill: filler(cx.output(0)?.dtype())? })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.fill)(self.steps, self.count, io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, bench, tensor};

    fn bench_with<T: Element>(steps: [T; 3]) -> Bench {
        let run = |run: Bench, value: T| run.constant(tensor(&[], &[value]));
        steps.into_iter().fold(bench("Range"), run)
    }

    #[test]
    fn ranges_ascend_or_descend_and_exclude_the_limit() {
        let ints = |steps: [i64; 3]| bench_with(steps).one().values::<i64>();
        assert_eq!(ints([3, 9, 3]), [3, 6]);
        assert_eq!(ints([3, 10, 3]), [3, 6, 9]);
        assert_eq!(ints([10, 4, -2]), [10, 8, 6]);
        assert_eq!(ints([10, 5, -2]), [10, 8, 6]);
        assert_eq!(ints([10, 4, 2]), [0i64; 0]);
        assert_eq!(ints([4, 4, -1]), [0i64; 0]);
        assert_eq!(ints([i64::MIN, i64::MAX, i64::MAX]), [i64::MIN, -1, i64::MAX - 1]);
        assert_eq!(bench_with([5i16, -5, -4]).one().values::<i16>(), [5, 1, -3]);
        assert_eq!(bench_with([0i32, 3, 1]).one().values::<i32>(), [0, 1, 2]);
        let floats = bench_with([1f32, 0.0, -0.25]).one().values::<f32>();
        assert_eq!(floats, [1.0, 0.75, 0.5, 0.25]);
        assert_eq!(bench_with([0.0f64, 1.1, 0.5]).one().values::<f64>(), [0.0, 0.5, 1.0]);
        let half_values = bench_with([0.0, 2.0, 0.75].map(F16::from_f32)).one().values::<F16>();
        assert_eq!(half_values, [0.0, 0.75, 1.5].map(F16::from_f32));
        let large = bench_with([0i32, 100_000, 1]).threads(3).one().values::<i32>();
        assert!(large.into_iter().eq(0..100_000));
    }

    #[test]
    fn endless_ranges_are_refused() {
        assert_eq!(bench_with([1i64, 2, 0]).error(), "1 to 2 by 0 does not end");
        assert_eq!(bench_with([1f32, 2.0, 0.0]).error(), "1 to 2 by 0 does not end");
        assert_eq!(bench_with([1f32, f32::INFINITY, 1.0]).error(), "1 to inf by 1 does not end");
        assert_eq!(bench_with([1f32, f32::NAN, 1.0]).error(), "1 to NaN by 1 does not end");
    }

    #[test]
    fn inputs_are_constants_of_one_type() {
        let run = bench("Range").input(tensor(&[], &[0i64])).constant(tensor(&[], &[1i64]));
        let error = run.constant(tensor(&[], &[1i64])).error();
        assert_eq!(error, "input 0 is not known before the run");
        let run = bench("Range").constant(tensor(&[], &[0i64])).constant(tensor(&[], &[1i32]));
        let error = run.constant(tensor(&[], &[1i64])).error();
        assert_eq!(error, "input 1 is i32[], input 0 is i64[]");
    }
}
