//! The parameters of a DSP function: checked in finalize, stored in the kernel, and passed without the heap.

use std::fmt;

use crate::author::FinalizeCx;
use crate::element::Element;
use crate::error::Error;

/// The type of a parameter of a DSP function, as in `fn(&[f32])`. It is a function type because only these may omit
/// lifetimes where [`dsp_kernel!`](crate::dsp_kernel) declares fields with it.
///
/// ```
/// use udo_api::{ExecError, Quant, QuantMut, Scratch, dsp_kernel};
///
/// dsp_kernel!(ShiftDsp = shift_impl(out: [u8], in: [u8], params: { by: f32, steps: &[i32], mode: Option<&str> }));
///
/// fn shift_impl(
///     y: QuantMut<'_, u8>,
///     x: Quant<'_, u8>,
///     by: f32,
///     steps: &[i32],
///     mode: Option<&str>,
///     _vtcm: Scratch<'_>,
/// ) -> Result<(), ExecError> {
///     let steps = if mode == Some("none") { 0 } else { steps.iter().sum() };
///     for (y_at, &x_at) in y.data.iter_mut().zip(x.data) {
///         *y_at = y.encoding.quantize(x.encoding.dequantize(x_at) + by * steps as f32);
///     }
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a DSP function takes no parameter of the type in `{Self}`",
    note = "numbers, `bool`, `&str`, slices of numbers, `Strings<'_>`, `TypedTensor<'_, T>`, and `Option`s of these"
)]
pub trait DspParam {
    /// The stored form in the kernel.
    type Kept: DspKept;
}

/// The stored form of a parameter in a kernel. Kernels for the CPU and the GPU use it too.
///
/// ```
/// use udo_api::{DspKept, Error, FinalizeCx};
///
/// struct Params {
///     axis: i32,
///     weights: Box<[f32]>,
///     mode: Option<Box<str>>,
/// }
///
/// fn read(cx: &FinalizeCx<'_>) -> Result<Params, Error> {
///     Ok(Params {
///         axis: DspKept::read(cx, "axis")?,
///         weights: DspKept::read(cx, "weights")?,
///         mode: DspKept::read(cx, "mode")?,
///     })
/// }
/// ```
pub trait DspKept: fmt::Debug + Send + Sync + Sized + 'static {
    /// The function's argument type.
    type Given<'k>;

    /// Reads the parameter `name`.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error>;

    /// Returns the argument for one call.
    fn give(&self) -> Self::Given<'_>;
}

/// A parameter's element type: a number or a bool.
///
/// ```
/// use udo_api::{DspScalar, Error, FinalizeCx};
///
/// /// Reads a parameter of any width that must be in its list.
/// fn chosen<T: DspScalar + PartialEq>(cx: &FinalizeCx<'_>) -> Result<T, Error> {
///     let (value, list) = (T::read(cx, "value")?, T::read_list(cx, "values")?);
///     if list.contains(&value) { Ok(value) } else { Err(Error::new(format!("{value:?} is not in {list:?}"))) }
/// }
/// ```
pub trait DspScalar: Copy + fmt::Debug + Send + Sync + 'static {
    /// Reads the parameter `name`.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error>;

    /// Reads the list `name`.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    fn read_list(cx: &FinalizeCx<'_>, name: &str) -> Result<Box<[Self]>, Error>;
}

/// The former name of [`Strings`].
#[doc(hidden)]
pub type Texts<'k> = Strings<'k>;

/// The strings of a parameter.
#[derive(Clone, Copy)]
pub struct Strings<'k> {
    texts: &'k [Box<str>],
}

impl<'k> Strings<'k> {
    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns string `index`.
    pub fn get(&self, index: usize) -> Option<&'k str> {
        self.texts.get(index).map(AsRef::as_ref)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'k str> + use<'k> {
        self.texts.iter().map(AsRef::as_ref)
    }
}

impl fmt::Debug for Strings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.texts).finish()
    }
}

/// A parameter that is a tensor of the type `T`.
#[derive(Clone, Copy, Debug)]
pub struct TypedTensor<'k, T> {
    /// The elements, outermost dimension first.
    pub data: &'k [T],
    /// The dimensions.
    pub shape: &'k [usize],
}

/// The stored form of a list of strings.
#[derive(Debug)]
pub struct OwnedStrings(Box<[Box<str>]>);

/// The stored form of a tensor parameter.
#[derive(Debug)]
pub struct OwnedTensor<T> {
    data: Box<[T]>,
    shape: Box<[usize]>,
}

impl<T: DspScalar> DspKept for T {
    type Given<'k> = T;

    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<T, Error> {
        DspScalar::read(cx, name)
    }

    fn give(&self) -> T {
        *self
    }
}

impl<T: DspScalar> DspKept for Box<[T]> {
    type Given<'k> = &'k [T];

    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error> {
        T::read_list(cx, name)
    }

