//! Where C meets Rust: errors for what a call refuses and for panics, and the only code that follows pointers.
//!
//! A type of [`pointers`] is a pointer as C passes it. Only C makes one, so what `udo.h` asks of the pointer holds: it is
//! NULL, or what it points to is there and stays as it is until the call returns. That is what every `SAFETY` here rests on.
//! Pointers to structures and handles are declared next to these, as one of [`List`], [`ListMut`], [`HandleAt`],
//! [`HandleList`], [`HandlePlaces`] and [`OptionsAt`] by a name that the header knows.

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::path::Path;

use udo_engine::device;
use udo_engine::device::{ImportMemory, Result};
use udo_runtime::device::ErrorCode;

use crate::argument::{invalid, need, null};
use crate::born::{Handle, live, live_or_none};
use crate::error::Error;
use crate::unwind::{caught, drop_all, forget};

/// Runs what a function does, and makes an error of what it refuses, and of a panic.
pub(crate) fn guard(call: impl FnOnce() -> Result<()>) -> Option<Box<Error>> {
    let outcome = caught(call).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let why = format!("a fault of this library: {}; please report it", said.unwrap_or("panic"));
        forget(panic);
        Err(device::Error::new(ErrorCode::Internal, why))
    });
    outcome.err().map(|error| Box::new(error.into()))
}

/// Drops a handle, unless a process made it that this one was forked of: what it stands for is that one's, and stays as it is.
pub(crate) fn release<T: Handle>(handle: Option<Box<T>>) {
    match handle {
        Some(handle) if !handle.born().is_here() => std::mem::forget(handle),
        handle => drop_all(handle),
    }
}

/// Gives a new handle to the caller.
pub(crate) fn hand_out<T>(out: &mut MaybeUninit<Option<Box<T>>>, made: T) {
    out.write(Some(Box::new(made)));
}

/// Declares pointers that C passes.
macro_rules! pointers {
    ($($(#[$doc:meta])* $name:ident($of:ty);)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(transparent)]
            pub struct $name($of);
        )*
    };
}

pointers! {
    /// Text that ends with a zero.
    Text(*const c_char);
    /// Strings.
    Texts(*const *const c_char);
    /// Bytes to be read.
    Bytes(*const c_void);
    /// Bytes to be written.
    BytesMut(*mut c_void);
    /// Dimensions.
    Dims(*const i64);
    /// Where dimensions go.
    DimsMut(*mut i64);
    /// Scales.
    Scales(*const f32);
    /// Zero points.
    ZeroPoints(*const i32);
    /// The argument of a callback.
    User(*mut c_void);
    /// Numbers of tensors.
    Indices(*const u32);
    /// Floating-point numbers.
    Doubles(*const f64);
    /// A file descriptor.
    FileDescriptor(i32);
}

/// Declares pointers to what generic ones lead to, by names that the header knows.
macro_rules! named_pointers {
    ($($(#[$doc:meta])* $name:ident($of:ty);)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(transparent)]
            pub struct $name($of);

            impl std::ops::Deref for $name {
                type Target = $of;

                fn deref(&self) -> &$of {
                    &self.0
                }
            }

            impl std::ops::DerefMut for $name {
                fn deref_mut(&mut self) -> &mut $of {
                    &mut self.0
                }
            }
        )*
    };
}
pub(crate) use named_pointers;

/// Declares generic pointers.
macro_rules! generic_pointers {
    ($($(#[$doc:meta])* $name:ident($of:ty);)*) => {
        $(
            $(#[$doc])*
            #[repr(transparent)]
            pub struct $name<T>($of);

            // A pointer may be copied whatever it leads to.
            impl<T> Clone for $name<T> {
                fn clone(&self) -> Self {
                    *self
                }
            }

            impl<T> Copy for $name<T> {}

            impl<T> fmt::Debug for $name<T> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_tuple(stringify!($name)).field(&self.0).finish()
                }
            }
        )*
    };
}

generic_pointers! {
    /// Structures to be read.
    List(*const T);
    /// Structures to be written.
    ListMut(*mut T);
    /// A handle, or NULL.
    HandleAt(*const T);
    /// Handles.
    HandleList(*const *const T);
    /// Handles, and where such go.
    HandlePlaces(*mut *mut T);
    /// Options, or NULL.
    OptionsAt(*const T);
}

/// The most of a list: more is a number that was never set, or counts something else.
const MOST_LISTED: usize = 1 << 16;

/// The most dimensions.
const MOST_DIMS: usize = 64;

/// The most numbers of a list.
const MOST_NUMBERS: usize = 1 << 24;

/// The most bytes of a structure of options, of whichever version.
const MOST_OPTION_BYTES: usize = 1 << 12;

/// Refuses a count above the most that there can be, before anything is read.
fn check_most(len: usize, most: usize, name: &str) -> Result<()> {
    if len <= most {
        return Ok(());
    }
    Err(invalid(format!("{len} elements of {name}; expected at most {most}")))
}

/// Returns the `len` elements from `first` on. If `len` is 0, `first` may be NULL.
///
/// # Safety
/// Unless it is NULL, `len` readable elements are at `first` for as long as the slice is used.
// SAFETY: what is asked of the caller stands above.
unsafe fn slice<'a, T>(first: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    check(first, len, name)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: `first` is neither NULL nor askew, its bytes can be counted, and the caller promises the elements.
    Ok(unsafe { std::slice::from_raw_parts(first, len) })
}

/// As [`slice`], to be written.
///
/// # Safety
/// Unless it is NULL, `len` elements are at `first` that nobody else looks at for as long as the slice is used.
// SAFETY: what is asked of the caller stands above.
unsafe fn slice_mut<'a, T>(first: *mut T, len: usize, name: &str) -> Result<&'a mut [T]> {
    check(first, len, name)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: `first` is neither NULL nor askew, its bytes can be counted, and the caller promises the elements.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, len) })
}

