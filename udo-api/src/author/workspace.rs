//! The size of a kernel's scratch memory.

use crate::abi::Workspace;
use crate::element::Element;

impl Workspace {
    /// No scratch.
    pub const NONE: Self = Self { bytes: 0, flags: 0 };
    /// All of the core's fast memory (VTCM), of any size. DSP cores only.
    pub const ALL_VTCM: Self = Self { bytes: 0, flags: 1 };
    /// The alignment of scratch, and of each piece taken from it, in bytes.
    pub const ALIGN_BYTES: usize = 64;

    /// The former name of [`Workspace::for_elements`].
    #[doc(hidden)]
    pub const fn of<T: Element>(len: usize) -> Self {
        Self::for_elements::<T>(len)
    }

    /// Returns a workspace of `len` elements of type `T`.
    pub const fn for_elements<T: Element>(len: usize) -> Self {
        Self { bytes: len.saturating_mul(size_of::<T>()), flags: 0 }
    }

    /// Appends `len` elements of type `T`, aligned to [`Workspace::ALIGN_BYTES`].
    #[must_use]
    pub const fn and<T: Element>(self, len: usize) -> Self {
        let start = self.bytes.saturating_add(Self::ALIGN_BYTES - 1) & !(Self::ALIGN_BYTES - 1);
        Self { bytes: start.saturating_add(len.saturating_mul(size_of::<T>())), flags: self.flags }
    }

    /// Returns the total size in bytes.
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// Whether a kernel sets flags that this version does not know.
    pub const fn has_unknown_flags(self) -> bool {
        self.flags > 1
    }

    /// Whether the kernel requests all of the core's fast memory.
    pub const fn wants_all_vtcm(self) -> bool {
        self.flags & 1 != 0
    }
}
