//! Tensors as text: type, shape, and the elements of small ones.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use udo_api::{Bool, DType, Element, Shape};

use crate::memory::Tensor;

/// Tensors with more elements than this show none, unless all are the same.
const MOST_SHOWN: usize = 64;

/// `f32[2]{1.0, 2.0}`, or `f32[2]{1.0}` where all elements are the same; without braces where there are too many.
pub(super) fn literal(tensor: &Tensor) -> impl Display {
    Literal(tensor)
}

/// The most elements that one word stands for: a text decides how many there are.
const MOST_ALIKE: usize = 1 << 24;

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

/// The elements in words: all, or one for all.
fn elements(tensor: &Tensor) -> Option<Vec<String>> {
    fn words<T: Element>(tensor: &Tensor, word: fn(&T) -> String) -> Option<Vec<String>> {
        let elements = tensor.get::<T>()?;
        let bytes = tensor.bytes();
        let each = size_of::<T>();
        let alike = bytes.chunks_exact(each).all(|element| bytes.starts_with(element));
        let shown = if alike { elements.get(..1).unwrap_or_default() } else { elements };
        (shown.len() <= MOST_SHOWN).then(|| shown.iter().map(word).collect())
    }
    if tensor.dtype() == DType::Bool {
        return words::<Bool>(tensor, |b| b.0.to_string());
    }
    with_text!(tensor.dtype(), T => words::<T>(tensor, |n| format!("{n:?}")), else None)
}

/// The tensor of these words, one for each element or one for all of them.
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
        if let [all] = elements[..] {
            if shape.len() > MOST_ALIKE {
                return Err(format!("up to {MOST_ALIKE} elements that are the same"));
            }
            elements = vec![all; shape.len()];
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