/// Whether a slice may be there at all.
fn check<T>(first: *const T, len: usize, name: &str) -> Result<()> {
    if len > 0 && first.is_null() {
        return Err(null(name));
    }
    if len > 0 && !first.is_aligned() {
        return Err(invalid(format!("argument {name} is not aligned for its elements")));
    }
    let bytes = len.checked_mul(size_of::<T>());
    match bytes.filter(|&bytes| bytes <= isize::MAX.cast_unsigned()) {
        Some(_) => Ok(()),
        None => Err(invalid(format!("{len} elements of {name} are more than can be counted"))),
    }
}

impl Text {
    /// The text; none of NULL.
    pub(crate) fn option(&self, name: &str) -> Result<Option<&str>> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: C passed text that ends with a zero, and it stays until the call returns.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(Some).map_err(|error| {
            let (at, bytes) = (error.valid_up_to(), text.to_bytes());
            let byte = bytes.get(at).copied().unwrap_or_default();
            let count = bytes.len();
            invalid(format!(
                "argument {name} is not UTF-8: byte {at} of its {count} is {byte}; expected text in UTF-8"
            ))
        })
    }

    /// The text.
    pub(crate) fn get(&self, name: &str) -> Result<&str> {
        need(self.option(name)?, name)
    }

    /// The path that the text is.
    pub(crate) fn path(&self, name: &str) -> Result<&Path> {
        self.get(name).map(Path::new)
    }
}

impl Texts {
    /// Returns the strings.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<Vec<Text>> {
        check_most(count, MOST_LISTED, name)?;
        // SAFETY: C passed `count` pointers, or NULL.
        let texts = unsafe { slice(self.0, count, name) }?;
        Ok(texts.iter().map(|&text| Text(text)).collect())
    }
}

impl Bytes {
    /// The bytes.
    pub(crate) fn get(&self, len: usize, name: &str) -> Result<&[u8]> {
        // SAFETY: C passed `len` bytes, or NULL.
        unsafe { slice(self.0.cast(), len, name) }
    }

    /// Whether it is NULL.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl BytesMut {
    /// The bytes.
    pub(crate) fn get(&mut self, len: usize, name: &str) -> Result<&mut [u8]> {
        // SAFETY: C passed `len` bytes that are this call's, or NULL.
        unsafe { slice_mut(self.0.cast(), len, name) }
    }

    /// Whether it is NULL.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl Dims {
    /// Integers that are no dimensions.
    pub(crate) fn integers(&self, count: usize, name: &str) -> Result<&[i64]> {
        check_most(count, MOST_NUMBERS, name)?;
        // SAFETY: C passed `count` integers, or NULL.
        unsafe { slice(self.0, count, name) }
    }

