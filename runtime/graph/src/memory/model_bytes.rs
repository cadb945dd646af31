//! The bytes of a model's file, mapped or read into memory. Importers read from them, and weights stay in them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use prost::bytes::Bytes;

use super::{Buffer, FileBytes};

/// The bytes of a model's file. Clones share the memory.
#[derive(Clone, Debug)]
pub struct ModelBytes(pub(crate) Bytes);

/// Aligned memory that bytes are read into.
struct Owned(Buffer);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl ModelBytes {
    /// Copies bytes into aligned memory, or into unaligned memory if that allocation fails.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let copy = Buffer::from_bytes(bytes).map(|buffer| Bytes::from_owner(Owned(buffer)));
        Self(copy.unwrap_or_else(|_| Bytes::copy_from_slice(bytes)))
    }

    /// Maps a file, or reads it where mapping is not possible. The file must not change while the bytes are used.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn map_file(path: &Path) -> io::Result<Self> {
        Self::map(udo_files::open(path)?)
    }

    /// Maps an open file, as [`ModelBytes::map_file`].
    ///
    /// # Errors
    /// It cannot be read.
    pub fn map(mut file: File) -> io::Result<Self> {
        Ok(Self(Bytes::from_owner(FileBytes::open(&mut file)?)))
    }

    /// Reads a file into memory. Later changes of the file have no effect.
    ///
    /// # Errors
    /// Fails if the file cannot be read or there is not enough memory.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut file = udo_files::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let mut buffer = Buffer::zeroed(len).map_err(io::Error::other)?;
        file.read_exact(buffer.bytes_mut())?;
        let mut unannounced = Vec::new();
        // Pipes and files below `/proc` report a length of 0.
        if len == 0 && file.read_to_end(&mut unannounced)? > 0 {
            return Ok(Self(unannounced.into()));
        }
        Ok(Self(Bytes::from_owner(Owned(buffer))))
    }
}

impl AsRef<[u8]> for ModelBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
