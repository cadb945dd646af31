//! The memory of a kernel's outputs in the worker, each between inaccessible pages.

use std::ffi::c_void;
use std::io;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::contain::call::output_at;
use crate::contain::shared::{FAR, Rights, Segment};

/// The size of the inaccessible range around each output. It takes address space, not memory.
const GUARD: usize = 1 << 20;

/// Pages of a segment, separated by inaccessible ranges.
#[derive(Debug)]
pub(super) struct Window {
    at: *mut u8,
    len: usize,
    /// The size and address of each output; null for an empty output.
    outputs: Vec<(usize, *mut u8)>,
}

impl Window {
    /// Maps outputs of these sizes at the offsets that the host uses.
    pub(super) fn new(
        from_worker: &Segment,
        bytes: impl Iterator<Item = usize> + Clone,
    ) -> io::Result<Self> {
        let pages = |bytes: usize| if bytes == 0 { 0 } else { output_at(0, bytes).1 };
        let len = bytes.clone().map(|bytes| pages(bytes) + GUARD).sum::<usize>() + GUARD;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: at an address that the system chooses there is nothing yet that a mapping could replace.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), flags) }?;
        let mut window = Self { at: at.cast(), len, outputs: Vec::new() };
        let (mut place, mut file) = (GUARD, FAR);
        for bytes in bytes {
            let (from, end) = output_at(file, bytes);
            if bytes == 0 {
                window.outputs.push((0, ptr::null_mut()));
                continue;
            }
            let first = window.at.wrapping_add(place);
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: these pages are the window's own, and nothing lies in them.
            unsafe {
                mmap(
                    first.cast(),
                    end - file,
                    Rights::Write.flags(),
                    flags,
                    from_worker.file(),
                    file as u64,
                )
            }?;
            window.outputs.push((bytes, first.wrapping_add(from - file)));
            place += end - file + GUARD;
            file = end;
        }
        Ok(window)
    }

    /// Returns whether the window was created for outputs of these sizes.
    pub(super) fn is_for(&self, bytes: impl Iterator<Item = usize>) -> bool {
        self.outputs.iter().map(|(bytes, _)| *bytes).eq(bytes)
    }

    /// Returns the address of an output.
    pub(super) fn output(&self, port: usize) -> *mut u8 {
        self.outputs.get(port).map_or(ptr::null_mut(), |(_, at)| *at)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: `new` mapped these bytes, and no call is at them any more.
        let _refused = unsafe { munmap(self.at.cast::<c_void>(), self.len) };
    }
}
