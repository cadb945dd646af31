//! Calls of kernels in a worker: elements are copied in and results out. Does not allocate after the constants were copied
//! to the worker's memory.

use std::sync::atomic::AtomicU32;

use udo_api::abi::{ExecArgs, TensorArg, arg_flags};
use udo_api::{DType, Status};

use super::Request;
use super::kernel::{Constant, Kernel, WorkerConstants};
use super::report::{fault, leave};
use super::shared::{BULK, FAR, HEAD, PAGE, Segment};
use super::worker::{Fault, Lane};

/// The alignment of elements.
pub(super) const ALIGN: usize = 64;

/// The size of the guard bytes before and after each output. They must be unchanged after a call.
pub(super) const CANARY: usize = 64;

/// The value of guard bytes.
const UNTOUCHED: u8 = 0xa5;

/// The words at the start of a call.
pub(super) mod head {
    pub(in crate::contain) const KERNEL: usize = 0;
    pub(in crate::contain) const INPUTS: usize = 1;
    pub(in crate::contain) const OUTPUTS: usize = 2;
    /// The number of threads of the parallel-for; 0 without one.
    pub(in crate::contain) const WIDTH: usize = 3;
    pub(in crate::contain) const SCRATCH: usize = 4;
    pub(in crate::contain) const UNTAKEN: usize = 5;
    pub(in crate::contain) const UNSAID: usize = 6;
    pub(in crate::contain) const PACKED: usize = 7;
    pub(in crate::contain) const GEOMETRY: usize = 8;
    pub(in crate::contain) const GEOMETRY_BYTES: usize = 9;
    pub(in crate::contain) const WORDS: usize = 10;
}

/// The words of an answer. The message and the extents of the outputs follow.
pub(super) mod tail {
    pub(in crate::contain) const STATUS: usize = 0;
    pub(in crate::contain) const DETAIL: usize = 1;
    pub(in crate::contain) const MESSAGE_BYTES: usize = 3;
    pub(in crate::contain) const WORDS: usize = 4;
    /// The maximal size of a message.
    pub(in crate::contain) const MESSAGE: usize = 256;
    /// The words of each output's extents: the number of elements, and each dimension.
    pub(in crate::contain) const EXTENTS: usize = 9;
}

/// The offsets of an answer's message and of its outputs' extents.
pub(super) const MESSAGE: usize = HEAD + tail::WORDS * 8;
pub(super) const EXTENTS: usize = MESSAGE + tail::MESSAGE;

/// Returns the offset of an output of `bytes` bytes whose pages start at `from`, and the end of its pages.
pub(super) fn output_at(from: usize, bytes: usize) -> (usize, usize) {
    // Aligned to the end of its last page, so that writes beyond the output leave the mapping.
    let padded = bytes.next_multiple_of(ALIGN);
    let end = from + (padded + CANARY).next_multiple_of(PAGE);
    (end - padded, end)
}

/// The largest number of tensors and prepacked weights of a call.
const PORTS_MAX: usize = 4096;

/// The state of writing a call.
struct CallWriter<'a> {
    from_host: &'a Segment,
    from_worker: &'a Segment,
    /// The offset of the next words.
    word: usize,
    /// The offset of the next elements.
    bulk: usize,
    /// The offset of the next output's pages.
    output: usize,
}

/// Executes the kernel and returns the status.
///
/// # Safety
/// `args` is valid by the ABI, and nothing else accesses its outputs.
pub(super) unsafe fn execute(kernel: &Kernel, args: &ExecArgs) -> u32 {
    // SAFETY: the table is there where there is one.
    let parallel = unsafe { args.parallel.as_ref() };
    let stop = parallel.map(|parallel| parallel.stop.cast_mut()).filter(|stop| !stop.is_null());
    // SAFETY: it is a word that threads write by atomic writes alone while execute runs.
    let stop = stop.map(|stop| unsafe { AtomicU32::from_ptr(stop) });
    let width = parallel.map_or(0, |parallel| parallel.width);
    // SAFETY: as the caller promises.
    let called = unsafe { exchange(kernel, args, Request::Execute, (width, stop)) };
    let lane = match called {
        Ok((lane, None)) => lane,
        Ok((_, Some(status))) => return status,
        Err(why) => return fault(&why),
    };
    // SAFETY: as the caller promises.
    match unsafe { take_outputs(&lane.from_worker, args) } {
        Ok(()) => Status::OK.code(),
        Err(why) => fault(&why),
    }
}

