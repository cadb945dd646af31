//! A node as its operator and its kernels see it: inputs, constants and parameters.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

use super::pack::{self, FillFn};
use super::{FinalizeArgs, HostTable, InferArgs, NodeArgs, ParamValue, Span};
use crate::{Core, DType, Element, Error, Packed, Status, TensorDesc};

/// The parts of a node that are known before any run.
#[derive(Clone)]
pub struct Node<'a> {
    inputs: &'a [TensorDesc],
    constants: &'a [Span],
    params: &'a [ParamValue],
    /// A bit for each of the first 63 parameters whose value was asked for.
    params_read: Cell<u64>,
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

/// A slice from a pointer that may be null when it is empty.
///
/// # Safety
/// Where `len` is not 0, `ptr` must be valid for `len` reads of `T` for `'a`.
pub(super) unsafe fn slice_or_empty<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 || ptr.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for pointer and length.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}

impl<'a> Node<'a> {
    /// # Safety
    /// The pointers of `args`, and those behind them, must be valid for `'a`.
    unsafe fn from_raw(args: &'a NodeArgs) -> Self {
        let inputs = args.input_count as usize;
        // SAFETY: as promised by the caller.
        let descs = unsafe { slice_or_empty(args.inputs, inputs) };
        // SAFETY: as promised by the caller.
        let constants = unsafe { slice_or_empty(args.constants, inputs) };
        // SAFETY: as promised by the caller.
        let params = unsafe { slice_or_empty(args.params, args.param_count as usize) };
        Self {
            inputs: descs,
            constants,
            params,
            params_read: Cell::new(0),
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
    /// The input is constant, but not of type `T`.
    pub fn constant<T: Element>(&self, index: usize) -> Result<Option<&'a [T]>, Error> {
        let Some(span) = self.constants.get(index).filter(|s| !s.ptr.is_null()) else {
            return Ok(None);
        };
        let found = self.inputs.get(index).and_then(TensorDesc::dtype);
        if found != Some(T::DTYPE) {
            let found = found.map_or("absent", DType::name);
            return Err(Error::new(format!("input {index} is {found}, wanted {}", T::DTYPE)));
        }
        // SAFETY: the host passed this many bytes, aligned for the element type, for as long as the call.
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

    fn param(&self, name: &str) -> Option<(usize, &'a ParamValue)> {
        self.params.iter().enumerate().find(|(_, p)| {
            // SAFETY: the host passed the name's bytes for as long as the call.
            let bytes: &[u8] = unsafe { slice_or_empty(p.name.ptr, p.name.bytes) };
            bytes == name.as_bytes()
        })
    }

    /// A bit for each of the first 63 parameters whose value was asked for.
    pub(super) fn params_read(&self) -> u64 {
        self.params_read.get()
    }

    fn present(&self, name: &str) -> Result<&'a ParamValue, Error> {
        match self.param(name) {
            Some((index, p)) if p.kind != 0 => {
                let bit = if index < 63 { 1 << index } else { 0 };
                self.params_read.set(self.params_read.get() | bit);
                Ok(p)
            }
            Some(_) => Err(Error::new(format!("parameter {name:?} is missing"))),
            None => Err(Error::new(format!("parameter {name:?} is not in the schema"))),
        }
    }

    /// Whether the node, or the schema's default, gives the parameter a value.
    pub fn has_param(&self, name: &str) -> bool {
        self.param(name).is_some_and(|(_, p)| p.kind != 0)
    }

    /// An integer parameter.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    pub fn int(&self, name: &str) -> Result<i64, Error> {
        let param = self.present(name)?;
        if param.kind == 1 {
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
            1 => Ok(param.int as f64),
            2 => Ok(param.float),
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
        if param.kind != 3 {
            return Err(wrong_kind(name, param.kind, "text"));
        }
        // SAFETY: the host passed this many bytes for as long as the call.
        let bytes = unsafe { slice_or_empty(param.data.ptr, param.data.bytes) };
        std::str::from_utf8(bytes)
            .map_err(|_| Error::new(format!("parameter {name:?} is no UTF-8")))
    }

    /// A parameter that is a list of integers.
    ///
    /// # Errors
    /// The parameter has no value, or another kind of value.
    pub fn ints(&self, name: &str) -> Result<&'a [i64], Error> {
        let param = self.present(name)?;
        if param.kind != 4 {
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
        if param.kind != 5 {
            return Err(wrong_kind(name, param.kind, "real numbers"));
        }
        // SAFETY: the host passed aligned `f64`s for as long as the call.
        Ok(unsafe { slice_or_empty(param.data.ptr.cast(), param.data.bytes / 8) })
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

/// The axis that `axis` means in a tensor of rank `rank`: negative numbers count from the end.
pub fn resolve_axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let resolved = if axis < 0 { axis + rank } else { axis };
    usize::try_from(resolved).ok().filter(|_| resolved < rank)
}

fn wrong_kind(name: &str, found: u32, wanted: &str) -> Error {
    let found = match found {
        1 => "an integer",
        2 => "a real number",
        3 => "text",
        4 => "integers",
        5 => "real numbers",
        _ => "of an unknown kind",
    };
    Error::new(format!("parameter {name:?} is {found}, wanted {wanted}"))
}

/// What shape inference sees of a node, and where it puts its answer.
#[derive(Debug)]
pub struct InferCx<'a> {
    node: Node<'a>,
    outputs: &'a mut [TensorDesc],
}

impl<'a> Deref for InferCx<'a> {
    type Target = Node<'a>;

