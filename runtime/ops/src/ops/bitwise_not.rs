//! Inverts all bits of each integer.
//!
//! Bounded extents are known only in the run, up to a bound.

use udo_api::{
    Core, Element, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Io, Kernel, KernelDef,
    Op, OpSchema, Port, bytes_of, bytes_of_mut, input, output_like, types,
};

use crate::Def;
use crate::family::elementwise::{Extents, each, infer_like_input};

pub(crate) const DEF: Def = Def::new::<BitwiseNot>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Bytes>("BitwiseNot", Core::CPU)
    .ports(&[input(0, types::INTS).bounded().pitched(), output_like(0, 0).bounded().pitched()])
    .in_place(&[InPlace { input: 0, output: 0 }])];

struct BitwiseNot;

impl Op for BitwiseNot {
    const SCHEMA: OpSchema = OpSchema::new(
        "BitwiseNot",
        &[Port::required("X", types::INTS)],
        &[Port::required("Y", types::INTS)],
        &[],
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        infer_like_input(cx)
    }
}

struct Bytes {
    extents: Extents,
    /// The kernel for the element type.
    run: fn(Extents, Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Bytes {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let run = of_type!(
            cx.input(0)?.dtype(),
            [I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U16 = u16, U32 = u32, U64 = u64],
            T => execute::<T> as fn(Extents, Io<'_>) -> Result<(), ExecError>
        )?;
        Ok(Self { extents: Extents::new(cx)?, run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self.extents, io)
    }
}

/// Inverts the bytes of the elements; `T` only gives their size.
fn execute<T: Element>(extents: Extents, io: Io<'_>) -> Result<(), ExecError> {
    each::<T>(
        extents,
        io,
        |x, y| bytes_of_mut(y).iter_mut().zip(bytes_of(x)).for_each(|(y, x)| *y = !x),
        |y| bytes_of_mut(y).iter_mut().for_each(|y| *y = !*y),
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::{bench, tensor};

    #[test]
    fn every_width_is_inverted() {
        let y = bench("BitwiseNot").input(tensor(&[3], &[0u8, 0xf0, 255])).one();
        assert_eq!(y.values::<u8>(), [255, 0x0f, 0]);
        let y = bench("BitwiseNot").input(tensor(&[2], &[0i64, i64::MIN])).one();
        assert_eq!(y.values::<i64>(), [-1, i64::MAX]);
        let y = bench("BitwiseNot").input(tensor(&[1, 2], &[1u32, u32::MAX])).one();
        assert_eq!(y.values::<u32>(), [u32::MAX - 1, 0]);
    }

    #[test]
    fn floats_are_refused() {
        let error = bench("BitwiseNot").input(tensor(&[1], &[1f32])).error();
        assert_eq!(error, "no kernel on cpu takes f32[1]");
    }
}
