//! Blocks of arguments that begin with their size, as another version may have made them.

use std::mem::MaybeUninit;

use super::finalize::{PackRequest, Tie, Work};
use super::gpu::{GpuLaunch, GpuTable};
use super::kernel::KernelVTable;

/// A structure that packages make and hosts read: it begins with its size, a `u32`, and later versions add fields behind
/// those of this one.
///
/// # Safety
/// All fields from [`Block::FIRST_BYTES`] on may be zero.
pub unsafe trait Block: Copy {
    /// Its bytes in the first minor version of this major one: no package has fewer.
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

/// Copies a block that a package made; fields that its version lacks are zero. Nothing where its size is none that a
/// package of this major version, and no later minor one, says.
///
/// # Safety
/// `from` points to a block of as many readable bytes as its head says, at least 4, aligned for `T`.
pub unsafe fn copy_block<T: Block>(from: *const T) -> Option<MaybeUninit<T>> {
    // SAFETY: a block begins with its size, as the caller promises.
    let size = unsafe { from.cast::<u32>().read() };
    let is_whole = (size as usize).is_multiple_of(align_of::<T>());
    if size < T::FIRST_BYTES || size as usize > size_of::<T>() || !is_whole {
        return None;
    }
    let mut block = MaybeUninit::<T>::zeroed();
    let to = block.as_mut_ptr().cast::<u8>();
    // SAFETY: `from` has `size` bytes, as the caller promises, and `block` has room for no fewer.
    unsafe { to.copy_from_nonoverlapping(from.cast(), size as usize) };
    Some(block)
}

/// As [`copy_block`], of a block that any bits make, but for the fields that may be zero.
///
/// # Safety
/// As for [`copy_block`], and what the package wrote is a `T` as far as it goes.
pub unsafe fn read_block<T: Block>(from: *const T) -> Option<T> {
    // SAFETY: `from` points to as many bytes as the size at its head says, of which `copy_block` takes no more.
    let block = unsafe { copy_block(from) }?;
    // SAFETY: the package filled in the fields of the first version, and those behind them may be zero.
    Some(unsafe { block.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::version::ABI_VERSION;

    /// A block of two words, of which the first version had one.
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
        for (first, now) in blocks {
            assert!(if ABI_VERSION.minor == 0 { first == now } else { first <= now });
        }
    }

    #[test]
    fn what_an_earlier_version_lacks_is_zero() {
        let of = |size: u32| {
            let block = Grown { size, old: 7, new: 9 };
            // SAFETY: `block` has 16 bytes, and says no more where it is read.
            unsafe { read_block(&raw const block) }.map(|block| (block.old, block.new))
        };
        assert_eq!(of(16), Some((7, 9)));
        assert_eq!(of(8), Some((7, 0)));
        assert_eq!(of(4), None, "no version was as short");
        assert_eq!(of(12), None, "no version ends within a field");
        assert_eq!(of(24), None, "of a later version than the host's");
        assert_eq!(of(0), None);
    }
}