/// Computes the geometry and returns the status.
///
/// # Safety
/// As for [`execute`], and nothing else accesses the geometry.
pub(super) unsafe fn prepare(kernel: &Kernel, args: &ExecArgs) -> u32 {
    // SAFETY: as the caller promises.
    let called = unsafe { exchange(kernel, args, Request::Prepare, (0, None)) };
    match called {
        Ok((lane, None)) => {
            // SAFETY: there are as many bytes, which are this call's to fill.
            let is_whole =
                unsafe { lane.from_worker.load_to(BULK, args.geometry, args.geometry_bytes) };
            if is_whole { Status::OK.code() } else { fault(&too_large()) }
        }
        Ok((_, Some(status))) => status,
        Err(why) => fault(&why),
    }
}

/// Sends a call to the worker. Returns its status if that is an error.
///
/// # Safety
/// As for [`execute`].
unsafe fn exchange<'a>(
    kernel: &'a Kernel,
    args: &ExecArgs,
    request: Request,
    (width, stop): (u32, Option<&AtomicU32>),
) -> Result<(std::sync::MutexGuard<'a, Lane>, Option<u32>), Fault> {
    let mut lane = kernel.worker.lane();
    let mut constants = kernel.constants();
    kernel.start(&mut lane, &mut constants)?;
    // SAFETY: as the caller promises.
    unsafe { write(kernel, args, request, width, (&mut lane, &mut constants)) }?;
    lane.exchange(kernel.worker, request, stop)?;
    let mut words = [0; tail::WORDS];
    load_words(&lane.from_worker, HEAD, &mut words);
    let [status, first, second, len] = words;
    let status = u32::try_from(status).unwrap_or(Status::WORKER.code());
    if status == Status::OK.code() {
        return Ok((lane, None));
    }
    let mut text = [0; tail::MESSAGE];
    lane.from_worker.load(MESSAGE, &mut text);
    let len = usize::try_from(len).unwrap_or(0).min(text.len());
    let text = std::str::from_utf8(text.get(..len).unwrap_or_default()).unwrap_or_default();
    Ok((lane, Some(leave(status, [first, second], text))))
}

fn load_words(from: &Segment, at: usize, words: &mut [u64]) {
    for (index, word) in words.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        from.load(at + index * 8, &mut bytes);
        *word = u64::from_ne_bytes(bytes);
    }
}

fn too_large() -> Fault {
    Fault("the data of a call exceeds the shared memory".to_owned())
}

/// Writes a call to shared memory.
///
/// # Safety
/// As for [`execute`].
unsafe fn write(
    kernel: &Kernel,
    args: &ExecArgs,
    request: Request,
    width: u32,
    (lane, constants): (&mut Lane, &mut WorkerConstants),
) -> Result<(), Fault> {
    let outputs = if request == Request::Prepare { 0 } else { usize::from(args.output_count) };
    let (inputs, packed) = (usize::from(args.input_count), usize::from(args.packed_count));
    if inputs + outputs + packed > PORTS_MAX {
        return Err(too_large());
    }
    // Constants are written to their permanent place before the rest.
    let is_run = request == Request::Execute;
    if is_run {
        // SAFETY: as the caller promises.
        unsafe { keep(args, lane, constants) }?;
    }
    let (from_host, from_worker) = (&lane.from_host, &*lane.from_worker);
    let mut writing = CallWriter { from_host, from_worker, word: HEAD, bulk: BULK, output: FAR };
    let geometry = args.geometry.cast_const();
    let geometry_len = args.geometry_bytes;
    // SAFETY: there are as many bytes of geometry, which `prepare` filled.
    let geometry_at = unsafe { writing.put(geometry, if is_run { geometry_len } else { 0 }) }?;
    let mut words = [0; head::WORDS];
    words[head::KERNEL] = kernel.id;
    words[head::INPUTS] = inputs as u64;
    words[head::OUTPUTS] = outputs as u64;
    words[head::WIDTH] = u64::from(width);
    words[head::SCRATCH] = args.scratch_bytes as u64;
    words[head::UNTAKEN] = args.untaken;
    words[head::UNSAID] = args.unsaid;
    words[head::PACKED] = packed as u64;
    words[head::GEOMETRY] = geometry_at as u64;
    words[head::GEOMETRY_BYTES] = geometry_len as u64;
    words.into_iter().try_for_each(|word| writing.word(word))?;
    // Outputs come first, because inputs may share their memory.
    let tensors = args.tensors;
    let mut places = [0u64; 64];
    for port in 0..outputs {
        // SAFETY: there are as many tensors, which nobody writes now.
        let arg = unsafe { &*tensors.wrapping_add(inputs + port) };
        let at = writing.output(arg)?;
        if let Some(place) = places.get_mut(port) {
            *place = at as u64;
        }
    }
    let mut next_output = FAR;
    for index in 0..inputs + outputs {
        // SAFETY: there are as many tensors, which nobody writes now.
        let arg = unsafe { &*tensors.wrapping_add(index) };
        let at = match index.checked_sub(inputs) {
            Some(_) => {
                let bytes = capacity_bytes(arg);
                let (at, end) = output_at(next_output, bytes);
                next_output = if bytes == 0 { next_output } else { end };
                at
            }
            None if is_run => {
                // SAFETY: the elements of an input are there.
                unsafe {
                    writing.input(arg, constants.inputs.get(index).copied().flatten(), &places)
                }?
            }
            None => 0,
        };
        writing.tensor(arg, at)?;
    }
    for constant in constants.packed.iter().take(packed) {
        writing.word(constant.part.map_or(0, |part| part.at) as u64)?;
        writing.word(constant.host_span.1 as u64)?;
    }
    Ok(())
}

