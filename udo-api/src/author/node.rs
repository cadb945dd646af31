//! A node as its operator and its kernels see it: inputs, constants and parameters.

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
    /// The pointers of `args`, and those behind them, must be valid for `'a`.
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

    /// How many inputs the node has, absent ones included.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// How many outputs the node has, absent ones included.
    pub fn output_count(&self) -> usize {
        self.output_count
    }

    /// The version of the operator set that the node comes from; 0 where there is none.
    pub fn opset(&self) -> u32 {
        self.opset
    }

    /// Whether the node has input `index`.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(|d| !d.is_absent())
    }

    /// The description of input `index`.
    ///
    /// # Errors
    /// The node leaves that input out.
    pub fn input(&self, index: usize) -> Result<TensorDesc, Error> {
        match self.inputs.get(index) {
            Some(desc) if !desc.is_absent() => Ok(*desc),
            _ => Err(Error::new(format!("input {index} is missing"))),
        }
    }

    /// Whether the elements of input `index` are known before the run.
    pub fn is_constant(&self, index: usize) -> bool {
        self.constants.get(index).is_some_and(|span| !span.ptr.is_null())
    }

    /// The elements of input `index` if they are known before the run.
    ///
    /// # Errors
    /// The input is constant, but not of type `T`; or it is one that the host's own kernels pack out of the model's file, where
    /// it is not aligned.
    pub fn constant<T: Element>(&self, index: usize) -> Result<Option<&'a [T]>, Error> {
        let Some(span) = self.constants.get(index).filter(|s| !s.ptr.is_null()) else {
            return Ok(None);
        };
        let found = self.inputs.get(index).and_then(TensorDesc::dtype);
        if found != Some(T::DTYPE) {
            let found = found.map_or("absent", DType::name);
            return Err(Error::new(format!("input {index} is {found}, wanted {}", T::DTYPE)));
        }
        if span.bytes > 0 && !span.ptr.addr().is_multiple_of(align_of::<T>()) {
            return Err(Error::new(format!("input {index} lies where elements are not aligned")));
        }
        // SAFETY: the host passed this many bytes, and they are aligned for the element type, for as long as the call.
        Ok(Some(unsafe { slice_or_empty(span.ptr.cast(), span.bytes / size_of::<T>()) }))
    }

    /// The integers of input `index` if they are known before the run: `i32` or `i64` elements.
    ///
    /// # Errors
    /// The input is constant, but of neither type.
    pub fn constant_ints(&self, index: usize) -> Result<Option<Vec<i64>>, Error> {
        if self.inputs.get(index).and_then(TensorDesc::dtype) == Some(DType::I32) {
            let values = self.constant::<i32>(index)?;
            return Ok(values.map(|v| v.iter().map(|&x| i64::from(x)).collect()));
        }
        Ok(self.constant::<i64>(index)?.map(<[i64]>::to_vec))
    }

    fn param(&self, name: &str) -> Option<&'a ParamValue> {
        self.params.iter().find(|p| {
            // SAFETY: the host passed the name's bytes for as long as the call.
            unsafe { p.name() == name.as_bytes() }
        })
    }

    fn present(&self, name: &str) -> Result<&'a ParamValue, Error> {
        match self.param(name) {
            Some(p) if p.kind != param_kinds::ABSENT => Ok(p),
            Some(_) => Err(Error::new(format!("parameter {name:?} is missing"))),
            None => Err(undeclared(name)),
        }
    }

    /// Whether the node, or the schema's default, gives the parameter a value.
    pub fn has_param(&self, name: &str) -> bool {
        self.param(name).is_some_and(|p| p.kind != param_kinds::ABSENT)
    }

    /// As [`Node::has_param`], for parameters that the schema must have.
    ///
    /// # Errors
    /// The schema has no such parameter.
    pub(crate) fn is_param_given(&self, name: &str) -> Result<bool, Error> {
        match self.param(name) {
            Some(param) => Ok(param.kind != param_kinds::ABSENT),
            None => Err(undeclared(name)),
        }
    }

    /// An integer parameter.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    pub fn int(&self, name: &str) -> Result<i64, Error> {
        let param = self.present(name)?;
        if param.kind == param_kinds::INT {
            Ok(param.int)
        } else {
            Err(wrong_kind(name, param.kind, "an integer"))
        }
    }

    /// An integer parameter as a truth value: anything but 0 is true.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    pub fn flag(&self, name: &str) -> Result<bool, Error> {
        Ok(self.int(name)? != 0)
    }

    /// A real parameter; an integer will do.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
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

    /// A real parameter in single precision; an integer will do.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what is asked for")]
    pub fn float32(&self, name: &str) -> Result<f32, Error> {
        Ok(self.float(name)? as f32)
    }

    /// A text parameter.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    pub fn text(&self, name: &str) -> Result<&'a str, Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::TEXT {
            return Err(wrong_kind(name, param.kind, "text"));
        }
        utf8(name, &param.data)
    }

    /// A parameter that is a list of texts.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    pub fn texts(&self, name: &str) -> Result<Vec<&'a str>, Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::TEXTS {
            return Err(wrong_kind(name, param.kind, "texts"));
        }
        let count = param.data.bytes / size_of::<Span>();
        // SAFETY: the host passed aligned spans for as long as the call.
        let spans: &'a [Span] = unsafe { slice_or_empty(param.data.ptr.cast(), count) };
        spans.iter().map(|span| utf8(name, span)).collect()
    }

    /// A parameter that is a list of integers.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    pub fn ints(&self, name: &str) -> Result<&'a [i64], Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::INTS {
            return Err(wrong_kind(name, param.kind, "integers"));
        }
        // SAFETY: the host passed aligned `i64`s for as long as the call.
        Ok(unsafe { slice_or_empty(param.data.ptr.cast(), param.data.bytes / 8) })
    }

    /// A parameter that is a list of real numbers.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    pub fn floats(&self, name: &str) -> Result<&'a [f64], Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::FLOATS {
            return Err(wrong_kind(name, param.kind, "real numbers"));
        }
        // SAFETY: the host passed aligned `f64`s for as long as the call.
        Ok(unsafe { slice_or_empty(param.data.ptr.cast(), param.data.bytes / 8) })
    }

    /// A parameter that is a tensor of the model's own type and shape.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    pub fn tensor(&self, name: &str) -> Result<ParamTensor<'a>, Error> {
        let param = self.present(name)?;
        if param.kind != param_kinds::TENSOR {
            return Err(wrong_kind(name, param.kind, "a tensor"));
        }
        // SAFETY: the host passed name, description and elements, aligned to 64 bytes, for as long as the call.
        unsafe { ParamTensor::from_raw(param) }
            .ok_or_else(|| Error::new(format!("parameter {name:?} is a broken tensor")))
    }

    /// An integer parameter that counts axes of a rank-`rank` tensor, from the end where negative.
    ///
    /// # Errors
    /// The parameter has no value, or none that is an axis.
    pub fn axis(&self, name: &str, rank: usize) -> Result<usize, Error> {
        resolve_axis(self.int(name)?, rank).ok_or_else(|| {
            Error::new(format!(
                "parameter {name:?} is {}, wanted an axis of rank {rank}",
                self.int(name).unwrap_or(0)
            ))
        })
    }
}

fn undeclared(name: &str) -> Error {
    Error::new(format!("parameter {name:?} is not in the schema"))
}

/// A text of parameter `name`.
fn utf8<'a>(name: &str, text: &Span) -> Result<&'a str, Error> {
    // SAFETY: the host passed this many bytes for as long as the call.
    let bytes = unsafe { slice_or_empty(text.ptr, text.bytes) };
    std::str::from_utf8(bytes).map_err(|_| Error::new(format!("parameter {name:?} is no UTF-8")))
}

/// The axis that `axis` means in a tensor of rank `rank`: negative numbers count from the end.
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
