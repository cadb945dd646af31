//! Converts each element to another type. Floats truncate towards zero and saturate when they become integers, NaN
//! becomes 0, and integers wrap.
//!
//! Bounded extents are known only in the run, up to a bound.

use std::cmp::Ordering;

use udo_api::{
    Bf16, Bool, Buffers, Core, DType, Element, Error, ExecError, F16, Facts, FinalizeCx, GpuArg,
    GpuKernel, InferCx, Io, Kernel, KernelDef, KernelInfo, Launch, Op, OpSchema, Param, Port,
    TypeSet, Value, WorkItemFn, any_input, any_output, input, output, types,
};

use crate::Def;
use crate::family::gpu::{REAL, integer};

pub(crate) const DEF: Def = Def::new::<Cast>(KERNELS);

const KERNELS: &[KernelDef] = &[
    KernelDef::new::<Convert>("Cast", Core::CPU)
        .ports(&[any_input(0).bounded(), any_output(0).bounded()]),
    KernelDef::gpu::<ConvertGpu>("Cast").ports(&[input(0, ON_GPU), output(0, ON_GPU)]),
];

struct Cast;

impl Op for Cast {
    const SCHEMA: OpSchema = OpSchema::new(
        "Cast",
        &[Port::required("input", types::ANY)],
        &[Port::required("output", types::ANY)],
        &[
            Param::scalar("to", DType::I64),
            // `saturate` and `round_mode` concern 8-bit floating-point types, which are not supported.
            Param::scalar("saturate", DType::I64).default(Value::int(1)),
            Param::text("round_mode").default(Value::text("up")),
        ],
    )
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        let to = cx.int("to")?;
        let dtype = DType::from_onnx(to).ok_or_else(|| {
            Error::new(format!("parameter \"to\" is {to}, which is not a known type"))
        })?;
        let x = cx.input(0)?;
        cx.set_output(0, x.with_dtype(dtype))
    }
}

/// The CPU kernel, with its function for the pair of types.
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
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = D::cast_from(x));
    io.outputs.set_shape(0, io.inputs.shape(0)?)
}

/// The types that the GPU converts; OpenCL devices need not support others.
pub(super) const ON_GPU: TypeSet = {
    let signed = types::INDEX.or(types::I8).or(types::I16);
    REAL.or(signed).or(types::UNSIGNED).or(types::BOOL)
};

/// GPU kernel: one element per work item.
pub(super) struct ConvertGpu {
    /// The types of input and output.
    dtypes: [Option<DType>; 2],
    /// Whether the model's output type is bf16, which the GPU stores as f32 values rounded to bf16.
    rounds_to_bf16: bool,
    len: usize,
    // The emulated work item reads and writes elements with these.
    load: fn(&Buffers<'_>, usize) -> Result<Number, ExecError>,
    store: fn(&Buffers<'_>, usize, Number) -> Result<(), ExecError>,
}

/// An element of any type that the GPU converts.
#[derive(Clone, Copy)]
enum Number {
    Real(f32),
    Signed(i64),
    Unsigned(u64),
}

/// Evaluates the arm with `$T` bound to each type in [`ON_GPU`].
macro_rules! of_converted {
    ($dtype:expr, $T:ident => $body:expr) => {
        of_type!(
            $dtype,
            [
                F32 = f32, F16 = F16, I8 = i8, I16 = i16, I32 = i32, I64 = i64,
                U8 = u8, U16 = u16, U32 = u32, U64 = u64, Bool = Bool,
            ],
            $T => $body
        )
    };
}

/// Reads element `i` of the input.
fn load<S: Source>(buffers: &Buffers<'_>, i: usize) -> Result<Number, ExecError> {
    let x = buffers.get::<S>(0, i)?;
    Ok(match S::DTYPE {
        DType::F32 | DType::F16 => Number::Real(x.to_f32()),
        DType::U64 => Number::Unsigned(x.to_u64()),
        _ => Number::Signed(x.to_i64()),
    })
}

/// Converts a value and writes it as element `i` of the output.
fn store<D: Target>(buffers: &Buffers<'_>, i: usize, x: Number) -> Result<(), ExecError> {
    buffers.set(
        0,
        i,
        match x {
            Number::Real(x) => D::cast_from(x),
            Number::Signed(x) => D::cast_from(x),
            Number::Unsigned(x) => D::cast_from(x),
        },
    )
}

/// Stores `x` rounded to the nearest bf16, as an f32.
fn store_rounded(buffers: &Buffers<'_>, i: usize, x: Number) -> Result<(), ExecError> {
    let y = match x {
        Number::Real(x) => Bf16::cast_from(x),
        Number::Signed(x) => Bf16::cast_from(x),
        Number::Unsigned(x) => Bf16::cast_from(x),
    };
    buffers.set(0, i, y.to_f32())
}

/// Returns OpenCL code that rounds to the nearest bf16, ties to even. `udo_cut` shortens an integer to the 24 binary
/// digits of an f32 and sets the last one if it cuts off a nonzero bit, so that the value is rounded only once.
fn rounding_functions(from: Option<DType>) -> String {
    const ROUND: &str = "float udo_bf16(float x) {
    const uint bits = as_uint(x);
    const uint rounded = isnan(x) ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    return as_float(rounded & 0xffff0000u);
}

";
    let Some(integer) = integer(from).filter(|_| from != Some(DType::Bool)) else {
        return ROUND.to_owned();
    };
    format!(
        "{ROUND}float udo_cut({integer} x) {{\n    const float cut = convert_float_rtz(x);\n    \
         return as_float(as_uint(cut) | (uint)(({integer})cut != x));\n}}\n\n"
    )
}

impl GpuKernel for ConvertGpu {
    const WORK_ITEM: Option<WorkItemFn<Self>> = Some(|kernel, item, buffers| {
        let [i, ..] = item.global_id;
        (kernel.store)(buffers, i, (kernel.load)(buffers, i)?)
    });