/// Copies new constants to the worker's memory, for as long as the kernel lives.
///
/// # Safety
/// As for [`execute`].
unsafe fn keep(
    args: &ExecArgs,
    lane: &mut Lane,
    constants: &mut WorkerConstants,
) -> Result<(), Fault> {
    // SAFETY: there are as many packed constants.
    let spans = unsafe { super::node::slice(args.packed, usize::from(args.packed_count)) };
    if spans.len() != constants.packed.len() {
        let (count, expected) = (spans.len(), constants.packed.len());
        return Err(Fault(format!("a call has {count} packed constants, expected {expected}")));
    }
    for (constant, span) in constants.packed.iter_mut().zip(spans) {
        // SAFETY: the bytes of a packed constant are there.
        unsafe { keep_one(constant, span.ptr, span.bytes, lane) }?;
    }
    // SAFETY: there are as many inputs, which nobody writes now.
    let inputs = unsafe { super::node::slice(args.tensors, usize::from(args.input_count)) };
    for (constant, arg) in constants.inputs.iter_mut().zip(inputs) {
        let Some(constant) = constant.as_mut().filter(|constant| constant.part.is_none()) else {
            continue;
        };
        if arg.is_dense() && !arg.data.is_null() {
            // SAFETY: the elements of an input are there.
            unsafe { keep_one(constant, arg.data, capacity_bytes(arg), lane) }?;
        }
    }
    Ok(())
}

/// # Safety
/// There are `len` bytes at `from`.
unsafe fn keep_one(
    constant: &mut Constant,
    from: *const u8,
    len: usize,
    lane: &mut Lane,
) -> Result<(), Fault> {
    if constant.host_span == (from.addr(), len) {
        return Ok(());
    }
    if let Some(part) = constant.part.take() {
        lane.constant_pages.give(part);
    }
    let part = lane.constant_pages.take(len).ok_or_else(too_large)?;
    constant.part = Some(part);
    constant.host_span = (from.addr(), len);
    // SAFETY: as the caller promises.
    let bytes = unsafe { super::node::slice(from, len) };
    if lane.from_host.store(part.at, bytes) { Ok(()) } else { Err(too_large()) }
}

/// Returns the capacity of a tensor in bytes.
fn capacity_bytes(arg: &TensorArg) -> usize {
    let element = arg.dtype().map_or(0, DType::size_bytes);
    let is_there = arg.flags & arg_flags::ABSENT == 0;
    if is_there { arg.capacity.saturating_mul(element) } else { 0 }
}

