//! The view of a node that operators and kernels have: inputs, constants and parameters.

use std::fmt;

use super::param::{ParamTensor, wrong_kind};
use crate::abi::{NodeArgs, ParamValue, param_kinds};
use crate::dtype::DType;
use crate::element::Element;
use crate::error::Error;
use crate::span::{Span, slice_or_empty};
use crate::tensor::TensorDesc;

/// The parts of a node that are known before any run.
#[derive(Clone)]
pub struct Node<'a> {
    inputs: &'a [TensorDesc],
    constants: &'a [Span],
    params: &'a [ParamValue],
    output_count: usize,
    opset: u32,
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("inputs", &self.inputs)
            .field("output_count", &self.output_count)
            .finish_non_exhaustive()
    }
}

impl<'a> Node<'a> {
    /// # Safety
    /// The pointers of `args`, and the pointers in their targets, must be valid for `'a`.
    pub(super) unsafe fn from_raw(args: &'a NodeArgs) -> Self {
        let inputs = args.input_count as usize;
        // SAFETY: `inputs` points to `input_count` descriptions, for `'a`.
        let descs = unsafe { slice_or_empty(args.inputs, inputs) };
        // SAFETY: `constants` is null or points to `input_count` spans, for `'a`.
        let constants = unsafe { slice_or_empty(args.constants, inputs) };
        // SAFETY: `params` points to `param_count` values, for `'a`.
        let params = unsafe { slice_or_empty(args.params, args.param_count as usize) };
        Self {
            inputs: descs,
            constants,
            params,
            output_count: args.output_count as usize,
            opset: args.opset,
        }
    }

    /// Returns the number of inputs, including absent ones.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the number of outputs, including absent ones.
    pub fn output_count(&self) -> usize {
        self.output_count
    }

    /// Returns the operator set version of the node; 0 without one.
    pub fn opset(&self) -> u32 {
        self.opset
    }

