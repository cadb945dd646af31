//! Building blocks of GPU kernels: arguments, storage types, strided access to several tensors, and fused epilogue
//! steps. A GPU kernel is an OpenCL source, and a Rust function of the same computation that the emulated GPU runs per
//! work item.

use std::fmt::Write as _;

use udo_api::{
    AcceptCx, Buffers, DType, Element, Error, ExecError, F16, FinalizeCx, GpuArg, TypeSet, types,
};
use udo_simd::gemm_f32::Activation;

use crate::family::epilogue::{Fused, Takes};
use crate::family::special::gelu;

/// Floating-point storage types of GPU kernels; they compute in f32.
pub(crate) const REAL: TypeSet = types::F32.or(types::F16);

/// Disables contraction to fused multiply-adds, so that results match the emulated GPU.
pub(crate) const EXACT: &str = "#pragma OPENCL FP_CONTRACT OFF\n";

/// Returns the OpenCL type for moving elements of a type.
pub(crate) fn width(dtype: Option<DType>) -> &'static str {
    match dtype.map(DType::size_bytes) {
        Some(1) => "uchar",
        Some(2) => "ushort",
        Some(4) => "uint",
        _ => "ulong",
    }
}

/// Returns the OpenCL type of an integer or bool, as in the names of `convert_` functions.
pub(crate) fn integer(dtype: Option<DType>) -> Option<&'static str> {
    Some(match dtype? {
        DType::I8 => "char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 => "long",
        DType::U8 | DType::Bool => "uchar",
        DType::U16 => "ushort",
        DType::U32 => "uint",
        DType::U64 => "ulong",
        DType::F32 | DType::F64 | DType::F16 | DType::Bf16 | DType::Str => return None,
    })
}

/// Macros `ELEMENT` (array element), `NUMBER` (type of computation), `LOAD` and `STORE`, for a floating-point storage
/// type or an integer type.
pub(crate) const ELEMENTS: &str = "
#ifdef INTEGER
#define ELEMENT INTEGER
#define NUMBER INTEGER
#define LOAD(p, i) ((p)[i])
#define STORE(p, i, v) ((p)[i] = (v))
#else
#define ELEMENT UDO_STORAGE
#define NUMBER float
#define LOAD(p, i) UDO_LOAD(p, i)
#define STORE(p, i, v) UDO_STORE(p, i, v)
#endif
";

/// Returns the build option that selects a branch of [`ELEMENTS`].
pub(crate) fn elements(dtype: Option<DType>) -> String {
    integer(dtype).map_or_else(String::new, |element| format!("-DINTEGER={element}"))
}

/// `UDO_LOAD8(p, i)` and `UDO_LOAD16(p, i)` load consecutive elements as a vector of floats.
pub(crate) const LOAD_VECTORS: &str = "
float8 udo_load8_float(__global const float *p) { return vload8(0, p); }
float8 udo_load8_half(__global const half *p) { return vload_half8(0, p); }
float16 udo_load16_float(__global const float *p) { return vload16(0, p); }
float16 udo_load16_half(__global const half *p) { return vload_half16(0, p); }
#define UDO_JOIN(name, storage) name##storage
#define UDO_IN(name, storage) UDO_JOIN(name, storage)
#define UDO_LOAD8(p, i) UDO_IN(udo_load8_, UDO_STORAGE)((p) + (i))
#define UDO_LOAD16(p, i) UDO_IN(udo_load16_, UDO_STORAGE)((p) + (i))
";

/// A floating-point storage type of the emulated GPU.
pub(crate) trait Storage: Element {
    /// Converts an element to f32.
    fn number(self) -> f32;

    /// Reads element `index` from bytes of any alignment.
    fn of_bytes(bytes: &[u8], index: usize) -> Option<f32>;
}

impl Storage for f32 {
    fn number(self) -> f32 {
        self
    }

    fn of_bytes(bytes: &[u8], at: usize) -> Option<f32> {
        bytes.as_chunks().0.get(at).copied().map(f32::from_ne_bytes)
    }
}

impl Storage for F16 {
    fn number(self) -> f32 {
        self.to_f32()
    }

