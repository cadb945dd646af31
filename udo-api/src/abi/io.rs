//! The tensors of one call as typed views.

use std::fmt;
use std::marker::PhantomData;

use super::node::slice_or_empty;
use super::{ExecArgs, Span, TensorArg, arg_flags};
use crate::{DType, Element, Encoding, ExecError, Parallel, Status, Workspace};

/// Everything that one call of a kernel may touch.
#[derive(Debug)]
pub struct Io<'a> {
    /// The inputs.
    pub inputs: Inputs<'a>,
    /// The outputs.
    pub outputs: Outputs<'a>,
    /// Memory for intermediate values.
    pub scratch: Scratch<'a>,
    /// The host's parallel-for.
    pub parallel: Parallel<'a>,
    /// The constants that finalize packed.
    pub packed: PackedConstants<'a>,
}

/// The two sides of an in-place pair: apart, or the same memory.
#[derive(Debug)]
pub enum Pair<'a, T> {
    /// Input and output lie apart.
    Apart(&'a [T], &'a mut [T]),
    /// The output holds the input's elements, to be replaced.
    Same(&'a mut [T]),
}

impl<'a> Io<'a> {
    /// # Safety
    /// The pointers of `args`, and those behind them, must be valid for `'a` as the ABI says: each
    /// output's memory is reached through nothing else but the input that it is paired with.
    #[inline]
    pub(super) unsafe fn from_raw(args: &'a ExecArgs) -> Self {
        let inputs = usize::from(args.input_count);
        let outputs = usize::from(args.output_count);
        // SAFETY: as promised by the caller; inputs come first.
        let input_args = unsafe { slice_or_empty(args.tensors, inputs) };
        let output_args = if outputs == 0 {
            &mut []
        } else {
            // SAFETY: as promised by the caller; outputs follow the inputs.
            let first = unsafe { args.tensors.add(inputs) };
            // SAFETY: as promised by the caller; nothing else refers to the outputs' arguments.
            unsafe { std::slice::from_raw_parts_mut(first, outputs) }
        };
        for arg in output_args.iter_mut() {
            arg.flags &= !arg_flags::TAKEN;
        }
        // SAFETY: as promised by the caller.
        let packed = unsafe { slice_or_empty(args.packed, usize::from(args.packed_count)) };
        // SAFETY: as promised by the caller; null means none.
        let parallel = unsafe { args.parallel.as_ref() };
        Self {
            inputs: Inputs { args: input_args },
            outputs: Outputs { args: output_args },
            scratch: Scratch { ptr: args.scratch, left: args.scratch_bytes, marker: PhantomData },
            // SAFETY: as promised by the caller.
            parallel: unsafe { Parallel::of_table(parallel) },
            packed: PackedConstants { spans: packed },
        }
    }

    /// The two sides of a pair that the kernel declared in place, whichever way the planner laid them.
    ///
    /// # Errors
    /// No such ports, wrong type, or the output was taken already.
    pub fn pair<T: Element>(
        &mut self,
        input: usize,
        output: usize,
    ) -> Result<Pair<'a, T>, ExecError> {
        if self.outputs.arg(output)?.in_place == 0 {
            return Ok(Pair::Apart(self.inputs.get(input)?, self.outputs.take(output)?));
        }
        self.in_place(input, output).map(Pair::Same)
    }

    /// The one slice behind an in-place pair: the input's elements, to be replaced by the output's.
    ///
    /// # Errors
    /// The planner did not put this pair in place, wrong type, or the output was taken already.
    pub fn in_place<T: Element>(
        &mut self,
        input: usize,
        output: usize,
    ) -> Result<&'a mut [T], ExecError> {
        let paired = self.inputs.arg(input)?.in_place;
        let arg = self.outputs.arg_mut(output)?;
        if usize::from(arg.in_place) != input + 1 || usize::from(paired) != output + 1 {
            return Err(ExecError::with(Status::IN_PLACE, [output as u64, 0]));
        }
        take_elements(arg, output)
    }
}

