//! The bytes of a packed constant, a weight in the layout that a kernel reads: a buffer, or a part of a file.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::{ALIGN_BYTES, Buffer};

/// An owner of bytes that are read in place.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A packed constant as kernels read it, aligned to 64.
pub struct PackedBytes(Storage);

enum Storage {
    Own(Buffer),
    Shared { owner: SharedBytes, range: Range<usize> },
}

impl fmt::Debug for PackedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackedBytes({} bytes)", self.len())
    }
}

impl From<Buffer> for PackedBytes {
    fn from(buffer: Buffer) -> Self {
        Self(Storage::Own(buffer))
    }
}

impl PackedBytes {
    /// Borrows the bytes `range` of `owner` without a copy; `None` if the range is empty, out of bounds, or does
    /// not start at a multiple of 64.
    pub fn shared(owner: &SharedBytes, range: Range<usize>) -> Option<Self> {
        let bytes = (**owner).as_ref().get(range.clone())?;
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(ALIGN_BYTES);
        (is_aligned && !bytes.is_empty())
            .then(|| Self(Storage::Shared { owner: Arc::clone(owner), range }))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Storage::Own(buffer) => buffer.bytes(),
            Storage::Shared { owner, range } => {
                (**owner).as_ref().get(range.clone()).unwrap_or_default()
            }
        }
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Storage::Own(buffer) => buffer.len(),
            Storage::Shared { range, .. } => range.len(),
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address of the first byte, aligned to 64 unless it is empty.
    pub fn as_ptr(&self) -> *const u8 {
        match &self.0 {
            Storage::Own(buffer) => buffer.as_ptr(),
            Storage::Shared { .. } => self.bytes().as_ptr(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_parts_are_borrowed_without_a_copy() {
        let mut buffer = Buffer::zeroed(200).unwrap();
        buffer.bytes_mut().copy_from_slice(&(0..200).collect::<Vec<u8>>());
        let first = buffer.as_ptr().cast_const();
        let owner: SharedBytes = Arc::new(Owner(buffer));
        let part = PackedBytes::shared(&owner, 64..100).unwrap();
        assert_eq!((part.len(), part.as_ptr()), (36, first.wrapping_add(64)));
        assert_eq!(part.bytes()[..2], [64, 65]);
        for range in [32..64, 128..201, 0..0, 300..301] {
            assert!(PackedBytes::shared(&owner, range.clone()).is_none(), "{range:?}");
        }
        let own = PackedBytes::from(Buffer::from_bytes(&[1, 2]).unwrap());
        assert_eq!((own.bytes(), own.is_empty()), (&[1u8, 2][..], false));
    }

    struct Owner(Buffer);

    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            self.0.bytes()
        }
    }
}