    fn of_bytes(bytes: &[u8], at: usize) -> Option<f32> {
        let bits = bytes.as_chunks().0.get(at).copied().map(u16::from_ne_bytes);
        bits.map(|bits| F16(bits).to_f32())
    }
}

/// Converts sizes to `int` arguments.
pub(crate) fn ints(sizes: impl IntoIterator<Item = usize>) -> Result<Vec<GpuArg>, Error> {
    sizes.into_iter().map(|size| int(size.cast_signed())).collect()
}

/// Converts a value to an `int` argument.
pub(crate) fn int(number: isize) -> Result<GpuArg, Error> {
    let number = i32::try_from(number);
    number.map(GpuArg::i32).map_err(|_| Error::new("an extent has more than 31 bits"))
}

/// Checks that element counts of all tensors fit an `int`.
pub(crate) fn check_lens(cx: &FinalizeCx<'_>) -> Result<(), Error> {
    let inputs = (0..cx.input_count()).filter(|&port| cx.has_input(port)).map(|p| cx.input(p));
    let outputs = (0..cx.output_count()).filter(|&port| cx.has_output(port)).map(|p| cx.output(p));
    for tensor in inputs.chain(outputs) {
        ints([tensor?.len()])?;
    }
    Ok(())
}

/// The strides at which work items read a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Offset of the first element.
    pub(crate) start: usize,
    /// Stride per axis; 0 where the tensor broadcasts.
    pub(crate) along: Vec<isize>,
}

impl Steps {
    /// Returns the strides of a tensor of shape `shape` that broadcasts to `dims`; each element is a block of `unit`
    /// elements.
    pub(crate) fn broadcast(dims: &[usize], shape: &[usize], unit: usize) -> Self {
        let mut along = vec![0; dims.len()];
        let mut stride = unit.cast_signed();
        for (step, &extent) in along.iter_mut().rev().zip(shape.iter().rev()) {
            *step = if extent == 1 { 0 } else { stride };
            stride *= extent.cast_signed();
        }
        Self { start: 0, along }
    }
}

/// Strided access to several tensors, one work item per position of a box, last axis fastest.
///
/// Extents and strides are arguments, so that nodes of the same rank share a compiled source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StridedAccess {
    dims: Vec<usize>,
    tensors: Vec<Steps>,
}

impl StridedAccess {
    /// Merges neighbouring axes that all tensors traverse contiguously.
    pub(crate) fn new(dims: &[usize], tensors: &[Steps]) -> Self {
        let without_axes =
            tensors.iter().map(|steps| Steps { start: steps.start, along: Vec::new() });
        let mut merged = Self { dims: Vec::new(), tensors: without_axes.collect() };
        for (axis, &dim) in dims.iter().enumerate().filter(|(_, dim)| **dim != 1) {
            let step = |steps: &Steps| steps.along.get(axis).copied().unwrap_or(0);
            let is_contiguous = |(merged, steps): (&Steps, &Steps)| {
                merged.along.last().is_some_and(|&outer| outer == step(steps) * dim.cast_signed())
            };
            let extends_last_axis = merged.tensors.iter().zip(tensors).all(is_contiguous);
            if extends_last_axis && let Some(last) = merged.dims.last_mut() {
                *last *= dim;
                for (merged, steps) in merged.tensors.iter_mut().zip(tensors) {
                    merged.along.iter_mut().last().into_iter().for_each(|last| *last = step(steps));
                }
                continue;
            }
            merged.dims.push(dim);
            for (merged, steps) in merged.tensors.iter_mut().zip(tensors) {
                merged.along.push(step(steps));
            }
        }
        merged
    }

    /// Returns the access to tensors of these shapes, which broadcast to `dims`.
    pub(crate) fn broadcast(dims: &[usize], shapes: &[&[usize]]) -> Self {
        let tensors = shapes.iter().map(|shape| Steps::broadcast(dims, shape, 1));
        Self::new(dims, &tensors.collect::<Vec<_>>())
    }

    /// Returns the extents of the box, and the strides of each tensor.
    pub(crate) fn walk(&self) -> (&[usize], impl Iterator<Item = &[isize]>) {
        (&self.dims, self.tensors.iter().map(|steps| steps.along.as_slice()))
    }

