//! Says which tensor a kernel went beyond when the processor stops it there.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use super::memory::{SLOTS, role_of};

/// Where the message goes.
static TELL: AtomicI32 = AtomicI32::new(-1);

/// Has faults of memory be told to `fd`, as a line of JSON, before they end the process.
pub(crate) fn install(fd: RawFd) {
    TELL.store(fd, Ordering::Relaxed);
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: all bytes of the structure may be zero.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        // SAFETY: the handler touches nothing but atomics, its stack and a descriptor; where it is not installed, the
        // message is missing and nothing else.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// Runs on the thread that faults; by its flags the next fault, at the same instruction, ends the process.
extern "C" fn on_fault(_signal: c_int, about: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the system passes what it knows of the signal, and for these two signals an address.
    let about = unsafe { &*about };
    // SAFETY: as above.
    let address = unsafe { about.si_addr() }.addr();
    let mut line = Line::default();
    line.text("{\"fault\":\"");
    explain(&mut line, address);
    line.text("\"}\n");
    let fd = TELL.load(Ordering::Relaxed);
    // SAFETY: the bytes are the line's.
    unsafe { libc::write(fd, line.bytes.as_ptr().cast(), line.len) };
}

fn explain(line: &mut Line, address: usize) {
    for slot in &SLOTS {
        let base = slot.base.load(Ordering::Acquire);
        let mapped = slot.mapped.load(Ordering::Relaxed);
        if base < 2 || address < base || address - base >= mapped {
            continue;
        }
        let (data, len) = (slot.data.load(Ordering::Relaxed), slot.len.load(Ordering::Relaxed));
        let role = role_of(slot.role.load(Ordering::Relaxed));
        if address < data {
            line.text("touches byte ");
            line.number(data - address);
            line.text(" before ");
        } else if address >= data + len {
            line.text("touches byte ");
            line.number(address - data - len);
            line.text(" behind ");
        } else {
            line.text("writes to byte ");
            line.number(address - data);
            line.text(" of ");
        }
        line.text(role.name());
        if let Some(port) = role.port() {
            line.text(" ");
            line.number(port);
        }
        line.text(if address >= data && address < data + len {
            ", which is only to be read"
        } else {
            ""
        });
        line.text(" (");
        line.number(len);
        line.text(" bytes)");
        return;
    }
    line.text(if address < 4096 {
        "follows a null pointer"
    } else {
        "touches memory that is no tensor of the call, or its stack is full"
    });
}

/// A text of bounded length, made without the heap.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 256], len: 0 }
    }
}

impl Line {
    fn text(&mut self, text: &str) {
        for &byte in text.as_bytes() {
            if let Some(at) = self.bytes.get_mut(self.len) {
                *at = byte;
                self.len += 1;
            }
        }
    }

    fn number(&mut self, number: usize) {
        let mut unit = 1;
        while number / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            let digit = u8::try_from(number / unit % 10).unwrap_or(0);
            if let Some(at) = self.bytes.get_mut(self.len) {
                *at = b'0' + digit;
                self.len += 1;
            }
            unit /= 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use udo_testing::Role;

    use crate::raw::memory::{Flush, Region};

    fn said(address: usize) -> String {
        let mut line = Line::default();
        explain(&mut line, address);
        String::from_utf8(line.bytes[..line.len].to_vec()).unwrap()
    }

    #[test]
    fn a_fault_names_the_tensor_and_the_byte() {
        let region = Region::new(Role::Input(3), 40, 4, Flush::End).unwrap();
        let at = region.bytes().as_ptr().addr();
        assert_eq!(said(at + 40), "touches byte 0 behind input 3 (40 bytes)");
        assert_eq!(said(at + 1234), "touches byte 1194 behind input 3 (40 bytes)");
        assert_eq!(said(at - 8), "touches byte 8 before input 3 (40 bytes)");
        assert_eq!(
            said(at + 4),
            "writes to byte 4 of input 3, which is only to be read (40 bytes)"
        );
        assert_eq!(said(0), "follows a null pointer");
    }
}
