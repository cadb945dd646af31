//! The tensors of a DSP function: their ports of the node, and the views passed to the function.

use std::marker::PhantomData;

use crate::author::{Extents, FinalizeCx, Inputs, Io, Outputs, Scratch};
use crate::dtype::DType;
use crate::element::Element;
use crate::encoding::{AxisEncoding, Encoding};
use crate::error::{Error, ExecError, Status};
use crate::shape::MAX_RANK;
use crate::tensor::TensorDesc;

/// A fixed-point input: quantized values, shape and encoding.
#[derive(Clone, Copy, Debug)]
pub struct Quant<'a, T> {
    /// The quantized values, outermost dimension first.
    pub data: &'a [T],
    /// The dimensions in this run.
    pub shape: &'a [usize],
    /// The encoding; scale 1 and zero point 0 if the tensor has no encoding, or one per axis.
    pub encoding: Encoding,
    /// The encoding for each position of an axis, on ports whose rules accept it:
    /// [`per_axis`](crate::PortRule::per_axis).
    pub axis_encoding: Option<&'static AxisEncoding>,
}

/// A fixed-point output: memory for quantized values, and their encoding.
#[derive(Debug)]
pub struct QuantMut<'a, T> {
    /// The quantized values to write; a bounded output has the size of its bound.
    pub data: &'a mut [T],
    /// The encoding; scale 1 and zero point 0 if the tensor has no encoding, or one per axis.
    pub encoding: Encoding,
    /// The encoding for each position of an axis, as in [`Quant`].
    pub axis_encoding: Option<&'static AxisEncoding>,
    extents: Extents<'a>,
    /// The dimensions. A copy, since an empty output may be taken several times, and each view may set its dimensions.
    dims: [usize; MAX_RANK],
    rank: usize,
}

/// The encoding of a tensor without one: values equal quantized values.
const PLAIN: Encoding = Encoding { scale: 1.0, zero_point: 0 };

impl<T> Default for Quant<'_, T> {
    /// A view without elements.
    fn default() -> Self {
        Self { data: &[], shape: &[0], encoding: PLAIN, axis_encoding: None }
    }
}

impl<'a, T: Element> Quant<'a, T> {
    /// The former name of [`Quant::get`].
    #[doc(hidden)]
    pub fn of(inputs: Inputs<'a>, port: usize) -> Result<Self, ExecError> {
        Self::get(inputs, port)
    }

    /// Returns input `port` of a kernel that implements [`Kernel`](crate::Kernel) directly.
    ///
    /// # Errors
    /// No such input, or another type.
    pub fn get(inputs: Inputs<'a>, port: usize) -> Result<Self, ExecError> {
        Ok(Self {
            data: inputs.get(port)?,
            shape: inputs.shape(port)?,
            encoding: inputs.encoding(port).unwrap_or(PLAIN),
            axis_encoding: inputs.axis_encoding(port).ok(),
        })
    }
}

impl<'a, T: Element> QuantMut<'a, T> {
    fn take(outputs: &mut Outputs<'a>, port: usize) -> Result<Self, ExecError> {
        let encoding = outputs.encoding(port).unwrap_or(PLAIN);
        let axis_encoding = outputs.axis_encoding(port).ok();
        let shape = outputs.shape(port)?;
        let (mut dims, rank) = ([0; MAX_RANK], shape.len());
        dims.iter_mut().zip(shape).for_each(|(target, dim)| *target = *dim);
        let (data, extents) = outputs.take_bounded(port)?;
        Ok(Self { data, encoding, axis_encoding, extents, dims, rank })
    }

    /// Returns the dimensions: the bounds, or those from [`QuantMut::set_shape`].
    pub fn shape(&self) -> &[usize] {
        self.dims.get(..self.rank).unwrap_or_default()
    }

    /// Sets the dimensions of a bounded output in this run. The elements stay in place; bounded dimensions may shrink,
    /// and others must not change.
    ///
    /// # Errors
    /// Another rank, or an invalid dimension.
    pub fn set_shape(&mut self, dims: &[usize]) -> Result<(), ExecError> {
        self.extents.set(dims)?;
        self.dims.iter_mut().zip(dims).for_each(|(target, dim)| *target = *dim);
        Ok(())
    }
}

/// The tensors of a repeated input.
#[derive(Clone, Copy, Debug)]
pub struct Quants<'a, T> {
    inputs: Inputs<'a>,
    first: usize,
    elements: PhantomData<&'a [T]>,
}

impl<'a, T: Element> Quants<'a, T> {
    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        self.inputs.len().saturating_sub(self.first)
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns tensor `index`.
    ///
    /// # Errors
    /// No such tensor.
    pub fn get(&self, index: usize) -> Result<Quant<'a, T>, ExecError> {
        Quant::get(self.inputs, self.first.saturating_add(index))
    }
}