    /// The dimensions.
    pub(crate) fn get(&self, rank: usize, name: &str) -> Result<&[i64]> {
        check_most(rank, MOST_DIMS, name)?;
        // SAFETY: C passed `rank` dimensions, or NULL.
        unsafe { slice(self.0, rank, name) }
    }

    /// Whether it is NULL.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl DimsMut {
    /// The place of the dimensions.
    pub(crate) fn get(&mut self, rank: usize, name: &str) -> Result<&mut [i64]> {
        check_most(rank, MOST_DIMS, name)?;
        // SAFETY: C passed `rank` dimensions that are this call's, or NULL.
        unsafe { slice_mut(self.0, rank, name) }
    }

    /// Whether it is NULL.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl Scales {
    /// The scales.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<&[f32]> {
        check_most(count, MOST_NUMBERS, name)?;
        // SAFETY: C passed `count` scales, or NULL.
        unsafe { slice(self.0, count, name) }
    }
}

impl ZeroPoints {
    /// The zero points.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<&[i32]> {
        check_most(count, MOST_NUMBERS, name)?;
        // SAFETY: C passed `count` zero points, or NULL.
        unsafe { slice(self.0, count, name) }
    }
}

impl Indices {
    /// The numbers of tensors.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<&[u32]> {
        check_most(count, MOST_LISTED, name)?;
        // SAFETY: C passed `count` numbers, or NULL.
        unsafe { slice(self.0, count, name) }
    }
}

impl Doubles {
    /// The numbers.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<&[f64]> {
        check_most(count, MOST_NUMBERS, name)?;
        // SAFETY: C passed `count` numbers, or NULL.
        unsafe { slice(self.0, count, name) }
    }
}

impl<T> List<T> {
    /// The structures.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<&[T]> {
        check_most(count, MOST_LISTED, name)?;
        // SAFETY: C passed `count` structures, or NULL.
        unsafe { slice(self.0, count, name) }
    }
}

impl<T> ListMut<T> {
    /// The structures.
    pub(crate) fn get(&mut self, count: usize, name: &str) -> Result<&mut [T]> {
        check_most(count, MOST_LISTED, name)?;
        // SAFETY: C passed `count` structures that are this call's, or NULL.
        unsafe { slice_mut(self.0, count, name) }
    }
}

impl<T: Handle> HandleList<T> {
    /// The handles.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<Vec<&T>> {
        check_most(count, MOST_LISTED, name)?;
        // SAFETY: C passed `count` pointers, or NULL.
        let handles = unsafe { slice(self.0, count, name) }?;
        let handle = |(at, handle): (usize, &*const T)| {
            // SAFETY: C passed a handle, or NULL.
            live(unsafe { handle.as_ref() }, &format!("{name}[{at}]"))
        };
        handles.iter().enumerate().map(handle).collect()
    }
}

impl<T: Handle> HandlePlaces<T> {
    /// The handles that are there already; none where the call is to make one.
    pub(crate) fn get(&self, count: usize, name: &str) -> Result<Vec<Option<&T>>> {
        check_most(count, MOST_LISTED, name)?;
        // SAFETY: C passed `count` pointers, or NULL.
        let places = unsafe { slice(self.0.cast_const(), count, name) }?;
        let place = |(at, handle): (usize, &*mut T)| {
            // SAFETY: C passed a handle, or NULL.
            live_or_none(unsafe { handle.as_ref() }, &format!("{name}[{at}]"))
        };
        places.iter().enumerate().map(place).collect()
    }

    /// Replaces handles that are there, and hands out those that are not.
    pub(crate) fn set(&mut self, made: Vec<T>, name: &str) -> Result<()> {
        // SAFETY: C passed as many pointers as `get` was asked for, which are this call's.
        let places = unsafe { slice_mut(self.0, made.len(), name) }?;
        for (place, made) in places.iter_mut().zip(made) {
            // SAFETY: C passed a handle that is this call's, or NULL; no other reference to it is in use.
            match unsafe { place.as_mut() } {
                Some(handle) => *handle = made,
                None => *place = Box::into_raw(Box::new(made)),
            }
        }
        Ok(())
    }
}

