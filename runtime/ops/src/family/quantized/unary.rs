//! Functions of one quantized operand, such as `QLinearSigmoid`, by looking up a table of all 256 results.

use std::marker::PhantomData;

use udo_api::{
    Core, DType, Error, ExecError, Facts, FinalizeCx, InPlace, InferCx, Io, Kernel, KernelDef, Op,
    OpSchema, Param, Port, QuantizedType, Value, input, input_like, output_like, types,
};

use super::{EncodingPorts, VALUES, fixed_point};
use crate::Def;
use crate::family::elementwise::{Extents, infer_like_input, look_up, tabulate};

/// A function of one real value, applied to quantized ones.
pub(crate) trait QuantizedUnary: Send + Sync + 'static {
    const NAME: &'static str;
    /// The default of the parameter `alpha`, if the operator has it.
    const ALPHA: Option<f64> = None;

    /// The function.
    fn apply(x: f32, alpha: f32) -> f32;
}

/// Defines the operator of the function `U`.
pub(crate) const fn quantized_unary<U: QuantizedUnary>() -> Def {
    let def = Def::new::<Described<U>>(Tabled::<U>::KERNELS);
    #[cfg(test)]
    let def = def.tested(tests::run_all::<U>);
    def
}

const X: EncodingPorts = EncodingPorts { scale: 1, zero: 2 };
const Y: EncodingPorts = EncodingPorts { scale: 3, zero: 4 };

/// The operator of the function `U`.
struct Described<U>(PhantomData<fn() -> U>);

impl<U: QuantizedUnary> Described<U> {
    const PARAMS: &'static [Param] = match U::ALPHA {
        Some(alpha) => &[Param::scalar("alpha", DType::F32).default(Value::float(alpha))],
        None => &[],
    };
}

impl<U: QuantizedUnary> Op for Described<U> {
    const SCHEMA: OpSchema = OpSchema::new(
        U::NAME,
        &[
            Port::required("X", VALUES),
            Port::required("X_scale", types::F32),
            Port::optional("X_zero_point", VALUES),
            Port::required("Y_scale", types::F32),
            Port::optional("Y_zero_point", VALUES),
        ],
        &[Port::required("Y", VALUES)],
        Self::PARAMS,
    )
    // Scales and zero points are scalars, so the operator stays elementwise.
    .facts(Facts::ELEMENTWISE);

    fn infer(cx: &mut InferCx<'_>) -> Result<(), Error> {
        infer_like_input(cx)
    }
}

/// CPU and DSP kernel of the function `U`.
struct Tabled<U> {
    alpha: f32,
    /// The table, if the encodings are known before the run.
    table: Option<[u8; 256]>,
    extents: Extents,
    run: fn(&Self, Io<'_>) -> Result<(), ExecError>,
    marker: PhantomData<fn() -> U>,
}

impl<U: QuantizedUnary> Tabled<U> {
    const KERNELS: &'static [KernelDef] = &fixed_point(
        KernelDef::new::<Self>(U::NAME, Core::CPU)
            .ports(&[
                input(0, VALUES).bounded().pitched(),
                input_like(2, 0),
                input_like(4, 0),
                output_like(0, 0).bounded().pitched(),
            ])
            .in_place(&[InPlace { input: 0, output: 0 }]),
    );
}

impl<U: QuantizedUnary> Kernel for Tabled<U> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let dtype = cx.input(0)?.dtype();
        X.check(cx, dtype)?;
        Y.check(cx, dtype)?;
        let alpha = if U::ALPHA.is_some() { cx.float32("alpha")? } else { 0.0 };
        let table = of_type!(dtype, [U8 = u8, I8 = i8], T => table_in_finalize::<U, T>(cx, alpha))?;
        let run = of_type!(dtype, [U8 = u8, I8 = i8], T => execute::<U, T>)?;
        Ok(Self { alpha, table: table?, extents: Extents::new(cx)?, run, marker: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(self, io)
    }
}

/// Returns the table, or `None` if an encoding is known only in the run.
fn table_in_finalize<U: QuantizedUnary, T: QuantizedType>(
    cx: &FinalizeCx<'_>,
    alpha: f32,
) -> Result<Option<[u8; 256]>, Error> {
    let (x_encoding, y_encoding) = (X.known::<T>(cx)?, Y.known::<T>(cx)?);
    Ok(x_encoding.zip(y_encoding).map(|(x_encoding, y_encoding)| {
        tabulate(|x: T| y_encoding.quantize::<T>(U::apply(x_encoding.dequantize(x), alpha)))
    }))
}