    fn operation(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        let model_dtype =
            if cx.has_input(1) { cx.input(1)?.dtype() } else { DType::from_onnx(cx.int("to")?) };
        let rounds_to_bf16 = (model_dtype, y.dtype()) == (Some(DType::Bf16), Some(DType::F32));
        let store =
            of_converted!(y.dtype(), D => store::<D> as fn(&Buffers<'_>, usize, Number) -> _)?;
        Ok(Self {
            dtypes: [x.dtype(), y.dtype()],
            rounds_to_bf16,
            len: y.len(),
            load: of_converted!(x.dtype(), S => load::<S> as fn(&Buffers<'_>, usize) -> _)?,
            store: if rounds_to_bf16 { store_rounded } else { store },
        })
    }

    fn set_kernel_info(&self, info: &mut KernelInfo) -> Result<(), Error> {
        let storage = |dtype| match dtype {
            Some(DType::F32) => "float",
            Some(DType::F16) => "half",
            dtype => integer(dtype).unwrap_or_default(),
        };
        let [from, to] = self.dtypes;
        // OpenCL statements that read the element and write the result.
        let read = match from {
            Some(DType::F32) => "const float x = xs[i]".to_owned(),
            Some(DType::F16) => "const float x = vload_half(i, xs)".to_owned(),
            Some(DType::Bool) => "const bool x = xs[i] != 0".to_owned(),
            _ => format!("const {} x = xs[i]", storage(from)),
        };
        let needs_cut = integer(from).is_some() && from != Some(DType::Bool);
        let write = match to {
            _ if self.rounds_to_bf16 && needs_cut => "ys[i] = udo_bf16(udo_cut(x))".to_owned(),
            _ if self.rounds_to_bf16 => "ys[i] = udo_bf16((float)x)".to_owned(),
            Some(DType::F32) => "ys[i] = (float)x".to_owned(),
            // Integers that an f32 cannot hold exactly are beyond the f16 range.
            Some(DType::F16) => "vstore_half_rte((float)x, i, ys)".to_owned(),
            Some(DType::Bool) => "ys[i] = x != 0 ? 1 : 0".to_owned(),
            _ if integer(from).is_some() => format!("ys[i] = ({})x", storage(to)),
            _ => format!("ys[i] = isnan(x) ? 0 : convert_{}_sat(x)", storage(to)),
        };
        let functions = if self.rounds_to_bf16 { rounding_functions(from) } else { String::new() };
        let (from, to) = (storage(from), storage(to));
        let text = format!(
            "{functions}__kernel void udo_cast(__global const {from} *xs, __global {to} *ys) {{\n    \
             const size_t i = get_global_id(0);\n    {read};\n    {write};\n}}\n"
        );
        let launch = Launch::new(text, "udo_cast").args([GpuArg::input(0), GpuArg::output(0)]);
        info.push_launch(launch.global_size([self.len, 1, 1]));
        Ok(())
    }
}

/// A source type. Conversions to integers truncate towards zero and saturate.
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
    /// Returns an f32 that rounds to the same 16-bit float as `self` does, so that rounding twice is safe.
    fn to_narrowing_f32(self) -> f32;
}

/// Implements [`Source`]: the type, the element `=>` its value as a primitive number, and its `to_narrowing_f32`.
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
    i64, x => x, round_to_odd(shorten_to_48_bits(x.unsigned_abs()).copysign(x as f64));
    u8, x => x, x as f32;
    u16, x => x, x as f32;
    u32, x => x, round_to_odd(f64::from(x));
    u64, x => x, round_to_odd(shorten_to_48_bits(x));
    Bool, x => u8::from(x.get()), f32::from(u8::from(x.get()));
}

/// Rounds to odd: an inexact result takes the neighbour whose last bit is 1. A later rounding to at most half as many
/// digits then gives the same result as rounding once (Boldo and Melquiond, 2008).
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

/// Shortens an integer to at most 48 binary digits, which f64 holds exactly and which round to 24 digits as `x` does:
/// the last digit is 1 if any digit cut off is not 0.
fn shorten_to_48_bits(x: u64) -> f64 {
    const CUT_OFF: u64 = 0xffff;
    if x >> 48 == 0 {
        return x as f64;
    }
    ((x & !CUT_OFF) | (u64::from(x & CUT_OFF != 0) << CUT_OFF.count_ones())) as f64
}

/// A destination type.
trait Target: Element {
    fn cast_from<S: Source>(x: S) -> Self;
}

/// Implements [`Target`]: the type, the source element `=>` the converted value.
macro_rules! targets {
    ($($t:ty, $x:ident => $value:expr;)*) => {$(
        impl Target for $t {
            #[inline]
            fn cast_from<S: Source>($x: S) -> Self { $value }
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

    // Type codes of ONNX.
    const F32: i64 = 1;
    const U8: i64 = 2;
    const I8: i64 = 3;
    const STRING: i64 = 8;
    const BOOL: i64 = 9;
    const HALF: i64 = 10;
    const BF16: i64 = 16;

    #[test]
    fn zero_and_one_are_preserved_by_every_pair_of_types() {
        let codes = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16]; // ONNX type codes
        for (from, to) in codes.iter().flat_map(|&from| codes.iter().map(move |&to| (from, to))) {
            let source = bench("Cast").input(tensor(&[3], &[0f32, 1.0, 1.0])).int("to", from).one();
            let target = bench("Cast").input(source).int("to", to).one();
            assert_eq!(target.desc().dtype(), DType::from_onnx(to));
            let floats = bench("Cast").input(target).int("to", F32).one();
            assert_eq!(floats.values::<f32>(), [0.0, 1.0, 1.0], "{from} to {to}");
        }
    }

    #[test]
    fn floats_truncate_and_saturate() {
        let x = tensor(&[5], &[1.9f32, -1.9, 300.0, -300.0, f32::NAN]);
        for core in [Core::CPU, Core::GPU] {
            let y = bench("Cast").on(core).input(x.clone()).int("to", I8).one();
            assert_eq!(y.values::<i8>(), [1, -1, 127, -128, 0]);
            let y = bench("Cast").on(core).input(x.clone()).int("to", BOOL).one();
            assert_eq!(y.values::<Bool>(), [Bool(1); 5]);
        }
    }

    #[test]
    fn integers_wrap() {
        for core in [Core::CPU, Core::GPU] {
            let x = tensor(&[2], &[257i64, -1]);
            let y = bench("Cast").on(core).input(x).int("to", U8).one();
            assert_eq!(y.values::<u8>(), [1, 255]);
        }
    }

    #[test]
    fn gpu_work_items_match_the_cpu_for_every_pair_of_types() {
        let codes = [1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13];
        let floats = [0f32, 1.0, -1.0, 2.5, -130.75, 300.0, 70_000.0, 5e9, -5e9, 2e19];
        for (from, to) in codes.iter().flat_map(|&from| codes.iter().map(move |&to| (from, to))) {
            let x = bench("Cast").input(tensor(&[10], &floats)).int("to", from).one();
            let run = bench("Cast").input(x).int("to", to);
            let y = run.clone().on(Core::GPU).one();
            assert!(y.bytes() == run.one().bytes(), "{from} to {to}");
        }
    }

    #[test]
    fn the_gpu_rounds_bf16_outputs_that_are_stored_as_f32() {
        let floats = [0f32, -0.0, 1.003_906_3, 1.011_718_8, 2.09, -3.3e38, 1e-40, f32::INFINITY];
        let integers = [(1i64 << 32) + (1 << 24) + 1, -(1 << 62) - (1 << 54) - 1, 257, i64::MIN, 0];
        for (run, len) in [
            (bench("Cast").input(tensor(&[8], &floats)), 8),
            (bench("Cast").input(tensor(&[5], &integers)), 5),
            (bench("Cast").input(tensor(&[2], &[u64::MAX, (1 << 63) + (1 << 55) + 1])), 2),
            (bench("Cast").input(tensor(&[2], &[Bool(1), Bool(0)])), 2),
        ] {
            let run = run.int("to", BF16);
            let expected: Vec<u32> = run
                .clone()
                .one()
                .values::<Bf16>()
                .into_iter()
                .map(|y| y.to_f32().to_bits())
                .collect();
            let y = run.on(Core::GPU).output_of::<f32>(&[len]).one().values::<f32>();
            assert_eq!(y.into_iter().map(f32::to_bits).collect::<Vec<_>>(), expected);
        }
        let cast_like = bench("CastLike").on(Core::GPU).input(tensor(&[8], &floats));
        let y = cast_like.input(tensor(&[1], &[Bf16(0)])).output_of::<f32>(&[8]).one();
        assert_eq!(y.values::<f32>()[4].to_bits(), Bf16::from_f32(2.09).to_f32().to_bits());
        let nan = bench("Cast").on(Core::GPU).input(tensor(&[1], &[f32::NAN])).int("to", BF16);
        assert!(nan.output_of::<f32>(&[1]).one().values::<f32>()[0].is_nan());
    }

    #[test]
    fn conversions_to_half_precision_round_once() {
        // Just above the midpoint of two f16 values; the nearest f32 is the midpoint itself.
        let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        let y = bench("Cast").input(tensor(&[2], &[x, -x])).int("to", HALF).one();
        assert_eq!(y.values::<F16>(), [F16(0x3c01), F16(0xbc01)]);
    }

    #[test]
    fn unknown_types_are_refused() {
        let error = bench("Cast").input(tensor(&[1], &[0f32])).int("to", STRING).error();
        assert_eq!(error, "parameter \"to\" is 8, which is not a known type");
    }

    #[test]
    fn integers_are_rounded_once() {
        // Just above the midpoint of two f16 or bf16 values; the nearest f32 or f64 is the midpoint itself.
        let y = bench("Cast").input(tensor(&[1], &[(1i32 << 30) + (1 << 22) + 1])).int("to", BF16);
        assert_eq!(y.one().values::<Bf16>(), [Bf16(0x4e81)]);
        let x = [(1i64 << 32) + (1 << 24) + 1, -(1 << 62) - (1 << 54) - 1];
        let y = bench("Cast").input(tensor(&[2], &x)).int("to", BF16).one();
        assert_eq!(y.values::<Bf16>(), [Bf16(0x4f81), Bf16(0xde81)]);
        let x = [(1u64 << 63) + (1 << 55) + 1, 1 << 63, u64::MAX];
        let y = bench("Cast").input(tensor(&[3], &x)).int("to", BF16).one();
        assert_eq!(y.values::<Bf16>(), [Bf16(0x5f01), Bf16(0x5f00), Bf16(0x5f80)]);
    }
}
