//! Each element as another type.

use std::cmp::Ordering;

use udo_api::{
    Bf16, Bool, Core, DType, Element, Error, ExecError, F16, Facts, FinalizeCx, InferCx, Io,
    Kernel, KernelDef, Op, OpSchema, Param, Port, Value, any_input, any_output, types,
};

use crate::Def;

pub(crate) const DEF: Def = Def::of::<Cast>(KERNELS);

const KERNELS: &[KernelDef] = &[KernelDef::new::<Convert>("Cast", Core::CPU)
    .ports(&[any_input(0).bounded(), any_output(0).bounded()])];

struct Cast;

impl Op for Cast {
    const SCHEMA: OpSchema = OpSchema::new(
        "Cast",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[
            Param::scalar("to", DType::I64),
            // These two speak of 8-bit floating-point types only.
            Param::scalar("saturate", DType::I64).default(Value::int(1)),
            Param::text("round_mode").default(Value::text("up")),
        ],
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let to = cx.int("to")?;
        let dtype = DType::from_onnx(to).ok_or_else(|| {
            Error::new(format!("parameter \"to\" is {to}, which is no known type"))
        })?;
        let x = cx.input(0)?;
        cx.set_output(0, x.with_dtype(dtype))
    }
}

pub(super) struct Convert(fn(Io<'_>) -> Result<(), ExecError>);

impl Kernel for Convert {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (from, to) = (cx.input(0)?.dtype(), cx.output(0)?.dtype());
        Ok(Self(of_any!(from, S => of_any!(to, D => execute::<S, D>))??))
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.0)(io)
    }
}

fn execute<S: Source, D: Target>(mut io: Io<'_>) -> Result<(), ExecError> {
    let x = io.inputs.get::<S>(0)?;
    let y = io.outputs.take::<D>(0)?;
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = D::of(x));
    io.outputs.set_shape(0, io.inputs.shape(0)?)
}

/// A type that every other is made of: real numbers lose their fraction, and saturate.
trait Source: Element {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn to_i8(self) -> i8;
    fn to_i16(self) -> i16;
    fn to_i32(self) -> i32;
    fn to_i64(self) -> i64;
    fn to_u8(self) -> u8;
    fn to_u16(self) -> u16;
    fn to_u32(self) -> u32;
    fn to_u64(self) -> u64;
    fn is_true(self) -> bool;
    /// A number that rounds to the same 16-bit floating-point number.
    fn to_narrowing_f32(self) -> f32;
}

macro_rules! sources {
    ($($t:ty, $x:ident => $number:expr, $narrowing:expr;)*) => {$(
        impl Source for $t {
            fn to_f32(self) -> f32 { let $x = self; $number as f32 }
            fn to_f64(self) -> f64 { let $x = self; $number as f64 }
            fn to_i8(self) -> i8 { let $x = self; $number as i8 }
            fn to_i16(self) -> i16 { let $x = self; $number as i16 }
            fn to_i32(self) -> i32 { let $x = self; $number as i32 }
            fn to_i64(self) -> i64 { let $x = self; $number as i64 }
            fn to_u8(self) -> u8 { let $x = self; $number as u8 }
            fn to_u16(self) -> u16 { let $x = self; $number as u16 }
            fn to_u32(self) -> u32 { let $x = self; $number as u32 }
            fn to_u64(self) -> u64 { let $x = self; $number as u64 }
            fn is_true(self) -> bool { let $x = self; $number as f64 != 0.0 }
            fn to_narrowing_f32(self) -> f32 { let $x = self; $narrowing }
        }
    )*};
}

sources! {
    f32, x => x, x;
    f64, x => x, round_to_odd(x);
    F16, x => x.to_f32(), x.to_f32();
    Bf16, x => x.to_f32(), x.to_f32();
    i8, x => x, x as f32;
    i16, x => x, x as f32;
    i32, x => x, round_to_odd(f64::from(x));
    i64, x => x, round_to_odd(few_digits(x.unsigned_abs()).copysign(x as f64));
    u8, x => x, x as f32;
    u16, x => x, x as f32;
    u32, x => x, round_to_odd(f64::from(x));
    u64, x => x, round_to_odd(few_digits(x));
    Bool, x => u8::from(x.get()), f32::from(u8::from(x.get()));
}

/// Rounds so that a second rounding to half the digits comes out as one rounding would.
fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let bits = nearest.to_bits();
    if bits & 1 == 1 {
        return nearest;
    }
    match f64::from(nearest).abs().partial_cmp(&x.abs()) {
        Some(Ordering::Less) => f32::from_bits(bits + 1),
        Some(Ordering::Greater) => f32::from_bits(bits - 1),
        Some(Ordering::Equal) | None => nearest,
    }
}

