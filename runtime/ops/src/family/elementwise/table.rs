//! Functions of 8-bit quantized values by a table of what each of the 256 becomes; on the DSP it is worked out in
//! finalize.

use std::marker::PhantomData;

use udo_api::{
    Code, Core, Encoding, Error, ExecError, FinalizeCx, InPlace, Io, Kernel, KernelDef, PortRule,
    TensorDesc, bytes_of, bytes_of_mut, input, output_like,
};
use udo_simd::rows;

use super::{Extents, Unary, each};

/// The function `U` of values of type `T`, which has 8 bits.
pub(super) struct Table<U, T> {
    /// The bits of the results by the bits of the argument.
    bits: [u8; 256],
    extents: Extents,
    of: PhantomData<fn() -> (U, T)>,
}

impl<U: Unary, T: Code> Table<U, T> {
    const RULES: &'static [PortRule] =
        &[input(0, T::DTYPE.set()).bounded().pitched(), output_like(0, 0).bounded().pitched()];

    pub(super) const DEF: KernelDef = KernelDef::new::<Self>(U::NAME, Core::DSP_V68)
        .ports(Self::RULES)
        .in_place(&[InPlace { input: 0, output: 0 }]);
}

impl<U: Unary, T: Code> Kernel for Table<U, T> {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        // A value without an encoding is the number itself.
        let encoding =
            |desc: TensorDesc| desc.encoding().unwrap_or(Encoding { scale: 1.0, zero_point: 0 });
        let (x_is, y_is) = (encoding(cx.input(0)?), encoding(cx.output(0)?));
        let bits = tabulate(|x: T| y_is.quantize(U::of(x_is.dequantize(x))));
        Ok(Self { bits, extents: Extents::of(cx)?, of: PhantomData })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        look_up::<T>(&self.bits, self.extents, io)
    }
}

/// The bits of what each value becomes, by its own bits.
pub(crate) fn tabulate<T: Code>(of: impl Fn(T) -> T) -> [u8; 256] {
    let mut x = [T::default(); 256];
    for (bits, x) in (0..=u8::MAX).zip(bytes_of_mut(&mut x)) {
        *x = bits;
    }
    let mut bits = [0; 256];
    bits.copy_from_slice(bytes_of(&x.map(of)));
    bits
}

/// Makes of each element what the table says.
pub(crate) fn look_up<T: Code>(
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