/// The tensors of a repeated output. Each must be taken exactly once.
#[derive(Debug)]
pub struct QuantsMut<'a, T> {
    outputs: Outputs<'a>,
    first: usize,
    elements: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element> QuantsMut<'a, T> {
    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        self.outputs.len().saturating_sub(self.first)
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes tensor `index` for writing.
    ///
    /// # Errors
    /// No such tensor, or taken before.
    pub fn take(&mut self, index: usize) -> Result<QuantMut<'a, T>, ExecError> {
        QuantMut::take(&mut self.outputs, self.first.saturating_add(index))
    }
}

/// The type of a port in [`dsp_kernel!`](crate::dsp_kernel): `T` for a required one, `Option<T>` for an optional one,
/// `[T]` for a repeated one.
///
/// ```
/// use udo_api::{ExecError, Quant, QuantMut, Quants, Scratch, dsp_kernel};
///
/// dsp_kernel!(MaskedSumDsp = masked_sum(out: [i32], in: [Option<u8>, [u8]], params: {}));
///
/// /// Sums all inputs but the first, which masks elements with 0.
/// fn masked_sum(
///     y: QuantMut<'_, i32>,
///     mask: Option<Quant<'_, u8>>,
///     parts: Quants<'_, u8>,
///     _vtcm: Scratch<'_>,
/// ) -> Result<(), ExecError> {
///     y.data.fill(0);
///     for index in 0..parts.len() {
///         let part = parts.get(index)?;
///         for (index, (y, x)) in y.data.iter_mut().zip(part.data).enumerate() {
///             let counts = mask.is_none_or(|mask| mask.data[index] != 0);
///             *y += if counts { i32::from(*x) } else { 0 };
///         }
///     }
///     Ok(())
/// }
/// ```
pub trait DspPort {
    /// The element type.
    const DTYPE: DType;
    /// Whether the port is optional.
    const IS_OPTIONAL: bool = false;
    /// Whether the port stands for all remaining tensors.
    const IS_REPEATED: bool = false;
    /// The view of an input.
    type Input<'a>;
    /// The view of an output.
    type Output<'a>;

    /// Returns the next input.
    ///
    /// # Errors
    /// The input is absent or has another type.
    fn input<'a>(call: &mut DspCall<'a>) -> Result<Self::Input<'a>, ExecError>;

    /// Returns the next output.
    ///
    /// # Errors
    /// The output is absent or has another type.
    fn output<'a>(call: &mut DspCall<'a>) -> Result<Self::Output<'a>, ExecError>;
}

impl<T: Element> DspPort for T {
    const DTYPE: DType = T::DTYPE;
    type Input<'a> = Quant<'a, T>;
    type Output<'a> = QuantMut<'a, T>;

    fn input<'a>(call: &mut DspCall<'a>) -> Result<Quant<'a, T>, ExecError> {
        Quant::get(call.inputs, call.next_input())
    }

    fn output<'a>(call: &mut DspCall<'a>) -> Result<QuantMut<'a, T>, ExecError> {
        let port = call.next_output();
        QuantMut::take(call.outputs()?, port)
    }
}

impl<T: Element> DspPort for Option<T> {
    const DTYPE: DType = T::DTYPE;
    const IS_OPTIONAL: bool = true;
    type Input<'a> = Option<Quant<'a, T>>;
    type Output<'a> = Option<QuantMut<'a, T>>;

    fn input<'a>(call: &mut DspCall<'a>) -> Result<Self::Input<'a>, ExecError> {
        let port = call.next_input();
        call.inputs.has(port).then(|| Quant::get(call.inputs, port)).transpose()
    }

    fn output<'a>(call: &mut DspCall<'a>) -> Result<Self::Output<'a>, ExecError> {
        let port = call.next_output();
        let outputs = call.outputs()?;
        outputs.has(port).then(|| QuantMut::take(outputs, port)).transpose()
    }
}

impl<T: Element> DspPort for [T] {
    const DTYPE: DType = T::DTYPE;
    const IS_REPEATED: bool = true;
    type Input<'a> = Quants<'a, T>;
    type Output<'a> = QuantsMut<'a, T>;

    fn input<'a>(call: &mut DspCall<'a>) -> Result<Quants<'a, T>, ExecError> {
        Ok(Quants { inputs: call.inputs, first: call.next_input(), elements: PhantomData })
    }

    fn output<'a>(call: &mut DspCall<'a>) -> Result<QuantsMut<'a, T>, ExecError> {
        let first = call.next_output();
        // A repeated output is the last one, as `only_the_last_is_repeated` checks.
        let outputs = call.outputs.take().ok_or(ExecError::new(Status::BAD_CALL))?;
        Ok(QuantsMut { outputs, first, elements: PhantomData })
    }
}

/// Passes the arguments of a DSP function in order; used by [`dsp_kernel!`](crate::dsp_kernel).
#[derive(Debug)]
pub struct DspCall<'a> {
    inputs: Inputs<'a>,
    outputs: Option<Outputs<'a>>,
    scratch: Scratch<'a>,
    next_output: usize,
    next_input: usize,
}