    fn give(&self) -> &[T] {
        self
    }
}

impl DspKept for Box<str> {
    type Given<'k> = &'k str;

    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error> {
        cx.text(name).map(Box::from)
    }

    fn give(&self) -> &str {
        self
    }
}

impl DspKept for OwnedStrings {
    type Given<'k> = Strings<'k>;

    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error> {
        Ok(Self(cx.strings(name)?.into_iter().map(Box::from).collect()))
    }

    fn give(&self) -> Strings<'_> {
        Strings { texts: &self.0 }
    }
}

impl<T: Element> DspKept for OwnedTensor<T> {
    type Given<'k> = TypedTensor<'k, T>;

    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error> {
        let tensor = cx.tensor(name)?;
        Ok(Self { data: tensor.get()?.into(), shape: tensor.desc().shape().into() })
    }

    fn give(&self) -> TypedTensor<'_, T> {
        TypedTensor { data: &self.data, shape: &self.shape }
    }
}

impl<K: DspKept> DspKept for Option<K> {
    type Given<'k> = Option<K::Given<'k>>;

    fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error> {
        cx.is_param_given(name)?.then(|| K::read(cx, name)).transpose()
    }

    fn give(&self) -> Option<K::Given<'_>> {
        self.as_ref().map(K::give)
    }
}

/// Implements [`DspParam`] for a type that the function gets and for its `Option`, with the type that the kernel stores.
macro_rules! stored_params {
    ($([$($generics:tt)*] $passed:ty => $stored:ty;)*) => {$(
        impl $($generics)* DspParam for fn($passed) {
            type Kept = $stored;
        }

        impl $($generics)* DspParam for fn(Option<$passed>) {
            type Kept = Option<$stored>;
        }
    )*};
}

stored_params! {
    [] &str => Box<str>;
    [] Strings<'_> => OwnedStrings;
    [<T: Element>] TypedTensor<'_, T> => OwnedTensor<T>;
}

macro_rules! scalars {
    ($($scalar:ty: $read:ident, $read_list:ident;)*) => {$(
        impl DspScalar for $scalar {
            fn read(cx: &FinalizeCx<'_>, name: &str) -> Result<Self, Error> {
                $read(cx, name)
            }

            fn read_list(cx: &FinalizeCx<'_>, name: &str) -> Result<Box<[Self]>, Error> {
                $read_list(cx, name)
            }
        }

        stored_params! {
            [] $scalar => $scalar;
            [] &[$scalar] => Box<[$scalar]>;
        }
    )*};
}

scalars! {
    f32: float32, floats32;
    f64: float, floats;
    bool: flag, flags;
    i8: int, ints;
    i16: int, ints;
    i32: int, ints;
    i64: int, ints;
    u8: int, ints;
    u16: int, ints;
    u32: int, ints;
    u64: int, ints;
}

fn float(cx: &FinalizeCx<'_>, name: &str) -> Result<f64, Error> {
    cx.float(name)
}

fn float32(cx: &FinalizeCx<'_>, name: &str) -> Result<f32, Error> {
    cx.float32(name)
}

fn flag(cx: &FinalizeCx<'_>, name: &str) -> Result<bool, Error> {
    cx.flag(name)
}

fn int<T: TryFrom<i64> + Element>(cx: &FinalizeCx<'_>, name: &str) -> Result<T, Error> {
    narrow(name, cx.int(name)?)
}

fn narrow<T: TryFrom<i64> + Element>(name: &str, value: i64) -> Result<T, Error> {
    let refuse = |_| Error::new(format!("parameter {name:?} is {value}, expected {}", T::DTYPE));
    T::try_from(value).map_err(refuse)
}

fn flags(cx: &FinalizeCx<'_>, name: &str) -> Result<Box<[bool]>, Error> {
    Ok(cx.ints(name)?.iter().map(|&int| int != 0).collect())
}

fn ints<T: TryFrom<i64> + Element>(cx: &FinalizeCx<'_>, name: &str) -> Result<Box<[T]>, Error> {
    cx.ints(name)?.iter().map(|&int| narrow(name, int)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
fn floats32(cx: &FinalizeCx<'_>, name: &str) -> Result<Box<[f32]>, Error> {
    Ok(floats(cx, name)?.iter().map(|&float| float as f32).collect())
}

/// Reads a list of floating-point numbers; integers are converted.
#[expect(clippy::cast_precision_loss, reason = "floats written as integers are small")]
fn floats(cx: &FinalizeCx<'_>, name: &str) -> Result<Box<[f64]>, Error> {
    let refusal = match cx.floats(name) {
        Ok(list) => return Ok(list.into()),
        Err(refusal) => refusal,
    };
    let list = cx.ints(name).map_err(|_| refusal)?;
    Ok(list.iter().map(|&int| int as f64).collect())
}
