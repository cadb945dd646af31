//! Calls of kernels in the worker: reads the arguments that the host wrote, and writes the answer.

use std::ptr;

use udo_api::abi::{ExecArgs, Span, TensorArg, arg_flags};
use udo_api::guard::OWN_GUARD;
use udo_api::{DType, Encoding, Status};
use udo_host::{Buffer, failure};

use super::window::Window;
use super::{Refused, WorkerState};
use crate::contain::Request;
use crate::contain::call::{EXTENTS, MESSAGE, head, tail};
use crate::contain::shared::{BULK, FAR, HEAD, Segment, words};
use crate::contain::wire::InvalidMessage;

/// A reader of the words at the start of a call.
struct Words<'a> {
    from_host: &'a Segment,
    at: usize,
}

impl Words<'_> {
    fn next(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.from_host.load(self.at, &mut bytes);
        self.at += 8;
        u64::from_ne_bytes(bytes)
    }

    fn number(&mut self) -> usize {
        usize::try_from(self.next()).unwrap_or(usize::MAX)
    }
}

impl WorkerState {
    /// Executes a call and writes the answer.
    pub(super) fn call(&mut self, what: Request) {
        let called = self.run(what);
        let mut words = [0; tail::WORDS];
        if let Err(Failed { status, detail, text }) = called {
            let text = &text.as_bytes()[..text.floor_char_boundary(tail::MESSAGE)];
            words[tail::STATUS] = u64::from(status);
            words[tail::DETAIL..tail::MESSAGE_BYTES].copy_from_slice(&detail);
            words[tail::MESSAGE_BYTES] = text.len() as u64;
            self.from_worker.store(MESSAGE, text);
        }
        self.put_words(HEAD, &words);
    }

    fn put_words(&self, at: usize, words: &[u64]) {
        for (index, word) in words.iter().enumerate() {
            self.from_worker.store(at + index * 8, &word.to_ne_bytes());
        }
    }

    fn run(&mut self, what: Request) -> Result<(), Failed> {
        let mut words = Words { from_host: self.from_host, at: HEAD };
        let mut head = [0; head::WORDS];
        for word in &mut head {
            *word = words.next();
        }
        let number = |at: usize| usize::try_from(head[at]).unwrap_or(usize::MAX);
        let ports = [number(head::INPUTS), number(head::OUTPUTS)];
        self.tensors.clear();
        let mut places = Vec::with_capacity(ports.iter().sum());
        for _ in 0..ports.iter().sum() {
            places.push(words.number());
            self.tensors.push(tensor(&mut words));
        }
        self.spans.clear();
        for _ in 0..number(head::PACKED) {
            let (at, bytes) = (words.number(), words.number());
            let ptr = self.from_host.place(at, bytes).ok_or(InvalidMessage)?.cast_const();
            self.spans.push(Span { ptr, bytes });
        }
        self.grow(what, number(head::SCRATCH), number(head::GEOMETRY_BYTES))?;
        let table = self.pool(number(head::WIDTH))?.map(crate::thread_pool::Pool::table_of_its_own);
        let parallel = table.map(|mut table| {
            table.stop = ptr::from_ref(self.from_host.word(words::STOP)).cast();
            table
        });
        self.place(head[head::KERNEL], ports, &places)?;
        let state = self.states.get(&head[head::KERNEL]).ok_or(InvalidMessage)?;
        let geometry = match what {
            Request::Prepare => self.geometry.as_ptr(),
            _ => self
                .from_host
                .place(number(head::GEOMETRY), number(head::GEOMETRY_BYTES))
                .ok_or(InvalidMessage)?,
        };
        let guard = state.guard.unwrap_or(OWN_GUARD);
        let count = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let args = ExecArgs {
            size: ExecArgs::SIZE,
            input_count: count(ports[0]),
            output_count: count(ports[1]),
            state: state.kernel.state(),
            tensors: self.tensors.as_mut_ptr(),
            packed: self.spans.as_ptr(),
            scratch: self.scratch.as_ptr(),
            scratch_bytes: number(head::SCRATCH),
            guard: guard.cell(),
            parallel: parallel.as_ref().map_or(ptr::null(), ptr::from_ref),
            untaken: head[head::UNTAKEN],
            unsaid: head[head::UNSAID],
            geometry,
            geometry_bytes: number(head::GEOMETRY_BYTES),
            packed_count: count(self.spans.len()),
            reserved: [0; 3],
        };
        let function = match what {
            Request::Prepare => {
                state.def.vtable().and_then(|functions| functions.prepare).ok_or(InvalidMessage)?
            }
            _ => state.kernel.execute_fn(),
        };
        // SAFETY: the arguments point to tensors whose elements lie in what the host gave or in the kernel's own window, to
        // constants, scratch and geometry, all of which outlive the call; the state is that of the function's kernel.
        let status = unsafe { function(&raw const args) };
        if status != Status::OK.code() {
            let failure = failure(status, guard);
            return Err(Failed { status, detail: failure.error.detail, text: failure.message });
        }
        match what {
            Request::Prepare => self.put_geometry(number(head::GEOMETRY_BYTES))?,
            _ => self.put_extents(ports),
        }
        Ok(())
    }

