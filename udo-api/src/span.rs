//! Strings, slices and tables in static memory, and untyped byte ranges.

use std::fmt;

abi_struct! {
    /// A UTF-8 string in static memory.
    #[derive(Clone, Copy)]
    pub struct RawStr {
        ptr: *const u8,
        len: usize,
    }
}

// SAFETY: the string is immutable and static, so any thread may read it.
unsafe impl Send for RawStr {}
// SAFETY: the string is immutable and static, so threads may read it concurrently.
unsafe impl Sync for RawStr {}

impl RawStr {
    /// The empty string.
    pub const EMPTY: Self = Self::new("");

    /// Wraps a static string for tables.
    pub const fn new(text: &'static str) -> Self {
        Self { ptr: text.as_ptr(), len: text.len() }
    }

    /// Returns the string; empty if a package's table has a null pointer or invalid UTF-8.
    pub const fn get(&self) -> &'static str {
        if self.ptr.is_null() {
            return "";
        }
        // SAFETY: created from a static string, or the opener of a C package's table guarantees it.
        let bytes = unsafe { std::slice::from_raw_parts(self.ptr, self.len) };
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

impl PartialEq for RawStr {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl fmt::Debug for RawStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.get(), f)
    }
}

abi_struct! {
    /// A slice in static memory.
    pub struct Slice<T> {
        ptr: *const T,
        len: usize,
    }
}

// SAFETY: a shared static slice is as shareable as a reference to its elements.
unsafe impl<T: Sync> Send for Slice<T> {}
// SAFETY: a shared reference to this gives shared references to the elements, which are `Sync`.
unsafe impl<T: Sync> Sync for Slice<T> {}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slice<T> {}

impl<T: 'static> Slice<T> {
    /// Wraps a static slice for tables.
    pub const fn new(items: &'static [T]) -> Self {
        Self { ptr: items.as_ptr(), len: items.len() }
    }

    /// Returns the slice; empty if a package's table has a null pointer.
    pub const fn get(&self) -> &'static [T] {
        if self.ptr.is_null() {
            return &[];
        }
        // SAFETY: created from a static slice, or the opener of a C package's table guarantees it.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl<T: fmt::Debug + 'static> fmt::Debug for Slice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.get(), f)
    }
}

/// A pointer to a structure in static memory, or null. A package's structure may be shorter than this version's, so a
/// host copies it before reading it.
#[repr(transparent)]
#[derive(Debug)]
pub struct StaticPtr<T>(*const T);

// SAFETY: the structure is static and immutable, so it is as shareable as a reference to it.
unsafe impl<T: Sync> Send for StaticPtr<T> {}
// SAFETY: as for `Send`; nothing writes to the structure.
unsafe impl<T: Sync> Sync for StaticPtr<T> {}

impl<T> Clone for StaticPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for StaticPtr<T> {}

impl<T: 'static> StaticPtr<T> {
    /// Null.
    pub const NULL: Self = Self(std::ptr::null());

    /// Wraps a structure of this version.
    pub const fn new(target: &'static T) -> Self {
        Self(target)
    }

    /// Returns the structure; `None` for null.
    pub const fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or a static structure of this version: one of this build, or the loader's copy of a package's.
        unsafe { self.0.as_ref() }
    }

    /// Returns the pointer to the structure in a package of any version.
    pub const fn raw(&self) -> *const T {
        self.0
    }
}

abi_struct! {
    /// A package's table in static memory. Items have the size of the package's version, so a host of a later version
    /// copies them one by one and never reads the table as a slice.
    pub struct Table<T> {
        ptr: *const T,
        len: u32,
        item_bytes: u32,
    }
}

// SAFETY: a shared static table is as shareable as a reference to its items.
unsafe impl<T: Sync> Send for Table<T> {}
// SAFETY: as for `Send`; nothing writes to the items.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Table<T> {}

impl<T: 'static> Table<T> {
    /// Wraps a static slice for packages.
    ///
    /// # Panics
    /// The slice has more items than 32 bits can count. In a constant that is a compile error.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked, and items have a few hundred bytes"
    )]
    pub const fn new(items: &'static [T]) -> Self {
        assert!(items.len() <= u32::MAX as usize, "more items than any package has");
        Self { ptr: items.as_ptr(), len: items.len() as u32, item_bytes: size_of::<T>() as u32 }
    }

    /// Returns the pointer to the first item; null in an empty table of a C package.
    pub const fn ptr(&self) -> *const T {
        self.ptr
    }

    /// Returns the number of items.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the table is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size of one item in the package's version, in bytes.
    pub const fn item_bytes(&self) -> usize {
        self.item_bytes as usize
    }

    /// Returns the items of a table of this build.
    pub(crate) const fn own(&self) -> &'static [T] {
        if self.ptr.is_null() || self.item_bytes as usize != size_of::<T>() {
            return &[];
        }
        // SAFETY: `new` took `ptr` and `len` from a static slice of items of this size.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len as usize) }
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({} items of {} bytes)", self.len, self.item_bytes)
    }
}

abi_struct! {
    /// A byte range with another owner; null for an absent one.
    #[derive(Clone, Copy, Debug)]
    pub struct Span {
        /// The first byte, aligned for its elements.
        pub ptr: *const u8,
        /// The number of bytes.
        pub bytes: usize,
    }
}

impl Span {
    /// An absent range.
    pub const NONE: Self = Self { ptr: std::ptr::null(), bytes: 0 };
}

/// Builds a slice from a pointer that may be null if `len` is 0.
///
/// # Safety
/// If `len` is not 0, `ptr` must be valid for `len` reads of `T` for `'a`.
pub(crate) unsafe fn slice_or_empty<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 || ptr.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees pointer and length.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}
