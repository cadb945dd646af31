//! Reports which tensor a kernel overran when the processor stops it.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use super::memory::{SLOTS, role_of};

/// The descriptor for the message.
static TELL: AtomicI32 = AtomicI32::new(-1);

/// Installs a handler that writes memory faults to `fd` as a line of JSON before they end the process.
pub(crate) fn install(fd: RawFd) {
    TELL.store(fd, Ordering::Relaxed);
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: all bytes of the structure may be zero.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        // SAFETY: the handler uses only atomics, its stack and a descriptor; if it is not installed, only the message
        // is missing.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// Runs on the faulting thread. Its flags let the next fault, at the same instruction, end the process.
extern "C" fn on_fault(_signal: c_int, about: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the system passes information about the signal, and an address for these two signals.
    let about = unsafe { &*about };
    // SAFETY: as above.
    let address = unsafe { about.si_addr() }.addr();
    let mut line = Line::default();
    line.text("{\"fault\":\"");
    explain(&mut line, address);
    line.text("\"}\n");
    let fd = TELL.load(Ordering::Relaxed);
    // SAFETY: the bytes belong to the line.
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
            ", which is read-only"
        } else {
            ""
        });
        line.text(" (");
        line.number(len);
        line.text(" bytes)");
        return;
    }
    line.text(if address < 4096 {
        "dereferences a null pointer"
    } else {
        "touches memory outside the call's tensors, or overflows its stack"
    });
}

/// A string of bounded length that does not use the heap.
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

    fn describe(address: usize) -> String {
        let mut line = Line::default();
        explain(&mut line, address);
        String::from_utf8(line.bytes[..line.len].to_vec()).unwrap()
    }

    #[test]
    fn a_fault_names_the_tensor_and_the_byte() {
        let region = Region::new(Role::Input(3), 40, 4, Flush::End).unwrap();
        let at = region.bytes().as_ptr().addr();
        assert_eq!(describe(at + 40), "touches byte 0 behind input 3 (40 bytes)");
        assert_eq!(describe(at + 1234), "touches byte 1194 behind input 3 (40 bytes)");
        assert_eq!(describe(at - 8), "touches byte 8 before input 3 (40 bytes)");
        assert_eq!(describe(at + 4), "writes to byte 4 of input 3, which is read-only (40 bytes)");
        assert_eq!(describe(0), "dereferences a null pointer");
    }
}
