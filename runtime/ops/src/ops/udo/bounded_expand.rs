//! `Expand` to a shape that the kernel reads from input 1 in each run. The parameters `least` and `most` bound the
//! extents of the output.

use udo_api::{
    Bits, Core, Error, ExecError, FinalizeCx, InferCx, Io, Kernel, KernelDef, Op, OpSchema, Port,
    input, output_like, types,
};

use crate::Def;
use crate::family::bounded::{LEAST, MOST, read_extents, shape};
use crate::family::movement::expand;

pub(crate) const DEF: Def = Def::new::<BoundedExpand>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Repeated>("BoundedExpand", Core::CPU)
    .ports(&[input(0, types::ANY).bounded(), output_like(0, 0).bounded()])];

struct BoundedExpand;

impl Op for BoundedExpand {
    const SCHEMA: OpSchema = OpSchema::new(
        "BoundedExpand",
        &[Port::required("input", types::ANY), Port::required("shape", types::I64)],
        &[Port::required("output", types::ANY)],
        &[LEAST, MOST],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let shape = shape(cx)?;
        cx.set_output(0, cx.input(0)?.with_shape(shape))
    }
}

/// The kernel, with its function for elements of one width.
struct Repeated(fn(Io<'_>) -> Result<(), ExecError>);

impl Kernel for Repeated {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self(of_width!(cx.input(0)?.dtype(), B => run::<B>)?))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.0)(io)
    }
}

fn run<B: Bits>(io: Io<'_>) -> Result<(), ExecError> {
    let (target, rank) = read_extents(&io.inputs, 1)?;
    expand::<B>(io, &target[..rank])
}

#[cfg(test)]
mod tests {
    use udo_api::Dim;

    use crate::testing::{Bench, bench, tensor};

    fn bench_with(shape: &[i64]) -> Bench {
        let x = tensor(&[2, 1], &[1u16, 2]).bounded(&[Dim::UpTo(3), Dim::Fixed(1)]);
        let run = bench("udo:BoundedExpand").input(x).input(tensor(&[shape.len()], shape));
        run.ints("least", &[1, 1]).ints("most", &[3, 4])
    }

    #[test]
    fn shapes_are_read_in_the_run() {
        let y = bench_with(&[2, 3]).one();
        assert_eq!((y.dims(), y.values()), (vec![2, 3], vec![1u16, 1, 1, 2, 2, 2]));
        let y = bench_with(&[1]).one();
        assert_eq!((y.dims(), y.values()), (vec![2, 1], vec![1u16, 2]));
    }

    #[test]
    fn shapes_that_do_not_broadcast_or_exceed_the_bounds_fail() {
        for shape in [&[3i64, 3][..], &[2, 5], &[-1, 1], &[1, 2, 3]] {
            bench_with(shape).error();
        }
    }
}
