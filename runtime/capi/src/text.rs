//! Text that is handed out.

use std::ffi::{CString, c_char};

/// The text without bytes of zero, which C would take for its end.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Keeps a text in the place of the last one: where it lies.
pub(crate) fn store(last: &mut CString, text: CString) -> *const c_char {
    *last = text;
    last.as_ptr()
}