fn wrong_type(wanted: DType, found: &TensorArg) -> ExecError {
    ExecError::with(Status::WRONG_TYPE, [u64::from(wanted.code()), u64::from(found.dtype)])
}

fn check<T: Element>(arg: &TensorArg, port: usize) -> Result<(), ExecError> {
    if arg.dtype != T::DTYPE.code() {
        return Err(wrong_type(T::DTYPE, arg));
    }
    if !arg.is_dense() {
        return Err(ExecError::with(Status::NOT_DENSE, [port as u64, 0]));
    }
    Ok(())
}

/// Refuses tensors that a GPU kernel cannot index: halves of in-place pairs, and rows that lie apart.
fn check_alone(arg: &TensorArg, port: usize) -> Result<(), ExecError> {
    if arg.in_place != 0 {
        return Err(ExecError::with(Status::IN_PLACE, [port as u64, 0]));
    }
    if !arg.is_dense() {
        return Err(ExecError::with(Status::NOT_DENSE, [port as u64, 0]));
    }
    Ok(())
}

/// Hands out an output's whole memory, once per call.
fn take_elements<'a, T: Element>(
    arg: &mut TensorArg,
    port: usize,
) -> Result<&'a mut [T], ExecError> {
    check::<T>(arg, port)?;
    if arg.flags & arg_flags::TAKEN != 0 {
        return Err(ExecError::with(Status::OUTPUT_TAKEN, [port as u64, 0]));
    }
    arg.flags |= arg_flags::TAKEN;
    if arg.capacity == 0 || arg.data.is_null() {
        return Ok(&mut []);
    }
    // SAFETY: the host gives each output memory of its own for `capacity` aligned elements, every
    // bit pattern is an element, and the flag lets it out once per call.
    Ok(unsafe { std::slice::from_raw_parts_mut(arg.data.cast(), arg.capacity) })
}

/// The inputs of a call.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    args: &'a [TensorArg],
}

// SAFETY: through a shared reference arguments are only read, and lead to slices of elements, which may go
// to any thread; a half of an in-place pair is not handed out.
unsafe impl Send for Inputs<'_> {}
// SAFETY: as above.
unsafe impl Sync for Inputs<'_> {}

impl fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("len", &self.args.len()).finish()
    }
}

impl<'a> Inputs<'a> {
    #[inline]
    fn arg(&self, port: usize) -> Result<&'a TensorArg, ExecError> {
        match self.args.get(port) {
            Some(arg) if arg.flags & arg_flags::ABSENT == 0 => Ok(arg),
            _ => Err(ExecError::with(Status::NO_SUCH_PORT, [port as u64, self.args.len() as u64])),
        }
    }

    /// How many inputs there are, absent ones included.
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// Whether the node has input `port`.
    pub fn has(&self, port: usize) -> bool {
        self.arg(port).is_ok()
    }

    /// The elements of input `port`, outermost dimension first.
    ///
    /// # Errors
    /// No such input, another type, strided rows, or one half of an in-place pair.
    #[inline]
    pub fn get<T: Element>(&self, port: usize) -> Result<&'a [T], ExecError> {
        let arg = self.arg(port)?;
        if arg.in_place != 0 {
            return Err(ExecError::with(Status::IN_PLACE, [port as u64, 0]));
        }
        check::<T>(arg, port)?;
        // SAFETY: the host gives `len` aligned elements, and nothing writes to them during the call.
        Ok(unsafe { slice_or_empty(arg.data.cast(), arg.len) })
    }

    /// Input `port` row by row; for kernels that declare `ROWS_STRIDED`.
    ///
    /// # Errors
    /// No such input, another type, or one half of an in-place pair.
    pub fn rows<T: Element>(&self, port: usize) -> Result<Rows<'a, T>, ExecError> {
        let arg = self.arg(port)?;
        if arg.in_place != 0 {
            return Err(ExecError::with(Status::IN_PLACE, [port as u64, 0]));
        }
        if arg.dtype != T::DTYPE.code() {
            return Err(wrong_type(T::DTYPE, arg));
        }
        Ok(Rows { data: arg.data.cast(), shape: RowShape::of(arg), marker: PhantomData })
    }

    /// Whether the rows of input `port` lie behind each other; for kernels that declare `ROWS_STRIDED`.
    ///
    /// # Errors
    /// No such input.
    pub fn is_dense(&self, port: usize) -> Result<bool, ExecError> {
        Ok(self.arg(port)?.is_dense())
    }

    /// The type of input `port`.
    ///
    /// # Errors
    /// No such input.
    pub fn dtype(&self, port: usize) -> Result<DType, ExecError> {
        self.arg(port)?.dtype().ok_or(ExecError::of(Status::BAD_CALL))
    }

    /// The extents of input `port` in this run.
    ///
    /// # Errors
    /// No such input.
    pub fn shape(&self, port: usize) -> Result<&'a [usize], ExecError> {
        Ok(self.arg(port)?.shape())
    }

    /// The encoding of fixed-point input `port`.
    ///
    /// # Errors
    /// No such input, or it has none.
    pub fn encoding(&self, port: usize) -> Result<Encoding, ExecError> {
        let arg = self.arg(port)?;
        if arg.has_encoding == 0 { Err(ExecError::of(Status::BAD_CALL)) } else { Ok(arg.encoding) }
    }

    pub(super) fn raw(&self, port: usize) -> Result<&'a TensorArg, ExecError> {
        let arg = self.arg(port)?;
        check_alone(arg, port)?;
        Ok(arg)
    }
}