    /// Whether the node has input `index`.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(|d| !d.is_absent())
    }

    /// Returns the description of input `index`.
    ///
    /// # Errors
    /// The node omits that input.
    pub fn input(&self, index: usize) -> Result<TensorDesc, Error> {
        match self.inputs.get(index) {
            Some(desc) if !desc.is_absent() => Ok(*desc),
            _ => Err(Error::new(format!("input {index} is missing"))),
        }
    }

    /// Whether input `index` is a constant.
    pub fn is_constant(&self, index: usize) -> bool {
        self.constants.get(index).is_some_and(|span| !span.ptr.is_null())
    }

    /// Returns the elements of input `index` if it is a constant.
    ///
    /// # Errors
    /// The constant is not of type `T`; or it is not aligned, which occurs only for the host's own kernels that pack
    /// from the model's file.
    pub fn constant<T: Element>(&self, index: usize) -> Result<Option<&'a [T]>, Error> {
        let Some(span) = self.constants.get(index).filter(|span| !span.ptr.is_null()) else {
            return Ok(None);
        };
        let dtype = self.inputs.get(index).and_then(TensorDesc::dtype);
        if dtype != Some(T::DTYPE) {
            let found = dtype.map_or("absent", DType::name);
            return Err(Error::new(format!("input {index} is {found}, expected {}", T::DTYPE)));
        }
        if span.bytes > 0 && !span.ptr.addr().is_multiple_of(align_of::<T>()) {
            return Err(Error::new(format!("input {index} is not aligned for its elements")));
        }
        // SAFETY: the host passes this many bytes, aligned for the element type, for the duration of the call.
        Ok(Some(unsafe { slice_or_empty(span.ptr.cast(), span.bytes / size_of::<T>()) }))
    }

    /// Returns the integers of input `index` if it is a constant of type `i32` or `i64`.
    ///
    /// # Errors
    /// The constant is of neither type.
    pub fn constant_ints(&self, index: usize) -> Result<Option<Vec<i64>>, Error> {
        if self.inputs.get(index).and_then(TensorDesc::dtype) == Some(DType::I32) {
            let values = self.constant::<i32>(index)?;
            return Ok(values.map(|values| values.iter().map(|&value| i64::from(value)).collect()));
        }
        Ok(self.constant::<i64>(index)?.map(<[i64]>::to_vec))
    }

    fn param(&self, name: &str) -> Option<&'a ParamValue> {
        self.params.iter().find(|param| {
            // SAFETY: the host passes the name's bytes for the duration of the call.
            unsafe { param.name() == name.as_bytes() }
        })
    }

    /// Returns a parameter that the node or the schema's default sets.
    fn present(&self, name: &str) -> Result<&'a ParamValue, Error> {
        match self.param(name) {
            Some(param) if param.kind != param_kinds::ABSENT => Ok(param),
            Some(_) => Err(Error::new(format!("parameter {name:?} is missing"))),
            None => Err(undeclared(name)),
        }
    }

    /// Whether the node or the schema's default sets the parameter.
    pub fn has_param(&self, name: &str) -> bool {
        self.param(name).is_some_and(|param| param.kind != param_kinds::ABSENT)
    }

    /// Same as [`Node::has_param`], for parameters that the schema must have.
    ///
    /// # Errors
    /// The schema has no such parameter.
    pub(crate) fn is_param_given(&self, name: &str) -> Result<bool, Error> {
        match self.param(name) {
            Some(param) => Ok(param.kind != param_kinds::ABSENT),
            None => Err(undeclared(name)),
        }
    }

    /// Returns an integer parameter.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    pub fn int(&self, name: &str) -> Result<i64, Error> {
        let param = self.present(name)?;
        if param.kind == param_kinds::INT {
            Ok(param.int)
        } else {
            Err(wrong_kind(name, param.kind, "an integer"))
        }
    }

    /// Returns an integer parameter as a bool: anything but 0 is true.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    pub fn flag(&self, name: &str) -> Result<bool, Error> {
        Ok(self.int(name)? != 0)
    }

    /// Returns a floating-point parameter; an integer is converted.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a real parameter written as an integer is small"
    )]
    pub fn float(&self, name: &str) -> Result<f64, Error> {
        let param = self.present(name)?;
        match param.kind {
            param_kinds::INT => Ok(param.int as f64),
            param_kinds::FLOAT => Ok(param.float),
            kind => Err(wrong_kind(name, kind, "a number")),
        }
    }

    /// Returns a floating-point parameter in single precision; an integer is converted.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    #[expect(clippy::cast_possible_truncation, reason = "the caller asks for rounding")]
    pub fn float32(&self, name: &str) -> Result<f32, Error> {
        Ok(self.float(name)? as f32)
    }

    /// Returns a string parameter.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    pub fn text(&self, name: &str) -> Result<&'a str, Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::TEXT {
            return Err(wrong_kind(name, param.kind, "a string"));
        }
        utf8(name, &param.data)
    }

    /// The former name of [`strings`](Self::strings).
    #[doc(hidden)]
    pub fn texts(&self, name: &str) -> Result<Vec<&'a str>, Error> {
        self.strings(name)
    }

    /// Returns a parameter that is a list of strings.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    pub fn strings(&self, name: &str) -> Result<Vec<&'a str>, Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::TEXTS {
            return Err(wrong_kind(name, param.kind, "strings"));
        }
        let count = param.data.bytes / size_of::<Span>();
        // SAFETY: the host passes aligned spans for the duration of the call.
        let spans: &'a [Span] = unsafe { slice_or_empty(param.data.ptr.cast(), count) };
        spans.iter().map(|span| utf8(name, span)).collect()
    }

    /// Returns a parameter that is a list of integers.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    pub fn ints(&self, name: &str) -> Result<&'a [i64], Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::INTS {
            return Err(wrong_kind(name, param.kind, "integers"));
        }
        // SAFETY: the host passes aligned `i64`s for the duration of the call.
        Ok(unsafe { slice_or_empty(param.data.ptr.cast(), param.data.bytes / 8) })
    }

    /// Returns a parameter that is a list of floating-point numbers.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    pub fn floats(&self, name: &str) -> Result<&'a [f64], Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::FLOATS {
            return Err(wrong_kind(name, param.kind, "floats"));
        }
        // SAFETY: the host passes aligned `f64`s for the duration of the call.
        Ok(unsafe { slice_or_empty(param.data.ptr.cast(), param.data.bytes / 8) })
    }

    /// Returns a parameter that is a tensor with the type and shape of the model.
    ///
    /// # Errors
    /// The parameter is not set or has another kind.
    pub fn tensor(&self, name: &str) -> Result<ParamTensor<'a>, Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::TENSOR {
            return Err(wrong_kind(name, param.kind, "a tensor"));
        }
        // SAFETY: the host passes name, description and elements, aligned to 64 bytes, for the duration of the call.
        unsafe { ParamTensor::from_raw(param) }
            .ok_or_else(|| Error::new(format!("parameter {name:?} is a broken tensor")))
    }

    /// Returns an integer parameter that names an axis of a rank-`rank` tensor; negative values count from the end.
    ///
    /// # Errors
    /// The parameter is not set or is not an axis.
    pub fn axis(&self, name: &str, rank: usize) -> Result<usize, Error> {
        resolve_axis(self.int(name)?, rank).ok_or_else(|| {
            Error::new(format!(
                "parameter {name:?} is {}, expected an axis of rank {rank}",
                self.int(name).unwrap_or(0)
            ))
        })
    }
}

fn undeclared(name: &str) -> Error {
    Error::new(format!("parameter {name:?} is not in the schema"))
}

/// Decodes a string of parameter `name`.
fn utf8<'a>(name: &str, text: &Span) -> Result<&'a str, Error> {
    // SAFETY: the host passes this many bytes for the duration of the call.
    let bytes = unsafe { slice_or_empty(text.ptr, text.bytes) };
    std::str::from_utf8(bytes)
        .map_err(|_| Error::new(format!("parameter {name:?} is not valid UTF-8")))
}

/// Resolves `axis` for a tensor of rank `rank`: negative values count from the end. Returns `None` if it is out of
/// range.
pub fn resolve_axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let resolved = if axis < 0 { axis + rank } else { axis };
    usize::try_from(resolved).ok().filter(|_| resolved < rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_count_from_either_end() {
        let cases = [(0, 3, Some(0)), (-1, 3, Some(2)), (3, 3, None), (-4, 3, None), (0, 0, None)];
        for (axis, rank, wanted) in cases {
            assert_eq!(resolve_axis(axis, rank), wanted, "axis {axis} of rank {rank}");
        }
    }
}
