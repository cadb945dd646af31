//! Immutable bytes: a buffer, or a part of a file.

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
    Shared { of: SharedBytes, at: Range<usize> },
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
    /// Returns the bytes `at` of `of` without a copy; `None` if they are out of range or not
    /// aligned.
    pub fn shared(of: &SharedBytes, at: Range<usize>) -> Option<Self> {
        let bytes = (**of).as_ref().get(at.clone())?;
        let is_aligned = bytes.as_ptr().addr().is_multiple_of(ALIGN_BYTES);
        (is_aligned && !bytes.is_empty()).then(|| Self(Storage::Shared { of: Arc::clone(of), at }))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Storage::Own(buffer) => buffer.bytes(),
            Storage::Shared { of, at } => (**of).as_ref().get(at.clone()).unwrap_or_default(),
        }
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Storage::Own(buffer) => buffer.len(),
            Storage::Shared { at, .. } => at.len(),
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
    fn parts_of_others_are_read_where_they_lie() {
        let mut buffer = Buffer::zeroed(200).unwrap();
        buffer.bytes_mut().copy_from_slice(&(0..200).collect::<Vec<u8>>());
        let first = buffer.as_ptr().cast_const();
        let of: SharedBytes = Arc::new(Owner(buffer));
        let part = PackedBytes::shared(&of, 64..100).unwrap();
        assert_eq!((part.len(), part.as_ptr()), (36, first.wrapping_add(64)));
        assert_eq!(part.bytes()[..2], [64, 65]);
        for at in [32..64, 128..201, 0..0, 300..301] {
            assert!(PackedBytes::shared(&of, at.clone()).is_none(), "{at:?}");
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