/// The outputs of a call. Each is handed out once.
pub struct Outputs<'a> {
    args: &'a mut [TensorArg],
}

impl fmt::Debug for Outputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").field("len", &self.args.len()).finish()
    }
}

impl<'a> Outputs<'a> {
    #[inline]
    fn arg(&self, port: usize) -> Result<&TensorArg, ExecError> {
        match self.args.get(port) {
            Some(arg) if arg.flags & arg_flags::ABSENT == 0 => Ok(arg),
            _ => Err(ExecError::with(Status::NO_SUCH_PORT, [port as u64, self.args.len() as u64])),
        }
    }

    #[inline]
    fn arg_mut(&mut self, port: usize) -> Result<&mut TensorArg, ExecError> {
        let count = self.args.len() as u64;
        match self.args.get_mut(port) {
            Some(arg) if arg.flags & arg_flags::ABSENT == 0 => Ok(arg),
            _ => Err(ExecError::with(Status::NO_SUCH_PORT, [port as u64, count])),
        }
    }

    /// How many outputs there are, absent ones included.
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there are no outputs.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// Whether the node has output `port`.
    pub fn has(&self, port: usize) -> bool {
        self.arg(port).is_ok()
    }

    /// Whether the rows of output `port` lie behind each other; for kernels that declare `ROWS_STRIDED`.
    ///
    /// # Errors
    /// No such output.
    pub fn is_dense(&self, port: usize) -> Result<bool, ExecError> {
        Ok(self.arg(port)?.is_dense())
    }