impl<'a> DspCall<'a> {
    /// Starts with the arguments of one call.
    pub fn new(io: Io<'a>) -> Self {
        let Io { inputs, outputs, scratch, .. } = io;
        Self { inputs, outputs: Some(outputs), scratch, next_output: 0, next_input: 0 }
    }

    /// Returns the next output.
    ///
    /// # Errors
    /// No such output, or another type.
    pub fn output<P: DspPort + ?Sized>(&mut self) -> Result<P::Output<'a>, ExecError> {
        P::output(self)
    }

    /// Returns the next input.
    ///
    /// # Errors
    /// No such input, or another type.
    pub fn input<P: DspPort + ?Sized>(&mut self) -> Result<P::Input<'a>, ExecError> {
        P::input(self)
    }

    /// Returns the fast memory.
    pub fn vtcm(self) -> Scratch<'a> {
        self.scratch
    }

    fn next_input(&mut self) -> usize {
        let port = self.next_input;
        self.next_input += 1;
        port
    }

    fn next_output(&mut self) -> usize {
        let port = self.next_output;
        self.next_output += 1;
        port
    }

    fn outputs(&mut self) -> Result<&mut Outputs<'a>, ExecError> {
        self.outputs.as_mut().ok_or(ExecError::new(Status::BAD_CALL))
    }
}

/// Compares the ports of a node with the arguments of a DSP function in finalize; used by
/// [`dsp_kernel!`](crate::dsp_kernel).
#[derive(Debug)]
pub struct DspCheck<'a> {
    cx: &'a FinalizeCx<'a>,
    next_output: usize,
    next_input: usize,
}

impl<'a> DspCheck<'a> {
    /// Starts with the ports of this node.
    pub fn new(cx: &'a FinalizeCx<'a>) -> Self {
        Self { cx, next_output: 0, next_input: 0 }
    }

    /// Checks the next output of the function, or all remaining ones.
    ///
    /// # Errors
    /// The node omits a required output or has another type.
    pub fn output<P: DspPort + ?Sized>(&mut self) -> Result<(), Error> {
        let (first, count) = (self.next_output, self.cx.output_count());
        self.next_output = after::<P>(first, count);
        (first..self.next_output).try_for_each(|port| {
            let desc = self.cx.has_output(port).then(|| self.cx.output(port)).transpose()?;
            check::<P>("output", port, desc)
        })
    }

    /// Checks the next input of the function, or all remaining ones.
    ///
    /// # Errors
    /// The node omits a required input or has another type.
    pub fn input<P: DspPort + ?Sized>(&mut self) -> Result<(), Error> {
        let (first, count) = (self.next_input, self.cx.input_count());
        self.next_input = after::<P>(first, count);
        (first..self.next_input).try_for_each(|port| {
            let desc = self.cx.has_input(port).then(|| self.cx.input(port)).transpose()?;
            check::<P>("input", port, desc)
        })
    }

    /// Checks that the node has no further tensors.
    ///
    /// # Errors
    /// The node has an input or output that the function does not take.
    pub fn finish(self) -> Result<(), Error> {
        let Self { cx, next_input, next_output } = self;
        let extra_input = (next_input..cx.input_count()).find(|&port| cx.has_input(port));
        let extra_output = (next_output..cx.output_count()).find(|&port| cx.has_output(port));
        let (side, port) = match (extra_input, extra_output) {
            (Some(port), _) => ("input", port),
            (None, Some(port)) => ("output", port),
            (None, None) => return Ok(()),
        };
        Err(Error::new(format!("the node has {side} {port}, which the function does not take")))
    }
}

/// Returns the index of the port after `P`, which is at `first` of `count`.
fn after<P: DspPort + ?Sized>(first: usize, count: usize) -> usize {
    if P::IS_REPEATED { count.max(first) } else { first + 1 }
}

/// Checks that a port of the function gets a tensor of its type.
fn check<P: DspPort + ?Sized>(
    side: &str,
    port: usize,
    desc: Option<TensorDesc>,
) -> Result<(), Error> {
    let Some(desc) = desc else {
        if P::IS_OPTIONAL {
            return Ok(());
        }
        return Err(Error::new(format!("{side} {port} is missing, expected {}", P::DTYPE)));
    };
    if desc.dtype() == Some(P::DTYPE) {
        return Ok(());
    }
    let found = desc.dtype().map_or("of an unknown type", DType::name);
    Err(Error::new(format!("{side} {port} is {found}, expected {}", P::DTYPE)))
}

/// Refuses at compile time a repeated port that is not the last one; used by [`dsp_kernel!`](crate::dsp_kernel).
///
/// # Panics
/// A port before the last is repeated.
pub const fn only_the_last_is_repeated(mut ports: &[bool]) {
    while let [is_repeated, rest @ ..] = ports {
        assert!(!*is_repeated || rest.is_empty(), "a repeated port is not the last one");
        ports = rest;
    }
}