    fn deref(&self) -> &Node<'a> {
        &self.node
    }
}

impl<'a> InferCx<'a> {
    /// # Safety
    /// The pointers of `args`, and those behind them, must be valid for `'a`, `outputs` for writes too.
    pub(super) unsafe fn from_raw(args: &'a InferArgs) -> Self {
        // SAFETY: as promised by the caller.
        let node = unsafe { Node::from_raw(&args.node) };
        let outputs: &mut [TensorDesc] = if node.output_count == 0 || args.outputs.is_null() {
            &mut []
        } else {
            // SAFETY: as promised by the caller.
            unsafe { std::slice::from_raw_parts_mut(args.outputs, node.output_count) }
        };
        Self { node, outputs }
    }

    /// Says what output `index` is. An output that the node leaves out may be described all the same.
    ///
    /// # Errors
    /// The operator has no such output.
    pub fn set_output(&mut self, index: usize, desc: TensorDesc) -> Result<(), Error> {
        let count = self.outputs.len();
        let Some(output) = self.outputs.get_mut(index) else {
            return Err(Error::new(format!(
                "shape inference describes output {index}, the node has {count}"
            )));
        };
        *output = desc;
        Ok(())
    }
}

/// What a kernel sees of its node while it is finalized.
pub struct FinalizeCx<'a> {
    node: Node<'a>,
    outputs: &'a [TensorDesc],
    core: Core,
    args: &'a FinalizeArgs,
}

impl fmt::Debug for FinalizeCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinalizeCx")
            .field("node", &self.node)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

impl<'a> Deref for FinalizeCx<'a> {
    type Target = Node<'a>;

    fn deref(&self) -> &Node<'a> {
        &self.node
    }
}

impl<'a> FinalizeCx<'a> {
    /// # Safety
    /// The pointers of `args`, and those behind them, must be valid for `'a`.
    pub(super) unsafe fn from_raw(args: &'a FinalizeArgs) -> Self {
        // SAFETY: as promised by the caller.
        let node = unsafe { Node::from_raw(&args.node) };
        // SAFETY: as promised by the caller.
        let outputs = unsafe { slice_or_empty(args.outputs, node.output_count) };
        Self { node, outputs, core: args.core, args }
    }

    /// Whether the node has output `index`.
    pub fn has_output(&self, index: usize) -> bool {
        self.outputs.get(index).is_some_and(|d| !d.is_absent())
    }

    /// The description of output `index`.
    ///
    /// # Errors
    /// The node leaves that output out.
    pub fn output(&self, index: usize) -> Result<TensorDesc, Error> {
        match self.outputs.get(index) {
            Some(desc) if !desc.is_absent() => Ok(*desc),
            _ => Err(Error::new(format!("output {index} is missing"))),
        }
    }

    /// The core that the kernel will run on.
    pub fn core(&self) -> Core {
        self.core
    }

    /// Packs constant inputs into `len` elements that the host owns, shares between nodes, models and sessions,
    /// and may cache.
    ///
    /// `fill` gets the recipe, the inputs in the order in which they are named, and a zeroed buffer aligned to 64
    /// bytes. It captures nothing: whatever decides the elements, apart from the inputs, is a number of the recipe.
    /// Nodes whose inputs and recipes are the same share one buffer. It runs after finalize has returned, on any
    /// thread, and may allocate. Recipes must not depend on dimensions that are bounded.
    ///
    /// A packed input is absent in execute, so that its own elements need not stay in memory, unless
    /// [`FinalizeCx::keep`] says otherwise.
    ///
    /// # Errors
    /// An input is not constant, or there are more elements than memory has addresses.
    pub fn pack<D: Element>(
        &self,
        inputs: &[usize],
        recipe: &[u64],
        len: usize,
        fill: FillFn<D>,
    ) -> Result<Packed<D>, Error> {
        let mut ports = Vec::with_capacity(inputs.len());
        for &input in inputs {
            let is_constant = self.is_constant(input);
            let port = u32::try_from(input).ok().filter(|_| is_constant).ok_or_else(|| {
                Error::new(format!("input {input} is not constant, so it cannot be packed"))
            })?;
            ports.push(port);
        }
        let bytes = len.checked_mul(size_of::<D>()).ok_or_else(|| {
            Error::new(format!("packing into {len} elements is more than memory can hold"))
        })?;
        pack::request(self.host()?, &ports, recipe, bytes, fill)
    }

    /// Says that execute reads constant input `input` although it is packed.
    ///
    /// # Errors
    /// The input is not constant.
    pub fn keep(&self, input: usize) -> Result<(), Error> {
        let host = self.host()?;
        let port = u32::try_from(input).ok().filter(|_| self.is_constant(input));
        let port = port.ok_or_else(|| Error::new(format!("input {input} is not constant")))?;
        // SAFETY: `ctx` is the one that came with the table.
        match Status::from_code(unsafe { (host.keep)(host.ctx, port) }) {
            Status::OK => Ok(()),
            status => Err(Error::new(format!("keeping input {input}: the host {status}"))),
        }
    }

    fn host(&self) -> Result<&HostTable, Error> {
        // SAFETY: the host's table, if there is one, is valid for the call.
        let host = unsafe { self.args.host.as_ref() };
        host.ok_or_else(|| Error::new("the host offers no packing"))
    }
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