    /// The elements of output `port`, to be written. A bounded output comes at its bound.
    ///
    /// # Errors
    /// No such output, another type, strided rows, one half of an in-place pair, or taken before.
    #[inline]
    pub fn take<T: Element>(&mut self, port: usize) -> Result<&'a mut [T], ExecError> {
        let arg = self.arg_mut(port)?;
        if arg.in_place != 0 {
            return Err(ExecError::with(Status::IN_PLACE, [port as u64, 0]));
        }
        take_elements(arg, port)
    }

    /// Output `port` row by row; for kernels that declare `ROWS_STRIDED`.
    ///
    /// # Errors
    /// No such output, another type, one half of an in-place pair, or taken before.
    pub fn take_rows<T: Element>(&mut self, port: usize) -> Result<RowsMut<'a, T>, ExecError> {
        let arg = self.arg_mut(port)?;
        if arg.in_place != 0 {
            return Err(ExecError::with(Status::IN_PLACE, [port as u64, 0]));
        }
        if arg.dtype != T::DTYPE.code() {
            return Err(wrong_type(T::DTYPE, arg));
        }
        if arg.flags & arg_flags::TAKEN != 0 {
            return Err(ExecError::with(Status::OUTPUT_TAKEN, [port as u64, 0]));
        }
        arg.flags |= arg_flags::TAKEN;
        Ok(RowsMut { data: arg.data.cast(), shape: RowShape::of(arg), marker: PhantomData })
    }

    /// The type of output `port`.
    ///
    /// # Errors
    /// No such output.
    pub fn dtype(&self, port: usize) -> Result<DType, ExecError> {
        self.arg(port)?.dtype().ok_or(ExecError::of(Status::BAD_CALL))
    }

    /// The extents of output `port`: its bounds, or what [`Outputs::set_shape`] made of them.
    ///
    /// # Errors
    /// No such output.
    pub fn shape(&self, port: usize) -> Result<&[usize], ExecError> {
        Ok(self.arg(port)?.shape())
    }

    /// The encoding of fixed-point output `port`.
    ///
    /// # Errors
    /// No such output, or it has none.
    pub fn encoding(&self, port: usize) -> Result<Encoding, ExecError> {
        let arg = self.arg(port)?;
        if arg.has_encoding == 0 { Err(ExecError::of(Status::BAD_CALL)) } else { Ok(arg.encoding) }
    }

    /// Says the extents of bounded output `port` in this run. The elements stay where they were
    /// written; each bounded extent may shrink, and the others stay as they are.
    ///
    /// # Errors
    /// No such output, another rank, or an extent that may not be.
    pub fn set_shape(&mut self, port: usize, dims: &[usize]) -> Result<(), ExecError> {
        let arg = self.arg_mut(port)?;
        if dims == arg.shape() {
            return Ok(());
        }
        if dims.len() != arg.shape().len() {
            return Err(ExecError::with(
                Status::BOUND_EXCEEDED,
                [dims.len() as u64, u64::from(arg.rank)],
            ));
        }
        for (axis, (&wanted, &bound)) in dims.iter().zip(arg.shape()).enumerate() {
            let may_shrink = arg.bounded >> axis & 1 == 1;
            if wanted > bound || (wanted < bound && !may_shrink) {
                return Err(ExecError::with(Status::BOUND_EXCEEDED, [wanted as u64, bound as u64]));
            }
        }
        for (to, from) in arg.dims.iter_mut().zip(dims) {
            *to = *from;
        }
        // Every extent is at most its bound, so the product is at most the capacity.
        arg.len = dims.iter().product();
        arg.row_stride = dims.last().copied().unwrap_or(1);
        Ok(())
    }

    pub(super) fn take_raw(&mut self, port: usize) -> Result<TensorArg, ExecError> {
        let arg = self.arg_mut(port)?;
        check_alone(arg, port)?;
        if arg.flags & arg_flags::TAKEN != 0 {
            return Err(ExecError::with(Status::OUTPUT_TAKEN, [port as u64, 0]));
        }
        arg.flags |= arg_flags::TAKEN;
        Ok(TensorArg { reserved_words: [0; 2], ..*arg })
    }
}

#[derive(Clone, Copy, Debug)]
struct RowShape {
    rows: usize,
    cols: usize,
    stride: usize,
}

impl RowShape {
    fn of(arg: &TensorArg) -> Self {
        let cols = arg.shape().last().copied().unwrap_or(1);
        let rows = if cols == 0 || arg.data.is_null() { 0 } else { arg.len / cols };
        Self { rows, cols, stride: arg.row_stride }
    }
}

/// The rows (last axis) of an input, which may lie apart.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T> {
    data: *const T,
    shape: RowShape,
    marker: PhantomData<&'a [T]>,
}

// SAFETY: rows are shared slices, and elements may go to any thread.
unsafe impl<T: Element> Send for Rows<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Rows<'_, T> {}

impl<'a, T: Element> Rows<'a, T> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.shape.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.shape.rows == 0
    }

    /// Row `index`, or nothing beyond the last.
    pub fn get(&self, index: usize) -> Option<&'a [T]> {
        if index >= self.shape.rows {
            return None;
        }
        // SAFETY: rows below the count lie inside the host's buffer, by its stride.
        let first = unsafe { self.data.add(index * self.shape.stride) };
        // SAFETY: a row has this many aligned elements, which nothing writes to during the call.
        Some(unsafe { std::slice::from_raw_parts(first, self.shape.cols) })
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [T]> {
        (0..self.shape.rows).filter_map(|i| self.get(i))
    }
}

