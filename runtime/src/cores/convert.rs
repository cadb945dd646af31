//! Values that change cores: copied, quantized, dequantized, or stored in another width.

use udo_api::{
    Code, Core, DType, Element, Encoding, Error, ExecError, F16, FinalizeCx, Io, Kernel, KernelDef,
    Shape, Status, TensorDesc, any_input, any_output,
};

use crate::memory::{Budget, OutOfMemory, Tensor, elements, elements_mut};

/// The kernel that brings a value into another memory or type; the planner inserts it where a value crosses cores.
pub(crate) const TRANSFER: KernelDef = KernelDef::new::<Transfer>("Transfer", Core::CPU)
    .ports(&[any_input(0).bounded(), any_output(0).bounded()]);

/// A number in some storage.
trait Stored: udo_api::Element {
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

macro_rules! stored_codes {
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
            fn is_code<T: Code>() {}
            is_code::<$code>();
        };
    )*};
}

stored_codes!(u8, i8, u16, i16, i32);

/// Runs `$body` with `$name` standing for the Rust type of `$dtype`, or answers `$other`.
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

/// The kernel that copies a value to where the planner wants its rows.
pub(crate) const COPY: KernelDef = KernelDef::new::<Copy>("Copy", Core::CPU)
    .ports(&[any_input(0).pitched(), any_output(0).pitched()]);

/// Row by row, on as many threads as there are.
struct Copy {
    run: fn(Io<'_>) -> Result<(), ExecError>,
}

impl Kernel for Copy {
    fn finalize(cx: &FinalizeCx<'_>) -> Result<Self, Error> {
        let x = cx.input(0)?;
        let unknown = Err(Error::new(format!("no way to copy {x}")));
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

const PLAIN: Encoding = Encoding { scale: 1.0, zero_point: 0 };

/// From one type and encoding of a value to another.
#[derive(Debug)]
struct Transfer {
    from: (Option<DType>, Encoding),
    to: (Option<DType>, Encoding),
    copies: bool,
}

impl Transfer {
    fn between(from: &TensorDesc, to: &TensorDesc) -> Result<Self, Error> {
        let stored = |desc: &TensorDesc| (desc.dtype(), desc.encoding().unwrap_or(PLAIN));
        let copies =
            from.dtype() == to.dtype() && (from.encoding() == to.encoding() || !is_code(to));
        let known =
            |desc: &TensorDesc| with_stored!(desc.dtype(), T => size_of::<T>() > 0, else false);
        let coded = |desc: &TensorDesc| !is_code(desc) || desc.encoding().is_some();
        let converts = known(from) && known(to) && coded(from) && coded(to);
        if !copies && !converts {
            return Err(Error::new(format!("no way from {from} to {to}")));
        }
        Ok(Self { from: stored(from), to: stored(to), copies })
    }
}

fn is_code(desc: &TensorDesc) -> bool {
    !matches!(desc.dtype(), Some(DType::F32 | DType::F16))
}

fn convert<S: Stored, D: Stored>(src: &[S], from: Encoding, dst: &mut [D], to: Encoding) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d = D::store(s.load(from), to);
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
        if outputs.shape(0)? != dims {
            outputs.set_shape(0, dims)?;
        }
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
            convert::<S, D>(inputs.get(0)?, self.from.1, outputs.take(0)?, self.to.1);
            Ok(())
        }, else unknown), else unknown)
    }
}