fn execute<U: QuantizedUnary, T: QuantizedType>(
    kernel: &Tabled<U>,
    io: Io<'_>,
) -> Result<(), ExecError> {
    if let Some(table) = &kernel.table {
        return look_up::<T>(table, kernel.extents, io);
    }
    let (x_encoding, y_encoding) = (X.read::<T>(&io.inputs)?, Y.read::<T>(&io.inputs)?);
    let table =
        tabulate(|x: T| y_encoding.quantize::<T>(U::apply(x_encoding.dequantize(x), kernel.alpha)));
    look_up::<T>(&table, kernel.extents, io)
}

#[cfg(test)]
mod tests {
    use udo_api::{Dim, Encoding, bytes_of_mut};

    use super::*;
    use crate::family::partition::GRAIN;
    use crate::testing::{Tensor, bench, tensor};

    /// Runs all tests of a member.
    pub(super) fn run_all<U: QuantizedUnary>(name: &str) {
        println!("{name}: a family member");
        table_matches_the_function::<U, u8>(name, 128, 3);
        table_matches_the_function::<U, i8>(name, -3, -128);
        absent_zero_points_are_zero::<U>(name);
        mismatched_inputs_are_reported(name);
    }

    fn table_matches_the_function<
        U: QuantizedUnary,
        T: QuantizedType + PartialEq + std::fmt::Debug,
    >(
        name: &str,
        x_zero: i32,
        y_zero: i32,
    ) {
        let mut all = [T::default(); 256];
        for (bits, x) in (0..=u8::MAX).zip(bytes_of_mut(&mut all)) {
            *x = bits;
        }
        let alpha = U::ALPHA.map_or(0.0, |alpha| alpha as f32);
        let (x_encoding, y_encoding) = (
            Encoding { scale: 0.05, zero_point: x_zero },
            Encoding { scale: 0.01, zero_point: y_zero },
        );
        let zero = |value: i32| tensor(&[], &[T::from_f32(value as f32)]);
        let numbers = [
            tensor(&[], &[x_encoding.scale]),
            zero(x_zero),
            tensor(&[1], &[y_encoding.scale]),
            zero(y_zero),
        ];
        let len = 2 * GRAIN + 7;
        let x: Vec<T> = all.iter().copied().cycle().take(len).collect();
        let expected: Vec<T> = x
            .iter()
            .map(|&x| y_encoding.quantize(U::apply(x_encoding.dequantize(x), alpha)))
            .collect();
        let x = tensor(&[1, len], &x);
        let run_with = |feed: fn(crate::testing::Bench, Tensor) -> crate::testing::Bench| {
            let run = bench(name).threads(3).input(x.clone());
            numbers.clone().into_iter().fold(run, feed).one().values::<T>()
        };
        assert_eq!(run_with(crate::testing::Bench::input), expected, "{name}");
        assert_eq!(run_with(crate::testing::Bench::constant), expected, "{name}");
        let run = bench(name).input(tensor(&[2], &all[..2]).bounded(&[Dim::UpTo(70)]));
        let y = numbers.into_iter().fold(run, crate::testing::Bench::input).one();
        assert_eq!((y.dims(), y.values::<T>()), (vec![2], expected[..2].to_vec()));
    }

    fn absent_zero_points_are_zero<U: QuantizedUnary>(name: &str) {
        let run = bench(name).input(tensor(&[2], &[10u8, 200])).input(tensor(&[], &[0.1f32]));
        let y = run.absent().input(tensor(&[], &[0.02f32])).one();
        let alpha = U::ALPHA.map_or(0.0, |alpha| alpha as f32);
        let [x_encoding, y_encoding] = [0.1, 0.02].map(|scale| Encoding { scale, zero_point: 0 });
        let expected = [10u8, 200]
            .map(|x| y_encoding.quantize::<u8>(U::apply(x_encoding.dequantize(x), alpha)));
        assert_eq!(y.values::<u8>(), expected);
    }

    fn mismatched_inputs_are_reported(name: &str) {
        let scale = || tensor(&[], &[0.1f32]);
        let run = bench(name).input(tensor(&[2], &[1u8, 2])).input(tensor(&[2], &[0.1f32; 2]));
        let error = run.absent().input(scale()).error();
        assert_eq!(error, "input 1 is f32[2], expected one element for the whole tensor");
    }
}
