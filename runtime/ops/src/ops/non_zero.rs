//! The indices of the elements that are not 0, one column per element.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Bf16, Bool, Core, DType, Dim, Element, Error, ExecError, F16, FinalizeCx, InferCx, Io, Kernel,
    KernelDef, Op, OpSchema, Port, Shape, TensorDesc, input, output, types,
};

use crate::Def;
use crate::family::axes::{Axes, StridedIter};

pub(crate) const DEF: Def = Def::new::<NonZero>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Positions>("NonZero", Core::CPU)
    .ports(&[input(0, types::ANY).bounded(), output(0, types::I64).bounded()])];

struct NonZero;

impl Op for NonZero {
    const SCHEMA: OpSchema = OpSchema::new(
        "NonZero",
        &[Port::required("X", types::ANY)],
        &[Port::required("Y", types::I64)],
        &[],
    );

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let x = cx.input(0)?;
        let shape = Shape::from_dims(&[Dim::Fixed(x.rank()), Dim::UpTo(x.len())])?;
        cx.set_output(0, TensorDesc::new(DType::I64, shape))
    }
}

struct Positions(fn(Io<'_>) -> Result<(), ExecError>);

impl Kernel for Positions {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Ok(Self(of_any!(cx.input(0)?.dtype(), T => execute::<T>)?))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.0)(io)
    }
}

/// An element type that can be compared with 0; both zeros of a floating-point type are 0.
trait Zero: Element {
    fn is_zero(self) -> bool;
}

/// Implements [`Zero`]: element type, element `=>` condition.
macro_rules! zeros {
    ($($t:ty, $x:ident => $is_zero:expr;)*) => {$(
        impl Zero for $t {
            #[inline]
            fn is_zero(self) -> bool { let $x = self; $is_zero }
        }
    )*};
}

zeros! {
    f32, x => x == 0.0;
    f64, x => x == 0.0;
    F16, x => x.0 << 1 == 0; // Zero but for the sign bit.
    Bf16, x => x.0 << 1 == 0;
    i8, x => x == 0;
    i16, x => x == 0;
    i32, x => x == 0;
    i64, x => x == 0;
    u8, x => x == 0;
    u16, x => x == 0;
    u32, x => x == 0;
    u64, x => x == 0;
    Bool, x => !x.get();
}

fn execute<T: Zero>(mut io: Io<'_>) -> Result<(), ExecError> {
    let (x, dims) = (io.inputs.get::<T>(0)?, io.inputs.shape(0)?);
    let y = io.outputs.take::<i64>(0)?;
    let count = x.iter().filter(|x| !x.is_zero()).count();
    // Row `axis` of the output holds the indices along `axis`. Iterating with stride 1 along that axis and 0 along the
    // others gives this index as the offset of each element.
    for (axis, y) in y.chunks_exact_mut(count.max(1)).take(dims.len()).enumerate() {
        let mut strides = Axes::default();
        strides[axis] = 1;
        let non_zero =
            x.iter().zip(StridedIter::new(dims, [strides])).filter(|(x, _)| !x.is_zero());
        non_zero.zip(y).for_each(|((_, [at]), y)| *y = at as i64);
    }
    io.outputs.set_shape(0, &[dims.len(), count])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn each_row_of_the_output_holds_the_indices_along_one_axis() {
        let y = bench("NonZero").input(tensor(&[2, 3], &[1f32, 0.0, -0.0, 0.0, 5.0, -7.0])).one();
        assert_eq!(y.desc().full_shape().to_string(), "[2,<=6]");
        assert_eq!((y.dims(), y.values::<i64>()), (vec![2, 3], vec![0, 1, 1, 0, 1, 2]));
    }

    #[test]
    fn no_nonzero_elements_give_an_empty_output() {
        let y = bench("NonZero").input(tensor(&[3], &[Bool(0); 3])).one();
        assert_eq!(y.dims(), [1, 0]);
        let y = bench("NonZero").input(tensor(&[], &[3i8])).one();
        assert_eq!(y.dims(), [0, 1], "a scalar has a position with no coordinates");
    }
}
