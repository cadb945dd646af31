//! The heap firewall: an allocator that detects heap use while a kernel executes.
//!
//! Each library has its own [`GuardAlloc`] and one [`GuardCell`] per thread. The host asks for a thread's cell once and
//! passes the pointer with every call, so that arming it costs two stores; only an allocation pays for the thread-local
//! look-up. IREE and pgrx keep failures of plug-ins inside the failing call in a similar way.

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{ExecError, Status};

/// The maximum size of a panic message in bytes.
const MESSAGE_BYTES: usize = 216;

/// The state of the heap firewall on one thread. Only the library that owns it, or a copy of this crate in it, accesses
/// its fields.
pub struct GuardCell {
    armed: Cell<u32>,
    capturing: Cell<u32>,
    uses: Cell<u64>,
    first_bytes: Cell<u64>,
    detail: Cell<[u64; 2]>,
    message_bytes: Cell<usize>,
    message: UnsafeCell<[u8; MESSAGE_BYTES]>,
}

abi_struct! {
    /// The report of a failed call.
    #[derive(Clone, Copy)]
    pub struct GuardReport {
        detail: [u64; 2],
        message_bytes: usize,
        message: [u8; 216],
        reserved_words: [u64; 4],
    }
}

impl fmt::Debug for GuardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardReport").field(&self.detail).field(&self.message()).finish()
    }
}

impl GuardReport {
    /// An empty report.
    pub const NONE: Self = Self {
        detail: [0; 2],
        message_bytes: 0,
        message: [0; MESSAGE_BYTES],
        reserved_words: [0; 4],
    };

    /// Creates the report of a host that answers for a library: the numbers of the [`ExecError`] and a message, which
    /// is truncated if it is too long.
    pub fn new(detail: [u64; 2], text: &str) -> Self {
        let message_bytes = text.floor_char_boundary(text.len().min(MESSAGE_BYTES));
        let mut message = [0; MESSAGE_BYTES];
        for (to, byte) in message.iter_mut().zip(&text.as_bytes()[..message_bytes]) {
            *to = *byte;
        }
        Self { detail, message_bytes, message, ..Self::NONE }
    }

    /// Returns the numbers of the [`ExecError`].
    pub const fn detail(&self) -> [u64; 2] {
        self.detail
    }

    /// Returns the panic message; empty if there was no panic.
    pub fn message(&self) -> String {
        let bytes = self.message.get(..self.message_bytes).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// `[finalize-time, thread-safe]` Returns the calling thread's cell of a library.
pub type CellFn = extern "C" fn() -> *mut GuardCell;

/// `[finalize-time, thread-safe]` Takes and clears the report of a failed call on this thread.
// SAFETY: only a type; callers pass memory for a report.
pub type ReportFn = unsafe extern "C" fn(report: *mut GuardReport);

/// A library's guard on the calling thread, as a host reaches it.
#[derive(Clone, Copy, Debug)]
pub struct LibraryGuard {
    cell: CellFn,
    report: ReportFn,
}

/// The guard of the program or library that contains this code.
pub const OWN_GUARD: LibraryGuard = LibraryGuard { cell: own_cell, report: own_report };

extern "C" fn own_cell() -> *mut GuardCell {
    this_thread()
}

// SAFETY: the host passes memory for a report.
unsafe extern "C" fn own_report(report: *mut GuardReport) {
    let taken_report = with_this_thread(GuardCell::take_report);
    // SAFETY: the host passes memory for a report of this version or a later one, which has the same prefix.
    unsafe { report.write(taken_report) };
}

impl LibraryGuard {
    /// Creates a guard from a library's table.
    pub const fn new(cell: CellFn, report: ReportFn) -> Self {
        Self { cell, report }
    }

    /// Returns the calling thread's cell, for the arguments of calls.
    pub fn cell(&self) -> *mut GuardCell {
        (self.cell)()
    }

    /// Returns a number that identifies the library.
    pub fn id(&self) -> usize {
        self.cell as usize
    }

    pub(crate) const fn parts(self) -> (CellFn, ReportFn) {
        (self.cell, self.report)
    }

    /// Takes and clears the report of a failed call on this thread.
    pub fn take_report(&self) -> GuardReport {
        let mut report = GuardReport::NONE;
        // SAFETY: the library writes a report of its own version, which is no longer than this one.
        unsafe { (self.report)(&raw mut report) };
        report
    }
}

impl fmt::Debug for GuardCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardCell")
            .field("armed", &self.armed)
            .field("uses", &self.uses)
            .finish_non_exhaustive()
    }
}