impl CallWriter<'_> {
    fn word(&mut self, word: u64) -> Result<(), Fault> {
        let at = self.word;
        self.word += 8;
        if self.word <= BULK && self.from_host.store(at, &word.to_ne_bytes()) {
            return Ok(());
        }
        Err(too_large())
    }

    /// Writes a tensor argument with the offset `at` of its elements.
    fn tensor(&mut self, arg: &TensorArg, at: usize) -> Result<(), Fault> {
        let shape = arg.shape();
        // Elements are dense in shared memory, whatever their layout on the host.
        let flags = arg.flags & !(arg_flags::PITCHED | arg_flags::ALONE);
        let row = if arg.is_dense() { arg.row_stride } else { shape.last().copied().unwrap_or(1) };
        let small = [arg.dtype, arg.rank, flags, arg.bounded];
        let [in_place, has_encoding] = [arg.in_place, arg.has_encoding].map(u64::from);
        let words = [
            at as u64,
            arg.len as u64,
            arg.capacity as u64,
            row as u64,
            u64::from(u32::from_ne_bytes(small)) | in_place << 32 | has_encoding << 48,
            u64::from(arg.encoding.scale.to_bits())
                | u64::from(arg.encoding.zero_point.cast_unsigned()) << 32,
        ];
        words.into_iter().try_for_each(|word| self.word(word))?;
        arg.dims.into_iter().try_for_each(|dim| self.word(dim as u64))
    }

    /// Reserves memory for an output and writes its guard bytes.
    fn output(&mut self, arg: &TensorArg) -> Result<usize, Fault> {
        let bytes = capacity_bytes(arg);
        if bytes == 0 {
            return Ok(0);
        }
        let (at, end) = output_at(self.output, bytes);
        self.output = end;
        let untouched = [UNTOUCHED; CANARY];
        let rear_guard = untouched.get(..end - at - bytes).unwrap_or_default();
        if self.from_worker.store(at - CANARY, &untouched)
            && self.from_worker.store(at + bytes, rear_guard)
        {
            return Ok(at);
        }
        Err(too_large())
    }

    /// Writes the elements of an input, unless they are there already. Returns their offset.
    ///
    /// # Safety
    /// The elements are there.
    unsafe fn input(
        &mut self,
        arg: &TensorArg,
        constant: Option<Constant>,
        outputs: &[u64],
    ) -> Result<usize, Fault> {
        let element = arg.dtype().map_or(0, DType::size_bytes);
        if arg.flags & arg_flags::ABSENT != 0 || arg.data.is_null() || element == 0 {
            return Ok(0);
        }
        let part = constant
            .filter(|c| c.host_span == (arg.data.addr(), capacity_bytes(arg)) && arg.is_dense());
        if let Some(part) = part.and_then(|constant| constant.part) {
            return Ok(part.at);
        }
        let bytes = arg.len.saturating_mul(element);
        let is_paired = arg.flags & arg_flags::PAIRED != 0;
        let output = usize::from(arg.in_place).checked_sub(1).filter(|_| is_paired);
        if let Some(&at) = output.and_then(|output| outputs.get(output)) {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            // SAFETY: a tensor that is worked on in place is dense, and its elements are there.
            let is_put = self.from_worker.store(at, unsafe { super::node::slice(arg.data, bytes) });
            return if is_put { Ok(at) } else { Err(too_large()) };
        }
        let columns = arg.shape().last().copied().unwrap_or(1);
        if arg.is_dense() || columns == 0 {
            // SAFETY: as the caller promises.
            return unsafe { self.put(arg.data, bytes) };
        }
        let (row_bytes, stride) = (columns * element, arg.row_stride * element);
        let at = self.bulk;
        for row in 0..arg.len / columns {
            // SAFETY: a row lies there.
            let bytes =
                unsafe { super::node::slice(arg.data.wrapping_add(row * stride), row_bytes) };
            self.bytes(at + row * row_bytes, bytes)?;
        }
        self.bulk = (at + bytes).next_multiple_of(ALIGN);
        Ok(at)
    }

    fn bytes(&self, at: usize, bytes: &[u8]) -> Result<(), Fault> {
        if at.saturating_add(bytes.len()) <= FAR && self.from_host.store(at, bytes) {
            return Ok(());
        }
        Err(too_large())
    }

    /// Appends bytes and returns their offset.
    ///
    /// # Safety
    /// There are `len` bytes at `from`.
    unsafe fn put(&mut self, from: *const u8, len: usize) -> Result<usize, Fault> {
        let at = self.bulk;
        // SAFETY: as the caller promises.
        self.bytes(at, unsafe { super::node::slice(from, len) })?;
        self.bulk = (at + len).next_multiple_of(ALIGN);
        Ok(at)
    }
}