    /// Returns the number of positions.
    pub(crate) fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Returns the kernel parameters for [`Self::args`], each preceded by a comma.
    pub(crate) fn params(&self) -> String {
        let mut text = String::new();
        for axis in 0..self.dims.len() {
            let _ = write!(text, ", const int e{axis}");
        }
        for tensor in 0..self.tensors.len() {
            let _ = write!(text, ", const int s{tensor}");
            for axis in 0..self.dims.len() {
                let _ = write!(text, ", const int s{tensor}_{axis}");
            }
        }
        text
    }

    /// Returns statements that set `p0`, `p1`, .. to the offsets of the tensors' elements at position `i`.
    pub(crate) fn places(&self) -> String {
        let mut text = "    int rest = i;\n".to_owned();
        for tensor in 0..self.tensors.len() {
            let _ = writeln!(text, "    int p{tensor} = s{tensor};");
        }
        for axis in (0..self.dims.len()).rev() {
            for tensor in 0..self.tensors.len() {
                let _ = writeln!(text, "    p{tensor} += rest % e{axis} * s{tensor}_{axis};");
            }
            let _ = writeln!(text, "    rest /= e{axis};");
        }
        text
    }

    /// Returns the extents, then the start and strides of each tensor.
    pub(crate) fn args(&self) -> Result<Vec<GpuArg>, Error> {
        // The number of positions must fit an `int` too, but is not passed.
        let mut args = ints(self.dims.iter().copied().chain([self.len()]))?;
        args.pop();
        for steps in &self.tensors {
            let start = std::iter::once(steps.start.cast_signed());
            let numbers = start.chain(steps.along.iter().copied());
            args.extend(numbers.map(int).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(args)
    }

    /// Returns the offset of tensor `tensor` at position `i`.
    pub(crate) fn place(&self, tensor: usize, i: usize) -> usize {
        let Some(steps) = self.tensors.get(tensor) else { return i };
        let (mut remaining, mut offset) = (i, steps.start.cast_signed());
        for (dim, step) in self.dims.iter().zip(&steps.along).rev() {
            offset += (remaining % dim).cast_signed() * step;
            remaining /= dim;
        }
        offset.cast_unsigned()
    }
}

/// The steps of consumer nodes that a GPU kernel applies to its results: a bias, a residual and an activation, in this
/// order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finish(Fused);

/// The OpenCL function that a source calls for each result `x`: `at` is the output index, `channel` the bias index. NaN
/// stays NaN. It needs the build options of [`Finish::options`], in which `FINISH_BY` is 0 for no activation, 1 for a
/// clamp, 2 for `SiLU` and 3 for GELU.
pub(crate) const FINISH: &str = "
float udo_finish(float x, __global const UDO_STORAGE *bias, const int channel,
    __global const UDO_STORAGE *residual, const int at, const float low, const float high) {
#if FINISH_BIAS
    x += UDO_LOAD(bias, channel);
#endif
#if FINISH_RESIDUAL
    x += UDO_LOAD(residual, at);
#endif
#if FINISH_BY == 1
    return x < low ? low : x > high ? high : x;
#elif FINISH_BY == 2
    return x / (1.0f + exp(-x));
#elif FINISH_BY == 3
    return 0.5f * x * erfc(-0.70710678f * x);
#else
    return x;
#endif
}
";

/// The kernel parameters for [`Finish::args`].
pub(crate) const FINISH_PARAMS: &str = "__global const UDO_STORAGE *finish_bias,
    __global const UDO_STORAGE *residual, const float low, const float high";

impl Finish {
    /// Returns how many epilogue steps a kernel with channels along `axis` of its output takes over.
    pub(crate) fn accept(cx: &AcceptCx<'_>, axis: usize) -> Result<usize, Error> {
        Ok(Self::leading(cx, axis)?.0)
    }

    /// Returns the steps taken over.
    pub(crate) fn read(cx: &AcceptCx<'_>, axis: usize) -> Result<Self, Error> {
        Ok(Self::leading(cx, axis)?.1)
    }

    fn leading(cx: &AcceptCx<'_>, axis: usize) -> Result<(usize, Self), Error> {
        let takes = Takes { bias: Some(axis), residual: true, quantized: false };
        let (count, fused) = takes.leading(cx.epilogue());
        let dtype = cx.output(0)?.dtype();
        // The source reads all tensors with one type.
        for port in [fused.bias, fused.residual].into_iter().flatten() {
            if cx.input(port)?.dtype() != dtype {
                return Ok((0, Self(Fused::default())));
            }
        }
        Ok((count, Self(fused)))
    }

    /// Returns the build options of [`FINISH`].
    pub(crate) fn options(&self) -> String {
        let Fused { bias, residual, activation, .. } = self.0;
        let function = match activation {
            Activation::None => 0,
            Activation::Relu | Activation::Relu6 | Activation::Clamp(..) => 1,
            Activation::Silu => 2,
            Activation::Gelu => 3,
        };
        let [bias, residual] = [bias, residual].map(|port| u8::from(port.is_some()));
        format!("-DFINISH_BIAS={bias} -DFINISH_RESIDUAL={residual} -DFINISH_BY={function}")
    }

    /// Returns the lower and upper bound of the activation.
    fn limits(&self) -> [f32; 2] {
        match self.0.activation {
            Activation::Relu => [0.0, f32::INFINITY],
            Activation::Relu6 => [0.0, 6.0],
            Activation::Clamp(low, high) => [low, high],
            Activation::None | Activation::Silu | Activation::Gelu => [0.0; 2],
        }
    }

    /// Returns the arguments for [`FINISH_PARAMS`]. An absent input is replaced by port 0, which is not read.
    pub(crate) fn args(&self) -> [GpuArg; 4] {
        let port = |port: Option<usize>| GpuArg::input(port.unwrap_or(0) as u32);
        let [low, high] = self.limits();
        [port(self.0.bias), port(self.0.residual), GpuArg::f32(low), GpuArg::f32(high)]
    }

    /// Applies the steps to `x`, the result at output index `index`.
    pub(crate) fn apply(
        &self,
        buffers: &Buffers<'_>,
        mut x: f32,
        channel: usize,
        index: usize,
    ) -> Result<f32, ExecError> {
        if let Some(port) = self.0.bias {
            x += buffers.load(port, channel)?;
        }
        if let Some(port) = self.0.residual {
            x += buffers.load(port, index)?;
        }
        let [low, high] = self.limits();
        Ok(match self.0.activation {
            Activation::None => x,
            Activation::Relu | Activation::Relu6 | Activation::Clamp(..) => match x {
                x if x < low => low,
                x if x > high => high,
                x => x,
            },
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Gelu => gelu(x.into()) as f32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_axes_are_merged() {
        let access = StridedAccess::broadcast(&[2, 3, 4, 5], &[&[2, 3, 4, 5], &[3, 1, 1]]);
        assert_eq!(access.dims, [2, 3, 20]);
        assert_eq!(access.tensors[1].along, [0, 1, 0]);
        assert_eq!(access.len(), 120);
        assert_eq!([access.place(0, 119), access.place(1, 119)], [119, 2]);
        assert_eq!(StridedAccess::broadcast(&[4, 5], &[&[4, 5], &[4, 5]]).dims, [20]);
        assert_eq!(StridedAccess::broadcast(&[1, 1], &[&[1, 1]]).dims, [0; 0]);
    }

    #[test]
    fn strides_may_be_negative() {
        let backwards = Steps { start: 5, along: vec![-3, 1] };
        let access = StridedAccess::new(&[2, 3], &[backwards]);
        let places: Vec<_> = (0..6).map(|i| access.place(0, i)).collect();
        assert_eq!(places, [5, 6, 7, 2, 3, 4]);
    }

    #[test]
    fn extents_beyond_an_int_are_refused() {
        let access = StridedAccess::new(&[1 << 20, 1 << 20], &[]);
        let error = access.args().expect_err("too large");
        assert_eq!(error.to_string(), "an extent has more than 31 bits");
    }
}
