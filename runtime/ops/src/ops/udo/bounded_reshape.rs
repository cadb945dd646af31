//! `Reshape` to a shape that the kernel reads from input 1 in each run. The parameters `least` and `most` bound the
//! extents of the output.

use udo_api::{
    Bits, Core, DType, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Io, Kernel,
    KernelDef, MAX_RANK, Op, OpSchema, Pair, Param, Port, Status, Value, input, output_like, types,
};

use crate::Def;
use crate::family::axes::Axes;
use crate::family::bounded::{LEAST, MOST, shape};

pub(crate) const DEF: Def = Def::new::<BoundedReshape>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Copied>("BoundedReshape", Core::CPU)
    .in_place(&[InPlace { input: 0, output: 0 }])
    .ports(&[input(0, types::ANY).bounded(), output_like(0, 0).bounded()])];

struct BoundedReshape;

impl Op for BoundedReshape {
    const SCHEMA: OpSchema = OpSchema::new(
        "BoundedReshape",
        &[Port::required("data", types::ANY), Port::required("shape", types::I64)],
        &[Port::required("reshaped", types::ANY)],
        &[LEAST, MOST, Param::scalar("allowzero", DType::I64).default(Value::int(0))],
    )
    .facts(Facts::SAME_ENCODING);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = shape(cx)?;
        cx.set_output(0, cx.input(0)?.with_shape(shape))
    }
}

struct Copied {
    allow_zero: bool,
    run: fn(&mut Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Copied {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_width!(cx.input(0)?.dtype(), B => copy::<B>)?;
        Ok(Self { allow_zero: cx.flag("allowzero")?, run })
    }

    fn execute(&self, mut io: Io<'_>) -> Result<(), ExecError> {
        let (from, requested) = (io.inputs.shape(0)?, io.inputs.get::<i64>(1)?);
        let shape = resolve(from, requested, self.allow_zero)?;
        (self.run)(&mut io)?;
        io.outputs.set_shape(0, &shape[..requested.len()])
    }
}

/// Resolves the extents of `requested` as `Reshape` does: 0 copies the extent of the input, unless zeros are allowed,
/// and -1 takes the remaining elements.
fn resolve(input_dims: &[usize], requested: &[i64], allow_zero: bool) -> Result<Axes, ExecError> {
    let mut shape = [1; MAX_RANK];
    if requested.len() > shape.len() {
        return Err(ExecError::new(Status::BOUND_EXCEEDED));
    }
    let mut inferred_axis = None;
    for (axis, (resolved, &extent)) in shape.iter_mut().zip(requested).enumerate() {
        let invalid = || ExecError::bad_value(extent, axis);
        *resolved = match extent {
            -1 if inferred_axis.replace(axis).is_none() => 1,
            0 if !allow_zero => *input_dims.get(axis).ok_or_else(invalid)?,
            _ => usize::try_from(extent).map_err(|_| invalid())?,
        };
    }
    let len: usize = input_dims.iter().product();
    let product =
        |shape: &Axes| shape.iter().try_fold(1usize, |len, &extent| len.checked_mul(extent));
    if let Some(axis) = inferred_axis {
        let known = product(&shape).filter(|&n| n != 0 && len.is_multiple_of(n));
        shape[axis] = len / known.ok_or(ExecError::bad_value(-1, axis))?;
    }
    if product(&shape) == Some(len) { Ok(shape) } else { Err(ExecError::new(Status::BAD_VALUE)) }
}

/// Copies the elements unless input and output share a buffer.
fn copy<B: Bits>(io: &mut Io<'_>) -> Result<(), ExecError> {
    if let Pair::Apart(x, y) = io.pair_bits::<B>(0, 0)? {
        let exceeded = ExecError::new(Status::BOUND_EXCEEDED);
        y.get_mut(..x.len()).ok_or(exceeded)?.copy_from_slice(x);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use crate::testing::{Bench, bench, tensor};

    fn bench_with(shape: &[i64]) -> Bench {
        let x = tensor(&[2, 6], &(0..12u8).collect::<Vec<_>>());
        let x = x.bounded(&[Dim::UpTo(5), Dim::Fixed(6)]);
        let run = bench("udo:BoundedReshape").input(x).input(tensor(&[shape.len()], shape));
        run.ints("least", &[1, 2, 3]).ints("most", &[5, 2, 3])
    }

    #[test]
    fn shapes_are_read_in_the_run() {
        for shape in [[2, 2, 3], [-1, 2, 3], [0, 2, -1]] {
            let y = bench_with(&shape).one();
            assert_eq!(y.desc().full_shape().to_string(), "[<=5,2,3]");
            assert_eq!((y.dims(), y.values()), (vec![2, 2, 3], (0..12u8).collect::<Vec<_>>()));
        }
    }

    #[test]
    fn shapes_of_other_sizes_fail() {
        let mismatched: [&[i64]; 7] =
            [&[3, 2, 3], &[-1, -1, 3], &[-2, 2, 3], &[2, 3, 2], &[2, 6], &[-1, 5, 1], &[1; 9]];
        for shape in mismatched {
            bench_with(shape).error();
        }
    }
}
