//! Tensors in the printed text format of graphs: type, shape, and the elements of small tensors.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use udo_api::{Bool, DType, Element, Shape};

use crate::memory::Tensor;

/// A tensor with more elements is printed without them, unless all are equal.
const MAX_PRINTED: usize = 64;

/// Formats a tensor as `f32[2]{1.0, 2.0}`, as `f32[2]{1.0}` if all elements are equal, or as `f32[1000]` if there are too
/// many.
pub(super) fn literal(tensor: &Tensor) -> impl Display {
    Literal(tensor)
}

/// The maximum number of elements of a parsed tensor that the text gives as one repeated element. Without a limit, a short
/// text could allocate any amount of memory.
const MAX_REPEATED: usize = 1 << 24;

/// A tensor, for printing.
struct Literal<'a>(&'a Tensor);

impl Display for Literal<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let tensor = self.0;
        write!(f, "{}{}", tensor.dtype(), tensor.desc().full_shape())?;
        match elements(tensor) {
            Some(elements) if !elements.is_empty() => write!(f, "{{{}}}", elements.join(", ")),
            _ => Ok(()),
        }
    }
}

/// Runs `$use` with `$T` as the element type of `$dtype`, or `$else` for types that have no text.
macro_rules! with_text {
    ($dtype:expr, $T:ident => $use:expr, else $else:expr) => {
        with_text!(@ $dtype, $T, $use, $else, F32 f32, F64 f64, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16,
            U32 u32, U64 u64)
    };
    (@ $dtype:expr, $T:ident, $use:expr, $else:expr, $($name:ident $rust:ty),*) => {
        match $dtype {
            $(DType::$name => {
                type $T = $rust;
                $use
            })*
            _ => $else,
        }
    };
}

/// Returns the elements as text: all, or a single one if all are equal. Returns `None` for too many elements, and for
/// types without a text format.
fn elements(tensor: &Tensor) -> Option<Vec<String>> {
    fn words<T: Element>(tensor: &Tensor, word: fn(&T) -> String) -> Option<Vec<String>> {
        let elements = tensor.get::<T>()?;
        let bytes = tensor.bytes();
        let are_equal =
            bytes.chunks_exact(size_of::<T>()).all(|element| bytes.starts_with(element));
        let printed = if are_equal { elements.get(..1).unwrap_or_default() } else { elements };
        (printed.len() <= MAX_PRINTED).then(|| printed.iter().map(word).collect())
    }
    if tensor.dtype() == DType::Bool {
        return words::<Bool>(tensor, |b| b.0.to_string());
    }
    with_text!(tensor.dtype(), T => words::<T>(tensor, |n| format!("{n:?}")), else None)
}

/// Parses the tensor with these elements: one word for each element, or one word for all of them.
pub(super) fn tensor(dtype: DType, shape: Shape, words: &[&str]) -> Result<Tensor, String> {
    fn parsed<T: Element, W: FromStr>(
        shape: Shape,
        words: &[&str],
        element: fn(W) -> T,
    ) -> Result<Tensor, String> {
        let number = |word: &&str| {
            let number = word.parse().map(element);
            number.map_err(|_| format!("{word:?} is not an element of {}", T::DTYPE))
        };
        let mut elements = words.iter().map(number).collect::<Result<Vec<T>, String>>()?;
        if let [repeated] = elements[..] {
            if shape.len() > MAX_REPEATED {
                return Err(format!("up to {MAX_REPEATED} elements that are the same"));
            }
            elements = vec![repeated; shape.len()];
        }
        Tensor::from_slice(shape, &elements).map_err(|e| e.to_string())
    }
    if dtype == DType::Bool {
        return parsed(shape, words, Bool);
    }
    with_text!(
        dtype,
        T => parsed::<T, T>(shape, words, |number| number),
        else Err(format!("elements of {dtype} have no text"))
    )
}