/// The heap use and panics of guarded calls on one thread.
#[derive(Clone, Copy)]
pub(crate) struct Traces {
    uses: u64,
    first_bytes: u64,
    message_bytes: usize,
    message: [u8; MESSAGE_BYTES],
}

impl Traces {
    pub(crate) const NONE: Self =
        Self { uses: 0, first_bytes: 0, message_bytes: 0, message: [0; MESSAGE_BYTES] };

    /// Adds the traces of another thread; the first message wins.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.uses == 0 {
            self.first_bytes = other.first_bytes;
        }
        self.uses += other.uses;
        if self.message_bytes == 0 {
            self.message_bytes = other.message_bytes;
            self.message = other.message;
        }
    }
}

impl GuardCell {
    const fn new() -> Self {
        Self {
            armed: Cell::new(0),
            capturing: Cell::new(0),
            uses: Cell::new(0),
            first_bytes: Cell::new(0),
            detail: Cell::new([0; 2]),
            message_bytes: Cell::new(0),
            message: UnsafeCell::new([0; MESSAGE_BYTES]),
        }
    }

    /// Enters the heap-free region; regions nest.
    #[inline]
    pub(crate) fn enter(&self) {
        self.armed.set(self.armed.get() + 1);
    }

    /// Leaves the heap-free region; returns whether the heap was used in it.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        self.armed.set(self.armed.get().wrapping_sub(1));
        self.uses.get() != 0
    }

    /// Counts a call of the allocator inside the heap-free region.
    fn note(&self, bytes: usize) {
        if self.armed.get() == 0 {
            return;
        }
        if self.uses.get() == 0 {
            self.first_bytes.set(bytes as u64);
        }
        self.uses.set(self.uses.get() + 1);
    }

    /// Records why a call failed. Heap use replaces the status.
    #[cold]
    pub(crate) fn settle(&self, error: ExecError) -> Status {
        let uses = self.uses.replace(0);
        let status = if uses == 0 { error.status } else { error.status.worse(Status::HEAP_USE) };
        self.detail.set(if status == Status::HEAP_USE && uses != 0 {
            [uses, self.first_bytes.get()]
        } else {
            error.detail
        });
        status
    }

    /// Runs `body` and stores panic messages here; returns `None` if it panicked.
    pub(crate) fn capture<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        self.capturing.set(self.capturing.get() + 1);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        self.capturing.set(self.capturing.get() - 1);
        outcome.map_err(discard).ok()
    }

    /// Takes and clears the report of a failed call.
    fn take_report(&self) -> GuardReport {
        let message_bytes = self.message_bytes.replace(0);
        // SAFETY: the cell belongs to its thread, and there are no references into it.
        let message = unsafe { *self.message.get() };
        GuardReport {
            detail: self.detail.replace([0; 2]),
            message_bytes,
            message,
            ..GuardReport::NONE
        }
    }

    pub(crate) fn take_message(&self) -> String {
        let bytes = self.message_bytes.replace(0);
        // SAFETY: the cell belongs to its thread, and there are no references into it.
        let buffer = unsafe { &*self.message.get() };
        String::from_utf8_lossy(buffer.get(..bytes).unwrap_or_default()).into_owned()
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.get() != 0
    }

    /// Runs `body` outside the heap-free region.
    pub(crate) fn disarmed(&self, body: impl FnOnce()) {
        let armed = self.armed.replace(0);
        body();
        self.armed.set(armed);
    }

    /// Takes the traces of calls on this thread, for another thread's cell.
    pub(crate) fn take_traces(&self) -> Traces {
        let message_bytes = self.message_bytes.replace(0);
        // SAFETY: the cell belongs to its thread, and there are no references into it.
        let message = unsafe { *self.message.get() };
        Traces {
            uses: self.uses.replace(0),
            first_bytes: self.first_bytes.get(),
            message_bytes,
            message,
        }
    }

    /// Adds the traces of calls on another thread.
    pub(crate) fn adopt(&self, traces: &Traces) {
        if self.uses.get() == 0 {
            self.first_bytes.set(traces.first_bytes);
        }
        self.uses.set(self.uses.get() + traces.uses);
        if traces.message_bytes != 0 {
            self.message_bytes.set(traces.message_bytes);
            // SAFETY: the cell belongs to its thread, and there are no references into it.
            unsafe { *self.message.get() = traces.message };
        }
    }

    pub(crate) fn write_message(&self, text: fmt::Arguments<'_>) {
        self.message_bytes.set(0);
        let written = MessageWriter(self).write_fmt(text);
        debug_assert!(written.is_ok(), "the writer truncates, it does not fail");
    }
}