/// An integer of 48 digits at most that rounds to half as many as the given one does: the last one says whether any
/// behind it was not 0.
fn few_digits(x: u64) -> f64 {
    const CUT: u64 = 0xffff;
    if x >> 48 == 0 {
        return x as f64;
    }
    ((x & !CUT) | (u64::from(x & CUT != 0) << CUT.count_ones())) as f64
}

/// A type that any other becomes.
trait Target: Element {
    fn of<S: Source>(x: S) -> Self;
}

macro_rules! targets {
    ($($t:ty, $x:ident => $value:expr;)*) => {$(
        impl Target for $t {
            #[inline]
            fn of<S: Source>($x: S) -> Self { $value }
        }
    )*};
}

targets! {
    f32, x => x.to_f32();
    f64, x => x.to_f64();
    F16, x => F16::from_f32(x.to_narrowing_f32());
    Bf16, x => Bf16::from_f32(x.to_narrowing_f32());
    i8, x => x.to_i8();
    i16, x => x.to_i16();
    i32, x => x.to_i32();
    i64, x => x.to_i64();
    u8, x => x.to_u8();
    u16, x => x.to_u16();
    u32, x => x.to_u32();
    u64, x => x.to_u64();
    Bool, x => Bool::from(x.is_true());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bench, tensor};

    #[test]
    fn small_numbers_survive_every_pair_of_types() {
        let codes = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16];
        for (from, to) in codes.iter().flat_map(|&a| codes.iter().map(move |&b| (a, b))) {
            let source = bench("Cast").input(tensor(&[3], &[0f32, 1.0, 1.0])).int("to", from).one();
            let target = bench("Cast").input(source).int("to", to).one();
            assert_eq!(target.desc().dtype(), DType::from_onnx(to));
            let back = bench("Cast").input(target).int("to", 1).one();
            assert_eq!(back.values::<f32>(), [0.0, 1.0, 1.0], "{from} to {to}");
        }
    }

    #[test]
    fn real_numbers_lose_their_fraction_and_saturate() {
        let x = tensor(&[5], &[1.9f32, -1.9, 300.0, -300.0, f32::NAN]);
        let y = bench("Cast").input(x.clone()).int("to", 3).one();
        assert_eq!(y.values::<i8>(), [1, -1, 127, -128, 0]);
        let y = bench("Cast").input(x).int("to", 9).one();
        assert_eq!(y.values::<Bool>(), [Bool(1); 5]);
    }

    #[test]
    fn integers_wrap() {
        let y = bench("Cast").input(tensor(&[2], &[257i64, -1])).int("to", 2).one();
        assert_eq!(y.values::<u8>(), [1, 255]);
    }

    #[test]
    fn halves_are_rounded_once() {
        // Just above the middle of two halves, but the nearest f32 is the middle itself.
        let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        let y = bench("Cast").input(tensor(&[2], &[x, -x])).int("to", 10).one();
        assert_eq!(y.values::<F16>(), [F16(0x3c01), F16(0xbc01)]);
    }

    #[test]
    fn unknown_types_are_named() {
        let error = bench("Cast").input(tensor(&[1], &[0f32])).int("to", 8).error();
        assert_eq!(error, "parameter \"to\" is 8, which is no known type");
    }
    #[test]
    fn integers_are_rounded_once() {
        // Just above the middle of two such numbers, but the nearest f32, or f64, is the middle itself.
        let y = bench("Cast").input(tensor(&[1], &[(1i32 << 30) + (1 << 22) + 1])).int("to", 16);
        assert_eq!(y.one().values::<Bf16>(), [Bf16(0x4e81)]);
        let x = [(1i64 << 32) + (1 << 24) + 1, -(1 << 62) - (1 << 54) - 1];
        let y = bench("Cast").input(tensor(&[2], &x)).int("to", 16).one();
        assert_eq!(y.values::<Bf16>(), [Bf16(0x4f81), Bf16(0xde81)]);
        let x = [(1u64 << 63) + (1 << 55) + 1, 1 << 63, u64::MAX];
        let y = bench("Cast").input(tensor(&[3], &x)).int("to", 16).one();
        assert_eq!(y.values::<Bf16>(), [Bf16(0x5f01), Bf16(0x5f00), Bf16(0x5f80)]);
    }
}
