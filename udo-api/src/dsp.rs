//! DSP kernels: plain functions over quantized views, outputs first.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "saturating between codes and numbers is what this file does"
)]

use crate::{Element, Encoding, Error, ExecError, Extents, FinalizeCx, Io, Scratch};

/// A fixed-point input: codes, shape, and what a code means.
#[derive(Clone, Copy, Debug)]
pub struct Quant<'a, T> {
    /// The codes, outermost dimension first.
    pub data: &'a [T],
    /// The extents in this run.
    pub shape: &'a [usize],
    /// What a code means; scale 1 and zero point 0 where the tensor has no encoding.
    pub encoding: Encoding,
}

/// A fixed-point output: room for codes, and what a code will mean.
#[derive(Debug)]
pub struct QuantMut<'a, T> {
    /// The codes, to be written; a bounded output comes at its bound.
    pub data: &'a mut [T],
    /// What a code means; scale 1 and zero point 0 where the tensor has no encoding.
    pub encoding: Encoding,
    extents: Extents<'a>,
}

const PLAIN: Encoding = Encoding { scale: 1.0, zero_point: 0 };

impl<'a, T: Element> Quant<'a, T> {
    fn of(io: &Io<'a>, port: usize) -> Result<Self, ExecError> {
        Ok(Self {
            data: io.inputs.get(port)?,
            shape: io.inputs.shape(port)?,
            encoding: io.inputs.encoding(port).unwrap_or(PLAIN),
        })
    }
}

impl<'a, T: Element> QuantMut<'a, T> {
    fn of(io: &mut Io<'a>, port: usize) -> Result<Self, ExecError> {
        let encoding = io.outputs.encoding(port).unwrap_or(PLAIN);
        let (data, extents) = io.outputs.take_bounded(port)?;
        Ok(Self { data, encoding, extents })
    }

    /// The extents: the bounds, or what [`QuantMut::set_shape`] made of them.
    pub fn shape(&self) -> &[usize] {
        self.extents.get()
    }

    /// Says the extents of a bounded output in this run. The elements stay where they were written; each
    /// bounded extent may shrink, and the others stay as they are.
    ///
    /// # Errors
    /// Another rank, or an extent that may not be.
    pub fn set_shape(&mut self, dims: &[usize]) -> Result<(), ExecError> {
        self.extents.set(dims)
    }
}

/// A code as a number, and the nearest code to a number.
pub trait Code: Element {
    /// The code as an integer.
    fn to_i32(self) -> i32;
    /// The nearest code, saturating; ties to even. NaN becomes the lowest code.
    fn from_f32(value: f32) -> Self;
}

macro_rules! codes {
    ($($int:ty),*) => {$(
        impl Code for $int {
            #[inline]
            fn to_i32(self) -> i32 {
                i32::from(self)
            }

            #[inline]
            fn from_f32(value: f32) -> Self {
                let rounded = value.round_ties_even();
                if rounded >= <$int>::MIN as f32 { rounded as Self } else { <$int>::MIN }
            }
        }
    )*};
}

codes!(u8, i8, u16, i16, i32);

impl Encoding {
    /// The number that `code` stands for.
    #[inline]
    pub fn dequantize<T: Code>(self, code: T) -> f32 {
        (code.to_i32().wrapping_sub(self.zero_point)) as f32 * self.scale
    }

    /// The code nearest to `value`: divide, round half to even, add the zero point, saturate
    /// (ONNX `QuantizeLinear`).
    #[inline]
    pub fn quantize<T: Code>(self, value: f32) -> T {
        T::from_f32((value / self.scale).round_ties_even() + self.zero_point as f32)
    }
}

/// A scalar parameter of a DSP function.
pub trait DspParam: Copy + Send + Sync + 'static {
    /// Reads the parameter called `name`.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error>;
}

impl DspParam for f32 {
    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error> {
        cx.float32(name)
    }
}

impl DspParam for i32 {
    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error> {
        let value = cx.int(name)?;
        Self::try_from(value)
            .map_err(|_| Error::new(format!("parameter {name:?} is {value}, wanted 32 bits")))
    }
}

impl DspParam for bool {
    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error> {
        cx.flag(name)
    }
}

/// Hands out the arguments of a DSP function one after the other; used by [`dsp_kernel`](crate::dsp_kernel).
#[derive(Debug)]
pub struct DspCall<'a> {
    io: Io<'a>,
    next_output: usize,
    next_input: usize,
}

