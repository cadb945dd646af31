//! Text, slices and tables in static memory, and untyped runs of bytes.

use std::fmt;

abi_struct! {
    /// UTF-8 text in static memory.
    #[derive(Clone, Copy)]
    pub struct RawStr {
        ptr: *const u8,
        len: usize,
    }
}

// SAFETY: the text is immutable and static, so any thread may read it.
unsafe impl Send for RawStr {}
// SAFETY: the text is immutable and static, so threads may read it at once.
unsafe impl Sync for RawStr {}

impl RawStr {
    /// No text.
    pub const EMPTY: Self = Self::new("");

    /// The same text in the form that tables hold.
    pub const fn new(text: &'static str) -> Self {
        Self { ptr: text.as_ptr(), len: text.len() }
    }

    /// The text; empty where a foreign table holds a null pointer or no valid UTF-8.
    pub const fn get(&self) -> &'static str {
        if self.ptr.is_null() {
            return "";
        }
        // SAFETY: made from a static string, or vouched for by whoever opened a C package's table.
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
    /// The same slice in the form that tables hold.
    pub const fn new(items: &'static [T]) -> Self {
        Self { ptr: items.as_ptr(), len: items.len() }
    }

    /// The slice; empty where a foreign table holds a null pointer.
    pub const fn get(&self) -> &'static [T] {
        if self.ptr.is_null() {
            return &[];
        }
        // SAFETY: made from a static slice, or vouched for by whoever opened a C package's table.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl<T: fmt::Debug + 'static> fmt::Debug for Slice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.get(), f)
    }
}

/// A pointer to a structure in static memory, or null. A package's may be shorter than this version's, so a host copies
/// it before it looks at it.
#[repr(transparent)]
#[derive(Debug)]
pub struct StaticPtr<T>(*const T);

// SAFETY: what it points to is static and immutable, so it is as shareable as a reference to it.
unsafe impl<T: Sync> Send for StaticPtr<T> {}
// SAFETY: as for `Send`: nobody writes what `ptr` points to.
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

    /// A structure of this version.
    pub const fn new(to: &'static T) -> Self {
        Self(to)
    }

    /// The structure; nothing for null.
    pub const fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or a static structure of this version: one of this build, or the loader's copy of a package's.
        unsafe { self.0.as_ref() }
    }

    /// Where a package of any version says that it is.
    pub const fn raw(&self) -> *const T {
        self.0
    }
}

abi_struct! {
    /// A package's table in static memory. Its items are as large as they were for the version that the package
    /// was built with, so a host of a later version copies them out one by one and never reads them as a slice.
    pub struct Table<T> {
        ptr: *const T,
        len: u32,
        item_bytes: u32,
    }
}

// SAFETY: a shared static table is as shareable as a reference to its items.
unsafe impl<T: Sync> Send for Table<T> {}
// SAFETY: as for `Send`: nobody writes the items behind `ptr`.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Table<T> {}

impl<T: 'static> Table<T> {
    /// The same items in the form that packages hand out.
    ///
    /// # Panics
    /// There are more than 32 bits can count, which no package has; in a constant that stops the compiler.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked, and items have a few hundred bytes"
    )]
    pub const fn new(items: &'static [T]) -> Self {
        assert!(items.len() <= u32::MAX as usize, "more items than any package has");
        Self { ptr: items.as_ptr(), len: items.len() as u32, item_bytes: size_of::<T>() as u32 }
    }

    /// The first item; null in a foreign table that has none.
    pub const fn ptr(&self) -> *const T {
        self.ptr
    }

    /// How many items there are.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of one item as the package has it.
    pub const fn item_bytes(&self) -> usize {
        self.item_bytes as usize
    }

    /// The items of a table that this build made.
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
    /// A run of bytes that somebody else owns; null where there is none.
    #[derive(Clone, Copy, Debug)]
    pub struct Span {
        /// The first byte, aligned for its elements.
        pub ptr: *const u8,
        /// How many bytes follow.
        pub bytes: usize,
    }
}

impl Span {
    /// No bytes.
    pub const NONE: Self = Self { ptr: std::ptr::null(), bytes: 0 };
}

/// A slice from a pointer that may be null when it is empty.
///
/// # Safety
/// Where `len` is not 0, `ptr` must be valid for `len` reads of `T` for `'a`.
pub(crate) unsafe fn slice_or_empty<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 || ptr.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for pointer and length.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}