    /// Enlarges scratch and geometry buffers to the needs of a call.
    fn grow(&mut self, what: Request, scratch: usize, geometry: usize) -> Result<(), Failed> {
        let room = |bytes| Buffer::zeroed(bytes).map_err(|error| Refused(1, error.to_string()));
        if self.scratch.len() < scratch {
            self.scratch = room(0)?;
            self.scratch = room(scratch)?;
        }
        if what == Request::Prepare {
            self.geometry = room(geometry)?;
        }
        Ok(())
    }

    /// Sets the addresses of a call's tensors.
    fn place(
        &mut self,
        kernel: u64,
        [inputs, outputs]: [usize; 2],
        places: &[usize],
    ) -> Result<(), Failed> {
        let state = self.states.get_mut(&kernel).ok_or(InvalidMessage)?;
        let bytes = self.tensors.iter().skip(inputs).take(outputs).map(capacity_bytes);
        if !state.window.as_ref().is_some_and(|window| window.is_for(bytes.clone())) {
            state.window = None;
            let window = Window::new(&self.from_worker, bytes);
            state.window = Some(window.map_err(|error| Refused(1, error.to_string()))?);
        }
        let window = state.window.as_ref().ok_or(InvalidMessage)?;
        for (index, (tensor, &at)) in self.tensors.iter_mut().zip(places).enumerate() {
            tensor.axis_encoding = state.axes.get(index).copied().flatten();
            let is_there = tensor.flags & arg_flags::ABSENT == 0 && at != 0;
            let pair = usize::from(tensor.in_place).checked_sub(1);
            let is_paired = tensor.flags & arg_flags::PAIRED != 0;
            tensor.data = match (index.checked_sub(inputs), pair.filter(|_| is_paired)) {
                (Some(port), _) => window.output(port),
                _ if !is_there => ptr::null_mut(),
                (None, Some(port)) => window.output(port),
                // Kernels must not write inputs; the mapping is read-only.
                (None, None) => {
                    self.from_host.place(at, capacity_bytes(tensor)).ok_or(InvalidMessage)?
                }
            };
        }
        Ok(())
    }

    fn put_geometry(&self, bytes: usize) -> Result<(), Failed> {
        let geometry = self.geometry.bytes().get(..bytes).ok_or(InvalidMessage)?;
        if bytes <= FAR - BULK && self.from_worker.store(BULK, geometry) {
            return Ok(());
        }
        Err(InvalidMessage.into())
    }

    /// Writes the extents of bounded outputs.
    fn put_extents(&self, [inputs, outputs]: [usize; 2]) {
        for (port, tensor) in self.tensors.iter().skip(inputs).take(outputs).enumerate() {
            if tensor.bounded == 0 {
                continue;
            }
            let mut words = [tensor.len as u64; tail::EXTENTS];
            for (word, &dim) in words.iter_mut().skip(1).zip(&tensor.dims) {
                *word = dim as u64;
            }
            self.put_words(EXTENTS + port * tail::EXTENTS * 8, &words);
        }
    }
}

/// A failed call.
struct Failed {
    status: u32,
    detail: [u64; 2],
    text: String,
}

impl From<Refused> for Failed {
    fn from(Refused(status, text): Refused) -> Self {
        Self { status, detail: [0; 2], text }
    }
}

impl From<InvalidMessage> for Failed {
    fn from(garbled: InvalidMessage) -> Self {
        Refused::from(garbled).into()
    }
}

/// Returns the capacity of a tensor in bytes.
fn capacity_bytes(arg: &TensorArg) -> usize {
    let is_there = arg.flags & arg_flags::ABSENT == 0;
    let element = arg.dtype().map_or(0, DType::size_bytes);
    if is_there { arg.capacity.saturating_mul(element) } else { 0 }
}

/// Reads a tensor argument. Its data pointer is set later.
fn tensor(words: &mut Words<'_>) -> TensorArg {
    let mut arg = TensorArg::ABSENT;
    (arg.len, arg.capacity, arg.row_stride) = (words.number(), words.number(), words.number());
    let small = words.next().to_le_bytes();
    [arg.dtype, arg.rank, arg.flags, arg.bounded] = [small[0], small[1], small[2], small[3]];
    arg.in_place = u16::from_le_bytes([small[4], small[5]]);
    arg.has_encoding = u16::from_le_bytes([small[6], small[7]]);
    let encoding = words.next().to_le_bytes();
    let half = |at: usize| [encoding[at], encoding[at + 1], encoding[at + 2], encoding[at + 3]];
    arg.encoding =
        Encoding { scale: f32::from_le_bytes(half(0)), zero_point: i32::from_le_bytes(half(4)) };
    for dim in &mut arg.dims {
        *dim = words.number();
    }
    arg
}