impl<'a> DspCall<'a> {
    /// The arguments of one call.
    pub fn new(io: Io<'a>) -> Self {
        Self { io, next_output: 0, next_input: 0 }
    }

    /// The next output.
    ///
    /// # Errors
    /// No such output, or another type.
    pub fn output<T: Element>(&mut self) -> Result<QuantMut<'a, T>, ExecError> {
        let port = self.next_output;
        self.next_output += 1;
        QuantMut::of(&mut self.io, port)
    }

    /// The next input.
    ///
    /// # Errors
    /// No such input, or another type.
    pub fn input<T: Element>(&mut self) -> Result<Quant<'a, T>, ExecError> {
        let port = self.next_input;
        self.next_input += 1;
        Quant::of(&self.io, port)
    }

    /// The fast memory.
    pub fn vtcm(self) -> Scratch<'a> {
        self.io.scratch
    }
}

/// Makes a kernel type of a plain function, to be registered with `KernelDef::new`.
///
/// The function takes outputs, inputs, scalar parameters (`f32`, `i32` or `bool`) and the fast
/// memory (VTCM), in this order:
///
/// ```
/// use udo_api::{ExecError, Quant, QuantMut, Scratch, dsp_kernel};
///
/// dsp_kernel!(ScaleDsp = scale_impl(out: [u8], in: [u8], params: { factor: f32 }));
///
/// fn scale_impl(
///     out: QuantMut<'_, u8>,
///     input: Quant<'_, u8>,
///     factor: f32,
///     _vtcm: Scratch<'_>,
/// ) -> Result<(), ExecError> {
///     for (y, &x) in out.data.iter_mut().zip(input.data) {
///         *y = out.encoding.quantize(factor * input.encoding.dequantize(x));
///     }
///     Ok(())
/// }
/// # fn main() {}
/// ```
///
/// A parameter whose name is no variable's name is written `axis_size: i32 = "axisSize"`.
#[macro_export]
macro_rules! dsp_kernel {
    (@name $param:ident) => {
        ::core::stringify!($param)
    };
    (@name $param:ident $name:literal) => {
        $name
    };
    ($kernel:ident = $function:ident(
        out: [$($out:ty),*], in: [$($in:ty),*],
        params: { $($param:ident: $ty:ty $(= $name:literal)?),* }
    )) => {
        #[derive(Debug)]
        struct $kernel {
            $($param: $ty,)*
        }

        impl $crate::Kernel for $kernel {
            fn finalize(cx: &$crate::FinalizeCx<'_>) -> ::core::result::Result<Self, $crate::Error> {
                let _ = cx;
                ::core::result::Result::Ok(Self {
                    $($param: <$ty as $crate::DspParam>::read(
                        cx,
                        $crate::dsp_kernel!(@name $param $($name)?),
                    )?,)*
                })
            }

            fn workspace(&self) -> $crate::Workspace {
                $crate::Workspace::ALL_VTCM
            }

            fn execute(&self, io: $crate::Io<'_>) -> ::core::result::Result<(), $crate::ExecError> {
                let mut call = $crate::DspCall::new(io);
                $function(
                    $(call.output::<$out>()?,)*
                    $(call.input::<$in>()?,)*
                    $(self.$param,)*
                    call.vtcm(),
                )
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_half_to_even_and_saturate() {
        let encoding = Encoding { scale: 0.5, zero_point: 10 };
        let cases = [(0.0, 10), (0.25, 10), (0.75, 12), (-100.0, 0), (1000.0, 255), (f32::NAN, 0)];
        for (value, code) in cases {
            assert_eq!(encoding.quantize::<u8>(value), code, "{value}");
        }
        assert_eq!(encoding.dequantize(14u8).to_bits(), 2.0f32.to_bits());
    }

    #[test]
    fn wide_codes_saturate_at_their_own_ends() {
        let encoding = Encoding { scale: 1.0, zero_point: 0 };
        assert_eq!(encoding.quantize::<i32>(3e9), i32::MAX);
        assert_eq!(encoding.quantize::<i32>(-3e9), i32::MIN);
        assert_eq!(encoding.quantize::<u16>(70000.0), u16::MAX);
        assert_eq!(encoding.quantize::<i8>(-129.0), -128);
    }
}
