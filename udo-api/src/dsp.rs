//! DSP kernels: plain functions over quantized views, outputs first.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "saturating between quantized values and numbers is what this file does"
)]

mod params;
mod ports;

pub use params::{DspKept, DspParam, DspScalar, Strings, Texts, TypedTensor};
pub use ports::{
    DspCall, DspCheck, DspPort, Quant, QuantMut, Quants, QuantsMut, only_the_last_is_repeated,
};

use crate::element::Element;
use crate::encoding::Encoding;

/// Conversion between quantized values and real numbers.
///
/// ```
/// use udo_api::{Encoding, QuantizedType};
///
/// /// Returns the largest value, dequantized.
/// fn largest<T: QuantizedType>(values: &[T], encoding: Encoding) -> f32 {
///     let number = |value: &T| encoding.dequantize(*value);
///     values.iter().map(number).fold(f32::NEG_INFINITY, f32::max)
/// }
///
/// let encoding = Encoding { scale: 0.5, zero_point: 10 };
/// assert_eq!(largest(&[8u8, 14, 10], encoding), 2.0);
/// assert_eq!(u8::from_f32(300.0), 255);
/// ```
pub trait QuantizedType: Element {
    /// The quantized value as an integer.
    fn to_i32(self) -> i32;
    /// The nearest quantized value, saturating; ties to even. NaN becomes the lowest quantized value.
    fn from_f32(value: f32) -> Self;
}

macro_rules! quantized {
    ($($int:ty),*) => {$(
        impl QuantizedType for $int {
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

quantized!(u8, i8, u16, i16, i32);

impl Encoding {
    /// Dequantizes `value`.
    #[inline]
    pub fn dequantize<T: QuantizedType>(self, value: T) -> f32 {
        (value.to_i32().wrapping_sub(self.zero_point)) as f32 * self.scale
    }

    /// Quantizes `value`: divides by the scale, rounds half to even, adds the zero point and saturates (ONNX
    /// `QuantizeLinear`).
    #[inline]
    pub fn quantize<T: QuantizedType>(self, value: f32) -> T {
        T::from_f32((value / self.scale).round_ties_even() + self.zero_point as f32)
    }
}

/// Defines a kernel type that calls a plain function, to be registered with `KernelDef::new`.
///
/// The function takes outputs, inputs, parameters and the fast memory (VTCM), in this order:
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
/// A port is written as its element type `T`:
///
/// | port | type of an input | type of an output |
/// |---|---|---|
/// | `T` | [`Quant`] | [`QuantMut`] |
/// | `Option<T>`, an optional port | `Option<Quant>` | `Option<QuantMut>` |
/// | `[T]`, a repeated port, which must be the last one | [`Quants`] | [`QuantsMut`] |
///
/// A parameter is written as the function's argument type: a number, `bool`, `&str`, a slice of numbers, [`Strings`],
/// [`TypedTensor`], or an `Option` of one of these for an optional parameter. Finalize reads all of them, and refuses
/// a node whose tensors or parameters have other types. A parameter whose name is not a valid Rust identifier is
/// written `axis_size: i32 = "axisSize"`.
///
/// ```
/// use udo_api::{ExecError, Quant, QuantMut, Quants, Scratch, dsp_kernel};
///
/// dsp_kernel!(BlendDsp = blend_impl(
///     out: [u8],
///     in: [Option<i32>, [u8]],
///     params: { mode: &str, weights: &[f32], limit: Option<i32> }
/// ));
///
/// fn blend_impl(
///     out: QuantMut<'_, u8>,
///     bias: Option<Quant<'_, i32>>,
///     images: Quants<'_, u8>,
///     mode: &str,
///     weights: &[f32],
///     limit: Option<i32>,
///     _vtcm: Scratch<'_>,
/// ) -> Result<(), ExecError> {
///     # let _ = (out, bias, images, mode, weights, limit);
///     Err(ExecError::not_implemented())
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! dsp_kernel {
    (@name $param:ident) => {
        ::core::stringify!($param)
    };
    (@name $param:ident $name:literal) => {
        $name
    };
    ($kernel:ident = $function:ident(
        out: [$($out:ty),* $(,)?], in: [$($in:ty),* $(,)?],
        params: { $($param:ident: $ty:ty $(= $name:literal)?),* $(,)? }
    )) => {
        #[derive(Debug)]
        struct $kernel {
            $($param: <fn($ty) as $crate::DspParam>::Kept,)*
        }

        const _: () = {
            $crate::only_the_last_is_repeated(&[$(<$out as $crate::DspPort>::IS_REPEATED),*]);
            $crate::only_the_last_is_repeated(&[$(<$in as $crate::DspPort>::IS_REPEATED),*]);
        };

        impl $crate::Kernel for $kernel {
            fn finalize(cx: &$crate::FinalizeCx<'_>) -> ::core::result::Result<Self, $crate::Error> {
                let mut ports = $crate::DspCheck::new(cx);
                $(ports.output::<$out>()?;)*
                $(ports.input::<$in>()?;)*
                ports.finish()?;
                ::core::result::Result::Ok(Self {
                    $($param: $crate::DspKept::read(
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
                    $($crate::DspKept::give(&self.$param),)*
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
    fn values_round_half_to_even_and_saturate() {
        let encoding = Encoding { scale: 0.5, zero_point: 10 };
        let cases = [(0.0, 10), (0.25, 10), (0.75, 12), (-100.0, 0), (1000.0, 255), (f32::NAN, 0)];
        for (value, expected) in cases {
            assert_eq!(encoding.quantize::<u8>(value), expected, "{value}");
        }
        assert_eq!(encoding.dequantize(14u8).to_bits(), 2.0f32.to_bits());
    }

    #[test]
    fn wide_values_saturate_at_their_own_ends() {
        let encoding = Encoding { scale: 1.0, zero_point: 0 };
        assert_eq!(encoding.quantize::<i32>(3e9), i32::MAX);
        assert_eq!(encoding.quantize::<i32>(-3e9), i32::MIN);
        assert_eq!(encoding.quantize::<u16>(70000.0), u16::MAX);
        assert_eq!(encoding.quantize::<i8>(-129.0), -128);
    }
}