/// Appends text to the message of a cell, truncated to its capacity.
struct MessageWriter<'a>(&'a GuardCell);

impl Write for MessageWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = self.0.message_bytes.get();
        // SAFETY: the cell belongs to its thread, and this is the only reference into the buffer.
        let buffer = unsafe { &mut *self.0.message.get() };
        let free = buffer.get_mut(start..).unwrap_or_default();
        let len = text.floor_char_boundary(free.len().min(text.len()));
        for (to, byte) in free.iter_mut().zip(&text.as_bytes()[..len]) {
            *to = *byte;
        }
        self.0.message_bytes.set(start + len);
        Ok(())
    }
}

/// Drops a panic payload; if its drop panics, the new payload is leaked.
#[cold]
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
    if let Err(second) = dropped {
        std::mem::forget(second);
    }
}

thread_local! {
    // A constant initializer without a destructor: reading it never allocates.
    static CELL: GuardCell = const { GuardCell::new() };
}

/// Returns the calling thread's cell of this library.
pub fn this_thread() -> *mut GuardCell {
    CELL.with(|cell| std::ptr::from_ref(cell).cast_mut())
}

/// Runs a destructor without unwinding into the host, which finds a panic's message in the guard.
pub(crate) fn quietly(body: &mut dyn FnMut()) {
    with_this_thread(|cell| cell.capture(body));
}

/// Runs `body` on the calling thread's cell.
pub(crate) fn with_this_thread<R>(body: impl FnOnce(&GuardCell) -> R) -> R {
    CELL.with(body)
}

/// Sends the panic messages of guarded calls to their guard instead of standard error.
///
/// Other panics go to the previous hook.
pub fn install_panic_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let captured = CELL.with(|cell| {
                let captures = cell.armed.get() != 0 || cell.capturing.get() != 0;
                if captures {
                    describe_panic(cell, info);
                }
                captures
            });
            if !captured {
                previous(info);
            }
        }));
    });
}

fn describe_panic(cell: &GuardCell, info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a payload that is not a string");
    match info.location() {
        Some(location) => {
            cell.write_message(format_args!("{text} ({}:{})", location.file(), location.line()));
        }
        None => cell.write_message(format_args!("{text}")),
    }
}

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of calls of this library's allocator (allocate, free, resize) on all threads.
///
/// Always 0 if [`GuardAlloc`] is not the global allocator.
pub fn heap_calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

thread_local! {
    static THREAD_CALLS: Cell<u64> = const { Cell::new(0) };
}

/// Returns [`heap_calls`] of the calling thread only.
pub fn thread_heap_calls() -> u64 {
    THREAD_CALLS.get()
}

/// The system's allocator with a watch on heap-free regions.
///
/// An allocation inside a heap-free region succeeds, but the call that made it fails with `HEAP_USE`. The export macro
/// installs the allocator in every package. Programs that link built-in operators install it themselves:
///
/// ```
/// #[global_allocator]
/// static GUARD: udo_api::GuardAlloc = udo_api::GuardAlloc;
/// # fn main() { assert!(udo_api::guard::heap_calls() > 0); }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GuardAlloc;

#[inline]
fn note(bytes: usize) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    THREAD_CALLS.with(|calls| calls.set(calls.get() + 1));
    CELL.with(|cell| cell.note(bytes));
}

// SAFETY: every call is forwarded to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for GuardAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller upholds the contract of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller upholds the contract of `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        note(layout.size());
        // SAFETY: the caller upholds the contract of `System`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size);
        // SAFETY: the caller upholds the contract of `System`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_calls_count_only_inside_a_region() {
        let cell = GuardCell::new();
        cell.note(8);
        cell.enter();
        cell.note(24);
        cell.note(100);
        assert!(cell.leave());
        assert_eq!(cell.settle(ExecError::new(Status::OK)), Status::HEAP_USE);
        assert_eq!(cell.take_report().detail(), [2, 24]);
        cell.enter();
        assert!(!cell.leave(), "the report clears the count");
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let cell = GuardCell::new();
        cell.write_message(format_args!("{}", "ä".repeat(200)));
        let message = cell.take_report().message();
        assert_eq!(message, "ä".repeat(MESSAGE_BYTES / 2));
    }
}
