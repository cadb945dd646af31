//! Argument blocks that begin with their size, which may come from another version.

use std::mem::MaybeUninit;

use super::finalize::{PackRequest, Tie, Work};
use super::gpu::{GpuLaunch, GpuTable};
use super::kernel::KernelVTable;

/// A structure that packages create and hosts read. It begins with its size, a `u32`, and later versions append fields.
///
/// # Safety
/// All fields from [`Block::FIRST_BYTES`] on may be zero.
pub unsafe trait Block: Copy {
    /// The size in the first minor version of this major one, which is the minimum.
    const FIRST_BYTES: u32;
}

// SAFETY: no version has added a field yet.
unsafe impl Block for PackRequest {
    const FIRST_BYTES: u32 = 96;
}
// SAFETY: no version has added a field yet.
unsafe impl Block for Tie {
    const FIRST_BYTES: u32 = 48;
}
// SAFETY: no version has added a field yet.
unsafe impl Block for Work {
    const FIRST_BYTES: u32 = 56;
}
// SAFETY: no version has added a field yet.
unsafe impl Block for GpuLaunch {
    const FIRST_BYTES: u32 = 152;
}
// SAFETY: no version has added a field yet.
unsafe impl Block for GpuTable {
    const FIRST_BYTES: u32 = 48;
}
// SAFETY: no version has added a field yet.
unsafe impl Block for KernelVTable {
    const FIRST_BYTES: u32 = 72;
}

/// Copies a block that a package created; fields that its version lacks become zero. Returns `None` if no version up to
/// this one has that size.
///
/// # Safety
/// `from` points to a readable block of the size that it begins with, at least 4 bytes, aligned for `T`.
pub unsafe fn copy_block<T: Block>(from: *const T) -> Option<MaybeUninit<T>> {
    // SAFETY: a block begins with its size, as the caller promises.
    let size = unsafe { from.cast::<u32>().read() };
    let is_aligned = (size as usize).is_multiple_of(align_of::<T>());
    if size < T::FIRST_BYTES || size as usize > size_of::<T>() || !is_aligned {
        return None;
    }
    let mut block = MaybeUninit::<T>::zeroed();
    let to = block.as_mut_ptr().cast::<u8>();
    // SAFETY: `from` has `size` bytes, as the caller promises, and `block` is at least as large.
    unsafe { to.copy_from_nonoverlapping(from.cast(), size as usize) };
    Some(block)
}

/// Copies a block like [`copy_block`] and returns it as a `T`.
///
/// # Safety
/// As for [`copy_block`], and the package initialized the fields of its version.
pub unsafe fn read_block<T: Block>(from: *const T) -> Option<T> {
    // SAFETY: `from` points to a block of the size that it begins with, and `copy_block` reads no more.
    let block = unsafe { copy_block(from) }?;
    // SAFETY: the package initialized the fields of the first version, and later fields may be zero.
    Some(unsafe { block.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::version::ABI_VERSION;

    /// A block of two words; the first version had one.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Grown {
        size: u32,
        old: u32,
        new: u64,
    }

    // SAFETY: `new` may be zero.
    unsafe impl Block for Grown {
        const FIRST_BYTES: u32 = 8;
    }

    #[test]
    fn first_bytes_are_those_of_the_first_minor_version() {
        let blocks = [
            (PackRequest::FIRST_BYTES, PackRequest::SIZE),
            (Tie::FIRST_BYTES, Tie::SIZE),
            (Work::FIRST_BYTES, Work::SIZE),
            (GpuLaunch::FIRST_BYTES, GpuLaunch::SIZE),
            (GpuTable::FIRST_BYTES, GpuTable::SIZE),
            (KernelVTable::FIRST_BYTES, KernelVTable::SIZE),
        ];
        for (first_bytes, current_bytes) in blocks {
            assert!(if ABI_VERSION.minor == 0 {
                first_bytes == current_bytes
            } else {
                first_bytes <= current_bytes
            });
        }
    }

    #[test]
    fn fields_that_an_earlier_version_lacks_are_zero() {
        let read_with_size = |size: u32| {
            let block = Grown { size, old: 7, new: 9 };
            // SAFETY: `block` has 16 bytes, and states at most that size where it is read.
            unsafe { read_block(&raw const block) }.map(|block| (block.old, block.new))
        };
        assert_eq!(read_with_size(16), Some((7, 9)));
        assert_eq!(read_with_size(8), Some((7, 0)));
        assert_eq!(read_with_size(4), None, "no version was that short");
        assert_eq!(read_with_size(12), None, "no version ends within a field");
        assert_eq!(read_with_size(24), None, "a later version than the host's");
        assert_eq!(read_with_size(0), None);
    }
}
