//! How much scratch, or geometry, a kernel asks for.

use crate::abi::Workspace;
use crate::element::Element;

impl Workspace {
    /// No scratch.
    pub const NONE: Self = Self { bytes: 0, flags: 0 };
    /// All of the core's fast memory (VTCM), however much that is. DSP cores only.
    pub const ALL_VTCM: Self = Self { bytes: 0, flags: 1 };
    /// The alignment of scratch, and of each piece taken from it, in bytes.
    pub const ALIGN_BYTES: usize = 64;

    /// Room for `len` elements of type `T`.
    pub const fn of<T: Element>(len: usize) -> Self {
        Self { bytes: len.saturating_mul(size_of::<T>()), flags: 0 }
    }

    /// Room for `self`, then for `len` elements of type `T`.
    #[must_use]
    pub const fn and<T: Element>(self, len: usize) -> Self {
        let start = self.bytes.saturating_add(Self::ALIGN_BYTES - 1) & !(Self::ALIGN_BYTES - 1);
        Self { bytes: start.saturating_add(len.saturating_mul(size_of::<T>())), flags: self.flags }
    }

    /// Bytes in all.
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// Whether a foreign kernel sets flags that mean nothing here.
    pub const fn has_unknown_flags(self) -> bool {
        self.flags > 1
    }

    /// Whether all of the core's fast memory is wanted.
    pub const fn wants_all_vtcm(self) -> bool {
        self.flags & 1 != 0
    }
}