/// Why there is no constant in another format.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ConstantError {
    /// There is no way from one format to the other.
    #[error(transparent)]
    NoWay(#[from] Error),
    /// There is no memory for it.
    #[error("the constant in the format that its reader takes {0}")]
    Memory(#[from] OutOfMemory),
}

/// A constant of another type and encoding, made once before any run, out of `budget`.
///
/// # Errors
/// There is no way from the one to the other, or no memory.
pub(crate) fn constant(
    tensor: &Tensor,
    from: &TensorDesc,
    to: &TensorDesc,
    budget: &Budget,
) -> Result<Tensor, ConstantError> {
    let Transfer { from: (from_type, from_encoding), to: (to_type, to_encoding), copies } =
        Transfer::between(from, to)?;
    if copies {
        return Ok(tensor.clone());
    }
    let broken = || Error::new(format!("constant {} does not hold {from}", tensor.desc()));
    let mut buffer = budget.zeroed(to.size_bytes())?;
    with_stored!(from_type, S => with_stored!(to_type, D => {
        let src = elements::<S>(tensor.bytes()).ok_or_else(broken)?;
        let dst = elements_mut::<D>(buffer.bytes_mut()).ok_or_else(broken)?;
        convert(src, from_encoding, dst, to_encoding);
    }, else return Err(broken().into())), else return Err(broken().into()));
    let made = Tensor::from_buffer(to_type.unwrap_or(DType::U8), to.full_shape(), buffer);
    Ok(made.map_err(|e| Error::new(e.to_string()))?)
}

/// A tensor of type `dtype` that holds these numbers, rounded and saturated as the type asks for.
///
/// # Errors
/// Another number of elements than the shape has, or a type that holds no numbers.
pub(crate) fn from_numbers(dtype: DType, shape: Shape, numbers: &[f64]) -> Result<Tensor, Error> {
    macro_rules! of {
        ($($variant:ident $convert:expr),*) => {
            match dtype {
                $(DType::$variant => {
                    let convert = $convert;
                    Tensor::of(shape, &numbers.iter().map(|&v| convert(v)).collect::<Vec<_>>())
                })*
                DType::Str => return Err(Error::new("text holds no numbers")),
            }
        };
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounding and saturating is what is asked for"
    )]
    let tensor = of!(
        F32 | v: f64| v as f32, F64 | v: f64| v,
        F16 | v: f64| F16::from_f32(v as f32), Bf16 | v: f64| udo_api::Bf16::from_f32(v as f32),
        I8 | v: f64| v as i8, I16 | v: f64| v as i16, I32 | v: f64| v as i32, I64 | v: f64| v as i64,
        U8 | v: f64| v as u8, U16 | v: f64| v as u16, U32 | v: f64| v as u32, U64 | v: f64| v as u64,
        Bool | v: f64| udo_api::Bool::from(v != 0.0)
    );
    tensor.map_err(|e| Error::new(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Limit;

    fn desc(dtype: DType) -> TensorDesc {
        TensorDesc::new(dtype, Shape::new(&[4]).unwrap())
    }

    const HALVES: Encoding = Encoding { scale: 0.5, zero_point: 2 };

    #[test]
    fn constants_change_their_type() {
        let budget = &Budget::default();
        let floats =
            Tensor::of::<f32>(Shape::new(&[4]).unwrap(), &[-1.0, 0.0, 0.25, 1000.0]).unwrap();
        let codes = desc(DType::U8).with_encoding(HALVES);
        let quantized = constant(&floats, &desc(DType::F32), &codes, budget).unwrap();
        assert_eq!(quantized.get::<u8>(), Some(&[0, 2, 2, 255][..]));
        let back = constant(&quantized, &codes, &desc(DType::F32), budget).unwrap();
        assert_eq!(back.get::<f32>(), Some(&[-1.0, 0.0, 0.0, 126.5][..]));
        let halves = constant(&floats, &desc(DType::F32), &desc(DType::F16), budget).unwrap();
        assert_eq!(halves.dtype(), DType::F16);
        assert_eq!(budget.taken(), 4 + 16 + 8);
    }

    #[test]
    fn a_constant_of_another_type_wants_memory() {
        let floats = Tensor::zeros(DType::F32, Shape::new(&[4]).unwrap()).unwrap();
        let budget = &Budget::new(Limit::Asked(7));
        let error = constant(&floats, &desc(DType::F32), &desc(DType::F16), budget).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the constant in the format that its reader takes wants 8 bytes of memory, and 0 of the 7 that \
             max_memory allows are taken"
        );
    }

    #[test]
    fn codes_without_an_encoding_are_refused() {
        let floats = Tensor::zeros(DType::F32, Shape::new(&[4]).unwrap()).unwrap();
        let budget = &Budget::default();
        let error = constant(&floats, &desc(DType::F32), &desc(DType::U8), budget).unwrap_err();
        assert_eq!(error.to_string(), "no way from f32[4] to u8[4]");
    }

    #[test]
    fn numbers_fill_any_type() {
        for dtype in DType::ALL.into_iter().filter(|&t| t != DType::Str) {
            let tensor = from_numbers(dtype, Shape::new(&[2]).unwrap(), &[0.0, 1.0]).unwrap();
            assert_eq!(tensor.dtype(), dtype);
        }
    }
}