/// Copies the results of a call to the host's tensors, and sets their extents.
///
/// # Safety
/// As for [`execute`].
unsafe fn take_outputs(from_worker: &Segment, args: &ExecArgs) -> Result<(), Fault> {
    let mut from = FAR;
    for port in 0..usize::from(args.output_count) {
        // SAFETY: there are as many tensors, which are this call's to write.
        let arg = unsafe { &mut *args.tensors.wrapping_add(usize::from(args.input_count) + port) };
        let capacity = capacity_bytes(arg);
        let (at, end) = output_at(from, capacity);
        // An output without capacity has extents but no pages.
        if capacity > 0 {
            from = end;
            if !is_untouched(from_worker, at - CANARY, CANARY)
                || !is_untouched(from_worker, at + capacity, end - at - capacity)
            {
                return Err(Fault(format!("it wrote outside its output {port}")));
            }
        }
        if arg.bounded != 0 {
            let mut words = [0; tail::EXTENTS];
            load_words(from_worker, EXTENTS + port * tail::EXTENTS * 8, &mut words);
            take_extents(arg, &words).ok_or_else(|| {
                Fault(format!("it returned extents of output {port} beyond its bounds"))
            })?;
        }
        // SAFETY: the elements of an output have room, as the host laid it out.
        let is_whole = unsafe { take_elements(from_worker, at, arg) };
        if !is_whole {
            return Err(too_large());
        }
    }
    Ok(())
}

fn is_untouched(from_worker: &Segment, at: usize, len: usize) -> bool {
    let mut guard = [0; CANARY];
    let Some(guard) = guard.get_mut(..len) else { return false };
    // Reads are whole words. If the range begins within a word, that word is read first.
    let before = at % 8;
    let mut word = [0; 8];
    let head = (8 - before) % 8;
    if before != 0 {
        from_worker.load(at - before, &mut word);
    }
    let (first, rest) = guard.split_at_mut(head.min(len));
    first.copy_from_slice(word.get(before..before + first.len()).unwrap_or_default());
    from_worker.load(at + head, rest);
    guard.iter().all(|&byte| byte == UNTOUCHED)
}

/// Sets the extents of an output, if they are within its bounds.
fn take_extents(arg: &mut TensorArg, words: &[u64]) -> Option<()> {
    let (len, dims) = words.split_first()?;
    let rank = usize::from(arg.rank);
    let mut extents = [0; 8];
    for (to, from) in extents.iter_mut().zip(dims) {
        *to = usize::try_from(*from).ok()?;
    }
    let is_within =
        extents.iter().zip(&arg.dims).take(rank).enumerate().all(|(axis, (extent, bound))| {
            if arg.bounded >> axis & 1 != 0 { extent <= bound } else { extent == bound }
        });
    let product = extents.iter().take(rank).try_fold(1usize, |n, &dim| n.checked_mul(dim))?;
    let is_sound = is_within && u64::try_from(product) == Ok(*len) && product <= arg.capacity;
    is_sound.then(|| {
        for (to, from) in arg.dims.iter_mut().zip(extents).take(rank) {
            *to = from;
        }
        arg.len = product;
        if arg.is_dense() {
            arg.row_stride = arg.shape().last().copied().unwrap_or(1);
        }
    })
}

/// # Safety
/// The tensor's memory is valid for its elements, and nothing else accesses it.
unsafe fn take_elements(from_worker: &Segment, at: usize, arg: &TensorArg) -> bool {
    let element = arg.dtype().map_or(0, DType::size_bytes);
    let columns = arg.shape().last().copied().unwrap_or(1);
    if arg.is_dense() || columns == 0 {
        // SAFETY: as the caller promises.
        return unsafe { from_worker.load_to(at, arg.data, arg.len * element) };
    }
    let (row_bytes, stride) = (columns * element, arg.row_stride * element);
    // Rows whose size is not a multiple of a word may begin within a word.
    if row_bytes % 8 != 0 {
        // SAFETY: as the caller promises.
        return unsafe { take_rows(from_worker, at, arg, (row_bytes, stride)) };
    }
    (0..arg.len / columns).all(|row| {
        // SAFETY: a row lies there.
        unsafe {
            from_worker.load_to(
                at + row * row_bytes,
                arg.data.wrapping_add(row * stride),
                row_bytes,
            )
        }
    })
}

/// Copies rows that may begin within words.
///
/// # Safety
/// As for [`take_elements`].
unsafe fn take_rows(
    from_worker: &Segment,
    at: usize,
    arg: &TensorArg,
    (row_bytes, stride): (usize, usize),
) -> bool {
    const PIECE: usize = 512;
    let (mut piece, all) = ([0; PIECE], arg.len * arg.dtype().map_or(0, DType::size_bytes));
    let mut from = 0;
    while from < all {
        let len = PIECE.min(all - from);
        if !from_worker.load(at + from, &mut piece[..len]) {
            return false;
        }
        for (byte, offset) in piece[..len].iter().zip(from..) {
            let to = arg.data.wrapping_add(offset / row_bytes * stride + offset % row_bytes);
            // SAFETY: the byte is one of a row.
            unsafe { to.write(*byte) };
        }
        from += len;
    }
    true
}

#[cfg(test)]
mod tests;
