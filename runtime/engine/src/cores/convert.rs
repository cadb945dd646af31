//! Conversion of values between cores: copying, quantizing, dequantizing, and changing the width.

use udo_api::{
    Core, DType, Element, Encoding, Encodings, Error, ExecError, F16, FinalizeCx, Io, Kernel,
    KernelDef, QuantizedType, Shape, Status, TensorDesc, any_input, any_output,
};

use udo_graph::memory::{Budget, OutOfMemory, Tensor, TensorStorage, elements, elements_mut};

/// The kernel that transfers a value to another memory or type. The planner inserts it where a value crosses
/// cores.
pub const TRANSFER: KernelDef = KernelDef::new::<Transfer>("Transfer", Core::CPU)
    .ports(&[any_input(0).bounded().per_axis(), any_output(0).bounded().per_axis()]);

/// An element type that represents a real number, with an encoding if it is quantized.
pub(super) trait Stored: udo_api::Element {
    fn load(self, encoding: Encoding) -> f32;
    fn store(value: f32, encoding: Encoding) -> Self;
}

impl Stored for f32 {
    fn load(self, _: Encoding) -> f32 {
        self
    }

    fn store(value: f32, _: Encoding) -> Self {
        value
    }
}

impl Stored for F16 {
    fn load(self, _: Encoding) -> f32 {
        self.to_f32()
    }

    fn store(value: f32, _: Encoding) -> Self {
        Self::from_f32(value)
    }
}

macro_rules! stored_quantized {
    ($($code:ty),*) => {$(
        impl Stored for $code {
            fn load(self, encoding: Encoding) -> f32 {
                encoding.dequantize(self)
            }

            fn store(value: f32, encoding: Encoding) -> Self {
                encoding.quantize(value)
            }
        }

        const _: fn() = || {
            fn is_quantized<T: QuantizedType>() {}
            is_quantized::<$code>();
        };
    )*};
}

stored_quantized!(u8, i8, u16, i16, i32);

/// Runs `$body` with the type alias `$name` for the Rust type of `$dtype`; `$other` for other types.
macro_rules! with_type {
    ($dtype:expr, $name:ident => $body:expr, else $other:expr, [$($variant:ident $rust:ty),*]) => {
        match $dtype {
            $(Some(DType::$variant) => { type $name = $rust; $body })*
            _ => $other,
        }
    };
}

macro_rules! with_stored {
    ($dtype:expr, $name:ident => $body:expr, else $other:expr) => {
        with_type!($dtype, $name => $body, else $other, [F32 f32, F16 F16, U8 u8, I8 i8, U16 u16, I16 i16, I32 i32])
    };
}

macro_rules! with_any {
    ($dtype:expr, $name:ident => $body:expr, else $other:expr) => {
        with_type!($dtype, $name => $body, else $other, [
            F32 f32, F64 f64, F16 udo_api::F16, Bf16 udo_api::Bf16, I8 i8, I16 i16, I32 i32, I64 i64,
            U8 u8, U16 u16, U32 u32, U64 u64, Bool udo_api::Bool
        ])
    };
}

/// The kernel that copies a value to the position that the planner chose for its rows.
pub const COPY: KernelDef = KernelDef::new::<Copy>("Copy", Core::CPU)
    .ports(&[any_input(0).pitched().per_axis(), any_output(0).pitched().per_axis()]);

