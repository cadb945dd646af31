//! The bytes of a file, memory-mapped where possible.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ptr::NonNull;

use super::pages;

/// All bytes of a file for reading: mapped, so that the system can reclaim the memory, or read if mapping is not
/// possible.
///
/// Truncating a mapped file ends the process at the next access to the missing bytes. Replacing the file by a new one
/// is safe.
pub struct FileBytes(Bytes);

enum Bytes {
    Read(Vec<u8>),
    Mapped { start: NonNull<u8>, len: usize },
}

// SAFETY: nothing writes to the mapping, and `self` is its only owner.
unsafe impl Send for FileBytes {}
// SAFETY: as above.
unsafe impl Sync for FileBytes {}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileBytes({} bytes)", self.as_ref().len())
    }
}

impl FileBytes {
    /// Maps or reads `file` from its start.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(file: &mut File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        // Files whose content the system generates report a size of 0.
        let len = usize::try_from(metadata.len()).unwrap_or(0);
        if metadata.is_file()
            && len > 0
            && let Some(start) = pages::file(file, len)
        {
            return Ok(Self(Bytes::Mapped { start, len }));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self(Bytes::Read(bytes)))
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Read(bytes) => bytes,
            // SAFETY: the `len` bytes from `start` on are mapped for the lifetime of `self`, and nothing writes to
            // them.
            Bytes::Mapped { start, len } => unsafe {
                std::slice::from_raw_parts(start.as_ptr(), *len)
            },
        }
    }
}

impl Drop for FileBytes {
    fn drop(&mut self) {
        if let Bytes::Mapped { start, len } = self.0 {
            // SAFETY: `pages::file` mapped these bytes, and every borrow of them has ended.
            unsafe { pages::release(start, len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn file_bytes_equal_the_written_bytes() {
        let folder = tempfile::tempdir().unwrap();
        for len in [0usize, 1, 4095, 4096, 4097, 3 << 20] {
            let path = folder.path().join(len.to_string());
            let bytes: Vec<u8> = (0u8..251).cycle().take(len).collect();
            File::create(&path).unwrap().write_all(&bytes).unwrap();
            let read = FileBytes::open(&mut File::open(&path).unwrap()).unwrap();
            assert_eq!(read.as_ref(), bytes, "{len} bytes");
        }
    }

    #[test]
    fn files_that_cannot_be_mapped_are_read() {
        if cfg!(target_os = "linux") {
            let read = FileBytes::open(&mut File::open("/proc/self/status").unwrap()).unwrap();
            assert!(read.as_ref().starts_with(b"Name:"));
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(File::open(folder.path()).and_then(|mut file| FileBytes::open(&mut file)).is_err());
    }
}