/// The rows (last axis) of an output, which may lie apart.
#[derive(Debug)]
pub struct RowsMut<'a, T> {
    data: *mut T,
    shape: RowShape,
    marker: PhantomData<&'a mut [T]>,
}

// SAFETY: rows are exclusive slices, and elements may go to any thread.
unsafe impl<T: Element> Send for RowsMut<'_, T> {}

impl<T: Element> RowsMut<'_, T> {
    /// First element, columns and stride, for the parallel-for to cut.
    pub(super) fn parts(&mut self) -> (*mut T, usize, usize) {
        (self.data, self.shape.cols, self.shape.stride)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.shape.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.shape.rows == 0
    }

    /// Row `index`, or nothing beyond the last.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut [T]> {
        if index >= self.shape.rows {
            return None;
        }
        // SAFETY: rows below the count lie inside the host's buffer, by its stride.
        let first = unsafe { self.data.add(index * self.shape.stride) };
        // SAFETY: the output was handed out once, and the borrow of `self` lets one row out at a time.
        Some(unsafe { std::slice::from_raw_parts_mut(first, self.shape.cols) })
    }
}

/// A bump arena over the scratch that `workspace` declared. What it holds at first is unspecified.
#[derive(Debug)]
pub struct Scratch<'a> {
    ptr: *mut u8,
    left: usize,
    marker: PhantomData<&'a mut [u8]>,
}

impl<'a> Scratch<'a> {
    /// The next `len` elements, aligned to 64 bytes.
    ///
    /// # Errors
    /// More than `workspace` declared.
    pub fn take<T: Element>(&mut self, len: usize) -> Result<&'a mut [T], ExecError> {
        let wanted = len.saturating_mul(size_of::<T>());
        if wanted > self.left {
            return Err(ExecError::with(
                Status::SCRATCH_EXCEEDED,
                [wanted as u64, self.left as u64],
            ));
        }
        if len == 0 {
            return Ok(&mut []);
        }
        let data = self.ptr;
        let step = wanted.next_multiple_of(Workspace::ALIGN_BYTES).min(self.left);
        // SAFETY: `step` is at most what is left of the host's buffer.
        self.ptr = unsafe { self.ptr.add(step) };
        self.left -= step;
        // SAFETY: the buffer starts 64-byte aligned and moves on in steps of 64, so the piece is
        // aligned, initialised (arenas start zeroed), and handed out once.
        Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), len) })
    }

    /// Bytes that are left.
    pub fn left_bytes(&self) -> usize {
        self.left
    }
}

/// A constant that finalize packed: a number that only the same kernel's calls can look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<T> {
    index: u32,
    marker: PhantomData<fn() -> T>,
}

impl<T> Packed<T> {
    pub(super) const fn new(index: u32) -> Self {
        Self { index, marker: PhantomData }
    }
}

/// The constants that finalize packed, in the host's memory.
#[derive(Clone, Copy)]
pub struct PackedConstants<'a> {
    spans: &'a [Span],
}

impl fmt::Debug for PackedConstants<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedConstants").field("len", &self.spans.len()).finish()
    }
}

impl<'a> PackedConstants<'a> {
    /// The packed elements.
    ///
    /// # Errors
    /// Another kernel's packed constant.
    pub fn get<T: Element>(&self, packed: Packed<T>) -> Result<&'a [T], ExecError> {
        let port = u64::from(packed.index);
        let missing = ExecError::with(Status::NO_SUCH_PORT, [port, self.spans.len() as u64]);
        let span = self.spans.get(packed.index as usize).ok_or(missing)?;
        // SAFETY: packed buffers are 64-byte aligned, initialised, and immutable once packed; any
        // bit pattern is an element.
        Ok(unsafe { slice_or_empty(span.ptr.cast(), span.bytes / size_of::<T>()) })
    }
}