/// Copies row by row, on all threads.
struct Copy {
    run: fn(Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Copy {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let unknown = Err(Error::new(format!("cannot copy {x}")));
        let run = with_any!(x.dtype(), T => Ok(copy_rows::<T> as fn(Io<'_>) -> _), else unknown)?;
        Ok(Self { run })
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        (self.run)(io)
    }
}

fn copy_rows<T: Element>(io: Io<'_>) -> Result<(), ExecError> {
    let Io { inputs, mut outputs, parallel, .. } = io;
    let (x, mut y) = (inputs.rows::<T>(0)?, outputs.take_rows::<T>(0)?);
    parallel.rows_mut(&mut y, |row, y| {
        let x = x.get(row).filter(|x| x.len() == y.len());
        y.copy_from_slice(x.ok_or(ExecError::of(Status::BAD_CALL))?);
        Ok(())
    })
}

pub(super) const PLAIN: Encodings = Encodings::PerTensor(Encoding { scale: 1.0, zero_point: 0 });

/// The conversion from one type and encoding to another.
#[derive(Debug)]
struct Transfer {
    from: (Option<DType>, Encodings),
    to: (Option<DType>, Encodings),
    copies: bool,
}

impl Transfer {
    fn between(from: &TensorDesc, to: &TensorDesc) -> Result<Self, Error> {
        from.check_encoding()?;
        to.check_encoding()?;
        let stored = |desc: &TensorDesc| (desc.dtype(), desc.encodings().unwrap_or(PLAIN));
        let copies =
            from.dtype() == to.dtype() && (from.encodings() == to.encodings() || !is_quantized(to));
        let known =
            |desc: &TensorDesc| with_stored!(desc.dtype(), T => size_of::<T>() > 0, else false);
        let coded = |desc: &TensorDesc| !is_quantized(desc) || desc.encodings().is_some();
        let converts = known(from) && known(to) && coded(from) && coded(to);
        if !copies && !converts {
            return Err(Error::new(format!("cannot convert {from} to {to}")));
        }
        Ok(Self { from: stored(from), to: stored(to), copies })
    }
}

fn is_quantized(desc: &TensorDesc) -> bool {
    !matches!(desc.dtype(), Some(DType::F32 | DType::F16))
}

/// Returns the number of consecutive elements with one encoding.
fn run_len(encodings: Encodings, dims: &[usize], len: usize) -> usize {
    match encodings {
        Encodings::PerTensor(_) => len,
        Encodings::PerAxis(encoding) => {
            dims.get(encoding.axis() + 1..).map_or(len, |inner| inner.iter().product())
        }
    }
}

/// Returns the encoding of the elements in run `run`.
fn encoding_of(encodings: Encodings, run: usize) -> Encoding {
    match encodings {
        Encodings::PerTensor(encoding) => encoding,
        // `check_encoding` allows an axis of extent 0 only in an empty tensor.
        Encodings::PerAxis(encoding) => encoding
            .at(run.checked_rem(encoding.count()).unwrap_or(0))
            .unwrap_or(Encoding { scale: 1.0, zero_point: 0 }),
    }
}

/// Converts elements with extents `dims`. The encoding of an element depends on its position.
pub(super) fn convert<S: Stored, D: Stored>(
    (src, from): (&[S], Encodings),
    (dst, to): (&mut [D], Encodings),
    dims: &[usize],
) {
    let [from_run, to_run] = [from, to].map(|e| run_len(e, dims, src.len()).max(1));
    // One of the two is a multiple of the other: both runs cover the innermost axes.
    let run = from_run.min(to_run);
    for (at, (src, dst)) in src.chunks(run).zip(dst.chunks_mut(run)).enumerate() {
        let from = encoding_of(from, at * run / from_run);
        let to = encoding_of(to, at * run / to_run);
        for (d, s) in dst.iter_mut().zip(src) {
            *d = D::store(s.load(from), to);
        }
    }
}

impl Kernel for Transfer {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        Self::between(&cx.input(0)?, &cx.output(0)?)
    }

    fn execute(&self, io: Io<'_>) -> Result<(), ExecError> {
        let Io { inputs, mut outputs, .. } = io;
        let unknown = Err(ExecError::of(Status::BAD_CALL));
        let dims = inputs.shape(0)?;
        outputs.set_shape(0, dims)?;
        if self.copies {
            return with_any!(self.from.0, T => {
                let src = inputs.get::<T>(0)?;
                let dst = outputs.take::<T>(0)?;
                for (d, s) in dst.iter_mut().zip(src) {
                    *d = *s;
                }
                Ok(())
            }, else unknown);
        }
        with_stored!(self.from.0, S => with_stored!(self.to.0, D => {
            let dst = outputs.take(0)?;
            convert::<S, D>((inputs.get(0)?, self.from.1), (dst, self.to.1), dims);
            Ok(())
        }, else unknown), else unknown)
    }
}

/// The reason why a constant cannot be converted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConstantError {
    /// The conversion does not exist.
    #[error(transparent)]
    NoWay(#[from] Error),
    /// Memory is exhausted.
    #[error("the converted constant {0}")]
    Memory(#[from] OutOfMemory),
}

/// Converts a constant to another type and encoding. The memory is charged to `budget`.
///
/// # Errors
/// Fails if there is no conversion, or not enough memory.
pub(crate) fn constant(
    tensor: &Tensor,
    from: &TensorDesc,
    to: &TensorDesc,
    budget: &Budget,
) -> Result<Tensor, ConstantError> {
    let Transfer { from: (from_type, from_encodings), to: (to_type, to_encodings), copies } =
        Transfer::between(from, to)?;
    if copies {
        return Ok(tensor.clone());
    }
    let broken = || Error::new(format!("constant {} does not hold {from}", tensor.desc()));
    let mut buffer = budget.zeroed(to.size_bytes())?;
    with_stored!(from_type, S => with_stored!(to_type, D => {
        let src = elements::<S>(tensor.bytes()).ok_or_else(broken)?;
        let dst = elements_mut::<D>(buffer.bytes_mut()).ok_or_else(broken)?;
        convert((src, from_encodings), (dst, to_encodings), to.shape());
    }, else return Err(broken().into())), else return Err(broken().into()));
    let made = Tensor::from_buffer(to_type.unwrap_or(DType::U8), to.full_shape(), buffer);
    Ok(made.map_err(|e| Error::new(e.to_string()))?)
}

/// Creates a tensor of type `dtype` from numbers, rounded and saturated to the type.
///
/// # Errors
/// Fails if the number of elements differs from the shape, or the type is not numeric.
pub fn from_numbers(dtype: DType, shape: Shape, numbers: &[f64]) -> Result<Tensor, Error> {
    macro_rules! convert_to {
        ($($variant:ident $convert:expr),*) => {
            match dtype {
                $(DType::$variant => {
                    let convert = $convert;
                    Tensor::from_slice(shape, &numbers.iter().map(|&v| convert(v)).collect::<Vec<_>>())
                })*
                DType::Str => return Err(Error::new("a tensor of strings cannot hold numbers")),
            }
        };
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounding and saturating is what is asked for"
    )]
    let tensor = convert_to!(
        F32 | v: f64| v as f32, F64 | v: f64| v,
        F16 | v: f64| F16::from_f32(v as f32), Bf16 | v: f64| udo_api::Bf16::from_f32(v as f32),
        I8 | v: f64| v as i8, I16 | v: f64| v as i16, I32 | v: f64| v as i32, I64 | v: f64| v as i64,
        U8 | v: f64| v as u8, U16 | v: f64| v as u16, U32 | v: f64| v as u32, U64 | v: f64| v as u64,
        Bool | v: f64| udo_api::Bool::from(v != 0.0)
    );
    tensor.map_err(|e| Error::new(e.to_string()))
}

#[cfg(test)]
mod tests;