impl<T: Handle> HandleAt<T> {
    /// The handle; none of NULL.
    pub(crate) fn get(&self, name: &str) -> Result<Option<&T>> {
        // SAFETY: C passed a handle, or NULL.
        live_or_none(unsafe { self.0.as_ref() }, name)
    }
}

// SAFETY: it is passed on and never followed; `udo.h` says that callbacks come on other threads.
unsafe impl Send for User {}

impl FileDescriptor {
    /// The file as memory of a device.
    #[cfg(target_os = "linux")]
    pub(crate) fn import(
        self,
        device: &device::Device,
        options: device::ImportOptions,
    ) -> Result<device::Memory> {
        // SAFETY: C passed a descriptor that is open until the call returns, or a negative number; an import is exclusive by
        // `UDO_SHARING_EXCLUSIVE`, with which C promises what that asks for.
        unsafe { device.import_fd(self.0, options) }
    }

    /// A descriptor of the file that a memory lies in.
    #[cfg(target_os = "linux")]
    pub(crate) fn export(memory: &device::Memory) -> Result<std::os::fd::OwnedFd> {
        // SAFETY: `udo.h` says what a program promises that allocates or imports memory by `UDO_SHARING_EXCLUSIVE`.
        unsafe { memory.export_fd_exclusive() }
    }
}

/// The options of a call: their size, then fields for which zero is the default.
///
/// # Safety
/// The type is `repr(C)`, starts with a `usize`, and all of its fields are numbers and pointers.
// SAFETY: what is asked of who implements it stands above.
pub unsafe trait Options: Sized {}

/// As much of the options as the caller knows of, and zeros.
///
/// # Safety
/// It is NULL, or points to a `usize` and as many bytes as that says, itself included.
// SAFETY: what is asked of the caller stands above.
unsafe fn options<T: Options>(from: *const T) -> Result<T> {
    let mut options = MaybeUninit::<T>::zeroed();
    if !from.is_null() {
        let known = size_of::<T>();
        let first = from.cast::<u8>();
        if !from.cast::<usize>().is_aligned() {
            return Err(invalid("argument options is not aligned for its fields"));
        }
        // SAFETY: the size comes first, and is there.
        let size = unsafe { from.cast::<usize>().read() };
        let sizes = size_of::<usize>()..=MOST_OPTION_BYTES;
        if !sizes.contains(&size) || !size.is_multiple_of(align_of::<usize>()) {
            return Err(invalid(format!(
                "options.size is {size}; expected sizeof of the structure, which is {known}"
            )));
        }
        let more = first.wrapping_add(known.min(size));
        // SAFETY: `size` bytes are there, of which these are those behind what is known.
        let more = unsafe { slice(more, size.saturating_sub(known), "options") }?;
        if more.iter().any(|&byte| byte != 0) {
            return Err(device::Error::new(
                ErrorCode::Unsupported,
                format!(
                    "options.size is {size}, and this library knows {known} bytes, behind which something is set; leave it \
                     zero, or use a newer library"
                ),
            ));
        }
        // SAFETY: `size` bytes are there, `known` have room, and neither is part of the other.
        unsafe { first.copy_to_nonoverlapping(options.as_mut_ptr().cast(), known.min(size)) };
    }
    // SAFETY: its fields are numbers and pointers, of which all bytes were set.
    Ok(unsafe { options.assume_init() })
}

impl<T: Options> OptionsAt<T> {
    /// The options.
    pub(crate) fn get(self) -> Result<T> {
        // SAFETY: C passed options that say how many bytes they have, or NULL.
        unsafe { options(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::UDO_ERROR_INTERNAL;
    use crate::error::{udo_error_code, udo_error_message};

    #[test]
    fn a_panic_becomes_an_error() {
        let error = guard(|| panic!("a fault"));
        assert_eq!(udo_error_code(error.as_deref()), UDO_ERROR_INTERNAL);
        // SAFETY: the message is the error's, which is there, and ends with a zero.
        let message = unsafe { CStr::from_ptr(udo_error_message(error.as_deref())) };
        assert_eq!(message.to_str(), Ok("a fault of this library: a fault; please report it"));
    }
}
