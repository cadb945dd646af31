//! Numbers from a start up to a limit, or down, at a distance.

use udo_api::{
    Bf16, Core, DType, Element, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel, KernelDef,
    Node, Op, OpSchema, Param, Port, Shape, TensorDesc, TypeSet, Value, types,
};

use crate::Def;
use crate::family::partition::GRAIN;
use crate::number::refuse_type;

pub(crate) const DEF: Def = Def::of::<Range>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Numbers>("Range", Core::CPU)];

const TYPES: TypeSet = types::FLOATS.or(types::I16).or(types::I32).or(types::I64);

struct Range;

impl Op for Range {
    const SCHEMA: OpSchema = OpSchema::new(
        "Range",
        &[
            Port::required("start", TYPES).constant(),
            Port::required("limit", TYPES).constant(),
            Port::required("delta", TYPES).constant(),
        ],
        &[Port::required("output", TYPES)],
        &[Param::scalar("stash_type", DType::I64).default(Value::int(1))],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        for port in [1, 2] {
            let other = cx.input(port)?;
            if other.dtype() != x.dtype() {
                return Err(Error::new(format!("input {port} is {other}, input 0 is {x}")));
            }
        }
        let Some(dtype) = x.dtype() else { return Err(Error::new("input 0 is missing")) };
        let count = Steps::read(cx)?.1;
        cx.set_output(0, TensorDesc::new(dtype, Shape::new(&[count])?))
    }
}

/// The first number, and how far it is to the next.
#[derive(Clone, Copy, Debug)]
enum Steps {
    Ints([i64; 2]),
    Floats([f64; 2]),
}

impl Steps {
    /// What the node says, and how many numbers that is.
    fn read(node: &Node<'_>) -> Result<(Self, usize), Error> {
        let dtype = node.input(0)?.dtype();
        if dtype.is_some_and(DType::is_float) {
            let [start, limit, delta] = [float(node, 0)?, float(node, 1)?, float(node, 2)?];
            let count = ((limit - start) / delta).ceil();
            if delta == 0.0 || !count.is_finite() || count > MOST {
                return Err(Error::new(format!("{start} to {limit} by {delta} does not end")));
            }
            // What is negative becomes 0.
            return Ok((Self::Floats([start, delta]), count as usize));
        }
        let [start, limit, delta] = [int(node, 0)?, int(node, 1)?, int(node, 2)?];
        let refused = || Error::new(format!("{start} to {limit} by {delta} does not end"));
        let between = i128::from(limit) - i128::from(start);
        let delta_wide = i128::from(delta);
        let full = between.checked_div(delta_wide).ok_or_else(refused)?;
        let count = full + i128::from(between % delta_wide != 0 && (between > 0) == (delta > 0));
        let count = usize::try_from(count.max(0)).map_err(|_| refused())?;
        Ok((Self::Ints([start, delta]), count))
    }

    /// Number `at` of those that are integers.
    fn int(self, at: usize) -> i64 {
        match self {
            Self::Ints([start, delta]) => start.wrapping_add(delta.wrapping_mul(at as i64)),
            Self::Floats(_) => 0,
        }
    }

    /// Number `at` of those that are not, rounded by who stores it.
    fn float(self, at: usize) -> f64 {
        match self {
            Self::Ints(_) => 0.0,
            Self::Floats([start, delta]) => start + at as f64 * delta,
        }
    }
}

/// Beyond this a count is not exact.
const MOST: f64 = (1u64 << 53) as f64;

fn float(node: &Node<'_>, port: usize) -> Result<f64, Error> {
    match node.input(port)?.dtype() {
        Some(DType::F32) => Ok(f64::from(one::<f32>(node.constant(port)?, port)?)),
        Some(DType::F16) => Ok(f64::from(one::<F16>(node.constant(port)?, port)?.to_f32())),
        Some(DType::Bf16) => Ok(f64::from(one::<Bf16>(node.constant(port)?, port)?.to_f32())),
        _ => one(node.constant(port)?, port),
    }
}

fn int(node: &Node<'_>, port: usize) -> Result<i64, Error> {
    match node.input(port)?.dtype() {
        Some(DType::I16) => Ok(i64::from(one::<i16>(node.constant(port)?, port)?)),
        _ => one(node.constant_ints(port)?.as_deref(), port),
    }
}

/// The one element of a constant.
fn one<T: Element>(values: Option<&[T]>, port: usize) -> Result<T, Error> {
    match values {
        Some([value]) => Ok(*value),
        Some(values) => {
            Err(Error::new(format!("input {port} has {} elements, wanted one", values.len())))
        }
        None => Err(Error::new(format!("input {port} is not known before the run"))),
    }
}

