//! Functions of 8-bit quantized values, by looking up a table of all 256 results. The DSP kernel computes the table in
//! finalize.

use std::marker::PhantomData;

use udo_api::{
    Core, Encoding, Error, ExecError, FinalizeCx, InPlace, Io, Kernel, KernelDef, PortRule,
    QuantizedType, TensorDesc, bytes_of, bytes_of_mut, input, output_like,
};
use udo_simd::rows;

use super::QUANTIZED;
use super::{Extents, Unary, each};

/// DSP kernel of the function `U` for 8-bit values.
pub(super) struct Table<U> {
    /// Output bits, indexed by input bits.
    bits: [u8; 256],
    extents: Extents,
    /// The kernel for the element type.
    run: fn(&[u8; 256], Extents, Io<'_>) -> Result<(), ExecError>,
    function: PhantomData<fn() -> U>,
}

impl<U: Unary> Table<U> {
    pub(super) const DEF: KernelDef = {
        const RULES: &[PortRule] =
            &[input(0, QUANTIZED).bounded().pitched(), output_like(0, 0).bounded().pitched()];
        KernelDef::new::<Self>(U::NAME, Core::DSP_V68)
            .ports(RULES)
            .in_place(&[InPlace { input: 0, output: 0 }])
    };
}

impl<U: Unary> Kernel for Table<U> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        // A value without an encoding is an integer: scale 1, zero point 0.
        let encoding =
            |desc: TensorDesc| desc.encoding().unwrap_or(Encoding { scale: 1.0, zero_point: 0 });
        let encodings = [encoding(cx.input(0)?), encoding(cx.output(0)?)];
        let params = U::params(cx)?;
        let function = |x| U::in_f64(x, params);
        let (bits, run) = of_type!(cx.input(0)?.dtype(), [U8 = u8, I8 = i8], T => {
            let run: fn(&[u8; 256], Extents, Io<'_>) -> Result<(), ExecError> = look_up::<T>;
            (tabulate_quantized::<T>(encodings, &function), run)
        })?;
        Ok(Self { bits, extents: Extents::new(cx)?, run, function: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(&self.bits, self.extents, io)
    }
}

fn tabulate_quantized<T: QuantizedType>(
    [x_encoding, y_encoding]: [Encoding; 2],
    function: &dyn Fn(f32) -> f32,
) -> [u8; 256] {
    tabulate(|x: T| y_encoding.quantize(function(x_encoding.dequantize(x))))
}

/// Returns the output table for each of the 256 input values.
pub(crate) fn tabulate<T: QuantizedType>(function: impl Fn(T) -> T) -> [u8; 256] {
    let mut x = [T::default(); 256];
    for (table, x) in (0..=u8::MAX).zip(bytes_of_mut(&mut x)) {
        *x = table;
    }
    let mut table = [0; 256];
    table.copy_from_slice(bytes_of(&x.map(function)));
    table
}

/// Maps each element through the table.
pub(crate) fn look_up<T: QuantizedType>(
    bits: &[u8; 256],
    extents: Extents,
    io: Io<'_>,
) -> Result<(), ExecError> {
    each::<T>(
        extents,
        io,
        |x, y| rows::lookup(bytes_of(x), bits, bytes_of_mut(y)),
        |y| {
            for y in bytes_of_mut(y) {
                *y = bits[usize::from(*y)];
            }
        },
    )
}
