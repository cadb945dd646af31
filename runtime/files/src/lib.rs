//! Opens and writes files for all crates of the SDK.
//!
//! Paths come from command lines, configs, packages and caches, and other users may have put something else there than a
//! file. Readers therefore refuse everything but regular files, and everything that is larger than they expect; a
//! FIFO cannot block them and `/dev/zero` cannot fill the memory. Writers leave the old content or the new, whenever the process or the
//! machine stops: they write a temporary file under a random name in the folder of the target, flush it to disk,
//! rename it, and flush the folder.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("settings.json");
//! udo_files::write(&path, b"{}")?;
//! assert_eq!(udo_files::read_to_string(&path, udo_files::TEXT_BYTES)?, "{}");
//! # Ok(())
//! # }
//! ```

mod folder;
mod owner;
mod read;
mod write;

pub use folder::NewFolder;
pub use owner::{is_readable_by_others, writable_by};
pub use read::{open, open_no_link, read, read_from, read_to_string};
pub use write::{Access, create_new, remove_abandoned, write, write_output, write_with};

/// The largest text file that is read: configs, indexes, lists, pages.
pub const TEXT_BYTES: u64 = 256 << 20;

/// The largest binary file that is read into memory: tensors, captures, libraries, models.
pub const BINARY_BYTES: u64 = 1 << 40;