struct Numbers {
    steps: Steps,
    run: fn(Steps, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Numbers {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run: fn(Steps, Io<'_>) -> _ = match cx.output(0)?.dtype() {
            Some(DType::F32) => |steps, io| fill(io, |at| steps.float(at) as f32),
            Some(DType::F64) => |steps, io| fill(io, |at| steps.float(at)),
            Some(DType::F16) => |steps, io| fill(io, |at| F16::from_f32(steps.float(at) as f32)),
            Some(DType::Bf16) => |steps, io| fill(io, |at| Bf16::from_f32(steps.float(at) as f32)),
            Some(DType::I16) => |steps, io| fill(io, |at| steps.int(at) as i16),
            Some(DType::I32) => |steps, io| fill(io, |at| steps.int(at) as i32),
            Some(DType::I64) => |steps, io| fill(io, |at| steps.int(at)),
            found => return Err(refuse_type(found)),
        };
        Ok(Self { steps: Steps::read(cx)?.0, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.steps, io)
    }
}

fn fill<T: Element>(mut io: Io<'_>, of: impl Fn(usize) -> T + Sync) -> Result<(), ExecError> {
    let y = io.outputs.take::<T>(0)?;
    io.parallel.chunks_mut(y, GRAIN, |chunk, y| {
        (chunk * GRAIN..).zip(y).for_each(|(at, y)| *y = of(at));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, bench, tensor};

    fn given<T: Element>(of: [T; 3]) -> Bench {
        let run = |run: Bench, value: T| run.constant(tensor(&[], &[value]));
        of.into_iter().fold(bench("Range"), run)
    }

    #[test]
    fn numbers_go_up_and_down_to_before_the_limit() {
        let ints = |of: [i64; 3]| given(of).one().values::<i64>();
        assert_eq!(ints([3, 9, 3]), [3, 6]);
        assert_eq!(ints([3, 10, 3]), [3, 6, 9]);
        assert_eq!(ints([10, 4, -2]), [10, 8, 6]);
        assert_eq!(ints([10, 5, -2]), [10, 8, 6]);
        assert_eq!(ints([10, 4, 2]), [0i64; 0]);
        assert_eq!(ints([4, 4, -1]), [0i64; 0]);
        assert_eq!(ints([i64::MIN, i64::MAX, i64::MAX]), [i64::MIN, -1, i64::MAX - 1]);
        assert_eq!(given([5i16, -5, -4]).one().values::<i16>(), [5, 1, -3]);
        assert_eq!(given([0i32, 3, 1]).one().values::<i32>(), [0, 1, 2]);
        let floats = given([1f32, 0.0, -0.25]).one().values::<f32>();
        assert_eq!(floats, [1.0, 0.75, 0.5, 0.25]);
        assert_eq!(given([0.0f64, 1.1, 0.5]).one().values::<f64>(), [0.0, 0.5, 1.0]);
        let halves = given([0.0, 2.0, 0.75].map(F16::from_f32)).one().values::<F16>();
        assert_eq!(halves, [0.0, 0.75, 1.5].map(F16::from_f32));
        let large = given([0i32, 100_000, 1]).threads(3).one().values::<i32>();
        assert!(large.into_iter().eq(0..100_000));
    }

    #[test]
    fn what_does_not_end_is_refused() {
        assert_eq!(given([1i64, 2, 0]).error(), "1 to 2 by 0 does not end");
        assert_eq!(given([1f32, 2.0, 0.0]).error(), "1 to 2 by 0 does not end");
        assert_eq!(given([1f32, f32::INFINITY, 1.0]).error(), "1 to inf by 1 does not end");
        assert_eq!(given([1f32, f32::NAN, 1.0]).error(), "1 to NaN by 1 does not end");
    }

    #[test]
    fn all_three_are_numbers_of_one_type_and_in_the_model() {
        let run = bench("Range").input(tensor(&[], &[0i64])).constant(tensor(&[], &[1i64]));
        let error = run.constant(tensor(&[], &[1i64])).error();
        assert_eq!(error, "input 0 is not known before the run");
        let run = bench("Range").constant(tensor(&[], &[0i64])).constant(tensor(&[], &[1i32]));
        let error = run.constant(tensor(&[], &[1i64])).error();
        assert_eq!(error, "input 1 is i32[], input 0 is i64[]");
    }
}
